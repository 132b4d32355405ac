"""Stack Exchange data dumps: `Posts.xml`, plain, gzipped or in a 7z archive, read as a stream.

Every post is one element with attributes, so nothing of the file is ever held but the row at hand. An archive that
unpacks to more than the plan allows, a row without end, and entity declarations are refused: each of them can fill the
memory or the disk of whoever opens a stranger's file.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from xml.parsers import expat

from palate.build._entries import Entry, Progress, Take
from palate.records import PalateError

if TYPE_CHECKING:
    from py7zr import SevenZipFile

POSTS = "Posts.xml"
CHUNK = 1 << 20
LONGEST_ROW = 16 << 20
"""In bytes; the longest post of any site is far below."""
LARGEST_DICTIONARY = 256 << 20
"""In bytes: what unpacking may take of memory. The public dumps need 64 MiB or less."""
DEEPEST = 8
"""Elements within elements. A dump has two, and the parser remembers each that is open."""
MOST_VOTES = 1 << 62
QUESTION, ANSWER = "1", "2"


class StackExchangeDump:
    """The posts of one site."""

    def __init__(
        self,
        path: Path,
        *,
        site: str = "",
        licence: str = "CC BY-SA 4.0",
        max_gigabytes: float = 250,
        keep_damaged: bool = False,
    ) -> None:
        self._file = _posts_file(path)
        self.site = site or _site_of(self._file)
        self.licence = licence
        self.where = f"{self.site}, Stack Exchange data dump"
        self._most = int(max_gigabytes * 1e9)
        self._keep_damaged = keep_damaged

    @property
    def fingerprint(self) -> str:
        """Of the file's size, its first and its last bytes: hashing 100 GB would take longer than reading them."""
        return file_fingerprint(self._file)

    def link(self, kind: str, id: str) -> str:
        """On the site itself."""
        host = self.site if "." in self.site else f"{self.site}.stackexchange.com"
        return f"https://{host}/{'q' if kind == 'question' else 'users'}/{id}"

    def read(self, take: Take, left_out: Counter[str], progress: Progress) -> None:
        """Push every question and answer.

        A damaged file is an error that names the line and what stood before it; with `keep_damaged` what stood before
        is kept, and the damage counted.
        """
        reader = _Rows(self._file, self.site, take, left_out)
        total = self._file.stat().st_size
        try:
            if self._file.suffix == ".7z":
                _unpack(self._file, reader, self._most, progress)
            else:
                for chunk, done in _chunks(self._file, self._most):
                    reader.feed(chunk)
                    progress(done, total)
            reader.close()
        except expat.ExpatError as error:
            problem = expat.errors.messages[error.code]
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            problem = f"the compressed file is damaged or cut off: {error}"
        except DamagedError as error:
            problem = f"the archive is damaged or cut off: {error}"
        except OSError as error:
            raise PalateError(f"{self._file}: cannot be read ({error.strerror or error})") from None
        else:
            return
        if not self._keep_damaged:
            raise reader.broken(problem)
        left_out[f"all from line {reader.line:,} on, where the file is damaged ({problem})"] += 1


def file_fingerprint(file: Path) -> str:
    """Of a file's size, its first and its last mebibyte."""
    try:
        size = file.stat().st_size
        digest = hashlib.sha256(str(size).encode())
        with file.open("rb") as stream:
            digest.update(stream.read(CHUNK))
            stream.seek(max(0, size - CHUNK))
            digest.update(stream.read(CHUNK))
    except OSError as error:
        raise PalateError(f"{file}: cannot be read ({error.strerror or error})") from None
    return digest.hexdigest()


def _posts_file(path: Path) -> Path:
    if path.is_dir():
        names = [POSTS, f"{POSTS}.gz", "Posts.7z", f"{POSTS}.7z"]
        files = [path / name for name in names if (path / name).is_file()] or sorted(path.glob("*.7z"))
        if not files:
            raise PalateError(f"{path}: no {POSTS}, {POSTS}.gz or .7z archive in this folder")
        return files[0]
    if not path.is_file():
        raise PalateError(f"{path}: no such file or folder")
    return path


def _site_of(file: Path) -> str:
    name = file.name.split("-Posts")[0].removesuffix(".7z").removesuffix(".gz").removesuffix(".xml")
    return file.resolve().parent.name if name.lower() == "posts" else name


class DamagedError(Exception):
    """An archive that cannot be unpacked to its end."""


