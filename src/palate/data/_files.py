"""Reading records from JSON, JSON Lines, CSV, TSV and Parquet files, gzipped or not, with their places."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from palate.data._draft import Fault, Location, error, explain, refuse, warning
from palate.data._unpack import too_large, unpack, unpacked_limit
from palate.records import PalateError

T = TypeVar("T")
Row = dict[str, object]
SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
NOT_DATA = ("card.json", "dataset_infos.json")
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_ROWS = 16_384
"""Rows of a Parquet file that are unpacked at once."""


def suffix(path: Path) -> str:
    """The kind of file, whether or not it is gzipped."""
    return Path(path.name.removesuffix(".gz")).suffix


def find(folder: Path, name: str) -> Path | None:
    """A file of that name in the folder, plain or gzipped."""
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    return None


def read_bytes(path: Path) -> bytes:
    """The content of a file, unzipped where its name says so and without a byte-order mark."""
    try:
        data = path.read_bytes()
        return (unpack(data, path) if path.suffix == ".gz" else data).removeprefix(b"\xef\xbb\xbf")
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        raise PalateError(f"{path}: not a whole gzip file ({problem}); copy or download it again") from None
    except OSError as problem:
        raise PalateError(f"{path}: cannot be read ({problem.strerror or problem})") from None


def in_order(path: Path) -> list[tuple[int, str]]:
    """`week-2` before `week-10`: without dates, choices count as made in the order of the rows."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", str(path))]


def raw_records(path: Path, faults: list[Fault]) -> Iterator[tuple[msgspec.Raw | bytes, Location]]:
    """The undecoded records of a JSON Lines file, or of a JSON file that holds one record or a list."""
    if path.suffix == ".jsonl":
        yield from _json_lines(path, faults)
        return
    data = read_bytes(path)
    if not data.strip():
        faults.append(error(Location(str(path)), None, "the file is empty; it needs a record a line"))
    elif suffix(path) == ".json":
        yield from _json_records(path, data, faults)
    else:
        file = str(path)
        for number, line in enumerate(io.BytesIO(data), start=1):
            if not line.isspace():
                yield line, Location(file, number)


def _json_lines(path: Path, faults: list[Fault]) -> Iterator[tuple[bytes, Location]]:
    """Lines as they are read, so that a large file is not held whole."""
    file, there = str(path), False
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                content = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if content and not content.isspace():
                    there = True
                    yield content, Location(file, number)
    except OSError as problem:
        raise PalateError(f"{path}: cannot be read ({problem.strerror or problem})") from None
    if not there:
        faults.append(error(Location(file), None, "the file is empty; it needs a record a line"))


