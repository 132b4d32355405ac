"""What people with bad intentions achieve against a collection: nothing that others would notice."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import resource
import socket
import subprocess
import sys
import time
import uuid
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from collection import Collection, Person, make_collection
from pydantic import ValidationError
from sqlalchemy import select

from palate.collect._access import RateLimit, enter_by_code, enter_by_link, invite, visitor
from palate.collect._app import EventsIn
from palate.collect._assign import sides
from palate.collect._backup import backup, restore
from palate.collect._export_folder import export_folder
from palate.collect._forget import finish_erasures, forget
from palate.collect._init import make_project
from palate.collect._manage import import_items
from palate.collect._project import Feedback, Survey, read_project
from palate.collect._tables import erasures, exports, invitations, participants, sessions
from palate.records import PalateError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs resource limits")
FEW_FILES = 300


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A server that may open few files, and the file of its log."""
    folder = tmp_path_factory.mktemp("attacked") / "study"
    make_project(folder, "compare")
    log = folder.with_name("log")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    command = [sys.executable, "-m", "palate", "collect", "serve", str(folder), "--port", "0"]
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW_FILES, hard))
    try:
        with log.open("wb") as stream:
            process = subprocess.Popen(command, stderr=stream)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    while "Taking requests" not in log.read_text():
        assert process.poll() is None, log.read_text()
    found = next(line for line in log.read_text().splitlines() if line.startswith("Participants: ")).split()[-1]
    try:
        yield found, log
    finally:
        process.kill()
        process.wait()


def connect(address: str, head: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=300)
    connection.sendall(head)
    return connection


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nHost: loc",
        b"POST /code HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n",
    ],
    ids=["head", "body"],
)
def test_slow_connections_keep_nobody_out_and_fill_no_log(address: tuple[str, Path], head: bytes) -> None:
    url, log = address
    slow = [connect(url, head) for _ in range(2 * FEW_FILES)]
    assert httpx.get(f"{url}/health", timeout=300).status_code == 200
    assert log.stat().st_size < 10_000
    for connection in slow:
        connection.close()


def test_two_lengths_for_one_body_are_refused(address: tuple[str, Path]) -> None:
    lengths = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"
    with connect(address[0], b"POST /code HTTP/1.1\r\nHost: localhost\r\n" + lengths + b"\r\n0\r\n\r\n") as connection:
        assert connection.recv(65_536).startswith(b"HTTP/1.1 400 ")


def test_two_who_agree_at_the_same_moment_do_not_share_the_last_place(tmp_path: Path) -> None:
    with make_collection(tmp_path / "study", "compare", people="1") as made:
        people = [Person(made, strata={"region": "north"}) for _ in range(2)]
        made.context.journey.is_full = lambda participant: False  # type: ignore[method-assign]  # as both were told
        for person in people:
            person.agree()
        assert sum(person.started is not None for person in made.store.collected(made.project).participants) == 1


def test_a_link_that_is_opened_many_times_at_once_is_one_person(collection: Collection) -> None:
    made = invite(collection.store, collection.keys, count=4)
    with ThreadPoolExecutor(8) as threads:
        for invited in made:
            token = invited.path.removeprefix("/j/")
            list(threads.map(lambda _, token=token: enter_by_link(collection.store, collection.keys, token), range(8)))
            code = str(invited.code)
            list(threads.map(lambda _, code=code: enter_by_code(collection.store, collection.keys, code), range(8)))
    with collection.store.reading() as connection:
        assert len(list(connection.execute(select(participants)))) == len(made)


def test_nobody_can_work_out_which_response_is_the_first_of_its_item(small: Collection) -> None:
    people = [small.join() for _ in range(4)]
    worked_out = []
    for person in people:
        person.items()
        with small.store.reading() as connection:
            for given in small.store.assigned(connection, person.id, "pairs"):
                worked_out.append(given.shown == sides(small.project.seed, person.id, given.item, given.repeat))
    assert not all(worked_out)


