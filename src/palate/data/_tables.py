"""Preference tables, one row a choice: which columns hold what, how labels are read, and messages as text."""

from __future__ import annotations

import ast
import hashlib
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import takewhile
from pathlib import Path
from shlex import quote

import msgspec

from palate.data._columns import NO_USER, OPTIONS, SKIP, TALKS, Columns, find_columns, is_table, plain, times
from palate.data._draft import (
    BenchmarkDraft,
    Fault,
    FieldError,
    Location,
    PlacedOnDisk,
    error,
    explain,
    gathered,
    warning,
)
from palate.data._files import Row, read_rows, suffix
from palate.data._labels import TIE, Reading, UnknownLabelError, compare_scores, counted, label_reading
from palate.data._wire import DAY_FIRST, MONTH_FIRST, Id, SlashedDays, identifier, table_date, write_moment
from palate.records import Card, Comparison, Judgement, PalateError, User

__all__ = ["NOBODY", "NO_USER", "OPTIONS", "Message", "is_table", "read_table", "render_turns", "turns_of"]

NOBODY = "nobody-"
"""Begins the id of a row whose data name nobody: nothing about it is personal."""
MOST_HELD = 2**24
"""Characters of texts that are held in memory; a larger table stays on the disk."""
_MESSAGES = re.compile(r"""\s*\[\s*\{\s*["'](?:role|content)["']""")
_GRADE = re.compile("bad|good|neither", re.IGNORECASE)
"""In a label that says more than a tie does: whether both responses are good or bad."""
_LAST_ANSWER = "\n\nAssistant:"
_MISSING = frozenset(["n/a", "#n/a", "nan", "null", "<na>"])
"""What programs write for a missing value. `NA` and `none` are not here: they may be a country and an answer."""
_NO_NAME = _MISSING | frozenset(
    "na none anonymous anon unknown undefined guest deleted [deleted] [removed] - ? not_given not_available".split()
)
"""The same of a user, of whom these are no more a name."""
Traits = dict[str, str | list[str]]


class Message(msgspec.Struct, frozen=True):
    """One turn of a conversation."""

    role: str
    content: str


Turns = tuple[Message, ...]


def read_table(
    files: Iterable[Path], card: Card, source: str, options: Mapping[str, str], path: str | None = None
) -> BenchmarkDraft:
    """Rows become comparisons; a user's history is their rows, ordered by date or by place in the table.

    `path` is what the options are written after. What no option says is taken by its usual name, and said.
    """
    files, path = list(files), path or source.split(",")[0]
    found = find_columns(_fields(files), options, path, source)
    columns, guessed = found.columns, list(found.guessed)
    left_alone: list[str] = []
    if columns.date is None:
        day, order, left_alone = _time_column(
            files, times(_fields(files), set(columns.options.values())), columns, path
        )
        if day:
            columns = msgspec.structs.replace(columns, date=day, days=order)
            guessed.append(f"{day!r} as the time of each choice")
    elif columns.days is None:
        slashed = SlashedDays()
        for row, where in (read for file in files for read in read_rows(file, [])):
            slashed.see(row.get(columns.date), where)
        order = slashed.order(columns.date, _days_option(path, columns.date))
        columns = msgspec.structs.replace(columns, days=order)
    reading, said = _label_reading(files, columns)
    numbered = _numbered_talks(files, columns)
    draft = BenchmarkDraft(card=card, source=source, unordered=columns.chosen_first, columns=columns.options)
    draft.spec = columns.spec(path)
    draft.unused = tuple(field for field in found.free if field != columns.date)
    place = Location(path)
    if guessed:
        full = quote(draft.spec) if draft.spec else "name the columns"
        taken = f"taking {', '.join(guessed)}; to say so yourself: {full}"
        draft.taken = [warning(place, None, taken)]
    messages = [f"{said}; if not so, give labels=" + "FIRST+SECOND"] if said else []
    if numbered:
        messages.append(f"the ids in {columns.group!r} start again for each user, so each user's talks are told apart")
    if columns.user is None and "user" not in options:
        fields = ", ".join(sorted(_fields(files)))
        messages.append(
            f"no column names the user, so nothing here is personal; if one does: {path},user=COLUMN, if none does: "
            f"{path},user={NO_USER}. Columns found: {fields}"
        )
    warnings = [warning(place, None, message) for message in (*messages, *found.hints, *left_alone)]
    _Rows(draft, columns, reading, place, numbered_talks=numbered).read(files, warnings)
    if columns.prompt is None and "prompt" not in found.free and not draft.comparisons:
        _no_prompt(draft, place, path, draft.unused)
    return draft


