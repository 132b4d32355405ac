"""From the ledgers of a build folder to a benchmark and the yields of every stage. Nothing here asks a model."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from palate.build._answers import real_comparisons
from palate.build._pairs import generated_comparisons
from palate.build._records import (
    CANDIDATES,
    ITEMS,
    PERSONAL,
    POSTS,
    RUBRICS,
    SELECT,
    VERDICTS,
    BuildSettings,
    SelectedItem,
    Yield,
)
from palate.build._select import posts_by_user
from palate.records import Benchmark, Card, Comparison, Post, User
from palate.runs import Run

STEPS = {"read": ("read", "posts"), "askers": ("askers", "users"), "choose": ("select", "questions")}


class Assembled(NamedTuple):
    """What a build comes to so far."""

    benchmark: Benchmark
    yields: list[Yield]
    items: dict[str, SelectedItem]


def assemble(run: Run[BuildSettings]) -> Assembled:
    """The benchmark, without what the gate says of it."""
    plan = run.settings.plan
    items = run.lines(ITEMS)
    yields = [
        Yield(stage=STEPS[line.step][0], came=line.came, went=line.went, why=line.why, of=STEPS[line.step][1])
        for line in run.read(SELECT)
    ]
    usable = list(items.values())
    if plan.select.personal:
        kept = run.lines(PERSONAL)
        why = Counter(line.why for line in kept.values() if not line.kept and line.item in items)
        usable = [item for item in usable if item.id in kept and kept[item.id].kept]
        yields.append(Yield(stage="personal", came=len(items), went=len(usable), why=dict(why)))
    if plan.generated:
        pairs, more = generated_comparisons(
            plan, usable, run.lines(RUBRICS), run.lines(CANDIDATES), run.lines(VERDICTS)
        )
    else:
        pairs, more = real_comparisons(plan, usable)
    placed = balance_positions(pairs, plan.seed)
    return Assembled(_benchmark(run, run.settings.benchmark, placed), [*yields, *more], items)


def balance_positions(pairs: Sequence[Comparison], seed: int) -> list[Comparison]:
    """The chosen response stands at every place of the file equally often; twins list their responses in one order."""
    order = sorted(pairs, key=lambda item: hashlib.sha256(f"{seed}\0{item.id}".encode()).digest())
    by_id = {item.id: item for item in pairs}
    turns: Counter[int] = Counter()
    placed: dict[str, tuple[str, ...]] = {}
    for item in order:
        if item.id in placed:
            continue
        size = len(item.responses)
        others = list(item.rejected)
        others.insert(turns[size] % size, item.chosen)
        placed[item.id] = tuple(others)
        twin = by_id.get(item.twin or "")
        if twin is None:
            turns[size] += 1
        else:  # one of each pair of twins has its chosen response first
            placed[twin.id] = placed[item.id]
    return [
        replace(item, responses=placed[item.id], preferred=placed[item.id].index(item.chosen), twin=_there(item, by_id))
        for item in pairs
    ]


def _there(item: Comparison, items: Mapping[str, Comparison]) -> str | None:
    """The twin, unless it was left out or erased."""
    return item.twin if item.twin in items else None


def _benchmark(run: Run[BuildSettings], card: Card, pairs: Iterable[Comparison]) -> Benchmark:
    pairs = tuple(pairs)
    asked = {item.user_id for item in pairs}
    posts = posts_by_user(line for line in run.read(POSTS) if line.user_id in asked)
    users = {
        user: User(
            id=user,
            posts=tuple(
                Post(id=post.id, text=post.text, date=post.date, category=post.category) for post in posts.get(user, ())
            ),
        )
        for user in sorted(asked)
    }
    return Benchmark(card=card, users=users, comparisons=pairs)
