"""Answers that were given in other tools: pairwise annotations of Potato and of Label Studio.

Neither tool records on which side a response stood for a person, and both show the first response first, so `shown` is
the order of the file. What people chose by habit of position cannot be told from such answers, and the notes say so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from palate.collect._import import refuse_all
from palate.collect._records import Answer, Item, Participant
from palate.data import Fault, Location, Row, read_rows
from palate.records import PalateError

Pseudonym = Callable[[str], str]
"""From a name or e-mail address in the other tool to the id that is kept."""
STRONGEST = 3
NOT_RANDOMISED = "sides were not randomised: every response stood in the order of the file"


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """A collection's parts, as another tool held them."""

    items: tuple[Item, ...]
    participants: tuple[Participant, ...]
    answers: tuple[Answer, ...]
    notes: tuple[str, ...]


class _Choice(NamedTuple):
    choice: int | None
    strength: int | None = None


def import_potato(
    data: Sequence[Path],
    annotations: Path,
    *,
    pseudonym: Pseudonym,
    task: str,
    schema: str | None = None,
    id_key: str = "id",
    items_key: str = "responses",
    prompt_key: str = "prompt",
) -> Imported:
    """Answers to a pairwise schema of Potato: its data files, and its annotation output, a folder for each person.

    Read are `user_state.json` of version 2 and `annotated_instances.jsonl` of version 1. `schema` has to be named only
    where there are several pairwise ones.
    """
    faults: list[Fault] = []
    items = {item.id: item for item in _potato_items(data, id_key, items_key, prompt_key, faults)}
    states = [*sorted(annotations.rglob("user_state.json")), *sorted(annotations.rglob("annotated_instances.jsonl"))]
    folders: dict[Path, Path] = {}
    for state in states:
        folders.setdefault(state.parent, state)  # the state is the whole truth where both are there
    if not folders:
        raise PalateError(
            f"{annotations}: no user_state.json and no annotated_instances.jsonl; name Potato's output folder"
        )
    answers: list[Answer] = []
    people: dict[str, Participant] = {}
    for file in folders.values():
        date = datetime.fromtimestamp(file.stat().st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for sequence, (name, instance, labels) in enumerate(_potato_labels(file, faults)):
            chosen = _potato_choice(labels, schema, f"item {instance!r} of {name!r}", file, faults)
            if chosen is None:
                continue
            if instance not in items:
                faults.append(Fault("error", str(file), None, instance, "is not in the data files; name them all"))
                continue
            if chosen.choice is not None and chosen.choice >= len(items[instance].responses):
                faults.append(
                    Fault("error", str(file), None, instance, "chooses a response that the item does not have")
                )
                continue
            person = people.setdefault(name, Participant(id=pseudonym(name)))
            answers.append(_answer("potato", person, task, items[instance], chosen, date, sequence))
    refuse_all(faults)
    if not answers:
        raise PalateError(
            f"{annotations}: no answer to a pairwise schema; Potato calls its fields selection and scale_value"
        )
    notes = (NOT_RANDOMISED, "dates are those of Potato's files, since its answers have none")
    return _imported(items.values(), people.values(), answers, notes)


def _potato_items(
    files: Sequence[Path], id_key: str, items_key: str, prompt_key: str, faults: list[Fault]
) -> Iterator[Item]:
    known: set[str] = set()
    for file in files:
        for row, place in read_rows(file, faults):
            listed, name = row.get(items_key), row.get(id_key)
            if listed is None and {"left", "right"} <= row.keys():
                listed = [row["left"], row["right"]]
            if name is None:
                faults.append(Fault("error", place.file, place.line, id_key, "is missing; name the field of the ids"))
            elif not isinstance(listed, list) or len(listed) < 2 or not all(isinstance(text, str) for text in listed):
                message = "expected a list of two or more texts; name the field that items_key names in Potato's config"
                faults.append(Fault("error", place.file, place.line, items_key, message))
            else:
                if str(name) in known:
                    message = f"{name!r} is already used; ids are unique"
                    faults.append(Fault("error", place.file, place.line, id_key, message))
                known.add(str(name))
                asked = str(row.get(prompt_key) or "")
                yield Item(id=str(name), prompt=asked, responses=tuple(listed), source=file.name)


def _potato_labels(file: Path, faults: list[Fault]) -> Iterator[tuple[str, str, dict[str, Row]]]:
    """Person, instance, and by schema the names and values; in the order in which the instances were assigned."""
    for row, place in read_rows(file, faults):
        name = str(row.get("user_id") or file.parent.name)
        if file.suffix == ".jsonl":
            instance = row.get("id", row.get("instance_id"))
            if instance is None:
                faults.append(Fault("error", place.file, place.line, "id", "is missing"))
            else:
                yield name, str(instance), _by_schema(row.get("label_annotations"))
            continue
        held, ordering = row.get("instance_id_to_label_to_value"), row.get("instance_id_ordering")
        by_instance: Row = held if isinstance(held, dict) else {}
        places = {str(id): number for number, id in enumerate(ordering)} if isinstance(ordering, list) else {}
        for id in sorted(by_instance, key=lambda id: places.get(id, len(places))):
            yield name, id, _by_schema(by_instance[id])


def _by_schema(labels: object) -> dict[str, Row]:
    """Both forms that Potato writes: `{schema: {name: value}}`, and pairs `[{"schema": ..., "name": ...}, value]`."""
    if isinstance(labels, dict):
        return {schema: dict(values) for schema, values in labels.items() if isinstance(values, dict)}
    found: dict[str, Row] = {}
    for pair in labels if isinstance(labels, list) else ():
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], dict):
            found.setdefault(str(pair[0].get("schema")), {})[str(pair[0].get("name"))] = pair[1]
    return found


