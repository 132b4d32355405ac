"""A new project, from an example that runs as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

from palate.collect._project import PROJECT_FILE
from palate.records import PalateError, unknown_name

EXAMPLES = Path(__file__).parent / "examples"
IGNORED = "# What people answer, and the key that signs their links, do not belong in version control.\n" + "\n".join(
    ("secret.key", "collect.sqlite*", "exports/", "receipts/", "")
)


def make_project(folder: Path, example: str) -> Path:
    """Copy an example to a folder that is not there yet, or is empty."""
    known = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
    if example not in known:
        raise unknown_name("example", example, known)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PalateError(f"{folder} is there already; name a new folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in sorted((EXAMPLES / example).iterdir()):
            shutil.copyfile(file, folder / file.name)
        (folder / ".gitignore").write_text(IGNORED, encoding="utf-8")
    except OSError as error:
        raise PalateError(f"{folder} cannot be made: {error.strerror or error}") from error
    return folder / PROJECT_FILE
