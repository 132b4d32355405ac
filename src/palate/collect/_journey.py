"""A participant's way through the tasks: what comes next, what may be answered, and what an answer means."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, select

from palate.collect._active import PairFeatures, pair_features
from palate.collect._assign import HOLD, active_items, assign, assign_next, sides
from palate.collect._database import Assignment, ConflictError, Event, Store, now
from palate.collect._project import FINISHED, MAX_TEXT, Compare, Feedback, Project, Question, Survey, Task, Validate
from palate.collect._records import Answer, Item
from palate.collect._tables import assignments, events, invitations, items, participants
from palate.collect._validation import DIMENSIONS, GENERAL
from palate.collect._values import HIGHEST, LOWEST, PORTRAITS
from palate.records import PalateError

BUFFER = 10
"""Items that a browser is given ahead, so that people can go on while the network is away."""
MAX_PROMPT = 4_000
OWN = "own/"
"""How ids of people's own prompts begin. Ids of a project's items have no slash, so that nobody can take one."""


_Given = tuple[str, str, int]
"""Task, item and repeat."""
_Grades = dict[str, list[int | None]]


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """What a browser sends for one event. Positions are those on screen."""

    id: str
    kind: Literal["answer", "undo", "survey"]
    task: str
    item: str
    repeat: int = 0
    position: int | None = None
    tie: bool = False
    strength: int | None = None
    satisfaction: int | None = None
    reason: str | None = None
    values: list[str] = []
    ratings: dict[str, list[int | None]] = {}
    edit: str | None = None
    seconds: float | None = None
    pasted: bool = False
    value: str | int | list[str] | None = None


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """An event that cannot be saved, and why."""

    id: str
    why: str


class _InvalidError(PalateError):
    """What is wrong with an event."""


class TaskState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a person is in a task."""

    done: int
    total: int
    open: list[Assignment]
    """What is not answered yet, in order."""
    last: Assignment | None
    """The last one answered, which an undo takes back."""

    @property
    def finished(self) -> bool:
        """Whether nothing is left."""
        return self.done >= self.total