class _Rows:
    """Turns bytes into entries."""

    def __init__(self, file: Path, site: str, take: Take, left_out: Counter[str]) -> None:
        self._file, self._site, self._take, self._left_out = file, site, take, left_out
        self._since_row = 0
        self._rows = 0
        self._depth = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = False
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.EntityDeclHandler = self._refuse_entity
        self._parser.AttlistDeclHandler = self._refuse_attributes

    def feed(self, chunk: bytes) -> None:
        """The next bytes of the file."""
        self._since_row += len(chunk)
        self._parser.Parse(chunk, False)
        if self._since_row > LONGEST_ROW + CHUNK:
            raise PalateError(
                f"{self._file}, line {self.line}: a row of more than {LONGEST_ROW >> 20} MiB. No post is that long: "
                "this is no data dump, or somebody has changed it."
            )

    def close(self) -> None:
        """The file ends here."""
        self._parser.Parse(b"", True)

    @property
    def line(self) -> int:
        """Where the parser is."""
        return self._parser.CurrentLineNumber

    def broken(self, problem: str) -> PalateError:
        """The error for a file that cannot be read on: the line, and what stood before it."""
        return PalateError(
            f"{self._file}, line {self.line}: {problem}. {self._rows:,} posts stood before it. Download the file "
            "again; or write keep_damaged = true under [source] to build from the posts before the damage."
        )

    def _refuse_entity(self, name: str, *_: Any) -> None:
        raise PalateError(
            f"{self._file}, line {self.line}: it declares the entity {name!r}. A data dump declares none, and entities "
            "can be made to fill your memory: this is no data dump, or somebody has changed it."
        )

    def _refuse_attributes(self, element: str, *_: Any) -> None:
        raise PalateError(
            f"{self._file}, line {self.line}: it declares what {element!r} holds where nothing is written. A data dump "
            "declares nothing of the kind: this is no data dump, or somebody has changed it."
        )

    def _end(self, tag: str) -> None:
        self._depth -= 1

    def _start(self, tag: str, row: dict[str, str]) -> None:
        self._since_row = 0
        self._depth += 1
        if self._depth > DEEPEST:
            raise PalateError(
                f"{self._file}, line {self.line}: elements within elements, {self._depth} deep. This is no data dump, "
                "or somebody has changed it."
            )
        if tag != "row":
            return
        self._rows += 1
        kind, id = row.get("PostTypeId"), _id(row.get("Id"))
        if kind not in (QUESTION, ANSWER) or not id:
            self._left_out["wiki pages, tag descriptions and other posts" if id else "posts without an id"] += 1
            return
        parent = _id(row.get("ParentId")) if kind == ANSWER else None
        if kind == ANSWER and not parent:
            self._left_out["answers without a question"] += 1
            return
        self._take(
            Entry(
                id=id,
                parent=parent,
                user=_id(row.get("OwnerUserId")),
                date=row.get("CreationDate"),
                score=_number(row.get("Score")),
                accepted_answer=_id(row.get("AcceptedAnswerId")) if kind == QUESTION else None,
                title=row.get("Title", ""),
                body=row.get("Body", ""),
                html=True,
                category=self._site,
            )
        )


def _id(text: str | None) -> str | None:
    """Ids are numbers; another one could be made to be read as markup where authors are named."""
    return text if text and text.isascii() and text.isdigit() else None


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else votes(int(text))
    except ValueError:
        return None


def votes(number: float) -> int:
    """A number of votes that the index can hold."""
    return int(max(-MOST_VOTES, min(MOST_VOTES, number)))


def _chunks(file: Path, most: int) -> Iterator[tuple[bytes, int]]:
    """Pieces of the content, each with how many bytes of the file are read."""
    total = 0
    with file.open("rb") as raw:
        stream: BinaryIO | gzip.GzipFile = gzip.GzipFile(fileobj=raw) if file.suffix == ".gz" else raw
        size = CHUNK if stream is raw else CHUNK // 16  # what stands in the last piece of a damaged file is lost
        while chunk := stream.read(size):
            total += len(chunk)
            if total > most:
                raise _too_large(file, most)
            yield chunk, raw.tell()


def _too_large(file: Path, most: int) -> PalateError:
    return PalateError(
        f"{file} unpacks to more than {most / 1e9:g} GB. If you trust it, raise max_gigabytes under [source]; "
        "otherwise it may be made to fill your disk."
    )


def _unpack(file: Path, reader: _Rows, most: int, progress: Progress) -> None:
    """Stream the posts out of an archive; nothing is written to the disk."""
    try:
        import py7zr
    except ImportError:
        raise PalateError("reading .7z archives needs py7zr: pip install 'palate[build]'") from None
    from palate.build._archive import Feed

    try:
        with py7zr.SevenZipFile(file) as archive:
            name, size = _member(archive, file)
            if size > most:
                raise _too_large(file, most)
            _check_dictionary(archive, file)
            archive.extract(targets=[name], factory=Feed(reader.feed, size, progress, most, _too_large(file, most)))
    except (py7zr.Bad7zFile, py7zr.exceptions.ArchiveError, zlib.error, EOFError) as error:
        raise DamagedError(str(error) or type(error).__name__) from None


def _member(archive: SevenZipFile, file: Path) -> tuple[str, int]:
    members = {member.filename: member for member in archive.list() if Path(member.filename).name == POSTS}
    if not members:
        raise PalateError(f"{file}: no {POSTS} in this archive")
    name = min(members, key=len)
    return name, int(members[name].uncompressed)


def _check_dictionary(archive: SevenZipFile, file: Path) -> None:
    """The size of the window that a packer asks for is read from the archive, before any of it is allocated."""
    folders = archive.header.main_streams.unpackinfo.folders if archive.header.main_streams else []
    for folder in folders:
        for coder in folder.coders:
            properties = coder.get("properties") or b""
            size = 0
            if coder["method"] == b"\x03\x01\x01" and len(properties) == 5:  # LZMA: the last four bytes
                size = int.from_bytes(properties[1:], "little")
            elif coder["method"] == b"\x21" and len(properties) == 1:  # LZMA2: two bits of mantissa, then the exponent
                size = (2 | (properties[0] & 1)) << (properties[0] // 2 + 11)
            if size > LARGEST_DICTIONARY:
                raise PalateError(
                    f"{file} asks for {size >> 20:,} MiB of memory to be unpacked, and data dumps need 64 or less. "
                    "Unpack it yourself if you trust it, and name the .xml file."
                )
