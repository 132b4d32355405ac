"""Looking for users in files: by id, and by keyed hashes of their words, so that no text need be kept for it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from palate.data import Pseudonyms, text_key, unpack
from palate.privacy._person import SHORTEST, Person, quotation_search
from palate.privacy._rewrite_lines import mentions
from palate.records import PalateError

WINDOW = 6
"""Words that are hashed together: six in a row are hardly said twice by chance."""
_WORD = re.compile(r"\w+")
_PACKED = (b"PK\x03\x04", b"\xfd7zXZ", b"BZh", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf", b"Rar!", b"PAR1", b"%PDF")
"""How zip (also of office programs), xz, bzip2, Zstandard, 7z, RAR, Parquet and PDF begin."""
_UNLIKE_A_WORD = re.compile(r"[\d_@.\-]")
ID_FIELDS = frozenset({"id", "user_id", "item", "twin", "group", "users", "user", "stranger", "neighbours"})


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """What one file still holds."""

    path: str
    ids: int
    texts: int


def windows(text: str, *, apart: int = 1) -> Iterator[str]:
    """Runs of words, whatever stands between them; a text of fewer words is one run."""
    words = _WORD.findall(text.casefold())
    if len(words) <= WINDOW:
        yield " ".join(words)
        return
    for start in range(0, len(words) - WINDOW + 1, apart):
        yield " ".join(words[start : start + WINDOW])


def traces_of(person: Person, names: Pseudonyms) -> list[str]:
    """Keyed hashes of runs of the person's words that others do not use, except where they quote a whole text."""
    own = {run for text in person.texts for run in windows(text, apart=WINDOW) if len(run) >= SHORTEST}
    quotes = quotation_search(key for text in person.wrote if len(key := text_key(text)) >= SHORTEST)
    for text in person.others:
        if not quotes(text_key(text)):
            own.difference_update(windows(text))
    return sorted(names.digest("words", run) for run in own)


def searched_files(folder: Path) -> list[Path]:
    """All files of a folder but a trained policy, whose weights and vocabulary are no texts of anybody."""
    weights = [folder / "policy", folder / "checkpoints"] if (folder / "steps.jsonl").is_file() else []
    files = (file for file in folder.rglob("*") if file.is_file())
    return sorted(file for file in files if not any(file.is_relative_to(place) for place in weights))


def packed_files(folder: Path) -> list[Path]:
    """Archives and compressed files but gzip: what they hold cannot be searched."""

    def is_packed(file: Path) -> bool:
        with file.open("rb") as stream:
            return stream.read(8).startswith(_PACKED)

    return [file for file in searched_files(folder) if is_packed(file)]


class TraceSearch:
    """Looks through files for one user, or several at once."""

    def __init__(self, users: Iterable[str], traces: Iterable[str], names: Pseudonyms) -> None:
        self._users = frozenset(users)
        self._traces = frozenset(traces)
        self._names = names
        self._seen: dict[int, int] = {}
        self._ids = _pattern(self._users)
        self._may_name = mentions(self._users)
        self._distinct = _pattern(user for user in self._users if len(user) > 3 and _UNLIKE_A_WORD.search(user))
        """Ids that are no words of a language, and so are looked for in texts, too."""

    def file(self, path: Path) -> Trace:
        """How often the id and pieces of texts are in one file."""
        ids = texts = 0
        try:
            for content in _pieces_of(path):
                if path.suffix == ".jsonl" and not self._traces and not self._may_name(content):
                    continue
                for name, text in _strings(path.name.removesuffix(".gz"), content):
                    ids += self._names_user(name, text)
                    texts += self._pieces(text)
        except (OSError, EOFError) as error:
            raise PalateError(f"{path} cannot be searched: {error}") from error
        return Trace(path=str(path), ids=ids, texts=texts)

    def _names_user(self, name: str | None, text: str) -> int:
        if name in ID_FIELDS:
            return len(self._ids.findall(text))
        return len(self._distinct.findall(text)) or int(name is not None and text in self._users)

    def _pieces(self, text: str) -> int:
        if not self._traces or len(text) < SHORTEST:
            return 0
        key = hash(text)
        if key not in self._seen:
            self._seen[key] = sum(self._names.digest("words", run) in self._traces for run in windows(text))
        return self._seen[key]


def _pattern(ids: Iterable[str]) -> re.Pattern[str]:
    """Finds any of the ids where it stands alone; of none, nothing."""
    either = "|".join(map(re.escape, sorted(ids, key=len, reverse=True)))
    return re.compile(rf"(?<![^\W_])(?:{either})(?![^\W_])" if either else r"(?!)")


def _pieces_of(path: Path) -> Iterator[bytes]:
    """A file whole, or line by line where it may have millions."""
    if path.suffix == ".jsonl":
        with path.open("rb") as lines:
            yield from lines
    else:
        content = path.read_bytes()
        yield unpack(content, path) if path.suffix == ".gz" else content


def _strings(name: str, content: bytes) -> Iterator[tuple[str | None, str]]:
    """Every text of a file with the field it stands in; no field where the file has none."""
    if name.endswith((".json", ".jsonl")):
        lines: Sequence[bytes] = content.splitlines() if name.endswith(".jsonl") else [content]
        for line in lines:
            try:
                yield from _walk("", msgspec.json.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                yield None, line.decode("utf-8", "replace")
    else:
        text = content.decode("utf-8", "replace")
        yield None, html.unescape(text) if name.endswith(".html") else text


def _walk(name: str, value: object) -> Iterator[tuple[str | None, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, int) and not isinstance(value, bool) and name in ID_FIELDS:
        yield name, str(value)
    elif isinstance(value, list):
        for one in value:
            yield from _walk(name, one)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield "id", key
            yield from _walk(key, one)
