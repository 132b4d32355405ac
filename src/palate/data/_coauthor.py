"""CoAuthor: which of the suggestions on the screen a writer took."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, date, datetime
from pathlib import Path

import msgspec

from palate.data._cards import card_of
from palate.data._draft import BenchmarkDraft, draft_of
from palate.data._exchange import comparison_of
from palate.data._files import read_all
from palate.data._wire import write_moment
from palate.records import Benchmark, Comparison, Judgement, User


class _Choice(msgspec.Struct):
    session: str
    worker: str
    kind: str
    context: str
    suggestions: list[str]
    chosen: int
    ts: int


def read_coauthor(folder: Path, since: date | None = None) -> BenchmarkDraft:
    """Each choice as a comparison in the order shown; a writer's history is the choices they made before.

    With `since`, choices before that day are left out, from the history too.
    """
    history: dict[str, list[Judgement]] = defaultdict(list)
    comparisons: list[Comparison] = []
    same_text = early = 0
    for choice in read_all(folder / "choices.jsonl.gz", _Choice, "coauthor"):
        if choice.suggestions.count(choice.suggestions[choice.chosen]) > 1:
            same_text += 1
            continue
        moment = datetime.fromtimestamp(choice.ts / 1000, UTC)
        if since and moment.date() < since:
            early += 1
            continue
        judgement = Judgement(
            prompt=choice.context,
            responses=tuple(choice.suggestions),
            preferred=choice.chosen,
            id=f"{choice.session}:{choice.ts}",
            date=write_moment(moment),
        )
        history[choice.worker].append(judgement)
        comparisons.append(
            msgspec.structs.replace(
                comparison_of(judgement, choice.worker, category=choice.kind, group=choice.session),
                shown=tuple(range(len(choice.suggestions))),
            )
        )
    card = card_of(
        "coauthor",
        "1.0",
        "The prompt is the text so far; the responses are the suggestions in the order shown. "
        "Until 22 August 2021 the first is recorded as taken nearly every time, and from the next day on little more "
        "often than the others: the record seems to have changed, not the writers. since=2021-08-23 leaves out what "
        "is older.",
        f"choices where another suggestion had the same text as the one taken, left out: {same_text}",
        *([f"choices before {since}, left out: {early}"] if since else []),
    )
    users = {
        worker: User(id=worker, judgements=tuple(sorted(choices, key=lambda one: one.date or "")))
        for worker, choices in history.items()
    }
    return draft_of(Benchmark(card=card, users=users, comparisons=tuple(comparisons)), "coauthor")
