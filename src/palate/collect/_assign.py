"""Who judges what: balanced over groups, with overlap, planned repeats and attention checks.

Sides are drawn for each person, item and repeat by the project's seed, and recorded with the assignment.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
from sqlalchemy import Connection, select

from palate.collect._active import PairFeatures, choose_next
from palate.collect._database import Assignment, Store
from palate.collect._project import Compare, Project, Validate
from palate.collect._records import Answer, Item
from palate.collect._tables import assignments, events, items, participants

HOLD = timedelta(hours=24)
"""An item that was given out and not answered for so long is free for somebody else."""


def draw(*key: object) -> random.Random:
    """Random numbers that depend on these words alone.

    >>> draw("sides", 0, "p-1", "tea", 0).random() == draw("sides", 0, "p-1", "tea", 0).random()
    True
    """
    text = "\x00".join(map(str, key)).encode("utf-8", "surrogatepass")
    return random.Random(int.from_bytes(hashlib.sha256(text).digest()))


def sides(seed: int, participant: str, item: Item, repeat: int) -> tuple[int, ...]:
    """For each response of the item, the position at which this person sees it this time."""
    order = list(range(len(item.responses)))
    draw("sides", seed, participant, item.id, repeat).shuffle(order)
    return tuple(order)


def assign(
    store: Store, connection: Connection, project: Project, task: Compare | Validate, participant: str
) -> list[Assignment]:
    """What a person gets in a task, in order. Call it alone in a writing transaction: it depends on what others have.

    Items that fewest people of the same group have come first, then those that fewest have at all, then by the seed.
    """
    every = active_items(connection, task.name)
    ordinary = [item for item in every if item.check is None]
    overall, alike = _counts(connection, task.name, participant)
    if task.overlap:
        ordinary = [item for item in ordinary if overall[item.id] < task.overlap]
    order = draw("items", project.seed, participant, task.name)
    order.shuffle(ordinary)
    ordinary.sort(key=lambda item: (alike[item.id], overall[item.id]))
    chosen = ordinary[: task.per_person]
    order.shuffle(chosen)
    plan = [(item, 0) for item in chosen]
    plan += _repeats(chosen, task.repeats, order)
    checks = [item for item in every if item.check is not None]
    order.shuffle(checks)
    for number, item in enumerate(checks[: task.checks] if chosen else ()):
        plan.insert((number + 1) * len(plan) // (task.checks + 1), (item, 0))
    given = [
        Assignment(item=item, repeat=repeat, shown=sides(project.seed, participant, item, repeat), position=position)
        for position, (item, repeat) in enumerate(plan)
    ]
    store.assign(connection, participant, task.name, given)
    return given


def assign_next(
    store: Store,
    connection: Connection,
    project: Project,
    task: Compare,
    participant: str,
    features: PairFeatures,
    answers: Sequence[Answer],
) -> list[Assignment]:
    """The next item of a task with active choice, with how likely it was; nothing when the person has all.

    Checks come at even distances, and repeats at the end, as in a plan that is made at the start.
    """
    given = store.assigned(connection, participant, task.name)
    ordinary = [one.item for one in given if one.item.check is None and one.repeat == 0]
    checks = [one.item for one in given if one.item.check is not None]
    repeats = [one.item for one in given if one.repeat]
    every = active_items(connection, task.name)
    overall, _ = _counts(connection, task.name, participant)
    taken = {item.id for item in ordinary}
    free = [
        item for item in every
        if item.check is None and item.id not in taken and (not task.overlap or overall[item.id] < task.overlap)
    ]  # fmt: skip
    probability = None
    if len(checks) < task.checks and len(ordinary) >= (len(checks) + 1) * task.per_person // (task.checks + 1):
        unseen = [item for item in every if item.check is not None and item not in checks]
        item, repeat = draw("check", project.seed, participant, len(checks)).choice(unseen), 0
    elif len(ordinary) < task.per_person and free:
        chosen = choose_next(features, answers, [one.id for one in free], seed=f"{project.seed} {participant}")
        item, repeat, probability = next(one for one in free if one.id == chosen.item), 0, chosen.probability
    elif len(repeats) < min(task.repeats, len(ordinary)):
        item, repeat = ordinary[len(repeats)], 1
    else:
        return []
    new = Assignment(
        item=item,
        repeat=repeat,
        shown=sides(project.seed, participant, item, repeat),
        position=len(given),
        probability=probability,
    )
    store.assign(connection, participant, task.name, [new])
    return [new]


def active_items(connection: Connection, task: str) -> list[Item]:
    """The items of a task that are given out, in the order of the file."""
    query = select(items.c.data).where((items.c.task == task) & items.c.active & items.c.participant.is_(None))
    rows = connection.execute(query.order_by(items.c.position)).scalars()
    return [msgspec.json.decode(data, type=Item) for data in rows]


def _repeats(chosen: list[Item], count: int, order: random.Random) -> list[tuple[Item, int]]:
    """Items that come again at the end: the earliest ones, so that much lies in between."""
    again = [(item, 1) for item in chosen[: max(count, len(chosen) // 2)]]
    order.shuffle(again)
    kept = again[:count]
    if len(kept) > 1 and kept[0][0] is chosen[-1]:  # never the same item twice in a row
        kept.reverse()
    return kept


def _counts(connection: Connection, task: str, participant: str) -> tuple[Counter[str], Counter[str]]:
    """How many people have each item, at all and of the person's own group."""
    answered = {
        (row.participant, row.item)
        for row in connection.execute(
            select(events.c.participant, events.c.item).where((events.c.task == task) & (events.c.kind == "answer"))
        )
    }
    strata = connection.execute(select(participants.c.strata).where(participants.c.id == participant)).scalar_one()
    since = (datetime.now(UTC) - HOLD).isoformat(timespec="milliseconds")
    rows = connection.execute(
        select(assignments.c.participant, assignments.c.item, assignments.c.created, participants.c.strata)
        .join(participants, participants.c.id == assignments.c.participant)
        .where((assignments.c.task == task) & (assignments.c.repeat == 0))
    )
    overall: Counter[str] = Counter()
    alike: Counter[str] = Counter()
    for row in rows:
        if row.created >= since or (row.participant, row.item) in answered:
            overall[row.item] += 1
            alike[row.item] += row.strata == strata
    return overall, alike
