"""Views that a language model writes from the history: who this is, and what they would look for."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

from palate.engine import Failure, LanguageModel, Sampling, Turn, WriteRequest
from palate.records import PalateError, Part

PERSONA = (
    "Here is what one person wrote and chose before.\n\n{history}\n\n"
    "Describe this person in at most 80 words: what they care about, what they like and dislike, how they want "
    "things explained. Write only the description."
)
PLAN = (
    "Here is what one person wrote and chose before.\n\n{history}\n\nNow this person asks:\n\n{prompt}\n\n"
    "List at most five things that this person would look for in an answer, one a line, each in a few words. "
    "Write only the list."
)
SHOWN = 6_000
"""At most so many characters of history are put before the writer, the most relevant first."""
ASPECTS = 5
MOST_TOKENS = 160


class Writer:
    """Writes personas and plans. The same history and prompt always give the same text.

    Where the history is more than the model's context holds, the least relevant parts are left out.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    @property
    def fingerprint(self) -> str:
        """The model's."""
        return self._model.fingerprint

    def personas(self, histories: Sequence[Sequence[Part]]) -> list[list[Part]]:
        """One part for each person; none where there is no history or the model had nothing to say."""
        asked = [self._fitted(PERSONA, history) for history in histories]
        texts = self._write(asked)
        return [
            [Part(kind="persona", text=f"Who this user is: {text}", content=text)] if text else [] for text in texts
        ]

    def plans(self, histories: Sequence[Sequence[Part]], prompts: Sequence[str]) -> list[list[Part]]:
        """A few parts for each ask, one for each aspect that the model guessed."""
        asked = [self._fitted(PLAN, history, prompt=prompt) for history, prompt in zip(histories, prompts, strict=True)]
        return [
            [Part(kind="plan", text=f"This user may look for: {aspect}", content=aspect) for aspect in _listed(text)]
            for text in self._write(asked)
        ]

    def _fitted(self, question: str, history: Sequence[Part], **words: str) -> str | None:
        """What is put to the model; None where there is no history or no part of it fits the context."""

        def ask(parts: Sequence[Part]) -> str:
            return question.format(history=_shown(parts), **words)

        def fits(parts: Sequence[Part]) -> bool:
            context = self._model.context
            needed = None if context is None else self._model.count_tokens(_turns(ask(parts)))
            return context is None or needed is None or needed + MOST_TOKENS <= context

        parts = list(history)
        if not fits(parts):
            parts = [part for part in parts if fits([part])]
        while parts and not fits(parts):
            parts.pop()
        return ask(parts) if parts else None

    def _write(self, asked: Sequence[str | None]) -> list[str]:
        requests = [
            WriteRequest(turns=_turns(text), sampling=Sampling(most_tokens=MOST_TOKENS)) for text in asked if text
        ]
        written = self._model.write(requests) if requests else []
        failed = [one.reason for one in written if isinstance(one, Failure)]
        if failed and len(failed) == len(written):
            raise PalateError(f"the writer {self._model.name} could not write: {failed[0]}")
        if failed:
            warnings.warn(f"{len(failed)} of {len(written)} views could not be written: {failed[0]}", stacklevel=2)
        answers = iter(written)
        found = [next(answers) if text else None for text in asked]
        return ["" if one is None or isinstance(one, Failure) else one[0].text.strip() for one in found]


def _turns(text: str) -> tuple[Turn, ...]:
    return (Turn("user", text),)


def _shown(history: Sequence[Part]) -> str:
    """Whole parts, as many as fit, so that no post is cut in the middle."""
    kept: list[str] = []
    room = SHOWN
    for part in history:
        if len(part.text) > room and kept:
            break
        kept.append(part.text)
        room -= len(part.text)
    return "\n\n".join(kept)


def _listed(text: str) -> list[str]:
    """The lines of a list, without their bullets and numbers.

    >>> _listed("1. Cheap\\n- Quick to do\\n\\n")
    ['Cheap', 'Quick to do']
    """
    lines = [re.sub(r"^\s*(?:[-*•]|\d+[.)])\s*", "", line).strip() for line in text.splitlines()]
    return [line for line in lines if line][:ASPECTS]
