"""A reward model behind HTTP, against real servers: that of the documentation, and one that fails on purpose."""

from __future__ import annotations

import gzip
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from faulty_server import counts, digest, faulty_server
from palate.engine import _http_client
from palate.engine._throttle import RetryPolicy
from palate.records import Ask, PalateError, Part, View
from palate.rewards import check_reward_model, rate
from palate.rewards._http import HttpReward

QUICK = RetryPolicy(first_wait=0.02, longest_wait=0.2)
TOKEN = "token-0123456789-secret"
PAGE = Path(__file__).parents[2] / "docs" / "reward-server.md"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with faulty_server() as address:
        yield address


def ask(id: str, prompt: str | None = None) -> Ask:
    return Ask(id=id, prompt=prompt or f"prompt {id}", responses=(f"{id} one", f"{id} two"))


def expected(asked: Ask) -> tuple[float, ...]:
    return tuple(int(digest(asked.prompt + text), 16) % 1000 for text in asked.responses)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server of the documentation, as it stands there."""
    [source] = re.findall(r'```python title="server.py"\n(.*?)```', PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len([line for line in source.splitlines() if line.strip()]) <= 25
    file = tmp_path_factory.mktemp("example") / "server.py"
    file.write_text(source)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(file), str(port)], stderr=subprocess.DEVNULL)
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def test_the_server_of_the_documentation_keeps_the_contract(example: str) -> None:
    reward = HttpReward(example, retry_policy=QUICK)
    assert reward.name == "shared-words"
    assert check_reward_model(reward)
    view = View(name="posts:1", user_id="u", parts=(Part(kind="post", text="I like green tea"),))
    [rating] = reward.rate([Ask(id="1", prompt="Drink?", responses=("coffee", "green tea"), view=view)])
    assert rating.scores == (0, 2)


def test_ratings_are_matched_by_id_on_a_server_that_fails() -> None:
    asks = [ask(f"item {number}") for number in range(600)]
    with faulty_server(faults=0.3) as address:
        reward = HttpReward(f"{address}/faulty/rate", timeout=300, batch_size=16, retry_policy=QUICK)
        ratings = rate(reward, asks)
        seen = counts(address)
    assert [rating.scores for rating in ratings] == [expected(asked) for asked in asks]
    assert sum(seen["drawn"].values()) > 5


def test_only_what_the_server_refuses_is_unscored(server: str) -> None:
    asks = [ask(f"{number}", "poison" if number == 21 else None) for number in range(64)]
    ratings = HttpReward(f"{server}/well/rate", retry_policy=QUICK).rate(asks)
    assert ratings[21].unscored == "the reward server: HTTP 400: I will not rate this"
    assert [rating.scores for rating in ratings if rating.scores] == [
        expected(asked) for asked in asks if asked.prompt != "poison"
    ]
    assert sum(rating.scores is None for rating in ratings) == 1


def test_each_ask_is_rated_exactly_once_or_unscored_with_the_reason(server: str) -> None:
    ratings = HttpReward(f"{server}/careless/rate", retry_policy=QUICK).rate([ask("a"), ask("b"), ask("c")])
    assert [rating.unscored for rating in ratings] == [
        "the reward server gave no rating for this ask",
        "the reward server gave 1 scores for 2 responses",
        "the reward server gave 2 ratings for this ask",
    ]


def test_asks_that_share_an_id_are_told_apart(server: str) -> None:
    asks = [ask("same", "one"), ask("same", "two")]
    ratings = HttpReward(f"{server}/well/rate", retry_policy=QUICK).rate(asks)
    assert [rating.scores for rating in ratings] == [expected(asked) for asked in asks]


def test_without_health_the_address_is_the_name(server: str) -> None:
    reward = HttpReward(f"{server}/well/rate", timeout="300", batch_size="4", concurrency="2", retry_policy=QUICK)
    assert reward.name == f"http:{server.removeprefix('http://')}/well/rate"
    assert reward.batch_size == 8
    assert reward.fingerprint != HttpReward(f"{server}/single/rate", retry_policy=QUICK).fingerprint
    assert reward.rate([]) == []


def test_what_can_never_succeed_stops_at_once(server: str) -> None:
    with pytest.raises(PalateError, match="takes asks at"):
        HttpReward(f"{server}/well/other", retry_policy=QUICK).rate([ask("a")])
    with pytest.raises(PalateError, match="Is it running"):
        HttpReward("http://127.0.0.1:9", retry_policy=QUICK)
    with pytest.raises(PalateError, match="numbers"):
        HttpReward(server, timeout="soon")


def test_the_token_shows_nowhere(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALATE_REWARD_TOKEN", TOKEN)
    reward = HttpReward(f"{server}/leak/rate", retry_policy=QUICK)
    [rating] = reward.rate([ask("a")])
    assert rating.unscored
    assert "bearer [key]" in rating.unscored.lower()
    assert TOKEN not in rating.unscored + repr(reward) + reward.fingerprint


@contextmanager
def answering(answer: Any) -> Iterator[str]:
    """A server that answers every question about ratings with what `answer` writes."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            answer(self)

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def test_an_answer_without_an_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_http_client, "LARGEST_ANSWER", 2**20)
    sent = 0

    def endless(request: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        request.end_headers()
        try:
            while sent < 2**28:
                sent += request.wfile.write(b" " * 2**16)
        except ConnectionError:
            pass

    with answering(endless) as address:
        [rating] = rate(HttpReward(address, retry_policy=QUICK), [ask("1")])
    assert rating.unscored == "the reward server: an answer of more than 1 MiB"
    assert sent < 2**26


def test_an_answer_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = gzip.compress(b" " * 2**24)

    def bomb(request: BaseHTTPRequestHandler) -> None:
        request.send_header("Content-Encoding", "gzip")
        request.end_headers()
        request.wfile.write(packed)

    with answering(bomb) as address:
        [rating] = rate(HttpReward(address, retry_policy=QUICK), [ask("1")])
    assert rating.unscored is not None and "not JSON" in rating.unscored


@pytest.mark.parametrize(
    "more", [{"verdicts": ["x", "y"]}, {"verdicts": ["A"]}, {"probabilities": [2.0, -1.0]}, {"scores": [True, 1]}]
)
def test_a_rating_that_no_judge_gives_is_unscored(more: dict[str, object]) -> None:
    def one(request: BaseHTTPRequestHandler) -> None:
        request.send_header("Content-Type", "application/json; charset=rot13")
        request.end_headers()
        request.wfile.write(json.dumps({"ratings": [{"id": "1", "scores": [0.2, 0.8], **more}]}).encode())

    with answering(one) as address:
        [rating] = rate(HttpReward(address, retry_policy=QUICK), [ask("1")])
    assert rating.unscored is not None and rating.unscored.startswith("the reward server's ")
