"""Reward models: text and users in, ratings out."""

from palate.rewards._built_in import CONTROLS
from palate.rewards._check import Check, check_reward_model
from palate.rewards._rate import rate
from palate.rewards._registry import (
    Factory,
    load_reward_model,
    make_reward_model,
    reward_model,
    reward_model_names,
)

__all__ = [
    "CONTROLS",
    "Check",
    "Factory",
    "check_reward_model",
    "load_reward_model",
    "make_reward_model",
    "rate",
    "reward_model",
    "reward_model_names",
]
