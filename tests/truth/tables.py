"""Tables shaped like those that real people leave behind, with a taste planted in them or with coins for labels.

Half of the people take the longer text and half the shorter, in `consistency` of their choices; in the others they
toss a coin. With consistency 0 there is nothing to be found.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from palate.records import Benchmark, Card, Comparison, Judgement, Post, User

WORDS = "garden river window evening table letter music winter bridge paper coffee market story shoulder".split()
CARD = Card(name="truth", title="A planted table", version="1", licence="CC0-1.0", source="a seed")

Row = tuple[str, str, tuple[str, str]]
"""Who was asked what, between which texts."""


def text(draw: random.Random, words: int) -> str:
    return " ".join(draw.choices(WORDS, k=words)) + f" {draw.randrange(10**9)}."


def pair(draw: random.Random) -> tuple[str, str]:
    longer, shorter = draw.randint(14, 22), draw.randint(5, 11)
    return (
        (text(draw, longer), text(draw, shorter)) if draw.random() < 0.5 else (text(draw, shorter), text(draw, longer))
    )


def one_table(draw: random.Random) -> Iterator[Row]:
    """Everybody was asked questions of their own; the history is the same table."""
    for person in range(40):
        for number in range(12):
            yield f"p{person}", f"question {person} {number}", pair(draw)


def rankings(draw: random.Random) -> Iterator[Row]:
    """Rankings of three texts, expanded to pairs: every text stands in two of a person's rows."""
    for person in range(40):
        for number in range(5):
            texts = [text(draw, words) for words in draw.sample((6, 12, 20), 3)]
            for one in range(3):
                for other in range(one):
                    yield f"p{person}", f"question {person} {number}", (texts[one], texts[other])


def shared(draw: random.Random) -> Iterator[Row]:
    """Everybody was asked the same questions, in another order."""
    asked = [(f"question {number}", pair(draw)) for number in range(16)]
    for person in range(40):
        for prompt, texts in draw.sample(asked, 12):
            yield f"p{person}", prompt, texts


def two_people(draw: random.Random) -> Iterator[Row]:
    """Every question was put to two people."""
    for number in range(240):
        texts, one = pair(draw), draw.randrange(40)
        for person in (one, (one + draw.randint(1, 39)) % 40):
            yield f"p{person}", f"question {number}", texts


def long_rater(draw: random.Random) -> Iterator[Row]:
    """One person has done a third of all the work."""
    for person in range(40):
        for number in range(200 if person == 0 else 10):
            yield f"p{person}", f"question {person} {number}", pair(draw)


SHAPES: dict[str, Callable[[random.Random], Iterator[Row]]] = {
    function.__name__: function for function in (one_table, rankings, shared, two_people, long_rater)
}


def table(shape: str, consistency: float, seed: int = 0) -> Benchmark:
    """A benchmark whose items are its users' history, as tables of choices are read."""
    draw = random.Random(f"{shape} {seed}")
    rows = list(SHAPES[shape](draw))
    people = sorted({person for person, _, _ in rows})
    loves_longer = dict(zip(draw.sample(people, len(people)), [True, False] * len(people), strict=False))
    choices: dict[str, list[Judgement]] = {person: [] for person in people}
    whims: dict[tuple[str, str], float] = {}
    for number, (person, prompt, texts) in enumerate(rows):
        wanted = int(len(texts[1]) > len(texts[0])) ^ (not loves_longer[person])
        # What a person likes for no reason they like again where it recurs: a ranking is one, taste or not.
        one, other = (whims.setdefault((person, text), draw.random()) for text in texts)
        preferred = wanted if draw.random() < consistency else int(other > one)
        one = Judgement(id=f"{number}", prompt=prompt, responses=texts, preferred=preferred, sequence=number)
        choices[person].append(one)
    users = {
        person: User(id=person, judgements=tuple(own), demographics={"side": str(index % 2)})
        for index, (person, own) in enumerate(choices.items())
    }
    items = tuple(
        Comparison(
            id=one.id or "", user_id=person, prompt=one.prompt, responses=one.responses, preferred=one.preferred,
            sequence=one.sequence,
        )
        for person, own in choices.items()
        for one in own
    )  # fmt: skip
    return Benchmark(card=CARD, users=users, comparisons=items)


def posts_only(consistency: float, seed: int = 0) -> Benchmark:
    """People write about topics of their own, and like to be answered about them."""
    draw = random.Random(f"posts {seed}")
    users, items = {}, []

    def about(topic: list[str], words: int) -> str:
        return " ".join([*topic, *(f"word{draw.randrange(10**6)}" for _ in range(words - len(topic)))])

    for person in range(40):
        own = [f"topic{person}word{number}" for number in range(6)]
        written = tuple(Post(id=f"{person}-{number}", text=about(draw.sample(own, 3), 11)) for number in range(6))
        users[f"p{person}"] = User(id=f"p{person}", posts=written)
        for number in range(8):
            texts = about(draw.sample(own, 3), 11), about([], 11)
            preferred = 0 if draw.random() < consistency else draw.randrange(2)
            items.append(
                Comparison(
                    id=f"{person}-{number}", user_id=f"p{person}", prompt=f"question {person} {number}",
                    responses=texts, preferred=preferred,
                )
            )  # fmt: skip
    return Benchmark(card=CARD, users=users, comparisons=tuple(items))


def demographics_only(consistency: float, seed: int = 0) -> Benchmark:
    """Nothing is known of anybody but a group, and the group decides."""
    draw = random.Random(f"groups {seed}")
    users, items = {}, []
    for person in range(60):
        old = person % 2 == 0
        users[f"p{person}"] = User(id=f"p{person}", demographics={"age": "old" if old else "young"})
        for number in range(6):
            texts = pair(draw)
            wanted = int(len(texts[1]) > len(texts[0])) ^ (not old)
            preferred = wanted if draw.random() < consistency else draw.randrange(2)
            items.append(
                Comparison(
                    id=f"{person}-{number}", user_id=f"p{person}", prompt=f"question {person} {number}",
                    responses=texts, preferred=preferred,
                )
            )  # fmt: skip
    return Benchmark(card=CARD, users=users, comparisons=tuple(items))


def topics(seed: int = 0) -> Benchmark:
    """Everybody likes the longer text on some topics and the shorter on others; who asks about what is all that
    differs between people, so that nothing is personal."""
    draw = random.Random(f"topics {seed}")
    users, items = {}, []
    for person in range(48):
        asked = [person % 8] * 9 + draw.sample(range(8), 4)
        own = []
        for number, topic in enumerate(draw.sample(asked, len(asked))):
            texts = pair(draw)
            wanted = int(len(texts[1]) > len(texts[0])) ^ (topic % 2)
            preferred = wanted if draw.random() < 0.9 else 1 - wanted
            one = Judgement(
                id=f"{person}-{number}", prompt=f"question {topic} {draw.randrange(3)}", responses=texts,
                preferred=preferred, sequence=number,
            )  # fmt: skip
            own.append(one)
            items.append(
                Comparison(
                    id=one.id or "", user_id=f"p{person}", prompt=one.prompt, responses=texts, preferred=preferred,
                    category=f"topic {topic}", sequence=number,
                )
            )  # fmt: skip
        users[f"p{person}"] = User(id=f"p{person}", judgements=tuple(own))
    return Benchmark(card=CARD, users=users, comparisons=tuple(items))
