"""The one exception that palate raises on purpose, and those of other people's code in one line."""

import traceback
from pathlib import Path


class PalateError(Exception):
    """Something a person can mend: a wrong name, a broken file, a missing package.

    The message says what was wrong, where, and what to do. The command line prints it and exits
    with code 2; code that uses palate as a library can catch it.
    """


def describe_error(error: BaseException, file: Path | None = None) -> str:
    """An exception of somebody else's code in one line, with the place where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    if file is not None:
        frames = traceback.StackSummary.from_list([f for f in frames if Path(f.filename).name == file.name])
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    if isinstance(error, SyntaxError):  # its text names the place, too
        return f"{type(error).__name__}: {error.msg} ({Path(error.filename or '').name}, line {error.lineno})"
    return f"{type(error).__name__}: {error}{where}"
