"""What is kept, on both databases: every acknowledged answer once, and nothing of whoever is erased."""

from __future__ import annotations

import gzip
import os
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from collection import Collection, make_collection
from sqlalchemy import func, select, text

from palate.collect import _export_folder
from palate.collect._backup import backup, restore
from palate.collect._database import ConflictError, Event, Store, open_store
from palate.collect._export_folder import export_folder
from palate.collect._forget import enforce_retention, finish_erasures, forget
from palate.collect._import_answers import Imported
from palate.collect._init import make_project
from palate.collect._manage import import_answers
from palate.collect._project import Feedback, Project, Survey, read_project
from palate.collect._records import Answer, Item, Participant
from palate.collect._tables import erasures, events, metadata, receipts
from palate.collect._text import show
from palate.privacy import Pushed
from palate.privacy._pushed import note_push
from palate.records import PalateError

SECRET = "purple-elephant-under-the-stairs"


def test_the_migrations_make_the_tables_of_the_program(collection: Collection) -> None:
    with collection.store.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_tables_of_a_newer_palate_are_refused(collection: Collection) -> None:
    with collection.store.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(PalateError, match="newer palate"):
        collection.store.migrate()


def test_a_database_is_of_one_project(collection: Collection, tmp_path: Path) -> None:
    collection.join().answer_all()
    make_project(tmp_path / "other", "validate")
    with pytest.raises(PalateError, match=r"the database holds the project 'study', not 'other': give each"):
        open_store(read_project(tmp_path / "other"))
    assert collection.join().items()["total"] > 0


def test_an_answer_that_is_sent_again_is_the_same_answer(collection: Collection) -> None:
    ann = collection.join()
    item = ann.items()["items"][0]
    event = ann.choose(item)
    for _ in range(3):
        assert ann.send(event).json() == {"saved": [event["id"]], "refused": []}
    assert len(collection.store.collected(collection.project).answers) == 1


def test_an_id_that_is_taken_is_refused(collection: Collection) -> None:
    ann, bob = collection.join(), collection.join()
    event = ann.choose(ann.items()["items"][0])
    ann.send(event)
    assert ann.send(event | {"position": 1}).status_code == 409
    theirs = bob.choose(bob.items()["items"][0]) | {"id": event["id"]}
    assert bob.send(theirs).status_code == 409
    with pytest.raises(ConflictError):
        collection.store.record(
            Event(id=event["id"], participant=bob.id, kind="undo", task="pairs", item=event["item"])
        )
    [answer] = collection.store.collected(collection.project).answers
    assert answer.participant == ann.id


def test_an_edit_and_an_undo_are_new_events(collection: Collection) -> None:
    ann = collection.join()
    first, second = ann.items()["items"][:2]
    ann.send(ann.choose(first, 0), ann.choose(second, 0))
    ann.send(ann.choose(first, 1, reason="on second thoughts", strength=3, values=["warm"]))
    ann.send({"id": str(uuid.uuid4()), "kind": "undo", "task": "pairs", "item": second["item"], "repeat": 0})
    [answer] = collection.store.collected(collection.project).answers
    assert (answer.item, answer.reason, answer.strength, answer.values) == (
        first["item"], "on second thoughts", 3, ("warm",),
    )  # fmt: skip
    assert answer.shown[answer.choice or 0] == 1
    with collection.store.reading() as connection:
        assert connection.execute(select(func.count()).select_from(events)).scalar_one() == 4
    assert ann.items()["items"][0]["item"] == second["item"]


def test_a_choice_is_kept_as_the_response_that_was_seen_there(collection: Collection) -> None:
    texts = {item.id: item.responses for item in collection.project.items["pairs"]}
    ann = collection.join()
    items = ann.items()["items"]
    ann.send(*(ann.choose(item, 1) for item in items))
    for item, answer in zip(items, collection.store.collected(collection.project).answers, strict=True):
        assert answer.choice is not None
        assert item["responses"][1] == show(texts[answer.item][answer.choice], markdown=True)


