"""`palate` as a person calls it: in this process, which is quick, or in one of its own, where that is the point."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from palate.cli import main

GUARD = 900  # seconds after which a process hangs, however busy the machine is
SILENT = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
Done = subprocess.CompletedProcess[str]


def palate(*words: str | Path, cwd: Path | None = None, **environment: str) -> Done:
    """Run a command here as a shell would that reads its output through pipes; settings and folder are put back."""
    given = [str(word) for word in words]
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(), redirect_stdout(out), redirect_stderr(err):
        if cwd is not None:
            patch.chdir(cwd)
        for name, value in ({"COLUMNS": "80"} | environment).items():
            patch.setenv(name, value)
        _warn_as_a_process_does(patch)
        code = _exit_code(given)
    return Done(["palate", *given], code, out.getvalue(), err.getvalue())


def palate_process(*words: str | Path, cwd: Path | None = None, **environment: str) -> Done:
    """The same in a process of its own: for what is read once from the environment, and for what imports do."""
    return subprocess.run(
        [sys.executable, "-m", "palate", *map(str, words)],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=GUARD,
    )


def _exit_code(words: list[str]) -> int:
    try:
        main(words)
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            return left.code or 0
        print(left.code, file=sys.stderr)
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def _warn_as_a_process_does(patch: pytest.MonkeyPatch) -> None:
    def show(message: Warning | str, category: type[Warning], file: str, line: int, *_: object) -> None:
        sys.stderr.write(warnings.formatwarning(message, category, file, line))

    patch.setattr(warnings, "showwarning", show)
    warnings.resetwarnings()
    for category in SILENT:
        warnings.simplefilter("ignore", category)
    warnings.filterwarnings("error", category=RuntimeWarning, module="palate")
