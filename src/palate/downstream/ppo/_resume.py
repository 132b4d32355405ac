"""Training that can be stopped at any moment: from the last checkpoint to a policy on the disk.

Checkpoints are there in full or not at all, and are not believed without their hash.

checkpoints/step-000020/state.pt     weights, optimisers, the number of the step
checkpoints/step-000020/state.json   the size and hash of it
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import torch

from palate.downstream.ppo._ppo import Trainer
from palate.downstream.ppo._results import StepLine
from palate.downstream.ppo._run import (
    SECONDS,
    STEPS,
    PpoSettings,
    SecondsLine,
    cut_curve,
    policy_folder,
    training_curve,
)
from palate.downstream.ppo._train import PPO
from palate.engine import require
from palate.records import PalateError
from palate.runs import Run, write_report

PAGE_EVERY = 10
"""Steps after which the page is rewritten while training runs."""
LONGEST_UNKEPT = 300.0
"""Seconds of work that a crash may cost: slow steps get a checkpoint sooner than was asked for."""
KEPT = 2
"""The last checkpoint, and one before it should it turn out to be damaged."""
OnStep = Callable[[StepLine, int], None]
Say = Callable[[str], None]


def train_or_resume(run: Run[PpoSettings], trainer: Trainer, checkpoint_every: int, on_step: OnStep, say: Say) -> None:
    """Train to the end, from the last checkpoint where there is one; the main process writes, the others only learn."""
    group = trainer.group
    state = read_checkpoint(run.folder, say if group.is_main else lambda what: None)
    if state is not None:
        trainer.resume(state)
        if group.is_main:
            known = len(training_curve(run))
            lost = f"; steps.jsonl holds {known} of these steps only" if known < trainer.step else ""
            say(f"resuming after step {trainer.step} of {trainer.training.steps}{lost}")
    del state
    if group.is_main:
        _write_while_training(run, trainer, checkpoint_every, on_step)
        _save(run, trainer)
    else:
        for _ in trainer.run():
            pass
    group.barrier()


def _write_while_training(run: Run[PpoSettings], trainer: Trainer, checkpoint_every: int, on_step: OnStep) -> None:
    """Every step: a line of the curve, and now and then a checkpoint and the page."""
    cut_curve(run, trainer.step)
    written = time.monotonic()
    with run.writing() as writer:
        for line in trainer.run():
            writer.add(STEPS, [line.timed(0.0)])
            writer.add(SECONDS, [SecondsLine(line.step, line.seconds)])
            due = line.step % checkpoint_every == 0 or time.monotonic() - written > LONGEST_UNKEPT
            if due and line.step < trainer.training.steps:
                write_checkpoint(run.folder, line.step, trainer.state())
                written = time.monotonic()
            if line.step % PAGE_EVERY == 0:
                write_report(run, PPO.summarise(run))
            on_step(line, trainer.training.steps)


def _save(run: Run[PpoSettings], trainer: Trainer) -> None:
    """The policy under its name only once all of it is on the disk; checkpoints are then of no more use."""
    draft = run.folder / ".policy"
    try:
        shutil.rmtree(draft, ignore_errors=True)
        trainer.policy.save(draft)
        for file in [*draft.iterdir(), draft]:
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        draft.rename(policy_folder(run))
    except (OSError, require("safetensors", "local").SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise PalateError(
            f"cannot write the policy to {run.folder}: {reason}. Make room and run the same command again."
        ) from error
    shutil.rmtree(run.folder / "checkpoints", ignore_errors=True)


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
    """The last sound checkpoint, or None. What is wrong with others is said."""
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
    except (OSError, msgspec.DecodeError, RecursionError) as error:
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