def test_items_are_balanced_and_sides_are_random(collection: Collection) -> None:
    for person in range(8):
        collection.join(strata={"region": "north" if person % 2 else "south"}).answer_all()
    collected = collection.store.collected(collection.project)
    strata = {person.id: person.strata["region"] for person in collected.participants}
    checks = {item.id for item in collected.items if item.check is not None}
    first = [answer for answer in collected.answers if answer.repeat == 0 and answer.item not in checks]
    for region in ("north", "south"):
        counts = Counter(answer.item for answer in first if strata[answer.participant] == region)
        assert len(counts) == 8 and max(counts.values()) - min(counts.values()) <= 1
    assert {answer.shown for answer in first} == {(0, 1), (1, 0)}
    by_person = Counter(answer.participant for answer in collected.answers)
    assert set(by_person.values()) == {6 + 1 + 1}
    assert sum(answer.repeat for answer in collected.answers) == 8


def test_no_more_people_than_the_overlap_judge_an_item(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALATE_COLLECT_DATABASE", database)
    with make_collection(tmp_path / "study", "compare", overlap="1", checks="0", repeats="0") as made:
        assert [made.join().items()["total"] for _ in range(3)] == [6, 2, 0]


def test_an_item_that_is_on_a_screen_must_not_change(small: Collection) -> None:
    item = small.join().items()["items"][0]["item"]
    file = small.folder / "items.jsonl"
    rows = file.read_text().splitlines()
    place = next(number for number, row in enumerate(rows) if f'"{item}"' in row)
    rows[place] = rows[place].replace("?", "!", 1)
    file.write_text("\n".join(rows))
    with pytest.raises(PalateError, match=f"{item} was given out and must not change"):
        Collection(small.folder)


@pytest.mark.skipif(os.name != "posix", reason="files have no such modes")
def test_what_people_answer_is_for_the_owner_of_the_file_alone(small: Collection) -> None:
    small.join().answer_all()
    files = list(small.folder.glob("collect.sqlite*"))
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600} and len(files) > 1


def _held(folder: Path, words: str) -> list[str]:
    return [file.name for file in folder.rglob("*") if file.is_file() and words.encode() in file.read_bytes()]


def test_forgetting_leaves_nothing_but_a_receipt(collection: Collection) -> None:
    ann, bob = collection.join(), collection.join()
    bob.answer_all()
    items = ann.items()["items"]
    ann.send(*(ann.choose(item, 0, reason=SECRET) for item in items))
    name = ann.id
    exported, _ = export_folder(collection.project, collection.store)
    assert _held(exported, name) and _held(exported, SECRET)
    receipt = forget(collection.project, collection.store, collection.keys, name, reason="asked")
    assert name not in receipt.read_text() and SECRET not in receipt.read_text()
    assert _held(exported, name) == [] and _held(exported, SECRET) == []
    assert _held(exported, bob.id) != []
    for table in metadata.sorted_tables:
        with collection.store.reading() as connection:
            assert not any(name in str(row) or SECRET in str(row) for row in connection.execute(select(table)))
    assert ann.http.get("/consent").status_code == 401
    if collection.store.sqlite:
        assert _held(collection.folder.parent, SECRET) == []
    from palate.data import check_benchmark

    assert [fault for fault in check_benchmark(exported / "benchmark") if fault.severity == "error"] == []


def test_a_receipt_tells_where_an_export_was_pushed(small: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(small.folder.parent / "data-home"))
    ann = small.join()
    ann.answer_all()
    exported, _ = export_folder(small.project, small.store)
    pushed = Pushed(
        time="2026-05-01T10:00:00+00:00",
        what="benchmark",
        name="teas",
        source=str((exported / "benchmark").resolve()),
        content_hash="0",
        address="https://hub.example/datasets/ann/teas",
        public=True,
        commit="1",
    )
    note_push(pushed)
    receipt = forget(small.project, small.store, small.keys, ann.id, reason="asked")
    assert pushed.out_of_reach in msgspec.json.decode(receipt.read_bytes())["not_erased"]


