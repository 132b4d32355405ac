"""Plots for a page: curves, dots, numbers with intervals, histograms. Python places, the template draws.

All share how an axis finds round ticks, how names are shortened or wrapped, and how labels keep apart. Plots of many
models are in `_scatter`, `_slopes` and `_matrix`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from palate.report._numbers import (
    count,
    figure,
    figure_interval,
    percent,
    percent_interval,
    points,
    points_interval,
)

COLOURS = ("none", "profile-0", "profile-1", "profile-2", "profile-3", "stranger-0", "oracle")
SHAPES = ("square", "circle", "diamond", "triangle", "hexagon", "star", "plus", "cross")


class NumberFormat(msgspec.Struct, frozen=True):
    """How the values of a plot are written: one value, an interval, and the value beside a tick."""

    value: Callable[[float], str]
    interval: Callable[[float | None, float | None], str]

    def tick(self, value: float) -> str:
        """Without decimals that say nothing."""
        text = self.value(value)
        number, unit = text.rstrip("%"), text[len(text.rstrip("%")) :]
        return (number.rstrip("0").rstrip(".") if "." in number else number) + unit

    def with_interval(self, value: float, low: float | None, high: float | None) -> str:
        """A value with its interval in brackets, where it has one.

        >>> IN_PERCENT.with_interval(0.612, 0.58, 0.64), IN_PERCENT.with_interval(0.612, None, None)
        ('61.2% (58.0–64.0)', '61.2%')
        """
        known = low is not None and high is not None
        return f"{self.value(value)} ({self.interval(low, high)})" if known else self.value(value)


IN_PERCENT = NumberFormat(percent, percent_interval)
IN_POINTS = NumberFormat(points, points_interval)
SCORES = NumberFormat(figure, figure_interval)


class Mark(msgspec.Struct, frozen=True):
    """How one series is told from the others: a shape and a colour."""

    shape: str
    colour: str


def group_marks(groups: Iterable[str]) -> dict[str, Mark]:
    """A look for each group, in the order given; no two of up to 56 are the same.

    >>> group_marks(["llama", "qwen", "llama"])["qwen"]
    Mark(shape='circle', colour='profile-1')
    """
    return {
        group: Mark(SHAPES[place % len(SHAPES)], COLOURS[(place + 1) % len(COLOURS)])
        for place, group in enumerate(dict.fromkeys(groups))
    }


class Axis(msgspec.Struct, frozen=True):
    """Round ticks from `start` to `end` of a plot."""

    ticks: tuple[float, ...]
    start: float
    end: float

    @classmethod
    def holding(cls, values: Sequence[float | None], start: float, end: float) -> Axis:
        """The smallest round axis that holds every value."""
        known = [value for value in values if value is not None and math.isfinite(value)] or [0.0, 1.0]
        return cls(tuple(round_ticks(min(known), max(known))), start, end)

    def place(self, value: float | None) -> float | None:
        """Where a value stands; nowhere if it is no number."""
        return None if value is None or not math.isfinite(value) else self.at(value)

    def at(self, value: float) -> float:
        """Where a value stands."""
        share = (value - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])
        return round(self.start + min(1.0, max(0.0, share)) * (self.end - self.start), 3)

    def placed(self, written: NumberFormat) -> tuple[tuple[float, str], ...]:
        """The ticks with their texts."""
        texts = [written.tick(tick) for tick in self.ticks]
        if len(set(texts)) < len(texts):  # too near each other for the usual decimals
            texts = [f"{tick:.6g}" for tick in self.ticks]
        return tuple(zip(map(self.at, self.ticks), texts, strict=True))


def round_ticks(low: float, high: float) -> list[float]:
    """Round values at like distances, the first not above `low` and the last not below `high`, at most nine.

    >>> [round(tick, 2) for tick in round_ticks(0.47, 0.62)]
    [0.45, 0.5, 0.55, 0.6, 0.65]
    >>> round_ticks(-3.0, 18.0)
    [-5.0, 0.0, 5.0, 10.0, 15.0, 20.0]
    >>> round_ticks(4.0, 4.0)  # one value has its place in the middle
    [3.6, 3.8, 4.0, 4.2, 4.4]
    """
    if high - low < 1e-9 * max(1.0, abs(high)):
        margin = abs(high) / 10 or 1.0
        low, high = low - margin, high + margin
    spread = high - low
    power = 10.0 ** math.floor(math.log10(spread))
    step = next(power * part for part in (0.1, 0.2, 0.25, 0.5, 1.0, 2.0) if spread / (power * part) <= 6)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{step * place:.12g}") for place in range(first, max(last, first + 1) + 1)]


def shortened(text: str, longest: int) -> str:
    """A long name without its middle, since both ends tell names apart.

    >>> shortened("hf:organisation/reward-model-8b", 19)
    'hf:organi…-model-8b'
    """
    if len(text) <= longest:
        return text
    tail = (longest - 1) // 2
    return f"{text[: longest - 1 - tail]}…{text[-tail:]}"


def wrapped(text: str, longest: int) -> tuple[str, ...]:
    """Lines that break between words and after commas only; a word that is too long for a line loses its middle.

    >>> wrapped("best of 16 by embedding, policy seeing posts:5", 24)
    ('best of 16 by embedding,', 'policy seeing posts:5')
    """
    lines: list[str] = []
    joint = ""
    for word in re.finditer(r"([^\s,]+,?|,)(\s*)", text):
        part = shortened(word[1], longest)
        if lines and len(lines[-1]) + len(joint) + len(part) <= longest:
            lines[-1] += joint + part
        else:
            lines.append(part)
        joint = " " if word[2] else ""
    return tuple(lines)


# Curves and dots.

HEIGHT = 300
LEFT, RIGHT, TOP, BOTTOM = 52, 464, 26, 44
MOST_TICKS = 9
"""Steps that are named below a chart; of more, every second, third and so on."""
LONGEST_LINE = 29
"""Characters in a line of a label."""
LINE_HEIGHT = 15


class Step(msgspec.Struct, frozen=True):
    """One value of a curve with its interval, not placed yet."""

    at: float
    """Steps stand in this order, at like distances; an infinite one is called large."""
    value: float
    low: float | None = None
    high: float | None = None


class Dot(msgspec.Struct, frozen=True, kw_only=True):
    """A value against another, not placed yet."""

    name: str
    across: float
    up: float
    shape: str = "circle"
    like: str = ""
    """Dots that are alike in this have one colour."""


class Across(msgspec.Struct, frozen=True):
    """A value to compare with, not placed yet: a dashed line across."""

    name: str
    value: float
    like: str = ""
    """The curve whose colour it has, and which stands for it in the legend; grey without one."""


class Spot(msgspec.Struct, frozen=True):
    """A step or a dot, placed."""

    x: float
    y: float
    mark: Mark
    text: str


class Line(msgspec.Struct, frozen=True):
    """A curve, placed."""

    colour: str
    path: str
    band: str
    """The interval as the outline of an area."""


class Level(msgspec.Struct, frozen=True):
    """A line across, placed."""

    y: float
    colour: str
    text: str


class Label(msgspec.Struct, frozen=True):
    """A name at the right, with a thin line from what it names."""

    name: str
    mark: Mark
    x: float
    y: float
    """Of what it names."""
    lines: tuple[str, ...]
    top: float
    """Of its first line."""


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """Curves or dots in a frame."""

    title: str
    axis: str
    side: str
    description: str
    lines: tuple[Line, ...]
    levels: tuple[Level, ...]
    spots: tuple[Spot, ...]
    labels: tuple[Label, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]

    @property
    def shortened(self) -> bool:
        """Whether a name does not fit beside the plot."""
        return any("…" in line for label in self.labels for line in label.lines)


def draw_curves(
    curves: Mapping[str, Sequence[Step]],
    written: NumberFormat,
    *,
    title: str,
    axis: str,
    step: str,
    across: Sequence[Across] = (),
    grey_first: bool = True,
) -> Chart | None:
    """Any curves by name, with steps at like distances; nothing where there are none.

    `step` is what a step is called, such as `{} samples`; without `grey_first`, grey is left to lines across.
    """
    shared: dict[tuple[Step, ...], list[str]] = {}
    for name, own in curves.items():
        if own:
            shared.setdefault(tuple(sorted(own, key=lambda one: one.at)), []).append(name)
    if not shared:
        return None
    steps = sorted({one.at for own in shared for one in own})
    values = [end for own in shared for one in own for end in (one.low, one.high, one.value)]
    up = Axis.holding([*values, *(one.value for one in across)], HEIGHT - BOTTOM, TOP)
    middle = 0.0 if len(steps) > 1 else 0.5
    x = {at: LEFT + (place / max(1, len(steps) - 1) + middle) * (RIGHT - LEFT) for place, at in enumerate(steps)}
    colours = COLOURS if grey_first else COLOURS[1:]
    lines, spots, ends, said, colour_of = [], [], [], [], {}
    for place, (own, names) in enumerate(shared.items()):
        colour = colours[place % len(colours)]
        mark = Mark("dot", colour)
        name = _together(names)
        colour_of.update(dict.fromkeys(names, colour))
        lines.append(_line(own, colour, x, up))
        texts = [
            f"{step.format(_step_name(one.at))}: {written.with_interval(one.value, one.low, one.high)}" for one in own
        ]
        spots += [
            Spot(x[one.at], up.at(one.value), mark, f"{name}, {text}") for one, text in zip(own, texts, strict=True)
        ]
        ends.append((name, mark, x[own[-1].at], up.at(own[-1].value)))
        said.append(f"{name}: {', '.join(texts)}")
    levels, more, told = _levels(across, written, up, colour_of)
    return Chart(
        title=title,
        axis=axis,
        side="",
        description=". ".join([*said, *told]),
        lines=tuple(lines),
        levels=levels,
        spots=tuple(spots),
        labels=_apart([*ends, *more]),
        x_ticks=tuple((x[at], _step_name(at)) for at in steps[:: math.ceil(len(steps) / MOST_TICKS)]),
        y_ticks=up.placed(written),
    )


def draw_dots(
    dots: Sequence[Dot], across: NumberFormat, up: NumberFormat, *, title: str, axis: str, side: str,
    levels: Sequence[Across] = (), include: Sequence[float] = (),
) -> Chart | None:  # fmt: skip
    """Dots at two values each; nothing where there are none. `include` are values the axis across must hold."""
    if not dots:
        return None
    horizontal = Axis.holding([*(dot.across for dot in dots), *include], LEFT, RIGHT)
    vertical = Axis.holding([*(dot.up for dot in dots), *(one.value for one in levels)], HEIGHT - BOTTOM, TOP)
    alike = list(dict.fromkeys(dot.like or dot.name for dot in dots))
    spots, ends = [], []
    for dot in dots:
        mark = Mark(dot.shape, COLOURS[1:][alike.index(dot.like or dot.name) % (len(COLOURS) - 1)])
        x, y = horizontal.at(dot.across), vertical.at(dot.up)
        text = f"{dot.name}: {axis} {across.value(dot.across)}, {side} {up.value(dot.up)}"
        spots.append(Spot(x, y, mark, text))
        ends.append((dot.name, mark, x, y))
    drawn, more, told = _levels(levels, up, vertical, {})
    return Chart(
        title=title,
        axis=axis,
        side=side,
        description=". ".join([*(spot.text for spot in spots), *told]),
        lines=(),
        levels=drawn,
        spots=tuple(spots),
        labels=_apart([*ends, *more]),
        x_ticks=horizontal.placed(across),
        y_ticks=vertical.placed(up),
    )


def _line(own: Sequence[Step], colour: str, x: Mapping[float, float], up: Axis) -> Line:
    upper = [f"{x[one.at]:.1f},{up.at(one.value if one.high is None else one.high):.1f}" for one in own]
    lower = [f"{x[one.at]:.1f},{up.at(one.value if one.low is None else one.low):.1f}" for one in own]
    path = "M" + "L".join(f"{x[one.at]:.1f},{up.at(one.value):.1f}" for one in own)
    return Line(colour, path, "M" + "L".join([*upper, *reversed(lower)]) + "Z")


_End = tuple[str, Mark, float, float]


def _levels(
    across: Sequence[Across], written: NumberFormat, up: Axis, colours: Mapping[str, str]
) -> tuple[tuple[Level, ...], list[_End], list[str]]:
    """Lines across, the labels of those that no curve stands for, and their values in words."""
    levels = tuple(
        Level(up.at(one.value), colours.get(one.like, "none"), f"{one.name}: {written.value(one.value)}")
        for one in across
    )
    ends: list[_End] = []
    for value in dict.fromkeys(one.value for one in across if not one.like):
        name = _together([one.name for one in across if one.value == value and not one.like])
        ends.append((name, Mark("level", "none"), RIGHT, up.at(value)))
    return levels, ends, [level.text for level in levels]


def _together(names: Sequence[str]) -> str:
    """One name for curves that coincide.

    >>> _together(["longest", "shortest", "first"])
    'longest, shortest and first (the same)'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} (the same)"


