"""The texts that simulated users choose between: real questions and answers, changed by small edits.

Each edit moves one trait. The answers in `mini` are of one length by design and hold no lists. Readers who differ in
what they think of length and lists could not be told apart by them, so most texts of `sim` are changed by one or two
of these rules first.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from palate.data import load_named
from palate.records import Benchmark, PalateError

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
    """Every offer, edited differently for each seed, in an order that depends on the seed."""
    if source not in SOURCES:
        raise PalateError(f"option texts={source}: it is {' or '.join(SOURCES)}")
    benchmark = load_named(source, data_dir=data_dir)
    found = _answers(benchmark)
    if source == "mini":
        found += _past_answers(benchmark) + _posts(benchmark, seed)
    offers = [_edited(offer, random.Random(f"edits {seed} {offer.id}")) for offer in _without_repeats(found)]
    random.Random(f"pool {seed}").shuffle(offers)
    return offers


def unedited_pool(seed: int) -> list[Offer]:
    """Every offer of `mini` as it was written; which posts stand together depends on the seed."""
    benchmark = load_named("mini")
    return _without_repeats([*_answers(benchmark), *_past_answers(benchmark), *_posts(benchmark, seed)])


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
