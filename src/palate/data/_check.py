"""What is wrong with a benchmark, and what would mislead whoever measures with it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import msgspec

from palate.data._draft import BenchmarkDraft, Fault, Location, copied, error, gathered, integrity, spelt_alike, warning
from palate.data._history import History
from palate.data._load import read_draft
from palate.data._same_text import text_key
from palate.records import Benchmark, Comparison, Judgement, Post, Privileged, came_before

SIGNIFICANT = 0.001
LONGER_SHARE = 0.55
FEWEST_WORDS = 6
COMMON_SHARE, FEWEST_ALIKE = 0.2, 5
"""A phrase is named as a fixed one where this part of the different responses, and at least this many, hold it."""


class Inspection(msgspec.Struct, frozen=True):
    """What is wrong with a benchmark and, of a table, how it was read."""

    faults: list[Fault]
    columns: dict[str, str]
    """Which column was read as what, by the option that says so; empty for other formats."""
    spec: str | None
    """What reads the table the same way without a guess."""
    taken: list[Fault]
    """What was taken by its usual name, in words; `columns` holds it as well."""
    way_out: str = ""
    """Of a table whose bad rows are not skipped: how to leave them out."""
    unused: tuple[str, ...] = ()
    """Columns of a table that nothing is read from."""


def check_benchmark(spec: str | Path, *, data_dir: Path | None = None, revision: str | None = None) -> list[Fault]:
    """Every error and warning about a benchmark, with file and line where it has them; errors first.

    >>> check_benchmark("mini")
    []
    """
    return inspect_benchmark(spec, data_dir=data_dir, revision=revision).faults


def inspect_benchmark(spec: str | Path, *, data_dir: Path | None = None, revision: str | None = None) -> Inspection:
    """What `check_benchmark` finds, and how a table was read."""
    draft = read_draft(spec, data_dir=data_dir, revision=revision, extras=True)
    faults = [*draft.faults, *integrity(draft)]
    # the other rules read `chosen`, which a wrong index does not have
    draft.comparisons = [
        (item, place) for item, place in draft.comparisons if 0 <= item.preferred < len(item.responses) > 1
    ]
    for rule in _RULES:
        faults += rule(draft)
    faults += draft.skipped
    faults.sort(key=lambda fault: fault.severity)
    return Inspection(faults, draft.columns, draft.spec, draft.taken, draft.way_out, draft.unused)


def _same_as_chosen(draft: BenchmarkDraft) -> Iterator[Fault]:
    for item, place in draft.comparisons:
        if item.chosen in item.rejected:
            yield error(place, "chosen", f"{item.id!r}: chosen is also a rejected response; remove the row")


def _people(draft: BenchmarkDraft) -> Iterator[Fault]:
    items = Counter(item.user_id for item, _ in draft.items())
    bare = [(user.id, place) for user, place in draft.users if not (user.posts or user.judgements)]
    unused = [(user.id, place) for user, place in draft.users if user.id not in items]
    yield from spelt_alike(draft)
    yield from copied(draft)
    yield from gathered(bare, None, "user without history, so nothing to be personal with")
    yield from gathered(unused, None, "user without a comparison or completion")
    if len(draft.users) == 1:
        message = "there is only one user, so nothing tells what is personal from what everybody likes"
        yield warning(draft.users[0][1], None, message)


def _responses(draft: BenchmarkDraft) -> Iterator[Fault]:
    texts = [(item.id, place, item.responses) for item, place in draft.comparisons]
    texts += [(item.id, place, item.alternatives) for item, place in draft.completions]
    empty = [(id, place) for id, place, each in texts if not all(text.strip() for text in each)]
    yield from gathered(empty, None, "empty response")


def _repeated_choices(draft: BenchmarkDraft) -> Iterator[Fault]:
    seen: set[tuple[str, str, frozenset[str], str]] = set()
    again = []
    for item, place in draft.comparisons:
        key = (item.user_id, item.prompt, frozenset(item.responses), item.chosen)
        if key in seen:
            again.append((item.id, place))
        seen.add(key)
    yield from gathered(again, None, "repeats a choice that the same user made in an earlier row")


def _twins(draft: BenchmarkDraft) -> Iterator[Fault]:
    items = {item.id: item for item, _ in draft.comparisons}
    lost = [(item.id, place) for item, place in draft.comparisons if item.twin and item.twin not in items]
    crooked = [
        (item.id, place)
        for item, place in draft.comparisons
        if item.twin in items and not _mirrors(item, items[item.twin])
    ]
    yield from gathered(lost, "twin", "names a comparison that does not exist")
    yield from gathered(crooked, "twin", "its twin is not its mirror (same responses, opposite choice)")


def _mirrors(item: Comparison, twin: Comparison) -> bool:
    return twin.twin == item.id and set(twin.responses) == set(item.responses) and twin.chosen != item.chosen


def _late_history(draft: BenchmarkDraft) -> Iterator[Fault]:
    """History dated on or after an item; judgements and posts that are items themselves are so by design."""
    ids = {item.id for item, _ in draft.items()}
    history: dict[str, list[Post | Judgement]] = {}
    for user, _ in draft.users:
        past: list[Post | Judgement] = [*user.posts, *user.judgements]
        history[user.id] = [one for one in past if one.id not in ids]
    late = [
        (item.id, place)
        for item, place in draft.items()
        if any(not came_before(one, item) for one in history.get(item.user_id, ()))
    ]
    yield from gathered(late, "date", "has history of the same date or later; views leave that history out")


def _positions(draft: BenchmarkDraft) -> Iterator[Fault]:
    """A position that is chosen always, or more often than chance allows; only where positions mean something."""
    items = [item for item, _ in draft.comparisons if not draft.unordered and item.id not in draft.chosen_first]
    if len(items) < 2:
        return
    place = Location(draft.source)
    positions = [item.preferred if item.shown is None else item.shown[item.preferred] for item in items]
    counts = Counter(positions)
    position, count = counts.most_common(1)[0]
    if count == len(items):
        yield warning(
            place, "preferred", f"the {_ordinal(position)} response is chosen in all {count} rows; shuffle them"
        )
        return
    for position, count in sorted(counts.items()):
        chances = [1 / len(item.responses) if position < len(item.responses) else 0.0 for item in items]
        expected = sum(chances)
        if count > expected and tail(count, expected, sum(p * (1 - p) for p in chances)) < SIGNIFICANT:
            shares = f"{count / len(items):.0%} of {len(items)} rows, where chance gives {expected / len(items):.0%}"
            yield warning(place, "preferred", f"the {_ordinal(position)} response is chosen in {shares}")


def _ordinal(position: int) -> str:
    """A place in words, as people count."""
    return ("first", "second", "third", "fourth", "fifth")[position] if position < 5 else f"{position + 1}th"


def _lengths(draft: BenchmarkDraft) -> Iterator[Fault]:
    """Chosen responses that are systematically the longer ones (sign test)."""
    longer = shorter = 0
    for item, _ in draft.comparisons:
        difference = len(item.chosen) - fmean(map(len, item.rejected))
        longer += difference > 0
        shorter += difference < 0
    count = longer + shorter
    share = longer / count if count else 0.0
    if share > LONGER_SHARE and tail(longer, count / 2, count / 4) < SIGNIFICANT:
        message = f"the chosen response is the longer one in {share:.0%} of {count} rows; report a length control"
        yield warning(Location(draft.source), "chosen", message)


def tail(count: int, expected: float, variance: float) -> float:
    """Two-sided p-value of a count that is a sum of independent draws, by the normal approximation."""
    if variance <= 0:
        return 0.0 if count != expected else 1.0
    deviation = max(0.0, abs(count - expected) - 0.5)
    return math.erfc(deviation / math.sqrt(2 * variance))


def _private_facts(draft: BenchmarkDraft) -> Iterator[Fault]:
    """Responses that repeat a sentence of the rubric or the narrative: those give the label away."""
    leaks = [
        (item.id, place, sentence)
        for item, place in draft.comparisons
        if (sentence := _repeated_sentence(item)) is not None
    ]
    if leaks:
        message = f"a response repeats a private fact: {leaks[0][2][:80]!r}"
        yield from gathered([(id, place) for id, place, _ in leaks], None, message)


def _answers_in_history(draft: BenchmarkDraft) -> Iterator[Fault]:
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
    known = [(item.id, place) for item, place in items if history.traits(users[item.user_id], item)[1]]
    for found, holds in (
        (judged, "an earlier judgement of the user holds one of its responses"),
        (posted, "an earlier post of the user holds one of its responses or its private narrative"),
        (known, "demographics or values of the user hold one of its responses"),
    ):
        message = (
            f"{holds}, or nearly ({len(found):,} of {len(items):,} items); views leave it out, other tools may not"
        )
        yield from gathered(found, None, message)
    if len(judged) > len(items) / 2 and (phrase := _common_phrase(draft)):
        words, count, texts = phrase
        yield warning(
            Location(draft.source.split(",")[0]),
            None,
            f"{count:,} of {texts:,} different responses hold {words!r}; texts that are built alike count as nearly "
            "the same, and then little history is left to show. Take out greetings, closings and other fixed phrases",
        )


def _common_phrase(draft: BenchmarkDraft) -> tuple[str, int, int] | None:
    """A run of words that many different responses hold, in how many, of how many; None where no run is common."""
    texts = [key.split() for key in {text_key(text) for item, _ in draft.comparisons for text in item.responses}]
    runs = [list(zip(words, words[1:], words[2:], strict=False)) for words in texts]
    counts = Counter(run for text in runs for run in set(text))
    if not counts:
        return None
    top, count = max(counts.items(), key=lambda each: (each[1], each[0]))
    if count < COMMON_SHARE * len(texts) or count < FEWEST_ALIKE:
        return None
    own = next(text for text in runs if top in text)
    start = end = own.index(top)
    while start > 0 and counts[own[start - 1]] >= 0.9 * count:
        start -= 1
    while end + 1 < len(own) and counts[own[end + 1]] >= 0.9 * count:
        end += 1
    return " ".join([run[0] for run in own[start:end]] + list(own[end])), count, len(texts)


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


_RULES = (
    _same_as_chosen,
    _people,
    _responses,
    _repeated_choices,
    _twins,
    _late_history,
    _private_facts,
    _answers_in_history,
    _positions,
    _lengths,
)