def test_of_two_who_tell_the_same_group_in_a_survey_one_gets_the_place(tmp_path: Path) -> None:
    make_project(tmp_path / "study", "compare")
    file = tmp_path / "study" / "project.toml"
    survey = (
        '[[tasks]]\nkind = "survey"\nname = "about"\ntitle = "About"\n[[tasks.questions]]\nid = "region"\n'
        'text = "Where?"\noptions = ["north", "south"]\n\n'
    )
    text = re.sub(r"(?m)^people = .*$", "people = 1", file.read_text())
    file.write_text(text.replace("[[tasks]]", f"{survey}[[tasks]]", 1))
    made = Collection(tmp_path / "study")
    people = [made.join() for _ in range(3)]
    for person in people:
        told = {"id": str(uuid.uuid4()), "kind": "survey", "task": "about", "item": "region", "value": "north"}
        assert person.send(told).json()["saved"]
    assert [made.context.journey.is_full(person.id) for person in people] == [False, True, True]
    first, late, _ = ([*person.items()["items"]] for person in people)
    assert first and not late  # whoever is sent away takes no item from others
    assert (
        "This study is full" in people[1].http.get("/t/pairs").text and people[1].http.get("/done").url.path != "/done"
    )
    made.context.live.close()
    made.store.close()


def test_whoever_agreed_to_an_older_text_gives_no_answers_under_it(small: Collection) -> None:
    ann = small.join()
    item = ann.items()["items"][0]
    file = small.folder / "project.toml"
    file.write_text(file.read_text().replace('[consent]\nversion = "1"', '[consent]\nversion = "2"'))
    newer = Collection(small.folder)
    ann.http = newer.client()
    ann.http.get(ann.invitation.path)
    ann.csrf = ann.http.get("/consent").text.split('name="csrf" content="')[1].split('"')[0]
    assert ann.send(ann.choose(item)).status_code == 403
    assert ann.agree().send(ann.choose(item)).status_code == 200
    newer.context.live.close()
    newer.store.close()


def test_a_new_session_is_no_new_allowance(small: Collection) -> None:
    ann = small.join()
    small.context.requests = RateLimit(per_minute=0.001, burst=3)
    codes = []
    for _ in range(4):
        again = small.client()
        again.get(ann.invitation.path, follow_redirects=False)
        codes.append(again.get("/consent").status_code)
    assert codes == [200, 200, 200, 429]


def test_one_person_cannot_fill_the_disk(tmp_path: Path) -> None:
    with make_collection(tmp_path / "study", "survey") as made:
        ann = made.join()

        def survey(length: int) -> dict[str, Any]:
            text = "x" * length
            return {"id": str(uuid.uuid4()), "kind": "survey", "task": task, "item": "annoys", "value": text}

        task = made.project.tasks[0].name
        refused = ann.send(survey(20_001)).json()
        assert refused["saved"] == [] and "20,000 characters" in refused["refused"][0]["why"]
        made.context.bytes = RateLimit(per_minute=0.001, burst=100_000)
        codes = [ann.send(survey(20_000)).status_code for _ in range(8)]
        assert codes[:4] == [200] * 4 and codes[-1] == 429


def test_prompts_that_are_sent_together_are_no_more_than_were_asked_for(tmp_path: Path) -> None:
    with make_collection(tmp_path / "study", "feedback", prompts="1") as made:
        ann = made.join().id
        task = next(one for one in made.project.tasks if isinstance(one, Feedback))
        made.context.journey.add_own(ann, task, "12345678", "Tea?", ("Yes.", "No."))
        with pytest.raises(PalateError, match="all prompts already"):
            made.context.journey.add_own(ann, task, "87654321", "Coffee?", ("Yes.", "No."))


def packed(rows: list[Any]) -> bytes:
    lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    return gzip.compress(lines + msgspec.json.encode({"sha256": hashlib.sha256(lines).hexdigest()}) + b"\n")


def test_a_forged_backup_lets_nobody_in(small: Collection, tmp_path: Path) -> None:
    file = tmp_path / "study.backup"
    small.join()
    backup(small.project, small.store, file)
    rows = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()][:-1]
    token = "a token that the forger knows"
    person = {"id": "p-forged", "role": "owner", "strata": "{}"}
    later = "2999-01-01T00:00:00+00:00"
    invitation = {"id": "0" * 12, "role": "owner", "kind": "personal", "secret": "", "strata": "{}", "created": later,
                  "expires": later, "participant": "p-forged"}  # fmt: skip
    session = {"id": hashlib.sha256(token.encode()).hexdigest(), "participant": "p-forged", "invitation": "0" * 12,
               "expires": later}  # fmt: skip
    tables = {"participants": person, "invitations": invitation, "sessions": session}
    file.write_bytes(packed([*rows, *([name, row] for name, row in tables.items())]))
    restore(small.project, small.store, small.keys, file, force=True)
    with small.store.reading() as connection:
        assert connection.execute(select(participants.c.id).where(participants.c.id == "p-forged")).first()
        assert connection.execute(select(sessions)).all() == []
    assert visitor(small.store, small.keys, token) is None


