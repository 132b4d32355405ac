"""A benchmark with planted tastes that no impersonal model can see.

Users come in couples who are shown the same pairs of texts and always choose differently: one of each couple
likes texts with questions and without numbers, the other the reverse. Whatever an impersonal model says of a
pair, it is right about exactly one of the two. Everything else about the texts is noise.
"""

from __future__ import annotations

import random

from palate.records import Benchmark, Card, Comparison, Judgement, Post, User

WORDS = "garden river window evening table letter music winter bridge paper coffee market story shoulder".split()
CARD = Card(name="planted", title="Planted", version="1", licence="CC0-1.0", source="a seed")


def planted(couples: int = 30, choices: int = 24, history: int = 8, seed: int = 0, *, noise: float = 0.0) -> Benchmark:
    """Couples of opposite tastes; each user has `choices` comparisons and `history` judgements besides.

    The demographic field `taste` names the taste, and posts are written in the style that the user likes.
    """
    draw = random.Random(seed)
    users: dict[str, User] = {}
    comparisons: list[Comparison] = []
    for couple in range(couples):
        pairs = [_pair(draw, f"{couple}-{number}") for number in range(choices + history)]
        for likes_questions in (True, False):
            name = f"user-{couple}-{'asks' if likes_questions else 'counts'}"
            taken = [(0 if likes_questions else 1) ^ int(draw.random() < noise) for _ in pairs]
            users[name] = User(
                id=name,
                demographics={"taste": "asks" if likes_questions else "counts"},
                posts=tuple(
                    Post(id=f"{name}-p{number}", text=_text(draw, asks=likes_questions, mark=f"{name} {number}"))
                    for number in range(3)
                ),
                judgements=tuple(
                    Judgement(id=f"{name}-j{number}", prompt=prompt, responses=texts, preferred=choice)
                    for number, ((prompt, texts), choice) in enumerate(zip(pairs[:history], taken, strict=False))
                ),
            )
            comparisons += [
                Comparison(
                    id=f"{name}-{number}",
                    user_id=name,
                    prompt=prompt,
                    responses=texts,
                    preferred=choice,
                    group=f"{couple}-{number}",
                    category=f"part {number % 4}",
                )
                for number, ((prompt, texts), choice) in enumerate(zip(pairs[history:], taken[history:], strict=True))
            ]
    return Benchmark(card=CARD, users=users, comparisons=tuple(comparisons))


def _pair(draw: random.Random, mark: str) -> tuple[str, tuple[str, str]]:
    texts = _text(draw, asks=True, mark=mark), _text(draw, asks=False, mark=mark)
    return f"Tell me about the {draw.choice(WORDS)}.", texts


def _text(draw: random.Random, *, asks: bool, mark: str) -> str:
    """A few sentences; `mark` makes the text unlike any other."""
    sentences = []
    for place in range(draw.randint(3, 5)):
        some = " ".join(draw.sample(WORDS, draw.randint(4, 7)))
        end = draw.choice("?.") if asks else "."
        number = "" if asks else f" {draw.randint(10, 99)}"
        sentences.append(f"The {some}{number}{'?' if asks and not place else end}")
    return " ".join([*sentences, f"Mark {''.join(chr(97 + ord(one) % 26) for one in mark)}."])
