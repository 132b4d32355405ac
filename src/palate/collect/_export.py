"""From a collection to data that others can use: a benchmark folder, the exchange record, TRL's columns, or all of it.

What counts is the same in every format. A comparison is the first answer of a person to an item that is a choice.
Ties have no preferred response and are left out. Attention checks and planned repeats are measures of quality and are
left out. All of these are counted, on the card and in what the functions return; `export_records` leaves nothing out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from palate.collect._project import FINISHED
from palate.collect._records import Answer, Collected, Item, SurveyAnswer
from palate.collect._values import is_portrait, values_of
from palate.data import write_benchmark
from palate.records import Benchmark, Card, Comparison, Completion, Judgement, PalateError, User
from palate.runs import json_lines, write_whole

RECORDS, ABOUT = "records", "collection.json"


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What was written and what was left out, in numbers of answers."""

    users: int
    comparisons: int
    completions: int
    """Edits: what a participant made of a response."""
    ties: int
    checks: int
    checks_failed: int
    repeats: int
    """Second and later answers of one person to one item."""
    without_choice: int
    """Answers that choose nothing, such as grades of a validation or a thumb."""
    same_texts: int
    """Choices between responses that are all the same."""
    people_without: int
    """Participants who gave nothing that could be exported."""
    in_file_order: int
    """Choices for which the item's first response also stood first on the screen."""
    active: int
    """Choices of pairs that were chosen actively."""
    told_after: int = 0
    """People who answered a survey after their first choice: their demographics or values may hold what came later."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the card."""
        edited = f", {_number(self.completions, 'text')} that a person edited" if self.completions else ""
        biased = (
            f"{self.active:,} of {_number(self.comparisons, 'choice')} are of pairs chosen actively: hard pairs came "
            "more often, so that the plain accuracy of any model on them is biased"
        )
        later = (
            f"{_number(self.told_after, 'person', 'people')} answered a survey after their first choice: demographics "
            "and values have no date, so a view of an earlier choice holds what they said afterwards"
        )
        return (
            *([biased] if self.active else []),
            *([later] if self.told_after else []),
            f"{_number(self.comparisons, 'choice')} of {_number(self.users, 'person', 'people')}{edited}",
            f"left out: {_number(self.ties, 'tie')}, {_number(self.repeats, 'planned repeat')} (the first answer "
            f"counts), {_number(self.checks, 'attention check')} ({self.checks_failed:,} failed), "
            f"{_number(self.without_choice, 'answer')} without a choice, {_number(self.same_texts, 'choice')} between "
            f"equal texts, {_number(self.people_without, 'participant')} without a choice",
            "nobody was dropped for the quality of their answers",
            "`shown` says where each response stood for the person: the first one of the file stood first in "
            f"{self.in_file_order:,} of {_number(self.comparisons, 'choice')}",
            "a person's own choices are their history; `sequence` orders them, so that no view holds a later one",
        )


