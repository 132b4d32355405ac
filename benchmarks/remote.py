"""The same asks rated in this process and behind a server: how much time HTTP takes, and how far scores are apart.

    python benchmarks/remote.py
    python benchmarks/remote.py --url http://127.0.0.1:8000/v1 --model FOLDER --rewards likelihood pmi judge grader
    python benchmarks/remote.py --url http://127.0.0.1:8001/v1 --model CLASSIFIER_FOLDER --rewards classifier

Without `--url` it starts a server of its own on this machine: the same weights through transformers, in the shapes of
vLLM and SGLang, one text at a time and with nothing kept from one text to the next. So the first ratio is that of
reading every text whole to reading a profile once. What requests take beside the model is shown apart, for one text;
with `--model tiny` there is little else.

Every repeat asks about other users, so that no answer and no profile is remembered from the one before. `apart` is the
largest difference of a score to that in this process, and `spread` the standard deviation of the scores. Where
weights are not in float32, `off float32` is the largest difference to the same weights in float32 in this process.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[0] = str(Path(__file__).parents[1] / "tests")

import argparse
import importlib
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from palate.data import load_benchmark
from palate.engine import require
from palate.engine._weights import weights_folder
from palate.records import Ask, PalateError, Part, Rating, View
from palate.rewards import make_reward_model, rate

REWARDS = ("likelihood", "pmi", "classifier", "judge", "grader")
OF_TOKENS = ("likelihood", "pmi", "classifier")
"""The rewards for which palate cuts the text into tokens itself, with the served model's tokenizer."""
COLUMNS = ("reward", "where", "time", "texts/s", "ratio", "model", "beside it", "apart", "off float32", "spread")


def asks_of_users(first: int, users: int, asks: int, words: int) -> list[Ask]:
    """Each user's profile is as long as asked for, and each asks several times."""
    benchmark = load_benchmark("mini")
    items = benchmark.comparisons
    text = " ".join(item.prompt for item in items).split()
    made = []
    for user in range(first, first + users):
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


def timed(spec: str, asks: Sequence[Sequence[Ask]], busy: Callable[[], float]) -> tuple[float, float, list[Rating]]:
    """How long a repeat took, for how much of that the server's model ran, and all ratings. The first one warms up."""
    with fresh_cache():
        model = make_reward_model(spec)
        rate(model, asks[0])
        times, models, ratings = list[float](), list[float](), list[Rating]()
        for some in asks[1:]:
            start, before = time.perf_counter(), busy()
            ratings += rate(model, some)
            times.append(time.perf_counter() - start)
            models.append(busy() - before)
        return statistics.median(times), statistics.median(models), ratings


def apart(one: Sequence[Rating], other: Sequence[Rating]) -> float | None:
    """The largest difference between two scores of one response; None where nothing was scored on both sides."""
    pairs = [
        (a, b)
        for left, right in zip(one, other, strict=True)
        if left.scores is not None and right.scores is not None
        for a, b in zip(left.scores, right.scores, strict=True)
    ]
    return max((abs(a - b) for a, b in pairs), default=None)


def spread(ratings: Sequence[Rating]) -> float | None:
    scores = list(itertools.chain.from_iterable(rating.scores or () for rating in ratings))
    return statistics.pstdev(scores) if scores else None


def show(cells: Sequence[float | str | None], ratings: Sequence[Rating]) -> None:
    texts = ["-" if cell is None else cell if isinstance(cell, str) else f"{cell:.1e}" for cell in cells]
    lost = [rating.unscored for rating in ratings if rating.scores is None]
    note = f"  {len(lost)} of {len(ratings)} unscored: {lost[0]}" if lost else ""
    print(" ".join(f"{text:>11}" for text in texts) + note, flush=True)


