"""Packages that palate can do without until somebody asks for what they do."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

from palate.records import PalateError


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or say which line installs it."""
    # Before torch is loaded: threads that spin while they wait stall each other when cores are shared.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise PalateError(
            f"this needs the package {module!r} ({error}). Install it: pip install 'palate[{extra}]'"
        ) from error
