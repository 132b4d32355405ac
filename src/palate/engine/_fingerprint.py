"""What identifies a folder of weights."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from pathlib import Path

SUFFIXES = {".json", ".txt", ".safetensors", ".bin", ".model", ".jinja"}


@lru_cache(maxsize=64)
def folder_fingerprint(folder: Path) -> str:
    """The commit of a hub snapshot, else a hash over every file that could change an answer."""
    if re.fullmatch(r"[0-9a-f]{40}", folder.name) and folder.parent.name == "snapshots":
        return folder.name
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.suffix in SUFFIXES:
            with file.open("rb") as stream:
                found = hashlib.file_digest(stream, "sha256").hexdigest()
            digest.update(f"{file.relative_to(folder)}={found}\n".encode())
    return digest.hexdigest()
