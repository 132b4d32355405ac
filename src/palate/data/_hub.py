"""Data sets from the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx

from palate.records import PalateError


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
