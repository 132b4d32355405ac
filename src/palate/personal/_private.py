"""User-level differential privacy for the shared weights: nobody's choices, all together, can be told from the result.

DP-SGD (Abadi et al. 2016) with users in the place of examples (McMahan et al. 2018). In each step every user is
drawn with probability q; the gradient of each one drawn, averaged over all of their choices, is clipped to length
C; the sum of them gets Gaussian noise of standard deviation sigma * C. Neighbouring data sets differ by all the
choices of one user; how many users there are is taken to be public. What happens after the noise costs nothing.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from palate.data import load_named
from palate.engine import require
from palate.evaluation import Summary
from palate.personal._method import method_type
from palate.personal._pairs import Pairs, offered
from palate.records import PalateError
from palate.report import percent

if TYPE_CHECKING:
    import torch

    from palate.personal._features import Features
    from palate.personal._method import Method

ORDERS = [1.25, 1.5, 1.75, *range(2, 65), 80, 96, 128, 192, 256, 512]
"""Renyi orders at which the loss is bounded; any choice gives a valid bound, and whole ones are quick."""

PRIVATE_METHODS = ("bradley-terry", "per-user")
"""Their shared part is one set of linear weights, and a user's state is made from that user's choices alone."""


class PrivacySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How private, and the fixed settings of the descent. None of them may be chosen on the private data."""

    epsilon: float
    """The most that the presence of one user may change the log-odds of any outcome, but for `delta`."""
    delta: float = 1e-5
    """The probability that `epsilon` may be exceeded; has to be well under one in the number of users."""
    clip: float = 0.1
    """C: the longest gradient that one user may add."""
    rate: float = 0.25
    """q: the probability of a user to be drawn in a step."""
    steps: int = 100
    learning_rate: float = 8.0
    noise_seed: int | None = None
    """For experiments to be repeated. Whoever knows it can take the noise away: such a model is not private."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise PalateError(f"epsilon has to be a number above 0, and {self.epsilon} was given")
        if not 0 < self.delta < 1:
            raise PalateError(f"delta has to lie between 0 and 1, and {self.delta} was given")
        if not 0 < self.clip < math.inf or self.steps < 1 or not 0 < self.rate <= 1:
            raise PalateError("clip has to be a finite number above 0, steps at least 1, rate above 0 and at most 1")
        if not 0 < self.learning_rate < math.inf:
            raise PalateError("learning_rate has to be a finite number above 0")


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What a model file says about its privacy."""

    epsilon: float
    """Spent, as the accountant reckons it; never more than was asked for."""
    delta: float
    noise_multiplier: float
    clip: float
    rate: float
    steps: int
    users: int
    accountant: str
    private: bool
    """False where the noise came from a seed."""
    unit: str = "all choices of one user, added or removed"
    covers: str = "the shared weights. States of users are each made from that user's own choices and are not covered"
    marks: str = "the list of choices trained on is left out: it would tell who was there"


def noise_multiplier(settings: PrivacySettings) -> float:
    """Sigma: the least noise for which the accountant says that no more than epsilon is spent."""
    return _noise_multiplier(settings.epsilon, settings.delta, settings.rate, settings.steps)


@cache
def _noise_multiplier(epsilon: float, delta: float, rate: float, steps: int) -> float:
    from opacus.accountants.utils import get_noise_multiplier

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of orders at the end of the range, which only costs tightness
            found = get_noise_multiplier(
                target_epsilon=epsilon,
                target_delta=delta,
                sample_rate=rate,
                steps=steps,
                accountant="rdp",
                epsilon_tolerance=min(0.01, epsilon / 100),
                alphas=ORDERS,
            )
    except ValueError as error:
        raise PalateError(f"epsilon {epsilon} cannot be had at delta {delta}: {error}") from error
    return float(found)


