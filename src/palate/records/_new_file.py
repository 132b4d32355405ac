"""Files that are written beside others before they take their place."""

import os
from pathlib import Path
from typing import BinaryIO


def new_file(file: Path, mode: int = 0o666) -> BinaryIO:
    """A file to write to that is nobody else's.

    What lies there already goes first. In a folder from a stranger it may be a link, and whoever writes through it
    overwrites a file elsewhere.
    """
    file.unlink(missing_ok=True)
    return open(file, "xb", opener=lambda path, flags: os.open(path, flags, mode))
