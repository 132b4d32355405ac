"""A small Hugging Face hub on this machine that takes what is sent to it, with tokens, large files and commits."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import yaml

LARGE = 50_000
"""Bytes from which a file goes into the store of large files."""
Files = dict[str, bytes]


@dataclass
class Repository:
    private: bool
    commits: list[tuple[str, Files]] = field(default_factory=list)

    def commit(self, files: Files) -> str:
        sha = hashlib.sha1(repr((len(self.commits), sorted(files.items()))).encode()).hexdigest()
        self.commits.append((sha, files))
        return sha

    def at(self, revision: str) -> tuple[str, Files] | None:
        if revision == "main":
            return self.commits[-1]
        return next((one for one in self.commits if one[0] == revision), None)


@dataclass
class State:
    """What the hub holds, who may do what, and what it was asked."""

    tokens: dict[str, str] = field(default_factory=lambda: {"hf_writer": "write", "hf_reader": "read"})
    repositories: dict[str, Repository] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    drop: str = ""
    """The connection is cut at the next request whose path holds this."""
    lose_answer: bool = False
    """The connection is cut after the next commit, before its answer."""
    asked: list[str] = field(default_factory=list)

    def files(self, name: str) -> Files:
        return self.repositories[name].commits[-1][1]


class WritableHub(BaseHTTPRequestHandler):
    state: State
    protocol_version = "HTTP/1.1"

    def handle_one(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, _ = unquote(self.path).partition("?")
        self.state.asked.append(f"{self.command} {path}")
        if self.state.drop and self.state.drop in path:
            self.state.drop = ""
            self.close_connection = True
            self.connection.close()
            return None
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if token and token not in self.state.tokens:
            return self.refuse(401, "Invalid credentials in Authorization header")
        role = self.state.tokens.get(token, "")
        if path == "/":
            return self.answer({})
        if path.startswith("/lfs/"):
            assert hashlib.sha256(body).hexdigest() == path.removeprefix("/lfs/")
            self.state.large[path.removeprefix("/lfs/")] = body
            return self.answer({})
        if path == "/api/validate-yaml":
            head = json.loads(body)["content"].split("---\n")[1]
            assert isinstance(yaml.safe_load(head), dict)
            return self.answer({"errors": [], "warnings": []})
        if self.command == "POST" and role != "write":
            return self.refuse(403 if role else 401, "You don't have the rights to write here")
        if path == "/api/repos/create":
            return self.create(json.loads(body))
        return self.about_a_repository(path, body, bool(role))

    do_GET = do_HEAD = do_POST = do_PUT = handle_one  # noqa: N815

    def create(self, asked: dict[str, object]) -> None:
        name = f"{asked['organization']}/{asked['name']}"
        private = asked.get("private") is True or asked.get("visibility") == "private"
        self.state.repositories[name] = Repository(private)
        self.state.repositories[name].commit({".gitattributes": b"*.parquet filter=lfs\n"})
        self.answer({"url": f"{self.address}/datasets/{name}", "name": name})

    def about_a_repository(self, path: str, body: bytes, known: bool) -> None:
        parts = path.removeprefix("/api").removeprefix("/datasets/").split("/")
        name, rest = "/".join(parts[:2]).removesuffix(".git"), parts[2:]
        repository = self.state.repositories.get(name)
        if repository is None or (repository.private and not known):
            return self.refuse(401 if not known else 404, "Repository not found", "RepoNotFound")
        if rest[:1] == ["info"]:
            return self.batch(json.loads(body))
        if rest[:1] == ["preupload"]:
            files = json.loads(body)["files"]
            modes = [
                {
                    "path": one["path"],
                    "uploadMode": "lfs" if one["size"] >= LARGE else "regular",
                    "shouldIgnore": False,
                }
                for one in files
            ]
            return self.answer({"files": modes})
        if rest[:1] == ["commit"]:
            return self.take_commit(repository, name, [json.loads(line) for line in body.splitlines()])
        found = repository.at(rest[1] if len(rest) > 1 else "main")
        if found is None:
            return self.refuse(404, "Revision not found", "RevisionNotFound")
        if rest[:1] == ["tree"]:
            return self.answer([_entry(path, content) for path, content in found[1].items()])
        if rest[:1] == ["resolve"]:
            return self.resolve(found[0], found[1].get("/".join(rest[2:])))
        siblings = [{"rfilename": path} for path in found[1]]
        facts = {"gated": False, "tags": [], "downloads": 0, "likes": 0, "siblings": siblings}
        return self.answer({"id": name, "sha": found[0], "private": repository.private} | facts)

    def batch(self, asked: dict[str, list[dict[str, object]]]) -> None:
        objects = [
            {"oid": one["oid"], "size": one["size"]}
            | (
                {}
                if one["oid"] in self.state.large
                else {"actions": {"upload": {"href": f"{self.address}/lfs/{one['oid']}"}}}
            )
            for one in asked["objects"]
        ]
        self.answer({"transfer": "basic", "objects": objects})

    def take_commit(self, repository: Repository, name: str, lines: list[dict[str, dict[str, str]]]) -> None:
        sha, files = repository.commits[-1]
        new = dict(files)
        for line in lines:
            value, key = line["value"], str(line["key"])
            if key == "header" and value.get("parentCommit", sha) != sha:
                return self.refuse(412, "A commit has happened since")
            if key == "file":
                new[value["path"]] = base64.b64decode(value["content"])
            elif key == "lfsFile":
                new[value["path"]] = self.state.large[value["oid"]]
            elif key == "deletedFile":
                del new[value["path"]]
        sha = repository.commit(new)
        if self.state.lose_answer:
            self.state.lose_answer = False
            self.close_connection = True
            return self.connection.close()
        return self.answer({"commitOid": sha, "commitUrl": f"{self.address}/datasets/{name}/commit/{sha}"})

    def resolve(self, sha: str, content: bytes | None) -> None:
        if content is None:
            return self.refuse(404, "Entry not found", "EntryNotFound")
        return self.send(200, content, {"ETag": f'"{_blob(content)}"', "X-Repo-Commit": sha})

    @property
    def address(self) -> str:
        return f"http://{self.headers['Host']}"

    def refuse(self, status: int, message: str, code: str = "") -> None:
        headers = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
        self.send(status, json.dumps({"error": message}).encode(), headers)

    def answer(self, content: object) -> None:
        self.send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\x00" % len(content) + content).hexdigest()


def _entry(path: str, content: bytes) -> dict[str, object]:
    entry: dict[str, object] = {"type": "file", "oid": _blob(content), "size": len(content), "path": path}
    if len(content) >= LARGE:
        sha = hashlib.sha256(content).hexdigest()
        entry |= {"oid": _blob(sha.encode()), "lfs": {"oid": sha, "size": len(content), "pointerSize": 130}}
    return entry


@contextmanager
def writable_hub() -> Iterator[tuple[str, State]]:
    """Serve an empty hub; its address and what it holds."""
    state = State()
    handler = type("ThisHub", (WritableHub,), {"state": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", state
    finally:
        server.shutdown()
        server.server_close()
