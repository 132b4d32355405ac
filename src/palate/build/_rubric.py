"""Rubrics: what one user would look for, with evidence that is checked word for word against their own texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from palate.build._records import PostLine, RubricLine, SelectedItem
from palate.engine import Sampling
from palate.records import Aspect

if TYPE_CHECKING:
    from palate.build._generate import Reply, StageContext

SHORTEST_EVIDENCE = 3
"""Words: fewer stand in anybody's texts."""
KEPT = 4_000
"""Characters of a model's answer that are kept for inspection."""


class _Wire(msgspec.Struct):
    aspect: str
    reason: str | None = None
    evidence: str | None = None


def write_rubrics(context: StageContext, items: Sequence[SelectedItem]) -> list[RubricLine]:
    """One line for each item. A rubric that the source brings is checked, and no model is asked."""
    asked = [item for item in items if not item.aspects]
    sampling = Sampling(most_tokens=context.plan.rubric.tokens)
    replies = dict(
        zip(
            (item.id for item in asked),
            context.ask("generator", [rubric_prompt(context, item) for item in asked], sampling),
            strict=True,
        )
    )
    return [
        _checked(context, item, list(item.aspects), "") if item.aspects else _read(context, item, replies[item.id])
        for item in items
    ]


def rubric_prompt(context: StageContext, item: SelectedItem) -> str:
    """What the generator is asked."""
    behind = f"With the question came this:\n\n{item.narrative}" if item.narrative else ""
    return context.prompt(
        "rubric",
        question=item.prompt,
        narrative=behind,
        history=shown_history(context, context.posts_of(item)),
        aspects=str(context.plan.rubric.aspects),
    )


def shown_history(context: StageContext, posts: Sequence[PostLine]) -> str:
    """The latest posts, whole ones, as many as the plan has room for; the first is cut where it alone is too long."""
    room = context.plan.rubric.characters
    shown: list[str] = []
    for post in reversed(posts[-context.plan.rubric.posts :]):
        if len(post.text) > room and shown:
            break
        shown.append(post.text[:room])
        room -= len(post.text)
    return "\n\n---\n\n".join(shown) or "(nothing)"


def _read(context: StageContext, item: SelectedItem, reply: Reply) -> RubricLine:
    if reply.failed:
        return RubricLine(item=item.id, aspects=[], why="the model failed", raw=reply.failed[:KEPT])
    aspects = read_aspects(reply.text)
    if aspects is None:
        why = "the answer was cut off" if not reply.finished else "no JSON in the answer"
        return RubricLine(item=item.id, aspects=[], why=why, raw=reply.text[:KEPT])
    return _checked(context, item, aspects[: context.plan.rubric.aspects], reply.text[:KEPT])


def _checked(context: StageContext, item: SelectedItem, aspects: list[Aspect], raw: str) -> RubricLine:
    texts = [item.narrative or "", *(post.text for post in context.posts_of(item))]
    kept = [one for one in aspects if one.aspect.strip() and is_quoted(one.evidence or "", texts)]
    kept = list({one.aspect.strip().casefold(): one for one in kept}.values())
    why = ""
    if not kept:
        why = "no aspect has evidence in the user's own texts" if aspects else "no aspects"
    return RubricLine(item=item.id, aspects=kept, invented=len(aspects) - len(kept), why=why, raw=raw)


def is_quoted(evidence: str, texts: Sequence[str]) -> bool:
    """Whether a passage stands in one of the texts word for word; only the spacing may differ.

    >>> is_quoted("I only own  a kettle", ["Well, I only own a\\nkettle."]), is_quoted("I own a kettle", ["a kettle"])
    (True, False)
    """
    passage = " ".join(evidence.strip().strip("\"'“”‘’").split())
    if len(re.findall(r"\w+", passage)) < SHORTEST_EVIDENCE:
        return False
    starts, ends = (r"\b" if re.match(r"\w", letter) else "" for letter in (passage[0], passage[-1]))
    whole = re.compile(f"{starts}{re.escape(passage)}{ends}")  # "art is good" does not stand in "heart is good"
    return any(whole.search(" ".join(text.split())) for text in texts)


def read_aspects(text: str) -> list[Aspect] | None:
    """The aspects in a model's answer; None where there is no list of them.

    >>> read_aspects('Here you are: ```json\\n[{"aspect": "cheap", "evidence": "I have no money"}]\\n```')
    [Aspect(aspect='cheap', reason=None, evidence='I have no money')]
    >>> read_aspects("They would like it cheap.") is None
    True
    """
    for pattern in (r"\[\s*\{.*\}\s*\]", r"\[\s*\]", r"\{.*\}"):
        match = re.search(pattern, text, re.DOTALL)
        if match:
            try:
                found = msgspec.json.decode(match.group(), type=list[_Wire] | _Wire)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                continue
            listed = found if isinstance(found, list) else [found]
            return [Aspect(aspect=one.aspect, reason=one.reason, evidence=one.evidence) for one in listed]
    return None
