"""The folder that holds everything about one training run.

settings.json    resolved settings, versions and hashes
split.json       who was trained on, who was held out, and what was left out
steps.jsonl      the curves, a line for each step
seconds.jsonl    what each step took: the one file that is another on every run
checkpoints/     the last two states of training; gone once it is over
policy/          the trained policy as a transformers folder
views.jsonl      whose profile each view showed for each held-out prompt, and how many pieces of it
held_out.jsonl   what both policies wrote for each held-out prompt, with rewards and marks; beside that, what the
                 trained policy wrote and the reward model said where they saw nothing of the user, or a stranger
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from palate.downstream._items import Seen
from palate.downstream.ppo._results import StepLine
from palate.downstream.ppo._settings import KIND, PpoSettings
from palate.records import Grade, PalateError, Rating
from palate.runs import VIEWS, Ledger, RunFolder, write_whole


class SplitFile(msgspec.Struct, frozen=True, kw_only=True):
    """Both sides by their ids."""

    train_users: list[str]
    train_items: list[str]
    test_users: list[str]
    test_items: list[str]
    left_out: dict[str, int]


class SecondsLine(msgspec.Struct, frozen=True):
    """What a step took."""

    step: int
    seconds: float


class ControlRating(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the reward model says of the same texts when it sees nothing of the user, or a stranger."""

    view: str
    draw: int = 0
    user_id: str | None = None
    rating: Rating


class ControlTexts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the trained policy writes when it sees nothing of the user, or a stranger."""

    view: str
    user_id: str | None = None
    texts: tuple[str, ...]
    marks: tuple[Grade, ...]


class HeldOutLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One held-out prompt: texts of the untrained policy, then as many of the trained one."""

    item: str
    user_id: str
    prompt: str
    texts: tuple[str, ...]
    tokens: tuple[int, ...]
    unfinished: tuple[int, ...] = ()
    rating: Rating
    marks: tuple[Grade, ...]
    twin: str | None = None
    ratings: tuple[ControlRating, ...] = ()
    written: tuple[ControlTexts, ...] = ()

    @property
    def id(self) -> str:
        """The item's, by which twins find each other."""
        return self.item


STEPS = Ledger("steps.jsonl", StepLine, lambda line: line.step)
SECONDS = Ledger("seconds.jsonl", SecondsLine)
HELD_OUT = Ledger("held_out.jsonl", HeldOutLine, lambda line: line.item)


class PpoRun(RunFolder[PpoSettings]):
    """Reads the folder of a training run."""

    settings_type = PpoSettings
    kind = KIND
    made_by = "palate ppo"

    @classmethod
    def begin(cls, parent: Path, settings: PpoSettings, split: SplitFile) -> PpoRun:
        """The run with exactly these settings and this split: begun now, or gone on with."""
        content = msgspec.json.format(msgspec.json.encode(split), indent=1) + b"\n"
        return cls.create_or_resume(parent, settings, {"split.json": content})

    @property
    def ledgers(self) -> Sequence[Ledger[Any]]:
        """The files that grow by lines."""
        return STEPS, SECONDS, VIEWS, HELD_OUT

    @property
    def policy(self) -> Path:
        """Where the trained policy lies once training is over."""
        return self.folder / "policy"

    def split(self) -> SplitFile:
        """Who is on which side."""
        try:
            return msgspec.json.decode((self.folder / "split.json").read_bytes(), type=SplitFile)
        except (msgspec.DecodeError, OSError) as error:
            raise PalateError(f"{self.folder / 'split.json'} cannot be read: {error}") from error

    def steps(self) -> list[StepLine]:
        """The curve as far as it goes; of a step that was timed twice the later line counts."""
        seconds = {line.step: line.seconds for line in SECONDS.read(self.folder)}
        return [line.timed(seconds.get(line.step, 0.0)) for line in STEPS.read(self.folder)]

    def cut_curve(self, step: int) -> None:
        """Drop the lines of steps that a checkpoint does not know, since they are taken again."""
        lines = [line for line in STEPS.read(self.folder) if line.step <= step]
        if lines or (self.folder / "steps.jsonl").exists():
            content = b"".join(msgspec.json.encode(line.timed(0.0)) + b"\n" for line in lines)
            write_whole(self.folder / "steps.jsonl", content)

    def seen(self, items: Sequence[str]) -> Seen:
        """What each view showed."""
        return Seen(self.folder, items)

    def held_out(self) -> dict[str, HeldOutLine]:
        """By item."""
        return {line.item: line for line in HELD_OUT.read(self.folder)}
