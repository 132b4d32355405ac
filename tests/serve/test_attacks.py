"""A client that means harm neither stops the server for others nor learns what is not its own."""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import socket
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from palate.data import load_benchmark
from palate.engine import load_encoder
from palate.records import PalateError
from palate.serve import Profiles, trainer_ask
from palate.serve._tokens import read_grants
from reward_server import RewardServer, http, reward_server, write_models

ASK = {"id": "1", "prompt": "Tea?", "responses": ["Yes.", "No."], "view_name": "none"}
GOOD = {"asks": [ASK]}
JSON = {"Content-Type": "application/json"}
SMALL = 4_000
LOUD = """
from palate import Rating

class Loud:
    name = "loud"

    def rate(self, asks):
        if asks[0].id != "warm-up":
            raise RuntimeError(f"cannot read {asks[0].view.text} \\x1b[2J")
        return [Rating([1.0]) for ask in asks]
"""


def until(happened: Callable[[], bool]) -> None:
    while not happened():
        time.sleep(0.02)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RewardServer]:
    loud = tmp_path_factory.mktemp("models") / "loud.py"
    loud.write_text(LOUD)
    with reward_server("--rm", "longest", "--rm", f"{loud}:Loud") as running:
        yield running


def memory(server: RewardServer) -> int:
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{server.process.pid}/status").read_text())[1]) * 1024  # type: ignore[index]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/", b'{"asks":[' + b"[]," * 5_000_000 + b"[]]}"),
        ("/", b'{"asks":[' + b"{}," * 100_000 + b"{}]}"),
        ("/", b'{"asks":[{"id":"1","prompt":"","responses":[' + b"0," * 7_000_000 + b"0]}]}"),
        ("/", b'{"asks":[{"id":"1","prompt":"","responses":[' + b'"",' * 5_000_000 + b'""]}]}'),
        ("/", b'{"asks":[{"id":"1","prompt":"","responses":[""],"parts":[' + b"{}," * 5_000_000 + b"{}]}]}"),
        ("/get_reward", b'{"query":[' + b'"",' * 2_000_000 + b'""],"prompts":[' + b'"",' * 2_000_000 + b'""]}'),
        ("/get_reward", b'{"query":[""],"prompts":[""],"labels":[' + b"{}," * 5_000_000 + b"{}]}"),
        ("/", b'{"x":' + b"[" * 15_000_000),
        ("/", b'{"asks":[{"id":"1","shown":[' + b"1," * 7_000_000 + b"1]}]}"),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value[:44].decode()),
)
def test_no_allowed_body_is_dear(server: RewardServer, path: str, body: bytes) -> None:
    before = memory(server)
    answer = http.post(f"{server.address}{path}", content=body, headers=JSON)
    assert answer.status_code == 422
    assert len(answer.content) < SMALL
    assert memory(server) - before < 40 * len(body)
    assert http.get(f"{server.address}/health").json()["status"] == "ready"


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt": "x" * 1_000_001},
        {"responses": ["x" * 1_000_001]},
        {"view": "x" * 1_000_001},
        {"id": "x" * 1_000_001},
        {"parts": [{"kind": "post", "text": "x" * 900_000}] * 3},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_no_text_is_longer_than_a_model_should_read_in_one_go(server: RewardServer, changes: dict[str, object]) -> None:
    answer = http.post(server.address, json={"asks": [ASK | changes]})
    assert (answer.status_code, len(answer.content) < SMALL) == (422, True)


def test_the_first_few_faults_are_told_with_their_places(server: RewardServer) -> None:
    lines = [ASK, *({**ASK, "id": f"{number}", "prompt": number} for number in range(9))]
    faults = http.post(server.address, json={"asks": lines}).json()["detail"]
    assert [fault["loc"] for fault in faults] == [["body", "asks", place, "prompt"] for place in range(1, 6)]


