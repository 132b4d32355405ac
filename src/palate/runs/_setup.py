"""What runs have in common before they begin: a benchmark, which of its items, and who writes parts of the views."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from palate.data import load_benchmark
from palate.engine import open_by_spec
from palate.records import Benchmark, Comparison, Completion, PalateError
from palate.views import WRITTEN, ViewSpec, Writer

Item = Comparison | Completion
Sampled = TypeVar("Sampled", bound=Item)


class Named(msgspec.Struct, frozen=True):
    """A policy or critic: how it is called, and what changes with anything that could change its answers."""

    name: str
    fingerprint: str


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


def writer_of(views: Iterable[ViewSpec], writer: str) -> Writer | None:
    """Who writes parts of these views, where any of them has such a part."""
    return Writer(open_by_spec(writer)) if any(map(is_written, views)) else None


def seeded(*words: object) -> bytes:
    """Bytes that depend on these words alone."""
    return hashlib.sha256("\x00".join(map(str, words)).encode("utf-8", "surrogatepass")).digest()


def sample_items(items: Sequence[Sampled], limit: int | None, seed: int) -> list[Sampled]:
    """At most `limit` items, drawn by their ids; twins come together or not at all."""
    if limit is None or limit >= len(items):
        return list(items)
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
