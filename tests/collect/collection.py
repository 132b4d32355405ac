"""A collection with its application in this process, and the people who come to it."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from palate.collect._access import Keys, Role, invite, project_keys
from palate.collect._app import Context, make_app
from palate.collect._database import Store, open_store
from palate.collect._gate import Gate
from palate.collect._init import make_project
from palate.collect._project import Project, read_project

ADDRESS = "http://127.0.0.1:8400"


class Person:
    """Somebody with a browser, without the browser."""

    def __init__(self, collection: Collection, role: Role = "annotator", **options: Any) -> None:
        self.collection = collection
        self.http = collection.client()
        self.invitation = invite(collection.store, collection.keys, role=role, **options)[0]
        self.csrf = _enter(self.http, self.invitation.path)

    @property
    def id(self) -> str:
        page = self.http.get("/consent")
        found = re.search(r"/withdraw/(p-[0-9a-f]+)\.", page.text)
        assert found is not None
        return found[1]

    def agree(self) -> Person:
        answer = self.http.post("/consent", data={"csrf": self.csrf, "agreed": "yes"}, follow_redirects=False)
        assert answer.status_code == 303
        return self

    def items(self, task: str = "pairs") -> dict[str, Any]:
        answer = self.http.get(f"/api/tasks/{task}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def send(self, *events: dict[str, Any]) -> Any:
        return self.http.post("/api/events", json={"events": list(events)}, headers={"x-csrf-token": self.csrf})

    def choose(self, item: dict[str, Any], position: int = 0, task: str = "pairs", **more: Any) -> dict[str, Any]:
        return {
            "id": str(uuid.uuid4()), "kind": "answer", "task": task, "item": item["item"], "repeat": item["repeat"],
            "position": position, "seconds": 12.5, **more,
        }  # fmt: skip

    def answer_all(self, task: str = "pairs", position: int = 0) -> Person:
        while items := self.items(task)["items"]:
            answer = self.send(*(self.choose(item, position, task) for item in items))
            assert not answer.json()["refused"]
        return self


class Collection:
    """A project, its tables and its routes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project: Project = read_project(folder)
        self.keys: Keys = project_keys(self.project)
        self.store: Store = open_store(self.project)
        self.context = Context(self.project, self.store, self.keys, ADDRESS)
        self.app = make_app(self.context)

    def client(self) -> TestClient:
        gate = Gate(self.app, ["127.0.0.1"])
        return TestClient(gate, base_url=ADDRESS, raise_server_exceptions=False, headers={"host": "127.0.0.1:8400"})

    def join(self, **options: Any) -> Person:
        return Person(self, **options).agree()


@contextmanager
def make_collection(folder: Path, example: str, **changes: str) -> Iterator[Collection]:
    """An example as a project; `changes` replace lines of its file that begin with a key."""
    make_project(folder, example)
    file = folder / "project.toml"
    text = file.read_text()
    for key, value in changes.items():
        text, count = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
        assert count, key
    file.write_text(text)
    made = Collection(folder)
    try:
        yield made
    finally:
        made.context.live.close()
        made.store.close()


class Invited(Person):
    """Somebody who follows a link that a command printed."""

    def __init__(self, collection: Collection, link: str) -> None:
        self.collection = collection
        self.http = collection.client()
        self.csrf = _enter(self.http, link.removeprefix(ADDRESS))


def _enter(http: TestClient, path: str) -> str:
    return _csrf(http.get(path, follow_redirects=True).text)


def _csrf(page: str) -> str:
    found = re.search(r'<meta name="csrf" content="([0-9a-f]+)">', page)
    assert found is not None, page
    return found[1]


class Served:
    """`palate collect serve` in a process of its own."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        command = [sys.executable, "-m", "palate", "collect", "serve", str(folder), "--port", str(port)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        printed = []
        for line in self.process.stderr:
            printed.append(line)
            if line.startswith("Taking requests"):
                break
        else:
            raise AssertionError(f"the server did not start: {''.join(printed)}")
        self.address = next(line for line in printed if line.startswith("Participants: ")).split()[-1]
        self.owner = next(line for line in printed if line.startswith("Your dashboard: ")).split()[-1]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()