def test_large_bodies_are_read_beside_the_loop_that_answers(
    server: RewardServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same 2,000 asks at once and one by one: a body that is read elsewhere gives the same ratings."""
    lines = [ASK | {"id": f"{number}", "responses": ["x" * number]} for number in range(1, 2_000)]
    body = json.dumps({"asks": lines}).encode()
    assert len(body) > 65_536
    ratings = http.post(server.address, content=body, headers=JSON).json()["ratings"]
    assert ratings == [{"id": f"{number}", "scores": [number]} for number in range(1, 2_000)]


def raw(server: RewardServer, *lines: str, body: bytes = b"") -> bytes:
    """What comes back for a request in one's own words, until the server closes."""
    port = int(server.address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
        connection.sendall("\r\n".join((*lines, "Connection: close", "", "")).encode() + body)
        answer = b""
        try:
            while piece := connection.recv(65_536):
                answer += piece
        except ConnectionResetError:
            pass
        return answer


def test_two_lengths_for_one_body_are_refused(server: RewardServer) -> None:
    body = json.dumps(GOOD).encode()
    head = ("POST / HTTP/1.1", "Host: localhost", "Content-Type: application/json")
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    assert b" 200 " in raw(server, *head, "Transfer-Encoding: chunked", body=chunked)
    both = raw(server, *head, "Content-Length: 5", "Transfer-Encoding: chunked", body=chunked)
    assert both.startswith(b"HTTP/1.1 400 ")


def test_a_body_in_crumbs_is_refused(server: RewardServer) -> None:
    head = ("POST / HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Transfer-Encoding: chunked")
    assert raw(server, *head, body=b"1\r\n \r\n" * 5_000).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics", "/openapi.json", "/models/2/health"])
def test_without_a_token_only_this_machines_names_are_answered(server: RewardServer, path: str) -> None:
    port = server.address.rpartition(":")[2]
    for host in ("rebound.example", f"rebound.example:{port}", "localhost.example", "127.0.0.1.example"):
        answer = http.get(server.address + path, headers={"Host": host})
        assert (answer.status_code, "longest" in answer.text) == (421, False)
    for host in ("localhost", f"127.0.0.1:{port}", f"[::1]:{port}", "LOCALHOST."):
        assert http.get(server.address + path, headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_what_a_web_page_may_send_unasked_is_refused(server: RewardServer, kind: str) -> None:
    answer = http.post(server.address, content=json.dumps(GOOD), headers={"Content-Type": kind} if kind else {})
    assert answer.status_code == 415
    assert "Content-Type: application/json" in answer.text


def test_an_error_is_told_to_the_log_and_a_reference_to_the_client(server: RewardServer) -> None:
    ask = ASK | {"view_name": "given", "view": "Ann's diary"}
    failed = http.post(f"{server.address}/models/2", json={"asks": [ask]})
    assert failed.status_code == 500
    assert "diary" not in failed.text
    reference = failed.json()["detail"].split()[-1]
    until(lambda: any(reference in line for line in server.printed))
    [line] = [line for line in server.printed if reference in line]
    assert "cannot read Ann's diary" in line
    assert "\x1b" not in line


def open_heads(server: RewardServer, count: int) -> list[socket.socket]:
    port = int(server.address.rpartition(":")[2])
    opened = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port), timeout=300)
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        opened.append(connection)
    return opened


def is_closed(connection: socket.socket) -> bool:
    try:
        while connection.recv(65_536):
            pass
        return True
    except ConnectionResetError:
        return True


def test_heads_that_never_end_keep_nobody_out() -> None:
    with reward_server("--rm", "longest", "--connections", "10", "--header-timeout", "600") as server:
        slow = open_heads(server, 40)
        assert http.post(server.address, json=GOOD).status_code == 200
        assert all(map(is_closed, slow[:30]))  # the oldest made room
        for connection in slow:
            connection.close()


def test_a_head_has_its_time_also_in_a_second_request() -> None:
    with reward_server("--rm", "longest", "--header-timeout", "0.5") as server:
        [slow] = open_heads(server, 1)
        assert is_closed(slow)
        with httpx.Client(timeout=300) as client:
            assert client.get(f"{server.address}/health").status_code == 200
        port = int(server.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=300) as again:
            again.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert again.recv(65_536).startswith(b"HTTP/1.1 200")
            again.sendall(b"GET /health HTTP/1.1\r\n")
            assert is_closed(again)


@pytest.mark.skipif(os.name != "posix", reason="needs resource limits")
def test_with_few_files_it_still_loads_answers_and_logs_little(tmp_path: Path) -> None:
    models = write_models(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (260, hard))
    try:
        server = RewardServer("--rm", f"{models}:Slow", port=_free_port(), ready=False)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        until((tmp_path / "loading").exists)
        slow = open_heads(server, 600)
        (tmp_path / "loaded").touch()
        server.until_ready()
        (tmp_path / "go").touch()
        assert http.post(server.address, json=GOOD).status_code == 200
        assert len(server.printed) < 10
        for connection in slow:
            connection.close()
    finally:
        server.process.kill()
        server.process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


TOKENS = {"all": "a-token-for-everybody", "ann": "a-token-for-ann-only"}


def write_tokens(folder: Path, users: object) -> Path:
    file = folder / "tokens.toml"
    digests = {name: hashlib.sha256(token.encode()).hexdigest() for name, token in TOKENS.items()}
    file.write_text(
        f'[[token]]\nname = "all"\nsha256 = "{digests["all"]}"\nusers = "*"\n'
        f'[[token]]\nname = "ann"\nsha256 = "{digests["ann"]}"\nusers = {json.dumps(users)}\n'
    )
    return file


def test_a_token_names_only_its_users_on_every_route(tmp_path: Path) -> None:
    from palate.data import load_benchmark

    own, other = sorted(load_benchmark("mini").users)[:2]
    tokens = write_tokens(tmp_path, [own])
    with reward_server(
        "--rm", "overlap", "--rm", "longest", "--benchmark", "mini", "--token-file", str(tokens)
    ) as server:
        scoped = {"Authorization": f"Bearer {TOKENS['ann']}"}
        free = {"Authorization": f"Bearer {TOKENS['all']}"}

        def status(path: str, body: object, headers: dict[str, str]) -> int:
            answer = http.post(server.address + path, json=body, headers=headers)
            assert other not in answer.text
            return answer.status_code

        for prefix in ("", "/models/1", "/models/2"):
            for user, expected in ((own, 200), (other, 403), ("nobody-there", 403)):
                named = {"id": "1", "prompt": "Tea?", "responses": ["Yes.", "No."], "user_id": user}
                for more in (
                    {},
                    {"by_name": True},
                    {"view_name": "user"},
                    {"view": "Drinks tea."},
                    {"parts": [{"kind": "post", "text": "Tea."}]},
                    {"view_name": "none"},
                ):
                    assert status(prefix or "/", {"asks": [named | more]}, scoped) == expected
                    if user != "nobody-there":
                        assert status(prefix or "/", {"asks": [ASK | {"id": "0"}, named | more]}, free) == 200
                assert status(prefix or "/", {"asks": [ASK | {"id": "0"}, named]}, scoped) == expected
                for label in (
                    user,
                    {"user_id": user},
                    json.dumps({"user_id": user}),
                    {"user_id": user, "view": "Tea."},
                ):
                    body = {"query": ["Tea? Yes."], "prompts": ["Tea?"], "labels": [label]}
                    assert status(f"{prefix}/get_reward", body, scoped) == expected
            assert status(prefix or "/", GOOD, scoped) == 200  # about nobody
            assert status(prefix or "/", GOOD, {}) == 401
            for path in ("/health", "/ready", "/openapi.json"):
                known = path if path != "/health" else prefix + path
                assert http.get(server.address + known, headers=scoped).status_code == 200
        assert http.get(f"{server.address}/metrics", headers=scoped).status_code == 403
        assert http.get(f"{server.address}/metrics", headers=free).status_code == 200
        assert http.get(f"{server.address}/health", auth=("any", TOKENS["ann"])).status_code == 200
        assert not any(token in "".join(server.printed) for token in TOKENS.values())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a [[token]] has name"),
        ("[[token]", "cannot be read"),
        ('[[tokens]]\nname = "a"', "unknown: tokens"),
        ('[[token]]\ntoken = "secret-secret-secret"', "put its SHA-256 here"),
        ('[[token]]\nname = "a"\nsha256 = "12"\nuser = ["ann"]', "unknown key 'user'; did you mean users?"),
        ('[[token]]\nname = "a"\nsha256 = "12"\nuser = ["ann"]', "sha256 is 64 hexadecimal digits"),
        ('[[token]]\nname = "a"\nsha256 = "12"\nusers = []', "users is a list of ids"),
        (f'[[token]]\nname = "a"\nusers = "*"\nsha256 = "{hashlib.sha256(b"").hexdigest()}"', "of an empty text"),
        (f'[[token]]\nname = "a"\nusers = "*"\nsha256 = "{"ab" * 32}"\n' * 2, "token 2: another token has the name"),
    ],
)  # fmt: skip
def test_a_token_file_that_cannot_be_used_says_all_that_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(text)
    with pytest.raises(PalateError) as error:
        read_grants(file)
    assert says in str(error.value)
    assert "secret" not in str(error.value)


def test_long_texts_are_not_kept() -> None:
    """What is remembered for speed is bounded in entries, and an entry may be as long as a request allows."""
    profiles, user = Profiles("mini", "posts:2"), min(load_benchmark("mini").users)
    traits = load_encoder("traits")

    def ask_of_all(places: range) -> int:
        for place in places:
            long = f"{place} " + "tea " * 16_000
            profiles.fill([trainer_ask("1", long, ["Yes."], user_id=user)])
            traits.encode([long + "again"])
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = ask_of_all(range(8))
        assert ask_of_all(range(8, 16)) - before < 500_000
    finally:
        tracemalloc.stop()
