"""The folder that holds everything about one best-of-N measurement.

    settings.json   resolved settings, versions and hashes
    items.jsonl     the prompts, with whose they are
    samples.jsonl   what the policy wrote for each, a line for each item and policy view
    views.jsonl     whose profile each view showed for each item, and how many pieces of it
    ratings.jsonl   every reward model's scores of these texts, under a stranger's view once for each stranger
    marks.jsonl     the critic's marks of the same

All but the first grow by whole lines only. A last line torn by a crash is dropped and made again; any other line that
cannot be read is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from palate.downstream._best_of_n._settings import KIND, BonSettings
from palate.downstream._personal import VIEWS, Seen
from palate.downstream._samples import SAMPLES, SampleLine
from palate.records import Rating
from palate.records._critic import Mark
from palate.runs import Appender, Ledger, Needs, RunFolder

RatedKey = tuple[str, str, str, str, int]
"""Policy view, reward model, view, item and draw."""


class PromptItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An item as the run keeps it."""

    id: str
    user_id: str
    prompt: str
    category: str | None = None
    twin: str | None = None


class RewardLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `ratings.jsonl`; scores stand in the order of the texts in `samples.jsonl`."""

    policy_view: str
    rm: str
    view: str
    item: str
    draw: int = 0
    """Which of several strangers the view is of."""
    rating: Rating

    @property
    def key(self) -> RatedKey:
        """What is rated once and once only."""
        return self.policy_view, self.rm, self.view, self.item, self.draw


class MarkLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `marks.jsonl`; marks stand in the order of the texts in `samples.jsonl`."""

    policy_view: str
    item: str
    marks: tuple[Mark, ...]


ITEMS = Ledger("items.jsonl", PromptItem, lambda line: line.id)
RATINGS = Ledger(
    "ratings.jsonl",
    RewardLine,
    lambda line: line.key,
    Needs(SAMPLES, lambda line: [(line.policy_view, line.item)]),
)
MARKS = Ledger(
    "marks.jsonl",
    MarkLine,
    lambda line: (line.policy_view, line.item),
    Needs(SAMPLES, lambda line: [(line.policy_view, line.item)]),
)


class BonRun(RunFolder[BonSettings]):
    """Reads the folder of a best-of-N run."""

    settings_type = BonSettings
    kind = KIND
    made_by = "palate bon"

    @property
    def ledgers(self) -> Sequence[Ledger[Any]]:
        """The files that grow by lines, each after those that it needs."""
        return ITEMS, VIEWS, SAMPLES, RATINGS, MARKS

    def items(self) -> list[PromptItem]:
        """The prompts."""
        return list(ITEMS.read(self.folder))

    def samples(self) -> dict[tuple[str, str], SampleLine]:
        """By policy view and item."""
        return {(line.policy_view, line.item): line for line in SAMPLES.read(self.folder)}

    def ratings(self) -> dict[RatedKey, Rating]:
        """By policy view, reward model, view, item and draw."""
        return {line.key: line.rating for line in RATINGS.read(self.folder)}

    def seen(self) -> Seen:
        """What each view showed."""
        return Seen(self.folder, [item.id for item in self.items()])

    def marks(self) -> dict[tuple[str, str], tuple[Mark, ...]]:
        """By policy view and item."""
        return {(line.policy_view, line.item): line.marks for line in MARKS.read(self.folder)}


class BonWriter:
    """Adds to a run. One process at a time; whatever is written stays written."""

    def __init__(self, run: BonRun) -> None:
        self._samples = Appender(run.folder / "samples.jsonl")
        self._ratings = Appender(run.folder / "ratings.jsonl")
        self._marks = Appender(run.folder / "marks.jsonl")
        self.samples = run.samples()
        self.rated = set(run.ratings())
        self.marked = set(run.marks())

    def __enter__(self) -> BonWriter:
        return self

    def __exit__(self, *_: object) -> None:
        for appender in (self._samples, self._ratings, self._marks):
            appender.close()

    @property
    def done(self) -> int:
        """How many lines there are, for a progress bar."""
        return len(self.samples) + len(self.rated) + len(self.marked)

    def add_samples(self, lines: Sequence[SampleLine]) -> None:
        """Keep what was drawn; when this returns it is on the disk."""
        new = {(line.policy_view, line.item): line for line in lines}
        new = {key: line for key, line in new.items() if key not in self.samples}
        self._samples.append(list(new.values()))
        self.samples.update(new)

    def add_ratings(self, lines: Sequence[RewardLine]) -> None:
        """Keep a batch of ratings."""
        self._ratings.append(lines)
        self.rated.update(line.key for line in lines)

    def add_marks(self, lines: Sequence[MarkLine]) -> None:
        """Keep a batch of marks."""
        self._marks.append(lines)
        self.marked.update((line.policy_view, line.item) for line in lines)
