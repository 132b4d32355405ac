"""A project: what is asked of whom, in one TOML file. Every fault in it is reported at once, before anything runs."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from palate.collect._records import Item
from palate.records import PalateError, unknown_name

PROJECT_FILE = "project.toml"
DEFAULT_DATABASE = "collect.sqlite"
MAX_TEXT = 20_000
"""Longest prompt or response that is shown, in characters."""
FINISHED = "finished"
"""What a survey's last event answers, in the place of a question."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One question of a survey. Nobody has to answer it."""

    id: str
    text: str
    kind: Literal["choice", "choices", "scale", "text"] = "choice"
    options: list[str] = []
    """The answers of a choice."""
    low: str = ""
    """What 1 means on a scale."""
    high: str = ""
    """What the last point of a scale means."""
    points: int = 5
    """How many points a scale has."""
    why: str = ""
    """Why it is asked, in plain words. It is shown with the question."""


class Survey(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="survey"):
    """Questions about the person."""

    name: str
    title: str = "About you"
    instructions: str = ""
    questions: list[Question] = []
    questionnaire: Literal["", "pvq21"] = ""
    """A published questionnaire that is asked after the questions."""


class _Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What all tasks about prompts and responses have."""

    name: str
    title: str = ""
    instructions: str = ""
    markdown: bool = True
    """Show responses as sanitised Markdown; otherwise as plain text."""
    strength: bool = True
    """Ask how much better the chosen response is."""
    satisfaction: bool = True
    """Ask how satisfied the person is with the better one."""
    reason: bool = True
    """Ask for the reason in the person's own words."""
    values: list[str] = []
    """Tags that may be ticked as reasons."""


class _Planned(_Judged, frozen=True, kw_only=True):
    """A task whose items come from a file and are dealt out."""

    items: str
    per_person: int = 20
    """Items for each person, without repeats and checks."""
    overlap: int = 3
    """How many people judge each item; 0 for no limit."""
    repeats: int = 0
    """How many of a person's items come a second time."""
    checks: int = 0
    """How many attention checks a person gets."""


class Compare(_Planned, frozen=True, kw_only=True, tag_field="kind", tag="compare"):
    """A prompt and two or more responses: which one does the person prefer?"""

    tie: bool = True
    active: bool = False
    """Choose the next pair by what it would tell about this person, and record how likely it was."""


class Validate(_Planned, frozen=True, kw_only=True, tag_field="kind", tag="validate"):
    """Blind validation of benchmark items on four dimensions."""

    strength: bool = False
    satisfaction: bool = False
    reason: bool = False


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A model that answers live."""

    name: str
    policy: str
    """As everywhere in palate: `smollm2`, `org/name`, or `name,url=https://...,key=VARIABLE` for a server."""
    system: str = ""
    """Instructions that the model gets first."""
    temperature: float = 0.7
    tokens: int = 256


class Feedback(_Judged, frozen=True, kw_only=True, tag_field="kind", tag="feedback"):
    """The person's own prompt, answered live by two models."""

    models: list[Model]
    prompts: int = 3
    """How many prompts each person is asked for."""
    tie: bool = True
    edit: bool = False
    """Let the person improve the better response."""


Task = Survey | Compare | Feedback | Validate
KINDS: dict[str, type[Task]] = {"survey": Survey, "compare": Compare, "feedback": Feedback, "validate": Validate}


class Consent(msgspec.Struct, frozen=True, kw_only=True):
    """What people agree to before anything is asked. The version that was agreed to is recorded."""

    text: str
    version: str
    contact: str


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """The most people of one group."""

    stratum: str
    value: str
    people: int


class Crowd(msgspec.Struct, frozen=True, kw_only=True):
    """Participants who come from a crowd platform."""

    parameter: str = "PROLIFIC_PID"
    """The part of the link in which the platform puts the person's id. It is hashed on arrival."""
    completion: str = ""
    """Where people are sent when they are done."""


