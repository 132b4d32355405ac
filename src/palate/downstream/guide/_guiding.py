"""How a policy is guided: how many candidates, how far, in steps of what size, and how strongly."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from palate.records import PalateError

WEIGHTS = (0.0, 1.0, 5.0, 25.0)
"""The weights of the reward where none are named."""


class Guiding(msgspec.Struct, frozen=True, kw_only=True):
    """One token a step: the best of the policy's top-k tokens. Or one chunk: the best of k that the policy drew."""

    top_k: int = 10
    tokens: int = 128
    """The most tokens of a text, in the policy's tokens."""
    chunk: int = 1
    """Tokens in a step."""
    temperature: float | None = None
    """Of the choice among tokens, where 0, the default, takes the best; or of the draw of chunks, by default 1."""

    @property
    def heat(self) -> float:
        """The temperature, where none is named."""
        if self.temperature is not None:
            return self.temperature
        return 0.0 if self.chunk == 1 else 1.0

    def check(self) -> None:
        """Refuse what cannot be done, before anything is loaded."""
        if self.top_k < 1:
            raise PalateError(f"--top-k is the number of candidates at each step, from 1; {self.top_k} was given")
        if self.tokens < 1:
            raise PalateError(f"--tokens is the most tokens of a text, from 1; {self.tokens} was given")
        if self.chunk < 1:
            raise PalateError(f"--chunk is the number of tokens in a step, from 1; {self.chunk} was given")
        if not (self.heat >= 0 and math.isfinite(self.heat)):
            raise PalateError(f"--temperature is 0 or more; {self.temperature} was given")
        if self.chunk > 1 and self.heat == 0:
            raise PalateError(
                f"with --chunk {self.chunk}, --temperature 0 draws the same chunk {self.top_k} times; name a "
                "temperature above 0"
            )


def checked_weights(weights: Sequence[float] | None) -> list[float]:
    """In order, each once; 0 is always among them, since all else is compared with the policy alone."""
    for weight in weights or ():
        if not (weight >= 0 and math.isfinite(weight)):
            raise PalateError(f"--weight is a number from 0; {weight:g} was given")
    return sorted({0.0, *map(float, weights or WEIGHTS)})
