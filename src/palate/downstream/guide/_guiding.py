"""Guided decoding: a reward model steers a policy while it writes.

The policy is tilted by the reward: p'(v) is p(v) exp(weight * r(text so far + v)), made to add up to 1. The reward is
known for the policy's likeliest tokens and for the text's own. The rest of the vocabulary takes their mean reward,
weighted by probability, so that a weight of 0 leaves the policy as it is. As the weight grows, the log-probability of a
token over the weight tends to its regret: its reward less the best among the candidates. What does not grow with the
weight decides where regrets are equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from scipy.special import logsumexp

from palate.engine import Conversation, LocalModel, steps
from palate.records import Ask, PalateError, Rating, RewardModel
from palate.rewards import Follower, follow
from palate.stats import Floats

if TYPE_CHECKING:
    from palate.engine._incremental import Steps

ROOM = 2
"""Tokens of the reward model's context that are kept free for each token of the policy."""
WEIGHTS = (0.0, 1.0, 5.0, 25.0)
"""The default weights of the reward."""


class Guiding(msgspec.Struct, frozen=True, kw_only=True):
    """One token a step: the best of the policy's top-k tokens. Or one chunk: the best of k that the policy sampled."""

    top_k: int = 10
    tokens: int = 128
    """Maximum number of tokens of a text, in the policy's tokens."""
    chunk: int = 1
    """Tokens in a step."""
    temperature: float | None = None
    """Of the choice among tokens, by default 0, which takes the best; or of sampling chunks, by default 1."""

    @property
    def sampling_temperature(self) -> float:
        """The temperature, or its default."""
        if self.temperature is not None:
            return self.temperature
        return 0.0 if self.chunk == 1 else 1.0

    def check(self) -> None:
        """Refuse what cannot be done, before anything is loaded."""
        if self.top_k < 1:
            raise PalateError(f"--top-k is the number of candidates at each step, from 1; {self.top_k} was given")
        if self.tokens < 1:
            raise PalateError(
                f"--tokens is the maximum number of tokens of a text, at least 1; {self.tokens} was given"
            )
        if self.chunk < 1:
            raise PalateError(f"--chunk is the number of tokens in a step, from 1; {self.chunk} was given")
        if not (self.sampling_temperature >= 0 and math.isfinite(self.sampling_temperature)):
            raise PalateError(f"--temperature is 0 or more; {self.temperature} was given")
        if self.chunk > 1 and self.sampling_temperature == 0:
            raise PalateError(
                f"with --chunk {self.chunk}, --temperature 0 draws the same chunk {self.top_k} times; name a "
                "temperature above 0"
            )


def checked_weights(weights: Sequence[float] | None) -> list[float]:
    """In order, each once; 0 is always among them, since the policy alone is the baseline."""
    for weight in weights or ():
        if not (weight >= 0 and math.isfinite(weight)):
            raise PalateError(f"--weight is a number from 0; {weight:g} was given")
    return sorted({0.0, *map(float, weights or WEIGHTS)})


def tilted(log_probabilities: Floats, rewards: Floats, own: Sequence[int], weight: float) -> Floats:
    """The log-probability of each place's own token under the tilted policy.

    Candidates stand in rows, a row for each place of the text; padding has a log-probability of minus infinity.
    `own` says which of them the text has.

    >>> halves = np.log([[0.5, 0.25]])
    >>> [float(tilted(halves, np.array([[1.0, 0.0]]), [0], weight)[0].round(3)) for weight in (0, 1)]
    [-0.693, -0.433]
    """
    places = np.arange(len(own))
    known = np.exp(log_probabilities)
    mass = known.sum(axis=1)
    mean = (known * rewards).sum(axis=1) / mass
    with np.errstate(divide="ignore"):
        rest = np.log(np.clip(1 - mass, 0, None))
    scores = log_probabilities + weight * rewards
    total = logsumexp(np.column_stack([scores, rest + weight * mean]), axis=1)
    return np.asarray(scores[places, own] - total)


def limit(log_probabilities: Floats, rewards: Floats, own: Sequence[int]) -> tuple[Floats, Floats]:
    """What the log-probability of each own token tends to: weight times the first, and the second.

    The first is its regret. The second decides where regrets are equal: how likely the token is among the best.

    >>> halves = np.log([[0.5, 0.25]])
    >>> [float(part[0].round(3)) for part in limit(halves, np.array([[1.0, 0.0]]), [1])]
    [-1.0, -0.693]
    """
    places = np.arange(len(own))
    there = ~np.isneginf(log_probabilities)
    best = np.where(there, rewards, -np.inf).max(axis=1)
    at_best = there & (rewards == best[:, None])
    shared = logsumexp(np.where(at_best, log_probabilities, -np.inf), axis=1)
    # Where all candidates are equal, so is the rest of the vocabulary, which takes their mean: the policy itself.
    shared = np.where(at_best.sum(axis=1) == there.sum(axis=1), 0.0, shared)
    return np.asarray(rewards[places, own] - best), np.asarray(log_probabilities[places, own] - shared)