def _apart(ends: Sequence[_End]) -> tuple[Label, ...]:
    """Labels pushed down until none covers another, and up again where they run out of room."""
    labels = [
        Label(name, mark, x, y, lines := wrapped(name, LONGEST_LINE), y + 4 - LINE_HEIGHT * (len(lines) - 1) / 2)
        for name, mark, x, y in sorted(ends, key=lambda end: end[3])
    ]
    tops, last = [], -math.inf
    for label in labels:
        tops.append(max(label.top, last))
        last = tops[-1] + LINE_HEIGHT * len(label.lines) + 2
    lowest = max(HEIGHT - BOTTOM + 8.0, last - LINE_HEIGHT if last < HEIGHT else 0.0)
    for place in reversed(range(len(labels))):
        tops[place] = min(tops[place], lowest - LINE_HEIGHT * (len(labels[place].lines) - 1))
        lowest = tops[place] - LINE_HEIGHT - 2
    return tuple(msgspec.structs.replace(label, top=top) for label, top in zip(labels, tops, strict=True))


def _step_name(at: float) -> str:
    """A step as a person writes it.

    >>> _step_name(1000000), _step_name(2.0), _step_name(1e6), _step_name(math.inf)
    ('1000000', '2', '1e+06', 'large')
    """
    if isinstance(at, int):
        return str(at)
    return "large" if math.isinf(at) else f"{at:g}"


