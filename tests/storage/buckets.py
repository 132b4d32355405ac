"""A small benchmark and models of one's own, and what lies in a bucket."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from typing import NamedTuple

from command import Done, palate
from palate.data import write_benchmark
from palate.records import Benchmark, Card, Comparison, Post, User
from palate.storage import Store
from palate.storage._address import files_root

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "tester",
    "AWS_SECRET_ACCESS_KEY": "not-a-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
}
CARD = Card(name="drinks", title="Drinks", version="1", licence="none", source="made for the tests")
MODELS = """
import os
import time

from palate import Rating


class Length:
    name = "length"
    batch_size = 2
    fingerprint = "1"

    def rate(self, asks):
        time.sleep(float(os.environ.get("SLOW", "0")))
        return [Rating([len(text) + len(ask.view.text) for text in ask.responses]) for ask in asks]
"""
EVAL = ("eval", "drinks", "--rm", "./mine.py:Length", "--view", "none", "--view", "posts:2", "--view", "swapped")


class Server(NamedTuple):
    """A server of buckets."""

    url: str

    def permit(self, requests: str) -> None:
        """Answer so many requests; those that follow lack the right to anything."""
        words = {"Content-Type": "text/plain"}
        asked = urllib.request.Request(f"{self.url}/moto-api/reset-auth", data=requests.encode(), headers=words)
        urllib.request.urlopen(asked).close()


def drinks() -> Benchmark:
    people, items = {}, []
    for one in range(6):
        name = f"drinker-{one}"
        texts = [f"On day {day} the person called {name} had cup number {one * day} of that tea." for day in range(3)]
        posts = tuple(Post(id=f"{one}-{day}", text=text, sequence=day) for day, text in enumerate(texts))
        people[name] = User(id=name, posts=posts)
        for place in range(3):
            pair = (f"Tea number {one}{place}, as ever.", f"Coffee, and a biscuit {one}{place}.")
            items.append(
                Comparison(
                    id=f"{one}-{place}",
                    user_id=name,
                    prompt=f"What shall it be, {place}?",
                    responses=pair,
                    preferred=(one + place) % 2,
                    sequence=3 + place,
                )
            )
    return Benchmark(card=CARD, users=people, comparisons=tuple(items))


def workplace(folder: Path) -> Path:
    folder.mkdir()
    (folder / "mine.py").write_text(MODELS)
    write_benchmark(drinks(), folder / "drinks")
    return folder


def machine(place: Path, *words: str | Path, cache: str = "cache", **environment: str) -> Done:
    """A command on a machine with this cache."""
    return palate(*words, cwd=place, PALATE_CACHE=str(place / cache), **environment)


def done(place: Path, *words: str | Path, cache: str = "cache") -> Done:
    """The same, which ends well."""
    told = machine(place, *words, cache=cache)
    assert told.returncode == 0, told.stderr
    return told


def in_bucket(url: str) -> dict[str, bytes]:
    """Everything that lies there, palate's own objects too."""
    store = Store(url)
    names = [*store.objects(), *store.objects(hidden=True)]
    return {name: store.read(name) or b"" for name in sorted(names)}


def here(folder: Path, cut: tuple[str, str] = ("", "")) -> dict[str, bytes]:
    """Every file of a folder, with a word in it replaced."""
    old, new = (word.encode() for word in cut)
    return {
        file.relative_to(folder).as_posix(): file.read_bytes().replace(old, new) if old else file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def left_here() -> list[Path]:
    """Files of working copies on this machine."""
    return [file for file in files_root().rglob("*") if file.is_file()]
