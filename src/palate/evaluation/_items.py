"""The items that the page of an evaluation lets one browse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from palate.evaluation._order import is_control
from palate.evaluation._ratings import Rated, Ratings, browsed_items
from palate.evaluation._run import RatedItem, Settings, presented_order
from palate.records import Rating
from palate.report import ItemCard, ItemRating, ItemText, Outcome
from palate.rewards import own_words
from palate.runs import Run, profiles_shown, view_label
from palate.stats import credit
from palate.views import NO_FURTHER_STRANGER

LONGEST_TEXT = 20_000
"""Characters of one text that the page shows; the run folder holds the whole."""


class Browsed(NamedTuple):
    """The items of the page with their ratings, by model and view."""

    items: Sequence[RatedItem]
    ratings: Mapping[tuple[str, str], Rated]

    @classmethod
    def of(cls, ratings: Ratings) -> Browsed:
        """All items of a run, or as many as a page can hold."""
        return cls(browsed_items(ratings.items), ratings.browsed)


def item_cards(run: Run[Settings], browsed: Browsed | None = None) -> list[ItemCard]:
    """The items of the page; the run is read where what was read of it is not at hand."""
    items, ratings = browsed or Browsed.of(Ratings.of(run))
    draws = {view.name: view.draws for view in run.settings.views}
    profiles = profiles_shown(run, {item.id for item in items})
    asked = sorted(ratings, key=lambda key: is_control(key[0]))
    return [
        item_card(
            item,
            presented_order(item, run.settings.seed),
            {view: _cut(text) for view, text in profiles.get(item.id, {}).items()},
            [
                (rm, view_label(view, draw), rating)
                for rm, view in asked
                for draw in range(draws[view])
                if (rating := ratings[rm, view].get((item.id, draw))) is not None
                and rating.unscored != NO_FURTHER_STRANGER
            ],
        )
        for item in items
    ]


def item_card(
    item: RatedItem, order: list[int], profiles: dict[str, str], ratings: list[tuple[str, str, Rating]]
) -> ItemCard:
    """One comparison with all that was shown and said; its responses stand in the order that the models saw."""
    facts = {"category": item.category, "difficulty": item.difficulty, "contrast": item.contrast}
    return ItemCard(
        id=item.id,
        user=item.user_id,
        prompt=_cut(item.prompt),
        texts=[
            ItemText(
                label=f"Response {place + 1}",
                text=_cut(item.responses[index]),
                tags=["preferred by this user"] if index == item.preferred else [],
                highlighted=index == item.preferred,
            )
            for place, index in enumerate(order)
        ],
        facts={name: fact for name, fact in facts.items() if fact},
        profiles=profiles,
        ratings=[
            item_rating(
                rm,
                view,
                rating,
                scores=None if rating.scores is None else [rating.scores[index] for index in order],
                outcome=outcome_of(rating, item.preferred),
            )
            for rm, view, rating in ratings
        ],
    )


def item_rating(
    rm: str, view: str, rating: Rating, *, scores: Sequence[float | None] | None, outcome: Outcome | None = None
) -> ItemRating:
    """What a page shows of a rating; `scores` stand in the order of the item's texts."""
    return ItemRating(
        by=rm,
        control=is_control(rm),
        view=view,
        outcome=outcome,
        scores=scores,
        note=rating.unscored or rating.note,
        raw=_cut(own_words(rating.raw)) if rating.raw else None,
    )


def outcome_of(rating: Rating, preferred: int) -> Outcome:
    """What a rating comes to, for the response that the user preferred."""
    if rating.scores is None:
        return "unscored"
    earned = credit(rating.scores, preferred)
    return "right" if earned >= 1 else "wrong" if earned <= 0 else "tied"


def _cut(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}\n[{len(text) - LONGEST_TEXT:,} more characters are in the run folder]"