def test_an_erasure_that_was_cut_off_is_finished_by_the_next_command(collection: Collection) -> None:
    ann = collection.join()
    ann.answer_all()
    name = ann.id
    with collection.store.writing() as connection:  # what is there after a kill -9 right after the beginning
        connection.execute(erasures.insert().values(participant=name, reason="asked"))
    assert len(finish_erasures(collection.project, collection.store, collection.keys)) == 1
    assert collection.store.collected(collection.project).participants == ()
    assert finish_erasures(collection.project, collection.store, collection.keys) == []


def test_whom_the_project_keeps_no_longer_is_erased(collection: Collection) -> None:
    collection.join().answer_all()
    soon = datetime.now(UTC) + timedelta(days=365)
    assert enforce_retention(collection.project, collection.store, collection.keys, soon) == []
    later = soon + timedelta(days=2)
    assert len(enforce_retention(collection.project, collection.store, collection.keys, later)) == 1
    with collection.store.reading() as connection:
        assert connection.execute(select(func.count()).select_from(receipts)).scalar_one() == 1


def test_a_backup_brings_everything_back_except_whom_it_must_not(collection: Collection, tmp_path: Path) -> None:
    ann, bob = collection.join().answer_all(), collection.join().answer_all()
    gone, kept = ann.id, bob.id
    file = tmp_path / "backup.gz"
    backup(collection.project, collection.store, file)
    before = collection.store.collected(collection.project)
    forget(collection.project, collection.store, collection.keys, gone, reason="asked")
    with pytest.raises(PalateError, match="--force replaces them"):
        restore(collection.project, collection.store, collection.keys, file)
    restore(collection.project, collection.store, collection.keys, file, force=True)
    assert collection.store.collected(collection.project) == before
    finish_erasures(collection.project, collection.store, collection.keys)  # as every command does that comes next
    after = collection.store.collected(collection.project)
    assert {person.id for person in after.participants} == {kept}
    collection.join().answer_all()  # new rows get new numbers


def test_a_backup_moves_a_study_from_one_database_to_the_other(
    small: Collection, postgres: str, tmp_path: Path
) -> None:
    import psycopg

    small.join().answer_all()
    backup(small.project, small.store, tmp_path / "backup.gz")
    name = f"moved_{uuid.uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    address = f"{postgres}&options=-csearch_path%3D{name}"
    other = Store(address.replace("postgresql:", "postgresql+psycopg:"))
    try:
        other.migrate()
        restore(small.project, other, small.keys, tmp_path / "backup.gz")
        assert other.collected(small.project) == small.store.collected(small.project)
    finally:
        other.close()


@pytest.mark.parametrize("damage", ["torn", "changed"])
def test_a_damaged_backup_changes_nothing(small: Collection, tmp_path: Path, damage: str) -> None:
    small.join().answer_all()
    file = tmp_path / "backup.gz"
    backup(small.project, small.store, file)
    content = gzip.decompress(file.read_bytes())
    broken = content[:-40] if damage == "torn" else content.replace(b'"pairs"', b'"pears"', 1)
    file.write_bytes(gzip.compress(broken))
    before = small.store.collected(small.project)
    with pytest.raises(PalateError, match="cannot be read, so nothing was changed"):
        restore(small.project, small.store, small.keys, file, force=True)
    assert small.store.collected(small.project) == before


