"""Runs in a store: which folders belong together, and in which order their files depend on each other.

Each function takes a folder as a person names it, on this machine or in a store, and gives one of this machine.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from palate.records import PalateError
from palate.runs._experiment import REPORTS, open_run
from palate.runs._finished import FINISHED
from palate.runs._run import LATEST, find_run
from palate.storage import Store, address_of, fetch_into, folder_to_read, folder_to_write_in, hold, url_in_path, urls_of

SETTINGS = "settings.json"


def folder_for_runs(out: Path) -> Path:
    """Where run folders are made; a bucket that cannot be written is refused."""
    url = url_in_path(out)
    if url and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise PalateError(f"several processes train together, and one can write to {url}: choose a shared folder")
    return folder_to_write_in(url) if url else out


def run_to_read(named: Path, *, beside: bool = False) -> Path:
    """A run, or a folder of runs. From a store it is a copy for this command alone, with the runs that it is made of.

    With `beside` also the samples that runs share.
    """
    url = url_in_path(named)
    if url is None:
        return find_run(named)
    parent, name = _named(url)
    path = folder_to_read(f"{parent}/{name}")
    if (path / SETTINGS).is_file():
        run = open_run(path, check=False)
        fetch_into(path.parent, [part.name for part in run.experiment.parts(run)])
        if beside:
            fetch_into(path.parent, _samples(Store(parent)))
    return path


def runs_to_read(named: Sequence[Path]) -> list[Path]:
    """The same for several, where `*` in an address stands for whatever is there."""
    urls = [url_in_path(one) or str(one) for one in named]
    return [run_to_read(Path(one)) for one in urls_of(urls)]


def run_to_write(named: Path) -> Path:
    """A run that will be changed, with the runs that it is made of."""
    url = url_in_path(named)
    if url is None:
        return find_run(named)
    parent, name = _named(url)
    folder = folder_to_write_in(parent) / name
    hold_run(folder)
    if not (folder / SETTINGS).is_file():
        raise PalateError(f"{url} is not a run: it has no {SETTINGS}")
    return folder


def run_to_erase_from(named: Path) -> Path:
    """The same, with what lies beside it and holds the same people: shards, and samples that runs share."""
    folder = run_to_write(named)
    if url_in_path(named):
        beside = Store(address_of(folder.parent))
        for name in [*_samples(beside), *_folders(beside, f"shard-*-of-*/{glob.escape(folder.name)}")]:
            hold_run(folder.parent / name)
    return folder


def hold_run(folder: Path) -> None:
    """Hold the folder of a run and of those that it is made of, where they lie in a store."""
    hold(folder)
    if address_of(folder) != str(folder) and (folder / SETTINGS).is_file():
        run = open_run(folder, check=False)
        hold(folder, [ledger.name for ledger in run.ledgers])
        for part in run.experiment.parts(run):
            hold_run(part)


def put_reports(named: Path, folder: Path) -> None:
    """Write the reports of a run that was read from a store back to it."""
    url = url_in_path(named)
    if url is None:
        return
    store = Store("/".join(_named(url)))
    for name in (*REPORTS, FINISHED):
        if (folder / name).is_file():
            with (folder / name).open("rb") as stream:
                store.put(name, stream, (folder / name).stat().st_size)


def _samples(store: Store) -> list[str]:
    return _folders(store, "samples/*")


def _folders(store: Store, pattern: str) -> list[str]:
    """The folders of runs that match a pattern, relative to the store."""
    found = store.match(f"{pattern}/{SETTINGS}")
    return [file.removeprefix(f"{store.url}/").removesuffix(f"/{SETTINGS}") for file in found]


def _named(url: str) -> tuple[str, str]:
    """The folder that a run is in, and its name; `latest` stands for the run to which anything was added last."""
    parent, _, name = url.rstrip("/").rpartition("/")
    if name != LATEST:
        return parent, name
    changed: dict[str, float] = {}
    listed = Store(parent).objects()
    for path, remote in listed.items():
        run, _, file = path.partition("/")
        if f"{run}/{SETTINGS}" in listed and (file == SETTINGS or ("/" not in file and file.endswith(".jsonl"))):
            changed[run] = max(remote.modified, changed.get(run, 0.0))
    if not changed:
        raise PalateError(f"{parent} holds no run, so there is no latest one. `palate eval --out {parent}` makes one.")
    return parent, max(changed, key=lambda run: (changed[run], run))
