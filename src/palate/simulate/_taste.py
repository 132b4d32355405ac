"""What a simulated user likes: weights on measurable traits and topics of a text, known exactly; and says of it.

    utility_u(x) = sum over k of w_uk * clip((trait_k(x) - centre_k) / scale_k, -3, 3)

The taste w_u is a function of the seed and the number in the user's id and of nothing else, so that whoever knows
the id knows the truth. It is sparse (two to four traits and one topic) and of length one. Users come in couples,
0 and 1, 2 and 3 and so on, the second with the opposite taste: over couples the mean taste is exactly zero, and
what all users like is nothing.

Topics are told by word lists: no model and no download, and any writer can vary them. The lists are English, and
short: they are there to tell topics apart, not to be complete. What users say of their taste has several wordings
and no numbers.
"""

from __future__ import annotations

import hashlib
import math
import random
import re
from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np

from palate.engine import TRAITS, load_encoder
from palate.records import Aspect, PalateError, Privileged

_WORD = re.compile(r"[^\W\d_]+")

TOPICS: dict[str, frozenset[str]] = {
    "food": frozenset(
        "food cook cooks cooked cooking kitchen bread dough flour cake soup meal meals dinner supper lunch breakfast "
        "recipe recipes dish dishes oven fridge salt pepper sauce spice spices beans rice cheese fish meat vegetables "
        "fruit taste tastes flavour plate menu restaurant coffee tea beer wine drink drinks brew brewed brewing roast "
        "espresso kettle".split()
    ),
    "music": frozenset(
        "music musician musicians song songs sing sings singing singer choir tune tunes melody rhythm guitar piano "
        "violin drum drums band orchestra concert concerts album albums chord chords radio listen listens listening "
        "recording recordings beat beats stage jazz opera dance dances dancing".split()
    ),
    "books": frozenset(
        "book books novel novels page pages chapter chapters story stories read reads reader readers reading library "
        "author authors writer writers poem poems poetry print printed paragraph paragraphs fiction edition notebook "
        "diary tale tales literature text texts".split()
    ),
    "travel": frozenset(
        "travel travels travelled travelling trip trips journey journeys train trains station bus boat ferry flight "
        "ticket tickets hotel hostel map maps road roads route routes city cities town towns village abroad country "
        "countries border luggage suitcase timetable guide museum tour tours visit visits".split()
    ),
    "family": frozenset(
        "family families mother father mum dad parents parent brother sister son daughter child children kids wife "
        "husband aunt uncle cousin cousins grandmother grandfather grandparents baby relatives wedding birthday "
        "marriage home".split()
    ),
    "nature": frozenset(
        "nature garden gardens tree trees forest wood woods river lake sea beach mountain mountains hill hills field "
        "fields bird birds animal animals dog dogs cat cats flower flowers plant plants leaf leaves weather rain snow "
        "wind sun winter spring summer autumn sky stars walk walks walking".split()
    ),
}
"""The words of each topic."""


@lru_cache(maxsize=2**14)
def topic_share(text: str, topic: str) -> float:
    """Which share of the words of a text belongs to a topic.

    >>> topic_share("My mother cooks soup.", "food")
    0.5
    """
    words = _WORD.findall(text.lower())
    return sum(word in TOPICS[topic] for word in words) / max(1, len(words))


FARTHEST = 3.0
"""A text further from the centre than this many scales is no more extreme: nobody's utility is without end."""
FEWEST_LOVES, MOST_LOVES = 2, 4

STANDARD: dict[str, tuple[float, float]] = {
    "length": (3.868, 0.6483),
    "sentence_length": (17.07, 6.264),
    "reading_ease": (73.35, 12.96),
    "formality": (0.08495, 0.1157),
    "first_person": (0.02995, 0.03845),
    "second_person": (0.02261, 0.03065),
    "questions": (0.007397, 0.01701),
    "exclamations": (0.00742, 0.02142),
    "numbers": (0.007781, 0.01971),
    "hedging": (0.008619, 0.01695),
    "list_form": (0.1111, 0.3143),
    "sentiment": (0.007752, 0.02523),
    "topic:food": (0.006314, 0.01569),
    "topic:music": (0.003825, 0.01216),
    "topic:books": (0.007344, 0.01578),
    "topic:travel": (0.004112, 0.01112),
    "topic:family": (0.005931, 0.01377),
    "topic:nature": (0.004678, 0.01258),
}
"""Centre and scale of each trait and topic: mean and standard deviation over all texts of `sim` with seed 0.

`python benchmarks/simulated.py --standard` computes them. They are fixed, since utilities must not change with the
texts at hand.
"""

_MEASURES = {
    name: partial(topic_share, topic=name.removeprefix("topic:")) if name.startswith("topic:") else TRAITS[name]
    for name in STANDARD
}
_USER = re.compile(r"sim-(\d+)-(\d+)\Z", re.ASCII)

Taste = dict[str, float]
"""Weights of what a user loves (above zero) and hates (below), strongest first; the rest is all the same to them."""


def user_id(seed: int, number: int) -> str:
    """The id of a simulated user; it says all that decides the taste."""
    return f"sim-{seed}-{number:03}"


def is_simulated(id: str) -> bool:
    """Whether an id names a simulated user."""
    return _USER.match(id) is not None


