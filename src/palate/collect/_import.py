"""Items to show, from what there is: a benchmark, a table of prompts and responses, or a best-of-N run.

All faults of a file are told at once, with file and line, before anything is imported.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from palate.collect._records import Item
from palate.data import Fault, History, Location, Row, is_user_column, load_benchmark, read_rows, text_key
from palate.records import Benchmark, Comparison, PalateError, User
from palate.runs import Run, kind_of, open_run
from palate.views import demographics_part, judgement_part, post_part, values_part

TABLES = (".csv", ".json", ".jsonl", ".parquet", ".gz")
_RESPONSE = re.compile(r"(?:response|answer|output|completion|text)[ _-]?(?:[a-h]|[1-9])\Z", re.IGNORECASE)
_PROMPTS = ("prompt", "question", "instruction")
PROFILE = 4
"""Pieces of history that a validation shows of a person."""
MOST_FAULTS = 20
"""Shown at once; the rest is counted."""


class ItemsRead(msgspec.Struct, frozen=True, kw_only=True):
    """Items, and what was left out on the way."""

    items: tuple[Item, ...]
    notes: tuple[str, ...] = ()


def read_items(
    source: str | Path,
    *,
    validation: bool = False,
    prompt: str | None = None,
    responses: Sequence[str] = (),
    profile: int = PROFILE,
    seed: int = 0,
    data_dir: Path | None = None,
) -> ItemsRead:
    """Items from a best-of-N run folder, a table (CSV, JSON, JSON Lines), or a benchmark by name or path.

    With `validation`, the items of a benchmark carry whose they are, a profile and the preferred response, to be graded
    blindly. `prompt` and `responses` name the columns of a table whose names do not tell.
    """
    path = Path(source)
    if path.is_dir() and (path / "settings.json").is_file():
        if validation:
            raise PalateError(f"{path}: a run has no preferred responses to validate; name its benchmark")
        return items_from_run(path, seed=seed)
    is_table = path.is_file() and path.suffix in TABLES
    if is_table and not validation and (prompt or responses or _is_bare(path)):
        return items_from_table(path, prompt=prompt, responses=responses)
    if prompt or responses:
        raise PalateError(f"{source}: the columns of a table can be named, and this is none")
    benchmark = load_benchmark(source, data_dir=data_dir)
    if not validation:
        return items_from_benchmark(benchmark)
    read = items_to_validate(benchmark, profile=profile)
    told = (
        msgspec.structs.replace(item, id=_told_to_all(item.id, item.user_id, item.id, item.prompt, *item.responses))
        for item in read.items
    )
    return msgspec.structs.replace(read, items=tuple(told))


def _is_bare(path: Path) -> bool:
    """Whether a table has no users: then it holds items, and not somebody's choices."""
    row = next((row for row, _ in read_rows(path, [])), {})
    return "preferences" not in row and not any(map(is_user_column, row))


def items_from_benchmark(benchmark: Benchmark) -> ItemsRead:
    """Each pair of texts once, however many users judged it; what they chose does not come along."""
    pairs: dict[tuple[str, frozenset[str]], Comparison] = {}
    for comparison in benchmark.comparisons:
        texts = comparison.responses
        if len(set(texts)) == len(texts) and all(text.strip() for text in texts):
            pairs.setdefault((comparison.prompt, frozenset(comparison.responses)), comparison)
    if not pairs:
        raise PalateError(f"{benchmark.card.name}: no comparison whose responses can be shown")
    kept = list(pairs.values())
    left = len(benchmark.comparisons) - len(kept)
    note = f"{left:,} comparisons left out: they repeat a pair of texts, offer the same text twice or an empty one"
    return ItemsRead(
        items=tuple(
            Item(
                id=_told_to_all(item.id, item.user_id, item.prompt, *sorted(item.responses)),
                prompt=item.prompt,
                # in an order that says nothing about who chose what
                responses=tuple(sorted(item.responses)),
                category=item.category,
                group=item.group,
                source=benchmark.card.name,
            )
            for item in kept
        ),
        notes=(note,) if left else (),
    )


def _told_to_all(id: str, user_id: str | None, *texts: str) -> str:
    """The id that every browser gets: in that of a table's row stands whose it is, who is nobody's business."""
    if user_id is None or user_id not in id:
        return id
    said = "\x00".join(texts)
    return f"item-{hashlib.sha256(said.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def items_to_validate(benchmark: Benchmark, *, profile: int = PROFILE) -> ItemsRead:
    """Each comparison with its person's profile, as views show it: nothing later, nothing that holds a response."""
    history = History(benchmark)
    items = tuple(
        Item(
            id=item.id,
            prompt=item.prompt,
            responses=item.responses,
            preferred=item.preferred,
            category=item.category,
            group=item.group,
            user_id=item.user_id,
            profile=tuple(_profile(benchmark.users[item.user_id], item, history, profile)),
            source=benchmark.card.name,
        )
        for item in benchmark.comparisons
    )
    bare = sum(not item.profile for item in items)
    if bare == len(items):
        raise PalateError(f"{benchmark.card.name}: no user has a profile to show, so personal fit cannot be validated")
    return ItemsRead(
        items=tuple(item for item in items if item.profile),
        notes=(f"{bare:,} comparisons of users without a profile",) if bare else (),
    )


def _profile(user: User, item: Comparison, history: History, most: int) -> Iterator[str]:
    for part in (demographics_part(user), values_part(user)):
        if part is not None:
            yield part.text
    posts = [post_part(post) for post in history.posts(user, item).events[-most:]]
    room = max(0, most - len(posts))
    past = history.judgements(user, item).events
    yield from (part.text for part in [*posts, *(judgement_part(one) for one in past[len(past) - room :])])


