"""A small Hugging Face hub on this machine, for tests of what comes from the hub."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """The part of the hub's interface that a download uses. Data sets are named `datasets/owner/name`."""

    repositories: dict[str, dict[str, bytes]]

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path, _, _ = unquote(self.path).partition("?")
        for name, files in self.repositories.items():
            api = f"/api/{name}" if name.startswith("datasets/") else f"/api/models/{name}"
            if path.startswith(f"{api}/tree/"):
                folder = "/".join(path.removeprefix(f"{api}/tree/").split("/")[1:])
                below = {file: data for file, data in files.items() if not folder or file.startswith(f"{folder}/")}
                return self.answer_api(name.removeprefix("datasets/"), below, tree=True)
            if path == api or path.startswith(f"{api}/revision/"):
                return self.answer_api(name.removeprefix("datasets/"), files, tree=False)
            for revision in (COMMIT, "main"):
                file = path.removeprefix(f"/{name}/resolve/{revision}/")
                if file in files:
                    return self.answer_file(files[file])
        return self.answer(404, b'{"error": "Repository not found"}', {"X-Error-Code": "RepoNotFound"})

    def answer_api(self, name: str, files: dict[str, bytes], *, tree: bool) -> None:
        if tree:
            listed = [
                {"type": "file", "oid": hashlib.sha1(data).hexdigest(), "size": len(data), "path": path}
                for path, data in files.items()
            ]
            return self.answer(200, json.dumps(listed).encode())
        info = {
            "id": name,
            "sha": COMMIT,
            "private": False,
            "gated": False,
            "tags": [],
            "downloads": 0,
            "likes": 0,
        }
        return self.answer(200, json.dumps(info | {"siblings": [{"rfilename": path} for path in files]}).encode())

    def answer_file(self, data: bytes) -> None:
        tag = hashlib.sha1(data).hexdigest()
        self.answer(200, data, {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT})

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def serving(repositories: dict[str, dict[str, bytes]]) -> Iterator[str]:
    """Serve these repositories; the address to set HF_ENDPOINT to."""
    handler = type("ThisHub", (Hub,), {"repositories": repositories})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