# Numbers with intervals, one row each. Places across are per cent of the width, so that the plot stretches from a
# phone to a projector while its letters keep their size; places down are pixels.

ROW_HEIGHT = 26
TITLE_HEIGHT = 34
LONGEST_LABEL = 22
LONGEST_TITLE = 40


class PlotRow(msgspec.Struct, frozen=True, kw_only=True):
    """A number with its interval, before it has a place."""

    label: str
    mark: Mark
    value: float | None
    low: float | None
    high: float | None
    reference: float | None
    """Where the row's dashed line stands: chance, or zero."""
    text: str
    detail: str
    """What a wide screen adds to the text."""


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one model."""

    title: str
    dim: bool
    rows: tuple[PlotRow, ...]


class PlacedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row with its place."""

    row: PlotRow
    label: str
    y: int
    x: float | None
    low: float | None
    high: float | None
    reference: float | None


class PlacedBand(msgspec.Struct, frozen=True, kw_only=True):
    """A band with its place."""

    title: str
    dim: bool
    top: int
    rows_top: int
    height: int
    rows: tuple[PlacedRow, ...]


class IntervalPlot(msgspec.Struct, frozen=True, kw_only=True):
    """A plot ready to be drawn."""

    title: str
    description: str
    axis: str
    height: int
    ticks: tuple[tuple[float, str], ...]
    bands: tuple[PlacedBand, ...]
    legend: Mapping[str, Mark]
    reference: str
    """What the dashed lines are."""
    room: str
    """How much room the details need: `short`, `middle` or `long`."""


