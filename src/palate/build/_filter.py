"""Filters: a pair stays where its responses differ in what this user wants, and in nothing else that can be seen.

The cheap checks come first, and each model is asked only about pairs that passed those before. Every pair is shown to a
model in both orders.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from palate.build._prompts import listed
from palate.build._records import SERVES, VerdictLine
from palate.data import text_key
from palate.engine import Sampling
from palate.records import Aspect
from palate.rewards import read_verdict

if TYPE_CHECKING:
    from palate.build._generate import StageContext, Task

SHORT_ANSWER = Sampling(most_tokens=256)
_GRADE = r"\b{}\b[^\w\n]{{0,6}}(\d{{1,2}}(?:\.\d+)?)"
TOP = 10


def filter_pairs(context: StageContext, tasks: Sequence[Task]) -> list[VerdictLine]:
    """One line for each pair: why it is left out, or that it stays, with what was measured."""
    pairs = [Pair(context, task) for task in tasks]
    for pair in pairs:
        pair.check_texts()
    if context.plan.filter.grade:
        _grade(context, [pair for pair in pairs if not pair.why])
    if context.plan.filter.judge:
        _judge_with_rubric(context, [pair for pair in pairs if not pair.why])
        _judge_blind(context, [pair for pair in pairs if not pair.why and pair.contrast != "twins"])
    return [pair.line for pair in pairs]


class Pair:
    """The two responses of one contrast, and what is said of them."""

    def __init__(self, context: StageContext, task: Task) -> None:
        self._context = context
        self.item, self.contrast = task
        other = (self.item.twin or "", SERVES) if self.contrast == "twins" else (self.item.id, self.contrast)
        self.chosen = context.candidates[self.item.id, SERVES].text
        self.rejected = context.candidates[other].text
        self.aspects = context.rubrics[self.item.id].aspects
        self.why = ""
        self.numbers: dict[str, float] = {}

    @property
    def line(self) -> VerdictLine:
        """As the ledger keeps it."""
        return VerdictLine(item=self.item.id, contrast=self.contrast, why=self.why, numbers=self.numbers)

    def check_texts(self) -> None:
        """What needs no model."""
        checks = self._context.plan.filter
        sizes = sorted(len(text.split()) for text in (self.chosen, self.rejected))
        self.numbers["length ratio"] = round(sizes[1] / max(1, sizes[0]), 3)
        if text_key(self.chosen) == text_key(self.rejected):
            self.why = "both responses are the same"
        elif sizes[1] > checks.length_ratio * sizes[0]:
            self.why = "the lengths differ too much"
        elif any(leaks(text, self.aspects, self.item.prompt, checks.leaked_words) for text in self.texts):
            self.why = "words of the rubric are leaked"

    @property
    def texts(self) -> tuple[str, str]:
        """Chosen, rejected."""
        return self.chosen, self.rejected

    def prompts(self, name: str, **words: str) -> list[str]:
        """The same question in both orders."""
        return [
            self._context.prompt(name, question=self.item.prompt, first=first, second=second, **words)
            for first, second in (self.texts, self.texts[::-1])
        ]


def leaks(text: str, aspects: Sequence[Aspect], question: str, run: int) -> bool:
    """Whether a text repeats a run of words from the rubric that the question does not have.

    >>> leaks("Since you have no oven at home, fry it.", [Aspect(aspect="no oven at home")], "How do I cook it?", 4)
    True
    """
    known = f" {text_key(question)} "
    there = f" {text_key(text)} "
    for aspect in aspects:
        for passage in (aspect.aspect, aspect.reason or "", aspect.evidence or ""):
            words = text_key(passage).split()
            for start in range(len(words) - run + 1):
                phrase = f" {' '.join(words[start : start + run])} "
                if phrase in there and phrase not in known:
                    return True
    return False


def _grade(context: StageContext, pairs: Sequence[Pair]) -> None:
    """Blind grades in both orders: the responses have to be equally good for somebody who is not known."""
    texts = [text for pair in pairs for text in pair.prompts("grade")]
    replies = iter(context.ask("grader", texts, SHORT_ANSWER))
    most = context.plan.filter.quality
    for pair in pairs:
        straight, turned = next(replies), next(replies)
        if straight.failed or turned.failed:
            pair.why = "the model failed"
            continue
        first, second = read_grades(straight.text), read_grades(turned.text)
        if first is None or second is None:
            pair.why = "the grades cannot be read"
            continue
        gaps = (first[0] - first[1], second[1] - second[0])
        pair.numbers |= {
            "grade of chosen": (first[0] + second[1]) / 2,
            "grade of rejected": (first[1] + second[0]) / 2,
        }
        if abs(gaps[0] + gaps[1]) / 2 > most:
            pair.why = "one response is better in general"
        elif max(gaps) > most and min(gaps) < -most:
            pair.why = "the grades turn with the order"


def read_grades(text: str) -> tuple[float, float] | None:
    """The grades of A and B; None where one is missing or out of range.

    >>> read_grades("A: 7/10\\n**B**: 8"), read_grades("Both are good.")
    ((7.0, 8.0), None)
    """
    found = [re.findall(_GRADE.format(name), text) for name in "AB"]
    if any(len(set(grades)) != 1 for grades in found):
        return None
    first, second = (float(grades[0]) for grades in found)
    return (first, second) if 0 <= first <= TOP and 0 <= second <= TOP else None


def _judge_with_rubric(context: StageContext, pairs: Sequence[Pair]) -> None:
    """Who knows the aspects has to prefer the chosen response, whatever the order."""
    for pair, verdicts in zip(pairs, _verdicts(context, pairs, rubric=True), strict=True):
        if None in verdicts:
            pair.why = "the judge with the rubric cannot be read"
        elif verdicts[0] != verdicts[1]:
            pair.why = "the judge with the rubric turns with the order"
        elif verdicts[0] != "chosen":
            pair.why = "the judge with the rubric does not prefer the chosen one"


def _judge_blind(context: StageContext, pairs: Sequence[Pair]) -> None:
    """Who does not know the aspects must be unable to tell.

    A clear verdict either way is a reason to leave a pair out. If pairs stayed in which the rejected response is
    clearly better, a model would win by betting on the worse one.
    """
    for pair, verdicts in zip(pairs, _verdicts(context, pairs, rubric=False), strict=True):
        if None in verdicts:
            pair.why = "the judge without the rubric cannot be read"
        elif verdicts[0] == verdicts[1] != "tie":
            pair.why = f"the judge without the rubric prefers the {verdicts[0]} one"


def _verdicts(context: StageContext, pairs: Sequence[Pair], *, rubric: bool) -> list[tuple[str | None, str | None]]:
    """For each pair what the judge says in both orders: `chosen`, `rejected`, `tie`, or None."""
    name = "judge-with-rubric" if rubric else "judge"
    texts = [
        text
        for pair in pairs
        for text in (pair.prompts(name, aspects=listed(pair.aspects)) if rubric else pair.prompts(name))
    ]
    replies = iter(context.ask("judge", texts, SHORT_ANSWER))
    orders: tuple[dict[str, str], dict[str, str]] = (
        {"A": "chosen", "B": "rejected", "tie": "tie"},
        {"A": "rejected", "B": "chosen", "tie": "tie"},
    )
    found = []
    for _ in pairs:
        straight, turned = (order.get(read_verdict(next(replies).text) or "") for order in orders)
        found.append((straight, turned))
    return found
