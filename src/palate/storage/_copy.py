"""The working copy of one folder in a store: fetched, changed on this machine, and uploaded file by file."""

from __future__ import annotations

import hashlib
import os
import secrets
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from palate.records import PalateError
from palate.storage._address import files_root, made_private, reading_root, storage_root, url_of
from palate.storage._lease import Lease
from palate.storage._store import Remote, Store, remove_folder

try:
    import fcntl
except ImportError:  # Windows has no flock; two processes at once are then not noticed
    fcntl = None  # type: ignore[assignment]

GROWS = ".jsonl"
"""Files that only ever gain lines, while nobody is erased."""
TRIES = 50


class Kept(msgspec.Struct, frozen=True):
    """A file as it stands in the store."""

    sha256: str
    size: int
    identity: str


class State(msgspec.Struct):
    """What is known of a working copy, kept beside it."""

    path: str
    token: str
    files: dict[str, Kept] = {}


class _Seen(NamedTuple):
    """A file of this machine as it was last looked at."""

    inode: int
    size: int
    changed: int


class WorkingCopy:
    """One folder of this machine and the same in a store, with the right to write to it.

    `order` names files, each after those that it needs, so that what is in the store can be used at any moment.
    """

    def __init__(self, folder: Path, order: Sequence[str] = ()) -> None:
        url = url_of(folder)
        assert url is not None
        self.folder, self.url, self.order = folder, url, order
        self._store = Store(url)
        self._state_file = state_file(folder)
        self._lock = _locked(self._state_file.with_suffix(".lock"), url)
        self._seen: dict[str, _Seen] = {}
        self._now: dict[str, _Seen] = {}
        self._begun = 0
        """When the settings were written."""
        try:
            self._state = _read_state(self._state_file, folder)
            self._lease = Lease(self._store, self._state.token)
            if gone := self._lease.take():
                warnings.warn(f"took over {url} from {gone}, which was not heard of for a while", stacklevel=1)
            made_private(folder.parent)
            self._save()
            self._fetch()
        except BaseException:
            self._unlock()
            raise

    def push(self) -> int:
        """Upload what changed since the last time, and remove what is gone; the number of objects that changed."""
        self._lease.renew()
        files = self._snapshot()
        gone = sorted(self._state.files.keys() - files.keys())
        changed = [name for name, seen in files.items() if self._seen.get(name) != seen]
        shrinks = bool(gone) or any(
            name in self._state.files and files[name].size < self._state.files[name].size for name in changed
        )
        done = 0
        # What lines were made from goes first while they grow, and last when they are erased.
        self._now = files
        self._begun = files["settings.json"].changed if "settings.json" in files else 0
        for name in sorted([*changed, *gone], key=self._rank, reverse=shrinks):
            if name in gone:
                self._lease.keep_alive()
                self._store.remove(name)
                del self._state.files[name]
                done += 1
            else:
                done += self._upload(name, files[name])
            self._save()
        return done

    def close(self) -> None:
        """Upload the rest, let others write, and remove the copy."""
        try:
            self.push()
            self._lease.release()
            remove_folder(self.folder)
            self._state_file.unlink(missing_ok=True)
            with suppress(OSError):  # the first that is not empty
                for folder in self.folder.parents:
                    if folder == files_root():
                        break
                    folder.rmdir()
        finally:
            self._unlock()

    def keeps_versions(self) -> bool | None:
        """Whether the bucket keeps what is overwritten or removed; None where that cannot be told."""
        return self._store.keeps_versions()

    def _upload(self, name: str, seen: _Seen) -> int:
        """One file as far as it was when it was looked at, unless the store has just that."""
        try:
            with (self.folder / name).open("rb") as stream:
                digest = _sha256(stream, seen.size)
                kept = self._state.files.get(name)
                if kept is not None and kept.sha256 == digest:
                    self._seen[name] = seen
                    return 0
                stream.seek(0)
                remote = self._store.put(name, stream, seen.size, self._lease.keep_alive)
        except FileNotFoundError:  # replaced or removed meanwhile: the next time tells
            return 0
        self._state.files[name] = Kept(digest, seen.size, remote.identity)
        self._seen[name] = seen
        return 1

    def _snapshot(self) -> dict[str, _Seen]:
        """How long every file is at one moment. Files grow while this looks, so it looks until two looks agree."""
        before = _look(self.folder)
        for _ in range(TRIES):
            if (now := _look(self.folder)) == before:
                return now
            before = now
        return before

    def _rank(self, name: str) -> tuple[int, int, str]:
        """What was there before the settings made it a run, these, lines in their order, what is made of them."""
        head, _, file = name.rpartition("/")
        changed = self._now[name].changed if name in self._now else 0
        if file != "settings.json" and not file.endswith(GROWS) and changed <= self._begun:
            return -1, 0, name
        if file in self.order and not head:
            return 1, self.order.index(file), name
        return (0 if file == "settings.json" else 1 if file.endswith(GROWS) else 2), 0, name

    def _fetch(self) -> None:
        """Make the copy what the store holds, unless it is ahead of that since it was last uploaded."""
        listed = self._store.objects()
        if not self.folder.exists():  # nothing is kept, whatever is known of it
            self._state.files = {}
        same = {name: remote.identity for name, remote in listed.items()} == {
            name: kept.identity for name, kept in self._state.files.items()
        }
        if same and self.folder.exists():
            return
        if not listed and not self.folder.exists():
            return
        with private_folder() as fresh:
            listed = self._store.fetch(fresh)
            kept = {
                name: Kept(_file_sha256(fresh / name), remote.size, remote.identity) for name, remote in listed.items()
            }
            if self._is_ahead(fresh):
                self._state.files = kept
            else:
                remove_folder(self.folder)
                made_private(self.folder)
                for name in listed:
                    (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                    (fresh / name).rename(self.folder / name)
                self._state.files = kept
                _keep_times(self.folder, listed)
        self._seen = {name: seen for name, seen in _look(self.folder).items() if not self._differs(name)}
        self._save()

    def _differs(self, name: str) -> bool:
        kept = self._state.files.get(name)
        return kept is None or kept.sha256 != _file_sha256(self.folder / name)

    def _is_ahead(self, fresh: Path) -> bool:
        """Whether this machine holds lines that the store lacks. Lines that both have alone are a reason to stop."""
        if not any(self._differs(name) for name in _look(self.folder)):
            return False
        ahead = behind = False
        names = {name for folder in (self.folder, fresh) for name in _look(folder) if name.endswith(GROWS)}
        for name in names:
            mine, theirs = (_content(folder / name) for folder in (self.folder, fresh))
            ahead |= mine != theirs and mine.startswith(theirs)
            behind |= mine != theirs and theirs.startswith(mine)
            if (ahead and behind) or not (mine.startswith(theirs) or theirs.startswith(mine)):
                raise PalateError(
                    f"{self.url} was changed elsewhere since this machine uploaded to it, and the working copy "
                    f"{self.folder} holds what was not uploaded. To go on with what the store holds, delete that "
                    "folder and run this again."
                )
        return ahead

    def _save(self) -> None:
        draft = self._state_file.with_suffix(".draft")
        draft.write_bytes(msgspec.json.encode(self._state))
        draft.replace(self._state_file)

    def _unlock(self) -> None:
        with suppress(OSError):
            os.close(self._lock)


def state_file(folder: Path) -> Path:
    """Where it is kept what is known of a working copy."""
    return storage_root() / "state" / f"{hashlib.sha256(str(folder).encode()).hexdigest()[:32]}.json"


def kept_copies() -> list[Path]:
    """Working copies that no process uses: what they hold may not be uploaded, since their process was stopped."""
    found = []
    for file in sorted((storage_root() / "state").glob("*.json")):
        with suppress(OSError, msgspec.DecodeError, PalateError):
            folder = Path(msgspec.json.decode(file.read_bytes(), type=State).path)
            os.close(_locked(file.with_suffix(".lock"), str(folder)))
            if folder.is_dir():
                found.append(folder)
    return found


@contextmanager
def private_folder() -> Iterator[Path]:
    """An empty folder for what is fetched to be read. It is removed; that of a killed process is by the next one."""
    root = made_private(reading_root())
    remove_abandoned()
    folder = root / secrets.token_hex(4)
    folder.mkdir()
    lock = _locked(folder / ".lock", str(folder))
    try:
        yield folder
    finally:
        remove_folder(folder)
        os.close(lock)


def remove_abandoned() -> None:
    """Remove what processes that were killed had fetched to read it."""
    for lock in reading_root().glob("*/.lock"):
        with suppress(PalateError):
            descriptor = _locked(lock, "")
            remove_folder(lock.parent)
            os.close(descriptor)


def remove_drafts_here() -> None:
    """Remove the folders that merges into a store had not finished when they were killed."""
    for folder in files_root().rglob(".*"):
        if folder.is_dir():
            remove_folder(folder)


def _locked(file: Path, url: str) -> int:
    """Keep other processes of this machine away, until this one ends."""
    made_private(file.parent)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if fcntl:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise PalateError(f"another process on this machine is writing to {url}; wait for it, or stop it") from error
    return descriptor


def _read_state(file: Path, folder: Path) -> State:
    with suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(file.read_bytes(), type=State)
    return State(path=str(folder), token=secrets.token_hex(8))


def _look(folder: Path) -> dict[str, _Seen]:
    """Every file that is not hidden: drafts are, and what palate keeps for itself."""
    found = {}
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = Path(at, name)
            with suppress(FileNotFoundError):
                if not name.startswith(".") and file.is_file():
                    stat = file.stat()
                    found[file.relative_to(folder).as_posix()] = _Seen(stat.st_ino, stat.st_size, stat.st_mtime_ns)
    return found


def _keep_times(folder: Path, listed: dict[str, Remote]) -> None:
    """Files have the time at which the store got them."""
    for name, remote in listed.items():
        os.utime(folder / name, (remote.modified, remote.modified))


def _content(file: Path) -> bytes:
    return file.read_bytes() if file.is_file() else b""


def _file_sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sha256(stream: IO[bytes], size: int) -> str:
    digest = hashlib.sha256()
    while size > 0 and (piece := stream.read(min(size, 1 << 20))):
        digest.update(piece)
        size -= len(piece)
    return digest.hexdigest()
