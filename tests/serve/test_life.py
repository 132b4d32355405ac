"""The life of a server: how it starts, how it is pressed, how it stops, and how it is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from palate.engine._throttle import RetryPolicy
from palate.records import Ask, PalateError, Rating
from palate.rewards import make_reward_model, rate
from palate.rewards._http import HttpReward
from reward_server import RewardServer, free_port, http, reward_server, write_models

STEADY = RetryPolicy(tries=2000, first_wait=0.05, longest_wait=0.5)


def post(address: str, number: int) -> httpx.Response:
    ask = {"id": f"{number}", "prompt": "p", "responses": ["x" * number]}
    return http.post(address, json={"asks": [ask]})


def until(happened: Callable[[], bool]) -> None:
    while not happened():
        time.sleep(0.02)


def held(address: str) -> float:
    lines = http.get(f"{address}/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith("palate_held_requests ")).split()[1])


def test_while_a_batch_runs_the_next_gathers(tmp_path: Path) -> None:
    models = write_models(tmp_path)
    with reward_server("--rm", f"{models}:Patient") as server, ThreadPoolExecutor(21) as clients:
        first = clients.submit(post, server.address, 0)
        until((tmp_path / "batches").exists)
        others = [clients.submit(post, server.address, number) for number in range(1, 21)]
        until(lambda: held(server.address) == 21)
        (tmp_path / "go").touch()
        answers = [answer.result().json()["ratings"][0] for answer in (first, *others)]
        sizes = list(map(int, (tmp_path / "batches").read_text().split()))
    assert answers == [{"id": f"{number}", "scores": [number]} for number in range(21)]
    assert sum(sizes) == 21
    assert len(sizes) < 21


def test_a_full_server_asks_to_come_again(tmp_path: Path) -> None:
    models = write_models(tmp_path)
    with reward_server("--rm", f"{models}:Patient", "--queue", "2") as server, ThreadPoolExecutor(2) as clients:
        taken = [clients.submit(post, server.address, number) for number in (1, 2)]
        until(lambda: held(server.address) == 2)
        refused = post(server.address, 3)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        assert refused.json() == {"detail": "2 requests are waiting already"}
        (tmp_path / "go").touch()
        assert [answer.result().status_code for answer in taken] == [200, 200]
        asks = [Ask(id=f"{number}", prompt="p", responses=("x" * number,)) for number in range(12)]
        client = HttpReward(server.address, batch_size=1, concurrency=4, retry_policy=STEADY)
        assert [rating.scores for rating in rate(client, asks)] == [(number,) for number in range(12)]


def test_told_to_stop_it_finishes_what_it_took(tmp_path: Path) -> None:
    models = write_models(tmp_path)
    with reward_server("--rm", f"{models}:Patient") as server, ThreadPoolExecutor(1) as client:
        taken = client.submit(post, server.address, 7)
        until((tmp_path / "batches").exists)
        server.process.send_signal(signal.SIGTERM)
        until(lambda: refuses(server.address))
        (tmp_path / "go").touch()
        assert taken.result().json() == {"ratings": [{"id": "7", "scores": [7]}]}
        assert server.process.wait(300) == 0


def refuses(address: str) -> bool:
    try:
        return http.get(f"{address}/ready").status_code == 503
    except httpx.TransportError:
        return True


def test_a_client_outlives_the_server(tmp_path: Path) -> None:
    """Killed without warning and started again, over and over: every ask is rated, and none twice or wrongly."""
    port = free_port()
    asks = [Ask(id=f"{number}", prompt=f"p{number}", responses=("a", "b")) for number in range(300)]
    server = RewardServer("--rm", "random", port=port)
    answers: list[Rating] = []
    try:
        client = HttpReward(server.address, retry_policy=STEADY)
        with ThreadPoolExecutor(1) as thread:
            done = thread.submit(lambda: [answers.extend(client.rate([ask])) for ask in asks])
            for rated in (20, 120):
                until(lambda rated=rated: len(answers) >= rated or done.done())
                assert server.stop(signal.SIGKILL) == -signal.SIGKILL
                server = RewardServer("--rm", "random", port=port)
            done.result()
        assert answers == make_reward_model("random").rate(asks)
        server.stop()
        server = RewardServer("--rm", "longest", port=port)
        with pytest.raises(PalateError, match="another model than before: HTTP 412: this is longest"):
            client.rate(asks[:3])
    finally:
        server.process.kill()
        server.process.wait()


def test_a_run_ends_the_same_whether_its_server_was_killed_or_not(tmp_path: Path) -> None:
    specification = f"{write_models(tmp_path)}:Mortal"
    port, lives = free_port(), 0
    mortal = tmp_path / "mortal"
    mortal.touch()
    server = RewardServer("--rm", specification, port=port)
    try:
        command = evaluation(server.address, tmp_path / "disturbed")
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
            while run.poll() is None:
                if server.process.poll() is not None:
                    assert server.process.returncode == -signal.SIGKILL
                    lives += 1
                    server = RewardServer("--rm", specification, port=port)
                time.sleep(0.02)
            assert run.stdout is not None
            assert run.returncode == 0, run.stdout.read()
        mortal.unlink()
        subprocess.run(evaluation(server.address, tmp_path / "calm"), check=True, capture_output=True)
    finally:
        server.process.kill()
        server.process.wait()
    assert lives >= 3
    assert raw_ratings(tmp_path / "disturbed") == raw_ratings(tmp_path / "calm")


def evaluation(address: str, out: Path) -> list[str]:
    model = f"http:{address},batch_size=2,concurrency=2"
    views = ["--view", "none", "--view", "posts:2"]
    return [sys.executable, "-m", "palate", "eval", "mini", "--rm", model, *views, "--limit", "40", "--out", str(out)]


def raw_ratings(out: Path) -> dict[str, bytes]:
    found = {str(file.relative_to(out)): file.read_bytes() for file in out.rglob("*.jsonl")}
    assert found
    return found


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--rm", "longset"], "Did you mean 'longest'?"),
        (["--rm", "longest", "--host", "0.0.0.0"], "set the environment variable PALATE_SERVE_TOKEN"),
        (["--rm", "longest", "--host", "no.such.host.invalid"], "no such address on this machine"),
        (["--rm", "longest", "--port", "70000"], "--port is a number from 0 to 65535"),
        (["--rm", "longest", "--queue", "0"], "--queue is a number from 1"),
        (["--rm", "longest", "--view", "posts:2"], "name it with --benchmark"),
        (["--rm", "longest", "--benchmark", "mini", "--view", "oracle"], "cannot be built for a request"),
        (
            ["--rm", "longest", "--benchmark", "mini", "--view", "posts:9+neighbours:2"],
            "cannot be built for a request",
        ),
        ([], "--rm"),
    ],
)
def test_what_cannot_be_served_is_told_at_once(arguments: list[str], says: str) -> None:
    code, printed = told(*arguments)
    assert (code, says in printed, "Traceback" in printed) == (2, True, False), printed


def test_a_port_in_use_is_told_before_anything_is_loaded() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, printed = told("--rm", "classifier:no-such-model", "--benchmark", "no-such", "--port", str(port))
    assert (code, f"cannot listen at 127.0.0.1:{port}" in printed) == (2, True), printed


def test_a_short_token_is_no_token() -> None:
    code, printed = told("--rm", "longest", PALATE_SERVE_TOKEN="secret")
    assert (code, "16 plain characters" in printed, "secret" in printed) == (2, True, False)


def told(*arguments: str, **environment: str) -> tuple[int, str]:
    kept = {key: value for key, value in os.environ.items() if key != "PALATE_SERVE_TOKEN"}
    done = subprocess.run(
        [sys.executable, "-m", "palate", "serve", *arguments], capture_output=True, text=True, env=kept | environment
    )
    return done.returncode, done.stdout + done.stderr
