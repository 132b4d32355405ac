"""palate: does this reward model know what this particular person wants, and will that matter?

import palate

summary = palate.evaluate("mini", ["embedding"], ["none", "posts:5", "swapped"])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from palate.data import load_benchmark
    from palate.evaluation import Summary, compare, evaluate
    from palate.records import (
        Ask,
        Benchmark,
        Comparison,
        Completion,
        Judgement,
        PalateError,
        Part,
        Post,
        Rating,
        RewardModel,
        User,
        View,
    )
    from palate.rewards import check_reward_model, make_reward_model, reward_model

_HOMES = {
    "palate.data": ("load_benchmark",),
    "palate.evaluation": ("Summary", "compare", "evaluate"),
    "palate.records": (
        "Ask",
        "Benchmark",
        "Comparison",
        "Completion",
        "Judgement",
        "PalateError",
        "Part",
        "Post",
        "Rating",
        "RewardModel",
        "User",
        "View",
    ),
    "palate.rewards": ("check_reward_model", "make_reward_model", "reward_model"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Ask",
    "Benchmark",
    "Comparison",
    "Completion",
    "Judgement",
    "PalateError",
    "Part",
    "Post",
    "Rating",
    "RewardModel",
    "Summary",
    "User",
    "View",
    "__version__",
    "check_reward_model",
    "compare",
    "evaluate",
    "load_benchmark",
    "make_reward_model",
    "reward_model",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that `import palate` costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'palate' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
