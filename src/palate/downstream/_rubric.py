"""The critic `rubric`: a strong language model, told what this user was after, grades a text aspect by aspect."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from palate.engine import (
    Conversation,
    Failure,
    LanguageModel,
    Sampling,
    Turn,
    WriteRequest,
    Written,
    open_language_model,
)
from palate.records import Aspect, Comparison, Completion, Draft, Grade, PalateError, Privileged
from palate.rewards import Fence, read_grade

TOP = 2
"""What an aspect that is fully met gets."""


def rubric_conversation(draft: Draft, aspect: Aspect) -> Conversation:
    """One question about one aspect. These words are part of every score: change them with care."""
    narrative = draft.item.privileged.narrative
    behind = f"What the user had in mind, which the writer of the response was not told:\n\n{narrative}\n\n"
    looked_at = [f"Judge one thing only: {aspect.aspect}"]
    looked_at += [f"Why this user cares about it: {aspect.reason}"] if aspect.reason else []
    looked_at += [f"How that is known: {aspect.evidence}"] if aspect.evidence else []
    fence = Fence(draft.item.prompt, narrative or "", draft.text)
    text = (
        f"A user asked:\n\n{fence(draft.item.prompt)}\n\n{behind if narrative else ''}"
        f"Response:\n\n{fence(draft.text)}\n\n{fence.rule}\n\n" + "\n".join(looked_at) + "\n\n"
        "How far does the response give this user that one thing? 0 means not at all, 1 means in part, 2 means fully. "
        "Answer with 0, 1 or 2 and nothing else."
    )
    return (Turn("user", text),)


_ASPECT = Aspect(aspect="{aspect}", reason="{reason}", evidence="{evidence}")
_DRAFT = Draft(
    item=Completion(id="", user_id="", prompt="{prompt}", privileged=Privileged(narrative="{narrative}")),
    text="{response}",
)
WORDS = rubric_conversation(_DRAFT, _ASPECT)[0].content
"""What is asked, word for word, with names for what is filled in."""


class RubricCritic:
    """One call for each aspect, each worth 0, 1 or 2; the score is their sum over the most there could be."""

    def __init__(self, model: str | LanguageModel, *, tokens: str = "256", **options: str) -> None:
        if not tokens.isdigit() or not int(tokens):
            raise PalateError(f"option tokens={tokens}: expected a whole number from 1")
        self._sampling = Sampling(most_tokens=int(tokens))
        self._model = open_language_model(model, **options) if isinstance(model, str) else model
        self.name = f"rubric:{model if isinstance(model, str) else model.name}"

    @property
    def fingerprint(self) -> str:
        """The model's, how much it may write, and the words in which it is asked."""
        words = hashlib.sha256(WORDS.encode()).hexdigest()[:12]
        return f"{self._model.fingerprint}-{self._sampling.most_tokens}-{words}"

    def status(self) -> str:
        """Tokens and money, where a server is asked."""
        return self._model.status()

    def require(self, items: Sequence[Comparison | Completion]) -> None:
        """Without aspects there is nothing to ask."""
        if not any(item.privileged.aspects for item in items):
            raise PalateError(
                f"the critic {self.name} judges by rubric aspects, and none of the {len(items)} items has any; "
                "use a benchmark with rubrics (mini, sim, lamp-qa, personalized-rewardbench) or another critic"
            )

    def judge(self, drafts: Sequence[Draft]) -> list[Grade]:
        """All aspects of all drafts are asked together, so that a server is kept busy."""
        asked = [(draft, aspect) for draft in drafts for aspect in draft.item.privileged.aspects]
        requests = [
            WriteRequest(turns=rubric_conversation(draft, aspect), sampling=self._sampling) for draft, aspect in asked
        ]
        answers = iter(self._model.write(requests) if requests else [])
        return [_mark([(aspect, next(answers)) for aspect in draft.item.privileged.aspects]) for draft in drafts]


def _mark(answers: Sequence[tuple[Aspect, list[Written] | Failure]]) -> Grade:
    """A score only if every aspect has one: a mean over the others would reward what cannot be read."""
    if not answers:
        return Grade(unscored="the item has no rubric aspects")
    scores: list[float] = []
    parts: dict[str, float] = {}
    problems: list[str] = []
    for number, (aspect, answer) in enumerate(answers, start=1):
        score = _score(answer)
        if isinstance(score, str):
            problems.append(f"{aspect.aspect!r}: {score}")
            continue
        scores.append(score)
        parts[f"{aspect.aspect} ({number})" if aspect.aspect in parts else aspect.aspect] = score
    if len(scores) != len(answers):
        return Grade(unscored=f"{len(scores)} of {len(answers)} aspects have a score; {problems[0]}", parts=parts)
    return Grade(score=sum(scores) / (TOP * len(answers)), parts=parts)


def _score(answer: list[Written] | Failure) -> float | str:
    """0, 1 or 2; or why it is missing."""
    if isinstance(answer, Failure):
        return answer.reason
    text = answer[0].text
    grade = read_grade(text, TOP)
    if grade in (0.0, 1.0, 2.0):
        return grade
    cut = "" if answer[0].finished else ", and it was cut off"
    return f"no 0, 1 or 2 could be read in {_short(text)!r}{cut}"


def _short(text: str, most: int = 80) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
