"""What happens to text when a reward model is put to use, and who says whether it got better."""

from palate.downstream._choice import best_of, chosen_probabilities, divergence_bound
from palate.downstream._critics import CRITICS, make_critic
from palate.downstream._policy import Drawing
from palate.downstream._reference import ReferenceCritic
from palate.downstream._rejected import pairs_against_policy
from palate.downstream._repair import repair
from palate.downstream._rubric import RubricCritic
from palate.downstream._samples import SampleLine, SampleSet, SampleSettings, is_samples
from palate.downstream.best_of_n import (
    BestOfNSummary,
    BonRun,
    best_of_n,
    best_of_n_markdown,
    best_of_n_page,
    print_best_of_n,
    summarise_best_of_n,
    write_best_of_n,
)
from palate.downstream.guide import (
    GuideRun,
    GuideSummary,
    Guiding,
    guide,
    guide_markdown,
    guide_page,
    print_guide,
    summarise_guide,
    tilted,
    write_guide,
)
from palate.downstream.ppo import (
    PpoRun,
    PpoSummary,
    StepLine,
    Training,
    ppo,
    ppo_markdown,
    ppo_page,
    print_ppo,
    summarise_ppo,
    watching,
    write_ppo,
)
from palate.downstream.steer import (
    SteerRun,
    SteerSummary,
    print_steer,
    steer,
    steer_markdown,
    steer_page,
    summarise_steer,
    write_steer,
)
from palate.records import Critic, Draft, Grade
from palate.simulate._simulate import ceiling, simulate, simulate_by_options
from palate.simulate._simulated import SimulatedCritic, SimulatedReward
from palate.simulate._taste import taste_of, utility

__all__ = [
    "CRITICS",
    "BestOfNSummary",
    "BonRun",
    "Critic",
    "Draft",
    "Drawing",
    "Grade",
    "GuideRun",
    "GuideSummary",
    "Guiding",
    "PpoRun",
    "PpoSummary",
    "ReferenceCritic",
    "RubricCritic",
    "SampleLine",
    "SampleSet",
    "SampleSettings",
    "SimulatedCritic",
    "SimulatedReward",
    "SteerRun",
    "SteerSummary",
    "StepLine",
    "Training",
    "best_of",
    "best_of_n",
    "best_of_n_markdown",
    "best_of_n_page",
    "ceiling",
    "chosen_probabilities",
    "divergence_bound",
    "guide",
    "guide_markdown",
    "guide_page",
    "is_samples",
    "make_critic",
    "pairs_against_policy",
    "ppo",
    "ppo_markdown",
    "ppo_page",
    "print_best_of_n",
    "print_guide",
    "print_ppo",
    "print_steer",
    "repair",
    "simulate",
    "simulate_by_options",
    "steer",
    "steer_markdown",
    "steer_page",
    "summarise_best_of_n",
    "summarise_guide",
    "summarise_ppo",
    "summarise_steer",
    "taste_of",
    "tilted",
    "utility",
    "watching",
    "write_best_of_n",
    "write_guide",
    "write_ppo",
    "write_steer",
]