class Journey:
    """One project's tasks, for everybody."""

    def __init__(self, project: Project, store: Store) -> None:
        self.project, self.store = project, store
        self._features: dict[str, PairFeatures] = {}

    def next_task(self, participant: str) -> Task | None:
        """The first task that is not finished; nothing when all are, which is noted."""
        for task in self.project.tasks:
            if not self.is_finished(participant, task):
                return task
        with self.store.writing() as connection:
            person = (participants.c.id == participant) & participants.c.completed.is_(None)
            connection.execute(participants.update().where(person).values(completed=now()))
        return None

    def is_finished(self, participant: str, task: Task) -> bool:
        """Whether a person is through with a task. A survey is finished when they say so."""
        if isinstance(task, Survey):
            with self.store.reading() as connection:
                return (FINISHED, 0) in self.store.standing(connection, participant, task.name)
        return self.state(participant, task).finished

    def state(self, participant: str, task: Compare | Validate | Feedback) -> TaskState:
        """How far a person is. Whoever has no items yet gets them now, unless the quota of their group is filled."""
        with self.store.reading() as connection:
            given = self.store.assigned(connection, participant, task.name)
            standing = self.store.standing(connection, participant, task.name)

        def is_open(one: Assignment) -> bool:
            return not _is_complete(task, standing.get((one.item.id, one.repeat)))

        active = isinstance(task, Compare) and task.active
        if not given and isinstance(task, Compare | Validate) and self.is_full(participant):
            return TaskState(done=0, total=task.per_person, open=[], last=None)
        if isinstance(task, Compare | Validate) and not (any(map(is_open, given)) if active else given):
            with self.store.writing(alone=True) as connection:
                before = len(given)
                given = self.store.assigned(connection, participant, task.name)
                if len(given) == before:  # another request of the same person may have been quicker
                    given += self._assign(connection, participant, task, standing)
        left = [one for one in given if is_open(one)]
        by_key = {(one.item.id, one.repeat): one for one in given}
        answered = [by_key[key] for key in standing if key in by_key]
        total = len(given)
        if isinstance(task, Feedback):
            total = task.prompts
        elif isinstance(task, Compare) and task.active and left:
            total = max(total, task.per_person + task.repeats + task.checks)
        return TaskState(done=len(given) - len(left), total=total, open=left, last=answered[-1] if answered else None)

    def _assign(
        self,
        connection: Connection,
        participant: str,
        task: Compare | Validate,
        standing: dict[tuple[str, int], dict[str, Any]],
    ) -> list[Assignment]:
        if not (isinstance(task, Compare) and task.active):
            return assign(self.store, connection, self.project, task, participant)
        every = active_items(connection, task.name)  # a command may have brought items in since this process began
        known = self._features.get(task.name)
        if known is None or not {item.id for item in every if item.check is None} <= set(known.ids):
            self._features[task.name] = pair_features(every)
        answers = [
            Answer(id="", participant=participant, task=task.name, item=item, shown=(), choice=data.get("choice"),
                   tie=data.get("tie", False), date="", sequence=place)
            for place, ((item, repeat), data) in enumerate(standing.items()) if repeat == 0
        ]  # fmt: skip
        features = self._features[task.name]
        return assign_next(self.store, connection, self.project, task, participant, features, answers)

    def add_own(self, participant: str, task: Feedback, id: str, prompt: str, responses: tuple[str, ...]) -> Assignment:
        """A person's own prompt with the models' answers, as an item that nobody else sees."""
        item = Item(
            id=f"{OWN}{id}",
            prompt=prompt,
            responses=responses,
            participant=participant,
            models=tuple(model.name for model in task.models),
            source="live",
        )
        shown = sides(self.project.seed, participant, item, 0)
        with self.store.writing(alone=True) as connection:
            given = self.store.assigned(connection, participant, task.name)
            if len(given) >= task.prompts:  # several may have been answered at the same time
                raise ConflictError("You have written all prompts already.")
            new = Assignment(item=item, repeat=0, shown=shown, position=len(given))
            data = msgspec.json.encode(item).decode()
            if not self.store.insert_new(
                connection, items, id=item.id, task=task.name, position=len(given), data=data, active=True,
                participant=participant,
            ):  # fmt: skip
                raise PalateError("this prompt was sent already")
            self.store.assign(connection, participant, task.name, [new])
        return new

    def own_item(self, participant: str, task: str, id: str) -> Assignment | None:
        """An own prompt that was answered already: a retry gets the same."""
        with self.store.reading() as connection:
            given = self.store.assigned(connection, participant, task)
        return next((one for one in given if one.item.id == f"{OWN}{id}"), None)

    def profile(self, participant: str, task: Validate, item: str, repeat: int) -> tuple[str, ...] | None:
        """What is shown of the user, once the first three dimensions are graded."""
        with self.store.reading() as connection:
            standing = self.store.standing(connection, participant, task.name).get((item, repeat), {})
            given = self.store.assigned(connection, participant, task.name)
        if not _is_graded(standing.get("ratings", {}), GENERAL):
            return None
        return next((one.item.profile for one in given if one.item.id == item and one.repeat == repeat), None)

    def save(self, participant: str, sent: list[Sent]) -> tuple[list[str], list[Refusal]]:
        """Save events in one transaction: the ids that are saved now or were before, and those refused."""
        refused: list[Refusal] = []
        new: list[Event] = []
        with self.store.reading() as connection:
            given = {
                (row.task, row.item, row.repeat): tuple(msgspec.json.decode(row.shown))
                for row in connection.execute(select(assignments).where(assignments.c.participant == participant))
            }
            blind = self._blind_grades(connection, participant)
        for one in sent:
            try:
                new.append(self._event(participant, one, given, blind))
            except _InvalidError as error:
                refused.append(Refusal(id=one.id, why=str(error)))
        if new:
            with self.store.writing() as connection:
                for event in new:
                    if self.store.append(connection, event):
                        self._note_stratum(connection, event)
        return [event.id for event in new], refused

    def _blind_grades(self, connection: Connection, participant: str) -> dict[_Given, _Grades]:
        """The grades of what the profile comes after, as they were when they were first complete."""
        blind: dict[_Given, _Grades] = {}
        tasks = [task.name for task in self.project.tasks if isinstance(task, Validate)]
        if tasks:
            graded = (events.c.participant == participant) & (events.c.kind == "answer") & events.c.task.in_(tasks)
            for row in connection.execute(select(events).where(graded).order_by(events.c.sequence)):
                _keep_blind(blind, (row.task, row.item, row.repeat), msgspec.json.decode(row.data)["ratings"])
        return blind

    def _event(
        self, participant: str, sent: Sent, given: dict[_Given, tuple[int, ...]], blind: dict[_Given, _Grades]
    ) -> Event:
        task = self.project.task(sent.task)
        if task is None:
            raise _InvalidError("there is no such task in this study")
        data: dict[str, Any] = {}
        if isinstance(task, Survey) != (sent.kind == "survey") and not (
            isinstance(task, Survey) and sent.kind == "undo"
        ):
            raise _InvalidError("this task takes another kind of answer")
        if sent.kind == "survey":
            assert isinstance(task, Survey)
            data = {"value": _survey_value(task, sent)}
            if sent.item != FINISHED and _question(task, sent.item).kind == "text":
                data["free"] = True  # noted now, since the project may ask otherwise by the time of an export
        elif isinstance(task, Survey):
            if sent.item != FINISHED:
                _question(task, sent.item)
        else:
            shown = given.get((sent.task, sent.item, sent.repeat))
            if shown is None:
                raise _InvalidError("this item was not given to you")
            if sent.kind == "answer":
                data = _answer_data(task, sent, shown)
                if isinstance(task, Validate):
                    _keep_blind(blind, (sent.task, sent.item, sent.repeat), data["ratings"])
        return Event(
            id=sent.id, participant=participant, kind=sent.kind, task=sent.task, item=sent.item, repeat=sent.repeat,
            data=data,
        )  # fmt: skip

    def _note_stratum(self, connection: Connection, event: Event) -> None:
        """A survey's answer is the person's group; one that is taken back leaves the group of the invitation."""
        survey = isinstance(self.project.task(event.task), Survey)
        if not survey or event.item not in self.project.strata:
            return
        person = participants.c.id == event.participant
        strata = msgspec.json.decode(connection.execute(select(participants.c.strata).where(person)).scalar_one())
        strata.pop(event.item, None)
        if event.kind == "survey":
            strata[event.item] = str(event.data["value"])
        else:
            own = select(invitations.c.strata).where(invitations.c.participant == event.participant)
            invited = msgspec.json.decode(connection.execute(own).scalar() or "{}")
            strata |= {name: value for name, value in invited.items() if name == event.item}
        connection.execute(participants.update().where(person).values(strata=msgspec.json.encode(strata).decode()))

    def is_full(self, participant: str) -> bool:
        """Whether the quota of this person's group is filled by others who finished or are at it."""
        with self.store.reading() as connection:
            return self._is_full(connection, participant)

    def _is_full(self, connection: Connection, participant: str) -> bool:
        since = (datetime.now(UTC) - HOLD).isoformat(timespec="milliseconds")
        rows = list(connection.execute(select(participants).where(participants.c.role == "annotator")))
        person = next((row for row in rows if row.id == participant), None)
        own: dict[str, str] = msgspec.json.decode(person.strata) if person else {}
        # of those who told their groups after they began, each waits for earlier ones alone: or all would be sent away
        began = (person.started, person.id) if person and person.started else ("~", "")
        others = [
            msgspec.json.decode(row.strata)
            for row in rows
            if row.started and (row.started, row.id) < began and (row.completed or row.started >= since)
        ]
        return any(
            own.get(quota.stratum) == quota.value
            and sum(strata.get(quota.stratum) == quota.value for strata in others) >= quota.people
            for quota in self.project.quotas
        )

    def agree(self, participant: str) -> None:
        """Record that a person agreed to the consent text as it is now, unless others filled the quota first."""
        version = self.project.consent.version
        with self.store.writing(alone=True) as connection:
            if self._is_full(connection, participant):
                return
            person = participants.c.id == participant
            connection.execute(participants.update().where(person).values(consent=version))
            new = person & participants.c.started.is_(None)
            connection.execute(participants.update().where(new).values(started=now(), seen=now()[:10]))