@dataclass(frozen=True)
class Job:
    """One text to be written."""

    turns: Conversation
    """What the policy is shown."""
    ask: Ask
    """What the reward model is shown; it has no responses yet."""
    weight: float
    seed: int


@dataclass
class Guided:
    """A text that was written under guidance, or why it was not."""

    text: str = ""
    ids: Sequence[int] = ()
    """The policy's tokens, without the end."""
    finished: bool = False
    log_probability: float = 0.0
    """Under the policy alone, the end included."""
    failed: str | None = None


@dataclass(frozen=True)
class _Candidate:
    tokens: Sequence[int]
    """Without the end."""
    ends: bool
    log_probability: float
    score: float
    """The policy's own part of what decides."""


def write_guided(policy: LocalModel, reward: RewardModel | None, jobs: Sequence[Job], guiding: Guiding) -> list[Guided]:
    """All texts side by side, step by step; without a reward by the policy alone."""
    steps = policy.steps([job.turns for job in jobs])
    asks = [msgspec.structs.replace(job.ask, responses=("",)) for job in jobs]
    follower = None if reward is None else follow(reward, asks, room=ROOM * guiding.tokens)
    return _Writing(steps, follower, jobs, guiding).run()


class _Writing:
    """Texts that are being written."""

    def __init__(self, steps: Steps, follower: Follower | None, jobs: Sequence[Job], guiding: Guiding) -> None:
        self._steps = steps
        self._follower = follower
        self._jobs = jobs
        self._guiding = guiding
        self._done = [Guided() for _ in jobs]

    def run(self) -> list[Guided]:
        live = list(range(len(self._jobs)))
        for _ in steps(math.ceil(self._guiding.tokens / self._guiding.chunk)):
            if not live:
                break
            candidates = self._tokens(live) if self._guiding.chunk == 1 else self._chunks(live)
            for place, rewards in self._rewards(candidates).items():
                self._advance(place, candidates[place], rewards)
            live = [place for place in live if self._continues(place)]
        for place, guided in enumerate(self._done):
            guided.text, guided.ids = self._steps.text(place), self._steps.written[place]
        return self._done

    def _continues(self, place: int) -> bool:
        one = self._done[place]
        return not one.finished and one.failed is None and self._steps.length(place) < self._guiding.tokens

    def _tokens(self, places: Sequence[int]) -> dict[int, list[_Candidate]]:
        """The policy's likeliest next tokens."""
        found: dict[int, list[_Candidate]] = {}
        for place, candidates in zip(places, self._steps.next(places, self._guiding.top_k), strict=True):
            pairs = zip(candidates.tokens, candidates.log_probabilities, strict=True)
            ends = self._steps.ends
            found[place] = [
                _Candidate(() if ends(token) else (token,), ends(token), value, value) for token, value in pairs
            ]
        return found

    def _chunks(self, places: Sequence[int]) -> dict[int, list[_Candidate]]:
        """Chunks that the policy sampled, valued by their log-probability per token: a sum would prefer early ends."""
        guiding = self._guiding
        length = min(
            guiding.chunk, guiding.tokens - self._steps.length(places[0])
        )  # all unfinished texts are of one length
        seeds = [self._jobs[place].seed for place in places]
        drawn = self._steps.draw(places, guiding.top_k, length, guiding.sampling_temperature, seeds)
        return {
            place: [
                _Candidate(one.tokens, one.finished, one.log_probability, one.log_probability / one.said) for one in own
            ]
            for place, own in zip(places, drawn, strict=True)
        }

    def _rewards(self, candidates: Mapping[int, Sequence[_Candidate]]) -> dict[int, Rating]:
        if self._follower is None:
            return {place: Rating([0.0] * len(own)) for place, own in candidates.items()}
        texts = {place: [self._steps.text(place, one.tokens) for one in own] for place, own in candidates.items()}
        return self._follower.rate(texts)

    def _advance(self, place: int, candidates: Sequence[_Candidate], rewards: Rating) -> None:
        job, guided = self._jobs[place], self._done[place]
        if rewards.scores is None:
            guided.failed = rewards.unscored
            return
        scores = np.asarray([one.score for one in candidates]) + job.weight * np.asarray(rewards.scores)
        temperature = self._guiding.sampling_temperature if self._guiding.chunk == 1 else 0.0
        if temperature > 0:  # adding Gumbel noise and taking the best is drawing from the softmax
            scores = scores / temperature + np.random.default_rng([job.seed, self._steps.length(place)]).gumbel(
                size=len(scores)
            )
        chosen = candidates[int(scores.argmax())]
        self._steps.take(place, chosen.tokens)
        guided.finished = chosen.ends
        guided.log_probability += chosen.log_probability
