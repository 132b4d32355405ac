"""LaMP-QA and Personalized RewardBench: a question, the asker's past posts, and a private rubric."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from palate.data._draft import BenchmarkDraft, FieldError, Location, explain
from palate.data._files import NOT_DATA, SUFFIXES, Row, in_order, read_rows, suffix
from palate.data._wire import Id, Wire, WireAspect, WirePost, identifier, privileged
from palate.records import Card, Comparison, Completion, PalateError, User

OPTIONS = ("split", "domain")
DOMAINS = ("Art_and_Entertainment", "Lifestyle_and_Personal_Development", "Society_and_Culture")
_SPLITS = ("train", "validation", "val", "dev", "test")


class WireRow(Wire):
    """One row: nested fields come as lists, or as JSON text where a table could not hold them."""

    id: Id
    question: str
    profile: list[WirePost] | None = None
    rubric_aspects: list[WireAspect | str] | None = None
    narrative: str | None = None
    category: str | None = None
    chosen: str | None = None
    rejected: str | list[str] | None = None


def read_lampqa(files: Iterable[Path], card: Card, source: str, *, domain: str | None = None) -> BenchmarkDraft:
    """Each row is a user of its own, since the data names nobody; rows with a pair become comparisons."""
    draft = BenchmarkDraft(card=card, source=source, unordered=True)
    rows: list[tuple[WireRow, str | None, Location]] = []
    for path in files:
        for row, place in read_rows(path, draft.faults):
            try:
                wire = _convert(row)
            except FieldError as problem:
                draft.faults.append(explain(problem, place))
                continue
            category = wire.category or domain_of(path)
            if domain is None or category == domain:
                rows.append((wire, category, place))
    if not rows and not draft.faults:
        raise PalateError(f"{source}: no rows of domain {domain!r}; known domains: {', '.join(DOMAINS)}")
    times = Counter(str(wire.id) for wire, _, _ in rows)
    for wire, category, place in rows:
        try:
            _add(draft, wire, category, place, shared=times[str(wire.id)] > 1)
        except FieldError as problem:
            draft.faults.append(explain(problem, place))
    return draft


def domain_of(path: Path) -> str | None:
    """The domain that a file's path names."""
    return next((domain for domain in DOMAINS if domain.lower() in str(path).lower()), None)


def of_split(paths: Iterable[Path], split: str) -> list[Path]:
    """The data files that belong to a split by their path; all of them when no path mentions one."""
    files = sorted((one for one in paths if suffix(one) in SUFFIXES and one.name not in NOT_DATA), key=in_order)
    words = {path: set(re.split(r"[^a-z]+", str(path).lower())) for path in files}
    if any(words[path] & set(_SPLITS) for path in files):
        files = [path for path in files if split in words[path]]
    return files


def files_of_split(folder: Path, split: str) -> list[Path]:
    """The data files of a split below a folder."""
    files = [folder / path for path in of_split((p.relative_to(folder) for p in folder.rglob("*")), split)]
    if not files:
        raise PalateError(f"{folder}: no data file of split {split!r}; expected {', '.join(SUFFIXES)} files")
    return files


def _convert(row: Row) -> WireRow:
    for name in ("profile", "rubric_aspects"):
        value = row.get(name)
        if isinstance(value, str):
            row[name] = _from_json(value, name) if value.strip() else None
    try:
        return msgspec.convert(row, WireRow)
    except (msgspec.ValidationError, RecursionError) as problem:
        fault = explain(problem, Location(""))
        raise FieldError(fault.field, fault.message) from None


def _from_json(text: str, name: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise FieldError(name, "expected a list, or a list written as JSON") from None


def _add(draft: BenchmarkDraft, wire: WireRow, category: str | None, place: Location, *, shared: bool) -> None:
    id = identifier(wire.id, "id")
    if shared:  # ids of different domains may be the same
        id = f"{category}-{id}"
    posts = tuple(post.record(f"profile[{number}]") for number, post in enumerate(wire.profile or ()))
    facts = privileged(wire.narrative, wire.rubric_aspects)
    draft.users.append((User(id=f"row-{id}", posts=posts), place))
    if wire.chosen is None or wire.rejected is None:
        completion = Completion(id=id, user_id=f"row-{id}", prompt=wire.question, category=category, privileged=facts)
        draft.completions.append((completion, place))
        return
    rejected = [wire.rejected] if isinstance(wire.rejected, str) else wire.rejected
    comparison = Comparison(
        id=id,
        user_id=f"row-{id}",
        prompt=wire.question,
        responses=(wire.chosen, *rejected),
        preferred=0,
        category=category,
        privileged=facts,
    )
    draft.comparisons.append((comparison, place))
