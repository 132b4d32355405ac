"""`palate doctor`: what can this machine run?"""

from __future__ import annotations

from palate.cli._options import JsonOption

JSON = JsonOption()


def doctor(*, options: JsonOption = JSON) -> None:
    """Say what this machine can run, and what would let it run more."""
    from rich.table import Table
    from rich.text import Text

    from palate.cli._show import print_json
    from palate.engine import Diagnosis, examine
    from palate.privacy import read_pushes
    from palate.report import make_console

    found = [*examine(), *(Diagnosis("pushed", one.sentence) for one in read_pushes())]
    if options.json:
        return print_json({"findings": found})
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for finding in found:
        text = Text(finding.found)
        if finding.advice:
            text.append(f"\n{finding.advice}", style="yellow")
        table.add_row(Text(finding.what), text)
    return make_console().print(table)