def test_a_full_disk_is_said_and_leaves_no_half_answer(small: Collection) -> None:
    ann = small.join()
    items = ann.items()["items"]
    with small.store.reading() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    small.store.engine.dispose()
    from sqlalchemy import event

    @event.listens_for(small.store.engine, "connect")
    def no_room(connection, record) -> None:  # type: ignore[no-untyped-def]
        connection.execute(f"PRAGMA max_page_count={pages}").fetchall()

    full = [ann.choose(item, 0, reason="long " * 700) for item in items]
    answer = ann.send(*full)
    assert answer.status_code == 507 and "disk is full" in answer.json()["detail"]
    assert small.store.collected(small.project).answers == ()
    event.remove(small.store.engine, "connect", no_room)
    small.store.engine.dispose()
    assert len(ann.send(*full).json()["saved"]) == len(items)


def test_who_withdraws_while_an_export_is_written_is_not_in_it(
    small: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = small.join(), small.join()
    for person, reason in ((ann, SECRET), (bob, "calm")):
        person.send(*(person.choose(item, reason=reason) for item in person.items()["items"]))
    name = ann.id
    alone = _export_folder.alone_with_exports

    def meanwhile(project: Project) -> Any:  # after the tables were read
        forget(small.project, small.store, small.keys, name, reason="withdrawn")
        return alone(project)

    monkeypatch.setattr(_export_folder, "alone_with_exports", meanwhile)
    folder, _ = export_folder(small.project, small.store)
    texts = "".join(file.read_text() for file in folder.rglob("*") if file.is_file())
    assert SECRET not in texts and name not in texts and bob.id in texts


def test_somebody_elses_prompt_cannot_take_the_id_of_an_item(tmp_path: Path) -> None:
    with make_collection(tmp_path / "study", "feedback") as made:
        ann = made.join()
        [task] = (task for task in made.project.tasks if isinstance(task, Feedback))
        given = made.context.journey.add_own(ann.id, task, "item-0001", "My own", ("one", "two"))
        assert made.context.journey.own_item(ann.id, task.name, "item-0001") == given
        item = Item(id="item-0001", prompt="New", responses=("a", "b"))
        made.store.sync_items(msgspec.structs.replace(made.project, items={"pairs": (item,)}))
        assert ann.send(ann.choose({"item": given.item.id, "repeat": 0}, task=task.name)).json()["refused"] == []


def test_an_import_mixes_up_no_items_and_brings_nobody_back(small: Collection) -> None:
    def imported(text: str) -> Any:
        def read(pseudonym: Any) -> Imported:
            item = Item(id="7", prompt=text, responses=("a", "b"))
            person = Participant(id=pseudonym("ann@example.org"))
            answer = Answer(
                id=f"label-studio-{text}", participant=person.id, task="old", item="7", shown=(0, 1), choice=0,
                date="2026-01-01T00:00:00Z", sequence=0,
            )  # fmt: skip
            return Imported(items=(item,), participants=(person,), answers=(answer,), notes=())

        return read

    first = import_answers(small.folder, imported("tea"))
    assert import_answers(small.folder, imported("tea")) == first
    with pytest.raises(PalateError, match="'7' is there already with other texts"):
        import_answers(small.folder, imported("coffee"))
    forget(small.project, small.store, small.keys, first.participants[0].id, reason="asked")
    assert "1 people left out" in import_answers(small.folder, imported("tea")).notes[-1]
    assert small.store.collected(small.project).participants == ()


def test_a_question_has_one_place(tmp_path: Path) -> None:
    make_project(tmp_path / "study", "survey")
    file = tmp_path / "study" / "project.toml"
    again = (
        '\n[[tasks]]\nkind = "survey"\nname = "later"\n[[tasks.questions]]\nid = "ID"\ntext = "Again?"\nkind = "text"\n'
    )
    first = read_project(tmp_path / "study").tasks[0]
    assert isinstance(first, Survey)
    file.write_text(file.read_text() + again.replace("ID", first.questions[0].id))
    with pytest.raises(PalateError, match=f"the question '{first.questions[0].id}' is in 2 surveys"):
        read_project(tmp_path / "study")
