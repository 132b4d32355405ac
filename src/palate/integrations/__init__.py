"""palate's reward models inside other trainers. For verl see `palate.integrations.verl`."""

from palate.integrations._trl import TrlReward, trl_reward

__all__ = ["TrlReward", "trl_reward"]
