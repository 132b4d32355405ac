"""Data sets of the Hugging Face hub: fetched once, and sent in one commit."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import httpx

from palate.records import PalateError, escaped_json

if TYPE_CHECKING:
    from huggingface_hub import HfApi

HUB = "hub:"
"""What a data set of the hub begins with, where a benchmark is named."""
CARD = "README.md"
MARK = "palate: "
"""Begins the line of a data set's card that says what palate sent."""
KEPT = (".gitattributes",)
"""Files that the hub makes itself."""
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


class HubRefusalError(PalateError):
    """The hub said no, so it is certain that nothing arrived."""


class Repository(NamedTuple):
    """A data set of the hub as it is now."""

    name: str
    endpoint: str
    public: bool
    commit: str | None
    """None where there is no such repository yet."""
    hashes: Mapping[str, str]
    """Of every file: its git hash, or SHA-256 where the hub keeps it as a large file."""
    sent: Mapping[str, object]
    """What palate wrote into the card when it sent this data set; empty where it did not."""

    @property
    def address(self) -> str:
        """Where people look at it."""
        return f"{self.endpoint}/datasets/{self.name}"


def look_up(name: str) -> Repository:
    """What the hub holds under that name, for whoever is logged in."""
    if not _NAME.fullmatch(name):
        raise PalateError(
            f"{name!r} is no name of a data set on the hub: write OWNER/NAME, as in your-name/my-benchmark"
        )
    api = _api()
    endpoint = str(api.endpoint).rstrip("/")
    with _told(name, endpoint, f"could not reach {endpoint}", "Nothing was sent. Try again when it answers."):
        from huggingface_hub.errors import RepositoryNotFoundError
        from huggingface_hub.hf_api import RepoFile

        httpx.head(endpoint, timeout=5, follow_redirects=True)  # its client would retry for half a minute
        try:
            info = api.dataset_info(name)
        except RepositoryNotFoundError:
            return Repository(name, endpoint, public=False, commit=None, hashes={}, sent={})
        entries = api.list_repo_tree(name, recursive=True, revision=info.sha, repo_type="dataset")
        files = [entry for entry in entries if isinstance(entry, RepoFile)]
        hashes = {file.path: file.lfs.sha256 if file.lfs else file.blob_id for file in files}
        sent: Mapping[str, object] = {}
        if CARD in hashes:
            card = api.hf_hub_download(name, CARD, repo_type="dataset", revision=info.sha)
            sent = _mark(Path(card).read_text("utf-8", "replace"))
        return Repository(name, endpoint, not info.private, info.sha, hashes, sent)


