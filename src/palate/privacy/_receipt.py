"""The receipt of an erasure: what was searched, what went, what could not go; and whether it still holds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from palate import __version__
from palate.data import Pseudonyms
from palate.engine import texts_with_vectors
from palate.privacy._places import Place, linked_folders
from palate.privacy._traces import Trace, TraceSearch, packed_files, searched_files
from palate.records import PalateError
from palate.runs import Progress
from palate.storage import address_of, folder_to_read, is_empty, is_url

FORMAT = 1


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What was done about one user, or several at once, who are named by keyed hashes only."""

    users: list[str]
    time: str
    """UTC, ISO 8601."""
    dry_run: bool
    places: list[Place]
    not_erased: list[str]
    """What could not be erased, and why."""
    retrain: list[str]
    """Commands that train models again without the user."""
    words: list[str]
    """Keyed hashes of runs of the user's words, by which a check can find them."""
    vectors: list[str]
    """Keyed hashes of the hashes under which vectors of the user's texts were kept."""
    palate: str = __version__
    format: int = FORMAT


def write_receipt(receipt: Receipt, file: Path) -> None:
    """Write it for the owner's eyes only."""
    content = msgspec.json.format(msgspec.json.encode(receipt), indent=2) + b"\n"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
            stream.write(content)
    except OSError as error:
        raise PalateError(f"the receipt cannot be written to {file}: {error.strerror or error}") from error


def read_receipt(file: Path) -> Receipt:
    """A receipt that was written."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Receipt)
    except FileNotFoundError:
        raise PalateError(f"{file}: no such receipt") from None
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise PalateError(f"{file} is not a receipt of palate forget: {error}") from error


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What a check found."""

    files: int
    """That were searched."""
    missing: list[str]
    """Places that are not there any more."""
    found: list[Trace]
    """Files that hold the user still, or again."""
    not_searched: list[str] = []
    """Links to folders elsewhere, and packed files."""

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.found


def check_receipt(
    receipt: Receipt, users: str | Sequence[str], names: Pseudonyms, progress: Progress | None = None
) -> Checked:
    """Search every place of the receipt again for the ids of these users, and for the words of all it is about."""
    users = [users] if isinstance(users, str) else users
    if not {names.user(user) for user in users} <= {*receipt.users}:
        raise PalateError(
            "the receipt is about another user, or was made with another key; give the same users and the same key "
            "(PALATE_PSEUDONYM_KEY or the key file)"
        )
    search = TraceSearch(users, receipt.words, names)
    places = [_here(place) for place in receipt.places]
    files = [file for place in places for file in _files(place)]
    found = []
    for number, file in enumerate(files):
        if progress:
            progress(f"searching {file.name}", number, len(files))
        one = search.file(file)
        found += [msgspec.structs.replace(one, path=address_of(file))] if one.ids or one.texts else []
    for place in places:
        if place.kind == "vectors" and Path(place.path).is_dir():
            wanted = set(receipt.vectors)
            kept = sum(names.digest("vector", key.hex()) in wanted for key in texts_with_vectors(Path(place.path)))
            found += [Trace(path=place.path, ids=0, texts=kept)] if kept else []
    caches = ("vectors", "answers")  # they come and go
    missing = [place.path for place in places if place.kind not in caches and not Path(place.path).exists()]
    folders = [Path(place.path) for place in places if place.kind not in caches]
    unread = [str(path) for folder in folders for path in (*linked_folders(folder), *packed_files(folder))]
    return Checked(files=len(files), missing=missing, found=found, not_searched=unread)


def _here(place: Place) -> Place:
    """The place, or a copy of it where it lies in a bucket; as it is called where nothing is there any more."""
    if not is_url(place.path):
        return place
    path = Path(place.path) if is_empty(place.path) else folder_to_read(place.path)
    return msgspec.structs.replace(place, path=str(path))


def _files(place: Place) -> list[Path]:
    path = Path(place.path)
    if place.kind == "vectors":
        return []
    if path.is_file():
        return [one for one in (path, path.with_name(f"{path.name}-wal")) if one.is_file()]
    return searched_files(path)
