"""What is wrong with a benchmark, and what would mislead whoever measures with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from palate.data._balance import longer_faults, position_faults
from palate.data._draft import Draft, integrity
from palate.data._faults import Fault, error, gathered, warning
from palate.data._leaks import history_faults, leak_faults
from palate.data._load import read_draft
from palate.records import Comparison, Judgement, Post, came_before


def check_benchmark(spec: str | Path, *, data_dir: Path | None = None, revision: str | None = None) -> list[Fault]:
    """Every error and warning about a benchmark, with file and line where it has them; errors first.

    >>> check_benchmark("mini")
    []
    """
    draft = read_draft(spec, data_dir=data_dir, revision=revision, extras=True)
    faults = [*draft.faults, *integrity(draft)]
    # the other rules read `chosen`, which a wrong index does not have
    draft.comparisons = [
        (item, place) for item, place in draft.comparisons if 0 <= item.preferred < len(item.responses) > 1
    ]
    for rule in _RULES:
        faults += rule(draft)
    return sorted(faults, key=lambda fault: fault.severity)


def _same_as_chosen(draft: Draft) -> Iterator[Fault]:
    for item, place in draft.comparisons:
        if item.chosen in item.rejected:
            yield error(place, "chosen", f"{item.id!r}: chosen is also a rejected response; remove the row")


def _people(draft: Draft) -> Iterator[Fault]:
    items = Counter(item.user_id for item, _ in draft.items())
    bare = [(user.id, place) for user, place in draft.users if not (user.posts or user.judgements)]
    unused = [(user.id, place) for user, place in draft.users if user.id not in items]
    yield from gathered(bare, None, "user without history, so nothing to be personal with")
    yield from gathered(unused, None, "user without a comparison or completion")
    if len(draft.users) == 1:
        message = "there is only one user, so nothing tells what is personal from what everybody likes"
        yield warning(draft.users[0][1], None, message)


def _responses(draft: Draft) -> Iterator[Fault]:
    texts = [(item.id, place, item.responses) for item, place in draft.comparisons]
    texts += [(item.id, place, item.alternatives) for item, place in draft.completions]
    empty = [(id, place) for id, place, each in texts if not all(text.strip() for text in each)]
    yield from gathered(empty, None, "empty response")


def _repeated_choices(draft: Draft) -> Iterator[Fault]:
    seen: set[tuple[str, str, frozenset[str], str]] = set()
    again = []
    for item, place in draft.comparisons:
        key = (item.user_id, item.prompt, frozenset(item.responses), item.chosen)
        if key in seen:
            again.append((item.id, place))
        seen.add(key)
    yield from gathered(again, None, "repeats a choice that the same user made in an earlier row")


def _twins(draft: Draft) -> Iterator[Fault]:
    items = {item.id: item for item, _ in draft.comparisons}
    lost = [(item.id, place) for item, place in draft.comparisons if item.twin and item.twin not in items]
    crooked = [
        (item.id, place)
        for item, place in draft.comparisons
        if item.twin in items and not _mirrors(item, items[item.twin])
    ]
    yield from gathered(lost, "twin", "names a comparison that does not exist")
    yield from gathered(crooked, "twin", "its twin is not its mirror (same responses, opposite choice)")


def _mirrors(item: Comparison, twin: Comparison) -> bool:
    return twin.twin == item.id and set(twin.responses) == set(item.responses) and twin.chosen != item.chosen


def _late_history(draft: Draft) -> Iterator[Fault]:
    """History dated on or after an item; judgements and posts that are items themselves are so by design."""
    ids = {item.id for item, _ in draft.items()}
    history: dict[str, list[Post | Judgement]] = {}
    for user, _ in draft.users:
        past: list[Post | Judgement] = [*user.posts, *user.judgements]
        history[user.id] = [one for one in past if one.id not in ids]
    late = [
        (item.id, place)
        for item, place in draft.items()
        if any(not came_before(one, item) for one in history.get(item.user_id, ()))
    ]
    yield from gathered(late, "date", "has history of the same date or later; views leave that history out")


_RULES = (
    _same_as_chosen,
    _people,
    _responses,
    _repeated_choices,
    _twins,
    _late_history,
    leak_faults,
    history_faults,
    position_faults,
    longer_faults,
)
