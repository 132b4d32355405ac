"""What stands above the numbers of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from palate.report._findings import Finding


class Reported(Protocol):
    """What the summaries of all kinds of runs have."""

    @property
    def run(self) -> str: ...
    @property
    def benchmark(self) -> str: ...
    @property
    def benchmark_title(self) -> str: ...
    @property
    def benchmark_hash(self) -> str: ...
    @property
    def licence(self) -> str: ...
    @property
    def complete(self) -> bool: ...
    @property
    def findings(self) -> Sequence[Finding]: ...


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was, in words, beside what its summary says of itself."""

    summary: Reported
    name: str
    """Of this kind of run, such as `Best of 4`."""
    size: str
    set_up: str
    """Who did what, in a sentence."""
    facts: Mapping[str, str]
    """What the page sets beside the benchmark."""
    unfinished: str
    """What to say while the run is not complete."""
