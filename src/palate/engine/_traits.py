"""Traits of a text that can be counted: no model, no download, and each a thing that a writer can vary.

Every trait is a function from a text to one finite number, in time linear in the text. A rate is per word and
never above one; a text without words has 0 in every trait that is about words. The word lists are English, and
short: they are there to tell styles apart, not to be complete.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from palate.engine._vectors import Vectors

VERSION = 1
"""Raise it when any trait would give another number for some text."""
STRETCH = 25
"""Words within which distinct words are counted."""
LONGEST_KEPT = 8_000
"""Characters of a text whose traits are remembered: a server is sent texts of a million."""

FIRST = set("i me my mine myself we us our ours ourselves i'm i've i'd i'll we're we've we'd we'll".split())
SECOND = set("you your yours yourself yourselves you're you've you'd you'll".split())
THIRD = set("he him his she her hers it its they them their theirs this that these those here there".split())
ARTICLES_AND_PREPOSITIONS = set(
    "a an the of in on at by for from with within without between among under over through during upon "
    "regarding concerning despite toward towards".split()
)
CASUAL = set(
    "yeah yep nope ok okay hey hi wow oops ugh hmm gonna wanna gotta kinda sorta dunno stuff guy guys cool awesome "
    "totally pretty super lots folks kids yay nah".split()
)
FORMAL_ENDINGS = ("tion", "sion", "ment", "ness", "ity", "ance", "ence", "ism")
HEDGES = set(
    "perhaps maybe possibly probably presumably apparently arguably roughly somewhat might may could seem seems "
    "seemed appear appears suggest suggests likely unlikely often sometimes usually generally approximately".split()
) | {"sort of", "kind of", "i think", "i guess", "i suppose", "i believe", "not sure", "tend to", "tends to"}
CONNECTIVES = set(
    "because therefore however thus hence although though whereas moreover furthermore nevertheless nonetheless "
    "consequently since unless otherwise meanwhile finally besides instead accordingly".split()
) | {"for example", "for instance", "in addition", "as such", "so that", "in contrast", "that is", "due to"}
POLITE = set("please thank thanks sorry apologies pardon kindly grateful appreciate welcome".split())
DIRECTIVES = set("must should ought shall never always required".split()) | {
    "have to",
    "need to",
    "had better",
    "do not",
}
POSITIVE = set(
    "good great best better nice love loved lovely like liked enjoy enjoyed happy glad wonderful excellent beautiful "
    "delightful pleasant fun funny helpful useful easy clear kind warm friendly brilliant perfect fine fresh calm "
    "hope hopeful proud safe win won success successful thank thanks welcome amazing fantastic superb".split()
)
NEGATIVE = set(
    "bad worse worst poor hate hated dislike awful terrible horrible sad angry afraid fear ugly boring dull useless "
    "hard difficult confusing wrong broken fail failed failure pain painful hurt annoying cruel cold rude stupid "
    "dangerous risk problem problems sick tired worry worried lost lose mess disaster disappointing unfair".split()
)
NEGATIONS = set("not no never none nothing neither nor without hardly cannot".split())
SHORTHAND = set(
    "u ur r y pls plz thx tho thru cuz coz bc btw imo imho idk lol lmao omg brb tbh rn ppl smth wat wut dat dis da "
    "alot teh recieve definately seperate wierd thier im ive dont cant wont didnt doesnt isnt wasnt youre".split()
)

LINK = re.compile(r"https?://\S+|www\.\S+", re.IGNORECASE)
WORD = re.compile(r"[^\W_]+(?:['\-][^\W_]+)*")
# The look-behind keeps a long run of marks from being tried from each of its places.
SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]++[\"')\]”]*+(?=\s|\Z)|[。！？]+|\n+")
LIST_ITEM = re.compile(r"[ \t]{0,40}(?:[-*•–+]|\d{1,3}[.)])[ \t]")
MARKUP = re.compile(r"\*\*|__|`|^[ \t]{0,3}#{1,6}[ \t]", re.MULTILINE)
SYLLABLE = re.compile(r"[aeiouyàâäáãåéèêëíìîïóòôöõúùûüæœø]+")
THRICE = re.compile(r"([^\W\d_])\1\1")


@dataclass(frozen=True)
class _Parsed:
    """A text taken apart once for all its traits."""

    text: str
    words: Sequence[str]
    """In lower case, links left out."""
    written: Sequence[str]
    """The same words as they were written."""
    sentences: int
    lines: Sequence[str]
    links: int


@lru_cache(maxsize=4)  # all traits of one text are asked for in a row
def _parse(text: str) -> _Parsed:
    text = unicodedata.normalize("NFC", text).replace("’", "'").replace("‘", "'")
    plain, links = LINK.subn(" ", text)
    written = WORD.findall(plain)
    return _Parsed(
        text=text,
        words=[word.lower() for word in written],
        written=written,
        sentences=sum(1 for piece in SENTENCE_END.split(plain) if WORD.search(piece)),
        lines=[line for line in text.splitlines() if line.strip()],
        links=links,
    )


def _per_word(count: float, parsed: _Parsed) -> float:
    """A rate: at most one in either direction, whatever the text consists of."""
    return max(-1.0, min(1.0, count / max(1, len(parsed.words))))


def _rate_of(text: str, listed: Collection[str]) -> float:
    """How many of the words, or pairs of words, are on a list."""
    parsed = _parse(text)
    single = sum(word in listed for word in parsed.words)
    pairs = zip(parsed.words, parsed.words[1:], strict=False)
    return _per_word(single + sum(f"{one} {other}" in listed for one, other in pairs), parsed)


def length(text: str) -> float:
    """Logarithm of one plus the number of words."""
    return math.log1p(len(_parse(text).words))


def sentences(text: str) -> float:
    """Logarithm of one plus the number of sentences; a line break ends one too."""
    return math.log1p(_parse(text).sentences)


def sentence_length(text: str) -> float:
    """Words in a sentence, on average."""
    parsed = _parse(text)
    return len(parsed.words) / max(1, parsed.sentences)


def word_length(text: str) -> float:
    """Letters in a word, on average."""
    words = _parse(text).words
    return sum(map(len, words)) / max(1, len(words))


def variety(text: str) -> float:
    """Share of distinct words in stretches of 25 words, on average, so that long texts lose nothing by length."""
    words = _parse(text).words
    if not words:
        return 0.0
    size = min(STRETCH, len(words))
    inside = Counter(words[:size])
    total, stretches = len(inside), 1
    for entering, leaving in zip(words[size:], words, strict=False):
        inside[entering] += 1
        inside[leaving] -= 1
        if not inside[leaving]:
            del inside[leaving]
        total += len(inside)
        stretches += 1
    return total / stretches / size


def reading_ease(text: str) -> float:
    """Flesch reading ease with vowel groups for syllables, held between -100 and 121; higher is easier."""
    words = _parse(text).words
    if not words:
        return 0.0
    syllables = sum(map(_syllables, words)) / len(words)
    return max(-100.0, min(121.0, 206.835 - 1.015 * sentence_length(text) - 84.6 * syllables))


def _syllables(word: str) -> int:
    silent = word.endswith("e") and not word.endswith("le")
    return max(1, len(SYLLABLE.findall(word)) - silent)


def formality(text: str) -> float:
    """Articles, prepositions and abstract nouns, less pronouns, contractions and casual words, per word.

    A text that leans on nouns can be understood anywhere; one that leans on pronouns needs the situation.
    """
    parsed = _parse(text)
    formal = sum(
        word in ARTICLES_AND_PREPOSITIONS or (len(word) > 6 and word.endswith(FORMAL_ENDINGS)) for word in parsed.words
    )
    casual = sum(
        "'" in word or word in FIRST or word in SECOND or word in THIRD or word in CASUAL for word in parsed.words
    )
    return _per_word(formal - casual, parsed)


def first_person(text: str) -> float:
    """I, my, we, our and the like, per word."""
    return _rate_of(text, FIRST)


def second_person(text: str) -> float:
    """You, your and the like, per word."""
    return _rate_of(text, SECOND)


def questions(text: str) -> float:
    """Question marks per word; several in a row are one question."""
    return _per_word(len(re.findall(r"[?？]+", _parse(text).text)), _parse(text))


def exclamations(text: str) -> float:
    """Exclamation marks per word, each counted."""
    return _per_word(len(re.findall(r"[!！]", _parse(text).text)), _parse(text))


def numbers(text: str) -> float:
    """Words with a digit in them, per word."""
    parsed = _parse(text)
    return _per_word(sum(any(map(str.isdigit, word)) for word in parsed.words), parsed)


def hedging(text: str) -> float:
    """Perhaps, might, seems, I think and the like, per word."""
    return _rate_of(text, HEDGES)


def connectives(text: str) -> float:
    """Because, therefore, however, for example and the like, per word."""
    return _rate_of(text, CONNECTIVES)


def directives(text: str) -> float:
    """Must, should, never, have to and the like, per word."""
    return _rate_of(text, DIRECTIVES)


def politeness(text: str) -> float:
    """Please, thanks, sorry and the like, per word."""
    return _rate_of(text, POLITE)


def list_form(text: str) -> float:
    """Share of the lines that begin with a bullet or a number."""
    lines = _parse(text).lines
    return sum(LIST_ITEM.match(line) is not None for line in lines) / max(1, len(lines))


def line_breaks(text: str) -> float:
    """Lines after the first, per word."""
    parsed = _parse(text)
    return _per_word(max(0, len(parsed.lines) - 1), parsed)


def markup(text: str) -> float:
    """Marks of bold type, code and headings, per word."""
    parsed = _parse(text)
    return _per_word(len(MARKUP.findall(parsed.text)), parsed)


def links(text: str) -> float:
    """Web addresses, per word."""
    parsed = _parse(text)
    return _per_word(parsed.links, parsed)


def capitals(text: str) -> float:
    """Share of the letters that are capitals: a few in prose, all when shouting."""
    written = "".join(_parse(text).written)
    letters = sum(map(str.isalpha, written))
    return sum(map(str.isupper, written)) / max(1, letters)


def emoji(text: str) -> float:
    """Pictures among the letters, per word."""
    parsed = _parse(text)
    pictures = sum(letter > "\u2190" and unicodedata.category(letter) == "So" for letter in parsed.text)
    return _per_word(pictures, parsed)


def sentiment(text: str) -> float:
    """Pleasant less unpleasant words, per word; one of the three words before turns the meaning if it negates."""
    parsed = _parse(text)
    total = 0
    since = STRETCH  # words since the last negation
    for word in parsed.words:
        value = (word in POSITIVE) - (word in NEGATIVE)
        total += -value if since < 3 else value
        since = 0 if word in NEGATIONS or word.endswith("n't") else since + 1
    return _per_word(total, parsed)


def carelessness(text: str) -> float:
    """Words that look dashed off, per word: no vowel, a letter thrice, a small i, chat shorthand, common slips."""
    parsed = _parse(text)
    return _per_word(sum(map(_looks_careless, parsed.written)), parsed)


def _looks_careless(word: str) -> bool:
    if word == "i" or word.lower() in SHORTHAND or THRICE.search(word.lower()):
        return True
    # Capitals are left alone, since an abbreviation may do without vowels; so are other alphabets.
    return len(word) > 2 and word.isascii() and word.isalpha() and word.islower() and not SYLLABLE.search(word)


def quotations(text: str) -> float:
    """Quotation marks, per word."""
    parsed = _parse(text)
    return _per_word(sum(map(parsed.text.count, '"“”«»„')), parsed)


def punctuation_variety(text: str) -> float:
    """Entropy in bits of the punctuation marks: 0 if only one kind is used."""
    marks = Counter(letter for letter in _parse(text).text if unicodedata.category(letter).startswith("P"))
    total = sum(marks.values())
    return abs(sum(count / total * math.log2(total / count) for count in marks.values()))


TRAITS: dict[str, Callable[[str], float]] = {
    trait.__name__: trait
    for trait in (
        *(length, sentences, sentence_length, word_length, variety, reading_ease, formality),
        *(first_person, second_person, questions, exclamations, numbers, hedging, connectives, directives),
        *(politeness, list_form, line_breaks, markup, links, capitals, emoji, sentiment, carelessness),
        *(quotations, punctuation_variety),
    )
}
"""Every trait by name, in the order of the encoder's numbers.

