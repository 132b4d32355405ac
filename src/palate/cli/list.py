"""`palate list`: what can be named, and what it is."""

from __future__ import annotations

import importlib
from typing import Literal

from palate.cli._options import JsonOption

JSON = JsonOption()
KINDS = {
    "rm": "palate.rewards:REWARD_MODELS",
    "views": "palate.views:VIEWS",
    "critics": "palate.downstream:CRITICS",
    "methods": "palate.personal:METHODS",
    "retrievers": "palate.views:RETRIEVERS",
    "data": "palate.data:LOADERS",
    "experiments": "palate.runs:EXPERIMENTS",
    "loggers": "palate.runs:LOGGERS",
}


def list_names(
    kind: Literal["rm", "views", "critics", "methods", "retrievers", "data", "experiments", "loggers"] | None = None,
    /,
    *,
    options: JsonOption = JSON,
) -> None:
    """List what has a name, each with a description; of one kind, or of all.

    Parameters
    ----------
    kind
        `rm` (for `--rm`), `views`, `critics`, `methods`, `retrievers`, `data`, `experiments` (kinds of run)
        or `loggers`.
    """
    from rich.table import Table
    from rich.text import Text

    from palate.cli._show import print_json
    from palate.report import make_console

    found: dict[str, dict[str, str]] = {}
    for name in [kind] if kind else KINDS:
        module, _, attribute = KINDS[name].partition(":")
        found[name] = dict(getattr(importlib.import_module(module), attribute).items())
    if options.json:
        return print_json(found)
    console = make_console()
    for name, entries in found.items():
        table = Table(box=None, show_header=False, pad_edge=False, title=None if kind else name, title_justify="left")
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for entry, about in entries.items():
            table.add_row(Text(entry), Text(about))
        console.print(table)
        if not kind:
            console.print()
    return None
