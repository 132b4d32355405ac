"""Killed servers, odd requests, and the way from a collection to `palate eval` and `train`."""

from __future__ import annotations

import threading
import time
import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from collection import ADDRESS, Collection, Person, Served, make_collection
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import BaseSchema

from command import palate
from palate.collect._access import invite


def _one(address: str, path: str, stop: threading.Event, acknowledged: list[str]) -> None:
    """Answers the same item again and again, and notes every id that the server says is saved."""
    with httpx.Client(base_url=address, timeout=60, follow_redirects=True) as http:
        page = http.get(path).text
        csrf = page.split('name="csrf" content="')[1].split('"')[0]
        http.post("/consent", data={"csrf": csrf, "agreed": "yes"})
        item = http.get("/api/tasks/pairs").json()["items"][0]
        while not stop.is_set():
            id = str(uuid.uuid4())
            event = {"id": id, "kind": "answer", "task": "pairs", "item": item["item"], "position": 0}
            try:
                answer = http.post("/api/events", json={"events": [event]}, headers={"x-csrf-token": csrf})
            except httpx.HTTPError:
                return
            if answer.status_code == 200:
                acknowledged.extend(answer.json()["saved"])


def test_an_answer_that_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    with make_collection(tmp_path / "study", "compare") as made:
        acknowledged: list[str] = []
        for wanted in (20, 60):
            server = Served(made.folder)
            stop = threading.Event()
            paths = [one.path for one in invite(made.store, made.keys, count=4)]
            threads = [threading.Thread(target=_one, args=(server.address, path, stop, acknowledged)) for path in paths]
            for thread in threads:
                thread.start()
            while len(acknowledged) < wanted:
                time.sleep(0.01)
            server.kill()
            stop.set()
            for thread in threads:
                thread.join()
        from sqlalchemy import select

        from palate.collect._tables import events

        with made.store.reading() as connection:
            held = list(connection.execute(select(events.c.id)).scalars())
        assert len(held) == len(set(held)) and set(acknowledged) <= set(held)


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with make_collection(tmp_path_factory.mktemp("schema") / "study", "compare") as made:
        for limit in (made.context.requests, made.context.guesses, made.context.widget):
            limit._rate, limit._burst = 1e9, 10**9
        schema = schemathesis.openapi.from_asgi("/openapi.json", _with_schema(made))
        people = {role: Person(made, role=role) for role in ("annotator", "owner")}
        people["annotator"].agree()
        yield schema, people


def _with_schema(made: Collection) -> Any:
    from fastapi.responses import JSONResponse

    raw = made.app.openapi()

    async def describe(request: Any) -> JSONResponse:
        return JSONResponse(raw)

    made.app.add_route("/openapi.json", describe)
    return made.app


@pytest.mark.parametrize("mode", GenerationMode, ids=lambda mode: mode.value)
@pytest.mark.parametrize("role", ["annotator", "owner"])
def test_no_request_makes_the_server_fail(described: Any, role: str, mode: GenerationMode) -> None:
    schema, people = described
    assert isinstance(schema, BaseSchema)
    person = people[role]
    cookies = {"palate-session": person.http.cookies["palate-session"]}
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path in ("/leave", "/team/export", "/team/retention"):
            continue  # which take nothing, and end or write what the others need

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(
            max_examples=6, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
        )
        def check(case: Case) -> None:
            headers = {"x-csrf-token": person.csrf, "origin": ADDRESS, "host": "127.0.0.1:8400"}
            case.call_and_validate(checks=[not_a_server_error], headers=headers, cookies=cookies, base_url=ADDRESS)

        try:
            check()
        except Exception as error:
            if "Unsatisfiable" in type(error).__name__ or "nothing to generate" in str(error).lower():
                continue  # there is nothing to get wrong in this one
            raise


