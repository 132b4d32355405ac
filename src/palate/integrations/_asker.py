"""What every trainer's integration does: ask a reward model, and refuse to go on without a score."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from palate.records import Ask, PalateError, RewardModel
from palate.rewards import make_reward_model
from palate.serve import Batcher, Profiles

LONGEST_PROMPT_SHOWN = 60


class Asker:
    """A reward model in this process or behind `http:ADDRESS`, which many threads may ask at a time."""

    def __init__(
        self,
        rm: str | RewardModel,
        *,
        benchmark: str | Path | None = None,
        view: str | None = None,
        retriever: str = "bm25",
        budget: str | None = None,
    ) -> None:
        if benchmark is None and view is not None:
            raise PalateError(f"the view {view!r} is built from a benchmark: name it too")
        profiles = Profiles(benchmark, view, retriever=retriever, budget=budget) if benchmark is not None else None
        self.model = make_reward_model(rm) if isinstance(rm, str) else rm
        self._batcher = Batcher(self.model, profiles=profiles)

    def scores(self, asks: Sequence[Ask]) -> list[tuple[float, ...]]:
        """The scores of each ask. An ask without any stops the training: no made-up reward is better than none."""
        found = []
        for ask, rating in zip(asks, self._batcher.submit(asks).result(), strict=True):
            if rating.scores is None:
                prompt = ask.prompt[:LONGEST_PROMPT_SHOWN]
                raise PalateError(f"{self.model.name} gave no score for the prompt {prompt!r}: {rating.unscored}")
            found.append(tuple(rating.scores))
        return found
