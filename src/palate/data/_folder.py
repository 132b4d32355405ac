"""palate's own format: a folder with users.jsonl, comparisons.jsonl, completions.jsonl and card.json."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict

from palate.data._columns import TIMES, plain
from palate.data._draft import BenchmarkDraft, Fault, FieldError, Location, draft_of, error, explain, warning
from palate.data._files import find, raw_records, read_bytes, read_records
from palate.data._hub import HUB
from palate.data._wire import WireAspect, WireComparison, WireCompletion, WirePost, WirePreference, WireUser
from palate.records import Benchmark, Card, Comparison, Completion, Dated, Judgement, PalateError, User
from palate.storage import is_url

_TIME_FIELD = re.compile(rb'"([A-Za-z_ -]{3,20})"\s*:\s*"?\d')
"""A field whose value begins with a digit. In a text, the quotation marks would have backslashes before them."""
_TIMES = {
    *TIMES,
    "ts",
    "when",
    *(f"{made}{at}" for made in ("posted", "published", "written") for at in ("", "at", "on")),
}
_EVENTS = ("posts", "judgements")
T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class _Recordable(Protocol[T_co]):
    def record(self) -> T_co: ...


def is_folder_format(folder: Path) -> bool:
    """Whether the folder holds comparisons or completions in palate's own format."""
    return any(find(folder, name) for name in ("comparisons.jsonl", "completions.jsonl"))


def read_folder(folder: Path, source: str, *, extras: bool = False) -> BenchmarkDraft:
    """Read every file of the folder; faults are gathered, not raised."""
    draft = BenchmarkDraft(card=default_card(folder, source), source=source)
    _read_card(folder, draft)
    users = find(folder, "users.jsonl")
    if users is None:
        missing = Location(str(folder / "users.jsonl"))
        draft.faults.append(error(missing, None, "is missing; add a line for each user"))
    else:
        draft.users = list(_records(read_records(users, WireUser, draft.faults, extras=extras), draft.faults))
    if comparisons := find(folder, "comparisons.jsonl"):
        decoded = list(read_records(comparisons, WireComparison, draft.faults, extras=extras))
        draft.comparisons = list(_records(decoded, draft.faults))
        draft.chosen_first = {str(wire.id) for wire, _ in decoded if wire.responses is None}
    if completions := find(folder, "completions.jsonl"):
        decoded_completions = read_records(completions, WireCompletion, draft.faults, extras=extras)
        draft.completions = list(_records(decoded_completions, draft.faults))
    posts, judged = ([event for user, _ in draft.users for event in getattr(user, kind)] for kind in _EVENTS)
    items, texts = ([one for one, _ in placed] for placed in (draft.comparisons, draft.completions))
    for file, dated in ((users, posts), (users, judged), (comparisons, items), (completions, texts)):
        draft.faults += unread_times(file, dated)
    return draft


def unread_times(path: Path | None, dated: Iterable[Dated | WirePost | WirePreference]) -> Iterator[Fault]:
    """A warning where nothing has a date or a place in a sequence, and the file has times of another name."""
    dated = list(dated)
    if path is None or not dated or any(one.date or one.sequence is not None for one in dated):
        return
    for record, place in raw_records(path, []):
        for name in map(bytes.decode, _TIME_FIELD.findall(bytes(record))):
            if name != "date" and plain(name) in _TIMES:
                message = (
                    "palate does not read times of this name, so what is later may be shown as history; name it date"
                )
                yield warning(place, name, message)
                return


def default_card(path: Path, source: str) -> Card:
    """The card of data that came without one. It travels with the data, so it names no folder of this machine."""
    file = path.resolve().name
    name = file.removesuffix(".gz")
    name = (name if path.is_dir() else name.rpartition(".")[0] or name) or "benchmark"
    elsewhere = is_url(source) or source.startswith(HUB)
    return Card(name=name, title=name, version="local", licence="unknown", source=source if elsewhere else file)


def _read_card(folder: Path, draft: BenchmarkDraft) -> None:
    path = folder / "card.json"
    if path.is_file():
        try:
            draft.card = msgspec.json.decode(read_bytes(path), type=Card)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            draft.faults.append(explain(problem, Location(str(path))))


