"""An OpenAI-compatible server that answers by a script: a function from what it is asked to what it says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Script = Callable[[str], str | int | None]
"""What is said; a number is an HTTP status. None cuts the answer off."""


class Scripted:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[str] = []
        self.address = ""

    def spec(self, name: str = "scripted", **options: str) -> str:
        more = "".join(f",{key}={value}" for key, value in options.items())
        return f"{name},url={self.address},key=SCRIPTED_KEY{more}"


@contextmanager
def scripted_server(script: Script) -> Iterator[Scripted]:
    scripted = Scripted(script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.reply(200, {"data": [{"id": "scripted", "owned_by": "test"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked = body["messages"][-1]["content"]
            scripted.asked.append(asked)
            said = scripted.script(asked)
            if isinstance(said, int):
                return self.reply(said, {"error": {"message": "the script says no"}})
            choice = {
                "index": 0,
                "message": {"role": "assistant", "content": said or "It goes on and"},
                "finish_reason": "length" if said is None else "stop",
            }
            usage = {"prompt_tokens": len(asked.split()), "completion_tokens": len((said or "").split())}
            return self.reply(200, {"choices": [choice], "usage": usage})

        def reply(self, status: int, content: object) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    scripted.address = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield scripted
    finally:
        server.shutdown()
        server.server_close()
