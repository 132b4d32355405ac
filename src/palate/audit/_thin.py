"""Which groups of users are too small to say anything about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from palate.audit._results import CellSize, Field
from palate.evaluation import MOST_GROUPS, SMALLEST_GROUP
from palate.records import Benchmark, Comparison, User


def measure_fields(benchmark: Benchmark, least: int) -> list[Field]:
    """Users and items of every category, demographic value and value that users hold."""
    users: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    items: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for item in benchmark.comparisons:
        for by, value in _groups(item, benchmark.users[item.user_id]):
            users[by][value].add(item.user_id)
            items[by][value] += 1
    asked = {item.user_id for item in benchmark.comparisons}
    return [_field(by, users[by], items[by], asked, least) for by in sorted(users)]


def _groups(item: Comparison, user: User) -> Iterator[tuple[str, str]]:
    if item.category is not None:
        yield "category", item.category
    for name, value in user.demographics.items():
        for one in [value] if isinstance(value, str) else dict.fromkeys(value):
            yield f"demographics.{name}", one
    for one in dict.fromkeys(user.values):
        yield "values", one


def _field(by: str, users: dict[str, set[str]], items: dict[str, int], asked: set[str], least: int) -> Field:
    """A thin value is named so that more of it can be collected, but not when that would point at a person."""
    named = [value for value, members in users.items() if len(members) >= min(least, SMALLEST_GROUP)]
    if len(users) > MOST_GROUPS:
        named = []
    cells = [CellSize(value=value, users=len(users[value]), items=items[value]) for value in named]
    return Field(
        by=by,
        cells=len(users),
        thin=sum(len(members) < least for members in users.values()),
        listed=sorted(cells, key=lambda cell: (-cell.users, -cell.items, cell.value)),
        without=len(asked - set().union(*users.values())),
    )
