"""What privacy costs: accuracy against epsilon, as numbers and as a picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

import msgspec

from palate.evaluation import Summary
from palate.personal._methods import method_type
from palate.records import PalateError
from palate.report import percent

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
