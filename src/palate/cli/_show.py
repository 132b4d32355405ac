"""What every command that measures prints at its end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def show(summary: Any, page: Path, printed: Callable[[Any, Console], None], *, json: bool) -> None:
    """The tables for a person, or the object for a program."""
    import msgspec

    if json:
        sys.stdout.write(msgspec.json.encode(summary).decode() + "\n")
        return
    from rich.console import Console

    console = Console()
    printed(summary, console)
    console.print()
    console.print("Report:", page.resolve().as_uri(), markup=False, highlight=False, soft_wrap=True)
