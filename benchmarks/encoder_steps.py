"""How fast does an encoder rate texts that grow? palate against two plainer ways, on the same texts in the same run.

    python benchmarks/encoder_steps.py                  # MiniLM on this CPU, a minute or two
    python benchmarks/encoder_steps.py --views 3 --tokens 40 --repeats 3

Policy accuracy asks for the reward of the policy's k likeliest tokens at every place of every response, under every
view. A view changes what a text is compared with, and not the text. Three ways of having the same rewards:

    palate             the candidates of a place in one forward pass; what was read lately is not read again
    one pass a place   the same without remembering: every view reads all candidates again
    one pass a text    the plain way: every candidate of every view by itself
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse
import os
import time
from collections.abc import Callable
from functools import partial

# Read when torch is loaded: its threads then sleep while they wait, and do not spin on a core that somebody shares.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np

from palate.data import load_benchmark
from palate.engine import load_encoder
from palate.records import Ask, View
from palate.rewards._embedding import EmbeddingReward
from palate.views import ViewBuilder, resolve_views

VIEWS = ("none", "posts:2", "posts:4", "judgements:2")
Rows = list[list[float]]


def steps_of(response: str, tokens: int, top: int) -> list[list[str]]:
    """At each place of a response the text so far with each of `top` words, its own among them."""
    words = response.split()[:tokens]
    others = ["and", "the", "of", "to", "in", "it", "so", "as", "but", "on", "for", "with"][: top - 1]
    return [[" ".join([*words[:place], word]) for word in (words[place], *others)] for place in range(len(words))]


def palate_way(asks: list[Ask], steps: list[list[str]], *, remember: bool) -> Rows:
    reward = EmbeddingReward()
    found: Rows = []
    for ask in asks:
        follower = reward.follow([ask], 8)
        for texts in steps:
            if not remember:
                reward._passing.clear()
            found.append(list(follower.rate({0: texts})[0].scores or ()))
    return found


def plain_way(asks: list[Ask], steps: list[list[str]]) -> Rows:
    reward = EmbeddingReward()
    found: Rows = []
    for ask in asks:
        follower = reward.follow([ask], 8)
        for texts in steps:
            row: list[float] = []
            for text in texts:
                reward._passing.clear()
                row += follower.rate({0: [text]})[0].scores or ()
            found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=30, help="words of a response")
    parser.add_argument("--top-k", type=int, default=10)
    parser.add_argument("--views", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    benchmark = load_benchmark("mini")
    item = benchmark.comparisons[0]
    builder = ViewBuilder(benchmark, retriever="bm25", seed=0)
    views = [builder.build(spec, [item])[0] for spec in resolve_views(list(VIEWS[: options.views]))]
    asks = [
        Ask(id=item.id, prompt=item.prompt, responses=item.responses, view=view)
        for view in views
        if isinstance(view, View)
    ]
    steps = steps_of(" ".join([*item.responses] * 4), options.tokens, options.top_k)
    load_encoder("minilm").encode(["warm"], keep=False)
    ways: dict[str, Callable[[], Rows]] = {
        "palate": partial(palate_way, asks, steps, remember=True),
        "one pass a place": partial(palate_way, asks, steps, remember=False),
        "one pass a text": partial(plain_way, asks, steps),
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    rewards: dict[str, Rows] = {}
    for _ in range(options.repeats):
        for name, way in ways.items():  # in turn, so that a busy moment meets all of them
            begun = time.perf_counter()
            rewards[name] = way()
            took[name].append(time.perf_counter() - begun)
    apart = max(float(np.abs(np.array(rewards[name]) - np.array(rewards["palate"])).max()) for name in ways)
    print(f"{len(asks)} views, {len(steps)} places, {options.top_k} candidates; rewards are at most {apart:.1e} apart")
    best = {name: min(times) for name, times in took.items()}
    for name, seconds in best.items():
        each = 1000 * seconds / (len(asks) * len(steps))
        print(f"{name:17} {seconds:7.2f} s, {each:6.1f} ms a place and view, ratio {seconds / best['palate']:.1f}")
    if apart > 1e-4:
        raise SystemExit("the ways do not give the same rewards")


if __name__ == "__main__":
    main()
