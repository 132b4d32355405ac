"""Answers that stand where a model may look: private facts in a response, and responses in the history."""

from __future__ import annotations

import re
from collections.abc import Iterator

from palate.data._draft import Draft
from palate.data._faults import Fault, gathered
from palate.data._history import History
from palate.records import Benchmark, Comparison, Privileged

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


def history_faults(draft: Draft) -> Iterator[Fault]:
    """Items of which the user's own earlier history holds a response, or the private narrative."""
    users = {user.id: user for user, _ in draft.users}
    items = [(item, place) for item, place in draft.items() if item.user_id in users]
    history = History(
        Benchmark(
            card=draft.card,
            users=users,
            comparisons=tuple(item for item, _ in draft.comparisons),
            completions=tuple(item for item, _ in draft.completions),
        )
    )
    judged = [(item.id, place) for item, place in items if history.withheld_judgements(users[item.user_id], item)]
    posted = [(item.id, place) for item, place in items if history.posts(users[item.user_id], item).withheld]
    for found, holds in (
        (judged, "an earlier judgement of the user holds one of its responses"),
        (posted, "an earlier post of the user holds one of its responses or its private narrative"),
    ):
        message = (
            f"{holds}, or nearly ({len(found):,} of {len(items):,} items); views leave it out, other tools may not"
        )
        yield from gathered(found, None, message)


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
