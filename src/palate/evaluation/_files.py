"""The files of a report, and the items that its page lets one browse."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from palate.evaluation._asks import presented_order
from palate.evaluation._document import evaluation_document
from palate.evaluation._groups import is_control
from palate.evaluation._ratings import Ratings
from palate.evaluation._results import Summary
from palate.evaluation._run import RatedItem, Run
from palate.records import Rating
from palate.report import ItemCard, ItemRating, ItemText, Outcome
from palate.runs import write_document
from palate.stats import credit

MOST_BROWSED = 500
LONGEST_TEXT = 20_000
"""Characters of one text that the page shows; the run folder holds the whole."""


def without_users(summary: Summary) -> Summary:
    """The summary with nothing about any single user."""
    return msgspec.structs.replace(summary, user_accuracies=[])


def write_reports(run: Run, summary: Summary, *, users: bool = True) -> Path:
    """Write report.html, report.md, results.csv and summary.json into the run folder; the page's path.

    Without `users`, none of them holds an item, a profile, an id or a number of a single user.
    """
    items = item_cards(run) if users else []
    summary = summary if users else without_users(summary)
    document = evaluation_document(summary, items, left_out=max(0, summary.items - len(items)))
    return write_document(run.folder, summary, document)


def item_cards(run: Run, most: int = MOST_BROWSED) -> list[ItemCard]:
    """The items of the page: all of them, or as many as a page can hold, drawn by their ids."""
    ratings = Ratings.of(run)
    drawn = sorted(ratings.items, key=lambda item: hashlib.sha256((item.group or item.id).encode()).digest())[:most]
    kept = {item.id for item in drawn}
    parts = run.parts()
    draws = {view.name: view.draws for view in run.settings.views}
    profiles: dict[str, dict[str, str]] = {}
    for line in run.views():
        if line.item in kept:
            text = "\n\n".join(parts.get(key, "") for key in line.parts)
            profiles.setdefault(line.item, {})[_label(line.view, line.draw)] = _cut(text)
    asked = sorted(ratings.credits, key=lambda key: is_control(key[0]))
    return [
        item_card(
            item,
            presented_order(item, run.settings.seed),
            profiles.get(item.id, {}),
            [
                (rm, _label(view, draw), rating)
                for rm, view in asked
                for draw in range(draws[view])
                if (rating := ratings.rated(rm, view).get((item.id, draw))) is not None
            ],
        )
        for item in ratings.items
        if item.id in kept
    ]


def item_card(
    item: RatedItem, order: list[int], profiles: dict[str, str], ratings: list[tuple[str, str, Rating]]
) -> ItemCard:
    """One comparison with all that was shown and said; its responses stand in the order that the models saw."""
    facts = {"category": item.category, "difficulty": item.difficulty}
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
            ItemRating(
                by=rm,
                view=view,
                outcome=outcome_of(rating, item.preferred),
                scores=None if rating.scores is None else [rating.scores[index] for index in order],
                note=rating.unscored or rating.note,
                raw=_cut(rating.raw) if rating.raw else None,
            )
            for rm, view, rating in ratings
        ],
    )


def outcome_of(rating: Rating, preferred: int) -> Outcome:
    """What a rating comes to, for the response that the user preferred."""
    if rating.scores is None:
        return "unscored"
    earned = credit(rating.scores, preferred)
    return "right" if earned >= 1 else "wrong" if earned <= 0 else "tied"


def _label(view: str, draw: int) -> str:
    """The name of a view, with a number for its second stranger and those that follow."""
    return f"{view} ({draw + 1})" if draw else view


def _cut(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}\n[{len(text) - LONGEST_TEXT:,} more characters are in the run folder]"
