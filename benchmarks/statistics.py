"""How fast is the bootstrap over users? A million ratings, 10,000 resamples, against a plain loop.

    python benchmarks/statistics.py

The peer is what most evaluation scripts do: draw users with numpy's `Generator.choice`, gather the ratings
of those users, take the mean; once for each resample. It is timed on fewer resamples and scaled up. The
second peer is a kinder one: the same loop on the totals of each user, without gathering ratings.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from rich.box import MARKDOWN
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from palate.stats._intervals import (
    SHARE,
    Floats,
    Resamples,
    bootstrap_totals,
    cluster_totals,
    ratio,
    ratio_interval,
)


def regrouping(credits: Floats, users: NDArray[np.int64], n_users: int) -> Callable[[np.random.Generator], float]:
    """One resample as the peer does it: choose users, gather their rows, take the mean."""
    order = np.argsort(users, kind="stable")
    rows = np.split(order, np.flatnonzero(np.diff(users[order])) + 1)

    def resample(random: np.random.Generator) -> float:
        chosen = random.choice(n_users, size=n_users)
        return float(credits[np.concatenate([rows[user] for user in chosen])].mean())

    return resample


def by_totals(totals: Floats) -> Callable[[np.random.Generator], float]:
    """One resample of the kinder peer: choose users, add up their totals."""

    def resample(random: np.random.Generator) -> float:
        return float(ratio(totals[random.choice(len(totals), size=len(totals))].sum(axis=0)))

    return resample


def timed_loop(
    resample: Callable[[np.random.Generator], float], count: int, progress: Progress, name: str
) -> tuple[float, Floats]:
    random = np.random.default_rng(1)
    start = time.perf_counter()
    drawn = [resample(random) for _ in progress.track(range(count), description=name)]
    return time.perf_counter() - start, np.array(drawn)


def peak_memory() -> float:
    """Peak resident memory of this process, in GiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**30 if sys.platform == "darwin" else peak / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--items", type=int, default=50, help="ratings a user (default 50)")
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--peer-resamples", type=int, default=500, help="how many the peer really does")
    options = parser.parse_args()

    random = np.random.default_rng(0)
    users = np.repeat(np.arange(options.users), options.items)
    credits = random.binomial(1, random.beta(2.8, 1.2, size=options.users)[users]).astype(np.float64)

    start = time.perf_counter()
    totals = cluster_totals(np.stack([credits, np.ones_like(credits)], axis=1), users, options.users)
    resamples = Resamples(options.users, seed=0, n_resamples=options.resamples)
    estimate = ratio_interval(totals[:, 0], totals[:, 1], resamples, within=SHARE)
    seconds = time.perf_counter() - start
    memory = peak_memory()
    if estimate is None:
        raise SystemExit("too few users for an interval")
    percentile = np.quantile(ratio(bootstrap_totals(totals, resamples)), [0.025, 0.975])

    table = Table("", f"{options.resamples:,} resamples", "ratio", "standard error", box=MARKDOWN)
    spread = (percentile[1] - percentile[0]) / (2 * 1.96)
    table.add_row("palate, with its interval", f"{seconds:.2f} s", "1", f"{spread:.6f}")
    peers = {
        "numpy Generator.choice and regrouping": regrouping(credits, users, options.users),
        "numpy Generator.choice on users' totals": by_totals(totals),
    }
    spreads = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        for name, resample in peers.items():
            taken, drawn = timed_loop(resample, options.peer_resamples, progress, name)
            scaled = taken * options.resamples / options.peer_resamples
            spreads.append(float(drawn.std(ddof=1)))
            table.add_row(name, f"{scaled:.2f} s", f"{scaled / seconds:.1f}", f"{spreads[-1]:.6f}")
    Console(width=100).print(table)
    print(f"{options.users * options.items:,} ratings of {options.users:,} users.")
    print(f"The peers did {options.peer_resamples} resamples; their time is scaled up.")
    print(f"palate: {estimate.value:.5f} [{estimate.low:.5f}, {estimate.high:.5f}], peak memory {memory:.2f} GiB.")
    # The standard error of a standard error from B draws is about 1 / sqrt(2 B) of it.
    slack = 4 * spread * np.sqrt(0.5 / options.peer_resamples + 0.5 / options.resamples)
    agree = all(abs(other - spread) <= slack for other in spreads)
    print(f"Standard errors {'agree' if agree else 'DISAGREE'} within Monte Carlo error (4 sigma: {slack:.6f}).")


if __name__ == "__main__":
    main()