def _records(decoded: Iterable[tuple[_Recordable[T], Location]], faults: list[Fault]) -> Iterator[tuple[T, Location]]:
    for wire, place in decoded:
        try:
            yield wire.record(), place
        except FieldError as problem:
            faults.append(explain(problem, place))


def write_benchmark(benchmark: Benchmark, folder: Path, *, force: bool = False) -> None:
    """Write the folder format. Each file appears whole or not at all; loading it gives the same content hash.

    A folder that holds other things is refused unless forced, so that nothing is mixed up by mistake.
    """
    if not force and folder.is_dir() and any(folder.iterdir()) and not is_folder_format(folder):
        raise PalateError(f"{folder}: not empty and not a benchmark; name another folder, or force it (--force)")
    draft_of(benchmark, benchmark.card.name).benchmark()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_lines(folder / "users.jsonl", [_wire_user(user) for user in benchmark.users.values()])
        # where the position of the chosen response means something, every row keeps the order
        ordered = any(item.preferred or item.shown is not None for item in benchmark.comparisons)
        comparisons = [_wire_comparison(item, ordered=ordered) for item in benchmark.comparisons]
        _write_lines(folder / "comparisons.jsonl", comparisons)
        _write_lines(folder / "completions.jsonl", [_wire_completion(item) for item in benchmark.completions])
        card = msgspec.json.format(msgspec.json.encode(benchmark.card), indent=2)
        _replace(folder / "card.json", [card + b"\n"])
    except OSError as problem:
        raise PalateError(f"{folder}: cannot be written ({problem.strerror or problem})") from None


def _write_lines(path: Path, records: list[WireUser] | list[WireComparison] | list[WireCompletion]) -> None:
    if records:
        encoder = msgspec.json.Encoder()
        _replace(path, (encoder.encode(record) + b"\n" for record in records))
    else:
        path.unlink(missing_ok=True)
    path.with_name(f"{path.name}.gz").unlink(missing_ok=True)


def _replace(path: Path, lines: Iterable[bytes]) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _wire_user(user: User) -> WireUser:
    return WireUser(
        user_id=user.id,
        demographics={name: [*value] if isinstance(value, list) else value for name, value in user.demographics.items()}
        or None,
        values=list(user.values),
        posts=[WirePost(**asdict(post)) for post in user.posts],
        preferences=[_wire_preference(judgement) for judgement in user.judgements],
    )


def _wire_preference(judgement: Judgement) -> WirePreference:
    wire = WirePreference(
        prompt=judgement.prompt,
        reason=judgement.reason,
        value_alignment=list(judgement.values),
        id=judgement.id,
        date=judgement.date,
        sequence=judgement.sequence,
    )
    if len(judgement.responses) == 2:
        wire.response_A, wire.response_B = judgement.responses
        wire.chosen_response = "response_B" if judgement.preferred else "response_A"
    else:
        wire.responses, wire.preferred = list(judgement.responses), judgement.preferred
    return wire


def _shared(item: Comparison | Completion) -> dict[str, Any]:
    """The fields that comparisons and completions share, as the file has them."""
    aspects = [WireAspect(**asdict(aspect)) for aspect in item.privileged.aspects]
    return {
        "id": item.id,
        "user_id": item.user_id,
        "question": item.prompt,
        "category": item.category,
        "date": item.date,
        "sequence": item.sequence,
        "narrative": item.privileged.narrative,
        "rubric_aspects": aspects or None,
    }


def _wire_comparison(item: Comparison, *, ordered: bool) -> WireComparison:
    wire = WireComparison(
        **_shared(item),
        difficulty=item.difficulty,
        contrast=item.contrast,
        twin=item.twin,
        # null, not absent: a twin without a group would be given one when it is read
        group=UNSET if item.group is None and item.twin is None else item.group,
    )
    if ordered:
        wire.responses, wire.preferred = list(item.responses), item.preferred
        wire.shown = None if item.shown is None else list(item.shown)
    else:
        wire.chosen = item.chosen
        wire.rejected = item.rejected[0] if len(item.rejected) == 1 else list(item.rejected)
    return wire


def _wire_completion(item: Completion) -> WireCompletion:
    return WireCompletion(
        **_shared(item),
        text=item.text,
        alternatives=list(item.alternatives),
        group=UNSET if item.group is None else item.group,
    )
