"""What every run of this floor is asked: about which prompts, under which views, and with whom as critic."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from palate.data import load_benchmark
from palate.downstream._critic import Critic
from palate.downstream._policy import Item
from palate.engine import open_by_spec
from palate.records import Benchmark, PalateError
from palate.views import WRITTEN, ViewSpec, Writer


class Named(msgspec.Struct, frozen=True):
    """A policy or critic: how it is called, and what changes with anything that could change its answers."""

    name: str
    fingerprint: str


def as_benchmark(benchmark: str | Path | Benchmark, data_dir: str | Path | None) -> Benchmark:
    """A benchmark by name or path, or the one that was given."""
    if isinstance(benchmark, Benchmark):
        return benchmark
    return load_benchmark(benchmark, data_dir=Path(data_dir) if data_dir else None)


def as_critic(critic: str | Critic, benchmark: Benchmark) -> Critic:
    """A critic by name, or the one that was given."""
    if not isinstance(critic, str):
        return critic
    from palate.downstream._critics import make_critic

    return make_critic(critic, benchmark)


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
