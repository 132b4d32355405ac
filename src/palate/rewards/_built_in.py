"""The reward models that come with palate. Imports are inside, so that naming one costs nothing."""

from __future__ import annotations

from palate.records import RewardModel
from palate.rewards._registry import reward_model


@reward_model("random")
def random(seed: str = "0") -> RewardModel:
    """Content-blind: a coin, the same for the same text."""
    from palate.rewards._controls import Random

    return Random(seed)


@reward_model("longest")
def longest() -> RewardModel:
    """Content-blind: the longer response."""
    from palate.rewards._controls import Longest

    return Longest()


@reward_model("shortest")
def shortest() -> RewardModel:
    """Content-blind: the shorter response."""
    from palate.rewards._controls import Shortest

    return Shortest()


@reward_model("first")
def first() -> RewardModel:
    """Content-blind: the response that stood first."""
    from palate.rewards._controls import First

    return First()


@reward_model("overlap")
def overlap() -> RewardModel:
    """A control without understanding: shared words of response and view."""
    from palate.rewards._controls import Overlap

    return Overlap()


@reward_model("embedding")
def embedding(to: str = "all", encoder: str = "minilm") -> RewardModel:
    """Likeness of a response to what the view shows."""
    from palate.rewards._embedding import EmbeddingReward

    return EmbeddingReward(to=to, encoder=encoder)


CONTROLS = ("random", "longest", "shortest", "first", "overlap")
"""What a personal model has to beat before it counts."""
