"""Who is trained on and who is held out, and their prompts: no user, prompt, group or twin is on both sides."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Sequence

import msgspec
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from palate.engine import LocalModel
from palate.records import Ask, Benchmark, Comparison, PalateError, User, View
from palate.rewards import conversation, fit_view
from palate.runs import Item, Setup
from palate.views import Missing, ViewSpec

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
    """A number from 0 to 1 that depends on the words alone."""
    text = "\x00".join((str(seed), *words))
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:7]) / 2**56


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One item, ready to be written for and rated."""

    item: Item
    ids: list[int]
    """What the policy reads: the view in a system turn, then the user's own words."""
    view: View
    """What the reward model sees."""
    policy_view: View
    """What the policy sees, with as much of it as fits."""


def make_prompts(
    setup: Setup[Item], policy: LocalModel, policy_view: ViewSpec, view: ViewSpec, tokens: int
) -> tuple[list[Prompt], Counter[str]]:
    """A prompt for each item, and why items were left out, with how often.

    An item whose view cannot be built is left out. One that leaves no room for an answer is an error.
    """
    reasons: Counter[str] = Counter()
    found = []
    shown, seen = (setup.builder.build(spec, setup.items) for spec in (policy_view, view))
    for item, one, other in zip(setup.items, shown, seen, strict=True):
        if isinstance(one, Missing) or isinstance(other, Missing):
            reasons[one.reason if isinstance(one, Missing) else other.reason] += 1  # type: ignore[union-attr]
            continue
        ask = fitted(policy, item, one, tokens)
        ids = policy.chat.ids(policy.chat.prompt(conversation(ask)))
        found.append(Prompt(item=item, ids=ids, view=other, policy_view=ask.view))
    if not found:
        said = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common(3))
        raise PalateError(f"no item can be shown with the views {policy_view.name} and {view.name}: {said}")
    return found, reasons


def fitted(policy: LocalModel, item: Item, view: View, tokens: int) -> Ask:
    """What the policy is asked, with as much of the view as its context holds."""
    ask = Ask(id=item.id, prompt=item.prompt, responses=(), view=view)
    if policy.context is None:
        return ask
    room = policy.context - tokens
    ask, _ = fit_view(ask, lambda one: policy.count_tokens(conversation(one)), room)
    needed = policy.count_tokens(conversation(ask)) or 0
    if needed > room:
        raise PalateError(
            f"the prompt of item {item.id!r} has {needed} tokens; the context of {policy.name} has {policy.context}, "
            f"and {tokens} of them are for the answer. Lower --tokens, or leave the item out of the benchmark."
        )
    return ask


def of_step(prompts: Sequence[Prompt], step: int, count: int, seed: int) -> list[Prompt]:
    """The prompts of a step: every prompt once in an order of its own, then every prompt again in another."""
    orders: dict[int, list[int]] = {}
    places = []
    for number in range(step * count, (step + 1) * count):
        again, place = divmod(number, len(prompts))
        if again not in orders:
            orders[again] = np.random.default_rng([seed, again]).permutation(len(prompts)).tolist()
        places.append(orders[again][place])
    return [prompts[place] for place in places]
