"""The history of a board: every entry, removal and rescore, with date and reason. Lines are added, never changed.

Each line holds the hash of the line before, so that a line that was changed or dropped from the middle is noticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from palate.leaderboard._chain import Chain, changes
from palate.records import PalateError
from palate.runs import Appender, fault_of

MANIFEST = "manifest.jsonl"
Action = Literal["entry", "rescore", "removal"]


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the manifest."""

    date: str
    action: Action
    entry: str
    """Identifies the model on its benchmark."""
    model: str
    benchmark: str
    benchmark_hash: str
    run: str
    accuracies: dict[str, float | None]
    """By view."""
    variants: int | None
    chain: Chain
    reason: str
    previous: str
    """The hash of the line before."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What a board holds of a model now."""

    entry: str
    model: str
    benchmark: str
    benchmark_hash: str
    folder: Path
    accuracies: dict[str, float | None]
    variants: int | None
    chain: Chain


def read_manifest(folder: Path) -> list[Event]:
    """Every line; refused where a line cannot be read or the hashes do not follow."""
    file = folder / MANIFEST
    events: list[Event] = []
    previous = ""
    if not file.is_file():
        return events
    for number, raw in enumerate(file.read_bytes().splitlines(keepends=True), start=1):
        try:
            event = msgspec.json.decode(raw, type=Event)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PalateError(
                f"{file}, line {number}: {fault_of(raw, error)}. Put the file back from a copy."
            ) from error
        if event.previous != previous:
            raise PalateError(
                f"{file}, line {number}: the line before it was changed or is missing. The manifest only ever grows. "
                "Put the file back from a copy."
            )
        events.append(event)
        previous = _hash(raw)
    return events


def current(events: Sequence[Event]) -> dict[str, Event]:
    """The last event of every entry that has not been removed."""
    last = {event.entry: event for event in events}
    return {entry: event for entry, event in last.items() if event.action != "removal"}


def plan_events(events: Sequence[Event], standings: Mapping[str, Standing], *, date: str, reason: str) -> list[Event]:
    """What has to be added to the manifest; what changes or removes an entry needs a reason, and is refused without."""
    before = current(events)
    added: list[Event] = []
    unexplained: list[str] = []
    for entry, now in standings.items():
        last = before.get(entry)
        if last is None:
            added.append(_event("entry", now, date, reason or "first entry"))
        elif changed := _changes(last, now):
            added.append(_event("rescore", now, date, reason))
            unexplained.append(f"{now.model} on {now.benchmark} ({now.folder}): {'; '.join(changed)}")
    for entry, last in before.items():
        if entry not in standings:
            gone = msgspec.structs.replace(last, action="removal", date=date, reason=reason)
            added.append(gone)
            unexplained.append(f"{last.model} on {last.benchmark}: its run {last.run} is not among these runs")
    if unexplained and not reason:
        raise PalateError(
            "the board would change what it showed before. Say why with --reason, which the manifest keeps for "
            "everybody to read, or give the same runs again:\n" + "\n".join(f"  - {line}" for line in unexplained)
        )
    return added


def append_events(folder: Path, events: Sequence[Event]) -> list[Event]:
    """Add the events, each with the hash of the line before; what was written comes back."""
    file = folder / MANIFEST
    lines = file.read_bytes().splitlines(keepends=True) if file.is_file() else []
    previous = _hash(lines[-1]) if lines else ""
    linked = []
    for event in events:
        linked.append(msgspec.structs.replace(event, previous=previous))
        previous = _hash(msgspec.json.encode(linked[-1]) + b"\n")
    if linked:
        appender = Appender(file)
        try:
            appender.append(linked)
        finally:
            appender.close()
    return linked


def _changes(last: Event, now: Standing) -> list[str]:
    found = changes(now.folder, last.chain, now.chain)
    if not found and last.accuracies.keys() != now.accuracies.keys():
        found.append("its views are others")
    if not found and any(_differ(last.accuracies[view], now.accuracies[view]) for view in last.accuracies):
        found.append("the same lines now give other numbers")
    if last.variants != now.variants:
        found.append(f"variants tried: {last.variants or 'not given'} before, {now.variants or 'not given'} now")
    return found


def _differ(before: float | None, now: float | None) -> bool:
    if before is None or now is None:
        return before is not now
    return abs(before - now) > 1e-9


def _event(action: Action, now: Standing, date: str, reason: str) -> Event:
    return Event(
        date=date,
        action=action,
        entry=now.entry,
        model=now.model,
        benchmark=now.benchmark,
        benchmark_hash=now.benchmark_hash,
        run=now.folder.name,
        accuracies=now.accuracies,
        variants=now.variants,
        chain=now.chain,
        reason=reason,
        previous="",
    )


def _hash(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
