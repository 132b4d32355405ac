"""palate's reward models and critics inside other trainers. For verl see `palate.integrations.verl`."""

from palate.integrations._held_out import held_out_callback
from palate.integrations._trl import TrlReward, trl_reward

__all__ = ["TrlReward", "held_out_callback", "trl_reward"]
