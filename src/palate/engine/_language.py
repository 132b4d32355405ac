"""What a language model can be asked, wherever it runs: to write, to choose, to say how likely a text is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeVar

import msgspec


class Turn(msgspec.Struct, frozen=True):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


Conversation = tuple[Turn, ...]


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How a text is drawn. Temperature 0 takes the likeliest token every time."""

    most_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


class WriteRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Continue a conversation, `samples` times."""

    turns: Conversation
    sampling: Sampling = Sampling()
    samples: int = 1
    opening: str = ""
    """What the answer begins with; it is not repeated in what comes back."""


class ChooseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which of a few short answers would the model give next?"""

    turns: Conversation
    choices: tuple[str, ...]
    opening: str = ""
    """What the answer begins with, such as `Verdict:`."""


class LikelihoodRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How likely is each of these texts as the whole answer?"""

    turns: Conversation
    continuations: tuple[str, ...]


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A text, and whether the model ended it by itself or was cut off."""

    text: str
    tokens: int
    finished: bool


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The probability of each choice among the choices, and how much of all probability they had."""

    probabilities: tuple[float, ...]
    mass: float


class Likelihood(msgspec.Struct, frozen=True, kw_only=True):
    """The log-probability of a text, its end included, and the number of tokens it was summed over."""

    total: float
    tokens: int


class Failure(msgspec.Struct, frozen=True):
    """Why there is no answer, after everything sensible was tried."""

    reason: str


Answer = TypeVar("Answer")
Answers = list[Answer | Failure]
"""One for each request, in the same order."""
OnAnswer = Callable[[int, Answer | Failure], None] | None
"""Gets the index and the answer of each request as soon as it is there."""


class LanguageModel(Protocol):
    """One model, in this process or behind a server. Answers come in the order of the requests."""

    name: str

    @property
    def context(self) -> int | None:
        """How many tokens fit, prompt and answer together; None where only the server knows."""

    @property
    def fingerprint(self) -> str:
        """Changes with anything that could change an answer: weights, revision, precision, template."""

    @property
    def templated(self) -> bool:
        """Whether conversations go through a chat template, which teaches a model where its answer ends."""

    def status(self) -> str:
        """A few words for a progress bar, such as tokens and money spent; empty where nothing is counted."""

    def count_tokens(self, turns: Conversation) -> int | None:
        """The length of a prompt as the model sees it; None where only the server knows."""

    def write(self, requests: Sequence[WriteRequest]) -> Answers[list[Written]]:
        """For each request its samples."""

    def choose(self, requests: Sequence[ChooseRequest]) -> Answers[Chosen]:
        """For each request how the next token's probability falls on the choices."""

    def likelihood(self, requests: Sequence[LikelihoodRequest]) -> Answers[list[Likelihood]]:
        """For each request the likelihood of each continuation."""
