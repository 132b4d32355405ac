"""What a reader should know before any table: what is missing, what views could not show, who the strangers are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from palate.data import is_nobody
from palate.evaluation._paired import ALL, few_carry
from palate.evaluation._ratings import Ratings
from palate.evaluation._results import Gain, OverBaseline, Result
from palate.evaluation._run import RatedItem
from palate.evaluation._shown import Shown
from palate.report import CLEAR, count
from palate.runs import LOST, ViewLine
from palate.stats import distinct
from palate.views import NO_FURTHER_STRANGER, ViewSpec

MANY_EMPTY = 0.1
"""From this share of the items on, what a view lacks is said."""
_PARTS = {"posts": "post", "judgements": "judgement", "oracle": "aspect"}
"""The kinds of parts that pieces of a view are shown as, where they are called otherwise."""
_ENOUGH_USERS = 20
"""Where users weigh as unequally as if there were fewer, those who were not seen may matter."""


def view_warnings(spec: ViewSpec, lines: Iterable[ViewLine] | Shown, items: int) -> list[str]:
    """What a reader should know of this view: what is empty, what was withheld, and who the strangers are."""
    shown = lines if isinstance(lines, Shown) else Shown(lines)
    if not len(shown) or not spec.pieces:
        return []
    return [
        *_empty(spec, shown, items),
        *_withheld(spec, shown, items),
        *_borrowed(spec, shown, items),
        *_strangers(spec, shown),
    ]


def _empty(spec: ViewSpec, shown: Shown, items: int) -> list[str]:
    found = []
    silent = spec.shows("user")
    nothing = shown.items_without()
    if nothing and not silent and spec.is_profile:
        found.append(
            f"{spec.name}: {nothing} of {items} items have nothing to show; its gains are measured on the other "
            f"{items - nothing}."
        )
    for piece in spec.pieces if len(spec.pieces) > 1 else ():
        lacking = shown.items_without(_PARTS.get(piece.kind, piece.kind))
        if piece.kind not in ("user", "neighbours") and spec.is_profile and lacking > MANY_EMPTY * items:
            found.append(f"{spec.name}: {lacking} of {items} items have no {piece.kind} to show.")
    return found


def _withheld(spec: ViewSpec, shown: Shown, items: int) -> list[str]:
    withheld = shown.column(lambda line: line.withheld)
    if not withheld.any() or not spec.is_profile:
        return []
    return [
        f"{spec.name}: for {np.count_nonzero(withheld)} of {items} items, what holds a text of the item, or "
        f"nearly, was left out ({count(int(withheld.sum()), 'piece')}): it could tell the answer."
    ]


def _borrowed(spec: ViewSpec, shown: Shown, items: int) -> list[str]:
    if not spec.neighbours or not spec.is_profile:
        return []
    lenders = {user for line in shown.lines for user in line.neighbours}
    if not lenders:
        return [f"{spec.name}: nothing was borrowed: everybody has enough history, or nobody has any to lend."]
    return [
        f"{spec.name}: for {shown.column(lambda line: bool(line.neighbours)).sum()} of {items} items, what is known of "
        f"the user was filled up from similar users ({count(len(lenders), 'user')})."
    ]


def _strangers(spec: ViewSpec, shown: Shown) -> list[str]:
    """Said only where strangers are poor controls: of another topic, though many are not."""
    circles = shown.count(lambda line: line.closeness)
    near = sum(circles[name] for name in ("topic and batch", "topic", "batch"))
    if spec.whose != "swapped" or not near or circles["anybody"] <= MANY_EMPTY * len(shown):
        return []
    return [
        f"{spec.name}: in {circles['anybody']} of {len(shown)} cases nobody of the same topic or batch has as much to "
        "show, and the stranger is anybody."
    ]


_IN_COMMON = {
    "same pair": "who judged the same pair",
    "topic and batch": "of the same topic who were asked some of the same questions",
    "topic": "of the same topic",
    "batch": "who were asked some of the same questions",
    "anybody": "who may be anybody",
}
"""What a stranger has in common with the user."""


def stranger_match(spec: ViewSpec, shown: Shown, own: Shown) -> list[str]:
    """Who stood in for the users in this view, in a sentence; nothing where nobody did."""
    if spec.whose not in ("swapped", "co-annotator") or not len(shown):
        return []
    drawn = np.unique(shown.items, return_counts=True)[1]
    each = len(shown) / len(drawn)
    circles = shown.count(lambda line: line.closeness or "")
    near = ", ".join(f"{share / len(shown):.0%} {_IN_COMMON.get(name, name)}" for name, share in circles.most_common())
    found = f"{spec.name}: {each:.1f} strangers for each item, {shown.people} people in all, {near}"
    if not spec.shows("user") and len(own):
        pieces = np.zeros(max(shown.items.max(), own.items.max()) + 1, np.int64)
        pieces[own.items] = own.column(lambda line: sum(line.kinds.values()))
        theirs, users = shown.column(lambda line: sum(line.kinds.values())), pieces[shown.items]
        found += (
            f". They show {int(theirs.sum()) / len(shown):.1f} pieces of history, the user "
            f"{int(users.sum()) / len(shown):.1f}"
        )
    if fewer := np.count_nonzero(drawn < spec.draws):
        found += f". For {fewer} of {len(drawn)} items there are fewer than {spec.draws}"
    return [found + "."]


def run_warnings(
    views: Sequence[ViewSpec],
    ratings: Ratings,
    results: Sequence[Result],
    gains: Sequence[Gain],
    over: Sequence[OverBaseline],
) -> list[str]:
    """Everything that would mislead whoever reads the tables alone."""
    found = []
    if ratings.lost:
        found.append(LOST.format(count=ratings.lost))
    if ratings.to_make:
        found.append(f"{ratings.to_make} ratings are still to be made: run the same command again.")
    if len(ratings.items) and is_nobody(item.user_id for item in ratings.items):
        found.append(
            "The data name no users, so each item counts as somebody of its own: intervals are about new items, and "
            "nothing here tells personal taste from what everybody likes."
        )
    found += data_warnings(ratings.items)
    if ratings.n_clusters < 30:
        users = count(ratings.n_clusters, "independent user")
        couples = " (couples of twins count as one)" if any(item.twin for item in ratings.items) else ""
        found.append(f"Only {users}{couples}. Intervals from so few can mislead.")
    found += _about_unscored(ratings, results)
    for spec in views:
        found += view_warnings(spec, ratings.shown(spec.name), len(ratings.items))
    for result in results:
        orders = result.orders
        if orders and orders.flipped > 0.2 * orders.pairs:
            found.append(
                f"{result.rm}, {result.view}: {orders.flipped} of {orders.pairs} verdicts flipped with the order; what "
                f"stood first won {orders.first:.0%} of the time."
            )
    if any(view.is_profile for view in views) and not any(view.whose == "swapped" for view in views):
        found.append("No swapped view: a gain over none could come from any profile, not this user's.")
    return found + _about_few(ratings, gains, over)


def _about_unscored(ratings: Ratings, results: Sequence[Result]) -> list[str]:
    """A line for each view and reason, however many models it holds for: often the view itself cannot be shown."""
    models: dict[tuple[str, str], list[str]] = {}
    for result in results:
        if result.unscored > 0.02 * len(ratings.items):
            reasons = ratings.tally(result.rm, result.view).reasons
            # the reason is why an earlier stranger gave no score
            reason, _ = min(reasons.most_common(), key=lambda counted: counted[0] == NO_FURTHER_STRANGER)
            what = f"{result.unscored} of {len(ratings.items)} items unscored, most often: {reason}."
            models.setdefault((result.view, what), []).append(result.rm)
    asked = Counter(result.view for result in results)
    return [
        f"{'every model' if 1 < len(names) == asked[view] else ' and '.join(names)}, {view}: {what}"
        for (view, what), names in models.items()
    ]


def data_warnings(items: Sequence[RatedItem]) -> list[str]:
    """In one line, what `palate data check` says too of the items that were rated: nothing else counts them again."""
    empty = sum(not all(text.strip() for text in item.responses) for item in items)
    choices = distinct(
        (item.user_id, item.prompt, sorted(set(item.responses)), item.responses[item.preferred]) for item in items
    )
    said = [f"{count(empty, 'item has', 'items have')} an empty response"] if empty else []
    if again := len(items) - choices:
        said.append(f"{count(again, 'item repeats', 'items repeat')} an earlier choice of the same user")
    return [f"In the data, {' and '.join(said)}; palate data check says where."] if said else []


def _about_few(ratings: Ratings, gains: Sequence[Gain], over: Sequence[OverBaseline]) -> list[str]:
    """Warnings where few users hold the items, few items are shared by all, or few users carry a gain."""
    warnings = []
    sizes = np.bincount(ratings.clusters).astype(float)
    alike = sizes.sum() ** 2 / np.sum(sizes**2)
    if round(alike) < _ENOUGH_USERS <= len(sizes):
        warnings.append(
            f"A few users hold most of the items: the {len(sizes)} users count like {alike:.0f}. Intervals from so few "
            "can mislead, since an effect that few people have may not have been seen at all."
        )
    if ratings.too_few_units:
        warnings.append(
            f"All users judge the same {count(ratings.too_few_units, 'item')}: the intervals are about new users, and "
            "say nothing about new items."
        )
    clear: list[tuple[str, Gain | OverBaseline]] = [
        *((f"{one.rm}, {one.view} over {one.over}", one) for one in gains if one.q < CLEAR),
        *((f"{one.rm}, {one.view} over {one.than}", one) for one in over if one.q < CLEAR and one.known == ALL),
    ]
    return warnings + [
        f"{what}: few users carry this. Without {one.carried_by} of the {one.users} it would not be clear."
        for what, one in clear
        if few_carry(one.carried_by, one.users)
    ]
