"""How training grows with the number of users, and what rating adds to reading.

    python benchmarks/personal.py
    python benchmarks/personal.py --method per-user --users 1000,10000,100000
    python benchmarks/personal.py --benchmark convarg

For each method and number of users (made from a seed, ten choices each among two thousand texts), the seconds to
learn the shared part and every user with default settings (one epoch for methods that have epochs), the memory
that took, and the exponent of growth: 1 means twice the users take twice the time. Then, on real texts, how much
rating adds to the time that the encoder takes to read them. With a benchmark instead, the seconds to train each
method on all of it with default settings, once its features are on the disk.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path = [place for place in sys.path if Path(place or ".").resolve() != Path(__file__).resolve().parent]

import argparse
import json
import resource
import subprocess
import time

import msgspec
import numpy as np

TEXTS, WIDTH, CHOICES = 2_000, 64, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", action="append", help="may be repeated; default: every method over features")
    parser.add_argument("--users", default="1000,10000,100000")
    parser.add_argument("--benchmark", help="train on this one, such as convarg, and do nothing else")
    parser.add_argument("--features", default="minilm+traits")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        method, users = arguments.one.split(",")
        print(json.dumps(learn(method, int(users), arguments.seed)))
        return
    from palate.personal import METHODS, TUNED

    methods = arguments.method or [name for name in METHODS if name not in TUNED]
    if arguments.benchmark:
        train(arguments.benchmark, methods, arguments.features, arguments.seed)
        return
    counts = [int(one) for one in arguments.users.split(",")]
    print(f"{'method':<20}{'users':>9}{'seconds':>10}{'MiB':>9}   exponent of time, of memory")
    for method in methods:
        grow(method, counts, arguments.seed)
    rating()


def train(name: str, methods: list[str], features: str, seed: int) -> None:
    """Every method on all choices of a benchmark, whose texts are read before the clock starts."""
    from palate.data import load_benchmark
    from palate.personal import PersonalModel, method_type

    benchmark = load_benchmark(name)
    first = method_type("bradley-terry")
    PersonalModel("bradley-terry", features=features).fit(
        benchmark.comparisons, benchmark.users, first.settings_type(seed=seed)
    )
    print(f"{name}: {len(benchmark.comparisons):,} choices of {len(benchmark.users):,} users, {features}")
    print(f"{'method':<20}{'seconds':>10}")
    for method in methods:
        settings = method_type(method).settings_type(seed=seed)
        start = time.perf_counter()
        PersonalModel(method, features=features, seed=seed).fit(benchmark.comparisons, benchmark.users, settings)
        print(f"{method:<20}{time.perf_counter() - start:>10.1f}", flush=True)


def grow(method: str, counts: list[int], seed: int) -> None:
    """One method at every size, each in a process of its own so that its memory is its own."""
    found = []
    for users in counts:
        command = [sys.executable, __file__, "--one", f"{method},{users}", "--seed", str(seed)]
        finished = subprocess.run(command, capture_output=True, text=True)
        if finished.returncode:
            print(f"{method:<20}{users:>9,}  failed: {finished.stderr.strip().splitlines()[-1]}")
            return
        found.append(json.loads(finished.stdout.splitlines()[-1]))
        print(f"{method:<20}{users:>9,}{found[-1]['seconds']:>10.2f}{found[-1]['mebibytes']:>9.0f}", flush=True)
    if len(counts) > 1:
        slopes = [
            np.polyfit(np.log(counts), np.log([max(one[key], 1e-3) for one in found]), 1)[0]
            for key in ("seconds", "mebibytes")
        ]
        print(f"{'':<48}   {slopes[0]:.2f}, {slopes[1]:.2f}", flush=True)


def learn(method: str, users: int, seed: int) -> dict[str, float]:
    """Learn from made-up choices: everybody's taste plus each user's own, with noise."""
    import torch

    from palate.personal import Known, Pairs, method_type

    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(TEXTS, WIDTH, generator=generator) / WIDTH**0.5
    owner = torch.arange(users).repeat_interleave(CHOICES)
    one, other = (torch.randint(TEXTS, (len(owner),), generator=generator) for _ in range(2))
    taste = 2 * torch.randn(WIDTH, generator=generator)
    own = 2 * torch.randn(users, WIDTH, generator=generator)
    margin = ((rows[one] - rows[other]) * (taste + own[owner])).sum(1)
    first = torch.rand(len(owner), generator=generator) < torch.sigmoid(margin)
    better, worse = torch.where(first, one, other), torch.where(first, other, one)
    names = tuple(f"user {number}" for number in range(users))
    pairs = Pairs(rows, better, worse, owner, torch.ones(len(owner)), torch.arange(len(owner)), names)
    known = [
        Known(rows[better[place]], rows[worse[place]], torch.ones(CHOICES), torch.zeros(0, WIDTH), (f"group={n % 8}",))
        for n, place in enumerate(pairs.by_user())
    ]
    kind = method_type(method)
    settings = kind.settings_type(seed=seed)
    if "epochs" in settings.__struct_fields__:
        settings = msgspec.structs.replace(settings, epochs=1)
    model = kind(settings, {"made": slice(0, WIDTH)})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    model.learn(pairs, known)
    model.users(known)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "mebibytes": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 + 1}


def rating() -> None:
    """Rate choices whose texts no cache knows, and say which part of the time is not the encoder's."""
    from palate.data import load_benchmark
    from palate.personal import PersonalModel
    from palate.records import Ask, View

    benchmark = load_benchmark("mini")
    model = PersonalModel("per-user", features="minilm+traits").fit(benchmark.comparisons, benchmark.users)
    mark = time.time_ns()  # texts that were never read before
    asks = [
        Ask(
            id=item.id,
            prompt=item.prompt,
            responses=tuple(f"{text} {mark}" for text in item.responses),
            view=View(name="user", user_id=item.user_id, by_name=True),
        )
        for item in benchmark.comparisons
    ]
    model.rate(asks[:1])
    start = time.perf_counter()
    model.features.rows(
        [ask.prompt for ask in asks for _ in ask.responses],
        [t for a in asks for t in a.responses],
        [None] * 2 * len(asks),
    )
    reading = time.perf_counter() - start
    start = time.perf_counter()
    model.rate(asks)
    rest = time.perf_counter() - start
    print(f"\nreading {2 * len(asks)} new responses with minilm+traits: {reading:.2f} s")
    print(f"rating them once read: {rest:.3f} s, {100 * rest / reading:.1f}% on top")


if __name__ == "__main__":
    main()