def items_from_table(path: Path, *, prompt: str | None = None, responses: Sequence[str] = ()) -> ItemsRead:
    """Rows with a prompt and two or more responses: `response_a`, `response_b`, ..., or a list `responses`.

    A column `check` says which response (from 0) anybody who reads would choose; `id`, `category` and `group` are kept.
    """
    faults: list[Fault] = []
    items: list[Item] = []
    first: dict[str, Location] = {}
    for number, (row, place) in enumerate(read_rows(path, faults)):
        try:
            item = _item(row, number, prompt, responses, path.name)
        except ValueError as problem:
            faults.append(Fault("error", place.file, place.line, None, str(problem)))
            continue
        if item.id in first:
            before = f"in line {first[item.id].line}" if first[item.id].line else "before"
            message = f"{item.id!r} is already used {before}; ids are unique"
            faults.append(Fault("error", place.file, place.line, "id", message))
        first.setdefault(item.id, place)
        items.append(item)
    refuse_all(faults)
    if not items:
        raise PalateError(f"{path}: no row; a table of items has a row for each prompt with its responses")
    return ItemsRead(items=tuple(items))


def _item(row: Row, number: int, prompt: str | None, columns: Sequence[str], source: str) -> Item:
    asked = _text(row, prompt or next((name for name in _PROMPTS if name in row), "prompt"))
    texts = _responses(row, columns)
    if len(texts) < 2:
        raise ValueError(f"{len(texts)} response; an item needs two or more")
    if any(not text.strip() for text in texts):
        raise ValueError("a response is empty; give every response a text")
    if len(set(texts)) < len(texts):
        raise ValueError("two responses are the same text; there is nothing to choose")
    return Item(
        id=_optional(row, "id") or f"item-{number + 1:04}",
        prompt=asked,
        responses=tuple(texts),
        category=_optional(row, "category"),
        group=_optional(row, "group"),
        check=_check(row, len(texts)),
        source=source,
    )


def _text(row: Row, column: str) -> str:
    value = row.get(column)
    if not isinstance(value, str) or not value.strip():
        known = ", ".join(sorted(row))
        raise ValueError(
            f"no text in column {column!r}; name the column that holds the prompt with --prompt. Columns: {known}"
        )
    return value


def _responses(row: Row, columns: Sequence[str]) -> list[str]:
    found: Sequence[object]
    if columns:
        missing = [name for name in columns if name not in row]
        if missing:
            raise ValueError(f"no column {missing[0]!r} for a response. Columns: {', '.join(sorted(row))}")
        found = [row[name] for name in columns]
    elif "responses" in row:
        listed = row["responses"]
        if isinstance(listed, str):
            try:
                listed = msgspec.json.decode(listed)
            except msgspec.DecodeError:
                raise ValueError("'responses' is not a list of texts in JSON") from None
        found = list(listed) if isinstance(listed, list) else [listed]
    elif "chosen" in row and "rejected" in row:
        others = row["rejected"]
        found = sorted(map(str, [row["chosen"], *(others if isinstance(others, list) else [others])]))
    else:
        found = [row[name] for name in sorted(filter(_RESPONSE.match, row)) if row[name] not in (None, "")]
        if not found:
            known = ", ".join(sorted(row))
            raise ValueError(
                f"no responses; call the columns response_a and response_b, or name them. Columns: {known}"
            )
    if not all(isinstance(text, str) for text in found):
        raise ValueError("a response is no text")
    return [str(text) for text in found]


def _optional(row: Row, column: str) -> str | None:
    value = row.get(column)
    return None if value in (None, "") else str(value)


def _check(row: Row, count: int) -> int | None:
    value = _optional(row, "check")
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and int(value) < count):
        raise ValueError(f"'check' is {value!r}; give the number of the right response, 0 to {count - 1}, or nothing")
    return int(value)


def items_from_run(folder: Path, *, seed: int = 0) -> ItemsRead:
    """Two different samples of each prompt of a best-of-N run, drawn by the seed and the prompt's id."""
    if kind_of(folder) != "best-of-n":
        raise PalateError(f"{folder}: items come from a run of palate bon, which holds several texts for each prompt")
    run = open_run(folder)
    prompts = {line.id: line for line in _ledger(run, "items.jsonl")}
    items, left = [], 0
    for line in _ledger(run, "samples.jsonl"):
        asked = prompts.get(line.item)
        texts = list({text_key(text): text for text in line.texts if text.strip()}.values())
        if asked is None or len(texts) < 2:
            left += 1
            continue
        pair = random.Random(f"pair {seed} {line.policy_view} {line.item}").sample(sorted(texts), 2)
        items.append(
            Item(
                id=f"{_told_to_all(line.item, asked.user_id, line.item, asked.prompt)}:{line.policy_view}",
                prompt=asked.prompt,
                responses=tuple(pair),
                category=asked.category,
                group=line.item,
                models=(run.settings.policy.name,) * 2,
                source=folder.name,
            )
        )
    if not items:
        raise PalateError(f"{folder}: no prompt has two different texts; draw more samples, or at a higher temperature")
    notes = (f"{left:,} prompts without two different texts",) if left else ()
    return ItemsRead(items=tuple(items), notes=notes)


def _ledger(run: Run[Any], name: str) -> Iterable[Any]:
    return run.read(next(ledger for ledger in run.ledgers if ledger.name == name))


def refuse_all(faults: Sequence[Fault]) -> None:
    """One error that tells every fault; the first twenty word for word."""
    errors = [str(fault) for fault in faults if fault.severity == "error"]
    if errors:
        more = [f"... and {len(errors) - MOST_FAULTS:,} more"] if len(errors) > MOST_FAULTS else []
        raise PalateError("\n".join([*errors[:MOST_FAULTS], *more]))
