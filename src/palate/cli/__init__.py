"""The command line: one module a verb, no logic."""

from palate.cli._main import main

__all__ = ["main"]
