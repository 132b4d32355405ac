"""The folder that holds everything about one guided measurement.

    settings.json      resolved settings, versions and hashes
    items.jsonl        the prompts, with whose they are; comparisons with their responses
    views.jsonl        whose profile each view showed for each item, and how many pieces of it
    likelihoods.jsonl  at each token of each response: its log-probability, and the policy's likeliest tokens
    rewards.jsonl      what each reward model says of the same tokens
    ratings.jsonl      what it says of the whole responses
    generations.jsonl  what was written, a line for each reward model, view, weight and item
    outcomes.jsonl     what each reward model says of what was written, all weights in one ask
    marks.jsonl        what the critic says of it

All but the first grow by whole lines only. A last line torn by a crash is dropped and made again; any other line that
cannot be read is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from palate.downstream._items import Seen
from palate.downstream.guide._settings import KIND, GuideSettings
from palate.records import Grade, Rating
from palate.runs import VIEWS, Appender, Ledger, Needs, RunFolder

Line = TypeVar("Line")
Key = TypeVar("Key")


class GuideItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An item as the run keeps it."""

    id: str
    user_id: str
    prompt: str
    category: str | None = None
    twin: str | None = None
    responses: tuple[str, ...] = ()
    """Of a comparison."""
    preferred: int | None = None


class AnswerTokens(msgspec.Struct, frozen=True, kw_only=True):
    """A response under the policy, place by place, its end included."""

    tokens: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    top: tuple[tuple[int, ...], ...]
    """The likeliest tokens at each place, likeliest first."""
    of_top: tuple[tuple[float, ...], ...]
    """Their log-probabilities."""

    @property
    def candidates(self) -> list[tuple[list[int], list[float], int]]:
        """At each place: the likeliest tokens and the response's own; their log-probabilities; which one is its own."""
        found = []
        for token, value, top, of_top in zip(self.tokens, self.log_probabilities, self.top, self.of_top, strict=True):
            if token in top:
                found.append(([*top], [*of_top], top.index(token)))
            else:
                found.append(([*top, token], [*of_top, value], len(top)))
        return found


class LikelihoodLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `likelihoods.jsonl`; answers in the order of the item's responses."""

    policy_view: str
    item: str
    answers: tuple[AnswerTokens, ...] = ()
    parts: int = 0
    """How many pieces of the view the policy saw."""
    note: str | None = None
    failed: str | None = None


class TokenRewardLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `rewards.jsonl`: for each response and each place, the rewards of its candidates."""

    policy_view: str
    rm: str
    view: str
    item: str
    rewards: tuple[tuple[tuple[float, ...], ...], ...] = ()
    unscored: str | None = None


class PairRatingLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `ratings.jsonl`; scores in the order of the item's responses."""

    rm: str
    view: str
    item: str
    rating: Rating


class GeneratedLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `generations.jsonl`. Without guidance, `rm` and `view` are empty and the weight is 0."""

    policy_view: str
    rm: str
    view: str
    weight: float
    item: str
    text: str = ""
    tokens: int = 0
    finished: bool = False
    log_probability: float = 0.0
    """Under the policy alone, the end included."""
    parts: int = 0
    note: str | None = None
    failed: str | None = None


class OutcomeLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `outcomes.jsonl`; scores in the order of the weights in the settings."""

    policy_view: str
    rm: str
    view: str
    item: str
    rating: Rating


class GuideMarkLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `marks.jsonl`."""

    policy_view: str
    rm: str
    view: str
    weight: float
    item: str
    mark: Grade


PairKey = tuple[str, str, str, str]
"""Policy view, reward model, view, item."""
TextKey = tuple[str, str, str, float, str]
"""Policy view, reward model, view, weight, item."""


ALONE = ""
"""The reward model and the view of a policy that nobody guides."""


def written_key(policy_view: str, rm: str, view: str, weight: float, item: str) -> TextKey:
    """Where a text stands: the policy alone stands once for all reward models."""
    return (policy_view, rm, view, weight, item) if weight else (policy_view, ALONE, ALONE, 0.0, item)


def text_key(line: GeneratedLine | GuideMarkLine) -> TextKey:
    """What a generated text is known by."""
    return (line.policy_view, line.rm, line.view, line.weight, line.item)


def pair_key(line: TokenRewardLine | OutcomeLine) -> PairKey:
    """What rewards are known by."""
    return (line.policy_view, line.rm, line.view, line.item)


ITEMS = Ledger("items.jsonl", GuideItem, lambda line: line.id)
LIKELIHOODS = Ledger("likelihoods.jsonl", LikelihoodLine, lambda line: (line.policy_view, line.item))
REWARDS = Ledger(
    "rewards.jsonl", TokenRewardLine, pair_key, Needs(LIKELIHOODS, lambda line: [(line.policy_view, line.item)])
)
RATINGS = Ledger("ratings.jsonl", PairRatingLine, lambda line: (line.rm, line.view, line.item))
GENERATIONS = Ledger("generations.jsonl", GeneratedLine, text_key)
MARKS = Ledger("marks.jsonl", GuideMarkLine, text_key, Needs(GENERATIONS, lambda line: [text_key(line)]))


class GuideRun(RunFolder[GuideSettings]):
    """Reads the folder of a guided run."""

    settings_type = GuideSettings
    kind = KIND
    made_by = "palate guide"

    @property
    def ledgers(self) -> Sequence[Ledger[Any]]:
        """The files that grow by lines, each after those that it needs."""
        return ITEMS, VIEWS, LIKELIHOODS, REWARDS, RATINGS, GENERATIONS, MARKS, self._outcomes

    @property
    def _outcomes(self) -> Ledger[OutcomeLine]:
        return Ledger("outcomes.jsonl", OutcomeLine, pair_key, Needs(GENERATIONS, self._rated_texts))

    def _rated_texts(self, line: OutcomeLine) -> list[TextKey]:
        weights = self.settings.weights
        return [written_key(line.policy_view, line.rm, line.view, weight, line.item) for weight in weights]

    def items(self) -> list[GuideItem]:
        """The prompts."""
        return list(ITEMS.read(self.folder))

    def seen(self) -> Seen:
        """What each view showed."""
        return Seen(self.folder, [item.id for item in self.items()])

    def likelihoods(self) -> dict[tuple[str, str], LikelihoodLine]:
        """By policy view and item: the responses of a comparison under the policy."""
        return {(line.policy_view, line.item): line for line in LIKELIHOODS.read(self.folder)}

    def rewards(self) -> dict[PairKey, TokenRewardLine]:
        """By policy view, reward model, view and item: the rewards of the same tokens."""
        return {pair_key(line): line for line in REWARDS.read(self.folder)}

    def ratings(self) -> dict[tuple[str, str, str], PairRatingLine]:
        """By reward model, view and item: what the reward model says of the whole responses."""
        return {(line.rm, line.view, line.item): line for line in RATINGS.read(self.folder)}

    def generations(self) -> dict[TextKey, GeneratedLine]:
        """By policy view, reward model, view, weight and item; the policy alone has no reward model and no view."""
        return {text_key(line): line for line in GENERATIONS.read(self.folder)}

    def outcomes(self) -> dict[PairKey, OutcomeLine]:
        """By policy view, reward model, view and item: the rewards of what was written, one for each weight."""
        return {pair_key(line): line for line in self._outcomes.read(self.folder)}

    def marks(self) -> dict[TextKey, GuideMarkLine]:
        """As generations."""
        return {text_key(line): line for line in MARKS.read(self.folder)}


class Kept(Generic[Key, Line]):
    """One file of a run: the lines that are there, and a way to add some. What is added is on the disk."""

    def __init__(self, file: Path, there: dict[Key, Line], key: Callable[[Line], Key]) -> None:
        self._appender = Appender(file)
        self._key = key
        self.lines = there

    def add(self, lines: Sequence[Line]) -> None:
        """Keep a batch."""
        self._appender.append(lines)
        self.lines.update((self._key(line), line) for line in lines)

    def close(self) -> None:
        """Let go of the file."""
        self._appender.close()


class GuideWriter:
    """Adds to a run. One process at a time; whatever is written stays written."""

    def __init__(self, run: GuideRun) -> None:
        folder = run.folder
        self.likelihoods = Kept(
            folder / "likelihoods.jsonl", run.likelihoods(), lambda line: (line.policy_view, line.item)
        )
        self.rewards = Kept(folder / "rewards.jsonl", run.rewards(), pair_key)
        self.ratings = Kept(folder / "ratings.jsonl", run.ratings(), lambda line: (line.rm, line.view, line.item))
        self.generations = Kept(folder / "generations.jsonl", run.generations(), text_key)
        self.outcomes = Kept(folder / "outcomes.jsonl", run.outcomes(), pair_key)
        self.marks = Kept(folder / "marks.jsonl", run.marks(), text_key)

    def __enter__(self) -> GuideWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.likelihoods.close()
        self.rewards.close()
        self.ratings.close()
        self.generations.close()
        self.outcomes.close()
        self.marks.close()

    @property
    def done(self) -> int:
        """How many lines there are, for a progress bar."""
        files = (self.likelihoods, self.rewards, self.ratings, self.generations, self.outcomes, self.marks)
        return sum(len(file.lines) for file in files)
