"""What would a large run cost? Slopes fitted to small runs, checked at a point outside the fit, then drawn out.

    python benchmarks/cost_model.py --price 3

The host's part is measured here: `palate eval` with the control `overlap` under two views, for benchmarks that differ
in comparisons, users, words of a profile and candidates. Seconds of processor, peak memory and bytes of the run folder
are fitted, and the larger benchmark that is compared with the prediction is not among those fitted. The GPU's part is
a fit to two of the three measurements of docs/speed.md for each model, one H200, and the third is the check:

    python benchmarks/scoring.py --device cuda --shape smollm2 --asks 32 --repeats 5
    python benchmarks/scoring.py --device cuda --shape 8b --asks 8 --repeats 3 --budget 16384

`--price` is what you pay for an hour of one such GPU, in any currency.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse
import os
import subprocess
import tempfile
from typing import NamedTuple

import numpy as np

from palate.data import write_benchmark
from palate.records import Benchmark, Card, Comparison, Post, User

POSTS = 4
WORDS = 5_000
VIEWS = ("none", f"posts:{POSTS}")
MEASURED = {
    "SmolLM2, 135M": ((61_142, 0.075), (115_120, 0.143), (78_367, 0.099)),
    "8B": ((14_525, 0.358), (30_351, 0.778), (20_412, 0.516)),
}
"""Distinct tokens and seconds; the last is not fitted."""


class Size(NamedTuple):
    """Of a benchmark."""

    comparisons: int
    users: int
    words: int
    """Of a user's profile."""
    candidates: int

    @property
    def terms(self) -> list[float]:
        """What cost is proportional to."""
        rows, users, words, candidates = self
        # The last: whether a post holds a response, word for word or nearly, is looked up for each pair of them.
        return [1, rows, users, users * words, rows * words, rows * candidates, rows * words * candidates]


TERMS = (
    "a run",
    "a million comparisons",
    "a million users",
    "a million words of profiles",
    "a million words shown",
    "a million candidates",
    "a million words shown, for each candidate",
)

FITTED = (
    Size(4_000, 400, 200, 2),
    Size(1_000, 400, 200, 2),
    Size(4_000, 1_000, 200, 2),
    Size(4_000, 100, 1_600, 2),
    Size(4_000, 400, 200, 8),
    Size(1_000, 100, 1_600, 8),
    Size(8_000, 800, 1_600, 8),
)
OUTSIDE = Size(16_000, 2_000, 2_000, 10)


class Cost(NamedTuple):
    """Of one run."""

    seconds: float
    memory: float
    bytes: float


UNITS = Cost(1, 2**20, 1e6)
NAMES = ("processor, s", "peak memory, MiB", "run folder, MB")


