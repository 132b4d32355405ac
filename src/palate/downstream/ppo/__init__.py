"""Training a policy with a reward model (PPO, RLOO), judged on users and prompts that it was not trained on."""

from palate.downstream.ppo._files import write_ppo
from palate.downstream.ppo._markdown import ppo_markdown
from palate.downstream.ppo._page import ppo_page
from palate.downstream.ppo._results import PpoSummary, StepLine
from palate.downstream.ppo._run import PpoRun
from palate.downstream.ppo._settings import Training
from palate.downstream.ppo._summary import summarise_ppo
from palate.downstream.ppo._terminal import print_ppo, watching
from palate.downstream.ppo._train import ppo

__all__ = [
    "PpoRun",
    "PpoSummary",
    "StepLine",
    "Training",
    "ppo",
    "ppo_markdown",
    "ppo_page",
    "print_ppo",
    "summarise_ppo",
    "watching",
    "write_ppo",
]
