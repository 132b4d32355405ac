"""Small edits of a text, each of which moves one trait: what people shipped with palate wrote is too much alike.

The answers in `mini` are of one length by design and hold no lists. Readers who differ in what they think of length
and lists could not be told apart by them, so most texts of `sim` are changed by one or two of these rules first.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?…])\s+|\n+")
_INNER_BREAK = re.compile(r"; |: |, (?=and |but |so |or |which |then )")
_OPENERS: dict[str, tuple[str, ...]] = {
    "hedged": ("Perhaps", "Probably,", "Maybe", "Arguably,"),
    "personal": ("In my view,", "To me,", "I say:", "For my part,"),
    "addressing": ("You see,", "As you know,", "If you like,", "Mind you,"),
    "counting": ("In 9 cases of 10,", "Since 2015,", "For 3 reasons,", "On day 7,"),
    "pleasant": ("Good news:", "Happy to say,", "The best part:", "A lovely thing:"),
    "gloomy": ("Bad news:", "Sad to say,", "The worst part:", "A painful thing:"),
    "formal": ("In consideration of the situation,", "With regard to the matter,", "By way of explanation,"),
    "casual": ("Well, it's like this:", "Hey, that's cool:", "Okay, here's stuff:"),
}
_QUESTIONS = ("Why is that?", "Does it matter?", "What would happen otherwise?", "Who would have thought it?")


def sentences_of(text: str) -> list[str]:
    """The sentences, each with its mark; a line break ends one too.

    >>> sentences_of("Tea? Yes. Now!")
    ['Tea?', 'Yes.', 'Now!']
    """
    return [piece.strip() for piece in _BETWEEN_SENTENCES.split(text) if piece.strip()]


def _shortened(text: str, chance: random.Random) -> str:
    sentences = sentences_of(text)
    if len(sentences) > 1:
        return " ".join(sentences[: (len(sentences) + 1) // 2])
    words = text.split()
    return " ".join(words[: max(1, len(words) // 2)]).rstrip(",;:.") + "."


def _joined(text: str, chance: random.Random) -> str:
    """Two by two: all in one would make every such text hard to read as well."""
    sentences = sentences_of(text)
    firsts = [re.sub(r"\.$", ";", sentence) for sentence in sentences[:-1:2]]
    sentences[: len(sentences) - 1 : 2] = firsts
    return " ".join(sentences)


def _split(text: str, chance: random.Random) -> str:
    pieces = [piece for sentence in sentences_of(text) for piece in _INNER_BREAK.split(sentence)]
    return " ".join(_capital(piece).rstrip(",;:") + ("" if piece[-1:] in ".!?…" else ".") for piece in pieces if piece)


def _asking(text: str, chance: random.Random) -> str:
    asked = chance.sample(_QUESTIONS, 2)
    first, *rest = sentences_of(text) or [""]
    return " ".join([first, asked[0], *rest, *asked[1:]])


def _exclaiming(text: str, chance: random.Random) -> str:
    return " ".join(re.sub(r"\.$", "!", sentence) for sentence in sentences_of(text))


def _listed(text: str, chance: random.Random) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences_of(text))


def _opened(openers: Sequence[str]) -> Callable[[str, random.Random], str]:
    """An opener before every second sentence, beginning with the first."""

    def edit(text: str, chance: random.Random) -> str:
        sentences = sentences_of(text)
        chosen = iter(chance.choices(openers, k=len(sentences)))
        return " ".join(
            sentence if place % 2 else f"{next(chosen)} {_small(sentence)}" for place, sentence in enumerate(sentences)
        )

    return edit


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _small(text: str) -> str:
    """In small letters at the beginning, unless that is the word I or an abbreviation."""
    return text if re.match(r"I\b|[A-Z]{2}", text) else text[:1].lower() + text[1:]


EDITS: dict[str, Callable[[str, random.Random], str]] = {
    "shortened": _shortened,
    "joined": _joined,
    "split": _split,
    "asking": _asking,
    **{name: _opened(openers) for name, openers in _OPENERS.items()},
    "exclaiming": _exclaiming,
    "listed": _listed,
}
"""Every edit by name, in the order in which several are made: what ends sentences comes before what arranges them.

>>> EDITS["listed"]("Boil water. Wait.", random.Random(0))
'- Boil water.\\n- Wait.'
"""


def edited(text: str, chance: random.Random) -> str:
    """The text as it is, or with one, two or three edits; drawn by `chance`."""
    names = chance.sample(list(EDITS), chance.choice((0, 1, 2, 2, 3)))
    for name in EDITS:
        if name in names:
            text = EDITS[name](text, chance)
    return text
