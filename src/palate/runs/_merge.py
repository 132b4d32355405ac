"""Merging shards into the run folder that one process would have made, byte for byte.

A ledger holds its lines in the order in which one process makes them. Each kind of run says where a line stands, so no
model is needed. The merged folder is written under another name and renamed when it is whole.
"""

from __future__ import annotations

import mmap
import os
import shutil
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from palate.records import PalateError
from palate.runs._experiment import open_run
from palate.runs._ledger import Keys, Ledger, scan_lines, write_whole
from palate.runs._models import Progress, no_progress
from palate.runs._run import COMMAND, Run
from palate.runs._shards import SHARD, Place, ShardFile, places
from palate.runs._spent import RunSpent, read_spent, write_spent
from palate.runs._views import VIEWS
from palate.storage import hold

try:
    import fcntl
except ImportError:  # Windows has no flock; two merges at once are then not noticed
    fcntl = None  # type: ignore[assignment]

DRAFT = ".merging-"
"""What the name of a folder begins with while it is being merged."""


class _Opened(NamedTuple):
    run: Run[Any]
    file: ShardFile

    @property
    def number(self) -> int:
        return self.file.shard.number


def shards_beside(folder: Path) -> list[Path]:
    """Shards of a run in the same folder of runs; refused where a killed merge has left more of it.

    They hold the same people as the run.
    """
    draft = folder.parent / (DRAFT + folder.name)
    if draft.exists():
        raise PalateError(
            f"{draft} was left by a merge that was stopped, and holds the same people as {folder}. "
            "Repeat the merge or delete that folder first."
        )
    return sorted(file.parent for file in folder.parent.glob(f"shard-*-of-*/{folder.name}/settings.json"))


