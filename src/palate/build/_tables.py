"""A company's own questions and answers, and exports of forums and chats: CSV or JSON Lines, read as a stream.

`table`: a row for each answer that somebody was offered: user, question, answer, and whether they took it.
`forum`: a row for each message: user, text, and the message or thread that it replies to.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

import msgspec

from palate.build._dump import file_fingerprint, votes
from palate.build._entries import Entry, Progress, Take
from palate.data import DAY_FIRST, MONTH_FIRST, SEPARATORS, SlashedDays, not_utf8, separator, table_date, text_key
from palate.records import PalateError, unknown_name

Row = Mapping[str, object]
LONGEST_LINE = 1 << 24
"""In characters."""
_ESCAPED = re.compile("[\udc80-\udcff]")
"""A byte that is not UTF-8."""
TRUE, FALSE = frozenset("true yes y 1 accepted x".split()), frozenset(["", "false", "no", "n", "0", "null", "none"])
TABLE_COLUMNS = ("user", "date", "question", "question_id", "details", "answer", "accepted", "score", "category")
FORUM_COLUMNS = ("id", "user", "date", "text", "reply_to", "thread", "title", "accepted", "score", "category")


class Rows:
    """The rows of a CSV or JSON Lines file under the names that palate knows."""

    def __init__(
        self, path: Path, known: tuple[str, ...], columns: Mapping[str, str], needed: tuple[str, ...], days: str | None
    ) -> None:
        if not path.is_file():
            raise PalateError(f"{path}: no such file")
        for name in columns:
            if name not in known:
                raise unknown_name("column", name, known)
        self.path = path
        self._names = {name: columns.get(name, name) for name in known}
        self._needed = needed
        self._days = days

    @cached_property
    def days(self) -> str | None:
        """Whether the day or the month is first in dates with slashes, which takes a pass of its own to tell."""
        slashed = SlashedDays()
        for line, row, _ in self if self._days is None else ():
            slashed.see(row.get("date"), f"{self.path}, line {line}")
        option = f'days = "{DAY_FIRST}" or days = "{MONTH_FIRST}" under [source]'
        return self._days or slashed.order(self._names["date"], option)

    def date(self, row: Row, place: str) -> str | None:
        """When a row was written; PalateError where that cannot be read."""
        word = _text(row, "date")
        try:
            return table_date(word, self.days if "/" in word else None) if word else None
        except ValueError:
            raise PalateError(f"{place}: {word!r} is not a date; write 2023-05-14 or 2023-05-14T20:11:00Z") from None

    def _text(self, raw: BinaryIO, errors: str = "strict") -> io.TextIOWrapper:
        stream = gzip.GzipFile(fileobj=raw) if self.path.suffix == ".gz" else raw
        return io.TextIOWrapper(stream, encoding="utf-8-sig", newline="", errors=errors)

    def __iter__(self) -> Iterator[tuple[int, Row, int]]:
        """Each with its line and how many bytes of the file are read."""
        try:
            with self.path.open("rb") as raw:
                text = self._text(raw)
                rows = _csv(text) if {".csv", ".tsv"} & set(self.path.suffixes) else _json_lines(text)
                for line, row in rows:
                    missing = [self._names[name] for name in self._needed if self._names[name] not in row]
                    if missing:
                        hint = f"It has: {', '.join(map(str, row))}. Say which is which under [source.columns]."
                        raise PalateError(f"{self.path}, line {line}: no column {missing[0]!r}. {hint}")
                    yield line, {name: row[own] for name, own in self._names.items() if own in row}, raw.tell()
        except UnicodeDecodeError as error:
            with self.path.open("rb") as raw:
                lines = enumerate(_lines(self._text(raw, errors="surrogateescape")), start=1)
                line = next(number for number, text in lines if _ESCAPED.search(text))
            raise PalateError(f"{self.path}, line {line}: {not_utf8(error, str(self.path))}") from None
        except (EOFError, zlib.error, gzip.BadGzipFile, csv.Error) as error:
            raise PalateError(f"{self.path}: it is damaged or cut off ({error})") from None
        except OSError as error:
            raise PalateError(f"{self.path}: cannot be read ({error.strerror or error})") from None


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    """A line without end would fill the memory, and a packed one takes no room in a file."""
    while line := text.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise csv.Error(f"a line of more than {LONGEST_LINE >> 20} Mi characters")
        yield line


def _csv(text: io.TextIOWrapper) -> Iterator[tuple[int, Row]]:
    csv.field_size_limit(LONGEST_LINE)
    lines = _lines(text)
    head = list(islice(lines, 1))
    mark = separator(lambda: head)
    reader = csv.DictReader(chain(head, lines), delimiter=mark)
    for row in reader:
        if None in row or None in row.values():
            advice = f"quote texts that hold {SEPARATORS[mark]}"
            raise csv.Error(f"line {reader.line_num} has another number of columns; {advice}")
        yield reader.line_num, row


def _json_lines(text: io.TextIOWrapper) -> Iterator[tuple[int, Row]]:
    for number, line in enumerate(_lines(text), start=1):
        if line.strip():
            try:
                yield number, msgspec.json.decode(line, type=dict[str, object])
            except (msgspec.DecodeError, RecursionError) as error:
                raise PalateError(f"{text.name}, line {number}: not a JSON object ({error})") from None


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    return "" if value is None else str(value).strip()


def _flag(row: Row, name: str, place: str) -> bool:
    word = _text(row, name).lower()
    if word in TRUE or word in FALSE:
        return word in TRUE
    raise PalateError(f"{place}: {name} is {word!r}; write true or false")


def _score(row: Row, place: str) -> int | None:
    word = _text(row, "score")
    try:
        return votes(float(word)) if word else None
    except ValueError:
        raise PalateError(f"{place}: score is {word!r}; write a number") from None


class Table:
    """One row for each answer that a user was offered; the rows of one question stand anywhere in the file."""

    def __init__(
        self, path: Path, *, columns: Mapping[str, str], days: str | None = None, licence: str = "unknown"
    ) -> None:
        self._rows = Rows(path, TABLE_COLUMNS, columns, ("user", "question", "answer"), days)
        self.licence = licence
        self.where = path.name

    @property
    def fingerprint(self) -> str:
        """Of the file."""
        return file_fingerprint(self._rows.path)

    def link(self, kind: str, id: str) -> str:
        """A company's own data has no public page."""
        return ""

    def read(self, take: Take, left_out: Counter[str], progress: Progress) -> None:
        """A question once for each user and date that asked it, and its answers."""
        size = self._rows.path.stat().st_size
        last = ""
        for line, row, done in self._rows:
            place = f"{self._rows.path}, line {line}"
            user, date, question = _text(row, "user"), self._rows.date(row, place), _text(row, "question")
            name = _text(row, "question_id") or _digest(f"{user}\0{date}\0{text_key(question)}")
            id = f"{user}\0{name}"
            if not question or not user:
                left_out["rows without a user or a question"] += 1
                continue
            category = _text(row, "category") or None
            details = _text(row, "details")
            if id != last:  # the rows of one question mostly stand together
                take(Entry(id=id, user=user, date=date, title=question, body=details, category=category))
            last = id
            answer = _text(row, "answer")
            if answer:
                take(
                    Entry(
                        id=f"{id}\0{_digest(answer)}",
                        parent=id,
                        score=_score(row, place),
                        accepted=_flag(row, "accepted", place),
                        body=answer,
                        category=category,
                    )
                )
            progress(done, size)


