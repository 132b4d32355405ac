"""What the command line does with a collection, each in one call that opens the project and closes it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from sqlalchemy import select

from palate.collect._access import Invited, Role, invite, revoke
from palate.collect._backup import backup, restore
from palate.collect._database import Assignment, Event, Store, database_url, now
from palate.collect._export import Exported
from palate.collect._export_folder import export_folder
from palate.collect._forget import enforce_retention, finish_erasures, forget, is_forgotten
from palate.collect._import import ItemsRead, read_items
from palate.collect._import_answers import Imported, import_label_studio, import_potato
from palate.collect._plan import Assumptions, Plan, make_plan
from palate.collect._project import Compare, Validate, items_in, read_project
from palate.collect._serve import Opened, open_collection
from palate.collect._status import Status, status
from palate.collect._tables import assignments, items, participants
from palate.records import PalateError, unknown_name
from palate.runs import json_lines, write_whole

DATA_FIELDS = (
    "choice", "tie", "strength", "satisfaction", "reason", "values", "ratings", "edit", "seconds", "pasted",
)  # fmt: skip


@contextmanager
def opened(folder: Path) -> Iterator[Opened]:
    """A project with its store, closed afterwards."""
    collection = open_collection(folder)
    try:
        yield collection
    finally:
        collection.store.close()


def make_invitations(
    folder: Path, *, count: int, role: Role, groups: Sequence[str], days: float, crowd: bool
) -> list[Invited]:
    """Invitations for people of a group, or one link for a crowd platform."""
    with opened(folder) as collection:
        strata = {}
        for group in groups:
            name, equals, value = group.partition("=")
            if not equals or not value:
                raise PalateError(f"--group {group}: write NAME=VALUE, such as region=north")
            if name not in collection.project.strata:
                raise unknown_name("stratum", name, collection.project.strata, hint="Add it to strata in the project.")
            strata[name] = value
        if crowd and collection.project.crowd is None:
            raise PalateError("--crowd needs [crowd] in the project, with the parameter that holds people's ids")
        if crowd and role != "annotator":
            raise PalateError("a link for a crowd platform lets participants in, and nobody of the team")
        return invite(
            collection.store, collection.keys, count=1 if crowd else count, role=role, strata=strata, days=days,
            crowd=crowd,
        )  # fmt: skip


def revoke_invitation(folder: Path, id: str) -> None:
    """Make an invitation worthless."""
    with opened(folder) as collection:
        if not revoke(collection.store, id):
            raise PalateError(f"there is no invitation {id!r}; ids are on the dashboard")


def collection_status(folder: Path) -> Status:
    """How a collection stands."""
    with opened(folder) as collection:
        return status(collection.project, collection.store)


def write_export(folder: Path, out: Path | None) -> tuple[Path, Exported]:
    """Export what stands."""
    with opened(folder) as collection:
        return export_folder(collection.project, collection.store, out)


def import_items(
    folder: Path,
    source: str,
    task: str | None,
    *,
    prompt: str | None = None,
    responses: Sequence[str] = (),
    data_dir: Path | None = None,
) -> tuple[Path, ItemsRead]:
    """Put items in the place of a task's file; only before anybody gets one, since ids would lose their texts."""
    project = read_project(folder, check_items=False)
    planned = {one.name: one for one in project.tasks if isinstance(one, Compare | Validate)}
    if not planned:
        raise PalateError("no task of this project shows items from a file")
    if task is None and len(planned) > 1:
        raise PalateError(f"several tasks have items; name one with --task: {', '.join(planned)}")
    name = task or next(iter(planned))
    if name not in planned:
        raise unknown_name("task with items", name, planned)
    chosen = planned[name]
    read = read_items(
        source, validation=isinstance(chosen, Validate), prompt=prompt, responses=responses, seed=project.seed,
        data_dir=data_dir,
    )  # fmt: skip
    store = Store(database_url(project))
    try:
        store.migrate()
        with store.reading() as connection:
            if connection.execute(select(assignments.c.item).where(assignments.c.task == name).limit(1)).first():
                raise PalateError(f"{name} was given out already, so its items must stay; add a new task for these")
    finally:
        store.close()
    file = folder / chosen.items
    if not file.resolve().is_relative_to(folder.resolve()):
        raise PalateError(f"items = {chosen.items!r} is outside of the project's folder, where nothing is written")
    checks = [item for item in items_in(file) if item.check is not None]  # these were written for the project
    write_whole(file, json_lines([*read.items, *checks]))
    return file, read


