"""Is borrowed history worth anything? `embedding` on `mini` with all but one past choice of each user taken away.

    python benchmarks/neighbours.py    # a minute on one core

The last line is the users as they are, with their own four choices: what there would be to gain.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import tempfile

import msgspec

from palate import evaluate
from palate.data import load_benchmark
from palate.records import Benchmark

FILLED = "judgements:4+neighbours:3"


def main() -> None:
    whole = load_benchmark("mini")
    users = {
        name: msgspec.structs.replace(user, posts=(), judgements=user.judgements[:1])
        for name, user in whole.users.items()
    }
    cut = msgspec.structs.replace(whole, users=users)
    print("| view | accuracy | 95% |\n|---|---|---|")
    _measure("", cut, ["none", "judgements:4"], "bm25")
    _measure("", cut, [FILLED, f"swapped:{FILLED}"], "bm25")
    _measure(", random neighbours", cut, [FILLED], "random")
    _measure(", nothing taken away", whole, ["judgements:4"], "bm25")


def _measure(what: str, benchmark: Benchmark, views: list[str], retriever: str) -> None:
    with tempfile.TemporaryDirectory() as out:
        for one in evaluate(benchmark, ["embedding"], views, retriever=retriever, out=out).results:
            print(f"| {one.view}{what} | {one.accuracy:.1%} | {one.low:.1%} to {one.high:.1%} |", flush=True)


if __name__ == "__main__":
    main()
