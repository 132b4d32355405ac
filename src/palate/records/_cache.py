"""Where palate keeps what it can make again."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Where palate keeps what it can make again: `PALATE_CACHE`, else the system's cache folder."""
    if named := os.environ.get("PALATE_CACHE"):
        return Path(named).expanduser()
    import platformdirs  # not for `palate --help`

    return Path(platformdirs.user_cache_dir("palate"))


def unfinished_erasures() -> list[Path]:
    """The journals of erasures that were interrupted, oldest first, and drafts of such."""
    folder = cache_folder() / "forgetting"
    return sorted([*folder.glob("*.json"), *folder.glob("*.draft")])
