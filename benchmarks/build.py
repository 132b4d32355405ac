"""Does memory grow with the dump? Generates a Stack Exchange dump of any size, builds from it, and prints the peak.

    python benchmarks/build.py --gigabytes 1

The build runs in a process of its own. The dump lies in a temporary folder and is deleted afterwards.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PLAN = """
name = "generated"
[source]
kind = "stackexchange"
path = "Posts.xml"
site = "generated"
[select]
items = {items}
[candidates]
kind = "accepted"
[gate]
models = []
"""
ANSWERS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--gigabytes", type=float, default=0.25)
    parser.add_argument("--items", type=int, default=2_000)
    parser.add_argument("--folder", type=Path, default=None, help="where the dump may lie for a while")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="palate-dump-") as name:
        folder = Path(name)
        needed = int(options.gigabytes * 1.6e9)
        if shutil.disk_usage(folder).free < needed:
            sys.exit(f"{folder} has less than {needed / 1e9:.1f} GB free; name another place with --folder")
        started = time.monotonic()
        posts = write_dump(folder / "Posts.xml", int(options.gigabytes * 1e9))
        size = (folder / "Posts.xml").stat().st_size
        print(f"dump: {size / 1e9:.2f} GB, {posts:,} posts, written in {(time.monotonic() - started) / 60:.1f} min")
        (folder / "plan.toml").write_text(PLAN.format(items=options.items))
        started = time.monotonic()
        command = [sys.executable, "-m", "palate", "build", "plan.toml", "--json"]
        done = subprocess.run(command, cwd=folder, env=os.environ, stdout=subprocess.DEVNULL, check=False)
        minutes = (time.monotonic() - started) / 60
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        lines = (folder / "generated" / "comparisons.jsonl").read_bytes().count(b"\n") if not done.returncode else 0
        print(f"build: {minutes:.1f} min, peak memory {peak:,.0f} MiB, {lines:,} comparisons, exit {done.returncode}")


def write_dump(file: Path, size: int) -> int:
    """Questions with an accepted answer and two others, by a tenth as many users; texts repeat a pool of words."""
    drawn = random.Random(0)
    words = ["".join(drawn.choices("abcdefghijklmnopqrstuvwxyz", k=drawn.randint(2, 10))) for _ in range(5_000)]
    pool = [" ".join(drawn.choices(words, k=drawn.randint(40, 300))) for _ in range(5_000)]
    titles = [" ".join(drawn.choices(words, k=8)) for _ in range(5_000)]
    id = 0
    written = 0
    with file.open("w", encoding="utf-8", buffering=1 << 20) as stream:
        stream.write('<?xml version="1.0" encoding="utf-8"?>\n<posts>\n')
        while written < size:
            question = id + 1
            people = max(100, question // 10)
            date = f"20{10 + id // 50_000_000:02d}-01-01T{id // 3_600_000 % 24:02d}:{id // 60_000 % 60:02d}:"
            second = f"{id // 1000 % 60:02d}.{id % 1000:03d}"
            rows = [
                f'  <row Id="{question}" PostTypeId="1" AcceptedAnswerId="{question + 1}" CreationDate="{date}{second}"'
                f' Score="3" Body="&lt;p&gt;{drawn.choice(pool)}&lt;/p&gt;&#xA;"'
                f' OwnerUserId="{drawn.randint(1, people)}" Title="{drawn.choice(titles)}" />\n'
            ]
            for number in range(1, ANSWERS + 1):
                rows.append(
                    f'  <row Id="{question + number}" PostTypeId="2" ParentId="{question}"'
                    f' CreationDate="{date}{second}"'
                    f' Score="{drawn.randint(0, 9)}" Body="&lt;p&gt;{drawn.choice(pool)}&lt;/p&gt;&#xA;"'
                    f' OwnerUserId="{drawn.randint(1, people)}" />\n'
                )
            id += 1 + ANSWERS
            text = "".join(rows)
            stream.write(text)
            written += len(text)
        stream.write("</posts>\n")
    return id


if __name__ == "__main__":
    main()
