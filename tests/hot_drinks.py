"""Couples who always choose differently, in words that a tiny language model learns to read in seconds."""

from __future__ import annotations

import random
from itertools import permutations
from pathlib import Path

import tiny_models
from palate.records import Benchmark, Card, Comparison, Judgement, User

CARD = Card(name="drinks", title="Drinks", version="1", licence="CC0-1.0", source="a seed")
WORDS = "morning garden kettle winter market window table".split()
FRAME = (
    f"What is known about the user:\n\nThis user was asked or asked: {' '.join(WORDS)}?\nThey preferred: 0 tea\n"
    "They did not prefer: 0 coffee\n\nsystem\nuser\nassistant\n"
)


def drinks(couples: int, choices: int = 4, history: int = 3) -> Benchmark:
    """Couples who are asked the same; one always takes tea, the other coffee."""
    draw = random.Random(0)
    users: dict[str, User] = {}
    comparisons: list[Comparison] = []
    asked = [" ".join(words) + "?" for words in permutations(WORDS, 3)]
    draw.shuffle(asked)
    for couple in range(couples):
        prompts = [asked.pop() for _ in range(choices + history)]
        for likes in ("tea", "coffee"):
            name = f"user-{couple}-{likes}"
            offered = [draw.sample([f"{n} tea", f"{n} coffee"], 2) for n in range(len(prompts))]
            taken = [next(place for place, text in enumerate(texts) if likes in text) for texts in offered]
            users[name] = User(
                id=name,
                judgements=tuple(
                    Judgement(id=f"{name}-j{n}", prompt=prompts[n], responses=tuple(offered[n]), preferred=taken[n])
                    for n in range(history)
                ),
            )
            comparisons += [
                Comparison(
                    id=f"{name}-{n}",
                    user_id=name,
                    prompt=prompts[n],
                    responses=tuple(offered[n]),
                    preferred=taken[n],
                    group=f"{couple}-{n}",
                )
                for n in range(history, len(prompts))
            ]
    return Benchmark(card=CARD, users=users, comparisons=tuple(comparisons))


def save_base(folder: Path) -> Path:
    """A Llama of random weights whose tokenizer has a token for each word that is common here."""
    model = tiny_models.build("llama")
    model.save_pretrained(folder)
    size = model.config.vocab_size
    words = tiny_models.tokenizer().train_new_from_iterator([FRAME] * 4, vocab_size=size, show_progress=False)
    words.save_pretrained(folder)
    return folder