def _no_prompt(draft: BenchmarkDraft, place: Location, path: str, free: Sequence[str]) -> None:
    """One fault in place of one for each row, where no row has a prompt."""
    others = [fault for fault in draft.faults if fault.field != "prompt"]
    if len(others) == len(draft.faults):
        return
    unread = f". Columns without a role: {', '.join(free)}" if free else ""
    message = (
        f"no column holds the prompt. Say which one does: {path},prompt=COLUMN, or give both responses as lists of "
        f"messages that begin alike{unread}"
    )
    draft.faults[:] = [error(place, None, message), *others]


def _fields(files: Iterable[Path]) -> list[str]:
    """Every column, in order. Rows of JSON may have different ones, so all are looked at."""
    fields: dict[str, None] = {}
    for path in files:
        for row, _ in read_rows(path, []):
            fields.update(dict.fromkeys(row))
            if not suffix(path).startswith(".json"):
                break
    return list(fields)


def _time_column(
    files: Sequence[Path], candidates: Sequence[str], columns: Columns, path: str
) -> tuple[str | None, str | None, list[str]]:
    """The first column that has a time in every row, with the order of its days; else why each is not taken."""
    odd: dict[str, list[object]] = {name: [] for name in candidates}
    slashed = {name: SlashedDays() for name in candidates}
    rows = 0
    for row, place in (read for path in files for read in read_rows(path, [])) if candidates else ():
        rows += 1
        for name, values in odd.items():
            slashed[name].see(row.get(name), place)
            if not _is_time(row.get(name)):
                values.append(row.get(name))
    left_alone: list[str] = []
    for name, values in odd.items():
        try:
            order = columns.days or slashed[name].order(name, _days_option(path, name))
        except PalateError as unclear:
            left_alone.append(f"{unclear}. Until then, choices count as made in the order of the rows")
            continue
        if not values:
            return name, order, []
        left_alone.append(_ignored_time(name, values[0], len(values), rows, path))
    return None, columns.days, left_alone


def _days_option(path: str, column: str) -> str:
    return f"{quote(f'{path},date={column},days={DAY_FIRST}')}, or days={MONTH_FIRST}"


def _ignored_time(column: str, value: object, odd: int, rows: int, path: str) -> str:
    """Why a column is not taken as the time; rows are worth leaving out only where most have one."""
    said = (
        f"{column!r} is not used as the time of each choice: {odd:,} of {rows:,} rows have no date that palate reads, "
        f"such as {value!r}. Choices count as made in the order of the rows"
    )
    if odd > rows / 2:
        return f"{said}. To use it, write dates as 2023-05-14"
    return f"{said}. To leave out the rows without a date instead: {quote(f'{path},date={column},bad={SKIP}')}"


def _label_reading(files: Sequence[Path], columns: Columns) -> tuple[Reading | None, str]:
    if columns.label is None:
        return None, ""
    label = columns.label
    values = (row.get(label) for path in files for row, _ in read_rows(path, []))
    return label_reading(values, (columns.first, columns.second), label, columns.labels)


def _numbered_talks(files: Sequence[Path], columns: Columns) -> bool:
    """Whether the talks of each user are numbered from the start, so that talks of several users have one id.

    Where two people judged the same talk, they were asked something that is the same.
    """
    if columns.group is None or columns.user is None or plain(columns.group) not in TALKS:
        return False
    user_of: dict[str, str] = {}
    asked: dict[tuple[str, int], str] = {}
    several, shared = set[str](), set[str]()
    for row, _ in (read for path in files for read in read_rows(path, [])):
        talk, user = _optional(row.get(columns.group)), str(row.get(columns.user))
        if talk is None:
            continue
        try:
            prompt = hash(_texts(row, columns)[0])
        except FieldError:
            continue
        if user_of.setdefault(talk, user) != user:
            several.add(talk)
        if asked.setdefault((talk, prompt), user) != user:
            shared.add(talk)
    return len(shared) < len(several) / 2