@lru_cache(maxsize=2**12)
def _weights(seed: int, couple: int) -> tuple[tuple[str, float], ...]:
    chance = random.Random(f"taste {seed} {couple}")
    traits = [name for name in STANDARD if not name.startswith("topic:")]
    topics = [name for name in STANDARD if name.startswith("topic:")]
    chosen = [*chance.sample(traits, chance.randint(FEWEST_LOVES, MOST_LOVES)), chance.choice(topics)]
    drawn = {name: chance.choice((-1, 1)) * chance.uniform(0.5, 1.0) for name in chosen}
    length = math.sqrt(sum(weight**2 for weight in drawn.values()))
    strongest_first = sorted(drawn, key=lambda name: -abs(drawn[name]))
    return tuple((name, drawn[name] / length) for name in strongest_first)


def taste_of(id: str) -> Taste:
    """The true taste of a simulated user.

    >>> one, other = taste_of("sim-0-000"), taste_of("sim-0-001")
    >>> all(one[name] == -other[name] for name in one)
    True
    """
    match = _USER.match(id)
    if match is None:
        raise PalateError(f"{id!r} is not a simulated user: those are named like {user_id(0, 7)!r}, seed and number")
    seed, number = int(match[1]), int(match[2])
    sign = -1 if number % 2 else 1
    return {name: sign * weight for name, weight in _weights(seed, number // 2)}


@lru_cache(maxsize=2**16)
def standardised(text: str, name: str) -> float:
    """A trait or topic of a text in scales from the centre, held within three of them."""
    centre, scale = STANDARD[name]
    return max(-FARTHEST, min(FARTHEST, (_MEASURES[name](text) - centre) / scale))


def contributions(taste: Taste, text: str) -> dict[str, float]:
    """What each thing that the user loves or hates adds to the utility of a text."""
    return {name: weight * standardised(text, name) for name, weight in taste.items()}


def utility(taste: Taste, text: str) -> float:
    """How much a user with this taste likes a text; over the texts of `sim` about zero, give or take one."""
    return sum(contributions(taste, text).values())


def measure_standard(texts: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Centre and scale of every trait and topic over some texts, to four figures: how `STANDARD` was made."""
    found = {}
    for name, measure in _MEASURES.items():
        values = [measure(text) for text in texts]
        found[name] = (float(f"{np.mean(values):.4g}"), float(f"{np.std(values):.4g}"))
    return found


def taste_fingerprint() -> str:
    """Changes with whatever could change a utility: traits, topics, their standard and how tastes are drawn."""
    words = [" ".join(sorted(listed)) for listed in TOPICS.values()]
    known = repr((load_encoder("traits").fingerprint, STANDARD, words, FARTHEST, FEWEST_LOVES, MOST_LOVES))
    return hashlib.sha256(known.encode()).hexdigest()[:16]


PHRASES: dict[str, tuple[str, str]] = {
    "length": ("long texts", "short texts"),
    "sentence_length": ("long sentences", "short sentences"),
    "reading_ease": ("easy reading", "demanding prose"),
    "formality": ("a formal tone", "a casual tone"),
    "first_person": ("writers who say I", "writers who never say I"),
    "second_person": ("being spoken to directly", "texts that address nobody"),
    "questions": ("questions in a text", "texts that ask no questions"),
    "exclamations": ("exclamation marks", "texts without exclamation marks"),
    "numbers": ("figures and dates", "texts without figures"),
    "hedging": ("cautious words such as perhaps", "flat claims without a perhaps"),
    "list_form": ("lists", "running prose"),
    "sentiment": ("cheerful words", "gloomy words"),
    **{f"topic:{topic}": (f"talk of {topic}", f"texts that leave {topic} out") for topic in TOPICS},
}
"""How much of a trait and how little of it are called; each stands as the object of a sentence."""

_LIKES = ("I like {}", "Give me {} any day", "I always go for {}", "I am fond of {}")
_DISLIKES = ("I can do without {}", "I cannot stand {}", "Spare me {}", "I really dislike {}")


def reason(taste: Taste, names: Sequence[str], chance: random.Random) -> str:
    """Why somebody with this taste chose as they did, as they would put it; `names` are what decided.

    >>> reason({"questions": 0.8, "length": -0.6}, ["questions", "length"], random.Random(2))
    'I like questions in a text, and spare me long texts.'
    """
    said = [_clause(name, taste[name], chance) for name in names]
    later = [clause if clause.startswith("I ") else clause[0].lower() + clause[1:] for clause in said[1:]]
    return ", and ".join([*said[:1], *later]) + "."


def _clause(name: str, weight: float, chance: random.Random) -> str:
    much, little = PHRASES[name]
    if weight > 0:
        return chance.choice(_LIKES).format(much)
    if chance.random() < 0.5:
        return chance.choice(_DISLIKES).format(much)
    return chance.choice(_LIKES).format(little)


def private_truth(taste: Taste) -> Privileged:
    """What the oracle may know: each loved or hated thing as an aspect, and all of them as a narrative."""
    loved = [PHRASES[name][0] for name, weight in taste.items() if weight > 0]
    hated = [PHRASES[name][0] for name, weight in taste.items() if weight < 0]
    # In other words than any reason, so that no reason repeats a private sentence.
    narrative = [f"What pleases me: {_listed(loved)}."] if loved else []
    narrative += [f"What puts me off: {_listed(hated)}."] if hated else []
    return Privileged(
        narrative=" ".join(narrative), aspects=tuple(_aspect(name, weight) for name, weight in taste.items())
    )


def _aspect(name: str, weight: float) -> Aspect:
    much, little = PHRASES[name]
    loved, other = (much, little) if weight > 0 else (little, much)
    return Aspect(aspect=loved[0].upper() + loved[1:], reason=f"This user prefers {loved} to {other}")


def _listed(phrases: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(phrases[:-1]), phrases[-1]]))