def _number(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


class _Choice(NamedTuple):
    """An answer that counts as a comparison."""

    answer: Answer
    item: Item
    preferred: int


class _Sorted(msgspec.Struct, frozen=True, kw_only=True):
    """The answers that count, with their items, by participant in the order given; and the numbers of the others."""

    choices: dict[str, list[_Choice]]
    edits: dict[str, list[tuple[Answer, Item]]]
    counts: Exported


def _sort(collected: Collected) -> _Sorted:
    items = {item.id: item for item in collected.items}
    choices: dict[str, list[_Choice]] = {}
    edits: dict[str, list[tuple[Answer, Item]]] = {}
    counts = dict.fromkeys(("ties", "checks", "checks_failed", "repeats", "without_choice", "same_texts"), 0)
    known: set[tuple[str, str]] = set()
    for answer in sorted(collected.answers, key=lambda answer: (answer.participant, answer.sequence)):
        item = items[answer.item]
        if item.check is not None:
            counts["checks"] += 1
            counts["checks_failed"] += answer.choice != item.check
            continue
        if answer.edit is not None and answer.edit.strip() and answer.edit not in item.responses:
            edits.setdefault(answer.participant, []).append((answer, item))
        if len(item.responses) < 2 or (answer.choice is None and not answer.tie):
            counts["without_choice"] += 1
        elif answer.repeat or (answer.participant, item.id) in known:
            counts["repeats"] += 1
        elif answer.choice is None:
            known.add((answer.participant, item.id))
            counts["ties"] += 1
        elif item.responses.count(item.responses[answer.choice]) > 1:
            known.add((answer.participant, item.id))
            counts["same_texts"] += 1
        else:
            known.add((answer.participant, item.id))
            choices.setdefault(answer.participant, []).append(_Choice(answer, item, answer.choice))
    with_something = choices.keys() | edits.keys()
    told_after = {
        told.participant for told in collected.survey
        if told.question != FINISHED and not told.free and told.participant in choices
        and told.date > min(chosen.answer.date for chosen in choices[told.participant])
    }  # fmt: skip
    written = Exported(
        users=len(with_something),
        comparisons=sum(map(len, choices.values())),
        completions=sum(map(len, edits.values())),
        people_without=sum(person.id not in with_something for person in collected.participants),
        in_file_order=sum(choice.answer.shown[0] == 0 for chosen in choices.values() for choice in chosen),
        active=sum(choice.answer.probability is not None for chosen in choices.values() for choice in chosen),
        told_after=len(told_after),
        **counts,
    )
    return _Sorted(choices=choices, edits=edits, counts=written)


def benchmark_of(collected: Collected, *, without_questions: Collection[str] = ()) -> Benchmark:
    """The collection as a benchmark: each choice is an item, and a judgement in its person's history.

    Demographics are the groups a participant was invited for and the survey's answers, but for
    `without_questions` and free texts, which may name somebody. Values are the strongest ones of the portraits.
    """
    return _benchmark(collected, _sort(collected), without_questions)


def export(
    collected: Collected, folder: Path, *, without_questions: Collection[str] = (), force: bool = False
) -> Exported:
    """Write a benchmark folder, which `palate eval`, `train` and `data check` read directly."""
    answers = _sort(collected)
    write_benchmark(_benchmark(collected, answers, without_questions), folder, force=force)
    return answers.counts


def export_exchange(collected: Collected, file: Path, *, without_questions: Collection[str] = ()) -> Exported:
    """Write one record a person with their stated preferences. `response_A` is what the person saw first."""
    answers = _sort(collected)
    users = _users(collected, answers, without_questions)
    records = [
        {
            "user_id": person,
            "demographics": users[person].demographics,
            "values": users[person].values,
            "preferences": [_preference(*choice) for choice in chosen],
        }
        for person, chosen in answers.choices.items()
    ]
    _write(file, records)
    return answers.counts


def export_trl(collected: Collected, file: Path) -> Exported:
    """Write the columns `prompt`, `chosen`, `rejected` and `user` as JSON Lines: a row for each rejected response."""
    answers = _sort(collected)
    rows = [
        {"prompt": item.prompt, "chosen": item.responses[preferred], "rejected": rejected, "user": person}
        for person, chosen in answers.choices.items()
        for _, item, preferred in chosen
        for place, rejected in enumerate(item.responses)
        if place != preferred
    ]
    _write(file, rows)
    return answers.counts


def export_records(collected: Collected, folder: Path) -> None:
    """Write everything: participants, items, answers and survey, each as JSON Lines; ties, checks and repeats too."""
    _in_folder(folder)
    about = {name: getattr(collected, name) for name in ("project", "title", "version", "licence")}
    # first, so that whoever is erased is found in an export that was cut off
    write_whole(folder / ABOUT, msgspec.json.format(msgspec.json.encode(about), indent=2) + b"\n")
    for name in ("participants", "items", "answers", "survey"):
        write_whole(folder / f"{name}.jsonl", json_lines(getattr(collected, name)))


def is_export(folder: Path) -> bool:
    """Whether a folder is an export of a collection, by what `export_records` writes into it first."""
    try:
        about = msgspec.json.decode((folder / RECORDS / ABOUT).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return False
    return "project" in about


def _benchmark(collected: Collected, answers: _Sorted, without_questions: Collection[str]) -> Benchmark:
    if not answers.counts.users:
        raise PalateError(
            f"{collected.project}: there is no choice to export yet ({_number(len(collected.answers), 'answer')}, "
            f"{_number(answers.counts.ties, 'tie')}, {_number(answers.counts.checks, 'attention check')})"
        )
    return Benchmark(
        card=Card(
            name=collected.project,
            title=collected.title,
            version=collected.version,
            licence=collected.licence,
            source="collected with palate from invited participants",
            description="Choices of single people between responses to the same prompt.",
            notes=answers.counts.notes,
        ),
        users=_users(collected, answers, without_questions),
        comparisons=tuple(
            Comparison(
                id=_id(answer),
                user_id=answer.participant,
                prompt=item.prompt,
                responses=item.responses,
                preferred=preferred,
                category=item.category,
                # what several people judged must not lie on both sides of a split
                group=item.group or item.id,
                sequence=answer.sequence,
                shown=answer.shown,
            )
            for chosen in answers.choices.values()
            for answer, item, preferred in chosen
        ),
        completions=tuple(
            Completion(
                id=f"{_id(answer)}:{answer.task}:{answer.repeat}",
                user_id=answer.participant,
                prompt=item.prompt,
                text=answer.edit,
                alternatives=item.responses,
                category=item.category,
                group=item.group or item.id,
                sequence=answer.sequence,
            )
            for edited in answers.edits.values()
            for answer, item in edited
        ),
    )


def _id(answer: Answer) -> str:
    return f"{answer.participant}:{answer.item}"


def _users(collected: Collected, answers: _Sorted, without_questions: Collection[str]) -> dict[str, User]:
    values = values_of(collected)
    surveyed: dict[str, list[SurveyAnswer]] = {}
    for stated in sorted(collected.survey, key=lambda stated: stated.date):
        if (
            stated.question != FINISHED
            and not stated.free
            and not is_portrait(stated.question)
            and stated.question not in without_questions
        ):
            surveyed.setdefault(stated.participant, []).append(stated)
    users = {}
    for person in collected.participants:
        chosen = answers.choices.get(person.id, [])
        if not chosen and person.id not in answers.edits:
            continue
        own = {stated.question: _plain(stated.value) for stated in surveyed.get(person.id, [])}
        users[person.id] = User(
            id=person.id,
            demographics={**person.strata, **own},
            values=values[person.id].strongest if person.id in values else (),
            judgements=tuple(
                Judgement(
                    id=_id(answer),
                    prompt=item.prompt,
                    responses=item.responses,
                    preferred=preferred,
                    reason=answer.reason or None,
                    values=answer.values,
                    sequence=answer.sequence,
                )
                for answer, item, preferred in chosen
            ),
        )
    return users


def _plain(value: str | int | list[str]) -> str | list[str]:
    return value if isinstance(value, list) else str(value)


def _preference(answer: Answer, item: Item, preferred: int) -> dict[str, object]:
    order = sorted(range(len(item.responses)), key=lambda place: answer.shown[place])
    texts = [item.responses[place] for place in order]
    choice: dict[str, object] = {"responses": texts, "preferred": order.index(preferred)}
    if len(texts) == 2:
        chosen = "response_A" if order[0] == preferred else "response_B"
        choice = {"response_A": texts[0], "response_B": texts[1], "chosen_response": chosen}
    reason = {"reason": answer.reason} if answer.reason else {}
    return {"prompt": item.prompt, **choice, **reason, "value_alignment": answer.values, "id": _id(answer)}


def _write(file: Path, rows: Sequence[Mapping[str, object]]) -> None:
    _in_folder(file.parent)
    write_whole(file, b"".join(msgspec.json.encode(row) + b"\n" for row in rows))


def _in_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise PalateError(f"{folder}: cannot be written ({problem.strerror or problem})") from None
