"""Reading records from JSON, JSON Lines, CSV and Parquet files, gzipped or not, with their places."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from palate.data._draft import Fault, Location, error, explain, refuse, warning
from palate.records import PalateError

T = TypeVar("T")
Row = dict[str, object]
SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")
NOT_DATA = ("card.json", "dataset_infos.json")


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
        return (gzip.decompress(data) if path.suffix == ".gz" else data).removeprefix(b"\xef\xbb\xbf")
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        raise PalateError(f"{path}: not a whole gzip file ({problem}); copy or download it again") from None
    except OSError as problem:
        raise PalateError(f"{path}: cannot be read ({problem.strerror or problem})") from None


def raw_records(path: Path, faults: list[Fault]) -> Iterator[tuple[msgspec.Raw | bytes, Location]]:
    """The undecoded records of a JSON Lines file, or of a JSON file that holds one record or a list."""
    data = read_bytes(path)
    if not data.strip():
        faults.append(error(Location(str(path)), None, "the file is empty; it needs a record a line"))
    elif suffix(path) == ".json":
        yield from _json_records(path, data, faults)
    else:
        for number, line in enumerate(data.split(b"\n"), start=1):
            if line.strip():
                yield line, Location(str(path), number)


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


def read_rows(path: Path, faults: list[Fault]) -> Iterator[tuple[Row, Location]]:
    """Rows of a table, whatever kind of file it is in."""
    if suffix(path) == ".csv":
        yield from _csv_rows(path, faults)
    elif suffix(path) == ".parquet":
        yield from _parquet_rows(path)
    else:
        yield from read_records(path, Row, faults)


def _csv_rows(path: Path, faults: list[Fault]) -> Iterator[tuple[Row, Location]]:
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError as problem:
        faults.append(explain(problem, Location(str(path))))
        return
    csv.field_size_limit(2**31 - 1)
    reader = csv.DictReader(io.StringIO(text, newline=""))
    if not reader.fieldnames:
        faults.append(error(Location(str(path)), None, "the file is empty; it needs a line of column names"))
        return
    width = len(reader.fieldnames)
    try:
        for row in reader:
            place = Location(str(path), reader.line_num)
            if None in row or None in row.values():
                faults.append(error(place, None, f"expected {width} columns; quote texts that hold commas"))
            else:
                yield dict(row), place
    except csv.Error as problem:
        faults.append(error(Location(str(path), reader.line_num), None, f"broken CSV ({problem})"))


def _parquet_rows(path: Path) -> Iterator[tuple[Row, Location]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise PalateError(f"{path}: reading Parquet needs pyarrow: pip install 'palate[hub]'") from None
    try:
        rows = pyarrow.parquet.read_table(path).to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as problem:
        raise PalateError(f"{path}: cannot be read as Parquet ({problem})") from None
    for number, row in enumerate(rows, start=1):
        yield row, Location(f"{path} (row {number})")
