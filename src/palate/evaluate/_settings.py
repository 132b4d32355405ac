"""Everything that decides what a run measures, and the hash that names its folder."""

from __future__ import annotations

import hashlib
import platform
import re
from importlib.metadata import PackageNotFoundError, version

import msgspec

from palate import __version__
from palate.records import Card
from palate.views import Budget, ViewSpec

FORMAT = 2


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


class Settings(HashedSettings, frozen=True, kw_only=True):
    """The resolved settings of a run. Two runs with the same hash measure the same thing."""

    benchmark: Card
    content_hash: str
    models: list[ModelSettings]
    views: list[ViewSpec]
    retriever: str
    retriever_fingerprint: str
    writer: str | None
    """The language model that writes personas and plans, where a view asks for them."""
    budget: Budget | None
    limit: int | None
    seed: int
    baseline: str | None = None
    """The label of the impersonal model that the others of a training run are measured against."""
    split: str | None = None
    """What a training run trained on and what it asked, in words."""
    palate: str = __version__
    format: int = FORMAT

    @property
    def folder_name(self) -> str:
        """A name that any file system takes, with the hash at its end."""
        return f"{file_name(self.benchmark.name)}-{self.hash}"


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
