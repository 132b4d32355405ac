"""Do two versions of palate give the same numbers? Runs one of each kind of measurement and compares what they say.

    python benchmarks/same_numbers.py --out before.json            with one version installed
    python benchmarks/same_numbers.py --out after.json --against before.json   with the other

Numbers are compared where both have them, by their place in the JSON; names that differ are listed. The small
language model has to be there for the kinds that write; leave those out with `--only eval train audit`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

TINY = ["--limit", "6", "--seed", "3"]
COMMANDS: dict[str, list[str]] = {
    "eval": ["eval", "mini", "--rm", "embedding", "--rm", "overlap", "--rm", "longest"],
    "eval sim": ["eval", "sim,users=12", "--rm", "embedding", "--rm", "overlap"],
    "eval real": ["eval", "stackexchange", "--rm", "overlap", "--rm", "longest", "--limit", "150"],
    "train": ["train", "mini", "--method", "per-user", "--features", "traits", "--folds", "3"],
    "train unseen": ["train", "sim,users=16", "--features", "traits", "--protocol", "unseen", "--folds", "2"],
    "audit": ["audit", "mini"],
    "bon": ["bon", "sim,users=4", "--critic", "sim", "-n", "4", "--tokens", "16", *TINY],
    "guide": ["guide", "mini", "--tokens", "8", "--top-k", "4", "--weight", "0", "--weight", "5", *TINY],
    "steer": ["steer", "mini", "--tokens", "4", "-n", "2", "--critic", "reference:rouge1,encoder=none",
              "--view", "none", "--view", "posts:1", "--in-context", "posts:1", "--top-k", "2", "--limit", "2"],
    "ppo": ["ppo", "sim,users=8", "--rm", "longest", "--critic", "sim", "--steps", "2", "--prompts", "4",
            "--samples", "2", "--tokens", "8", "--minibatches", "2", "--test-samples", "2", "--limit", "40"],
}  # fmt: skip


def measured(command: list[str], runs: Path) -> object:
    """What a command prints as JSON."""
    where = [] if command[0] == "audit" else ["--out", str(runs)]
    done = subprocess.run(
        [sys.executable, "-m", "palate", *command, *where, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"palate {' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def numbers(value: object, place: str = "") -> Iterator[tuple[str, float]]:
    """Every number with where it stands."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from numbers(inner, f"{place}.{name}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from numbers(inner, f"{place}[{index}]")
    elif isinstance(value, int | float) and not place.endswith(".seconds"):
        yield place, float(value)


def compare(before: dict[str, object], after: dict[str, object]) -> bool:
    """Print a line for each measurement; whether all numbers that both have are the same."""
    same = True
    for name in before:
        if name not in after:
            continue
        one, other = dict(numbers(before[name])), dict(numbers(after[name]))
        shared = one.keys() & other.keys()
        differ = {place: (one[place], other[place]) for place in shared if abs(one[place] - other[place]) > 1e-9}
        names = sorted({place.split("[")[0] for place in one.keys() ^ other.keys()})
        print(f"{name}: {len(shared)} numbers in both, {len(differ)} differ; only in one: {', '.join(names) or 'none'}")
        for place, pair in sorted(differ.items())[:10]:
            print(f"  {place}: {pair[0]:g} -> {pair[1]:g}")
        same &= not differ
    return same


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", nargs="*", choices=COMMANDS, default=list(COMMANDS))
    options = parser.parse_args()
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            print(f"{name} ...", file=sys.stderr)
            found[name] = measured(COMMANDS[name], Path(folder) / name.replace(" ", "-"))
            options.out.write_text(json.dumps(found))
    if options.against is None:
        return 0
    return 0 if compare(json.loads(options.against.read_text()), found) else 1


if __name__ == "__main__":
    sys.exit(main())
