"""`palate doctor`: what can this machine run?"""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter


def doctor(*, json: Annotated[bool, Parameter(negative="")] = False) -> None:
    """Say what this machine can run, and what would let it run more.

    Parameters
    ----------
    json
        Print one JSON object, and nothing else, on standard output.
    """
    import msgspec
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from palate.engine import examine

    found = examine()
    if json:
        sys.stdout.write(msgspec.json.encode({"findings": found}).decode() + "\n")
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for finding in found:
        text = Text(finding.found)
        if finding.advice:
            text.append(f"\n{finding.advice}", style="yellow")
        table.add_row(Text(finding.what), text)
    Console().print(table)
