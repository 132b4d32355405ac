"""How the history that fits the question is picked: BM25, MiniLM, Contriever, recent, random."""

from __future__ import annotations

import hashlib
import importlib
import math
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from types import ModuleType
from typing import NamedTuple, Protocol

import msgspec
import numpy as np

from palate.records import PalateError, Registry

_WORD = re.compile(r"\b\w\w+\b")
LONGEST_KEPT = 20_000
"""Characters of a question whose words are remembered."""


class Search(msgspec.Struct, frozen=True):
    """One question put to one user's history."""

    key: str
    """Names the search; what is random depends on nothing else."""
    query: str
    texts: Sequence[str]
    """The history, oldest first."""


class Retriever(Protocol):
    """Ranks each history by how well it fits its question."""

    name: str

    def rank(self, searches: Sequence[Search]) -> list[list[int]]:
        """For each search the indices of its texts, best first."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes with anything that could change a ranking."""
        ...


class _Recent:
    name = "recent"
    fingerprint = "recent"

    def rank(self, searches: Sequence[Search]) -> list[list[int]]:
        return [list(range(len(search.texts)))[::-1] for search in searches]


class _Random:
    name = "random"

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.fingerprint = f"random-{seed}"

    def rank(self, searches: Sequence[Search]) -> list[list[int]]:
        return [self._shuffled(search) for search in searches]

    def _shuffled(self, search: Search) -> list[int]:
        seed = hashlib.sha256(f"{self._seed}\x00{search.key}".encode("utf-8", "surrogatepass")).digest()
        order = list(range(len(search.texts)))
        random.Random(seed).shuffle(order)
        return order


class _BM25:
    """BM25 as Lucene has it, in the numbers and the rounding of the library bm25s: its index would be built again for
    every item, since each item is shown with another part of a history."""

    name = "bm25"
    fingerprint = "bm25s-lucene-k1=1.5-b=0.75-english-stopwords"
    K1, B = 1.5, 0.75

    def rank(self, searches: Sequence[Search]) -> list[list[int]]:
        return [_best_first(self._scores(search)) for search in searches]

    def _scores(self, search: Search) -> np.ndarray:
        documents = [_counted(text) for text in search.texts]
        scores = np.zeros(len(documents), np.float32)
        lengths = np.array([document.length for document in documents])
        counts = [document.counts for document in documents]
        held = [[count.get(word, 0) for count in counts] for word in _query_words(search.query)]
        held = [frequencies for frequencies in held if any(frequencies)]
        if not held:
            return scores
        saturation = self.K1 * ((1 - self.B) + self.B * lengths / lengths.mean())
        holding = [len(documents) - frequencies.count(0) for frequencies in held]
        rarity = np.array([math.log(1 + (len(documents) - count + 0.5) / (count + 0.5)) for count in holding])
        each = np.array(held, np.float32)
        rounded = rarity.astype(np.float32).astype(np.float64)[:, None]
        for share in (rounded * (each / (saturation + each))).astype(np.float32):
            scores += share
        return scores


@cache
def _bm25s() -> ModuleType:
    """The library, kept from JAX: where that is installed it would take three quarters of a GPU's memory for a sort."""
    hidden = {"jax": None, "jax.lax": None} if "jax" not in sys.modules else {}
    sys.modules.update(hidden)  # type: ignore[arg-type]
    try:
        return importlib.import_module("bm25s")
    finally:
        for name in hidden:
            del sys.modules[name]


class _Counted(NamedTuple):
    """The words of a text, and how many there are."""

    counts: dict[str, int]
    length: int


@lru_cache(maxsize=50_000)
def _counted(text: str) -> _Counted:
    words = _words(text)
    return _Counted(dict(Counter(words)), len(words))


def _query_words(query: str) -> list[str]:
    """The words of a question, which is put to several histories in a row; long ones would fill the memory."""
    return _asked(query) if len(query) <= LONGEST_KEPT else _words(query)


@lru_cache(maxsize=1_024)
def _asked(query: str) -> list[str]:
    return _words(query)


def _words(text: str) -> list[str]:
    """The words by which a text is found, as bm25s splits texts, without its progress bars."""
    stopwords = _stopwords()
    return [word for word in _WORD.findall(text.lower()) if word not in stopwords]


@cache
def _stopwords() -> frozenset[str]:
    _bm25s()
    return frozenset(importlib.import_module("bm25s.stopwords").STOPWORDS_EN)


class _Embedding:
    def __init__(self, name: str, backend: str = "torch") -> None:
        from palate.engine import load_encoder

        self.name = name if backend == "torch" else f"{name},backend={backend}"
        self._encoder = load_encoder(self.name)

    @property
    def fingerprint(self) -> str:
        return f"{self.name}-{self._encoder.fingerprint}"

    def rank(self, searches: Sequence[Search]) -> list[list[int]]:
        self._encoder.encode([text for search in searches for text in (search.query, *search.texts)])
        return [_best_first(self._likeness(search)) for search in searches]

    def _likeness(self, search: Search) -> np.ndarray:
        if not search.texts:
            return np.zeros(0)
        likeness: np.ndarray = self._encoder.encode(search.texts) @ self._encoder.encode([search.query])[0]
        return likeness


def _best_first(scores: np.ndarray) -> list[int]:
    """Equal scores go to the more recent text, which stands later in the list."""
    newest_first = np.arange(len(scores))[::-1]
    ranked: list[int] = newest_first[np.argsort(-scores[newest_first], kind="stable")].tolist()
    return ranked


RETRIEVERS: Registry[Callable[..., Retriever]] = Registry(
    "retriever",
    "palate.retrievers",
    {
        "bm25": ("Words in common with the question, by BM25.", _BM25),
        "minilm": ("Nearness to the question by MiniLM's vectors.", partial(_Embedding, "minilm")),
        "contriever": ("Nearness to the question by Contriever's vectors.", partial(_Embedding, "contriever")),
        "recent": ("The newest first.", _Recent),
        "random": ("In random order, by the seed of the run.", _Random),
    },
    needs=("name", "rank"),
)


def make_retriever(name: str, *, seed: int = 0) -> Retriever:
    """A retriever by name; the seed goes to those that take one."""
    return RETRIEVERS.make_sourced(name, seed=seed)


def rank(retriever: Retriever, searches: Sequence[Search]) -> list[list[int]]:
    """Each history, best first, or a clear error that names the retriever."""
    orders = [list(order) for order in retriever.rank(searches)]
    sound = len(orders) == len(searches) and all(
        sorted(order) == list(range(len(search.texts))) for order, search in zip(orders, searches, strict=True)
    )
    if not sound:
        raise PalateError(f"the retriever {retriever.name!r} must rank every text of every search once")
    return orders
