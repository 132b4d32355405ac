"""`palate completion`: the script that lets a shell complete commands and options with Tab."""

from __future__ import annotations

import sys
from typing import Literal

from palate.cli._options import Written


def completion(
    shell: Literal["bash", "zsh", "fish", "powershell"],
    /,
    *,
    output: Written = None,
) -> None:
    """Print the script that completes palate's commands and options with Tab. Nothing is installed.

    Parameters
    ----------
    shell
        Your shell.
    output
        Write the script to this file instead.
    """
    from palate.cli._main import app
    from palate.records import PalateError

    script = app.generate_completion(shell=shell)
    if output is None:
        sys.stdout.write(script)
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(script, encoding="utf-8")
    except OSError as error:
        raise PalateError(f"cannot write the completion to {output}: {error.strerror or error}") from error
