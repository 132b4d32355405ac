"""Controls: models that understand nothing, to show what the benchmark gives away for free."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

from palate.records import Ask, Part, Rating


class Random:
    """A coin that depends on the prompt and the response only, so it never changes its mind."""

    def __init__(self, seed: str = "0") -> None:
        self.name = "random" if seed == "0" else f"random:{seed}"
        self._seed = seed

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """A number from 0 to 1 for each response."""
        return [Rating([self._toss(ask.prompt, response) for response in ask.responses]) for ask in asks]

    def _toss(self, prompt: str, response: str) -> float:
        text = f"{self._seed}\x00{prompt}\x00{response}"
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:7]) / 2**56


class Longest:
    """Prefers the response with more characters."""

    name = "longest"

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """The length of each response."""
        return [Rating([len(response) for response in ask.responses]) for ask in asks]


class Shortest:
    """Prefers the response with fewer characters."""

    name = "shortest"

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """The negative length of each response."""
        return [Rating([-len(response) for response in ask.responses]) for ask in asks]


class First:
    """Prefers what the person saw first, or else what it is shown first itself."""

    name = "first"
    order_sensitive = True

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """The earlier, the higher."""
        return [Rating([-place for place in ask.shown or range(len(ask.responses))]) for ask in asks]


class Overlap:
    """Share of a response's words that the view holds too; of past choices only the chosen side counts."""

    name = "overlap"

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """From 0, no word in common, to 1."""
        return [self._rate(ask) for ask in asks]

    @staticmethod
    def _rate(ask: Ask) -> Rating:
        known = content_words(text for part in ask.view.parts for text in _liked_texts(part))
        scores = []
        for response in ask.responses:
            words = content_words([response])
            scores.append(len(words & known) / len(words) if words else 0.0)
        return Rating(scores)


def _liked_texts(part: Part) -> list[str]:
    if part.judgement is None:
        return [part.words]
    return [part.judgement.chosen, part.judgement.reason or ""]


_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")
"""Thai, Lao, Burmese, Khmer, Japanese and Chinese."""
_WORD = re.compile(r"[^\W_]{3,}")
_COMMON = frozenset(
    "about after all also and any are because been but can could did does each for from get had has have her "
    "him his how into its just like more most much not now one only other our out over own she should some "
    "such than that the their them then there these they this those through too two use user very was way "
    "were what when where which while who why will with would you your wrote prefer preferred".split()
)


def content_words(texts: Iterable[str]) -> set[str]:
    """Distinct words of three letters and more that carry some meaning.

    >>> sorted(content_words(["Bread in a cold kitchen, and the bread rose."]))
    ['bread', 'cold', 'kitchen', 'rose']

    Where a script puts no spaces between words, two characters in a row count as one.

    >>> sorted(content_words(["我喜欢茶。"]))
    ['喜欢', '我喜', '欢茶']
    """
    found: set[str] = set()
    for text in texts:
        found.update(_WORD.findall(_UNSPACED.sub(" ", text.lower())))
        for run in _UNSPACED.findall(text):
            found.update(run[place : place + 2] for place in range(max(1, len(run) - 1)))
    return found - _COMMON
