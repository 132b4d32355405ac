"""Views that a language model writes from the history: who this is, and what they would look for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from palate.engine import Failure, LanguageModel, Sampling, Turn, WriteRequest, Written, at_work
from palate.records import Part

OWN = "Here is what one person wrote and chose before."
BORROWED = "Here is what people whose taste is similar to this person's wrote and chose before."
PERSONA = (
    "{history}\n\n"
    "Describe this person in at most 80 words: what they care about, what they like and dislike, how they want "
    "things explained. Write only the description."
)
PLAN = (
    "{history}\n\nNow this person asks:\n\n{prompt}\n\n"
    "List at most five things that this person would look for in an answer, one a line, each in a few words. "
    "Write only the list."
)
SHOWN = 6_000
"""The most characters of history that are put before the writer, the most relevant first."""
ASPECTS = 5
MOST_TOKENS = 160


class Writer:
    """Writes personas and plans. The same history and prompt always give the same text.

    Where the history is more than the model's context holds, the least relevant parts are left out. What the
    model fails to write is a failure with its reason, for this person or ask alone: whether others could be
    written does not matter, so that nothing depends on who else is asked about at the same time.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    @property
    def fingerprint(self) -> str:
        """The model's."""
        return self._model.fingerprint

    def personas(self, histories: Sequence[Sequence[Part]]) -> list[list[Part] | Failure]:
        """One part for each person; none where there is no history or the model had nothing to say."""
        asked = [self._fitted(PERSONA, history) for history in histories]
        return [text if isinstance(text, Failure) else _persona(text) for text in self._write(asked)]

    def plans(self, histories: Sequence[Sequence[Part]], prompts: Sequence[str]) -> list[list[Part] | Failure]:
        """A few parts for each ask, one for each aspect that the model guessed."""
        asked = [self._fitted(PLAN, history, prompt=prompt) for history, prompt in zip(histories, prompts, strict=True)]
        return [text if isinstance(text, Failure) else _plan(text) for text in self._write(asked)]

    def _fitted(self, question: str, history: Sequence[Part], **words: str) -> str | Failure | None:
        """What is put to the model; None where there is no history, a failure where no part of it fits the context."""

        def ask(parts: Sequence[Part]) -> str:
            return question.format(history=_shown(parts), **words)

        def fits(parts: Sequence[Part]) -> bool:
            context = self._model.context
            needed = None if context is None else self._model.count_tokens(_turns(ask(parts)))
            return context is None or needed is None or needed + MOST_TOKENS <= context

        if not history:
            return None
        parts = list(history)
        if not fits(parts):
            parts = [part for part in parts if fits([part])]
        while parts and not fits(parts):
            parts.pop()
        return ask(parts) if parts else self._failure("no part of the history fits its context")

    def _write(self, asked: Sequence[str | Failure | None]) -> list[str | Failure]:
        """What the model answers to each question; nothing where there was nothing to ask."""
        requests = [
            WriteRequest(turns=_turns(text), sampling=Sampling(most_tokens=MOST_TOKENS))
            for text in asked
            if isinstance(text, str)
        ]
        with at_work("writer", self._model.name):
            answers = iter(self._model.write(requests) if requests else [])
        return [self._text(next(answers)) if isinstance(text, str) else text or "" for text in asked]

    def _text(self, answer: list[Written] | Failure) -> str | Failure:
        return self._failure(answer.reason) if isinstance(answer, Failure) else answer[0].text.strip()

    def _failure(self, reason: str) -> Failure:
        return Failure(f"the writer {self._model.name} could not write: {reason}")


def _persona(text: str) -> list[Part]:
    return [Part(kind="persona", text=f"Who this user is: {text}", content=text)] if text else []


def _plan(text: str) -> list[Part]:
    return [Part(kind="plan", text=f"This user may look for: {aspect}", content=aspect) for aspect in _listed(text)]


def _turns(text: str) -> tuple[Turn, ...]:
    return (Turn("user", text),)


def _shown(history: Sequence[Part]) -> str:
    """Whole parts, as many as fit, so that no post is cut in the middle; the person's own apart from borrowed ones."""
    kept: list[Part] = []
    room = SHOWN
    for part in history:
        if len(part.text) > room and kept:
            break
        kept.append(part)
        room -= len(part.text)
    own, borrowed = ([part.text for part in kept if part.borrowed == whose] for whose in (False, True))
    return "\n\n".join([*([OWN, *own] if own else []), *([BORROWED, *borrowed] if borrowed else [])])


def _listed(text: str) -> list[str]:
    """The lines of a list, without their bullets and numbers.

    >>> _listed("1. Cheap\\n- Quick to do\\n\\n")
    ['Cheap', 'Quick to do']
    """
    lines = [re.sub(r"^\s*(?:[-*•]|\d+[.)])\s*", "", line).strip() for line in text.splitlines()]
    return [line for line in lines if line][:ASPECTS]