class Forum:
    """One row for each message; a message that replies to nothing is a question, and its replies are the answers."""

    def __init__(
        self, path: Path, *, columns: Mapping[str, str], days: str | None = None, licence: str = "unknown"
    ) -> None:
        self._rows = Rows(path, FORUM_COLUMNS, columns, ("user", "text"), days)
        self.licence = licence
        self.where = path.name

    @property
    def fingerprint(self) -> str:
        """Of the file."""
        return file_fingerprint(self._rows.path)

    def link(self, kind: str, id: str) -> str:
        """Not known."""
        return ""

    def read(self, take: Take, left_out: Counter[str], progress: Progress) -> None:
        """The first message of a thread is its question; messages have to stand in their order only there."""
        size = self._rows.path.stat().st_size
        first: dict[str, str] = {}
        for line, row, done in self._rows:
            place = f"{self._rows.path}, line {line}"
            id = _text(row, "id") or f"line {line}"
            text, thread = _text(row, "text"), _text(row, "thread")
            parent: str | None = _text(row, "reply_to") or None
            if thread and parent is None:
                start = first.setdefault(_digest(thread), id)
                parent = None if start == id else start
            if not text:
                left_out["messages without text"] += 1
                continue
            title, _, rest = text.partition("\n")
            named = _text(row, "title")
            take(
                Entry(
                    id=id,
                    parent=parent,
                    user=_text(row, "user") or None,
                    date=self._rows.date(row, place),
                    score=_score(row, place),
                    accepted=_flag(row, "accepted", place),
                    title="" if parent else named or title,
                    body=text if parent or named else rest,
                    category=_text(row, "category") or None,
                )
            )
            progress(done, size)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]