def test_from_a_collection_to_eval_and_train(tmp_path: Path) -> None:
    with make_collection(tmp_path / "study", "compare") as made:
        for number in range(4):
            made.join().answer_all(position=number % 2)
    done = palate("collect", "export", made.folder, "--output", tmp_path / "export")
    assert done.returncode == 0, done.stderr
    benchmark = tmp_path / "export" / "benchmark"
    assert palate("data", "check", benchmark).returncode == 0
    evaluated = palate("eval", benchmark, "--rm", "longest", "--rm", "random", "--out", tmp_path / "runs")
    assert evaluated.returncode == 0, evaluated.stderr
    trained = palate(
        "train", benchmark, "--method", "bradley-terry", "--features", "traits", "--out", tmp_path / "runs"
    )
    assert trained.returncode == 0, trained.stderr
    assert (tmp_path / "export" / "trl.jsonl").read_text().count("\n") > 10
    assert (tmp_path / "export" / "exchange.jsonl").read_text().count("\n") == 4


def test_active_choice_records_how_likely_each_pair_was(tmp_path: Path) -> None:
    with make_collection(tmp_path / "study", "compare", active="true") as made:
        ann = made.join().answer_all()
        answers = made.store.collected(made.project).answers
        ordinary = [answer for answer in answers if answer.probability is not None]
        assert len(answers) == 8 and len(ordinary) == 6
        assert all(0 < (answer.probability or 0) <= 1 for answer in ordinary)
        assert len({answer.item for answer in ordinary}) == 6
        assert ann.items()["total"] == 8


def test_the_commands_do_as_they_say(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    assert palate("collect", "init", folder, "--example", "compare").returncode == 0
    assert "is there already" in palate("collect", "init", folder).stderr
    links = palate("collect", "invite", folder, "--count", "2", "--group", "region=north", "--json")
    assert links.stdout.count("/j/") == 2
    assert "Did you mean 'region'?" in palate("collect", "invite", folder, "--group", "regio=x").stderr
    made = Collection(folder)
    ann = made.join().answer_all()
    name = ann.id
    made.store.close()
    assert "1 started, 1 finished, 8 answers" in palate("collect", "status", folder).stdout
    backup = tmp_path / "backup.gz"
    assert "1 people" in palate("collect", "backup", backup, folder).stdout or backup.exists()
    assert palate("collect", "forget", name, folder).returncode == 0
    assert "nobody with this id" in palate("collect", "forget", name, folder).stderr
    assert "erased again" in palate("collect", "restore", backup, folder).stdout
    assert "0 started" in palate("collect", "status", folder).stdout
    assert "0 people were kept longer" in palate("collect", "retention", folder).stdout
    assert "To see a gain of 5.0 points" in palate("collect", "plan").stdout
    fresh = tmp_path / "fresh"
    palate("collect", "init", fresh)
    assert "150 items written" in palate("collect", "import", "mini", fresh).stdout
    assert palate("collect", "status", fresh).returncode == 0


def test_every_fault_of_a_project_is_told_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    palate("collect", "init", folder)
    file = folder / "project.toml"
    text = file.read_text().replace("per_person", "perperson").replace("overlap = 75", 'overlap = "many"')
    file.write_text(text.replace('title = "Which', 'titel = "Which', 1))
    items = folder / "items.jsonl"
    items.write_text(items.read_text() + '{"id": "x", "prompt": "p", "responses": ["only one"]}\n')
    told = palate("collect", "status", folder)
    assert told.returncode == 2 and "Traceback" not in told.stderr
    for fault in ("Did you mean 'per_person'?", "Did you mean 'title'?", "overlap: Expected `int`", "title is missing"):
        assert fault in told.stderr
    file.write_text(text.replace("perperson", "per_person").replace('"many"', "75"))
    told = palate("collect", "status", folder)
    assert "items.jsonl, line 11: an item has 2 to 9 responses; 1 were given" in told.stderr


def test_the_examples_of_all_kinds_open(tmp_path: Path) -> None:
    for kind in ("survey", "compare", "feedback", "validate"):
        assert palate("collect", "init", tmp_path / kind, "--example", kind).returncode == 0
        assert palate("collect", "status", tmp_path / kind).returncode == 0
