"""Reward models: text and users in, ratings out."""

from palate.rewards._check import Check, check_reward_model
from palate.rewards._controls import Overlap
from palate.rewards._grade import read_grade
from palate.rewards._judge import own_words, read_again
from palate.rewards._prompts import Fence, conversation, fit_view
from palate.rewards._rate import REWARD_MODEL, Follower, follow, rate
from palate.rewards._registry import (
    CONTROLS,
    REWARD_MODELS,
    Factory,
    load_reward_model,
    make_reward_model,
    reward_model,
)
from palate.rewards._verdict import read_verdict

__all__ = [
    "CONTROLS",
    "REWARD_MODEL",
    "REWARD_MODELS",
    "Check",
    "Factory",
    "Fence",
    "Follower",
    "Overlap",
    "check_reward_model",
    "conversation",
    "fit_view",
    "follow",
    "load_reward_model",
    "make_reward_model",
    "own_words",
    "rate",
    "read_again",
    "read_grade",
    "read_verdict",
    "reward_model",
]
