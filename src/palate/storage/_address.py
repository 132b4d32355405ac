"""Addresses of folders in a store, and where their working copies lie on this machine.

A working copy lies under a path that mirrors its address, so each is known from the other:

    s3://bucket/runs/NAME    CACHE/storage/files/s3/bucket/runs/NAME
"""

from __future__ import annotations

import re
from pathlib import Path

from palate.records import PalateError, cache_folder

SCHEMES = {
    "s3": "pip install 'palate[storage]'",
    "gs": "pip install gcsfs",
    "hf": "pip install 'palate[hub]'",
    "memory": "pip install fsspec",
}
"""Stores that palate knows, and how to get what reaches them."""
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.DOTALL)
_COLLAPSED = re.compile(r"([a-z][a-z0-9+.-]+):/(.*)", re.DOTALL)

_KEYS = re.compile(r"[^\s\"']*:[^\s\"']*@")


def is_url(text: str) -> bool:
    """Whether this names something in a store, and no path on this machine.

    >>> is_url("s3://bucket/runs"), is_url("runs/s3"), is_url("judge:m,url=http://host")
    (True, False, False)
    """
    return _URL.match(text) is not None


def parse_url(url: str) -> tuple[str, str]:
    """The scheme and the rest, without a slash at its end.

    >>> parse_url("s3://bucket/runs/")
    ('s3', 'bucket/runs')
    """
    found = _URL.fullmatch(url)
    if found is None or found[1] not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise PalateError(f"{without_keys(url.partition('?')[0])}: palate knows {known} and folders of this machine")
    rest = found[2].rstrip("/")
    bucket = rest.partition("/")[0]
    if "@" in bucket or (":" in bucket and not bucket.startswith("arn:")):
        raise PalateError(
            f"an address such as {found[1]}://bucket/runs holds no keys: it is shown and kept. Give credentials as to "
            "the store's own tools, such as AWS_PROFILE"
        )
    if not rest or not is_plain(rest):
        raise PalateError(f"{url}: name a bucket and a folder in it, such as {found[1]}://bucket/runs")
    return found[1], rest


def without_keys(text: str) -> str:
    """A text without what stands before the @ of an address.

    >>> without_keys("cannot reach http://ann:secret@host:9000/")
    'cannot reach [keys]@host:9000/'
    """
    return _KEYS.sub("[keys]@", text)


def url_in_path(path: Path) -> str | None:
    """The address that somebody made a path of, which loses a slash; None for any other path.

    >>> url_in_path(Path("s3://bucket/runs"))
    's3://bucket/runs'
    """
    found = _COLLAPSED.fullmatch(path.as_posix())
    return f"{found[1]}://{found[2]}" if found else None


def is_plain(name: str) -> bool:
    """Whether the name of an object is a path below its folder, and nothing that leads elsewhere."""
    return "\\" not in name and "\0" not in name and not {"", ".", ".."} & set(name.split("/"))


def storage_root() -> Path:
    """Where working copies lie on this machine."""
    return cache_folder().resolve() / "storage"


def files_root() -> Path:
    """Where those lie that are written to."""
    return storage_root() / "files"


def reading_root() -> Path:
    """Where those lie that are only read, each in a folder that no other process uses."""
    return storage_root() / "reading"


def working_path(url: str, root: Path | None = None) -> Path:
    """The path under which a working copy lies."""
    scheme, rest = parse_url(url)
    return (root or files_root()) / scheme / rest


def url_of(path: Path) -> str | None:
    """The address of a working copy; None for any other path."""
    text = str(path)
    said = with_addresses(text)
    return None if said == text else said


def address_of(path: Path) -> str:
    """How people name a folder: the address of a working copy, else the path."""
    return with_addresses(str(path))


def with_addresses(text: str) -> str:
    """A text that may name working copies, with their addresses instead, but where it says `working copy PATH`."""
    if "storage" not in text:
        return text
    places = rf"(?<!working copy ){re.escape(str(storage_root()))}/(?:files|reading/[^/\s]+)/({'|'.join(SCHEMES)})/"
    return re.sub(places, r"\1://", text)


def made_private(folder: Path) -> Path:
    """The folder, made where it is not there, in a root that nobody but the owner may look into."""
    root = storage_root()
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        root.chmod(0o700)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PalateError(
            f"working copies cannot be kept in {root}: {error.strerror or error}. Set PALATE_CACHE to another folder."
        ) from error
    return folder