def import_answers(folder: Path, read: Callable[[Callable[[str], str]], Imported]) -> Imported:
    """Keep the answers of another tool. Names become keyed hashes; importing the same file again changes nothing."""
    with opened(folder) as collection:
        imported = read(lambda name: f"p-{collection.keys.sign('import', name)[:16]}")
        imported = _without_forgotten(collection, imported)
        store = collection.store
        with store.writing(alone=True) as connection:
            for person in imported.participants:
                store.insert_new(
                    connection, participants, id=person.id, role="annotator", consent=person.consent,
                    strata=msgspec.json.encode(person.strata).decode(), invited=person.invited,
                    started=person.started or now(), completed=person.completed, seen=now()[:10],
                )  # fmt: skip
            tasks = {answer.item: answer.task for answer in imported.answers}
            for position, item in enumerate(imported.items):
                data = msgspec.json.encode(item).decode()
                new = store.insert_new(
                    connection, items, id=item.id, task=tasks.get(item.id, "imported"), position=position, data=data,
                    active=False,
                )  # fmt: skip
                held_data = select(items.c.data).where(items.c.id == item.id)
                if not new and connection.execute(held_data).scalar_one() != data:
                    raise PalateError(
                        f"the item {item.id!r} is there already with other texts, so its answers would be mixed up; "
                        "nothing was imported. Change the ids in the file, or import it to a project of its own."
                    )
            held = {item.id: item for item in imported.items}
            for answer in imported.answers:
                shown = Assignment(
                    item=held[answer.item], repeat=answer.repeat, shown=answer.shown, position=answer.sequence
                )
                store.assign(connection, answer.participant, answer.task, [shown])
                raw = msgspec.to_builtins(answer)
                data_fields = {name: raw[name] for name in DATA_FIELDS if name in raw}
                event = Event(
                    id=answer.id, participant=answer.participant, kind="answer", task=answer.task, item=answer.item,
                    repeat=answer.repeat, data=data_fields,
                )  # fmt: skip
                store.append(connection, event, answer.date)
        return imported


def _without_forgotten(collection: Opened, imported: Imported) -> Imported:
    """Whoever was erased stays erased, though a file still has their answers."""
    gone = {
        person.id for person in imported.participants if is_forgotten(collection.project, collection.keys, person.id)
    }
    if not gone:
        return imported
    return msgspec.structs.replace(
        imported,
        participants=tuple(person for person in imported.participants if person.id not in gone),
        answers=tuple(answer for answer in imported.answers if answer.participant not in gone),
        notes=(*imported.notes, f"{len(gone):,} people left out, who were erased from this collection"),
    )


def import_from(
    folder: Path,
    tool: str,
    source: Path,
    *,
    task: str,
    annotations: Path | None,
    prompt: str | None,
    responses: Sequence[str],
) -> Imported:
    """The answers of Potato or Label Studio."""
    if tool == "potato":
        if annotations is None:
            raise PalateError(
                "--from potato needs --annotations: the folder in which Potato keeps what people answered"
            )
        return import_answers(
            folder,
            lambda name: import_potato(
                [source], annotations, pseudonym=name, task=task, prompt_key=prompt or "prompt",
                items_key=responses[0] if responses else "responses",
            ),
        )  # fmt: skip
    left, right = [*responses, None, None][:2]
    return import_answers(
        folder,
        lambda name: import_label_studio(
            source, pseudonym=name, task=task, left=left, right=right, prompt=prompt or "prompt"
        ),
    )


def plan_collection(gain: float, *, people: int | None, judges: int, pilot: Path | None) -> Plan:
    """A plan, with what a pilot measured where there is one."""
    assumed: dict[str, float] = {}
    if pilot is not None:
        found = collection_status(pilot)
        agreement = [task.agreement.self_agreement.value for task in found.tasks if task.agreement]
        pace = [task.median_seconds for task in found.tasks if task.median_seconds]
        if not agreement or agreement[0] is None:
            raise PalateError(f"the pilot {pilot} has no planned repeat that was answered twice; set repeats in a task")
        assumed = {"self_agreement": min(1.0, agreement[0])} | ({"seconds": pace[0]} if pace else {})
    return make_plan(gain, people=people, people_per_item=judges, assumptions=Assumptions(**assumed))


def erase_person(folder: Path, participant: str) -> Path:
    """Erase one person everywhere; where the receipt is."""
    with opened(folder) as collection:
        return forget(collection.project, collection.store, collection.keys, participant, reason="asked")


def erase_old(folder: Path) -> list[Path]:
    """Erase whom the project keeps no longer."""
    with opened(folder) as collection:
        return enforce_retention(collection.project, collection.store, collection.keys)


def write_backup(folder: Path, file: Path) -> dict[str, int]:
    """Write everything to one file."""
    with opened(folder) as collection:
        return backup(collection.project, collection.store, file)


def read_backup(folder: Path, file: Path, *, force: bool) -> tuple[dict[str, int], list[Path]]:
    """Put a backup back, and erase again whom a receipt names."""
    with opened(folder) as collection:
        counts = restore(collection.project, collection.store, collection.keys, file, force=force)
        return counts, finish_erasures(collection.project, collection.store, collection.keys)
