"""Everything that decides what a run measures, and the hash that names its folder."""

from __future__ import annotations

import hashlib
import platform
import re
from importlib.metadata import PackageNotFoundError, version

import msgspec


class HashedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that name the folder of what is made with them."""

    @property
    def hash(self) -> str:
        """Ten hexadecimal digits that change with any of the settings."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()[:10]


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One reward model of a run: its name in the tables, and what identifies it."""

    label: str
    identity: dict[str, str]


def file_name(text: str) -> str:
    """Letters, digits and hyphens of a name that may hold anything.

    >>> file_name("Ma cuisine / été: №1")
    'Ma-cuisine-t-1'
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:40] or "run"


def environment() -> dict[str, str]:
    """Versions that ought not to change a score but may explain one that did."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in ("numpy", "scipy", "bm25s", "torch", "transformers", "sentence-transformers"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