class Widget(msgspec.Struct, frozen=True, kw_only=True):
    """Feedback from a product's own page."""

    key: str
    """Public: it names this project, and is no secret."""
    origins: list[str]
    """Pages that may send feedback, such as `https://app.example.org`."""
    notice: str = "Your feedback is stored under a random id."
    task: str = "widget"


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one collection."""

    title: str
    consent: Consent
    tasks: list[Task]
    name: str = ""
    version: str = "1"
    licence: str = "not stated"
    seed: int = 0
    database: str = ""
    """A PostgreSQL address, or the name of an environment variable that holds it as `$NAME`; a SQLite file if empty."""
    retention_days: int = 365
    """Days without an answer after which a person is erased; 0 keeps everybody."""
    strata: list[str] = []
    """Groups that assignment is balanced over: from the invitation, or from survey questions of the same id."""
    quotas: list[Quota] = []
    crowd: Crowd | None = None
    widget: Widget | None = None
    folder: Path = Path()
    items: dict[str, tuple[Item, ...]] = {}
    """The items of each task, as read from its file."""

    def task(self, name: str) -> Task | None:
        """The task of that name."""
        return next((task for task in self.tasks if task.name == name), None)


class ProjectError(PalateError):
    """All faults of a project, one on a line."""

    def __init__(self, where: object, faults: Sequence[str]) -> None:
        listed = "".join(f"\n  - {fault}" for fault in faults)
        super().__init__(f"{where} cannot be used; nothing was started.{listed}")
        self.faults = list(faults)


def read_project(folder: Path, *, check_items: bool = True) -> Project:
    """The project in a folder, checked as a whole; without `check_items`, the files of items are not read."""
    file = folder / PROJECT_FILE if folder.is_dir() or not folder.suffix else folder
    try:
        raw = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PalateError(f"there is no project {file}. Make one: palate collect init NAME --example compare") from None
    except (OSError, ValueError, RecursionError) as error:
        raise PalateError(f"{file} cannot be read as TOML: {error}") from error
    faults: list[str] = []
    tasks = list(_tasks(raw.pop("tasks", []), faults))
    for name in ("folder", "items"):
        if name in raw:
            del raw[name]
            faults.append(f"{name} is not a key of a project; items belong to a task: [[tasks]] items = ...")
    fields = _fields(Project, raw, "", faults, skip=("tasks", "folder", "items"))
    fields["name"] = fields.get("name") or file.parent.resolve().name
    project = None
    if {"title", "consent"} <= fields.keys():
        project = Project(**fields, tasks=tasks, folder=file.parent)
        faults += _inconsistent(project)
        if check_items:
            project = msgspec.structs.replace(project, items=_items(project, faults))
    if faults or project is None:
        raise ProjectError(file, faults)
    return project


def _tasks(raw: object, faults: list[str]) -> Iterator[Task]:
    if not isinstance(raw, list) or not raw or not all(isinstance(table, dict) for table in raw):
        faults.append("tasks: there is none; write each task as [[tasks]] with kind = " + ", ".join(KINDS))
        return
    for number, table in enumerate(raw, 1):
        where = f"tasks {number} ({table.get('name', 'no name')}): "
        kind = KINDS.get(str(table.get("kind")))
        if kind is None:
            faults.append(f"{where}{unknown_name('kind of task', str(table.get('kind')), KINDS)}")
            continue
        before = len(faults)
        fields = _fields(kind, {key: value for key, value in table.items() if key != "kind"}, where, faults)
        if len(faults) == before:
            yield kind(**fields)


def _fields(
    kind: type[msgspec.Struct], raw: dict[str, Any], where: str, faults: list[str], skip: Sequence[str] = ()
) -> dict[str, Any]:
    """Each field by itself, so that one fault does not hide another; tables within are read the same way."""
    known = {field.name: field for field in msgspec.structs.fields(kind) if field.name not in skip}
    for key in raw.keys() - known.keys():
        faults.append(f"{where}{unknown_name('key', key, known)}")
    fields: dict[str, Any] = {}
    for name, field in known.items():
        if name not in raw:
            if field.required:
                faults.append(f"{where}{name} is missing")
            continue
        value, inner = raw[name], _table_of(field.type)
        if inner is not None and isinstance(value, dict):
            before = len(faults)
            given = _fields(inner, value, f"{where}{name}: ", faults)
            if len(faults) == before:
                fields[name] = inner(**given)
        elif inner is not None and isinstance(value, list) and all(isinstance(one, dict) for one in value):
            rows = []
            for number, one in enumerate(value, 1):
                before = len(faults)
                given = _fields(inner, one, f"{where}{name} {number}: ", faults)
                if len(faults) == before:
                    rows.append(inner(**given))
            fields[name] = rows
        else:
            try:
                fields[name] = msgspec.convert(value, field.type)
            except msgspec.ValidationError as error:
                faults.append(f"{where}{name}: {error}")
    return fields


def _table_of(kind: Any) -> type[msgspec.Struct] | None:
    """The struct in `X`, `X | None` and `list[X]`."""
    for one in (kind, *getattr(kind, "__args__", ())):
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            return one
    return None


def _inconsistent(project: Project) -> Iterator[str]:
    """What the fields together tell."""
    names = [task.name for task in project.tasks]
    for name in names:
        if not _NAME.fullmatch(name):
            yield f"tasks: the name {name!r} is part of addresses: up to 40 of a-z, 0-9 and '-'"
    yield from (f"tasks: the name {name!r} is there twice" for name in sorted({n for n in names if names.count(n) > 1}))
    for what, text in (("title", project.title), ("consent: text", project.consent.text)):
        if not text.strip():
            yield f"{what} is empty"
    if not project.consent.contact.strip():
        yield "consent: contact is empty; people must be able to ask somebody"
    if project.retention_days < 0:
        yield f"retention_days is a number of days, or 0 to keep everybody; {project.retention_days} was given"
    for task in project.tasks:
        yield from (f"tasks ({task.name}): {fault}" for fault in _task_faults(task))
    for question in (one for task in project.tasks if isinstance(task, Survey) for one in task.questions):
        if question.kind == "text" and question.id in project.strata:
            yield f"strata: {question.id!r} is a free text, which may name somebody and makes no groups; offer a choice"
    surveys = [task for task in project.tasks if isinstance(task, Survey)]
    asked = Counter(id for survey in surveys for id in {question.id for question in survey.questions})
    yield from (
        f"tasks: the question {id!r} is in {count} surveys, and of a person's answers the last alone would be "
        "exported: give each an id of its own"
        for id, count in sorted(asked.items())
        if count > 1
    )
    for number, quota in enumerate(project.quotas, 1):
        if quota.stratum not in project.strata:
            yield f"quotas {number}: {unknown_name('stratum', quota.stratum, project.strata, hint='Add it to strata.')}"
        if quota.people < 1:
            yield f"quotas {number}: people is a number from 1; {quota.people} was given"
    if project.crowd and project.crowd.completion and not _is_web(project.crowd.completion):
        yield f"crowd: completion is a link that begins with https://; {project.crowd.completion!r} was given"
    if project.widget:
        yield from (f"widget: {fault}" for fault in _widget_faults(project.widget, names))


def _task_faults(task: Task) -> Iterator[str]:
    if isinstance(task, Survey):
        if not task.questions and not task.questionnaire:
            yield "nothing is asked: add [[tasks.questions]] or questionnaire = 'pvq21'"
        ids = [question.id for question in task.questions]
        yield from (f"the question {id!r} is there twice" for id in sorted({one for one in ids if ids.count(one) > 1}))
        for question in task.questions:
            if question.id == FINISHED:
                yield f"question {question.id!r}: this id says that the survey is finished; take another"
            if question.kind in ("choice", "choices") and len(question.options) < 2:
                yield f"question {question.id!r}: a choice needs two options or more"
            if not 2 <= question.points <= 11:
                yield f"question {question.id!r}: a scale has 2 to 11 points; {question.points} was given"
        return
    if isinstance(task, Feedback):
        if len(task.models) != 2:
            yield f"two models answer: write [[tasks.models]] twice; there are {len(task.models)}"
        if len({model.name for model in task.models}) < len(task.models):
            yield "both models have the same name"
        for model in task.models:
            if "trust_remote_code" in model.policy:
                yield f"{model.name}: a project runs no code of a model; serve that model yourself and name its url"
        if task.prompts < 1:
            yield f"prompts is a number from 1; {task.prompts} was given"
        return
    for name, least in (("per_person", 1), ("overlap", 0), ("repeats", 0), ("checks", 0)):
        if getattr(task, name) < least:
            yield f"{name} is a number from {least}; {getattr(task, name)} was given"
    if task.repeats > task.per_person:
        yield f"repeats is at most per_person ({task.per_person}); {task.repeats} was given"


def _widget_faults(widget: Widget, names: Sequence[str]) -> Iterator[str]:
    if not re.fullmatch(r"[A-Za-z0-9_-]{8,64}", widget.key):
        yield "key has 8 to 64 letters, digits, '-' or '_'"
    if not widget.origins:
        yield "origins is empty, so that no page may send feedback"
    for origin in widget.origins:
        parts = urlsplit(origin)
        if not _is_web(origin) or parts.path or parts.query:
            yield f"origins: write scheme and host alone, such as https://app.example.org; {origin!r} was given"
    if not _NAME.fullmatch(widget.task) or widget.task in names:
        yield f"task: {widget.task!r} must be a name of its own of a-z, 0-9 and '-'"


def _is_web(address: str) -> bool:
    parts = urlsplit(address)
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and local))


def _items(project: Project, faults: list[str]) -> dict[str, tuple[Item, ...]]:
    """The items of every task that has a file, with file and line of whatever is wrong."""
    items: dict[str, tuple[Item, ...]] = {}
    places: dict[str, str] = {}
    for task in project.tasks:
        if not isinstance(task, _Planned):
            continue
        rows = []
        for place, item in _read_items(project.folder / task.items, faults):
            first = places.setdefault(item.id, place)
            if first != place:
                faults.append(f"{place}: the id {item.id!r} is there already, at {first}")
                continue
            faults += [f"{place}: {fault}" for fault in _item_faults(item, task)]
            rows.append(item)
        items[task.name] = tuple(rows)
        checks = sum(item.check is not None for item in rows)
        if task.checks > checks:
            faults.append(f"tasks ({task.name}): {task.checks} checks are wanted, and {task.items} has {checks}")
        if rows and task.per_person > len(rows) - checks:
            faults.append(
                f"tasks ({task.name}): per_person is {task.per_person}, and {task.items} has {len(rows) - checks} items"
            )
    return items


def items_in(file: Path) -> list[Item]:
    """The items of a file, as far as they can be read."""
    return [item for _, item in _read_items(file, [])]


def _read_items(file: Path, faults: list[str]) -> Iterator[tuple[str, Item]]:
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        faults.append(f"the items {file} cannot be read: {error.strerror or error}")
        return
    number = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            raw = msgspec.json.decode(line, type=dict[str, Any])
            if unknown := [key for key in raw if key not in Item.__struct_fields__]:
                faults.append(f"{file}, line {number}: {unknown_name('key', unknown[0], Item.__struct_fields__)}")
                continue
            yield f"{file}, line {number}", msgspec.convert(raw, Item)
        except msgspec.DecodeError as error:
            faults.append(f"{file}, line {number}: {error}")
    if not number:
        faults.append(f"{file} is empty; bring items in with: palate collect import")


def _item_faults(item: Item, task: _Planned) -> Iterator[str]:
    count = len(item.responses)
    if not re.fullmatch(r"[^\s/\x00-\x1f]{1,200}", item.id):
        yield f"the id {item.id!r} has spaces or slashes, or is longer than 200 characters"
    if not 2 <= count <= 9:
        yield f"an item has 2 to 9 responses; {count} were given"
    for what, text in (("prompt", item.prompt), *((f"response {n}", one) for n, one in enumerate(item.responses))):
        if not text.strip() or len(text) > MAX_TEXT:
            yield f"{what} is empty" if not text.strip() else f"{what} is longer than {MAX_TEXT:,} characters"
    if len(set(item.responses)) < count:
        yield "two responses are the same text"
    for what, index in (("check", item.check), ("preferred", item.preferred)):
        if index is not None and not 0 <= index < count:
            yield f"{what} is the number of a response from 0 to {count - 1}; {index} was given"
    if isinstance(task, Compare) and task.active and count != 2:
        yield f"active choice takes pairs, and this item has {count} responses"
    if item.participant is not None:
        yield "participant is for prompts that people write themselves; leave it out"
    if isinstance(task, Validate) and item.check is None:
        if item.preferred is None:
            yield "validation needs preferred: the number of the response that is claimed to be the better one"
        if not item.profile:
            yield "validation needs a profile: what is shown for the question of personal fit"
