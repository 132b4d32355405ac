"""What happens to text when a reward model is put to use, and who says whether it got better."""

from palate.downstream._best_of_n import (
    BonRun,
    BonSummary,
    best_of_n,
    best_of_n_markdown,
    best_of_n_page,
    print_best_of_n,
    summarise_best_of_n,
    write_best_of_n,
)
from palate.downstream._choice import best_of, chosen_probabilities, divergence_bound
from palate.downstream._critic import Critic, Draft, Mark
from palate.downstream._critics import CRITICS, make_critic
from palate.downstream._policy import Drawing
from palate.downstream._reference import ReferenceCritic
from palate.downstream._rejected import pairs_against_policy
from palate.downstream._rubric import RubricCritic
from palate.downstream._samples import SampleLine, SampleSet, SampleSettings
from palate.downstream._simulate import ceiling, simulate, simulate_by_options
from palate.downstream._simulated import SimulatedCritic
from palate.downstream._taste import taste_of, utility

__all__ = [
    "CRITICS",
    "BonRun",
    "BonSummary",
    "Critic",
    "Draft",
    "Drawing",
    "Mark",
    "ReferenceCritic",
    "RubricCritic",
    "SampleLine",
    "SampleSet",
    "SampleSettings",
    "SimulatedCritic",
    "best_of",
    "best_of_n",
    "best_of_n_markdown",
    "best_of_n_page",
    "ceiling",
    "chosen_probabilities",
    "divergence_bound",
    "make_critic",
    "pairs_against_policy",
    "print_best_of_n",
    "simulate",
    "simulate_by_options",
    "summarise_best_of_n",
    "taste_of",
    "utility",
    "write_best_of_n",
]
