"""A benchmark as it was read, with the place of each record and all that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from palate.data._faults import Fault, Place, error, refuse
from palate.records import Benchmark, Card, Comparison, Completion, Judgement, User

LONGEST_RESPONSE = 1_000_000
"""In characters. A text longer than a long novel is a mistake in the data, not an answer."""
T = TypeVar("T")
Placed = list[tuple[T, Place]]


class Draft(msgspec.Struct, kw_only=True):
    """Records with their places. `check` reads it as it is; loading turns it into a benchmark or refuses."""

    card: Card
    source: str
    """What the person wrote to get here, for messages."""
    users: Placed[User] = []
    comparisons: Placed[Comparison] = []
    completions: Placed[Completion] = []
    faults: list[Fault] = []
    unordered: bool = False
    """The files put the chosen response first by convention, so its position means nothing."""
    chosen_first: set[str] = set()
    """Ids of single comparisons written that way."""

    def items(self) -> Placed[Comparison | Completion]:
        """Comparisons and completions together."""
        return [*self.comparisons, *self.completions]

    def benchmark(self) -> Benchmark:
        """The finished benchmark; PalateError when something makes it unusable."""
        refuse(self.faults + integrity(self), self.source)
        return Benchmark(
            card=self.card,
            users={user.id: user for user, _ in self.users},
            comparisons=tuple(comparison for comparison, _ in self.comparisons),
            completions=tuple(completion for completion, _ in self.completions),
        )


def draft_of(benchmark: Benchmark, source: str, *, unordered: bool = False) -> Draft:
    """A benchmark that was not read line by line: every record stands at its source."""
    place = Place(source)
    return Draft(
        card=benchmark.card,
        source=source,
        users=[(user, place) for user in benchmark.users.values()],
        comparisons=[(comparison, place) for comparison in benchmark.comparisons],
        completions=[(completion, place) for completion in benchmark.completions],
        unordered=unordered,
    )


def integrity(draft: Draft) -> list[Fault]:
    """What no single record shows: repeated ids, people who do not exist, indices out of range."""
    faults = [*_repeated("user_id", ((user.id, place) for user, place in draft.users))]
    faults += _repeated("id", ((item.id, place) for item, place in draft.comparisons))
    faults += _repeated("id", ((item.id, place) for item, place in draft.completions))
    users_readable = not any(fault.severity == "error" for fault in draft.faults)
    known = {user.id for user, _ in draft.users}
    for item, place in draft.items():
        if users_readable and item.user_id not in known:
            faults.append(error(place, "user_id", f"no user {item.user_id!r}; add the user or correct the id"))
        if isinstance(item, Comparison):
            faults += choice_faults(item, place)
    for user, place in draft.users:
        for number, judgement in enumerate(user.judgements):
            faults += choice_faults(judgement, place, f"preferences[{number}].")
    if not (draft.comparisons or draft.completions or draft.faults):
        faults.append(error(Place(draft.source), None, "holds no comparison and no completion; add some"))
    return faults


def _repeated(field: str, ids: Iterable[tuple[str, Place]]) -> list[Fault]:
    first: dict[str, Place] = {}
    faults: list[Fault] = []
    for id, place in ids:
        if id in first:
            before = f"line {first[id].line}" if first[id].line else "before"
            faults.append(error(place, field, f"{id!r} is already used {before}; ids are unique"))
        first.setdefault(id, place)
    return faults


def choice_faults(choice: Comparison | Judgement, place: Place, prefix: str = "") -> list[Fault]:
    """What is wrong with the responses of a choice and the index preferred."""
    count = len(choice.responses)
    longest = max(map(len, choice.responses), default=0)
    if longest > LONGEST_RESPONSE:
        message = f"{longest:,} characters in one response; palate takes {LONGEST_RESPONSE:,} at the most"
        return [error(place, f"{prefix}responses", message)]
    if count < 2:
        return [error(place, f"{prefix}responses", f"{count} given; a choice needs two or more")]
    if not 0 <= choice.preferred < count:
        message = f"{choice.preferred} is out of range; responses count from 0 to {count - 1}"
        return [error(place, f"{prefix}preferred", message)]
    if isinstance(choice, Comparison) and choice.shown is not None and len(choice.shown) != count:
        return [error(place, "shown", f"{len(choice.shown)} positions for {count} responses; give one each")]
    return []
