"""Users whose taste is known exactly."""

from palate.simulate._benchmark import ceiling, simulate, simulate_by_options
from palate.simulate._critic import SimulatedCritic, SimulatedReward
from palate.simulate._taste import is_simulated, taste_of, utility

__all__ = [
    "SimulatedCritic",
    "SimulatedReward",
    "ceiling",
    "is_simulated",
    "simulate",
    "simulate_by_options",
    "taste_of",
    "utility",
]