def _potato_choice(
    labels: dict[str, Row], schema: str | None, where: str, file: Path, faults: list[Fault]
) -> _Choice | None:
    pairwise = [name for name, values in labels.items() if values.keys() & {"selection", "scale_value"}]
    wanted = [name for name in pairwise if schema in (None, name)]
    if not wanted:
        return None
    if len(wanted) > 1:
        faults.append(
            Fault("error", str(file), None, None, f"{where}: several pairwise schemas; name one: {', '.join(wanted)}")
        )
        return None
    values = labels[wanted[0]]
    if "selection" in values:
        selection = str(values["selection"])
        if selection == "tie":
            return _Choice(None)
        if len(selection) == 1 and "A" <= selection <= "Z":
            return _Choice(ord(selection) - ord("A"))
        faults.append(Fault("error", str(file), None, None, f"{where}: selection {selection!r} is not A, B or tie"))
        return None
    try:
        scale = float(str(values["scale_value"]))
        strength = max(1, min(STRONGEST, round(abs(scale))))
    except (ValueError, OverflowError):
        faults.append(
            Fault("error", str(file), None, None, f"{where}: scale_value {values['scale_value']!r} is no number")
        )
        return None
    return _Choice(None) if scale == 0 else _Choice(int(scale > 0), strength)


class _Result(msgspec.Struct, frozen=True):
    type: str = ""
    from_name: str = ""
    to_name: str = ""
    value: dict[str, object] = {}


class _Annotation(msgspec.Struct, frozen=True):
    result: list[_Result] = []
    completed_by: int | str | dict[str, object] | None = None
    was_cancelled: bool = False
    created_at: str | None = None
    lead_time: float | None = None

    @property
    def name(self) -> str:
        """Who annotated: the e-mail address where the export has it, else the number of the account."""
        who = self.completed_by
        return str((who.get("email") or who.get("id")) if isinstance(who, dict) else who)

    @property
    def reason(self) -> str | None:
        """What was written into text areas."""
        texts: list[str] = []
        for result in self.result:
            text = result.value.get("text") if result.type == "textarea" else None
            texts += map(str, text) if isinstance(text, list) else [] if text is None else [str(text)]
        return "\n".join(texts) or None


class _Task(msgspec.Struct, frozen=True):
    id: int | str
    data: dict[str, object]
    annotations: list[_Annotation]


