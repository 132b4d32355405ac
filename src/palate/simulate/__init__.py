"""Users whose taste is known exactly."""

from palate.simulate._simulate import ceiling, simulate, simulate_by_options
from palate.simulate._simulated import SimulatedCritic, SimulatedReward
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
