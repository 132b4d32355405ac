"""The same asks rated in this process and behind a server: how much time HTTP takes, and how far scores are apart.

    python benchmarks/remote.py
    python benchmarks/remote.py --url http://127.0.0.1:8000/v1 --model org/name

Without `--url` it starts a server of its own on this machine: the same weights through transformers, in the shapes of
vLLM and SGLang, one text at a time and with nothing kept from one text to the next. So the first ratio is that of
reading every text whole to reading a profile once. What requests take beside the model is shown apart, for one text;
with `--model tiny` there is little else.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[0] = str(Path(__file__).parents[1] / "tests")

import argparse
import importlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from palate.data import load_benchmark
from palate.engine import require
from palate.engine._weights import weights_folder
from palate.records import Ask, PalateError, Part, Rating, View
from palate.rewards import make_reward_model, rate


def asks_of_users(users: int, asks: int, words: int) -> list[Ask]:
    """Each user's profile is as long as asked for, and each asks several times."""
    benchmark = load_benchmark("mini")
    items = benchmark.comparisons
    text = " ".join(item.prompt for item in items).split()
    made = []
    for user in range(users):
        start = user * words % max(1, len(text) - words)
        profile = f"User {user}. " + " ".join((text * (1 + words // len(text)))[start : start + words])
        view = View(name="posts:1", parts=(Part(kind="post", id=str(user), text=profile),), user_id=str(user))
        for turn in range(asks):
            item = items[(user * asks + turn) % len(items)]
            made.append(Ask(id=f"{user}-{turn}", prompt=item.prompt, responses=item.responses, view=view))
    return made


@contextmanager
def fresh_cache() -> Iterator[None]:
    """An answer from the cache would be no measurement; weights stay where they are."""
    before = os.environ.get("PALATE_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PALATE_CACHE"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["PALATE_CACHE"]
            else:
                os.environ["PALATE_CACHE"] = before


def timed(spec: str, asks: Sequence[Ask], busy: Callable[[], float]) -> tuple[float, float, list[Rating]]:
    """How long the asks took, for how much of that the server's model ran, and the ratings."""
    with fresh_cache():
        model = make_reward_model(spec)
        rate(model, [Ask(id="w", prompt="Warm?", responses=("Yes.", "No."), view=View(name="none"))])
        start, before = time.perf_counter(), busy()
        ratings = rate(model, asks)
        return time.perf_counter() - start, busy() - before, ratings


def apart(one: Sequence[Rating], other: Sequence[Rating]) -> float:
    pairs = [
        (a, b)
        for left, right in zip(one, other, strict=True)
        if left.scores is not None and right.scores is not None
        for a, b in zip(left.scores, right.scores, strict=True)
    ]
    if not pairs:
        raise PalateError("nothing was scored on both sides")
    return max(abs(a - b) for a, b in pairs)


def compare(folder: Path, addresses: dict[str, str], name: str, asks: Sequence[Ask], busy: Callable[[], float]) -> None:
    texts = sum(len(ask.responses) for ask in asks)
    print(" ".join(f"{title:>11}" for title in ("", "time", "texts/s", "ratio", "model", "beside it", "apart")))
    seconds, _, here = timed(f"likelihood:{folder}", asks, busy)
    cells = ["in process", f"{seconds:.2f} s", f"{texts / seconds:.1f}", "1.00"]
    print(" ".join(f"{cell:>11}" for cell in cells), flush=True)
    for server, address in addresses.items():
        took, model, there = timed(f"likelihood:{name},url={address},tokenizer={folder}", asks, busy)
        beside = f"{1000 * (took - model) / texts:.1f} ms" if model else "unknown"
        cells = [server, f"{took:.2f} s", f"{texts / took:.1f}", f"{took / seconds:.2f}"]
        cells += [f"{model:.2f} s" if model else "unknown", beside, f"{apart(here, there):.1e}"]
        lost = sum(rating.scores is None for rating in there)
        print(" ".join(f"{cell:>11}" for cell in cells), f" {lost} unscored" if lost else "", flush=True)


@contextmanager
def weights(name: str) -> Iterator[Path]:
    """The folder of a model; `tiny` has weights so few that nearly all of the time is HTTP."""
    if name != "tiny":
        yield weights_folder(name)
        return
    tiny_models = importlib.import_module("tiny_models")
    with tempfile.TemporaryDirectory() as folder:
        yield tiny_models.save(Path(folder) / "tiny", tiny_models.build("llama", max_position_embeddings=8_192))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2", help="a folder, a name, or `tiny`")
    parser.add_argument("--url", help="a server that serves the model already")
    parser.add_argument("--users", type=int, default=3)
    parser.add_argument("--asks", type=int, default=4, help="of each user")
    parser.add_argument("--words", type=int, default=250, help="in a profile")
    chosen = parser.parse_args()
    asks = asks_of_users(chosen.users, chosen.asks, chosen.words)
    torch, transformers = require("torch", "local"), require("transformers", "local")
    transformers.utils.logging.disable_progress_bar()
    texts = sum(len(ask.responses) for ask in asks)
    print(f"{chosen.model}, torch {torch.__version__}, {chosen.users} users x {chosen.asks} asks, {texts} texts")
    with weights(chosen.model) as folder:
        if chosen.url:
            compare(folder, {"server": chosen.url}, chosen.model, asks, lambda: 0.0)
            return
        with importlib.import_module("token_server").token_server(folder, context=8_192) as server:
            addresses = {kind: f"{server.address}/{kind}/v1" for kind in ("vllm", "sglang")}
            compare(folder, addresses, "m", asks, lambda: server.busy)


if __name__ == "__main__":
    main()
