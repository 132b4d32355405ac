"""Views that a language model writes from the history: who this is, and what they would look for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from palate.engine import Failure, LanguageModel, Sampling, Turn, WriteRequest
from palate.records import Part

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


class Writer:
    """Writes personas and plans. The same history and prompt always give the same text."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    @property
    def fingerprint(self) -> str:
        """The model's."""
        return self._model.fingerprint

    def personas(self, histories: Sequence[Sequence[Part]]) -> list[list[Part]]:
        """One part for each person; none where there is no history or the model had nothing to say."""
        texts = self._write([PERSONA.format(history=_shown(history)) if history else None for history in histories])
        return [
            [Part(kind="persona", text=f"Who this user is: {text}", content=text)] if text else [] for text in texts
        ]

    def plans(self, histories: Sequence[Sequence[Part]], prompts: Sequence[str]) -> list[list[Part]]:
        """A few parts for each ask, one for each aspect that the model guessed."""
        asked = [
            PLAN.format(history=_shown(history), prompt=prompt) if history else None
            for history, prompt in zip(histories, prompts, strict=True)
        ]
        return [
            [Part(kind="plan", text=f"This user may look for: {aspect}", content=aspect) for aspect in _listed(text)]
            for text in self._write(asked)
        ]

    def _write(self, asked: Sequence[str | None]) -> list[str]:
        requests = [
            WriteRequest(turns=(Turn("user", text),), sampling=Sampling(most_tokens=160)) for text in asked if text
        ]
        answers = iter(self._model.write(requests))
        found = [next(answers) if text else None for text in asked]
        return ["" if one is None or isinstance(one, Failure) else one[0].text.strip() for one in found]


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
