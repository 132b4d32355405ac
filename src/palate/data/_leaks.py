"""Private facts that a response gives away."""

from __future__ import annotations

import re
from collections.abc import Iterator

from palate.data._draft import Draft
from palate.data._faults import Fault, gathered
from palate.records import Comparison, Privileged

FEWEST_WORDS = 6


def leak_faults(draft: Draft) -> Iterator[Fault]:
    """Responses that repeat a sentence of the rubric or the narrative: those give the label away."""
    leaks = [
        (item.id, place, sentence)
        for item, place in draft.comparisons
        if (sentence := _repeated_sentence(item)) is not None
    ]
    if leaks:
        message = f"a response repeats a private fact: {leaks[0][2][:80]!r}"
        yield from gathered([(id, place) for id, place, _ in leaks], None, message)


def _repeated_sentence(item: Comparison) -> str | None:
    responses = [_plain(response) for response in item.responses]
    return next((one for one in private_sentences(item.privileged) if any(one in text for text in responses)), None)


def private_sentences(privileged: Privileged) -> Iterator[str]:
    """Every private sentence that is too long to be repeated by chance, in small letters with single spaces."""
    texts = [privileged.narrative or ""]
    for aspect in privileged.aspects:
        texts += [aspect.aspect, aspect.reason or ""]
    for text in texts:
        for sentence in re.split(r"[.!?\n]+", text):
            plain = _plain(sentence)
            if len(plain.split()) >= FEWEST_WORDS:
                yield plain


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
