"""Responses: by one generator, under the same limits, told to serve the aspects or in which way not to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from palate.build._prompts import listed
from palate.build._records import CandidateLine
from palate.engine import Sampling

if TYPE_CHECKING:
    from palate.build._generate import Reply, StageContext, Task

OVER = 1.2
"""How many times the words that were asked for a response may have."""
_REFUSAL = re.compile(
    r"(?:i['’]?m sorry|i am sorry|sorry,|as an ai|i am unable to|i['’]m unable"
    r"|i can(?:no|['’])t (?:help|answer|assist|provide|comply))",
    re.IGNORECASE,
)


def write_candidates(context: StageContext, tasks: Sequence[Task]) -> list[CandidateLine]:
    """One line for each task; all of them go to the generator together."""
    texts = [candidate_prompt(context, task) for task in tasks]
    replies = context.ask("generator", texts, [_sampling(context, task) for task in tasks])
    return [
        CandidateLine(
            item=item.id, contrast=contrast, text=reply.text, why=_unusable(reply, context.plan.candidates.words)
        )
        for (item, contrast), reply in zip(tasks, replies, strict=True)
    ]


def candidate_prompt(context: StageContext, task: Task) -> str:
    """What the generator is asked: the same words and limits but for what to do with the aspects."""
    item, contrast = task
    words = {"question": item.prompt, "words": str(context.plan.candidates.words)}
    if contrast != "ignores":
        words["aspects"] = listed(context.rubrics[item.id].aspects)
    return context.prompt(contrast, **words)


def _sampling(context: StageContext, task: Task) -> Sampling:
    """A seed of its own for each response, so that nothing depends on the order of the work."""
    candidates = context.plan.candidates
    drawn = hashlib.sha256(f"{context.plan.seed}\0{task[0].id}\0{task[1]}".encode()).digest()
    return Sampling(
        most_tokens=candidates.tokens,
        temperature=candidates.temperature,
        top_p=candidates.top_p,
        seed=int.from_bytes(drawn[:4], "big") >> 1,
    )


def _unusable(reply: Reply, words: int) -> str:
    """Why a response cannot be used; empty where it can."""
    if reply.failed:
        return "the model failed"
    if not reply.text:
        return "an empty response"
    if _REFUSAL.match(reply.text.lstrip("\"'* ")):
        return "the generator refused"
    if not reply.finished:
        return "the response was cut off"
    if len(reply.text.split()) > OVER * words:
        return "longer than was asked for"
    return ""