>>> round(TRAITS["questions"]("Tea? Or rather coffee, this time?"), 2)
0.33
"""


class TraitEncoder:
    """The traits of a text as its vector, each in its own unit. Nothing is kept on disk: counting is faster."""

    name = "traits"
    dimensions = len(TRAITS)

    @property
    def fingerprint(self) -> str:
        """The version of the traits, and which they are."""
        names = hashlib.sha256(" ".join(TRAITS).encode()).hexdigest()[:12]
        return f"traits-{VERSION}-{names}"

    def encode(
        self, texts: Sequence[str], contexts: Sequence[str | None] | None = None, *, keep: bool = True
    ) -> Vectors:
        """One row for each text. Contexts make no difference: these are traits of the text alone. None is on disk."""
        return np.asarray([_traits(text) for text in texts], np.float32).reshape(len(texts), self.dimensions)


def _traits(text: str) -> tuple[float, ...]:
    """Training meets the same texts in every fold; half a millisecond each adds up."""
    return _remembered(text) if len(text) <= LONGEST_KEPT else _measured(text)


@lru_cache(maxsize=2**16)
def _remembered(text: str) -> tuple[float, ...]:
    return _measured(text)


def _measured(text: str) -> tuple[float, ...]:
    return tuple(trait(text) for trait in TRAITS.values())