class _Rows:
    """Puts the rows of a table into a draft."""

    def __init__(
        self,
        draft: BenchmarkDraft,
        columns: Columns,
        reading: Reading | None,
        table: Location,
        *,
        numbered_talks: bool = False,
    ) -> None:
        self.draft, self.columns, self.reading, self.table = draft, columns, reading, table
        self.numbered_talks = numbered_talks
        self.users: dict[str, tuple[Location, array[int], Traits]] = {}
        """Everybody with the numbers of their choices."""
        self.texts: dict[str, str] = {}
        """Every text and name once, since questions, answers, users and days recur."""
        self.characters = 0
        self.differing: dict[str, list[tuple[str, Location]]] = {}
        """By trait: users who have another value in an earlier row."""
        self.missing: dict[str, tuple[str, Location]] = {}
        """Users whose id is what programs write for a missing value."""
        self.twice = 0
        self.ties = Counter[str]()
        """Labels of rows that prefer neither response."""
        self.seen: set[bytes] = set()
        self.unknown = Counter[str]()
        """Labels whose meaning is not known, each with its rows."""

    def read(self, files: Iterable[Path], warnings: Iterable[Fault]) -> None:
        """Every row, one at a time. Faults of the whole table come first, then those of rows as they stand."""
        draft, faults = self.draft, list[Fault]()
        for row, place in (read for path in files for read in read_rows(path, draft.faults, faults)):
            try:
                if not self._is_there(row):
                    self._add(row, place)
            except FieldError as problem:
                faults.append(explain(problem, place))
                if isinstance(problem, UnknownLabelError):
                    self.unknown[problem.label] += 1
        draft.users = [
            (User(id=id, demographics=traits, judgements=_judgements(draft.comparisons, choices)), place)
            for id, (place, choices, traits) in self.users.items()
        ]
        self.texts.clear()
        draft.faults += warnings
        if self.columns.skips_bad:
            self._skip(faults)
        else:
            draft.faults += faults
        for trait, rows in self.differing.items():
            draft.faults += gathered(rows, trait, "differs from an earlier row of the user, which is kept")
        message = "this looks like a missing value and counts as one person; empty the cells that name nobody"
        draft.faults += gathered(self.missing.values(), self.columns.user, message)
        if self.twice:
            self._left_out(f"rows that are there twice, with the same time, left out: {self.twice:,}")
        if self.ties:
            graded = Counter({label: number for label, number in self.ties.items() if _GRADE.search(label)})
            among = f", among them {counted(graded)}" if graded else ""
            note = f"ties, which prefer neither response, left out: {self.ties.total():,}{among}"
            self._left_out(note, self.columns.label)

    def _is_there(self, row: Row) -> bool:
        """Whether bad rows are skipped and this one was there before, to the letter and to the time.

        Without a time, it may be a second judgement, which says how far people agree with themselves.
        """
        if not self.columns.skips_bad or self.columns.date is None:
            return False
        key = hashlib.sha256(repr(row).encode("utf-8", "surrogatepass")).digest()
        there = key in self.seen
        self.seen.add(key)
        self.twice += there
        return there

    def _skip(self, faults: Sequence[Fault]) -> None:
        """Leave out the rows that cannot be used, unless these are most: then it is the reading that is wrong."""
        draft = self.draft
        rows = len(faults) + len(draft.comparisons) + self.ties.total()
        if len(faults) > rows / 2:
            message = f"bad={SKIP} would leave out {len(faults):,} of {rows:,} rows; look at the columns and labels"
            draft.faults += [*faults, error(self.table, None, message)]
        elif faults:
            draft.skipped = [msgspec.structs.replace(fault, severity="warning") for fault in faults]
            unknown = f", {self.unknown.total():,} of them for a label of no known meaning" if self.unknown else ""
            self._left_out(f"rows that cannot be used, left out: {len(faults):,}{unknown}")
            if self.unknown:
                message = (
                    f"left out for a label of no known meaning: {counted(self.unknown)}. If these mean one of the "
                    "responses, name them all: labels=FIRST|FIRST+SECOND|SECOND+TIE"
                )
                draft.faults.append(warning(self.table, self.columns.label, message))

    def _left_out(self, note: str, field: str | None = None) -> None:
        draft = self.draft
        draft.faults.append(warning(self.table, field, note))
        draft.card = msgspec.structs.replace(draft.card, notes=(*draft.card.notes, note))

    def _add(self, row: Row, place: Location) -> None:
        columns, held = self.columns, self._held
        preferred = self._preferred(row)
        prompt, *responses = map(held, _texts(row, columns))
        number = len(self.draft.comparisons)
        user_id = f"{NOBODY}{number}" if columns.user is None else _text_id(row.get(columns.user), columns.user)
        user_id = held(user_id)
        own_id = row.get(columns.id) if columns.id else None
        moment = _moment(row.get(columns.date), columns.date, columns.days) if columns.date else None
        moment = moment and held(moment)
        if preferred == TIE:
            self.ties[str(row.get(columns.label or "")).strip()] += 1
            return
        if columns.chosen_first and not responses[0].strip():
            raise FieldError(columns.first, "is empty, so nothing was chosen")
        if responses[0] == responses[1]:
            raise FieldError(columns.second, f"is the same text as {columns.first!r}, so nothing was chosen")
        category, group = (_optional(row.get(name)) if name else None for name in (columns.category, columns.group))
        if group and self.numbered_talks:
            group = f"{user_id}: {group}"
        comparison = Comparison(
            id=f"{user_id}-{number}" if own_id is None else _text_id(own_id, columns.id or ""),
            user_id=user_id,
            prompt=prompt,
            responses=tuple(responses),
            preferred=preferred,
            category=category and held(category),
            group=group and held(group),
            date=moment,
            sequence=None if columns.date else number,
            shown=None if columns.chosen_first else (0, 1),
        )
        self.draft.comparisons.append((comparison, place))
        _, choices, traits = self.users.setdefault(user_id, (place, array("I"), {}))
        if user_id.strip().casefold().replace(" ", "_") in _NO_NAME:
            self.missing.setdefault(user_id, (user_id, place))
        if columns.user is not None:
            choices.append(number)
        for name in columns.demographics:
            value = _trait(row.get(name), name)
            if value is not None and traits.setdefault(name, value) != value:
                self.differing.setdefault(name, []).append((user_id, place))

    def _held(self, text: str) -> str:
        """Every text once, while texts are held; from many texts on, they and all that follow stay on the disk."""
        if isinstance(self.draft.comparisons, PlacedOnDisk):
            return text
        held = self.texts.setdefault(text, text)
        if held is text:
            self.characters += len(text)
            if self.characters > MOST_HELD:
                self.draft.comparisons = PlacedOnDisk(self.draft.comparisons)
                self.texts.clear()
        return held

    def _preferred(self, row: Row) -> int:
        columns = self.columns
        if columns.scores:
            return compare_scores(row.get(columns.scores[0]), row.get(columns.scores[1]), columns.scores)
        return self.reading(row.get(columns.label or "")) if self.reading else 0