def draw_intervals(
    bands: Sequence[Band], written: NumberFormat, *, title: str, axis: str, reference: str,
    legend: Mapping[str, Mark] | None = None,
) -> IntervalPlot | None:  # fmt: skip
    """Every row in its place, band under band; nothing where there are no rows."""
    rows = [row for band in bands for row in band.rows]
    if not rows:
        return None
    values = [value for row in rows for value in (row.value, row.low, row.high, row.reference)]
    scale = Axis.holding(values, 0.0, 100.0)
    placed, top = [], 4
    for band in bands:
        placed.append(_place_band(band, scale, top))
        top += placed[-1].height
    said = (
        f"{band.title}: "
        + ", ".join(f"{row.label} {row.text}{f' ({row.detail})' if row.detail else ''}" for row in band.rows)
        for band in bands
    )
    longest = max(len(row.detail) for row in rows)
    return IntervalPlot(
        title=title,
        description=". ".join(said) + ". The table has the same numbers.",
        axis=axis,
        height=top + 46,
        ticks=scale.placed(written),
        bands=tuple(placed),
        legend=legend or {},
        reference=reference,
        room="short" if longest <= 13 else "middle" if longest <= 24 else "long",
    )


def _place_band(band: Band, scale: Axis, top: int) -> PlacedBand:
    rows = tuple(
        PlacedRow(
            row=row,
            label=shortened(row.label, LONGEST_LABEL),
            y=top + TITLE_HEIGHT + ROW_HEIGHT * position + ROW_HEIGHT // 2,
            x=scale.place(row.value),
            low=scale.place(row.low),
            high=scale.place(row.high),
            reference=scale.place(row.reference),
        )
        for position, row in enumerate(band.rows)
    )
    height = TITLE_HEIGHT + ROW_HEIGHT * len(rows)
    title = shortened(band.title, LONGEST_TITLE)
    return PlacedBand(title=title, dim=band.dim, top=top, rows_top=top + TITLE_HEIGHT, height=height, rows=rows)


