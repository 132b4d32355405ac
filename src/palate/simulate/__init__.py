"""Users whose taste is known exactly."""

from palate.simulate._benchmark import ceiling, simulate, simulate_by_options
from palate.simulate._critic import SimulatedCritic, SimulatedReward
from palate.simulate._example import (
    EXAMPLE_COLUMNS,
    EXAMPLE_HABIT,
    EXAMPLE_TASTE,
    QUESTION_COLUMNS,
    ExampleTable,
    example_table,
)
from palate.simulate._taste import is_simulated, taste_of, utility

__all__ = [
    "EXAMPLE_COLUMNS",
    "EXAMPLE_HABIT",
    "EXAMPLE_TASTE",
    "QUESTION_COLUMNS",
    "ExampleTable",
    "SimulatedCritic",
    "SimulatedReward",
    "ceiling",
    "example_table",
    "is_simulated",
    "simulate",
    "simulate_by_options",
    "taste_of",
    "utility",
]