def survey_questions(task: Survey) -> list[Question]:
    """The questions of a survey, those of its questionnaire included."""
    portraits = PORTRAITS if task.questionnaire == "pvq21" else ()
    return [
        *task.questions,
        *(Question(id=one.id, text=one.text, kind="scale", points=HIGHEST - LOWEST + 1) for one in portraits),
    ]


def _question(task: Survey, id: str) -> Question:
    question = next((one for one in survey_questions(task) if one.id == id), None)
    if question is None:
        raise _InvalidError("there is no such question in this survey")
    return question


def _survey_value(task: Survey, sent: Sent) -> str | int | list[str]:
    if sent.item == FINISHED:
        return "yes"
    question, value = _question(task, sent.item), sent.value
    if question.kind == "choice" and isinstance(value, str) and value in question.options:
        return value
    if question.kind == "choices" and isinstance(value, list) and set(value) <= set(question.options):
        return list(dict.fromkeys(value))
    if question.kind == "scale" and isinstance(value, int) and 1 <= value <= question.points:
        return value
    if question.kind == "text" and isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise _InvalidError(f"an answer has at most {MAX_TEXT:,} characters")
        return value
    raise _InvalidError("this is not an answer to that question")


def _answer_data(task: Compare | Validate | Feedback, sent: Sent, shown: tuple[int, ...]) -> dict[str, Any]:
    """An answer as it is kept: positions on screen become places in the item."""
    data: dict[str, Any] = {"seconds": sent.seconds, "pasted": sent.pasted}
    if sent.tie and (sent.position is not None or isinstance(task, Validate) or not task.tie):
        raise _InvalidError("a tie was not offered, or a response was chosen as well")
    if sent.position is not None:
        if sent.position not in shown:
            raise _InvalidError(f"there is no response number {sent.position + 1}")
        data["choice"] = shown.index(sent.position)
    data["tie"] = sent.tie
    if set(sent.values) - set(task.values):
        raise _InvalidError("a tag was ticked that this task does not have")
    data["values"] = list(dict.fromkeys(sent.values))
    for name in ("strength", "satisfaction", "reason"):
        value = getattr(sent, name)
        if value is not None and value != "":
            if not getattr(task, name):
                raise _InvalidError(f"this task does not ask for {name}")
            data[name] = value
    if sent.edit:
        if not isinstance(task, Feedback) or not task.edit:
            raise _InvalidError("this task has nothing to edit")
        data["edit"] = sent.edit
    if isinstance(task, Validate):
        if not sent.ratings:
            raise _InvalidError("grades are missing")
        for name, grades in sent.ratings.items():
            if name not in DIMENSIONS or len(grades) != len(shown):
                raise _InvalidError("grades are for other dimensions or other responses")
        data["ratings"] = {name: [grades[place] for place in shown] for name, grades in sent.ratings.items()}
    elif sent.ratings or (sent.position is None and not sent.tie):
        raise _InvalidError("nothing was chosen")
    return data


def _keep_blind(blind: dict[_Given, _Grades], given: _Given, ratings: _Grades) -> None:
    """Put the first complete grades of general quality in the place of later ones: by then the profile was seen."""
    if _is_graded(ratings, GENERAL):
        blind.setdefault(given, {name: ratings[name] for name in GENERAL})
    ratings.update(blind.get(given, {}))


def _is_graded(ratings: _Grades, dimensions: Sequence[str]) -> bool:
    return all(ratings.get(name) and None not in ratings[name] for name in dimensions)


def _is_complete(task: Compare | Validate | Feedback, data: dict[str, Any] | None) -> bool:
    if data is None:
        return False
    if not isinstance(task, Validate):
        return True
    return _is_graded(data.get("ratings", {}), DIMENSIONS)
