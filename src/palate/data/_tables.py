"""Preference tables with the columns prompt, chosen and rejected, one row a choice, as trainers use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from itertools import takewhile
from pathlib import Path

import msgspec

from palate.data._draft import BenchmarkDraft, Fault, FieldError, Location, explain, warning
from palate.data._exchange import comparison_of
from palate.data._files import Row, read_rows
from palate.data._wire import Id, identifier, when, write_moment
from palate.records import Card, Judgement, PalateError, User

OPTIONS = ("user", "date", "category", "group")
NO_USER = "none"
"""The user column of a table that names no people."""
NOBODY = "nobody-"
"""Begins the id of a row whose data name nobody: nothing about it is personal."""
TIMES = ("date", "datetime", "timestamp", "time", "day", "created_at", "created", "created_utc")
"""Columns that are taken as the time of each choice where none is named and every value is a day or a moment."""


class Message(msgspec.Struct, frozen=True):
    """One turn of a conversation."""

    role: str
    content: str


Turns = tuple[Message, ...]


def read_table(files: Iterable[Path], card: Card, source: str, options: Mapping[str, str]) -> BenchmarkDraft:
    """Rows become comparisons; a user's history is their rows, ordered by date or by place in the table."""
    files, columns = list(files), {"user": "user_id", **options}
    first = next((row for path in files for row, _ in read_rows(path, [])), {})
    if first:
        _demand({key: name for key, name in columns.items() if (key, name) != ("user", NO_USER)}, first, source)
    odd: dict[str, object] = {}
    for column in _times(first, columns) if "date" not in columns else ():
        draft = BenchmarkDraft(card=card, source=source, unordered=True)
        message = f"taking {column!r} as the time of each choice; name another: date=COLUMN"
        try:
            guess = [warning(Location(source), None, message)]
            _read_rows(draft, files, columns | {"date": column}, guess, all_times=True)
        except _NotATimeError as problem:
            odd[column] = problem.value
        else:
            return draft
    draft = BenchmarkDraft(card=card, source=source, unordered=True)
    left_alone = [
        warning(
            Location(source),
            None,
            f"leaving {column!r} alone, as {value!r} is no day such as 2023-05-14; choices count as made in the order "
            "of the rows",
        )
        for column, value in odd.items()
    ]
    _read_rows(draft, files, columns, left_alone)
    return draft


def _times(row: Row, columns: Mapping[str, str]) -> list[str]:
    """Columns that look like a time, the likeliest first."""
    there = {column.casefold(): column for column in row if column not in columns.values()}
    return [there[name] for name in TIMES if name in there]


