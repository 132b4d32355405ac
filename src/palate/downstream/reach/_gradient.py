"""The policy gradient of a reward at the untrained weights, and what a very small step along it does to other texts.

The gradient is that of PPO's first update: the mean over texts of advantage times the gradient of log pi(text), all
tokens alike; the divergence from the reference has no gradient there. Everything is read in float32, since a step so
small is lost in the rounding of bfloat16. The slopes that come back are the change of log pi over the length of the
step; the weights are moved as far back as forth, so that they are exact to second order.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from palate.downstream.ppo._pieces import Pieces
from palate.downstream.ppo._policy_model import PolicyModel
from palate.downstream.ppo._ppo import log_probabilities
from palate.downstream.ppo._training import Training
from palate.downstream.reach._arithmetic import deviation
from palate.engine import steady_attention
from palate.stats import Floats

STEP = 0.05
"""The deviation of log pi of a prompt's texts that a step is meant to bring, in nats."""
PROBED = 32
"""Texts on which the length of the step is found."""
PROBES = 8
"""Lengths that are tried at most."""
REMEMBERED = 64
"""Gradients whose slopes are kept in memory."""
_remembered: OrderedDict[str, Floats] = OrderedDict()
"""The critic's gradient is the same for all reward models of a study, and a reward that tells no user from another has
the same one with a stranger's view as with the own."""
TOO_MUCH = (
    "the GPU ran out of memory on one text of {length} tokens and its gradient. Lower --tokens, show the policy less, "
    "or take a smaller policy"
)


@dataclass(frozen=True)
class ReadText:
    """One text of the policy, as tokens."""

    item: int
    """The number of its item."""
    prompt: Sequence[int]
    response: Sequence[int]


class PolicyGradient:
    """Gradients at the weights that the policy has; every step is taken back, bit for bit."""

    def __init__(self, policy: PolicyModel, texts: Sequence[ReadText], temperature: float) -> None:
        training = Training(algorithm="rloo", temperature=temperature).resolved(policy.device)
        policy.begin(training, seed=0)
        self.policy, self.texts = policy, texts
        self._pieces = Pieces(training.batch_tokens, self._clear)
        self._start = {name: one.clone() for name, one in policy.learned().items()}
        read = repr([(text.item, list(text.prompt), list(text.response)) for text in texts])
        self._key = hashlib.sha256(repr((policy.fingerprint, temperature, read)).encode())

    def slopes(
        self, source: Sequence[int], advantages: Floats, target: Sequence[int], tell: Callable[[float], None]
    ) -> Floats:
        """How fast log pi of the target texts rises along the gradient of the source texts; 0 without a gradient.

        `advantages` has a number for each source text; `tell` hears which part of the work is done.
        """
        if not np.any(advantages):
            return np.zeros(len(target))
        asked = self._key.copy()
        asked.update(repr((list(source), list(target))).encode() + advantages.tobytes())
        key = asked.hexdigest()
        if key not in _remembered:
            _remembered[key] = self._measured(source, advantages, target, tell)
            if len(_remembered) > REMEMBERED:
                _remembered.popitem(last=False)
        return _remembered[key].copy()

    def _measured(
        self, source: Sequence[int], advantages: Floats, target: Sequence[int], tell: Callable[[float], None]
    ) -> Floats:
        """By a step along the gradient and one back."""
        try:
            self._gradient(source, advantages, tell)
            gradient = {name: one.grad for name, one in self._named() if one.grad is not None}
            self._clear()
            length = self._length(gradient, target)
            return self._change(gradient, length, target, lambda part: tell(0.6 + 0.4 * part)) / length
        finally:
            self._clear()
            self.policy.put(self._start)

    def _named(self) -> list[tuple[str, Tensor]]:
        return list(zip(self._start, self.policy.parameters, strict=True))

    def _clear(self) -> None:
        for one in self.policy.parameters:
            one.grad = None

    def _gradient(self, source: Sequence[int], advantages: Floats, tell: Callable[[float], None]) -> None:
        """Leaves the gradient with the weights."""
        worth = dict(zip(source, (advantages / len(source)).tolist(), strict=True))
        paid = [place for place in source if worth[place]]
        done = [0]

        def learn(places: list[int]) -> None:
            read = self.policy.texts([(self.texts[place].prompt, self.texts[place].response) for place in places])
            weights = torch.tensor([worth[place] for place in places], device=self.policy.torch_device)
            logs = self.policy.measure(self.policy.read(read), read, log_probabilities).sum(1)
            with steady_attention():  # for what checkpoints compute again
                (weights * logs).sum().backward()  # type: ignore[no-untyped-call]
            done[0] += len(places)
            tell(0.6 * done[0] / len(paid))

        with tensor_cores(self.policy.torch_device):
            self._pieces.each(self.texts, paid, self._item, learn, TOO_MUCH)

    @torch.no_grad()
    def _move(self, gradient: dict[str, Tensor], length: float) -> None:
        """From where the policy began."""
        for name, one in self._named():
            if name in gradient:
                torch.add(self._start[name], gradient[name], alpha=length, out=one)

    def _change(
        self,
        gradient: dict[str, Tensor],
        length: float,
        places: Sequence[int],
        tell: Callable[[float], None] = lambda part: None,
    ) -> Floats:
        """Of log pi by a step, as half the way from a step back to a step forth: curvature cancels."""
        self._move(gradient, length)
        forth = self._log_probabilities(places, lambda part: tell(part / 2))
        self._move(gradient, -length)
        return (forth - self._log_probabilities(places, lambda part: tell(0.5 + part / 2))) / 2

    def _length(self, gradient: dict[str, Tensor], target: Sequence[int]) -> float:
        """Of a step that moves the texts of some target prompts by about STEP."""
        probed = target[:PROBED]
        # Over the source texts, advantage times slope is the square of the gradient, and advantages have deviation 1.
        length = 0.3 * STEP / sum(float(one.double().square().sum()) for one in gradient.values())
        for _ in range(PROBES):
            spread = self._spread(probed, self._change(gradient, length, probed))
            if 0.2 < spread / STEP < 4:
                break
            length *= float(np.clip(STEP / max(spread, 1e-9), 1e-2, 1e2)) if np.isfinite(spread) else 1e-2
        return length

    def _spread(self, places: Sequence[int], changes: Floats) -> float:
        """The deviation within prompts of what a step changed."""
        rows: dict[int, list[float]] = {}
        for place, change in zip(places, changes.tolist(), strict=True):
            rows.setdefault(self.texts[place].item, []).append(change)
        widest = max(map(len, rows.values()))
        return deviation(np.array([row + [np.nan] * (widest - len(row)) for row in rows.values()]))

    @torch.no_grad()
    def _log_probabilities(self, places: Sequence[int], tell: Callable[[float], None] = lambda part: None) -> Floats:
        found = np.zeros(len(self.texts))
        done = [0]

        def look(some: list[int]) -> None:
            read = self.policy.texts([(self.texts[place].prompt, self.texts[place].response) for place in some])
            logs = self.policy.measure(self.policy.read(read), read, log_probabilities)
            found[some] = logs.double().sum(1).cpu().numpy()
            done[0] += len(some)
            tell(done[0] / len(places))

        self._pieces.each(self.texts, places, self._item, look, TOO_MUCH)
        return found[list(places)]

    def _item(self, place: int) -> int:
        return self.texts[place].item


@contextmanager
def tensor_cores(device: torch.device) -> Iterator[None]:
    """Let a GPU multiply in TF32. A gradient that is off by a thousandth is as good; a difference would be lost."""
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