def made(size: Size, seed: int = 0) -> Benchmark:
    """Words as frequent as in a natural language."""
    draw = np.random.default_rng(seed)
    frequencies = np.cumsum(1 / np.arange(1, WORDS + 1))

    def text(words: int) -> str:
        numbers = np.searchsorted(frequencies, draw.random(words) * frequencies[-1])
        return " ".join(map("w{:x}".format, numbers.tolist()))

    users = {}
    for number in range(size.users):
        name = f"u{number:06d}"
        posts = tuple(Post(id=f"{name}-{one}", text=text(size.words // POSTS), sequence=one) for one in range(POSTS))
        users[name] = User(id=name, posts=posts)
    names = list(users)
    comparisons = tuple(
        Comparison(
            id=f"c{number:07d}",
            user_id=names[number % size.users],
            prompt=text(10),
            responses=tuple(f"{text(25)} {one}" for one in range(size.candidates)),
            preferred=int(draw.integers(size.candidates)),
            sequence=POSTS + number,
        )
        for number in range(size.comparisons)
    )
    card = Card(name="made", title="Made up", version="1", licence="none", source="made up")
    return Benchmark(card=card, users=users, comparisons=comparisons)


def measure(size: Size) -> Cost:
    """One run in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        write_benchmark(made(size), Path(folder) / "made")
        views = [word for view in VIEWS for word in ("--view", view)]
        words = ["eval", "made", "--rm", "overlap", *views, "--retriever", "recent"]
        process = subprocess.Popen(
            [sys.executable, "-m", "palate", *words], cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"palate {' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}")
        files = [file for file in Path(folder, "runs").rglob("*") if file.is_file()]
        return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, sum(file.stat().st_size for file in files))


def fitted(sizes: tuple[Size, ...], costs: list[Cost]) -> np.ndarray:
    """A coefficient of each term for each kind of cost; none below zero, and errors count as shares."""
    from scipy.optimize import nnls

    measured = np.array(costs)
    terms = np.array([size.terms for size in sizes])
    scale = terms.max(axis=0)
    return np.stack([nnls(terms / scale / one[:, None], np.ones(len(sizes)))[0] / scale for one in measured.T], axis=1)


def gpu_slope(points: tuple[tuple[int, float], ...]) -> tuple[float, float]:
    """Seconds a token, and the prediction for the last point over what was measured there."""
    (few, quick), (many, slow), (check, seconds) = points
    slope = (slow - quick) / (many - few)
    return slope, (quick + slope * (check - few)) / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--price", type=float, required=True, help="of an hour of one H200")
    parser.add_argument("--users", type=float, default=1e6)
    parser.add_argument("--ratings", type=float, default=1e8)
    parser.add_argument("--profile", type=int, default=1_500, help="tokens of a profile")
    parser.add_argument("--response", type=int, default=130, help="tokens of a candidate")
    parser.add_argument("--candidates", type=int, default=2)
    given = parser.parse_args()
    print(f"comparisons  users  words  candidates  {'  '.join(NAMES)}; load before {os.getloadavg()[0]:.0f}")
    costs = []
    for size in (*FITTED, OUTSIDE):
        costs.append(measure(size))
        shown = "  ".join(f"{one / unit:12.1f}" for one, unit in zip(costs[-1], UNITS, strict=True))
        print(f"{size.comparisons:11,}  {size.users:5,}  {size.words:5,}  {size.candidates:10}  {shown}", flush=True)
    fit = fitted(FITTED, costs[:-1])
    print(f"\n{'slopes':42}  {'  '.join(NAMES)}")
    for name, slopes in zip(TERMS, fit, strict=True):
        shown = "  ".join(
            f"{slope / unit * (1 if name == TERMS[0] else 1e6):12.3g}"
            for slope, unit in zip(slopes, UNITS, strict=True)
        )
        print(f"{name:42}  {shown}")
    print("\nnot fitted        predicted  measured  ratio")
    for name, unit, said, seen in zip(NAMES, UNITS, np.array(OUTSIDE.terms) @ fit, costs[-1], strict=True):
        print(f"{name:16}  {said / unit:9.1f}  {seen / unit:8.1f}  {said / seen:5.2f}")
    for shape, points in MEASURED.items():
        slope, ratio = gpu_slope(points)
        print(f"GPU, {shape:13} {slope * 1e6:.2f} s a million tokens; prediction over measurement {ratio:.2f}")

    rows = given.ratings / len(VIEWS)
    large = Size(int(rows), int(given.users), round(given.profile * 0.75), given.candidates)
    cost = Cost(*(np.array(large.terms) @ fit))
    print(f"\n{given.ratings:.0e} ratings of {given.users:.0e} users, drawn out from the small runs:")
    print(f"host      {cost.seconds / 3600:10,.0f} hours of one core")
    print(f"memory    {cost.memory / 2**30:10,.0f} GiB in one process")
    print(f"files     {cost.bytes / 1e9:10,.0f} GB")
    tokens = given.ratings * (given.candidates * given.response + given.profile * (len(VIEWS) - 1) / len(VIEWS))
    for shape, points in MEASURED.items():
        hours = tokens * gpu_slope(points)[0] / 3600
        print(f"{shape:14}{hours:6,.0f} hours of one H200, {hours * given.price:,.0f} at {given.price:g} an hour")


if __name__ == "__main__":
    main()
