"""What every run begins with: a benchmark, which of its items, and how their users are shown."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from palate.data import OnDisk, load_benchmark
from palate.engine import open_by_spec
from palate.records import Benchmark, Comparison, Completion, PalateError
from palate.views import WRITTEN, Budget, ViewBuilder, ViewSpec, Writer, parse_budget

Item = Comparison | Completion
ItemType = TypeVar("ItemType", bound=Item)


class Fingerprint(msgspec.Struct, frozen=True):
    """A policy or critic: how it is called, and what changes with anything that could change its answers."""

    name: str
    fingerprint: str


@dataclass(frozen=True)
class Setup(Generic[ItemType]):
    """The items of a run and how their users are shown, checked against everything that is asked of them."""

    benchmark: Benchmark
    items: Sequence[ItemType]
    builder: ViewBuilder
    retriever: str
    retriever_fingerprint: str
    writer: str | None
    budget: Budget | None
    limit: int | None
    seed: int

    @property
    def settings(self) -> dict[str, Any]:
        """What `ViewedSettings` holds of it."""
        return {
            "benchmark": self.benchmark.card,
            "content_hash": self.benchmark.content_hash,
            "retriever": self.retriever,
            "retriever_fingerprint": self.retriever_fingerprint,
            "writer": self.writer,
            "budget": self.budget,
            "limit": self.limit,
            "seed": self.seed,
        }


def set_up(
    benchmark: Benchmark,
    items: Sequence[ItemType],
    views: Sequence[ViewSpec],
    *,
    retriever: str,
    writer: str | Writer,
    budget: str | None,
    limit: int | None,
    seed: int,
) -> Setup[ItemType]:
    """Refuse views that the benchmark cannot show, before anything is loaded."""
    allowance = parse_budget(budget) if budget else None
    author = as_writer(writer) if any(map(is_written, views)) else None
    builder = ViewBuilder(benchmark, retriever=retriever, budget=allowance, seed=seed, writer=author)
    for spec in views:
        builder.require(spec)
    return Setup(
        benchmark=benchmark,
        items=items,
        builder=builder,
        retriever=retriever,
        retriever_fingerprint=builder.retriever.fingerprint if any(map(ranks, views)) else "",
        writer=author.fingerprint if author else None,
        budget=allowance,
        limit=limit,
        seed=seed,
    )


def as_writer(writer: str | Writer) -> Writer:
    """Who writes personas and plans by name, or the one that was given, as where two set-ups share it."""
    return writer if isinstance(writer, Writer) else Writer(open_by_spec(writer))


def as_benchmark(benchmark: str | Path | Benchmark, data_dir: str | Path | None) -> Benchmark:
    """A benchmark by name or path, or the one that was given."""
    if isinstance(benchmark, Benchmark):
        return benchmark
    return load_benchmark(benchmark, data_dir=Path(data_dir) if data_dir else None)


def prompts(benchmark: Benchmark) -> list[Item]:
    """Everything that a user asked: comparisons and completions alike."""
    known = {item.id for item in benchmark.comparisons}
    items: list[Item] = [*benchmark.comparisons, *(item for item in benchmark.completions if item.id not in known)]
    if not items:
        raise PalateError(
            f"{benchmark.card.name} has neither comparisons nor completions, so there is nothing to write"
        )
    return items


def is_written(spec: ViewSpec) -> bool:
    """Whether a language model writes part of this view."""
    return any(spec.shows(kind) for kind in WRITTEN)


def ranks(spec: ViewSpec) -> bool:
    """Whether a retriever has a say in what this view shows."""
    return is_written(spec) or spec.shows("posts") or spec.shows("judgements")


def seeded(*words: object) -> bytes:
    """Bytes that depend on these words alone."""
    return hashlib.sha256("\x00".join(map(str, words)).encode("utf-8", "surrogatepass")).digest()


def sample_items(items: Sequence[ItemType], limit: int | None, seed: int) -> Sequence[ItemType]:
    """At most `limit` items, drawn by their ids; twins come together or not at all."""
    if limit is not None and limit < 1:
        raise PalateError(f"the limit is a number of items from 1; {limit} was given")
    if limit is None or limit >= len(items):
        return items if isinstance(items, OnDisk) else list(items)
    ids = {item.id for item in items}
    units: dict[str, list[str]] = {}
    for item in items:
        twin = item.twin if isinstance(item, Comparison) else None
        units.setdefault(min(item.id, twin) if twin in ids else item.id, []).append(item.id)
    chosen: set[str] = set()
    for unit in sorted(units, key=lambda unit: seeded(seed, unit)):
        if len(chosen) + len(units[unit]) > limit:
            break
        chosen.update(units[unit])
    if not chosen:
        raise PalateError(f"a limit of {limit} is too small: twins are rated together or not at all")
    return [item for item in items if item.id in chosen]
