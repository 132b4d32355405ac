"""Everything that decides what a run measures, and the hash that names its folder."""

from __future__ import annotations

import hashlib
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec

from palate.records import without_folders


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


def settings_for_others(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without folders of this machine, which may hold its owner's name; models keep their labels.

    >>> settings_for_others({"spec": "hf:/home/ann/rm", "benchmark": {"name": "a/b", "source": "/home/ann/votes.csv"}})
    {'spec': 'hf:rm', 'benchmark': {'name': 'a/b', 'source': 'votes.csv'}}
    """

    def shortened(value: Any) -> Any:
        if isinstance(value, str):
            return without_folders(value)
        if isinstance(value, list):
            return list(map(shortened, value))
        if isinstance(value, dict):  # a label is how ratings name their model
            return {name: one if name == "label" else shortened(one) for name, one in value.items()}
        return value

    card = settings["benchmark"]
    found: dict[str, Any] = shortened(settings)
    return found | {"benchmark": card | {"source": without_folders(card["source"])}}


def environment() -> dict[str, str]:
    """Versions that ought not to change a score but may explain one that did."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in ("numpy", "scipy", "bm25s", "torch", "transformers", "sentence-transformers"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
