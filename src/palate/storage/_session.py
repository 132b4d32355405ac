"""The working copies of one command: opened when it first needs them, uploaded meanwhile, and closed at its end."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from palate.records import PalateError
from palate.storage._address import address_of, files_root, made_private, url_in_path, url_of, working_path
from palate.storage._copy import WorkingCopy, private_folder
from palate.storage._lease import LostLeaseError
from palate.storage._store import Store

INTERVAL = 30.0
"""Seconds between uploads. A machine that dies takes with it, at most, what it made since the last one began."""


class _Session:
    """The working copies that are open in this process."""

    def __init__(self) -> None:
        self.copies: dict[Path, WorkingCopy] = {}
        self.closing = ExitStack()
        self.writable: set[str] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._told: set[str] = set()

    def hold(self, folder: Path, order: Sequence[str]) -> None:
        with self._lock:
            if any(held in folder.parents for held in self.copies):
                return
            if folder not in self.copies:
                self.copies[folder] = WorkingCopy(folder, order)
            elif order:
                self.copies[folder].order = order
        if self._thread is None:
            self._thread = threading.Thread(target=self._upload_meanwhile, daemon=True)
            self._thread.start()

    def push(self) -> None:
        """Upload everything now; raises PalateError where that cannot be done."""
        with self._lock:
            for copy in self.copies.values():
                copy.push()

    def close(self) -> list[str]:
        """Upload the rest and remove the copies; what could not be uploaded, in words."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        faults = []
        for copy in self.copies.values():
            try:
                copy.close()
            except PalateError as error:
                faults.append(
                    f"{error} What was not uploaded is kept in the working copy {copy.folder}. {_what_next(error)}"
                )
        self.copies.clear()
        self.closing.close()
        return faults

    def _upload_meanwhile(self) -> None:
        while not self._stop.wait(INTERVAL):
            for copy in list(self.copies.values()):
                try:
                    with self._lock:
                        copy.push()
                except PalateError as error:
                    if str(error) not in self._told:  # once, and on this machine all goes on
                        self._told.add(str(error))
                        warnings.warn(
                            f"{error} This goes on, and keeps everything in the working copy {copy.folder}.",
                            stacklevel=1,
                        )


def _what_next(error: PalateError) -> str:
    if isinstance(error, LostLeaseError):
        return "Compare it with what the store holds, and delete that folder."
    return "Run the same command again to upload it."


_SESSION: _Session | None = None


@contextmanager
def storing() -> Iterator[None]:
    """Within this, folders in a store can be used. At its end everything is uploaded, however it ends.

    Working copies are removed when they are uploaded, and kept otherwise.
    """
    global _SESSION
    if _SESSION is not None:
        yield
        return
    session = _SESSION = _Session()
    try:
        yield
    except PalateError as error:
        if faults := session.close():
            raise PalateError(" ".join([str(error), *faults])) from error
        raise
    except SystemExit:  # how a command ends that went well
        if faults := session.close():
            raise PalateError(" ".join(faults)) from None
        raise
    except BaseException:
        for fault in session.close():
            warnings.warn(fault, stacklevel=1)
        raise
    else:
        if faults := session.close():
            raise PalateError(" ".join(faults))
    finally:
        _SESSION = None


def _session(url: str) -> _Session:
    if _SESSION is None:
        raise PalateError(f"{url} can be used within palate.storage.storing() only, which uploads at its end")
    return _SESSION


def folder_to_write_in(url: str) -> Path:
    """A folder whose folders will be written, such as `s3://bucket/runs`; refused where the store cannot be written."""
    session = _session(url)
    if url not in session.writable:
        Store(url).require_writable()
        session.writable.add(url)
    return made_private(working_path(url))


def folder_to_change(named: Path) -> Path:
    """A folder that will be changed: as it is named, or the working copy of what lies in a store."""
    if url := url_in_path(named):
        hold(working_path(url))
        return working_path(url)
    return named


def folder_to_use(named: Path) -> Path:
    """A folder that will only be read: as it is named, or a copy of what lies in a store."""
    url = url_in_path(named)
    return folder_to_read(url) if url else named


def folder_to_read(url: str, names: Sequence[str] = ("",)) -> Path:
    """A copy of a folder, or of some folders in it, for this command alone."""
    session = _session(url)
    path = working_path(url, session.closing.enter_context(private_folder()))
    fetch_into(path, names)
    return path


def fetch_into(path: Path, names: Sequence[str] = ("",)) -> None:
    """Add folders of the store to a copy that is only read."""
    for name in names:
        folder = path / name
        made_private(folder.parent)
        Store(address_of(folder)).fetch_to(folder)


@contextmanager
def fetched(url: str) -> Iterator[Path]:
    """A copy of a folder or file, removed at once."""
    with private_folder() as root:
        path = working_path(url, root)
        fetch_into(path)
        yield path


def is_empty(url: str) -> bool:
    """Whether nothing is in a folder of a store."""
    return not Store(url).objects()


def hold(folder: Path, order: Sequence[str] = ()) -> None:
    """Fetch a folder that is about to be written, and keep others from writing to it; nothing for ordinary folders.

    `order` names files, each after those that it needs.
    """
    if url := url_in_path(folder):
        raise PalateError(
            f"{url} is no path. In Python, open it within palate.storage.storing(): folder_to_write_in(url)"
        )
    if folder.is_absolute() and folder.is_relative_to(files_root()):
        url = url_of(folder)
        assert url is not None
        _session(url).hold(folder, order)


def push_all() -> None:
    """Upload everything that is held, now, before something that relies on it; raises PalateError where that fails."""
    if _SESSION is not None:
        _SESSION.push()


def held_copies() -> dict[Path, WorkingCopy]:
    """The working copies of this process, by their folders."""
    return {} if _SESSION is None else dict(_SESSION.copies)
