"""Checkpoints that are there in full or not at all, and are not believed without their hash.

checkpoints/step-000020/state.pt     weights, optimisers, the number of the step
checkpoints/step-000020/state.json   the size and hash of it
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import torch

from palate.records import PalateError

KEPT = 2
"""The last checkpoint, and one before it should it turn out to be damaged."""


class _Proof(msgspec.Struct, frozen=True):
    size: int
    sha256: str


def write_checkpoint(folder: Path, step: int, state: dict[str, object]) -> None:
    """Into a draft first; when this returns it is on the disk under its name, and old ones are gone."""
    parent = folder / "checkpoints"
    target, draft = parent / f"step-{step:06d}", parent / f".step-{step:06d}"
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        torch.save(state, draft / "state.pt")
        proof = _Proof((draft / "state.pt").stat().st_size, _hash(draft / "state.pt"))
        (draft / "state.json").write_bytes(msgspec.json.encode(proof))
        for file in (draft / "state.pt", draft / "state.json", draft):
            _sync(file)
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)
        _sync(parent)
        for old in _found(folder)[KEPT:]:
            shutil.rmtree(old, ignore_errors=True)
    except (OSError, RuntimeError) as error:  # torch has no type of its own for a disk that is full
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise PalateError(
            f"cannot write a checkpoint to {parent}: {reason}. The one before it is kept; make room and run the same "
            "command again."
        ) from error


def read_checkpoint(folder: Path, say: Callable[[str], None]) -> dict[str, object] | None:
    """The last sound one; what is wrong with others is said. None where there is none."""
    for one in _found(folder):
        fault = _fault(one)
        if fault is None:
            state: dict[str, object] = torch.load(one / "state.pt", map_location="cpu", weights_only=True)
            return state
        say(f"the checkpoint {one.name} is not used: {fault}")
    return None


def _fault(folder: Path) -> str | None:
    try:
        proof = msgspec.json.decode((folder / "state.json").read_bytes(), type=_Proof)
        size = (folder / "state.pt").stat().st_size
        if size != proof.size:
            return f"it was cut short, {size:,} of {proof.size:,} bytes are there"
        return None if _hash(folder / "state.pt") == proof.sha256 else "its bytes are not those that were written"
    except (OSError, msgspec.DecodeError) as error:
        return f"it cannot be read ({error})"


def _found(folder: Path) -> list[Path]:
    """Newest first."""
    return sorted((folder / "checkpoints").glob("step-*"), reverse=True)


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