def import_label_studio(
    file: Path,
    *,
    pseudonym: Pseudonym,
    task: str,
    left: str | None = None,
    right: str | None = None,
    prompt: str = "prompt",
    control: str | None = None,
) -> Imported:
    """Answers to a `Pairwise` tag in Label Studio's JSON export: tasks with `data` and `annotations`.

    `left` and `right` name the fields of `data` that were compared; without them they are those that the tag's
    `to_name` names. `control` is the tag's name, to be given where there are several. Text areas become the reason.
    """
    faults: list[Fault] = []
    items: dict[str, Item] = {}
    people: dict[str, Participant] = {}
    annotated: list[tuple[str, str, _Annotation, int]] = []
    answered: set[tuple[str, str]] = set()
    cancelled = without = 0
    for exported, place in _label_studio_tasks(file, faults):
        for annotation in exported.annotations:
            tags = [r for r in annotation.result if r.type == "pairwise" and control in (None, r.from_name)]
            if annotation.was_cancelled or not tags:
                cancelled += annotation.was_cancelled
                without += not annotation.was_cancelled
                continue
            try:
                if annotation.name == "None":
                    raise ValueError("completed_by is missing, so nobody can tell whose annotation it is")
                responses, choice = _label_studio_choice(exported, tags, left, right)
                date = _utc(annotation.created_at)
            except ValueError as problem:
                faults.append(Fault("error", place.file, place.line, None, str(problem)))
                continue
            asked = str(exported.data.get(prompt) or "")
            item = Item(id=str(exported.id), prompt=asked, responses=responses, source=file.name)
            if items.setdefault(item.id, item) != item:
                message = f"{item.id!r} compares other texts, or the same in another order, than an earlier annotation"
                faults.append(Fault("error", place.file, place.line, "id", message))
            elif (annotation.name, item.id) in answered:
                message = f"{item.id!r} has two annotations of one person; keep the one that counts"
                faults.append(Fault("error", place.file, place.line, "annotations", message))
            people.setdefault(annotation.name, Participant(id=pseudonym(annotation.name)))
            answered.add((annotation.name, item.id))
            annotated.append((date, item.id, annotation, choice))
    refuse_all(faults)
    if not annotated:
        raise PalateError(f"{file}: no annotation with a Pairwise choice")
    answers: list[Answer] = []
    places: dict[str, int] = {}
    for date, item_id, annotation, choice in sorted(annotated, key=lambda one: one[:2]):
        person = people[annotation.name]
        places[person.id] = places.get(person.id, -1) + 1
        answer = _answer("label-studio", person, task, items[item_id], _Choice(choice), date, places[person.id])
        answers.append(msgspec.structs.replace(answer, reason=annotation.reason, seconds=annotation.lead_time))
    notes = [NOT_RANDOMISED]
    notes += [f"{cancelled:,} cancelled annotations left out"] if cancelled else []
    notes += [f"{without:,} annotations without a Pairwise choice left out"] if without else []
    return _imported(items.values(), people.values(), answers, notes)


def _label_studio_tasks(file: Path, faults: list[Fault]) -> Iterator[tuple[_Task, Location]]:
    for row, place in read_rows(file, faults):
        try:
            yield msgspec.convert(row, _Task), place
        except msgspec.ValidationError as problem:
            message = f"no task with id, data and annotations ({problem}); export as JSON, not as JSON-MIN or CSV"
            faults.append(Fault("error", place.file, place.line, None, message))


def _label_studio_choice(
    exported: _Task, tags: Sequence[_Result], left: str | None, right: str | None
) -> tuple[tuple[str, ...], int]:
    """The two texts and which of them was selected; ValueError with what to do where that cannot be told."""
    if len(tags) > 1:
        raise ValueError(f"several Pairwise tags; name one: {', '.join(tag.from_name for tag in tags)}")
    fields = (left, right) if left and right else tuple(name.strip() for name in tags[0].to_name.split(","))
    texts = [exported.data.get(field) for field in fields if field]
    responses = tuple(text for text in texts if isinstance(text, str))
    if len(responses) != 2:
        known = ", ".join(sorted(exported.data))
        raise ValueError(f"cannot tell which texts were compared; name the left and the right field. Fields: {known}")
    selected = tags[0].value.get("selected")
    if selected not in ("left", "right"):
        raise ValueError(f"selected is {selected!r}; Label Studio writes left or right")
    return responses, int(selected == "right")


def _utc(moment: str | None) -> str:
    """Label Studio's moment, in UTC and to the second."""
    try:
        parsed = datetime.fromisoformat(moment or "")
    except ValueError:
        raise ValueError(f"created_at is {moment!r}, which is no moment such as 2026-03-01T11:00:00Z") from None
    parsed = parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    return parsed.strftime("%Y-%m-%dT%H:%M:%SZ")


def _answer(tool: str, person: Participant, task: str, item: Item, chosen: _Choice, date: str, sequence: int) -> Answer:
    # the same for the same answer, so that importing a file again adds nothing
    digest = hashlib.sha256("\x00".join([tool, task, person.id, item.id]).encode()).hexdigest()
    return Answer(
        id=f"{tool}-{digest[:32]}",
        participant=person.id,
        task=task,
        item=item.id,
        shown=tuple(range(len(item.responses))),
        choice=chosen.choice,
        tie=chosen.choice is None,
        strength=chosen.strength,
        date=date,
        sequence=sequence,
    )


def _imported(
    items: Iterable[Item], people: Iterable[Participant], answers: Sequence[Answer], notes: Sequence[str]
) -> Imported:
    return Imported(items=tuple(items), participants=tuple(people), answers=tuple(answers), notes=tuple(notes))
