"""A callback for trainers of transformers, TRL's among them: what the policy is worth to held-out users so far."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from palate.downstream._held_out_users import HeldOutScore, HeldOutUsers
from palate.engine import LiveModel, same_random_state
from palate.records import PalateError
from palate.runs import json_lines, write_whole

if TYPE_CHECKING:
    from torch import nn

CURVE = "held-out.jsonl"
"""A line for each state of the policy that was measured."""
PREFIX = "eval_held_out_"
"""Of the names in the trainer's log."""


class HeldOutCallback(TrainerCallback):
    """Samples the policy for held-out users before training, at the interval that `every` gives, and at the end.

    The numbers go through the trainer's own log. The training is the same with and without it, bit for bit.
    """

    def __init__(self, trainer: Trainer, held_out: HeldOutUsers, *, every: int, out: Path | None = None) -> None:
        if every < 1:
            raise PalateError(f"every is a number of steps, from 1; {every} was given")
        if trainer.args.world_size > 1 or trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
            raise PalateError(
                "held-out users are tested where training has one process with all of its weights. Train in one "
                "process, or save checkpoints and measure each: palate bon BENCHMARK --policy CHECKPOINT"
            )
        self._trainer, self._held_out, self._every = trainer, held_out, every
        output = Path(trainer.args.output_dir or "runs").resolve()
        self.out = out or output.with_name(f"{output.name}-held-out")
        """Beside what the trainer makes: `push_to_hub` sends all of that, and these are texts about people."""
        if trainer.args.push_to_hub and self.out.resolve().is_relative_to(output):
            raise PalateError(
                f"{self.out} lies in the trainer's output folder, which push_to_hub sends to the hub with all that "
                "held-out users were asked and shown. Name another folder with out, or leave it out"
            )
        self.curve: list[HeldOutScore] = []
        """What was measured so far."""

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        """Measure the untrained policy; a training that is resumed is compared with the one it began from."""
        self.curve = [line for line in self._read() if line.step <= state.global_step] if state.global_step else []
        if not self.curve:
            self._measure(state, control, given["model"])

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any) -> None:
        """Measure at the interval."""
        if state.global_step % self._every == 0:
            self._measure(state, control, given["model"])

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any) -> None:
        """Measure what came of it."""
        if state.global_step not in {line.step for line in self.curve}:
            self._measure(state, control, given["model"])

    def _measure(self, state: TrainerState, control: TrainerControl, model: nn.Module) -> None:
        tokenizer = self._trainer.processing_class
        policy = LiveModel(f"step {state.global_step}", model, getattr(tokenizer, "tokenizer", tokenizer))
        first = Path(self.curve[0].run) if self.curve else None
        with same_random_state():
            found = self._held_out.measure(policy, state.global_step, self.out, first)
        self.curve.append(found)
        write_whole(self.out / CURVE, json_lines(self.curve))
        should_log = control.should_log
        # Not by the log of a subclass: GRPO's would put the means of the steps so far into this line, and forget them.
        Trainer.log(self._trainer, logged(found))
        control.should_log = should_log  # logging takes it back, and the trainer's own line of this step would be lost

    def _read(self) -> Sequence[HeldOutScore]:
        try:
            lines = (self.out / CURVE).read_bytes().splitlines()
            return [msgspec.json.decode(line, type=HeldOutScore) for line in lines]
        except FileNotFoundError:
            return []
        except (OSError, msgspec.DecodeError) as error:
            raise PalateError(f"{self.out / CURVE} cannot be read: {error}") from error


def logged(found: HeldOutScore) -> dict[str, float]:
    """The numbers as a trainer logs them; what is not known is left out."""
    numbers: dict[str, float | None] = {}
    for name, figure in (("score", found.score), ("agreement", found.agreement)):
        if figure is not None:
            numbers |= {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high}
    if (change := found.change) is not None:
        numbers |= {"change": change.difference, "change_low": change.low, "change_high": change.high}
    return {f"{PREFIX}{name}": value for name, value in numbers.items() if value is not None}
