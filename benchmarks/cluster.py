"""What do two workers bring? Efficiency of `--cluster ray` on a run that keeps a core busy.

    python benchmarks/cluster.py

The model computes for a fixed number of steps for each ask. Seconds are those of the whole command, Ray's start
included. Efficiency is the time of one worker over twice the time of two.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODEL = """
from palate import Rating


class Busy:
    name, fingerprint, batch_size = "busy", "1", 8

    def rate(self, asks):
        for _ in asks:
            sum(number * number for number in range({steps}))
        return [Rating([len(text) for text in ask.responses]) for ask in asks]
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2_000_000)
    steps = parser.parse_args().steps
    seconds: dict[int, float] = {}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "busy.py").write_text(MODEL.format(steps=steps))
            words = ["eval", "mini", "--rm", "./busy.py:Busy", "--cluster", "ray", "--workers", str(workers)]
            begun = time.perf_counter()
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            subprocess.run(
                [sys.executable, "-m", "palate", *words], cwd=folder, env=environment, check=True, capture_output=True
            )
            seconds[workers] = time.perf_counter() - begun
        print(f"{workers} workers: {seconds[workers]:.1f} s")
    print(f"efficiency of two: {seconds[1] / (2 * seconds[2]):.0%}")


if __name__ == "__main__":
    main()
