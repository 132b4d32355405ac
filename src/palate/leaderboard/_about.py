"""What the makers of models say of them: size, licence, and how many variants they tried."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from palate.records import PalateError


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A table `[[models]]` of the file."""

    name: str
    """As the board calls the model."""
    parameters: int | None = None
    licence: str | None = None
    link: str | None = None
    variants: int | None = None
    """How many variants (seeds, prompts, checkpoints, settings) were tried on this benchmark before this one."""

    @property
    def size(self) -> str:
        """A class of sizes to filter by."""
        if self.parameters is None:
            return "not given"
        return next(name for limit, name in _SIZES if self.parameters < limit)


_SIZES: tuple[tuple[float, str], ...] = (
    (1e9, "under 1B"),
    (1e10, "1B to 10B"),
    (1e11, "10B to 100B"),
    (float("inf"), "100B and more"),
)
_TYPES: dict[str, type] = {"name": str, "parameters": int, "licence": str, "link": str, "variants": int}


def read_facts(file: Path) -> dict[str, ModelFacts]:
    """By the name of the model. All faults of the file are told at once."""
    try:
        with file.open("rb") as stream:
            content = tomllib.load(stream)
    except OSError as error:
        raise PalateError(f"cannot read {file}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise PalateError(f"{file} is not TOML: {error}") from error
    faults = [f"unknown key {key!r}. The file holds [[models]] tables only." for key in content if key != "models"]
    tables = content.get("models", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise PalateError(f"{file}: models is not a list of tables. Begin each with [[models]].")
    for place, table in enumerate(tables, start=1):
        faults += [f"models {place}: {fault}" for fault in _faults(table)]
    names = [table.get("name") for table in tables]
    faults += [f"the model {name!r} is there twice" for name in dict.fromkeys(names) if name and names.count(name) > 1]
    if faults:
        raise PalateError(f"{file} cannot be used.\n" + "\n".join(f"  - {fault}" for fault in faults))
    return {table["name"]: ModelFacts(**table) for table in tables}


def require_known(facts: Collection[str], models: Collection[str], file: Path) -> None:
    """Refuse what is said of models that no run has."""
    unknown = [name for name in facts if name not in models]
    if unknown:
        lines = [f"  - {name!r} is in no run.{_hint(name, models)}" for name in unknown]
        raise PalateError(f"{file} names models that are not on the board.\n" + "\n".join(lines))


def _faults(table: dict[str, Any]) -> list[str]:
    found = [
        f"unknown key {key!r}.{_hint(key, _TYPES)} Known: {', '.join(_TYPES)}." for key in table if key not in _TYPES
    ]
    if "name" not in table:
        found.append("the name is missing: the model as the board calls it")
    for key, kind in _TYPES.items():
        value = table.get(key)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            found.append(f"{key} is {value!r}; it must be {'a whole number' if kind is int else 'text'}")
        elif isinstance(value, int) and value < 1:
            found.append(f"{key} is {value}; it counts from 1")
    link = table.get("link")
    if isinstance(link, str) and not link.startswith(("https://", "http://")):
        found.append(f"link is {link!r}; it must begin with https:// or http://")
    return found


def _hint(name: str, known: Collection[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
