"""Training that can be stopped at any moment: from the last checkpoint to a policy on the disk."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable

from palate.downstream.ppo._checkpoint import read_checkpoint, write_checkpoint
from palate.downstream.ppo._files import write_ppo
from palate.downstream.ppo._ppo import Trainer
from palate.downstream.ppo._results import StepLine
from palate.downstream.ppo._run import PpoRun, SecondsLine
from palate.downstream.ppo._summary import summarise_ppo
from palate.engine import require
from palate.records import PalateError
from palate.runs import Appender

PAGE_EVERY = 10
"""Steps after which the page is made anew while training goes on."""
LONGEST_UNKEPT = 300.0
"""Seconds of work that a crash may cost: slow steps get a checkpoint sooner than was asked for."""
OnStep = Callable[[StepLine, int], None]
Say = Callable[[str], None]


def train_to_the_end(run: PpoRun, trainer: Trainer, checkpoint_every: int, on_step: OnStep, say: Say) -> None:
    """From the last checkpoint on; the first process writes, the others only learn."""
    together = trainer.together
    seconds = Appender(run.folder / "seconds.jsonl") if together.first else None  # and with it the run is locked
    state = read_checkpoint(run.folder, say if together.first else lambda what: None)
    if state is not None:
        trainer.go_on(state)
        if together.first:
            known = len(run.steps())
            lost = f"; steps.jsonl holds {known} of these steps only" if known < trainer.step else ""
            say(f"going on after step {trainer.step} of {trainer.training.steps}{lost}")
    del state
    if seconds is None:
        for _ in trainer.run():
            pass
        together.wait()
        return
    try:
        _write_while_training(run, trainer, checkpoint_every, on_step, seconds)
        _save(run, trainer)
    finally:
        seconds.close()
    together.wait()


def _write_while_training(
    run: PpoRun, trainer: Trainer, checkpoint_every: int, on_step: OnStep, seconds: Appender
) -> None:
    """Every step: a line of the curve, and now and then a checkpoint and the page."""
    run.cut_curve(trainer.step)
    curve = Appender(run.folder / "steps.jsonl")
    written = time.monotonic()
    try:
        for line in trainer.run():
            curve.append([line.timed(0.0)])
            seconds.append([SecondsLine(line.step, line.seconds)])
            due = line.step % checkpoint_every == 0 or time.monotonic() - written > LONGEST_UNKEPT
            if due and line.step < trainer.training.steps:
                write_checkpoint(run.folder, line.step, trainer.state())
                written = time.monotonic()
            if line.step % PAGE_EVERY == 0:
                write_ppo(summarise_ppo(run))
            on_step(line, trainer.training.steps)
    finally:
        curve.close()


def _save(run: PpoRun, trainer: Trainer) -> None:
    """The policy under its name only once all of it is on the disk; checkpoints are then of no more use."""
    draft = run.folder / ".policy"
    try:
        shutil.rmtree(draft, ignore_errors=True)
        trainer.policy.save(draft)
        for file in [*draft.iterdir(), draft]:
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        draft.rename(run.policy)
    except (OSError, require("safetensors", "local").SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise PalateError(
            f"cannot write the policy to {run.folder}: {reason}. Make room and run the same command again."
        ) from error
    shutil.rmtree(run.folder / "checkpoints", ignore_errors=True)
