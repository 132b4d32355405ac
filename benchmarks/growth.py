"""How do time and memory grow with the data? Each operation at ten times the comparisons, again and again.

    python benchmarks/growth.py                              # 1,000, 10,000 and 100,000 comparisons
    python benchmarks/growth.py --sizes 100000 1000000       # a quarter of an hour and more

Each operation runs in a process of its own: CPU seconds of the operation, peak memory of the process, and the exponent
from the size before (1 is linear). pandas and `datasets` read the same files in the same run; `datasets, rows` takes
the rows out as Python objects, as palate does. Texts are made up of words as frequent as in a natural language, so
that many runs of three words recur; a user has 25 choices, a question is asked ten times, and there are 20 topics.
1,000 comparisons are of 40 users, so that `forget 100 users` erases half of those that are left.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse
import csv
import json
import math
import os
import resource
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from palate.records import Benchmark

CONTROLS = ["longest", "random", "overlap"]
VIEWS = ["none", "judgements:4", "swapped"]
WORDS = 20_000
KILLED = "eval, until it is killed"
Prepared = Callable[[], object]
"""The operation itself; what it needs was read before, and is not counted."""


def rows(count: int, seed: int = 0) -> Iterator[dict[str, str]]:
    """Choices of made-up users in the order of their dates."""
    draw = np.random.default_rng(seed)
    frequencies = np.cumsum(1 / np.arange(1, WORDS + 1))

    def text(words: int) -> str:
        numbers = np.searchsorted(frequencies, draw.random(words) * frequencies[-1])
        return " ".join(map("w{:x}".format, numbers.tolist()))

    questions = [text(10) for _ in range(max(2, count // 10))]
    for number in range(count):
        asked = int(draw.integers(len(questions)))
        yield {
            "id": f"c{number:07d}",
            "user_id": f"u{number % max(2, count // 25):06d}",
            "prompt": questions[asked],
            "chosen": text(int(draw.integers(12, 40))),
            "rejected": text(int(draw.integers(12, 40))),
            "category": f"topic {asked % 20}",
            "date": f"20{10 + number * 10 // count:02d}-{1 + number % 12:02d}-{1 + number % 28:02d}",
        }


def write_lines(folder: Path, count: int) -> None:
    """The rows as JSON Lines."""
    with (folder / "table.jsonl").open("w") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows(count))


def write_tables(folder: Path, count: int) -> None:
    """The same rows as CSV and Parquet, a part at a time."""
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.schema([(name, pyarrow.string()) for name in next(rows(1))])
    with (
        (folder / "table.csv").open("w", newline="") as table,
        pyarrow.parquet.ParquetWriter(folder / "table.parquet", schema) as parquet,
    ):
        writer = csv.DictWriter(table, schema.names)
        writer.writeheader()
        part: list[dict[str, str]] = []
        for number, row in enumerate(rows(count), start=1):
            writer.writerow(row)
            part.append(row)
            if len(part) == 10_000 or number == count:
                parquet.write_table(pyarrow.Table.from_pylist(part, schema))
                part.clear()


def benchmark_of(folder: Path) -> Benchmark:
    from palate.data import load_benchmark

    return load_benchmark(f"{folder / 'table.jsonl'},category=category")


def load(folder: Path, kind: str) -> Prepared:
    import pyarrow.parquet  # noqa: F401 - so that importing it is not counted

    from palate.data import load_benchmark

    return lambda: load_benchmark(f"{folder / f'table.{kind}'},category=category")


def load_with_pandas(folder: Path, kind: str) -> Prepared:
    import pandas

    file = folder / f"table.{kind}"
    readers = {"csv": pandas.read_csv, "parquet": pandas.read_parquet}
    return lambda: pandas.read_json(file, lines=True) if kind == "jsonl" else readers[kind](file)


def load_with_datasets(folder: Path, kind: str, *, as_rows: bool = False) -> Prepared:
    import datasets

    datasets.disable_progress_bars()
    name = "json" if kind == "jsonl" else kind

    def read() -> object:
        with tempfile.TemporaryDirectory(dir=folder) as cache:
            found = datasets.load_dataset(
                name, data_files=str(folder / f"table.{kind}"), split="train", cache_dir=cache
            )
            return found.to_list() if as_rows else found

    return read


def same_texts(folder: Path) -> Prepared:
    """All responses of the table, compared with each other; reading the lines is counted."""
    from palate.data import SameTexts

    def responses() -> Iterator[str]:
        with (folder / "table.jsonl").open() as lines:
            for row in map(json.loads, lines):
                yield from (row["chosen"], row["rejected"])

    return lambda: SameTexts(responses()).pairs()


def folds(folder: Path) -> Prepared:
    from palate.personal import make_folds

    benchmark = benchmark_of(folder)
    return lambda: make_folds(benchmark, "unseen")


def strangers(folder: Path) -> Prepared:
    from palate.data import History
    from palate.views._strangers import Strangers

    benchmark = benchmark_of(folder)

    def first_of_each() -> None:
        found = Strangers(benchmark, set(benchmark.users), History(benchmark), seed=0)
        for item in benchmark.comparisons:
            next(found.of(item), None)

    return first_of_each


def views(folder: Path) -> Prepared:
    from palate.views import ViewBuilder, parse_view

    benchmark, spec = benchmark_of(folder), parse_view("judgements:4")

    def build() -> None:
        builder = ViewBuilder(benchmark)
        for start in range(0, len(benchmark.comparisons), 256):
            builder.build(spec, benchmark.comparisons[start : start + 256])

    return build


def evaluation(folder: Path, out: str = "runs") -> Prepared:
    """Three controls under three views, from the file to the summary; a second time it finds everything done."""
    from palate import evaluate

    file = f"{folder / 'table.jsonl'},category=category"
    return lambda: evaluate(file, CONTROLS, VIEWS, strangers=1, out=folder / out)


def resumed(folder: Path) -> Prepared:
    """The same in another folder, killed when half of the ratings are on the disk; the rest is what is measured."""
    killed = subprocess.Popen([sys.executable, __file__, "--child", KILLED, "--folder", str(folder)])
    with (folder / "table.jsonl").open("rb") as table:
        half = sum(1 for _ in table) * len(CONTROLS) * len(VIEWS) // 2
    there = 0
    while there < half and killed.poll() is None:
        time.sleep(1)
        for ratings in (folder / "resumed").glob("*/ratings.jsonl"):
            with ratings.open("rb") as lines:
                there = sum(1 for _ in lines)
    killed.kill()
    killed.wait()
    return evaluation(folder, "resumed")


def report(folder: Path) -> Prepared:
    from palate.runs import open_run, write_report

    [run_folder] = (folder / "runs").iterdir()

    def recompute() -> None:
        run = open_run(run_folder)
        write_report(run, run.experiment.summarise(run))

    return recompute


def forget(folder: Path, *, at_most: int = 1) -> Prepared:
    """Erase the last users that are left, but never more than half of them."""
    from palate.data import Pseudonyms
    from palate.privacy import forget as erase
    from palate.privacy._run_folder import owners
    from palate.runs import open_run

    os.environ["PALATE_CACHE"] = str(folder / "cache")  # nobody's own caches are touched
    [run_folder] = (folder / "runs").iterdir()
    users = sorted({user for _, user in owners(open_run(run_folder))})
    chosen = users[-min(at_most, len(users) // 2) :]
    return lambda: erase(chosen, Pseudonyms(b"a key for this benchmark"), runs=[run_folder])


LOADERS: dict[str, Callable[..., Prepared]] = {
    "palate": load,
    "pandas": load_with_pandas,
    "datasets": load_with_datasets,
    "datasets, rows": partial(load_with_datasets, as_rows=True),
}
OPERATIONS: dict[str, Callable[[Path], Prepared]] = {
    **{
        f"load {kind}, {who}": partial(prepare, kind=kind)
        for kind in ("csv", "jsonl", "parquet")
        for who, prepare in LOADERS.items()
    },
    "texts that are the same": same_texts,
    "folds of unseen": folds,
    "the first stranger of each item": strangers,
    "views of 4 judgements, BM25": views,
    "eval, 3 controls x 3 views": evaluation,
    "the same again, all done": evaluation,
    "resume, killed half-way": resumed,
    KILLED: partial(evaluation, out="resumed"),
    "report": report,
    "forget one user": forget,
    "forget 100 users": partial(forget, at_most=100),
}


def measure(name: str, folder: Path) -> dict[str, float]:
    """CPU seconds of one operation, and the peak memory of this process in GiB."""
    warnings.simplefilter("ignore")
    operation = OPERATIONS[name](folder)
    start = time.process_time()
    operation()
    spent = time.process_time() - start
    return {"cpu": spent, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--only", nargs="+", choices=OPERATIONS, default=list(OPERATIONS))
    parser.add_argument("--folder", type=Path, help="keep tables and runs here [default: a temporary folder]")
    parser.add_argument("--child", choices=OPERATIONS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.child, options.folder)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        root = options.folder or Path(temporary)
        found: dict[str, dict[int, dict[str, float]]] = {name: {} for name in options.only}
        for size in sorted(options.sizes):
            folder = root / str(size)
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / "table.jsonl").exists():
                write_lines(folder, size)
            if any(name.startswith("load ") for name in options.only) and not (folder / "table.parquet").exists():
                write_tables(folder, size)
            for name in options.only:
                print(f"{size:,}: {name} ...", file=sys.stderr)
                command = [sys.executable, __file__, "--child", name, "--folder", str(folder)]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                found[name][size] = json.loads(done.stdout.splitlines()[-1])
                print(f"  {found[name][size]}", file=sys.stderr)
    _print(found, sorted(options.sizes))


def _print(found: dict[str, dict[int, dict[str, float]]], sizes: list[int]) -> None:
    print("| operation |" + "".join(f" {size:,}: CPU s | GiB | exponent |" for size in sizes))
    print("|---|" + "---:|" * (3 * len(sizes)))
    for name, measured in found.items():
        cells = []
        for before, size in zip([None, *sizes], sizes, strict=False):
            now = measured[size]
            exponent = "" if before is None else f"{_exponent(measured[before]['cpu'], now['cpu'], size / before):.2f}"
            cells.append(f" {now['cpu']:.2f} | {now['peak']:.2f} | {exponent} |")
        print(f"| {name} |" + "".join(cells))


def _exponent(before: float, now: float, times: float) -> float:
    return math.log(max(now, 1e-3) / max(before, 1e-3)) / math.log(times)


if __name__ == "__main__":
    main()