@pytest.mark.parametrize(
    "row",
    [["users", {}], ["events", {"x": 1}], ["events"], 7, ["exports", ["a"]], ["events", {}],
     ["exports", {"path": {"a": 1}, "date": "2026"}], ["erasures", {"participant": 2**70, "reason": "asked"}]],
    ids=str,
)  # fmt: skip
def test_a_backup_with_rows_of_no_table_changes_nothing(small: Collection, tmp_path: Path, row: Any) -> None:
    small.join().answer_all()
    before = small.store.collected(small.project)
    file = tmp_path / "study.backup"
    file.write_bytes(packed([{"palate": "collect", "format": 1, "project": small.project.name}, row]))
    with pytest.raises(PalateError, match="fits no table"):
        restore(small.project, small.store, small.keys, file, force=True)
    assert small.store.collected(small.project) == before


@pytest.mark.parametrize("lines", [b"", b"{\n", b"\xff\n"], ids=["nothing", "half a line", "not UTF-8"])
def test_a_backup_with_a_right_sum_over_wrong_lines_is_refused(small: Collection, tmp_path: Path, lines: bytes) -> None:
    file = tmp_path / "study.backup"
    file.write_bytes(gzip.compress(lines + msgspec.json.encode({"sha256": hashlib.sha256(lines).hexdigest()}) + b"\n"))
    with pytest.raises(PalateError, match=r"study\.backup"):
        restore(small.project, small.store, small.keys, file)


