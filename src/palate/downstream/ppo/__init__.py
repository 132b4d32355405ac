"""Training a policy with a reward model (PPO, RLOO), judged on users and prompts that it was not trained on."""

from palate.downstream.ppo._results import PpoSummary, StepLine
from palate.downstream.ppo._run import HELD_OUT, HeldOutLine, held_out_prompts, policy_folder, training_curve
from palate.downstream.ppo._train import CHECKPOINT_EVERY, PPO, ppo
from palate.downstream.ppo._training import Training
from palate.downstream.ppo._watch import is_main_process, watching

__all__ = [
    "CHECKPOINT_EVERY",
    "HELD_OUT",
    "PPO",
    "HeldOutLine",
    "PpoSummary",
    "StepLine",
    "Training",
    "held_out_prompts",
    "is_main_process",
    "policy_folder",
    "ppo",
    "training_curve",
    "watching",
]
