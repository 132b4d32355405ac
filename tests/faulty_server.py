"""A chat and reward server that fails on purpose, in a process of its own. The first word of the path is its mood.

    python tests/faulty_server.py SHARE_OF_FAULTS DELAY    (prints its address)

Faults are drawn by a seed for each try of each prompt, so that a test sees the same ones every time.
"""

from __future__ import annotations

import asyncio
import collections
import hashlib
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

FAULTS = ("busy", "error", "silence", "cut", "nonsense", "empty")
PAGE = b"<!doctype html><title>Welcome</title>"
Reply = tuple[int, bytes, dict[str, str]]


def digest(prompt: str) -> str:
    return hashlib.sha256(prompt.encode()).hexdigest()[:16]


class Server:
    def __init__(self, faults: float, delay: float) -> None:
        self.faults = faults
        self.delay = delay
        self.tries: collections.Counter[str] = collections.Counter()
        self.answered: collections.Counter[str] = collections.Counter()
        self.drawn: collections.Counter[str] = collections.Counter()
        self.in_flight = 0
        self.most_in_flight = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in lines if line)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.in_flight += 1
                self.most_in_flight = max(self.most_in_flight, self.in_flight)
                try:
                    await self.answer(first.split()[1], headers, body, writer)
                finally:
                    self.in_flight -= 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, path: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter) -> None:
        mood, _, rest = path.strip("/").partition("/")
        if mood == "counts":
            counts = {
                "tries": self.tries,
                "answered": self.answered,
                "drawn": self.drawn,
                "most": self.most_in_flight,
            }
            return await send(writer, 200, json.dumps(counts).encode())
        request = json.loads(body) if body else {}
        key = request["messages"][-1]["content"] if "messages" in request else body.decode()
        self.tries[key] += 1
        await asyncio.sleep(self.delay)
        if mood == "sleepy" and self.tries[key] == 1:
            return await asyncio.sleep(3600)
        fault = self.draw(key) if mood == "faulty" else None
        if fault:
            self.drawn[fault] += 1
            return await self.fail(fault, writer)
        status, content, more = respond(mood, rest, request, headers)
        if status == 200:
            self.answered[key] += 1
        return await send(writer, status, content, more)

    def draw(self, key: str) -> str | None:
        drawn = random.Random(f"{key} {self.tries[key]}")
        return drawn.choice(FAULTS) if drawn.random() < self.faults else None

    async def fail(self, fault: str, writer: asyncio.StreamWriter) -> None:
        if fault == "busy":
            return await send(writer, 429, b'{"error": {"message": "slow down"}}', {"Retry-After": "0.05"})
        if fault == "error":
            return await send(writer, 500, b"Internal Server Error")
        if fault == "silence":
            self.in_flight -= 1  # who asked has given up, or will hear nothing before the line goes dead
            await asyncio.sleep(0.5)
            self.in_flight += 1
            return writer.close()
        if fault == "cut":
            writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{"choices": [')
            writer.close()
            return await writer.drain()
        return await send(writer, 200, b'{"choices": [], "ratings": 1}' if fault == "empty" else b'{"choices": [}')


async def send(
    writer: asyncio.StreamWriter, status: int, content: bytes, headers: dict[str, str] | None = None
) -> None:
    lines = {"Content-Type": "application/json", "Content-Length": str(len(content)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    writer.write(f"HTTP/1.1 {status} -\r\n{head}\r\n".encode() + content)
    await writer.drain()


def respond(mood: str, path: str, request: dict, headers: dict[str, str]) -> Reply:
    if mood == "page":
        return 200, PAGE, {"Content-Type": "text/html"}
    if mood == "nowhere":
        return 404, b'{"error": {"message": "The model `typo` does not exist."}}', {}
    if mood == "tomorrow":
        return 429, b'{"error": {"message": "come back"}}', {"Retry-After": "86400"}
    if mood == "leak":
        return 400, json.dumps({"error": f"bad request with headers {headers}"}).encode(), {}
    if mood == "locked":
        return 401, json.dumps({"error": {"message": f"wrong key: {headers.get('authorization')}"}}).encode(), {}
    if path == "v1/models":
        return 200, json.dumps({"data": [{"id": "m", "owned_by": mood}]}).encode(), {}
    if path == "v1/chat/completions":
        return chat(mood, request)
    if path == "rate":
        return rate(mood, request)
    return 404, b"{}", {}


def chat(mood: str, request: dict) -> Reply:
    prompt = request["messages"][-1]["content"]
    if "forbidden" in prompt:
        return 400, b'{"error": {"message": "this prompt is not allowed here"}}', {}
    for refused in ("n", "seed", "logprobs", "max_tokens"):
        if mood == "strict" and refused in request:
            hint = " Use 'max_completion_tokens' instead." if refused == "max_tokens" else ""
            said = {"error": {"message": f"Unsupported parameter: '{refused}'.{hint}", "param": refused}}
            return 400, json.dumps(said).encode(), {}
    samples = 1 if mood == "single" else request.get("n", 1)
    choices = [choice(mood, request, prompt, index) for index in range(samples)]
    usage = {"prompt_tokens": 100, "completion_tokens": 10 * samples}
    return 200, json.dumps({"choices": choices, "usage": usage}).encode(), {}


def choice(mood: str, request: dict, prompt: str, index: int) -> dict:
    reason = "content_filter" if mood == "filter" else "stop"
    text = f"{digest(prompt)} {request.get('seed', 0) + index}"
    if mood == "llamacpp" and request["messages"][-1]["role"] == "assistant":
        text = prompt + " " + request["messages"][-2]["content"]
    made: dict = {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
    if request.get("logprobs") and mood != "mute":
        likeliest = [
            {"token": "A", "logprob": -1.6094379124341003},  # 0.2
            {"token": " A", "logprob": -1.2039728043259361},  # 0.3
            {"token": " B", "logprob": -2.302585092994046},  # 0.1
            {"token": "b", "logprob": -2.995732273553991},  # 0.05
        ]
        made["logprobs"] = {"content": [{"token": "A", "logprob": -1.6, "top_logprobs": likeliest}]}
    return made


def rate(mood: str, request: dict) -> Reply:
    asks = request["asks"]
    if any("poison" in ask["prompt"] for ask in asks):
        return 400, b'{"error": "I will not rate this"}', {}
    ratings = [
        {"id": ask["id"], "scores": [int(digest(ask["prompt"] + text), 16) % 1000 for text in ask["responses"]]}
        for ask in reversed(asks)  # the order of the ratings says nothing
    ]
    if mood == "careless":
        short = {"id": asks[1]["id"], "scores": [1]}
        ratings = [ratings[0], ratings[0], short, {"id": "stranger", "scores": [1, 2]}]
    return 200, json.dumps({"ratings": ratings}).encode(), {}


async def main(faults: float, delay: float) -> None:
    server = await asyncio.start_server(Server(faults, delay).serve, "127.0.0.1", 0, limit=2**24, backlog=512)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


@contextmanager
def running(command: list[str]) -> Iterator[str]:
    """A server process that prints its address first."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@contextmanager
def faulty_server(faults: float = 0.0, delay: float = 0.0) -> Iterator[str]:
    with running([sys.executable, str(Path(__file__).resolve()), str(faults), str(delay)]) as address:
        yield address


def counts(address: str) -> dict:
    return httpx.get(f"{address}/counts", trust_env=False, timeout=300).json()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), float(sys.argv[2])))
