"""MiniLM in 8-bit numbers on ONNX Runtime beside MiniLM in torch: how alike, how fast, and what changes in a result?

    PALATE_DATA=data python benchmarks/onnx_encoder.py                  # texts of four benchmarks, then `mini`
    PALATE_DATA=data python benchmarks/onnx_encoder.py --texts 400 --repeats 5

Both read the same real texts in the same run, by turns; CPU seconds are those of the process, and the medians of the
repeats are printed with the fewest and the most. torch reads with several sizes of batch, of which 1,024 tokens is the
one that palate takes on a processor. Nothing comes out of a cache. `eval mini` is scored by `embedding` with both.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse
import os
import tempfile
import time
from statistics import median

import numpy as np

from palate import evaluate
from palate.data import load_benchmark
from palate.engine import TextEncoder, Vectors, load_encoder
from palate.engine import _encoder as settings

NAMES = ["mini", "convarg", "stackexchange", "coauthor"]
SIZES = [256, 512, 1_024, 2_048, 4_096, 8_192]
ONNX = "minilm,backend=onnx"


def texts_of(name: str, count: int) -> list[str]:
    """Distinct responses of a benchmark, drawn with a fixed seed."""
    found = sorted({text for item in load_benchmark(name).comparisons for text in item.responses})
    draw = np.random.default_rng(0)
    return [found[place] for place in draw.choice(len(found), min(count, len(found)), replace=False)]


def timed(encoder: TextEncoder, texts: list[str]) -> tuple[Vectors, float]:
    """Vectors that are in no cache, and texts a CPU second."""
    start = time.process_time()
    vectors = encoder.encode(texts, keep=False)
    return vectors, len(texts) / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=100, help="texts of each benchmark")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="tokens a batch, of torch")
    options = parser.parse_args()
    plain, small = load_encoder("minilm"), load_encoder(ONNX)
    texts = {name: texts_of(name, options.texts) for name in NAMES}
    everything = [text for own in texts.values() for text in own]
    with tempfile.TemporaryDirectory() as cache:
        os.environ["PALATE_CACHE"] = cache  # after the weights were found; vectors are computed again
        for encoder in (plain, small):
            encoder.encode(everything[:8], keep=False)  # loading is not counted
        compare(plain, small, texts)
        speed(plain, small, everything, options.repeats, options.sizes)
        accuracies(Path(cache))


def compare(plain: TextEncoder, small: TextEncoder, texts: dict[str, list[str]]) -> None:
    """Cosines of the two vectors of each text, and of the likenesses between texts."""
    print("| texts of | n | cosine, mean | 5% below | lowest | likeness of two texts differs by, mean | correlation |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, own in texts.items():
        one, other = plain.encode(own, keep=False), small.encode(own, keep=False)
        cosines = (one * other).sum(axis=1)
        upper = np.triu_indices(len(own), 1)
        likeness, again = (one @ one.T)[upper], (other @ other.T)[upper]
        cells = [f"{value:.4f}" for value in (cosines.mean(), np.quantile(cosines, 0.05), cosines.min())]
        apart = f"{np.abs(likeness - again).mean():.4f} | {np.corrcoef(likeness, again)[0, 1]:.4f}"
        print(f"| {name} | {len(own)} | {' | '.join(cells)} | {apart} |", flush=True)


def speed(plain: TextEncoder, small: TextEncoder, texts: list[str], repeats: int, sizes: list[int]) -> None:
    """By turns, so that what else runs meets all of them."""
    found: dict[str, list[float]] = {}
    usual = settings.TOKENS_A_BATCH["cpu"]
    for _ in range(repeats):
        for size in sizes:
            settings.TOKENS_A_BATCH["cpu"] = size
            found.setdefault(f"torch, {size:,} tokens a batch", []).append(timed(plain, texts)[1])
        settings.TOKENS_A_BATCH["cpu"] = usual
        found.setdefault("onnx, one text at a time", []).append(timed(small, texts)[1])
    print(f"\n| {len(texts)} texts | texts a CPU second | fewest | most |\n|---|---:|---:|---:|")
    for name, rates in found.items():
        print(f"| {name} | {median(rates):.1f} | {min(rates):.1f} | {max(rates):.1f} |")


def accuracies(folder: Path) -> None:
    """What `palate eval mini` says with either."""
    models = ["embedding", "embedding,backend=onnx"]
    summary = evaluate("mini", models, ["none", "posts:5", "judgements:4"], out=folder / "runs")
    print("\n| model | view | accuracy | 95% |\n|---|---|---:|---:|")
    for result in summary.results:
        print(f"| {result.rm} | {result.view} | {result.accuracy:.1%} | {result.low:.1%} to {result.high:.1%} |")


if __name__ == "__main__":
    main()
