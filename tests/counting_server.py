"""A chat server on this machine that counts what it was asked and what it told of tokens."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class CountingServer:
    """Prefers the response that stands first; a prompt's tokens are its words, and an answer has two."""

    def __init__(self) -> None:
        self.address = ""
        self.requests = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self._lock = threading.Lock()

    def answer(self, body: dict[str, object]) -> dict[str, object]:
        messages = body["messages"]
        assert isinstance(messages, list)
        words = sum(len(message["content"].split()) for message in messages)
        with self._lock:
            self.requests += 1
            self.prompt_tokens += words
            self.completion_tokens += 2
        message = {"role": "assistant", "content": "[[A]]"}
        return {
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": words, "completion_tokens": 2, "total_tokens": words + 2},
        }


@contextmanager
def counting_server() -> Iterator[CountingServer]:
    server = CountingServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            reply = server.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            content = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # a busy machine is slow to accept, and what does not fit is reset and tried again

    with Server(("127.0.0.1", 0), Handler) as http:
        server.address = f"http://127.0.0.1:{http.server_address[1]}/v1"
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
