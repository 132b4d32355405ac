"""Shards: the items of some users of a run, measured in a folder of their own and merged later."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from heapq import heappop, heappush
from pathlib import Path
from typing import Annotated, Any

import msgspec

from palate.data import picked
from palate.records import PalateError
from palate.runs._ledger import write_whole
from palate.runs._models import LoadedModel
from palate.runs._run import Run
from palate.runs._setup import ItemType
from palate.views import ViewSpec

SHARD = "shard.json"
"""In the folder of a finished shard: which one it is."""
Place = Callable[[Any], tuple[int, ...]]
"""Where a line stands in the ledger of a run that one process measures."""


Counted = Annotated[int, msgspec.Meta(ge=1, le=999_999)]
"""A number that a file may hold."""


class Shard(msgspec.Struct, frozen=True):
    """One of several shares of a run.

    >>> parse_shard("3/8")
    Shard(number=3, of=8)
    """

    number: Counted
    of: Counted

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def folder(self) -> str:
        """The folder, in the folder of runs, that holds the runs of this shard."""
        return f"shard-{self.number}-of-{self.of}"


class ShardFile(msgspec.Struct, frozen=True, kw_only=True):
    """What `shard.json` holds."""

    shard: Shard
    batch: Annotated[int, msgspec.Meta(ge=1, le=2**31)]
    """The largest batch size of the reward models, which decides the order of ratings."""
    first: int = -1
    """Where the first items of the run end, which come before all others."""


class TooManyShardsError(PalateError):
    """There are fewer users than shards."""

    def __init__(self, message: str, users: int) -> None:
        super().__init__(message)
        self.users = users


def parse_shard(text: str | None) -> Shard | None:
    """A shard as people write it; nothing where nothing is given."""
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text.strip())
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise PalateError(f"--shard is a number and how many there are, such as 1/8 up to 8/8; {text!r} was given")
    return Shard(int(found[1]), int(found[2]))


def shard_parent(out: str | Path, shard: Shard | None) -> Path:
    """The folder in which the run folder is made."""
    return Path(out) / shard.folder if shard else Path(out)


def shard_items(items: Sequence[ItemType], shard: Shard | None) -> Sequence[ItemType]:
    """The items of this shard, in their order. All items of a user are in one shard, and shards are of like size."""
    if shard is None:
        return items
    counts = Counter(item.user_id for item in items)
    if shard.of > len(counts):
        raise TooManyShardsError(
            f"--shard {shard}: the items are of {len(counts)} users, and all items of a user are in one shard; "
            f"make {len(counts)} shards or fewer",
            len(counts),
        )
    dealt: dict[str, int] = {}
    loads = [(0, number) for number in range(1, shard.of + 1)]
    for user, count in counts.most_common():  # users with as many items stay in the order of the items
        load, number = heappop(loads)
        dealt[user] = number
        heappush(loads, (load + count, number))
    return picked(items, lambda item: dealt[item.user_id] == shard.number)


@contextmanager
def finishing_shard(run: Run[Any], shard: Shard | None, models: Sequence[LoadedModel] = ()) -> Iterator[None]:
    """Mark the folder as a finished shard when everything in here is done."""
    if shard is None:
        yield
        return
    file = run.folder / SHARD
    file.unlink(missing_ok=True)
    yield
    batch = max((model.batch_size for model in models), default=1)
    write_whole(file, msgspec.json.encode(ShardFile(shard=shard, batch=batch, first=run.first)) + b"\n")


def places(names: Sequence[Any]) -> dict[Any, int]:
    """Where each of these stands."""
    return {name: place for place, name in enumerate(names)}


def drawn_places(views: Sequence[tuple[ViewSpec, int]]) -> dict[tuple[str, int], int]:
    """Where each view stands with each of its strangers."""
    return places([(spec.name, draw) for spec, draw in views])


def rating_place(
    views: Mapping[tuple[str, int], int],
    models: Mapping[str, int],
    items: Sequence[str],
    chunk: int,
    run: Run[Any],
) -> Place:
    """Where `rate_missing` puts a line in a pass: view by view, a chunk of items at a time, model by model."""
    own = ([item for item in items if run.pass_of(item) == one] for one in (0, 1))
    known = {item: place for some in own for item, place in places(some).items()}

    def place(line: Any) -> tuple[int, ...]:
        item = known[line.item]
        return views[line.view, getattr(line, "draw", 0)], item // chunk, models[line.rm], item

    return place
