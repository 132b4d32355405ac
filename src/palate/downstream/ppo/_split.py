"""Who is trained on and who is held out: no user, prompt, group or twin is on both sides."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence

import msgspec
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from palate.records import Benchmark, Comparison, PalateError, User
from palate.runs import Item

FEWEST_USERS = 2
"""On each side; with fewer there is nobody to take an interval over."""
SHARED = 0.5
"""The part of the prompts, of those that users of both sides have, on which held-out users are tested."""


class Side(msgspec.Struct, frozen=True):
    """What is trained on, or what is held out, and a benchmark that holds no user of the other side."""

    items: list[Item]
    benchmark: Benchmark

    @property
    def users(self) -> set[str]:
        """Whose items these are."""
        return {item.user_id for item in self.items}


def split_by_users(benchmark: Benchmark, items: Sequence[Item], share: float, seed: int) -> tuple[Side, Side]:
    """What is trained on, and what is held out: users drawn by the seed, and prompts that nobody is trained on.

    Users who share twins stay together. A prompt that only held-out users have is theirs; one that both sides
    have is tested on or trained on, never both. Those who are trained on are shown without the judgements that they
    made on a held-out prompt.
    """
    users = sorted({item.user_id for item in items})
    owner = {item.id: item.user_id for item in items}
    twins = [(item.user_id, owner[item.twin]) for item in items if isinstance(item, Comparison) and item.twin in owner]
    cluster = _components(users, twins)
    wanted, held = round(share * len(users)), set[str]()
    for one in sorted(set(cluster.values()), key=lambda name: _hash(seed, "user", name)):
        if len(held) >= wanted:
            break
        held |= {user for user in users if cluster[user] == one}
    unit = _components([item.id for item in items], [link for item in items for link in _links(item)])
    owners: dict[str, set[bool]] = {}
    for item in items:
        owners.setdefault(unit[item.id], set()).add(item.user_id in held)
    tested = {
        one
        for one, held_out in owners.items()
        if held_out == {True} or (len(held_out) == 2 and _hash(seed, one) < SHARED)
    }
    train = [item for item in items if item.user_id not in held and unit[item.id] not in tested]
    test = [item for item in items if item.user_id in held and unit[item.id] in tested]
    closed = {prompt_key(item.prompt) for item in test}
    trained = {user.id: _cut(user, closed) for user in benchmark.users.values() if user.id not in held}
    sides = (
        Side(train, _of(benchmark, train, trained)),
        Side(test, _of(benchmark, test, {user: benchmark.users[user] for user in sorted(held)})),
    )
    if min(len(side.users) for side in sides) < FEWEST_USERS:
        raise PalateError(
            f"{benchmark.card.name} cannot be split: of {len(users)} users with {len(items)} prompts, "
            f"{len(sides[0].users)} could be trained on and {len(sides[1].users)} held out, and each side needs "
            f"{FEWEST_USERS}. Use a larger benchmark, or another --test-share."
        )
    return sides


def prompt_key(prompt: str) -> str:
    """A prompt as it is compared: case and spacing do not make another of it."""
    return " ".join(prompt.lower().split())


def _links(item: Item) -> list[tuple[str, Hashable]]:
    """What ties an item to others."""
    found: list[tuple[str, Hashable]] = [(item.id, ("prompt", prompt_key(item.prompt)))]
    found += [(item.id, ("group", item.group))] if item.group else []
    if isinstance(item, Comparison) and item.twin:
        found.append((item.id, item.twin))
    return found


def _components(names: Sequence[str], ties: Sequence[tuple[Hashable, Hashable]]) -> dict[str, str]:
    """For each name, the first name of those it is tied to, directly or by others."""
    nodes = dict.fromkeys([*names, *(end for tie in ties for end in tie)])
    places = {node: place for place, node in enumerate(nodes)}
    ends = tuple([places[tie[side]] for tie in ties] for side in (0, 1))
    graph = coo_array((np.ones(len(ties)), ends), shape=(len(places), len(places)))
    _, component = connected_components(graph, directed=False)
    first: dict[int, str] = {}
    for name in sorted(names):
        first.setdefault(component[places[name]], name)
    return {name: first[component[places[name]]] for name in names}


def _of(benchmark: Benchmark, items: Sequence[Item], users: dict[str, User]) -> Benchmark:
    comparisons = tuple(item for item in items if isinstance(item, Comparison))
    completions = tuple(item for item in items if not isinstance(item, Comparison))
    return Benchmark(card=benchmark.card, users=users, comparisons=comparisons, completions=completions)


def _cut(user: User, closed: set[str]) -> User:
    kept = tuple(one for one in user.judgements if prompt_key(one.prompt) not in closed)
    return user if len(kept) == len(user.judgements) else msgspec.structs.replace(user, judgements=kept)


def _hash(seed: int, *words: str) -> float:
    """A number from 0 to 1 that hangs on the words alone."""
    text = "\x00".join((str(seed), *words))
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:7]) / 2**56
