"""Writing under guidance: the policy proposes, the reward has its say, and the best goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from palate.downstream.guide._guiding import Guiding
from palate.engine import Conversation, LocalModel
from palate.records import Ask, Rating, RewardModel
from palate.rewards import Follower, follow

if TYPE_CHECKING:
    from palate.engine._steps import Steps

ROOM = 2
"""The reward's context is kept free for so many of its tokens for each of the policy's."""


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
    """What the policy itself gives for it."""


def write_guided(policy: LocalModel, reward: RewardModel | None, jobs: Sequence[Job], guiding: Guiding) -> list[Guided]:
    """All texts side by side, step by step; without a reward by the policy alone."""
    steps = policy.steps([job.turns for job in jobs])
    asks = [msgspec.structs.replace(job.ask, responses=("",)) for job in jobs]
    follower = None if reward is None else follow(reward, asks, room=ROOM * guiding.tokens)
    return _Writing(steps, follower, jobs, guiding).run()


class _Writing:
    """Some texts that are being written."""

    def __init__(self, steps: Steps, follower: Follower | None, jobs: Sequence[Job], guiding: Guiding) -> None:
        self._steps = steps
        self._follower = follower
        self._jobs = jobs
        self._guiding = guiding
        self._done = [Guided() for _ in jobs]

    def run(self) -> list[Guided]:
        live = list(range(len(self._jobs)))
        while live:
            candidates = self._tokens(live) if self._guiding.chunk == 1 else self._chunks(live)
            for place, rewards in self._rewards(candidates).items():
                self._go_on(place, candidates[place], rewards)
            live = [place for place in live if self._goes_on(place)]
        for place, guided in enumerate(self._done):
            guided.text, guided.ids = self._steps.text(place), self._steps.written[place]
        return self._done

    def _goes_on(self, place: int) -> bool:
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
        """Chunks that the policy drew, valued by their log-probability per token: a sum would prefer early ends."""
        guiding = self._guiding
        length = min(guiding.chunk, guiding.tokens - self._steps.length(places[0]))  # what goes on is of one length
        seeds = [self._jobs[place].seed for place in places]
        drawn = self._steps.draw(places, guiding.top_k, length, guiding.heat, seeds)
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

    def _go_on(self, place: int, candidates: Sequence[_Candidate], rewards: Rating) -> None:
        job, guided = self._jobs[place], self._done[place]
        if rewards.scores is None:
            guided.failed = rewards.unscored
            return
        scores = np.asarray([one.score for one in candidates]) + job.weight * np.asarray(rewards.scores)
        heat = self._guiding.heat if self._guiding.chunk == 1 else 0.0
        if heat > 0:  # adding Gumbel noise and taking the best is drawing from the softmax
            scores = scores / heat + np.random.default_rng([job.seed, self._steps.length(place)]).gumbel(
                size=len(scores)
            )
        chosen = candidates[int(scores.argmax())]
        self._steps.take(place, chosen.tokens)
        guided.finished = chosen.ends
        guided.log_probability += chosen.log_probability