def _judgements(placed: Sequence[tuple[Comparison, Location]], numbers: array[int]) -> Sequence[Judgement]:
    """These comparisons as their user's history."""
    if isinstance(placed, PlacedOnDisk):
        return placed.judgements(numbers)
    return tuple(
        Judgement(
            prompt=one.prompt,
            responses=one.responses,
            preferred=one.preferred,
            id=one.id,
            date=one.date,
            sequence=one.sequence,
        )
        for one, _ in (placed[number] for number in numbers)
    )


def _is_time(value: object, days: str = DAY_FIRST) -> bool:
    """A day or a moment, whatever is first. A bare number does not count: it may be a year, a duration or seconds."""
    try:
        return not isinstance(value, int) and len(_moment(value, "date", days)) > len("2023-05")
    except FieldError:
        return days == DAY_FIRST and _is_time(value, MONTH_FIRST)


def _optional(value: object) -> str | None:
    return None if value in (None, "") else str(value)


def _trait(value: object, field: str) -> str | list[str] | None:
    """A demographic value; numbers and true or false as JSON writes them."""
    if isinstance(value, list):
        return [text for each in value if isinstance(text := _trait(each, field), str)]
    if value is None or (isinstance(value, str) and value.strip().casefold() in ("", *_MISSING)):
        return None
    if not isinstance(value, str | int | float | bool):
        raise FieldError(field, "expected a text, a number or a list of these")
    return value.strip() if isinstance(value, str) else msgspec.json.encode(value).decode()


def _text_id(value: object, field: str) -> str:
    if isinstance(value, str) and value:
        return value
    try:
        return identifier(msgspec.convert(value, Id), field)
    except msgspec.ValidationError:
        raise FieldError(field, "expected a string or a whole number, which tells the rows apart") from None


def _moment(value: object, field: str, days: str | None) -> str:
    if isinstance(value, datetime):
        return write_moment(value if value.tzinfo is None else value.astimezone(UTC))
    if isinstance(value, date):
        return value.isoformat()
    if value == "":
        raise FieldError(field, "is empty; write 2023, 2023-05-14 or 2023-05-14T20:11:00Z")
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise FieldError(field, "is not a date; write 2023, 2023-05-14 or 2023-05-14T20:11:00Z in every row")
    try:
        return table_date(f"{value:04d}" if isinstance(value, int) else value, days)
    except (ValueError, OverflowError):
        raise FieldError(field, f"{value!r} is not a date; write 2023, 2023-05-14 or 2023-05-14T20:11:00Z") from None


