"""The folder of a training run.

items.jsonl      the prompts of both sides, with whose they are and whether they are held out
steps.jsonl      the curves, a line for each step
seconds.jsonl    what each step took: the one ledger that is another on every run
checkpoints/     the last two states of training; gone once it is over
policy/          the trained policy as a transformers folder
views.jsonl      whose profile each view showed for each held-out prompt, and of which parts.jsonl
held_out.jsonl   what both policies wrote for each held-out prompt, with rewards and grades; beside that, what the
                 trained policy wrote and the reward model said where they saw nothing of the user, or a stranger
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from palate.downstream._items import ITEMS, PromptItem
from palate.downstream.ppo._results import StepLine
from palate.downstream.ppo._training import Training
from palate.records import Grade, Rating
from palate.runs import (
    PARTS,
    VIEWS,
    Fingerprint,
    Ledger,
    ModelSettings,
    Run,
    ViewedSettings,
    file_name,
    json_lines,
    write_whole,
)
from palate.views import ViewSpec


class PpoSettings(ViewedSettings, frozen=True, kw_only=True):
    """The resolved settings of a training run. Two runs with the same hash end with the same policy."""

    kind: Literal["ppo"] = "ppo"
    policy: Fingerprint
    policy_view: ViewSpec
    """What the policy sees of the user, in training and in the test."""
    reward_model: ModelSettings
    view: ViewSpec
    """What the reward model sees of the user."""
    critic: Fingerprint
    training: Training
    left_out: dict[str, int]
    """Why items of either side were left out, with how often."""
    processes: int = 1
    """How many share the work; another number adds up in another order."""

    @property
    def label(self) -> str:
        """With the reward model."""
        return f"{self.training.algorithm}-{file_name(self.reward_model.label)}"


class SecondsLine(msgspec.Struct, frozen=True):
    """What a step took."""

    step: int
    seconds: float


class ControlRating(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the reward model says of the same texts when it sees nothing of the user, or a stranger."""

    view: str
    draw: int = 0
    user_id: str | None = None
    """The stranger shown."""
    rating: Rating


class ControlTexts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the trained policy writes when it sees nothing of the user, or a stranger."""

    view: str
    user_id: str | None = None
    """The stranger shown."""
    texts: tuple[str, ...]
    grades: tuple[Grade, ...]


class HeldOutLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One held-out prompt: texts of the untrained policy, then as many of the trained one."""

    item: str
    policy_view: str
    """What both policies saw of the user."""
    view: str
    """What the reward model saw."""
    texts: tuple[str, ...]
    tokens: tuple[int, ...]
    unfinished: tuple[int, ...] = ()
    rating: Rating
    grades: tuple[Grade, ...]
    ratings: tuple[ControlRating, ...] = ()
    written: tuple[ControlTexts, ...] = ()

    @property
    def sides(self) -> tuple[slice, slice]:
        """Where the untrained policy's texts stand, and where the trained one's."""
        half = len(self.texts) // 2
        return slice(half), slice(half, None)


STEPS = Ledger("steps.jsonl", StepLine, lambda line: line.step, about="nobody")
SECONDS = Ledger("seconds.jsonl", SecondsLine, lambda line: line.step, about="nobody")
HELD_OUT = Ledger("held_out.jsonl", HeldOutLine, lambda line: line.item, label="held-out lines")
LEDGERS = (ITEMS, STEPS, SECONDS, PARTS, VIEWS, HELD_OUT)


def policy_folder(run: Run[PpoSettings]) -> Path:
    """Where the trained policy lies once training is over."""
    return run.folder / "policy"


def training_curve(run: Run[PpoSettings]) -> list[StepLine]:
    """The curve as far as it goes."""
    seconds = {line.step: line.seconds for line in run.read(SECONDS)}
    return [line.timed(seconds.get(line.step, 0.0)) for line in run.read(STEPS)]


def cut_curve(run: Run[PpoSettings], step: int) -> None:
    """Drop the lines of steps that a checkpoint does not know, since they are taken again."""
    with run.writing():  # nobody else may write meanwhile
        for name, lines in ((STEPS.name, list(run.read(STEPS))), (SECONDS.name, list(run.read(SECONDS)))):
            write_whole(run.folder / name, json_lines(line for line in lines if line.step <= step))


def held_out_prompts(run: Run[PpoSettings]) -> tuple[list[PromptItem], list[HeldOutLine]]:
    """The held-out prompts that both policies wrote for, and what they wrote."""
    lines = run.lines(HELD_OUT)
    items = [item for item in run.read(ITEMS) if item.id in lines]
    return items, [lines[item.id] for item in items]
