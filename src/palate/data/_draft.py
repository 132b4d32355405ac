"""A benchmark as it was read: each record with its place, and all that is wrong, said so that a person can mend it."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Literal, TypeVar, overload

import msgspec

from palate.data._digests import Digests, digest_of
from palate.data._on_disk import Lines, OnDisk
from palate.records import Benchmark, Card, Comparison, Completion, Judgement, PalateError, User

_NAMES = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
LONGEST_RESPONSE = 1_000_000
"""In characters. A text longer than a long novel is a mistake in the data, not an answer."""
FEWEST_COPIED = 8
"""Words of a text that two people hardly write alike."""
T = TypeVar("T")


class Location(msgspec.Struct, gc=False, frozen=True):
    """Where a record stands: a file and, where it has lines, the line."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing wrong with a benchmark: an error makes it unusable, a warning makes it mislead.

    >>> print(Fault("error", "users.jsonl", 3, "posts[0].date", "'soon' is not a date"))
    users.jsonl:3: field 'posts[0].date': 'soon' is not a date
    """

    severity: Literal["error", "warning"]
    file: str
    line: int | None
    field: str | None
    message: str

    def __str__(self) -> str:
        field = f"field {self.field!r}: " if self.field else ""
        return f"{Location(self.file, self.line)}: {field}{self.message}"


class FieldError(Exception):
    """A value of the right type that makes no sense; the reader adds the location and continues."""

    def __init__(self, field: str | None, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


def error(place: Location, field: str | None, message: str) -> Fault:
    """A fault that makes the data unusable."""
    return Fault("error", place.file, place.line, field, message)


def warning(place: Location, field: str | None, message: str) -> Fault:
    """A fault that makes the data mislead."""
    return Fault("warning", place.file, place.line, field, message)


def gathered(found: Iterable[tuple[str, Location]], field: str | None, message: str) -> Iterator[Fault]:
    """One warning for all records with the same fault, at the place of the first."""
    found = list(found)
    if found:
        id, place = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        yield warning(place, field, f"{id!r}{more}: {message}")


def refuse(faults: list[Fault], source: str, way_out: str = "") -> None:
    """Raise the first error; of more, say how many, which command lists them and how to go on without."""
    errors = [fault for fault in faults if fault.severity == "error"]
    if not errors:
        return
    more = len(errors) - 1
    listed = f"... and {more} more fault{'s' if more > 1 else ''}; `palate data check {source}` lists them all"
    advice = ". ".join(([listed] if more else []) + ([way_out] if way_out else []))
    raise PalateError(f"{errors[0]}\n{advice}" if advice else str(errors[0]))


def explain(problem: Exception, place: Location) -> Fault:
    """Put what the decoder says into words that name the field."""
    if isinstance(problem, FieldError):
        return error(place, problem.field, problem.message)
    if isinstance(problem, UnicodeDecodeError):
        return error(place, None, not_utf8(problem, place.file))
    if isinstance(problem, RecursionError):
        return error(place, None, "nested too deeply; a record is an object of plain fields")
    text = str(problem)
    if not isinstance(problem, msgspec.ValidationError):
        return error(place, None, f"broken JSON ({text}); each record is one complete JSON object")
    message, _, path = text.partition(" - at ")
    field = re.sub(r"\[\.\.\.\]", "", path.strip("`").removeprefix("$").removeprefix(".")) or None
    if missing := re.search(r"missing required field `(.+)`", message):
        name = f"{field}.{missing[1]}" if field else missing[1]
        return error(place, name, "is missing; add it")
    return error(place, field, _in_words(message))


def not_utf8(problem: UnicodeDecodeError, file: str) -> str:
    """What is wrong with a file that is not UTF-8, and a command for every system that makes a copy that is."""
    encoding = "utf-16" if problem.object[:2] in (b"\xff\xfe", b"\xfe\xff") else "cp1252"
    path = Path(file.partition(" (record ")[0])
    unpacked = path.with_suffix("") if path.suffix == ".gz" else path
    first = "unpack it, then: " if path.suffix == ".gz" else ""
    old, new = unpacked.as_posix(), unpacked.with_name(f"{unpacked.stem}-utf8{unpacked.suffix}").as_posix()
    code = f"open({new!r}, 'wb').write(open({old!r}, 'rb').read().decode({encoding!r}).encode())"
    return (
        f"not UTF-8 text (byte 0x{problem.object[problem.start]:02X}); save the file as UTF-8. If it is from Excel or "
        f'another program on Windows, this makes a copy that can be read: {first}python -c "{code}"'
    )


def _in_words(message: str) -> str:
    def name(match: re.Match[str]) -> str:
        words = [_NAMES.get(kind, kind) for kind in match[1].split(" | ")]
        return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)

    said = re.sub(r"`([^`]+)`", name, message)
    return said[:1].lower() + said[1:] + "; `palate data schema` shows what each field takes"


Placed = list[tuple[T, Location]]


class PlacedOnDisk(Sequence[tuple[Comparison, Location]]):
    """Many comparisons with their places, on the disk."""

    def __init__(self, few: Iterable[tuple[Comparison, Location]]) -> None:
        self._lines, self._places = Lines(), Lines()
        for placed in few:
            self.append(placed)

    def append(self, placed: tuple[Comparison, Location]) -> None:
        """Add one more."""
        comparison, place = placed
        self._lines.append(_ENCODER.encode(comparison))
        self._places.append(_ENCODER.encode(place))

    @property
    def comparisons(self) -> OnDisk[Comparison]:
        """Without their places."""
        return OnDisk(self._lines, _COMPARISONS.decode)

    def judgements(self, numbers: Sequence[int]) -> OnDisk[Judgement]:
        """What some of them say of their user, as history: the fields of a judgement are those of a comparison."""
        return OnDisk(self._lines, _JUDGEMENTS.decode, numbers)

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, place: int) -> tuple[Comparison, Location]: ...
    @overload
    def __getitem__(self, place: slice) -> list[tuple[Comparison, Location]]: ...
    def __getitem__(self, place: int | slice) -> tuple[Comparison, Location] | list[tuple[Comparison, Location]]:
        places = OnDisk(self._places, _LOCATIONS.decode)
        if isinstance(place, slice):
            return list(zip(self.comparisons[place], places[place], strict=True))
        return self.comparisons[place], places[place]

    def __iter__(self) -> Iterator[tuple[Comparison, Location]]:
        return zip(self.comparisons, OnDisk(self._places, _LOCATIONS.decode), strict=True)


_ENCODER = msgspec.msgpack.Encoder()
_COMPARISONS, _JUDGEMENTS, _LOCATIONS = map(msgspec.msgpack.Decoder, (Comparison, Judgement, Location))


class BenchmarkDraft(msgspec.Struct, kw_only=True):
    """Records with their places. `check` reads it as it is; loading turns it into a benchmark or refuses."""

    card: Card
    source: str
    """What the person wrote to get here, for messages."""
    users: Placed[User] = []
    comparisons: Placed[Comparison] | PlacedOnDisk = []
    completions: Placed[Completion] = []
    faults: list[Fault] = []
    unordered: bool = False
    """The files put the chosen response first by convention, so its position means nothing."""
    chosen_first: set[str] = set()
    """Ids of single comparisons written that way."""
    columns: dict[str, str] = {}
    """Of a table: which column was read as what, by the option that says so."""
    spec: str | None = None
    """Of a table: what reads it the same way without a guess."""
    taken: list[Fault] = []
    """Of a table: what was taken by its usual name, which `columns` holds as well."""
    unused: tuple[str, ...] = ()
    """Of a table: columns that nothing is read from."""
    skipped: list[Fault] = []
    """Of a table with `bad=skip`: each row that was left out, and why."""

    @property
    def way_out(self) -> str:
        """Of a table whose bad rows are not skipped: how to leave them out, unless most are bad, which is refused."""
        bad = sum(fault.severity == "error" for fault in self.faults)
        if not self.columns or "bad" in self.columns or bad > len(self.comparisons):
            return ""
        return f"To leave such rows out and count them: {quote(f'{self.source},bad=skip')}"

    def items(self) -> Iterator[tuple[Comparison | Completion, Location]]:
        """Comparisons and completions together."""
        return chain[tuple[Comparison | Completion, Location]](self.comparisons, self.completions)

    def benchmark(self) -> Benchmark:
        """The finished benchmark; PalateError when something makes it unusable."""
        refuse(self.faults + integrity(self), self.source, self.way_out)
        placed = self.comparisons
        return Benchmark(
            card=self.card,
            users={user.id: user for user, _ in self.users},
            comparisons=placed.comparisons if isinstance(placed, PlacedOnDisk) else tuple(one for one, _ in placed),
            completions=tuple(completion for completion, _ in self.completions),
        )


def draft_of(benchmark: Benchmark, source: str, *, unordered: bool = False) -> BenchmarkDraft:
    """A benchmark that was not read line by line: every record stands at its source."""
    place = Location(source)
    return BenchmarkDraft(
        card=benchmark.card,
        source=source,
        users=[(user, place) for user in benchmark.users.values()],
        comparisons=[(comparison, place) for comparison in benchmark.comparisons],
        completions=[(completion, place) for completion in benchmark.completions],
        unordered=unordered,
    )


def integrity(draft: BenchmarkDraft) -> list[Fault]:
    """What no single record shows: repeated ids, people who do not exist, indices out of range."""
    faults = _repeated("user_id", draft.users)
    faults += _repeated("id", draft.comparisons)
    faults += _repeated("id", draft.completions)
    users_readable = not any(fault.severity == "error" for fault in draft.faults)
    known = {user.id for user, _ in draft.users}
    for item, place in draft.items():
        if users_readable and item.user_id not in known:
            faults.append(error(place, "user_id", f"no user {item.user_id!r}; add the user or correct the id"))
        if isinstance(item, Comparison):
            faults += choice_faults(item, place)
    for user, place in draft.users:
        for number, judgement in enumerate(user.judgements):
            if choice_faults(judgement, place):
                faults += choice_faults(judgement, place, f"preferences[{number}].")
    if not (draft.comparisons or draft.completions or draft.faults):
        faults.append(error(Location(draft.source), None, "holds no comparison and no completion; add some"))
    return faults


def spelt_alike(draft: BenchmarkDraft) -> Iterator[Fault]:
    """Users whose ids differ in nothing that people see or mean: each then lacks the history of the other."""
    first: dict[str, User] = {}
    alike: list[tuple[str, Location]] = []
    for user, place in draft.users:
        earlier = first.setdefault(" ".join(unicodedata.normalize("NFKC", user.id).casefold().split()), user)
        if earlier.id != user.id:
            alike.append((user.id, place))
    message = (
        "as the id of another user but for case, spaces or accents' encoding; write it alike if both are one person"
    )
    return gathered(alike, "user_id", message)


def copied(draft: BenchmarkDraft) -> Iterator[Fault]:
    """Users at least half of whose longer posts, and two of them, somebody earlier has written, too."""
    authors: dict[str, list[str]] = {}
    copies: list[tuple[str, Location]] = []
    for user, place in draft.users:
        texts = (" ".join(post.text.casefold().split()) for post in user.posts)  # a reason may be one of a list
        wrote = {text for text in texts if text.count(" ") >= FEWEST_COPIED - 1}
        shared = Counter(author for text in wrote for author in authors.get(text, ()))
        if 2 * max(shared.values(), default=0) >= max(4, len(wrote)):  # one alone may be a phrase of many
            copies.append((user.id, place))  # of many copies the first alone is an author, so this takes no longer
            continue
        for text in wrote:
            authors.setdefault(text, []).append(user.id)
    message = (
        "wrote half or more of their posts word for word like an earlier user: if they are one person, "
        "intervals are too narrow, and strangers are not strangers"
    )
    return gathered(copies, None, message)


def misleading(draft: BenchmarkDraft) -> Iterator[Fault]:
    """What makes numbers mislead though the data can be used, and is said whenever they are loaded."""
    yield from spelt_alike(draft)
    yield from copied(draft)
    if not isinstance(draft.comparisons, PlacedOnDisk):  # a table has no such rows
        both = [(item.id, place) for item, place in draft.comparisons if item.chosen in item.rejected]
        message = (
            f"chosen is also a rejected response, so no model can be right ({len(both):,} items); remove these rows"
        )
        yield from gathered(both, "chosen", message)


def _repeated(field: str, placed: Sequence[tuple[User | Comparison | Completion, Location]]) -> list[Fault]:
    seen = Digests()
    again: list[tuple[str, Location]] = []
    for record, place in placed:
        before = len(seen)
        if seen.add(digest_of(record.id)) < before:
            again.append((record.id, place))
    names, first = {id for id, _ in again}, dict[str, Location]()
    for record, place in placed if again else ():
        if record.id in names:
            first.setdefault(record.id, place)
    faults: list[Fault] = []
    for id, place in again:
        before_it = f"in line {first[id].line}" if first[id].line else "before"
        faults.append(error(place, field, f"{id!r} is already used {before_it}; ids are unique"))
    return faults


def choice_faults(choice: Comparison | Judgement, place: Location, prefix: str = "") -> list[Fault]:
    """What is wrong with the responses of a choice and the index preferred."""
    count = len(choice.responses)
    longest = max(map(len, choice.responses), default=0)
    shown = choice.shown if isinstance(choice, Comparison) else None
    if shown is None and count > 1 and 0 <= choice.preferred < count and longest <= LONGEST_RESPONSE:
        return []
    if longest > LONGEST_RESPONSE:
        message = f"{longest:,} characters in one response; palate takes at most {LONGEST_RESPONSE:,}"
        return [error(place, f"{prefix}responses", message)]
    if count < 2:
        return [error(place, f"{prefix}responses", f"{count} given; a choice needs two or more")]
    if not 0 <= choice.preferred < count:
        message = f"{choice.preferred} is out of range; responses count from 0 to {count - 1}"
        return [error(place, f"{prefix}preferred", message)]
    if shown is not None and len(shown) != count:
        return [error(place, "shown", f"{len(shown)} positions for {count} responses; give one each")]
    if shown is not None and len(set(shown)) < count:
        return [error(place, "shown", f"{list(shown)} has two responses at one position; give each its own, from 0")]
    return []