def epsilon_spent(sigma: float, settings: PrivacySettings) -> float:
    """Epsilon at the given delta, for this much noise."""
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    accountant.history = [(sigma, settings.rate, settings.steps)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(accountant.get_epsilon(settings.delta, alphas=ORDERS))


class Noise:
    """Random numbers of the operating system, fit for secrets; from a seed only where one is given."""

    def __init__(self, seed: int | None = None) -> None:
        self._seeded = None if seed is None else np.random.default_rng(seed)

    def uniform(self, count: int) -> NDArray[np.float64]:
        """Evenly between 0 and 1, both excluded."""
        raw = os.urandom(8 * count) if self._seeded is None else self._seeded.bytes(8 * count)
        return ((np.frombuffer(raw, np.uint64) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53

    def normal(self, count: int) -> NDArray[np.float64]:
        """Standard normal; each the sum of four, so that the grid of one draw's floating point shows nowhere."""
        drawn: NDArray[np.float64] = ndtri(self.uniform(4 * count)).reshape(4, count).sum(axis=0) / 2
        return drawn


def clipped_sum(pairs: Pairs, weights: torch.Tensor, clip: float, drawn: torch.Tensor) -> torch.Tensor:
    """(features,): the gradients of the drawn users, each the mean over their choices and no longer than `clip`."""
    import torch

    some = pairs.only(drawn[pairs.user])
    differences = some.differences
    count = torch.zeros(len(pairs.users)).index_add_(0, some.user, some.weight)
    pull = -some.weight * torch.sigmoid(-(differences @ weights.float())) / count[some.user]
    places = torch.stack([some.user, torch.arange(len(some))])
    by_user = torch.sparse_coo_tensor(places, pull, (len(pairs.users), len(some)), check_invariants=False)
    gradients = torch.sparse.mm(by_user, differences).double()  # lengths are bounded in double precision
    length = gradients.norm(dim=1, keepdim=True)
    total: torch.Tensor = (gradients * (clip / length.clamp_min(clip))).sum(dim=0)
    return total


def private_weights(pairs: Pairs, precision: float, settings: PrivacySettings) -> tuple[torch.Tensor, Spent]:
    """Shared weights under the guarantee, and what it cost."""
    import torch

    require("opacus", "privacy")
    users = len(pairs.users)
    if settings.delta >= 1 / users:
        raise PalateError(
            f"delta {settings.delta:g} is not below one in the number of users ({users}): it would allow to publish a "
            f"user outright. Give a smaller one, such as {10.0 ** -math.ceil(math.log10(10 * users)):g}."
        )
    sigma = noise_multiplier(settings)
    noise = Noise(settings.noise_seed)
    weights = torch.zeros(pairs.rows.shape[1], dtype=torch.double)
    total, kept = torch.zeros_like(weights), 0
    for step in range(settings.steps):
        drawn = torch.from_numpy(noise.uniform(users) < settings.rate)
        gradient = clipped_sum(pairs, weights, settings.clip, drawn)
        gradient = gradient + sigma * settings.clip * torch.from_numpy(noise.normal(len(weights)))
        gradient = gradient / (settings.rate * users) + precision / users * weights
        weights = weights - settings.learning_rate * gradient
        if 2 * step >= settings.steps:  # the mean of the second half: less noise than the last
            total, kept = total + weights, kept + 1
    spent = Spent(
        epsilon=epsilon_spent(sigma, settings),
        delta=settings.delta,
        noise_multiplier=sigma,
        clip=settings.clip,
        rate=settings.rate,
        steps=settings.steps,
        users=users,
        accountant="opacus RDPAccountant",
        private=settings.noise_seed is None,
    )
    return (total / kept).float(), spent


def learn_privately(method: Method, pairs: Pairs, privacy: PrivacySettings) -> None:
    """What `Method.learn` does, under differential privacy, for the methods whose shared part is linear weights."""
    precision = getattr(method.settings, "precision", None)
    if method.name not in PRIVATE_METHODS or precision is None:
        raise PalateError(f"{method.name} cannot be trained privately; {' and '.join(PRIVATE_METHODS)} can")
    method.shared["weights"], spent = private_weights(pairs, precision, privacy)
    method.about["privacy"] = msgspec.to_builtins(spent)


def standardise_publicly(features: Features) -> None:
    """Centre and scale from the texts of `mini`, which are nobody's: those of private texts would tell of them."""
    features.restore({})
    features.rows(*offered(load_named("mini").comparisons))
    features.without_edges()


WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 64, 150, 24, 56
Place = Callable[[float], float]
"""From a number to where it stands in the picture."""
COLOURS = ("#0b6e99", "#b3541e", "#4f772d", "#7b2d8b")


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """One method at one epsilon; `inf` is training without privacy."""

    method: str
    epsilon: float
    view: str
    accuracy: float
    low: float | None
    high: float | None
    users: int


def epsilons(text: str) -> list[float]:
    """Numbers with commas between them; `inf` is no privacy.

    >>> epsilons("0.5,8,inf")
    [0.5, 8.0, inf]
    """
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise PalateError(f"--epsilon takes numbers such as 3 or 0.5,1,2,4,8,inf; {text!r} was given") from None
    if not all(one > 0 for one in found):
        raise PalateError(f"epsilon has to be above 0, and {text} was given; less is more private")
    return found


def private_specs(methods: Sequence[str], asked: Sequence[float], delta: float, noise_seed: int | None) -> list[str]:
    """Each method at each epsilon, as `train` takes them."""
    seed = "" if noise_seed is None else f",noise_seed={noise_seed}"
    return [
        f"{method},epsilon={epsilon:g},delta={delta:g}{seed}" if math.isfinite(epsilon) else method
        for method in methods
        for epsilon in asked
    ]


def privacy_curve(
    summary: Summary, methods: Sequence[str], asked: Sequence[float], delta: float, noise_seed: int | None
) -> list[CurvePoint]:
    """The accuracy of each method at each epsilon, as it is used: knowing the user where it can."""
    views = list(dict.fromkeys(result.view for result in summary.results if result.of is None))
    found = []
    for method in methods:
        view = views[-1] if method_type(method).uses else views[0]
        for epsilon, spec in zip(asked, private_specs([method], asked, delta, noise_seed), strict=True):
            for result in summary.results:
                if (result.rm, result.view) == (spec, view) and result.accuracy is not None:
                    point = CurvePoint(
                        method=method,
                        epsilon=epsilon,
                        view=view,
                        accuracy=result.accuracy,
                        low=result.low,
                        high=result.high,
                        users=result.users,
                    )
                    found.append(point)
    return found


def curve_svg(points: Sequence[CurvePoint], title: str) -> str:
    """A picture that needs nothing else: epsilon to the right on even steps, accuracy with its interval upwards."""
    steps = sorted({point.epsilon for point in points})
    low = min(0.5, *(point.low or point.accuracy for point in points))
    high = max(point.high or point.accuracy for point in points)
    low, high = math.floor(20 * low) / 20, math.ceil(20 * high + 1e-9) / 20

    def x(epsilon: float) -> float:
        return LEFT + (steps.index(epsilon) + 0.5) * (WIDTH - LEFT - RIGHT) / len(steps)

    def y(accuracy: float) -> float:
        return TOP + (high - accuracy) / max(high - low, 0.05) * (HEIGHT - TOP - BOTTOM)

    ticks = [low + 0.05 * step for step in range(round((high - low) / 0.05) + 1)]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif" '
        f'font-size="13"><title>{escape(title)}</title><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    ]
    for tick in ticks:
        lines.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#ddd"/>'
            f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{percent(tick)}</text>'
        )
    for epsilon in steps:
        name = f"{epsilon:g}" if math.isfinite(epsilon) else "no privacy"
        lines.append(f'<text x="{x(epsilon):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{name}</text>')
    lines.append(f'<text x="{(WIDTH - RIGHT + LEFT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">epsilon</text>')
    lowest_label = -math.inf
    methods = {point.method: point.accuracy for point in sorted(points, key=lambda point: point.epsilon)}
    for number, method in enumerate(sorted(methods, key=lambda name: -methods[name])):
        own = sorted((point for point in points if point.method == method), key=lambda point: point.epsilon)
        colour = COLOURS[number % len(COLOURS)]
        lines += _method(own, colour, x, y)
        lowest_label = max(y(own[-1].accuracy) + 4, lowest_label + 16)  # labels do not lie on one another
        lines.append(f'<text x="{WIDTH - RIGHT + 8}" y="{lowest_label:.1f}" fill="{colour}">{escape(method)}</text>')
    return "\n".join([*lines, "</svg>\n"])


def _method(own: Sequence[CurvePoint], colour: str, x: Place, y: Place) -> list[str]:
    path = " ".join(f"{x(point.epsilon):.1f},{y(point.accuracy):.1f}" for point in own)
    lines = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>']
    for point in own:
        across = x(point.epsilon)
        if point.low is not None and point.high is not None:
            lines.append(
                f'<line x1="{across:.1f}" x2="{across:.1f}" y1="{y(point.low):.1f}" y2="{y(point.high):.1f}" '
                f'stroke="{colour}"/>'
            )
        lines.append(f'<circle cx="{across:.1f}" cy="{y(point.accuracy):.1f}" r="4" fill="{colour}"/>')
    return lines