def merge_runs(folders: Sequence[Path], out: Path, progress: Progress = no_progress) -> Run[Any]:
    """The run that these shards are of, with all that it is made of.

    A folder may be that of a shard's run, or the one that holds it. A merge that was stopped can be repeated.
    """
    groups: dict[str, list[_Opened]] = {}
    found = _run_folders(folders)
    for done, folder in enumerate(found):
        progress("reading shards", done, len(found))
        opened = _open(folder)
        groups.setdefault(opened.run.settings.folder_name, []).append(opened)
    _refuse_different_runs(groups)
    for group in groups.values():
        group.sort(key=lambda one: one.number)
        _require_whole(group)
    firsts = {name: group[0].run for name, group in groups.items()}
    parts = {part.name for run in firsts.values() for part in run.experiment.parts(run)}
    if len(whole := [name for name in groups if name not in parts]) != 1:
        raise PalateError(
            f"these are shards of {len(whole)} runs: {', '.join(whole)}. Name the folders of one of them."
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        with _alone(out):
            merged = {
                name: _merge(group, out, progress) for name, group in sorted(groups.items(), key=lambda one: one[0])
            }
    except OSError as error:
        raise PalateError(
            f"cannot write to {out}: {error.strerror or error}. Choose another place with --out."
        ) from error
    return merged[whole[0]]


def _run_folders(folders: Sequence[Path]) -> list[Path]:
    """Run folders, each once, with those of the runs that they are made of."""
    found: list[Path] = []
    for folder in folders:
        inside = sorted(file.parent for file in folder.glob("*/settings.json"))
        if (folder / "settings.json").is_file() or not inside:
            run = open_run(folder, check=False)
            found += [folder, *run.experiment.parts(run)]
        else:
            found += inside
    if not found:
        raise PalateError("name the folders of the shards: palate merge runs/shard-*-of-8 --out runs")
    return list({folder.resolve(): folder for folder in found}.values())


def _open(folder: Path) -> _Opened:
    run, file = open_run(folder), folder / SHARD
    if not file.is_file():
        raise PalateError(
            f"{folder} is no finished shard. Run its command with --shard again until it ends, then merge."
        )
    try:
        return _Opened(run, msgspec.json.decode(file.read_bytes(), type=ShardFile))
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise PalateError(f"{file} cannot be read: {error}. Run the command of this shard again.") from error


def _refuse_different_runs(groups: Mapping[str, Sequence[_Opened]]) -> None:
    """Shards that lack others because those have other settings."""
    lacking = [group[0].run for group in groups.values() if {one.number for one in group} != _numbers(group[0])]
    for one in lacking:
        for other in lacking:
            if one is not other and one.experiment.kind == other.experiment.kind:
                mine, theirs = (msgspec.structs.asdict(run.settings) for run in (one, other))
                differ = ", ".join(name for name in mine if mine[name] != theirs[name])
                raise PalateError(
                    f"{one.folder} and {other.folder} are shards of different runs; they differ in: {differ}. All "
                    "shards of a run need the same command, version of palate, data and models."
                )


def _numbers(one: _Opened) -> set[int]:
    return set(range(1, one.file.shard.of + 1))


def _require_whole(group: Sequence[_Opened]) -> None:
    first = group[0]
    for before, one in pairwise(group):
        if one.file.shard.of != first.file.shard.of:
            raise PalateError(
                f"{first.run.folder} is shard {first.file.shard} and {one.run.folder} is shard {one.file.shard}: "
                "merge shards of one number"
            )
        if one.number == before.number:
            raise PalateError(f"shard {one.file.shard} is there twice: {before.run.folder} and {one.run.folder}")
        if (one.run.folder / "items.jsonl").is_file() and _content(one, "items.jsonl") != _content(
            first, "items.jsonl"
        ):
            raise PalateError(
                f"{first.run.folder} and {one.run.folder} do not hold the same items.jsonl, as after an erasure in one "
                "of them. Erase the same user from all shards, or run the command of that shard again."
            )
        mine, theirs = _packages(first), _packages(one)
        if mine != theirs:
            differ = ", ".join(
                f"{name} {mine.get(name, 'none')} and {theirs.get(name, 'none')}"
                for name in sorted({*mine, *theirs})
                if mine.get(name) != theirs.get(name)
            )
            raise PalateError(
                f"{first.run.folder} and {one.run.folder} were made with different versions: {differ}. Scores may "
                "depend on them; run one of the two again with the versions of the other."
            )
    if missing := sorted(_numbers(first) - {one.number for one in group}):
        names = ", ".join(f"{number}/{first.file.shard.of}" for number in missing)
        raise PalateError(
            f"of {first.run.settings.folder_name} there is no shard {names}; run it, or name its folder too"
        )


def _content(one: _Opened, name: str) -> bytes:
    return (one.run.folder / name).read_bytes()


def _packages(one: _Opened) -> dict[str, str]:
    """Versions that may change a score. Machines of one cluster may differ in their kernel."""
    settled = msgspec.json.decode(_content(one, "settings.json"), type=dict[str, Any])
    return {name: version for name, version in settled["environment"].items() if name != "platform"}


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """One merge at a time into one folder; the lock goes with the process, however that ends."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise PalateError(f"another process is merging into {out}; wait for it, or stop it") from None
    finally:
        os.close(descriptor)


def _merge(group: Sequence[_Opened], out: Path, progress: Progress) -> Run[Any]:
    first = group[0].run
    settings, experiment, name = first.settings, first.experiment, first.settings.folder_name
    target, draft = out / name, out / (DRAFT + name)
    hold(target, [ledger.name for ledger in Run(target, settings, experiment).ledgers])
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    made = Run(draft, settings, experiment)
    made.first = group[0].file.first
    if (first.folder / COMMAND).is_file():
        write_whole(draft / COMMAND, _content(group[0], COMMAND))
    names = ["settings.json"]
    write_whole(draft / "settings.json", _content(group[0], "settings.json"))
    # The order of ratings is that of the first shard's machine. Parts stand in the order in which views show them.
    for done, ledger in enumerate(sorted(made.ledgers, key=lambda ledger: ledger.about == "parts")):
        progress(f"merging {ledger.name} of {name}", done, len(made.ledgers))
        names.append(ledger.name)
        if ledger.about == "items":
            write_whole(draft / ledger.name, _content(group[0], ledger.name))
        else:
            place = _part_place(made) if ledger.about == "parts" else _in_passes(made, ledger, group[0].file.batch)
            _write_ledger([one.run.folder for one in group], ledger, place, draft / ledger.name)
    if target.exists():
        same = all(
            (target / one).is_file() and (target / one).read_bytes() == (draft / one).read_bytes() for one in names
        )
        shutil.rmtree(draft)
        if not same:
            raise PalateError(f"{target} is there and holds something else; move it away, or choose another --out")
    else:
        _merge_spent(group, draft)
        draft.rename(target)
    run = Run(target, settings, experiment)
    experiment.merged(run, first.folder)
    return run


def _merge_spent(group: Sequence[_Opened], folder: Path) -> None:
    """What all shards took together; not a word of those that recorded nothing."""
    known = [spent for one in group if (spent := read_spent(one.run.folder)) is not None]
    if len(known) == len(group):
        total = RunSpent()
        for spent in known:
            total = total.plus(spent)
        write_spent(folder, total)


def _in_passes(run: Run[Any], ledger: Ledger[Any], batch: int) -> Place:
    """The first items of a run come before all others, in every ledger."""
    place = run.experiment.place(run, ledger, batch)
    return lambda line: (run.pass_of(line.item), *place(line))


def _part_place(run: Run[Any]) -> Place:
    shown = places(list(dict.fromkeys(key for line in run.read(VIEWS) for key in line.parts)))
    return lambda line: (shown[line.key],)


def _write_ledger(folders: Sequence[Path], ledger: Ledger[Any], place: Place, file: Path) -> None:
    """All lines in the order of one process. They are gathered in a file first, so that memory holds numbers only."""
    found, starts, keys = array("I"), array("Q", [0]), Keys()
    gathered = file.with_name(f".{file.name}")
    with gathered.open("wb") as stream:
        for folder in folders:
            for scanned in scan_lines(folder / ledger.name, ledger.line, ledger.key):
                line = scanned.line
                if ledger.about == "parts" and ledger.key is not None and not keys.add(ledger.key(line)):
                    continue  # several users may be shown the same
                try:
                    found.extend(place(line))
                except (KeyError, AttributeError):
                    raise PalateError(
                        f"{folder / ledger.name}, line {scanned.number}: the settings of the run know no such line. "
                        "Run the command of this shard again in an empty folder."
                    ) from None
                starts.append(starts[-1] + stream.write(scanned.raw))
    lines = len(starts) - 1
    with file.open("wb") as stream:
        if lines:
            columns = np.frombuffer(found, dtype=np.uintc).reshape(lines, -1)
            order = np.lexsort(columns.T[::-1])
            if bool((columns[order[1:]] == columns[order[:-1]]).all(axis=1).any()):
                raise PalateError(f"two shards hold the same line of {ledger.name}; run one of them again")
            with gathered.open("rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as content:
                for index in order.tolist():
                    stream.write(content[starts[index] : starts[index + 1]])
        stream.flush()
        os.fsync(stream.fileno())
    gathered.unlink()