def _json_records(path: Path, data: bytes, faults: list[Fault]) -> Iterator[tuple[msgspec.Raw | bytes, Location]]:
    if not data.lstrip().startswith(b"["):
        yield data, Location(str(path))
        return
    try:
        records = msgspec.json.decode(data, type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        faults.append(explain(problem, Location(str(path))))
        return
    for number, record in enumerate(records, start=1):
        yield record, Location(f"{path} (record {number})")


def read_records(
    path: Path, kind: type[T], faults: list[Fault], *, extras: bool = False
) -> Iterator[tuple[T, Location]]:
    """Decode each record of a JSON or JSON Lines file; what cannot be decoded becomes a fault.

    With `extras`, a field that the format does not know becomes a warning, once.
    """
    decoder = msgspec.json.Decoder(kind)
    known = set(getattr(kind, "__struct_encode_fields__", ()))
    for record, place in raw_records(path, faults):
        try:
            decoded = decoder.decode(record)
            if extras:
                for name in msgspec.json.decode(record, type=dict[str, msgspec.Raw]).keys() - known:
                    known.add(name)
                    faults.append(warning(place, name, "palate does not know this field and leaves it out"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            faults.append(explain(problem, place))
        else:
            yield decoded, place


def read_all(path: Path, kind: type[T], source: str) -> list[T]:
    """Every record of a file that has to be whole; PalateError with the first fault."""
    faults: list[Fault] = []
    records = [record for record, _ in read_records(path, kind, faults)]
    refuse(faults, source)
    return records


def read_rows(path: Path, faults: list[Fault], bad_rows: list[Fault] | None = None) -> Iterator[tuple[Row, Location]]:
    """Rows of a table, whatever kind of file it is in.

    What is wrong with a single row goes to `bad_rows` where that is given, and else to `faults` with all the rest.
    """
    if suffix(path) in (".csv", ".tsv"):
        yield from _csv_rows(path, faults, faults if bad_rows is None else bad_rows)
    elif suffix(path) == ".parquet":
        yield from _parquet_rows(path)
    else:
        yield from read_records(path, Row, faults if bad_rows is None else bad_rows)


def _csv_rows(path: Path, faults: list[Fault], bad_rows: list[Fault]) -> Iterator[tuple[Row, Location]]:
    file, data = str(path), read_bytes(path)
    try:
        data.decode()
    except UnicodeDecodeError as problem:
        faults.append(explain(problem, Location(file, data.count(b"\n", 0, problem.start) + 1)))
        return
    csv.field_size_limit(2**31 - 1)

    def lines() -> Iterable[str]:
        return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")

    mark = "\t" if suffix(path) == ".tsv" else separator(lines)
    reader = csv.reader(lines(), delimiter=mark)
    try:
        columns = next(reader, [])
        if not columns:
            faults.append(error(Location(file), None, "the file is empty; it needs a line of column names"))
        refuse_repeated(file, columns)
        before = reader.line_num
        for values in reader if columns else ():
            first, before = before + 1, reader.line_num  # a text with line breaks takes several lines
            if len(values) == len(columns):
                yield dict(zip(columns, values, strict=True)), Location(file, first)
            elif values:
                message = f"expected {len(columns)} columns; quote texts that hold {SEPARATORS[mark]}"
                bad_rows.append(error(Location(file, first), None, message))
    except csv.Error as problem:
        faults.append(error(Location(file, reader.line_num), None, f"broken CSV ({problem})"))


def refuse_repeated(file: str, columns: Sequence[str]) -> None:
    """Two columns of one name cannot be told apart. Columns without a name are nothing that anybody asks for."""
    if again := [name for name, count in Counter(columns).items() if name and count > 1]:
        named = ", ".join(map(repr, again))
        raise PalateError(
            f"{file}: more than one column is named {named}, so palate cannot tell which is meant; rename"
        )


def separator(lines: Callable[[], Iterable[str]]) -> str:
    """What stands between columns: of comma, semicolon and tab the one that gives the most column names.

    >>> separator(lambda: ["user;question;answer"])
    ';'
    """
    counts = {}
    for mark in SEPARATORS:
        try:
            counts[mark] = len(next(csv.reader(lines(), delimiter=mark), []))
        except csv.Error:  # said when the rows are read
            counts[mark] = 0
    return max(SEPARATORS, key=lambda mark: counts[mark])


def _parquet_rows(path: Path) -> Iterator[tuple[Row, Location]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise PalateError(f"{path}: reading Parquet needs pyarrow: pip install 'palate[hub]'") from None
    name, before = str(path), 0
    try:
        groups = pyarrow.parquet.read_metadata(path)
        size = sum(groups.row_group(index).total_byte_size for index in range(groups.num_row_groups))
        if size > (limit := unpacked_limit(path.stat().st_size)):
            raise too_large(path, limit)
        with pyarrow.parquet.ParquetFile(path) as file:
            refuse_repeated(name, file.schema_arrow.names)
            for batch in file.iter_batches(_ROWS):
                columns = [_values(column) for column in batch.columns]
                for number, values in enumerate(zip(*columns, strict=True), start=before + 1):
                    yield dict(zip(batch.schema.names, values, strict=True)), Location(f"{name} (row {number})")
                before += batch.num_rows
    except (pyarrow.ArrowException, OSError, ValueError) as problem:
        raise PalateError(f"{path}: cannot be read as Parquet ({problem})") from None


def _values(column: Any) -> Iterable[object]:
    """The values of an Arrow array; texts, which are most, come as objects at once instead of one by one."""
    texts = str(column.type) in ("string", "large_string")
    values: list[object] = column.to_numpy(zero_copy_only=False).tolist() if texts else column.to_pylist()
    return values