def compare(
    reward: str,
    folder: Path,
    addresses: dict[str, str],
    name: str,
    asks: Sequence[Sequence[Ask]],
    device: str,
    dtype: str,
    busy: Callable[[], float],
) -> None:
    """One line for this process and one for each server."""
    texts = sum(len(ask.responses) for ask in asks[-1])
    seconds, _, here = timed(f"{reward}:{folder},device={device},dtype={dtype}", asks, busy)
    precise = here
    if dtype != "float32":
        precise = timed(f"{reward}:{folder},device={device},dtype=float32", asks, busy)[2]
    ours = [reward, "in process", f"{seconds:.2f} s", f"{texts / seconds:.1f}", "1.00", "", "", ""]
    show([*ours, apart(precise, here), spread(here)], here)
    for server, address in addresses.items():
        tokenizer = f",tokenizer={folder}" if reward in OF_TOKENS else ""
        took, model, there = timed(f"{reward}:{name},url={address}{tokenizer}", asks, busy)
        beside = f"{1000 * (took - model) / texts:.1f} ms" if model else "unknown"
        cells = [reward, server, f"{took:.2f} s", f"{texts / took:.1f}", f"{took / seconds:.2f}"]
        cells += [f"{model:.2f} s" if model else "unknown", beside]
        show([*cells, apart(here, there), apart(precise, there), spread(there)], there)


@contextmanager
def weights(name: str) -> Iterator[Path]:
    """The folder of a model; `tiny` has weights so few that nearly all of the time is HTTP."""
    if name != "tiny":
        yield weights_folder(name)
        return
    tiny_models = importlib.import_module("tiny_models")
    with tempfile.TemporaryDirectory() as folder:
        yield tiny_models.save(Path(folder) / "tiny", tiny_models.build("llama", max_position_embeddings=8_192))


@contextmanager
def servers(url: str | None, folder: Path) -> Iterator[tuple[dict[str, str], Callable[[], float]]]:
    """Addresses by name, and for how many seconds the model behind them has run, which only our own server tells."""
    if url is not None:
        yield {"server": url}, lambda: 0.0
        return
    with importlib.import_module("token_server").token_server(folder, context=8_192) as server:
        yield {kind: f"{server.address}/{kind}/v1" for kind in ("vllm", "sglang")}, lambda: server.busy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2", help="a folder, a name, or `tiny`")
    parser.add_argument("--url", help="a server that serves the model already")
    parser.add_argument("--rewards", nargs="+", default=["likelihood"], choices=REWARDS)
    parser.add_argument("--users", type=int, default=3)
    parser.add_argument("--asks", type=int, default=4, help="of each user")
    parser.add_argument("--words", type=int, default=250, help="in a profile")
    parser.add_argument("--repeats", type=int, default=1, help="each about other users; the median counts")
    parser.add_argument("--device", help="where the model of this process runs; a GPU if there is one")
    parser.add_argument("--dtype", help="of the model in this process; bfloat16 on a GPU, else float32")
    chosen = parser.parse_args()
    if not chosen.url and not set(chosen.rewards) <= {"likelihood", "pmi"}:
        parser.error("without --url there is likelihood and pmi: this program's own server has nothing else")
    firsts = range(0, chosen.users * (chosen.repeats + 1), chosen.users)
    asks = [asks_of_users(first, chosen.users, chosen.asks, chosen.words) for first in firsts]
    torch, transformers = require("torch", "local"), require("transformers", "local")
    transformers.utils.logging.disable_progress_bar()
    device = chosen.device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = chosen.dtype or ("bfloat16" if device.startswith("cuda") else "float32")
    texts = sum(len(ask.responses) for ask in asks[-1])
    print(
        f"{chosen.model}, torch {torch.__version__}, {chosen.users} users x {chosen.asks} asks, {texts} texts, ", end=""
    )
    print(f"profiles of {chosen.words} words, {device}, {dtype}")
    print(" ".join(f"{title:>11}" for title in COLUMNS), flush=True)
    failed = False
    with weights(chosen.model) as folder, servers(chosen.url, folder) as (addresses, busy):
        name = chosen.model if chosen.url else "m"
        for reward in chosen.rewards:
            try:
                compare(reward, folder, addresses, name, asks, device, dtype, busy)
            except PalateError as error:
                failed = True
                print(f"{reward}: {error}", file=sys.stderr, flush=True)
    sys.exit(2 if failed else 0)


if __name__ == "__main__":
    main()
