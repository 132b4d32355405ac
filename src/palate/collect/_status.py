"""How a collection stands: people and quotas by group, answers, time, agreement, and whom to look at."""

from __future__ import annotations

from statistics import median

import msgspec
from sqlalchemy import select

from palate.collect._agreement import AgreementSummary, measure_agreement
from palate.collect._database import Store, now
from palate.collect._project import Project, Survey, Validate
from palate.collect._quality import AnnotatorQuality, measure_quality
from palate.collect._records import Collected
from palate.collect._tables import invitations, participants
from palate.collect._validation import Validation, validate

NO_GROUP = "everybody"


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """People of one group, and how many are wanted."""

    name: str
    invited: int
    started: int
    completed: int
    quota: int | None


class TaskStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One task."""

    name: str
    kind: str
    answers: int
    people: int
    median_seconds: float | None
    agreement: AgreementSummary | None
    validation: Validation | None


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The whole collection."""

    title: str
    version: str
    date: str
    invitations: int
    started: int
    completed: int
    answers: int
    survey_answers: int
    groups: list[Group]
    tasks: list[TaskStatus]
    people: list[AnnotatorQuality]

    @property
    def flagged(self) -> list[AnnotatorQuality]:
        """Those with a reason to look at their answers."""
        return [person for person in self.people if person.flags]


def status(project: Project, store: Store) -> Status:
    """Everything that the team looks at."""
    collected = store.collected(project)
    groups, open_invitations = _groups(project, store)
    return Status(
        title=project.title,
        version=project.version,
        date=now(),
        invitations=open_invitations,
        started=sum(person.started is not None for person in collected.participants),
        completed=sum(person.completed is not None for person in collected.participants),
        answers=len(collected.answers),
        survey_answers=len(collected.survey),
        groups=groups,
        tasks=_tasks(project, collected),
        people=measure_quality(collected),
    )


def _tasks(project: Project, collected: Collected) -> list[TaskStatus]:
    names = {task.name: type(task).__name__.lower() for task in project.tasks}
    if project.widget:
        names[project.widget.task] = "widget"
    found = []
    for name, kind in names.items():
        answers = [answer for answer in collected.answers if answer.task == name]
        survey = [answer for answer in collected.survey if answer.task == name]
        seconds = [answer.seconds for answer in answers if answer.seconds is not None]
        task = project.task(name)
        graded = isinstance(task, Validate) and answers
        chosen = answers and not isinstance(task, Survey | Validate)
        found.append(
            TaskStatus(
                name=name,
                kind=kind,
                answers=len(answers) + len(survey),
                people=len({one.participant for one in answers} | {one.participant for one in survey}),
                median_seconds=median(seconds) if seconds else None,
                agreement=measure_agreement(collected, task=name) if chosen else None,
                validation=validate(collected, task=name) if graded else None,
            )
        )
    return found


def _groups(project: Project, store: Store) -> tuple[list[Group], int]:
    with store.reading() as connection:
        people = list(connection.execute(select(participants).where(participants.c.role == "annotator")))
        open_ = list(
            connection.execute(
                select(invitations).where(
                    (invitations.c.role == "annotator")
                    & invitations.c.revoked.is_(None)
                    & (invitations.c.expires > now())
                )
            )
        )
    strata = [msgspec.json.decode(row.strata) for row in people]
    wanted = [msgspec.json.decode(row.strata) for row in open_]
    quotas = {(quota.stratum, quota.value): quota.people for quota in project.quotas}
    pairs = {*quotas, *((name, one[name]) for one in [*strata, *wanted] for name in project.strata if name in one)}
    groups = [
        Group(
            name=f"{name}: {value}",
            invited=sum(one.get(name) == value for one in wanted),
            started=sum(one.get(name) == value and bool(row.started) for one, row in zip(strata, people, strict=True)),
            completed=sum(
                one.get(name) == value and bool(row.completed) for one, row in zip(strata, people, strict=True)
            ),
            quota=quotas.get((name, value)),
        )
        for name, value in sorted(pairs)
    ]
    everybody = Group(
        name=NO_GROUP,
        invited=len(open_),
        started=sum(bool(row.started) for row in people),
        completed=sum(bool(row.completed) for row in people),
        quota=None,
    )
    return [*groups, everybody], len(open_)
