"""The texts that simulated users choose between: real questions and answers, changed by small edits."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec

from palate.data import load_benchmark
from palate.records import Benchmark, PalateError
from palate.simulate._edits import edited

POST_PROMPTS = (
    "Write a short post about something that happened to you.",
    "Write a short post about a thing that is on your mind.",
    "Write a short post about what you have been doing lately.",
    "Write a short post about something you have tried for the first time.",
    "Write a short post about a small problem of yours, and ask for advice.",
    "Write a short post about a thing you care for.",
)
"""For posts, which answer no question; a policy can write to these as well."""
SOURCES = ("mini", "stackexchange")


class Offer(msgspec.Struct, frozen=True):
    """A prompt and two texts to choose between. Offers share no text, so that they can be split for training."""

    id: str
    prompt: str
    responses: tuple[str, str]
    category: str


def pool(seed: int, source: str = "mini", data_dir: Path | None = None) -> list[Offer]:
    """Every offer, edited anew for each seed, in an order that depends on the seed."""
    if source not in SOURCES:
        raise PalateError(f"option texts={source}: it is {' or '.join(SOURCES)}")
    benchmark = load_benchmark(source, data_dir=data_dir)
    found = _answers(benchmark)
    if source == "mini":
        found += _past_answers(benchmark) + _posts(benchmark, seed)
    offers = [_edited(offer, random.Random(f"edits {seed} {offer.id}")) for offer in _without_repeats(found)]
    random.Random(f"pool {seed}").shuffle(offers)
    return offers


def _answers(benchmark: Benchmark) -> list[Offer]:
    """Two answers to one question."""
    return [
        Offer(item.id, item.prompt, (item.responses[0], item.responses[1]), "answers") for item in benchmark.comparisons
    ]


def _past_answers(benchmark: Benchmark) -> list[Offer]:
    """The short answers that the people of the benchmark chose between in the past."""
    return [
        Offer(f"{user.id}-past-{place}", past.prompt, (past.responses[0], past.responses[1]), "short answers")
        for user in benchmark.users.values()
        for place, past in enumerate(user.judgements)
    ]


def _posts(benchmark: Benchmark, seed: int) -> list[Offer]:
    """Posts of different people, two by two: these differ in what they are about, as answers to one question do not."""
    posts = [post for user in benchmark.users.values() for post in user.posts]
    random.Random(f"posts {seed}").shuffle(posts)
    return [
        Offer(f"{one.id}+{other.id}", POST_PROMPTS[place % len(POST_PROMPTS)], (one.text, other.text), "posts")
        for place, (one, other) in enumerate(zip(posts[::2], posts[1::2], strict=False))
    ]


def _without_repeats(offers: list[Offer]) -> list[Offer]:
    """The first offer of each text: both twins of `mini` were offered the same answers."""
    seen: set[str] = set()
    kept = []
    for offer in offers:
        if not seen & set(offer.responses):
            kept.append(offer)
            seen.update(offer.responses)
    return kept


def _edited(offer: Offer, chance: random.Random) -> Offer:
    one, other = (edited(text, chance) for text in offer.responses)
    return msgspec.structs.replace(offer, responses=(one, other))