def upload(repository: Repository, files: Mapping[str, bytes], *, public: bool, gone: Sequence[str] = ()) -> str | None:
    """Send these files in one commit, and take the `gone` ones out; the commit, or None where nothing changed.

    A file that was sent before an interruption is not sent again, and until the commit nothing can be seen.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    changed = [path for path, content in files.items() if repository.hashes.get(path) not in _hashes(content)]
    stale = [path for path in dict.fromkeys(gone) if path in repository.hashes and path not in files]
    if not (changed or stale):
        return None
    api = _api()
    unclear = (
        "Nothing of this push can be seen there yet, unless the connection was lost at the very end. Run the same "
        "command again: it sends what is missing."
    )
    failed = f"could not send {repository.name} to {repository.endpoint}"
    with _told(repository.name, repository.endpoint, failed, unclear):
        if repository.commit is None:
            api.create_repo(repository.name, repo_type="dataset", private=not public)
        commit = api.create_commit(
            repository.name,
            [
                *(CommitOperationAdd(path_in_repo=path, path_or_fileobj=files[path]) for path in changed),
                *(CommitOperationDelete(path_in_repo=path) for path in stale),
            ],
            commit_message="Sent with palate",
            repo_type="dataset",
            parent_commit=repository.commit,
        )
        return str(commit.oid)


def mark_of(**facts: object) -> str:
    """The line of a card that says what palate sent; JSON, which is YAML, too."""
    return MARK + escaped_json(json.dumps(facts, ensure_ascii=False))


def _mark(card: str) -> Mapping[str, object]:
    for line in card.splitlines():
        if line.startswith(MARK):
            try:
                found = json.loads(line.removeprefix(MARK))
            except ValueError:
                return {}
            return found if isinstance(found, dict) else {}
    return {}


def _hashes(content: bytes) -> tuple[str, str]:
    """As git and as the store of large files name it."""
    blob = hashlib.sha1(b"blob %d\x00" % len(content) + content, usedforsecurity=False)
    return blob.hexdigest(), hashlib.sha256(content).hexdigest()


def _api() -> HfApi:
    try:
        import huggingface_hub
        import huggingface_hub.constants
    except ImportError:
        raise PalateError("the Hugging Face hub is reached with its client: pip install 'palate[hub]'") from None
    if huggingface_hub.constants.HF_HUB_OFFLINE:
        raise PalateError("nothing can be sent while HF_HUB_OFFLINE is set")
    return huggingface_hub.HfApi()


@contextmanager
def _told(name: str, endpoint: str, failed: str, state: str) -> Iterator[None]:
    """What the hub refuses, in words that help; never with the token."""
    try:
        yield
    except PalateError:
        raise
    except Exception as problem:  # which HTTP library the client raises from changes with its version
        status = getattr(getattr(problem, "response", None), "status_code", None)
        if status == 401:
            raise HubRefusalError(
                f"{endpoint} does not accept your token, or there is none: run `hf auth login`, or set HF_TOKEN. "
                "Nothing was sent."
            ) from None
        if status == 403:
            raise HubRefusalError(
                f"your token may not write to {name} on {endpoint}: take one with write access to that account, or "
                "another name. Nothing can be seen there."
            ) from None
        if status == 412:
            raise HubRefusalError(f"somebody else changed {name} meanwhile: run the same command again") from None
        raise PalateError(f"{failed} ({_reason(problem)}). {state}") from None


def _reason(problem: Exception) -> str:
    """The error in one line, without whoever's token."""
    from huggingface_hub import get_token

    text, token = " ".join(str(problem).split()) or type(problem).__name__, get_token()
    return (text.replace(token, "[token]") if token else text)[:300]


def download(
    repository: str, *, revision: str | None, choose: Callable[[list[Path]], list[Path]], local: str
) -> tuple[Path, str]:
    """A local copy of a hub data set, and the commit it is of. `choose` picks the files that are wanted.

    `HF_ENDPOINT`, `HF_HUB_OFFLINE` and the hub's own cache are respected. `local` names the folder
    that would be read instead, for the error.
    """
    try:
        import huggingface_hub
        import huggingface_hub.constants
    except ImportError:
        raise PalateError(
            f"{repository} comes from the Hugging Face hub: pip install 'palate[hub]', or put a copy in {local}"
        ) from None

    try:
        if huggingface_hub.constants.HF_HUB_OFFLINE:
            wanted = None  # what is in the hub's cache is all there is
        else:
            # Ask once whether the hub is there: its client would retry for half a minute, loudly.
            httpx.head(huggingface_hub.constants.ENDPOINT, timeout=5, follow_redirects=True)
            listed = huggingface_hub.HfApi().list_repo_files(repository, repo_type="dataset", revision=revision)
            wanted = [path.as_posix() for path in choose([Path(name) for name in listed])]
        folder = Path(
            huggingface_hub.snapshot_download(repository, repo_type="dataset", revision=revision, allow_patterns=wanted)
        )
    except Exception as problem:  # which HTTP library the client raises from changes with its version
        reason = " ".join(str(problem).split())[:300]
        raise PalateError(
            f"could not get {repository} from the Hugging Face hub ({reason}). "
            f"Without the hub, put a copy of its files in {local}, or give the path of a copy"
        ) from None
    return folder, folder.name
