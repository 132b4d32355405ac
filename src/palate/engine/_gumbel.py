"""Drawing the next token, so that a text depends on its seed and not on what else is in the batch.

The random numbers are a hash of (seed, prompt, sample, step, token), so nothing is carried from one draw to the
next. They are used as Gumbel noise on the logits: of all ways to draw from a distribution this is the one that a
rounding error in the logits upsets least, since a token changes only where the two best are nearly equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from palate.engine._kernels import kernels_for

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_STEP = 0xD1342543DE82EF95 - (1 << 64)
_FIRST = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND = 0x94D049BB133111EB - (1 << 64)


class GumbelSampler:
    """Draws tokens from logits at one temperature and top_p, with no state.

    `top_p` keeps the fewest tokens whose probability adds up to it; tokens exactly as likely as the last one
    are kept with it.
    """

    def __init__(self, vocabulary: int, temperature: float, top_p: float, device: torch.device) -> None:
        if temperature < 0 or not 0 < top_p <= 1:
            raise ValueError(f"temperature {temperature} must not be negative and top_p {top_p} must be in (0, 1]")
        self._temperature = temperature
        self._top_p = top_p
        # Every token has its own hash, so that neighbouring tokens do not get neighbouring random numbers.
        self._tokens = _mix(torch.arange(1, vocabulary + 1, device=device)).to(torch.int32)

    def __call__(self, logits: Tensor, keys: Tensor, step: Tensor) -> Tensor:
        """One token for each row of logits, which may be used up. All is computed in float32."""
        if self._temperature == 0:
            return logits.argmax(-1)
        kernels = kernels_for(logits.device)
        if kernels is not None and self._top_p == 1:
            return kernels.draw(logits, self._tokens, keys, step, self._temperature)
        logits = logits.float()
        if self._temperature != 1:
            logits.div_(self._temperature)
        if self._top_p < 1:
            probabilities = logits.softmax(-1)
            least = _least_kept(probabilities, self._top_p)
            logits.masked_fill_(probabilities < least[:, None], -torch.inf)
        if kernels is not None:
            return kernels.draw(logits, self._tokens, keys, step, 1.0)
        row = _mix(keys + step * _STEP)
        low, high = row.to(torch.int32)[:, None], (row >> 32).to(torch.int32)[:, None]
        return logits.sub_(_log_exponential(self._tokens, low, high)).argmax(-1)


def _log_exponential(tokens: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The log of standard exponential noise, one for each row and token: minus Gumbel noise."""
    bits = low ^ tokens
    bits.mul_(high | 1)
    bits.bitwise_xor_((bits >> 15).bitwise_and_(0x1FFFF))  # a shift of a negative number drags its sign along
    bits.mul_(0x7FEB352D)
    bits.bitwise_xor_(bits >> 16).bitwise_and_(0x7FFFFFFF)
    # log1p keeps small noise fine-grained, and it is small noise that wins.
    uniform = bits.to(torch.float32).add_(0.5).mul_(-(2.0**-31))
    return uniform.log1p_().neg_().log_()


def row_keys(prompt: Sequence[int], seed: int, samples: Sequence[int]) -> list[int]:
    """What the random numbers of each of these samples of a prompt hang on."""
    text = f"{seed}:" + ",".join(map(str, prompt))
    start = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)
    keys: list[int] = _mix(start + torch.tensor(samples, dtype=torch.int64) * _GOLDEN).tolist()
    return keys


def _mix(number: Tensor) -> Tensor:
    """The finaliser of SplitMix64: every bit of the number changes half the bits of the result."""
    number = (number ^ ((number >> 30) & ((1 << 34) - 1))) * _FIRST
    number = (number ^ ((number >> 27) & ((1 << 37) - 1))) * _SECOND
    return number ^ ((number >> 31) & ((1 << 33) - 1))


def _least_kept(probabilities: Tensor, top_p: float) -> Tensor:
    """For each row the probability of the least likely token that top_p keeps."""
    if probabilities.device.type == "cpu":
        return torch.stack([_least_by_sorting(row, top_p) for row in probabilities])
    return _least_by_halving(probabilities, top_p)


def _least_by_sorting(row: Tensor, top_p: float) -> Tensor:
    # Tokens below this add up to less than 1 - top_p whatever they are, so none of them can be kept; a margin
    # for rounding. That leaves some hundreds to sort instead of the whole vocabulary.
    likely = row[row >= (1 - top_p) / len(row) * 0.999].sort(descending=True).values
    total = likely.cumsum(0, dtype=torch.float64)
    last = torch.searchsorted(total, torch.tensor(top_p, dtype=torch.float64))
    return likely[last.clamp(max=len(likely) - 1)]


def _least_by_halving(probabilities: Tensor, top_p: float) -> Tensor:
    """The same with no sorting and no waiting for the device: the order of positive floats is that of their bits.

    The number sought is the largest one for which the tokens at or above it reach top_p.
    """
    low = torch.zeros(len(probabilities), dtype=torch.int32, device=probabilities.device)
    high = probabilities.amax(-1).view(torch.int32) + 1
    for _ in range(31):
        middle = low + (high - low) // 2
        kept = torch.where(probabilities >= middle.view(torch.float32)[:, None], probabilities, 0.0)
        reaches = kept.sum(-1) >= top_p
        low = torch.where(reaches, middle, low)
        high = torch.where(reaches, high, middle)
    return low.view(torch.float32)
