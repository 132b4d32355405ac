"""200 people at once: answers a second, waiting times, and whether every acknowledged answer is there exactly once.

    python benchmarks/collect.py                 # 10,000 answers on SQLite and on PostgreSQL
    python benchmarks/collect.py --kills 10      # and the server killed ten times under load, on each

The server is `palate collect serve` in a process of its own. PostgreSQL is a real one that syncs to disk.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1] / "tests" / "collect")  # here, `statistics` would hide Python's own

import argparse
import asyncio
import os
import random
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import numpy as np
from sqlalchemy import select

from palate.collect._access import invite
from palate.collect._init import make_project
from palate.collect._serve import Opened, open_collection
from palate.collect._tables import events


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "palate", "collect", "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    address = ""
    for line in process.stderr:
        if line.startswith("Participants"):
            address = line.split()[-1]
        if line.startswith("Taking"):
            break
    try:
        yield address, process
    finally:
        process.kill()
        process.wait()


def processor_seconds(process: int) -> float:
    """What a process has used so far; 0 where the system does not tell."""
    file = Path(f"/proc/{process}/stat")
    fields = file.read_text().rpartition(")")[2].split() if file.exists() else ["0"] * 13
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Load:
    """Everybody at once, each sending one answer after another."""

    def __init__(self, address: str, paths: list[str], answers: int, server: int) -> None:
        self.address, self.paths, self.left, self.server = address, paths, answers, server
        self.acknowledged: list[str] = []
        self.waits: list[float] = []
        self.retried = 0
        self.ready = 0
        self.go = asyncio.Event()
        self.seconds = self.processor = 0.0

    async def run(self) -> None:
        """Everybody comes in; then all answer, until there is nothing left to answer."""
        people = [asyncio.create_task(self.person(path)) for path in self.paths]
        while self.ready + sum(one.done() for one in people) < len(people):
            await asyncio.sleep(0.05)
        started, used = time.monotonic(), processor_seconds(self.server)
        self.go.set()
        await asyncio.gather(*people)
        self.seconds, self.processor = time.monotonic() - started, processor_seconds(self.server) - used

    async def person(self, path: str) -> None:
        """One person with a connection of their own."""
        limits = httpx.Limits(max_connections=1)
        async with httpx.AsyncClient(base_url=self.address, timeout=120, limits=limits, follow_redirects=True) as http:
            try:
                page = (await http.get(path)).text
                csrf = page.split('name="csrf" content="')[1].split('"')[0]
                await http.post("/consent", data={"csrf": csrf, "agreed": "yes"})
                items = (await http.get("/api/tasks/pairs")).json()["items"]
                self.ready += 1
                await self.go.wait()
                while self.left > 0:
                    self.left -= 1
                    await self.answer(http, csrf, random.choice(items))
            except httpx.HTTPError:
                return  # the server was killed

    async def answer(self, http: httpx.AsyncClient, csrf: str, item: dict[str, str]) -> None:
        """One answer, and now and then the same again."""
        event = {
            "id": str(uuid.uuid4()), "kind": "answer", "task": "pairs", "item": item["item"],
            "repeat": item["repeat"], "position": 0, "reason": "It is shorter.", "seconds": 8.0,
        }  # fmt: skip
        started = time.monotonic()
        answer = await http.post("/api/events", json={"events": [event]}, headers={"x-csrf-token": csrf})
        self.waits.append(time.monotonic() - started)
        if answer.status_code == 200:
            self.acknowledged += answer.json()["saved"]
        if random.random() < 0.02:  # a browser that did not hear the answer sends it again
            self.retried += 1
            await http.post("/api/events", json={"events": [event]}, headers={"x-csrf-token": csrf})


def check(opened: Opened, acknowledged: list[str]) -> tuple[int, int]:
    with opened.store.reading() as connection:
        held = list(connection.execute(select(events.c.id)).scalars())
    return len(set(acknowledged) - set(held)), len(held) - len(set(held))


def measure(name: str, people: int, answers: int, kills: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "study"
        file = make_project(study, "compare")
        file.write_text(file.read_text().replace("overlap = 75", "overlap = 0"))  # so that everybody has items
        opened = open_collection(study)
        paths = [one.path for one in invite(opened.store, opened.keys, count=people)]
        with served(study) as (address, process):
            load = Load(address, paths, answers, process.pid)
            asyncio.run(load.run())
        lost, twice = check(opened, load.acknowledged)
        waits = np.array(load.waits) * 1000
        print(
            f"{name}: {people} people, {len(load.acknowledged):,} answers acknowledged ({load.retried} sent twice), "
            f"{len(load.waits) / load.seconds:,.0f} a second; waiting time {np.median(waits):,.0f} ms median, "
            f"{np.percentile(waits, 99):,.0f} ms 99th percentile; "
            f"{1000 * load.processor / len(load.waits):.1f} ms of the server's processor an answer; "
            f"{lost} lost, {twice} twice",
            flush=True,
        )
        acknowledged = list(load.acknowledged)
        for number in range(kills):
            paths = [one.path for one in invite(opened.store, opened.keys, count=40)]  # the others are through
            with served(study) as (address, process):
                load = Load(address, paths, 10**9, process.pid)

                async def killed(load: Load = load, process: subprocess.Popen[str] = process) -> None:
                    running = asyncio.create_task(load.run())
                    await load.go.wait()
                    await asyncio.sleep(random.uniform(0.2, 1.5))
                    process.kill()
                    await running

                asyncio.run(killed())
            acknowledged += load.acknowledged
            print(f"{name}: kill {number + 1}, {len(load.acknowledged):,} answers acknowledged before it", flush=True)
        if kills:
            lost, twice = check(opened, acknowledged)
            print(f"{name}: {kills} kills, {len(acknowledged):,} acknowledged in all; {lost} lost, {twice} twice")
        opened.store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=200)
    parser.add_argument("--answers", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--only", choices=["sqlite", "postgres"])
    options = parser.parse_args()
    if options.only != "postgres":
        measure("SQLite", options.people, options.answers, options.kills)
    if options.only != "sqlite":
        from postgres_server import postgres_server  # type: ignore[import-not-found]

        with postgres_server(fsync=True) as address:
            os.environ["PALATE_COLLECT_DATABASE"] = address
            measure("PostgreSQL", options.people, options.answers, options.kills)


if __name__ == "__main__":
    main()