def test_a_backup_that_unpacks_to_too_much_is_refused(
    small: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALATE_MAX_UNPACKED_MB", "1")
    file = tmp_path / "study.backup"
    file.write_bytes(gzip.compress(b"\n" * 2_000_000))
    with pytest.raises(PalateError, match="unpacks to more than 1 MB"):
        restore(small.project, small.store, small.keys, file)


def test_a_strangers_project_rewrites_no_files_elsewhere(small: Collection, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    line = '{"id": "p-1", "text": "mine"}\n'
    (mine / "data.jsonl").write_text(line)
    with small.store.writing() as connection:
        connection.execute(participants.insert().values(id="p-1", role="annotator", strata="{}"))
        connection.execute(exports.insert().values(path=str(mine), date="2026-01-01"))
        connection.execute(erasures.insert().values(participant="p-1", reason="asked"))
    [receipt] = finish_erasures(small.project, small.store, small.keys)  # as every command does
    assert (mine / "data.jsonl").read_text() == line
    assert f"{mine} is no export of a collection" in receipt.read_text()


def test_an_export_that_was_cut_off_is_still_searched(small: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = small.join().answer_all()
    id, folder = ann.id, small.folder / "exports" / "cut-off"
    monkeypatch.setattr("palate.collect._export_folder.export_trl", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export_folder(small.project, small.store, folder)
    assert id in (folder / "records" / "answers.jsonl").read_text()
    forget(small.project, small.store, small.keys, id, reason="asked")
    assert id not in (folder / "records" / "answers.jsonl").read_text()


class KilledError(Exception):
    """The process ends here."""


@pytest.mark.parametrize("change", range(1, 11))
def test_an_export_that_was_killed_at_any_file_neither_keeps_a_person_nor_stops_an_erasure(
    small: Collection, monkeypatch: pytest.MonkeyPatch, change: int
) -> None:
    ann = small.join().answer_all()
    id, folder = ann.id, small.folder / "exports" / "killed"
    small.join().answer_all()
    replace, renamed = Path.replace, 0

    def counted(draft: Path, target: Path) -> Path:
        nonlocal renamed
        renamed += 1
        if renamed == change:
            raise KilledError
        return replace(draft, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", counted)
        patch.setattr(Path, "unlink", lambda *_, **__: None)  # a killed process does not tidy up
        with pytest.raises(KilledError):
            export_folder(small.project, small.store, folder)
    forget(small.project, small.store, small.keys, id, reason="asked")
    assert [file for file in folder.rglob("*") if file.is_file() and id.encode() in file.read_bytes()] == []


def test_an_import_writes_nothing_outside_of_the_project(small: Collection, tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    file = small.folder / "project.toml"
    file.write_text(file.read_text().replace('items = "items.jsonl"', 'items = "../notes.txt"'))
    with pytest.raises(PalateError, match="outside of the project's folder"):
        import_items(small.folder, "mini", None)
    assert other.read_text() == "mine"


def test_a_project_runs_no_code_of_a_model(tmp_path: Path) -> None:
    make_project(tmp_path / "study", "feedback")
    file = tmp_path / "study" / "project.toml"
    text = file.read_text()
    policy = next(line for line in text.splitlines() if line.startswith("policy = "))
    file.write_text(text.replace(policy, 'policy = "./model,trust_remote_code=true"', 1))
    with pytest.raises(PalateError, match="runs no code of a model"):
        read_project(tmp_path / "study")


def test_an_invitation_of_nobody_is_no_way_in(small: Collection) -> None:
    """An id without its secret, and a secret that is empty as in a forged row, open nothing."""
    ann = Person(small)
    id = ann.invitation.id
    with small.store.writing() as connection:
        connection.execute(invitations.update().values(secret=hashlib.sha256(b"").hexdigest()))
    for path in (f"/j/{id}", f"/j/{id}.", f"/j/{id}..", f"/j/{id}.." + "0" * 32):
        assert small.client().get(path).status_code == 403


def test_an_export_that_is_downloaded_holds_no_file_from_elsewhere(small: Collection, tmp_path: Path) -> None:
    """A project from a stranger may bring a folder of links that looks like an export."""
    (tmp_path / "elsewhere").write_text("a secret")
    folder = small.folder / "exports" / "2026-01-01T000000-000000"
    (folder / "records").mkdir(parents=True)
    (folder / "records" / "collection.json").write_text('{"project": "small"}')
    (folder / "notes.jsonl").symlink_to(tmp_path / "elsewhere")
    with small.store.writing() as connection:
        connection.execute(exports.insert().values(path=str(folder), date="2026-01-01"))
    answer = Person(small, "owner").http.get(f"/team/exports/{folder.name}.zip")
    assert answer.status_code == 200
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.namelist() == ["records/collection.json"]


@pytest.mark.parametrize("fault", [{"value": [9] * 100_000}, {"ratings": {"a": [9] * 100_000}}], ids=list)
def test_a_list_of_faults_is_not_read_to_its_end(fault: dict[str, Any]) -> None:
    """Each fault is written out while nobody else is answered: half a million took over a second."""
    event = {"id": str(uuid.uuid4()), "kind": "answer", "task": "pairs", "item": "tea", **fault}
    with pytest.raises(ValidationError) as refused:
        EventsIn.model_validate({"events": [event]})
    assert refused.value.error_count() < 1000


def test_an_answer_that_is_sent_again_does_not_bring_an_old_group_back(tmp_path: Path) -> None:
    """Of two tabs at one browser, one may repeat what the other has sent and changed since."""
    with make_collection(tmp_path / "study", "survey", seed='0\nstrata = ["age"]') as made:
        person = made.join()
        task = next(task for task in made.project.tasks if isinstance(task, Survey))
        question = next(one for one in task.questions if one.id in made.project.strata)
        old, new = (
            {"id": str(uuid.uuid4()), "kind": "survey", "task": task.name, "item": question.id, "value": value}
            for value in question.options[:2]
        )
        for event in (old, new, old):
            assert person.send(event).json()["saved"] == [event["id"]]
        found = made.store.collected(made.project)
        assert [one.value for one in found.survey] == [new["value"]]
        assert found.participants[0].strata[question.id] == new["value"]


def test_health_is_told_while_all_threads_wait_for_the_database(small: Collection) -> None:
    with small.client() as http, ThreadPoolExecutor(60) as threads:
        with small.store.alone_in_process():
            waiting = [threads.submit(http.post, "/code", data={"code": "A"}) for _ in range(50)]
            time.sleep(1)
            health = threads.submit(http.get, "/health")
            done, _ = wait([health], timeout=30)
        assert done
        assert health.result().json()["status"] == "ready"
        assert all(one.result().status_code in (403, 429) for one in waiting)


def test_a_free_text_stays_out_of_the_demographics_when_its_question_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    make_project(folder, "compare")
    file = folder / "project.toml"
    asked = (
        '\n[[tasks]]\nkind = "survey"\nname = "about"\ntitle = "About"\n[[tasks.questions]]\nid = "age"\n'
        'text = "How old are you?"\noptions = ["young", "old"]\n'
    )
    free = '[[tasks.questions]]\nid = "boss"\ntext = "Who is your boss?"\nkind = "text"\n'
    without = file.read_text() + asked
    for later in (without, without + free.replace('kind = "text"', 'options = ["he", "she"]')):
        file.write_text(without + free)
        made = Collection(folder)
        ann = made.join().answer_all()
        told = {"kind": "survey", "task": "about"}
        sent = [("age", "old"), ("boss", "Jane Roe of Acme")]
        saved = ann.send(*({**told, "id": str(uuid.uuid4()), "item": item, "value": value} for item, value in sent))
        assert not saved.json()["refused"]
        made.store.close()
        file.write_text(later)
        made = Collection(folder)
        exported, _ = export_folder(made.project, made.store)
        made.store.close()
        for name in ("exchange.jsonl", "benchmark/users.jsonl"):
            written = (exported / name).read_text()
            assert '"age":"old"' in written
            assert "Jane" not in written


def test_a_receipt_says_that_what_was_made_of_an_export_was_not_searched(small: Collection) -> None:
    before, after = small.join().answer_all(), small.join().answer_all()
    receipts = [forget(small.project, small.store, small.keys, before.id, reason="asked")]
    export_folder(small.project, small.store)
    receipts.append(forget(small.project, small.store, small.keys, after.id, reason="asked"))
    told = [json.loads(receipt.read_text())["not_erased"] for receipt in receipts]
    assert [any("palate forget" in line for line in lines) for lines in told] == [False, True]


def test_an_export_that_cannot_be_written_is_said_and_the_erasure_is_finished_later(
    small: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = small.join().answer_all()
    id = person.id
    folder, _ = export_folder(small.project, small.store)

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    with monkeypatch.context() as patch:
        patch.setattr("palate.privacy.rewrite", denied)
        with pytest.raises(PalateError, match=r"cannot be written \(Permission denied\); the erasure is noted"):
            forget(small.project, small.store, small.keys, id, reason="asked")
    assert len(finish_erasures(small.project, small.store, small.keys)) == 1
    assert [file for file in folder.rglob("*") if file.is_file() and id.encode() in file.read_bytes()] == []


def test_whoever_is_in_an_export_without_a_choice_can_withdraw_after_all_others(small: Collection) -> None:
    ann, bob = small.join().answer_all(), small.join()
    bob.send(*({**bob.choose(item), "position": None, "tie": True} for item in bob.items()["items"]))
    folder, _ = export_folder(small.project, small.store)
    people = [ann.id, bob.id]
    for id in people:
        forget(small.project, small.store, small.keys, id, reason="withdrawn")
    written = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    assert not any(id.encode() in written for id in people)
    assert finish_erasures(small.project, small.store, small.keys) == []


@pytest.mark.filterwarnings("ignore:(GET|POST) about somebody")
def test_whoever_is_erased_while_they_answer_is_told_so(small: Collection) -> None:
    for _ in range(4):
        ann = small.join()
        name, items = ann.id, ann.items()["items"]
        with ThreadPoolExecutor(4) as threads:
            sent = [threads.submit(ann.send, ann.choose(item)) for item in items]
            read = [threads.submit(ann.http.get, path) for path in ("/", "/api/tasks/pairs", "/consent") for _ in "ab"]
            forget(small.project, small.store, small.keys, name, reason="asked")
            answers = {one.result().status_code for one in (*sent, *read)}
        assert answers <= {200, 303, 401, 403, 409}
        assert not small.store.collected(small.project).participants
