"""A taste in words: what a simulated user says, in several wordings, and what the oracle knows. No numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence

from palate.records import Aspect, Privileged
from palate.simulate._taste import Taste
from palate.simulate._topics import TOPICS

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