# Histograms of shares.

BINS = 11
"""Bars stand at 0, 10, 20 ... 100%."""
BAR_HEIGHT = 56


class Histogram(msgspec.Struct, frozen=True, kw_only=True):
    """How many have which share; those below the reference are hollow."""

    name: str
    mark: Mark
    reference: float
    below: int
    total: int
    bars: tuple[tuple[float, float, float], ...]
    """Place, height of the hollow part, height of the part stacked on it."""
    expected: float
    """How many would be below by luck alone."""

    @property
    def text(self) -> str:
        """What it shows, in words."""
        return (
            f"{self.below:,} of {count(self.total, 'user')} below chance ({percent(self.reference)}); "
            f"a guesser would have about {round(self.expected):,}"
        )


class Histograms(msgspec.Struct, frozen=True, kw_only=True):
    """Histograms beside each other."""

    title: str
    shown: tuple[Histogram, ...]
    folded: str = ""
    """What a page calls them while they are folded away; empty where they are open."""


def draw_histogram(
    name: str, mark: Mark, shares: Sequence[float], *, reference: float, expected: float, tallest: int
) -> Histogram:
    """Shares in bins; `tallest` is the count that fills the height, from `fullest_bin`."""
    below = [share for share in shares if share < reference - 1e-9]
    counts = enumerate(zip(_bins(shares), _bins(below), strict=True))
    return Histogram(
        name=name,
        mark=mark,
        reference=reference,
        below=len(below),
        total=len(shares),
        bars=tuple(
            (round(100 * place / BINS, 3), BAR_HEIGHT * hollow / tallest, BAR_HEIGHT * (total - hollow) / tallest)
            for place, (total, hollow) in counts
            if total
        ),
        expected=expected,
    )


def fullest_bin(shares: Sequence[float]) -> int:
    """The count of the highest bar."""
    return max(_bins(shares))


def _bins(shares: Sequence[float]) -> list[int]:
    counts = [0] * BINS
    for share in shares:
        counts[min(BINS - 1, max(0, round(share * (BINS - 1))))] += 1
    return counts
