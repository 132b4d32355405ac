"""The curves of a training run in a terminal, while it runs."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table as Grid
from rich.text import Text

from palate.downstream.ppo._document import CURVES
from palate.downstream.ppo._results import StepLine
from palate.downstream.ppo._summary import warnings_of
from palate.report import figure, make_console

BARS = "▁▂▃▄▅▆▇█"
SPARK = 24
"""Characters of a curve."""
QUIET_EVERY = 10
"""Steps between two lines where there is no terminal to draw in."""
SLOW = 10.0
"""Seconds of a step that is worth a line of its own."""


def spark(values: list[float]) -> str:
    """A curve in one line of text, the last of its values at the right.

    >>> spark([0.0, 1.0, 2.0, 3.0])
    '▁▃▆█'
    """
    if len(values) > SPARK:
        size = len(values) / SPARK
        parts = [
            values[int(place * size) : max(int((place + 1) * size), int(place * size) + 1)] for place in range(SPARK)
        ]
        values = [sum(part) / len(part) for part in parts]
    low, high = min(values), max(values)
    scale = 0.0 if math.isclose(low, high, rel_tol=1e-9) else (len(BARS) - 1) / (high - low)
    return "".join(BARS[round((value - low) * scale)] for value in values)


class Watching:
    """The curves while a run goes on; told of each step. Without a terminal, a line now and then."""

    def __init__(self, console: Console, live: Live | None) -> None:
        self._console, self._live = console, live
        self._lines: list[StepLine] = []
        self._told = ""

    def __call__(self, line: StepLine, steps: int) -> None:
        """One more step."""
        self._lines.append(line)
        if self._live is not None:
            self._live.update(self._drawn(steps), refresh=True)
        elif line.step % QUIET_EVERY == 0 or line.step == steps or len(self._lines) == 1 or line.seconds > SLOW:
            numbers = f"reward {figure(line.reward)}, KL {line.kl:.2f}, entropy {line.entropy:.2f}, "
            numbers += f"length {line.length:.0f}, {line.seconds:.1f} s"
            self._console.print(f"step {line.step} of {steps}: {numbers}", highlight=False, soft_wrap=True)

    def progress(self, what: str, done: float, total: int) -> None:
        """What goes on before and after training."""
        if self._live is not None:
            self._live.update(Text(f"{what}: {int(done)} of {total}"), refresh=True)
        elif what != self._told:
            self._console.print(what, highlight=False, soft_wrap=True)
        self._told = what

    def _drawn(self, steps: int) -> Grid:
        last = self._lines[-1]
        mean = sum(line.seconds for line in self._lines) / len(self._lines)
        grid = Grid(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        left = mean * (steps - last.step)
        grid.add_row(Text(f"step {last.step} of {steps}", style="bold"), "", Text(f"{left:.0f} s left", style="dim"))
        for name, value in CURVES.items():
            values = [one for line in self._lines if (one := value(line)) is not None]
            if values:
                grid.add_row(name, figure(values[-1]), Text(spark(values), style="cyan"))
        for warning in warnings_of(self._lines):
            grid.add_row(Text("warning", style="bold yellow"), "", Text(warning.partition(":")[0]))
        return grid


def is_main_process() -> bool:
    """Whether this process speaks, of several that share a run; known without torch."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def watching(*, show: bool = True) -> Iterator[Watching]:
    """Draws on standard error; nothing at all without `show`, or in a process that only helps another."""
    show = show and is_main_process()
    console = make_console(stderr=True, quiet=not show)
    if not console.is_terminal or not show:
        yield Watching(console, None)
        return
    # No thread that draws: it would fight for the processor with the training.
    with Live(console=console, transient=True, auto_refresh=False) as live:
        yield Watching(console, live)
