"""What palate asks of a store, by fsspec; whatever goes wrong there is said in a sentence."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from palate.records import PalateError
from palate.storage._address import SCHEMES, is_plain, parse_url, without_keys

NO_CREDENTIALS = {"NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "TokenRetrievalError"}
UNREACHABLE = {"EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ConnectionClosedError"}
TRIES = 5
"""Times that a folder is fetched again because somebody changed it meanwhile."""


class StorageError(PalateError):
    """A store did not do what it was asked for."""


class Remote(NamedTuple):
    """An object as the store lists it."""

    identity: str
    """Changes with its content."""
    size: int
    modified: float
    """By the clock of the store, in seconds since 1970."""


class Store:
    """One folder in a store. Names of objects are relative to it."""

    def __init__(self, url: str) -> None:
        self._scheme, self._path = parse_url(url)
        self.url = f"{self._scheme}://{self._path}"
        try:
            import fsspec

            self._fs: Any = fsspec.filesystem(self._scheme, use_listings_cache=False)
        except ImportError as error:
            raise StorageError(f"{self._scheme}:// needs a package: {SCHEMES[self._scheme]}") from error
        except ValueError as error:
            raise StorageError(f"{self.url}: {without_keys(str(error))}") from error

    @property
    def bucket(self) -> str:
        """The first part of the address."""
        return self._path.partition("/")[0]

    def below(self, name: str) -> Store:
        """A folder in this one."""
        return Store(f"{self.url}/{name}")

    def objects(self, *, hidden: bool = False) -> dict[str, Remote]:
        """Every object by its name; those that begin with a dot, or lie in such a folder, are palate's own."""
        with self._told("read"):
            self._fs.invalidate_cache()
            listed: dict[str, dict[str, Any]] = self._fs.find(self._path, detail=True)
        found = {}
        for path, about in listed.items():
            folder, name = path.lstrip("/")[: len(self._path) + 1], path.lstrip("/")[len(self._path) + 1 :]
            if name.endswith("/") or not name:  # what some tools make to stand for a folder
                continue
            if folder != f"{self._path}/" or not is_plain(name):
                raise StorageError(f"{self.url} holds an object whose name is no path below it: {path!r}")
            if any(part.startswith(".") for part in name.split("/")) == hidden:
                found[name] = _remote(about)
        for name in found:
            if both := next((str(folder) for folder in PurePosixPath(name).parents if str(folder) in found), None):
                raise StorageError(f"{self.url} holds {both} and {name}, and no folder of a machine can hold both")
        return found

    def match(self, pattern: str) -> list[str]:
        """The addresses that match a pattern with `*` in it, as a shell finds files."""
        with self._told("read"):
            self._fs.invalidate_cache()
            found: list[str] = self._fs.glob(f"{self._path}/{pattern}")
        return sorted(f"{self._scheme}://{path.strip('/')}" for path in found)

    def fetch(self, folder: Path) -> dict[str, Remote]:
        """Copy every object into a folder, all as they were at one moment; how they were listed."""
        listed: dict[str, Remote] = {}
        for _ in range(TRIES):
            before, listed = listed, self.objects()
            if listed == before:
                return listed
            for name in before.keys() - listed.keys():
                (folder / name).unlink(missing_ok=True)
            changed = [name for name, remote in listed.items() if before.get(name) != remote]
            for name in changed:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with self._told("read"):
                try:
                    self._fs.get([self._object(name) for name in changed], [str(folder / name) for name in changed])
                except FileNotFoundError:  # one is gone since it was listed
                    listed = {}
        raise StorageError(f"{self.url} changes faster than it can be read; wait until its writer is done")

    def fetch_to(self, path: Path) -> None:
        """Copy a folder, or the one file that has this address; refused where there is neither."""
        path.mkdir()
        if self.fetch(path):
            return
        path.rmdir()
        folder, _, name = self.url.rpartition("/")
        if self._path == self.bucket or (content := Store(folder).read(name)) is None:
            raise StorageError(f"{self.url}: there is no such file or folder")
        path.write_bytes(content)

    def put(self, name: str, stream: IO[bytes], size: int, beat: Callable[[], None] = lambda: None) -> Remote:
        """Write an object: the next `size` bytes of a stream. `beat` is called while a large one is written."""
        with self._told("write"):
            path = self._object(name)
            out = self._fs.open(path, "wb")
            try:
                while size > 0 and (piece := stream.read(min(size, 1 << 20))):
                    beat()
                    out.write(piece)
                    size -= len(piece)
            except BaseException:
                with suppress(Exception):
                    out.discard()
                with suppress(AttributeError):
                    out.closed = True  # or it is closed when it is collected, and says that it cannot be
                raise
            out.close()
            return _remote(self._fs.info(path))

    def put_bytes(self, name: str, content: bytes) -> None:
        """Write a small object."""
        with self._told("write"):
            self._fs.pipe_file(self._object(name), content)

    def create(self, name: str, content: bytes) -> bool:
        """Write an object if there is none of that name; whether there was none."""
        with self._told("write"):
            try:
                self._fs.pipe_file(self._object(name), content, mode="create")
            except FileExistsError:
                return False
        return True

    def read(self, name: str) -> bytes | None:
        """The content of a small object; None where there is none."""
        with self._told("read"):
            try:
                content: bytes = self._fs.cat_file(self._object(name))
            except FileNotFoundError:
                return None
        return content

    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""
        with self._told("write"), suppress(FileNotFoundError):
            self._fs.rm_file(self._object(name))

    def require_writable(self) -> float:
        """Refuse a store that cannot be written, before anything is measured. Gives the time by the store's clock."""
        name = f".palate-probe-{secrets.token_hex(4)}"
        self.put_bytes(name, b"written by palate to see whether it can; it may be deleted\n")
        with self._told("read"):
            written = _remote(self._fs.info(self._object(name)))
        self.remove(name)
        return written.modified

    def keeps_versions(self) -> bool | None:
        """Whether the bucket keeps what is overwritten or removed; None where that cannot be told."""
        if self._scheme == "memory":
            return False
        if self._scheme != "s3":
            return None
        try:
            told: dict[str, Any] = self._fs.call_s3("get_bucket_versioning", Bucket=self.bucket)
        except Exception:  # not everybody may ask, and not every server knows
            return None
        return told.get("Status") in ("Enabled", "Suspended")  # suspended: old versions are still there

    def _object(self, name: str) -> str:
        return f"{self._path}/{name}"

    @contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        """Whatever a store's package raises, as a sentence. Only its kind is told where it may quote credentials."""
        if doing == "write" and self._scheme == "hf":
            raise StorageError(
                f"{self.url}: palate reads hf:// and writes there with palate data push only. Choose another place"
            )
        try:
            yield
        except PalateError:
            raise
        except Exception as error:  # packages raise what they like, and palate imports none of them
            raise StorageError(f"cannot {doing} {self.url}: {self._reason(error)}") from error

    def _reason(self, error: Exception) -> str:
        kinds = {one.__name__ for one in type(error).__mro__}
        if isinstance(error, FileNotFoundError) and self._scheme == "hf":
            return "the hub has nothing of that name, or this account may not see it."
        if isinstance(error, FileNotFoundError):
            return f"there is no bucket {self.bucket}. Make it first, or correct the name."
        if isinstance(error, PermissionError):
            return "these credentials do not permit it. Ask for the right to list, read, write and delete there."
        if kinds & NO_CREDENTIALS:
            return (
                "no credentials were found. Give them as to the store's own tools, such as AWS_PROFILE, or "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
            )
        if kinds & UNREACHABLE or isinstance(error, ConnectionError | TimeoutError):
            return "the store does not answer. Check the network and the endpoint, such as AWS_ENDPOINT_URL."
        return without_keys(f"{type(error).__name__}: {error}")


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it, if it is there."""
    shutil.rmtree(folder, ignore_errors=True)


def urls_of(words: Sequence[str]) -> list[str]:
    """Words with a `*` in an address, replaced by what they match, as a shell does with files."""
    found = []
    for word in words:
        head, star, _ = word.partition("*")
        if not star or "://" not in head:
            found.append(word)
            continue
        folder = head.rpartition("/")[0]
        matches = Store(folder).match(word[len(folder) + 1 :])
        if not matches:
            raise PalateError(f"{word} matches nothing")
        found += matches
    return found


def _remote(about: dict[str, Any]) -> Remote:
    modified = next((about[key] for key in ("LastModified", "updated", "mtime", "created") if about.get(key)), 0.0)
    if isinstance(modified, str):
        modified = datetime.fromisoformat(modified)
    seconds = modified.timestamp() if isinstance(modified, datetime) else float(modified)
    tag = next((str(about[key]) for key in ("ETag", "etag", "generation", "blob_id") if about.get(key)), str(seconds))
    return Remote(identity=tag, size=int(about.get("size") or 0), modified=seconds)
