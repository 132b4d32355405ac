"""What do two workers bring? Efficiency of `--cluster ray` on a run that keeps a core busy.

    python benchmarks/cluster.py

The model computes for a fixed number of steps for each ask, and writes down when it began and ended and the seconds of
processor that it took. So the start of Ray and of the workers, before the first ask, and merging and reporting, after
the last, are told apart from the rating between. Efficiency is the time of one worker over twice the time of two, for
the rating and for the whole command. `busy` is the share of the time between first and last ask for which a worker was
rating: it does not depend on how fast the cores are, which other work on the machine changes.
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
import os
import time
from pathlib import Path

from palate import Rating


class Busy:
    name, fingerprint, batch_size = "busy", "1", 8

    def rate(self, asks):
        began, used = time.time(), time.process_time()
        for _ in asks:
            sum(number * number for number in range({steps}))
        with Path(f"times-{{os.getpid()}}").open("a") as file:
            print(began, time.time(), time.process_time() - used, file=file)
        return [Rating([len(text) for text in ask.responses]) for ask in asks]
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=2_000_000)
    steps = parser.parse_args().steps
    whole: dict[int, float] = {}
    rating: dict[int, float] = {}
    print(f"load before {os.getloadavg()[0]:.0f}")
    print("workers  before the first ask  rating  after the last ask  processor s of the model  busy")
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "busy.py").write_text(MODEL.format(steps=steps))
            words = ["eval", "mini", "--rm", "./busy.py:Busy", "--cluster", "ray", "--workers", str(workers)]
            begun = time.time()
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            subprocess.run(
                [sys.executable, "-m", "palate", *words], cwd=folder, env=environment, check=True, capture_output=True
            )
            ended = time.time()
            lines = [line for file in Path(folder).glob("times-*") for line in file.read_text().splitlines()]
        times = [tuple(map(float, line.split())) for line in lines]
        first, last = min(one[0] for one in times), max(one[1] for one in times)
        whole[workers], rating[workers] = ended - begun, last - first
        busy = sum(one[1] - one[0] for one in times) / (workers * rating[workers])
        used = sum(one[2] for one in times)
        print(
            f"{workers:7}  {first - begun:18.1f} s  {rating[workers]:4.1f} s  {ended - last:16.1f} s  {used:23.1f} s"
            f"  {busy:4.0%}",
            flush=True,
        )
    for name, seconds in (("the rating", rating), ("the whole command", whole)):
        print(f"efficiency of two, {name}: {seconds[1] / (2 * seconds[2]):.0%}")


if __name__ == "__main__":
    main()