class _NotATimeError(Exception):
    """A column that was taken for the time of each choice holds something else."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value


def _read_rows(
    draft: BenchmarkDraft,
    files: Iterable[Path],
    columns: Mapping[str, str],
    warnings: Iterable[Fault],
    *,
    all_times: bool = False,
) -> None:
    """Put every row into the draft, one at a time. What cannot be read comes first among the faults, then the warnings.

    With `all_times`, every row must have a time.
    """
    users: dict[str, tuple[Location, list[Judgement]]] = {}
    named = columns["user"] != NO_USER
    category_column, group_column = columns.get("category", ""), columns.get("group", "")
    faults: list[Fault] = []
    for row, place in (read for path in files for read in read_rows(path, draft.faults)):
        if all_times and not _is_time(row.get(columns["date"])):
            raise _NotATimeError(row.get(columns["date"]))
        try:
            nobody = f"{NOBODY}{len(draft.comparisons)}"
            user_id = _text_id(row.get(columns["user"]), columns["user"]) if named else nobody
            judgement = _judgement(row, columns, user_id, len(draft.comparisons))
        except FieldError as problem:
            faults.append(explain(problem, place))
            continue
        comparison = comparison_of(
            judgement, user_id, category=_optional(row.get(category_column)), group=_optional(row.get(group_column))
        )
        draft.comparisons.append((comparison, place))
        users.setdefault(user_id, (place, []))[1].extend([judgement] if named else [])
    draft.users = [(User(id=id, judgements=tuple(choices)), place) for id, (place, choices) in users.items()]
    draft.faults += [*warnings, *faults]


def _demand(columns: Mapping[str, str], row: Row, source: str) -> None:
    for option, column in columns.items():
        if column not in row:
            advice = f"say which column it is: {source.split(',')[0]},{option}=COLUMN"
            if option == "user":
                advice += f", or {option}={NO_USER} if the table names no people"
            found = ", ".join(sorted(row))
            raise PalateError(f"{source}: no column {column!r} for the {option}; {advice}. Columns found: {found}")


def _is_time(value: object) -> bool:
    """A day or a moment. A bare number does not count: it may be a year, a duration or a count of seconds."""
    try:
        return not isinstance(value, int) and len(_moment(value, "date")) > len("2023-05")
    except FieldError:
        return False


def _judgement(row: Row, columns: Mapping[str, str], user_id: str, number: int) -> Judgement:
    prompt, chosen, rejected = _texts(row)
    dated = "date" in columns
    return Judgement(
        prompt=prompt,
        responses=(chosen, rejected),
        preferred=0,
        id=f"{user_id}-{number}" if row.get("id") is None else _text_id(row["id"], "id"),
        date=_moment(row.get(columns["date"]), columns["date"]) if dated else None,
        sequence=None if dated else number,
    )


def _optional(value: object) -> str | None:
    return None if value in (None, "") else str(value)


def _text_id(value: object, field: str) -> str:
    if isinstance(value, str) and value:
        return value
    try:
        return identifier(msgspec.convert(value, Id), field)
    except msgspec.ValidationError:
        raise FieldError(field, "expected a string or a whole number, which tells the rows apart") from None


def _moment(value: object, field: str) -> str:
    if isinstance(value, datetime):
        return write_moment(value if value.tzinfo is None else value.astimezone(UTC))
    if isinstance(value, date):
        return value.isoformat()
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise FieldError(field, "is not a date; write 2023, 2023-05-14 or 2023-05-14T20:11:00Z in every row")
    moment = when(value, field)
    assert moment is not None
    return moment


def _texts(row: Row) -> tuple[str, str, str]:
    """Prompt, chosen and rejected as text; without a prompt column, the turns both share are the prompt."""
    given, one, other = row.get("prompt", row.get("question")), row.get("chosen"), row.get("rejected")
    if isinstance(given, str) and isinstance(one, str) and isinstance(other, str):
        return given, one, other
    chosen, rejected = turns_of(one, "chosen"), turns_of(other, "rejected")
    if given is not None:
        prompt = turns_of(given, "prompt")
        chosen, rejected = _without(chosen, prompt), _without(rejected, prompt)
    elif isinstance(one, str) or isinstance(other, str):
        raise FieldError("prompt", "is missing; add the column, or give chosen and rejected as lists of messages")
    else:
        pairs = zip(chosen, rejected, strict=False)
        prompt = tuple(turn for turn, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if not prompt:
            raise FieldError("prompt", "is missing, and chosen and rejected do not begin with the same messages")
        chosen, rejected = chosen[len(prompt) :], rejected[len(prompt) :]
    return render_turns(prompt), render_turns(chosen, "assistant"), render_turns(rejected, "assistant")


def turns_of(value: object, field: str) -> Turns:
    """A text as one turn, or a list of messages."""
    if isinstance(value, str):
        return (Message("", value),)
    if value is None:
        raise FieldError(field, "is missing; give a text or a list of messages")
    try:
        return tuple(msgspec.convert(value, list[Message]))
    except (msgspec.ValidationError, RecursionError):
        raise FieldError(field, "expected a string or a list of messages with role and content") from None


def _without(turns: Turns, prompt: Turns) -> Turns:
    return turns[len(prompt) :] if turns[: len(prompt)] == prompt and len(turns) > len(prompt) else turns


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