def _texts(row: Row, columns: Columns) -> tuple[str, str, str]:
    """Prompt and both responses as text; without a prompt column, the turns both share are the prompt."""
    name = columns.prompt or "prompt"
    given = _messages(row.get(name), name)
    one, other = (_messages(row.get(field), field) for field in (columns.first, columns.second))
    if isinstance(given, str) and isinstance(one, str) and isinstance(other, str):
        return given, one, other
    if given is None and isinstance(one, str) and isinstance(other, str):
        return _split_transcripts(one, other, name)
    first, second = turns_of(one, columns.first), turns_of(other, columns.second)
    shared = tuple(turn for turn, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))
    shared = shared[: min(len(first), len(second)) - 1]  # a response is left, also where both are the same
    if given is not None:
        prompt = turns_of(given, name)
        if shared and _same(shared[-len(prompt) :], prompt):
            prompt = shared  # with a system message before it, if there is one
        first, second = _without(first, prompt), _without(second, prompt)
    elif not shared:
        raise FieldError(
            name, f"is missing, and {columns.first} and {columns.second} do not begin with the same messages"
        )
    else:
        prompt, first, second = shared, first[len(shared) :], second[len(shared) :]
    return render_turns(prompt), render_turns(first, "assistant"), render_turns(second, "assistant")


def _messages(value: object, field: str) -> object:
    """A list of messages that was written as JSON or as Python writes it; anything else as it is."""
    if not isinstance(value, str) or not _MESSAGES.match(value):
        return value
    try:
        return msgspec.json.decode(value, type=list[Message])
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return msgspec.convert(ast.literal_eval(value.strip()), list[Message])
    except (msgspec.ValidationError, ValueError, SyntaxError, MemoryError, RecursionError):
        raise FieldError(field, "looks like a list of messages and cannot be read as JSON; write it as JSON") from None


def _split_transcripts(one: str, other: str, field: str) -> tuple[str, str, str]:
    """Two transcripts that differ in the last answer, as texts with `Human:` and `Assistant:`."""
    head, mark, first = one.rpartition(_LAST_ANSWER)
    same, _, second = other.rpartition(_LAST_ANSWER)
    if not mark or head != same:
        raise FieldError(
            field, "is missing; add the column, or give both responses as lists of messages that begin alike"
        )
    asked = head.strip()
    alone = asked.startswith("Human:") and asked.count("\n\nHuman:") == 0 and _LAST_ANSWER not in asked
    return asked.removeprefix("Human:").strip() if alone else asked, first.strip(), second.strip()


def turns_of(value: object, field: str) -> Turns:
    """A text as one turn, a message or a list of messages."""
    if isinstance(value, str):
        return (Message("", value),)
    if value is None:
        raise FieldError(field, "is missing; give a text or a list of messages")
    try:
        return tuple(msgspec.convert([value] if isinstance(value, Mapping) else value, list[Message]))
    except (msgspec.ValidationError, RecursionError):
        texts = isinstance(value, list | tuple) and all(isinstance(text, str) for text in value)
        several = (
            "; for several responses to choose from, write a folder with comparisons.jsonl, whose rows hold a list of "
            "responses and the number of the preferred one"
        )
        raise FieldError(
            field, f"expected a string or a list of messages with role and content{several if texts else ''}"
        ) from None


def _same(turns: Turns, prompt: Turns) -> bool:
    """Whether turns are those of the prompt; a prompt that is a text is what a user said."""
    if len(prompt) == 1 and prompt[0].role == "":
        return len(turns) == 1 and turns[0].role in ("", "user") and turns[0].content == prompt[0].content
    return turns == prompt


def _without(turns: Turns, prompt: Turns) -> Turns:
    return turns[len(prompt) :] if len(turns) > len(prompt) and _same(turns[: len(prompt)], prompt) else turns


def render_turns(turns: Turns, alone: str = "user") -> str:
    """A single message is its content; a conversation names who speaks.

    >>> print(render_turns((Message("user", "Hello"), Message("assistant", "Hi"))))
    User: Hello
    <BLANKLINE>
    Assistant: Hi
    """
    if len(turns) == 1 and turns[0].role in ("", alone):
        return turns[0].content
    return "\n\n".join(f"{turn.role.capitalize()}: {turn.content}" for turn in turns)
