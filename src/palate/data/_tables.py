"""Preference tables with the columns prompt, chosen and rejected, one row a choice, as trainers use them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
TIMES = ("date", "datetime", "timestamp", "time", "day", "created_at", "created", "created_utc")
"""Columns that are taken as the time of each choice where none is named and every value is a day or a moment."""


class Message(msgspec.Struct, frozen=True):
    """One turn of a conversation."""

    role: str
    content: str


Turns = tuple[Message, ...]


def read_table(files: Iterable[Path], card: Card, source: str, options: Mapping[str, str]) -> BenchmarkDraft:
    """Rows become comparisons; a user's history is their rows, ordered by date or by place in the table."""
    draft = BenchmarkDraft(card=card, source=source, unordered=True)
    columns = {"user": "user_id", **options}
    users: dict[str, tuple[Location, list[Judgement]]] = {}
    rows = [read for path in files for read in read_rows(path, draft.faults)]
    if rows:
        _demand(columns, rows[0][0], source)
    if "date" not in columns:
        draft.faults += _guess_time(columns, [row for row, _ in rows], Location(source))
    for row, place in rows:
        try:
            user_id = _text_id(row.get(columns["user"]), columns["user"])
            judgement = _judgement(row, columns, user_id, len(draft.comparisons))
        except FieldError as problem:
            draft.faults.append(explain(problem, place))
            continue
        category, group = (_optional(row.get(columns.get(option, ""))) for option in ("category", "group"))
        comparison = comparison_of(judgement, user_id, category=category, group=group)
        draft.comparisons.append((comparison, place))
        users.setdefault(user_id, (place, []))[1].append(judgement)
    draft.users = [(User(id=id, judgements=tuple(choices)), place) for id, (place, choices) in users.items()]
    return draft


def _demand(columns: Mapping[str, str], row: Row, source: str) -> None:
    for option, column in columns.items():
        if column not in row:
            advice = f"say which column it is: {source.split(',')[0]},{option}=COLUMN"
            found = ", ".join(sorted(row))
            raise PalateError(f"{source}: no column {column!r} for the {option}; {advice}. Columns found: {found}")


def _guess_time(columns: dict[str, str], rows: Sequence[Row], place: Location) -> Iterator[Fault]:
    """Map the column that looks like a time and holds nothing else, and say so, or say why it was left alone."""
    there = {column.casefold(): column for row in rows[:1] for column in row if column not in columns.values()}
    odd: dict[str, object] = {}
    for column in (there[name] for name in TIMES if name in there):
        others = [value for row in rows if not _is_time(value := row.get(column))]
        if not others:
            columns["date"] = column
            yield warning(place, None, f"taking {column!r} as the time of each choice; name another: date=COLUMN")
            return
        odd[column] = others[0]
    for column, value in odd.items():
        yield warning(
            place,
            None,
            f"leaving {column!r} alone, as {value!r} is no day such as 2023-05-14; choices count as made in the order "
            "of the rows",
        )


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
    chosen, rejected = _turns(row.get("chosen"), "chosen"), _turns(row.get("rejected"), "rejected")
    given = row.get("prompt", row.get("question"))
    if given is not None:
        prompt = _turns(given, "prompt")
        chosen, rejected = _without(chosen, prompt), _without(rejected, prompt)
    elif isinstance(row.get("chosen"), str) or isinstance(row.get("rejected"), str):
        raise FieldError("prompt", "is missing; add the column, or give chosen and rejected as lists of messages")
    else:
        pairs = zip(chosen, rejected, strict=False)
        prompt = tuple(turn for turn, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if not prompt:
            raise FieldError("prompt", "is missing, and chosen and rejected do not begin with the same messages")
        chosen, rejected = chosen[len(prompt) :], rejected[len(prompt) :]
    return _render(prompt), _render(chosen, "assistant"), _render(rejected, "assistant")


def _turns(value: object, field: str) -> Turns:
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


def _render(turns: Turns, alone: str = "user") -> str:
    """A single message is its content; a conversation names who speaks.

    >>> print(_render((Message("user", "Hello"), Message("assistant", "Hi"))))
    User: Hello
    <BLANKLINE>
    Assistant: Hi
    """
    if len(turns) == 1 and turns[0].role in ("", alone):
        return turns[0].content
    return "\n\n".join(f"{turn.role.capitalize()}: {turn.content}" for turn in turns)
