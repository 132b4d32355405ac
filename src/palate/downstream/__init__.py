"""What happens to text when a reward model is put to use, and who says whether it got better."""

from palate.downstream._choice import best_of, chosen_probabilities, divergence_bound
from palate.downstream._critics import CRITICS, make_critic
from palate.downstream._held_out_users import HeldOutScore, HeldOutUsers
from palate.downstream._numbers import OWN_REWARD, ItemNumber, RunNumbers, mean_columns, run_numbers
from palate.downstream._policy import Drawing
from palate.downstream._reference import ReferenceCritic
from palate.downstream._rejected import pairs_against_policy
from palate.downstream._rubric import RubricCritic
from palate.downstream._samples import SHARED_SAMPLES, SampleLine, SampleSet, SampleSettings
from palate.downstream.best_of_n import BEST_OF_N, BestOfNSummary, best_of_n
from palate.downstream.guide import GUIDE, GuideSummary, Guiding, guide, tilted
from palate.downstream.ppo import (
    CHECKPOINT_EVERY,
    PPO,
    PpoSummary,
    StepLine,
    Training,
    is_main_process,
    ppo,
    watching,
)
from palate.downstream.reach import REACH, ReachSummary, check_sketch, reach
from palate.downstream.steer import STEER, SteerSummary, steer

__all__ = [
    "BEST_OF_N",
    "CHECKPOINT_EVERY",
    "CRITICS",
    "GUIDE",
    "OWN_REWARD",
    "PPO",
    "REACH",
    "SHARED_SAMPLES",
    "STEER",
    "BestOfNSummary",
    "Drawing",
    "GuideSummary",
    "Guiding",
    "HeldOutScore",
    "HeldOutUsers",
    "ItemNumber",
    "PpoSummary",
    "ReachSummary",
    "ReferenceCritic",
    "RubricCritic",
    "RunNumbers",
    "SampleLine",
    "SampleSet",
    "SampleSettings",
    "SteerSummary",
    "StepLine",
    "Training",
    "best_of",
    "best_of_n",
    "check_sketch",
    "chosen_probabilities",
    "divergence_bound",
    "guide",
    "is_main_process",
    "make_critic",
    "mean_columns",
    "pairs_against_policy",
    "ppo",
    "reach",
    "run_numbers",
    "steer",
    "tilted",
    "watching",
]
