"""A server listens before its models are loaded, and says so to whoever asks too early."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import schemathesis
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from palate import __version__
from palate.engine._throttle import RetryPolicy
from palate.records import Ask, PalateError, Rating
from palate.rewards._http import HttpReward
from palate.serve._app import make_app
from palate.serve._models import Metrics, Models
from reward_server import RewardServer, free_port, http, write_models

GOOD = {"asks": [{"id": "1", "prompt": "Tea?", "responses": ["Yes.", "No."]}]}
REWARD = {"query": ["ab"], "prompts": ["a"]}
LOADING = {"status": "loading", "palate": __version__}
ASKS = [Ask(id=f"{number}", prompt="p", responses=("x" * number,)) for number in range(1, 4)]
RATINGS = [Rating([1]), Rating([2]), Rating([3])]
IMPATIENT = RetryPolicy(tries=2, first_wait=0.01, longest_wait=0.01)


@contextmanager
def loading_server(folder: Path, *more: str, port: int = 0, **environment: str) -> Iterator[RewardServer]:
    """A server that answers, with a model that is loaded when there is a file named `loaded`."""
    for name in ("loading", "loaded"):
        (folder / name).unlink(missing_ok=True)
    models = write_models(folder)
    server = RewardServer("--rm", f"{models}:Slow", *more, port=port or free_port(), ready=False, **environment)
    try:
        while not ((folder / "loading").exists() and answers(server.address)):
            assert server.process.poll() is None
            time.sleep(0.02)
        yield server
    finally:
        server.process.kill()
        server.process.wait()


def answers(address: str) -> bool:
    try:
        return bool(http.get(f"{address}/health"))
    except httpx.TransportError:
        return False


def test_until_the_models_are_loaded_it_says_that_it_lives_and_asks_to_come_again(tmp_path: Path) -> None:
    with loading_server(tmp_path, "--rm", "longest") as server:
        for path in ("", "/models/2"):
            health = http.get(f"{server.address}{path}/health")
            assert (health.status_code, health.json()) == (200, LOADING)
            for address, body in ((path or "/", GOOD), (f"{path}/get_reward", REWARD)):
                told_to_wait(http.post(server.address + address, json=body))
                told_to_wait(http.post(f"{server.address}{address}?model=0123456789abcdef", json=body))
            told_to_wait(http.get(f"{server.address}{path}/health?model=0123456789abcdef"))
        told_to_wait(http.get(f"{server.address}/ready"))
        told_to_wait(http.get(f"{server.address}/ready?model=0123456789abcdef"))
        assert http.get(f"{server.address}/metrics").status_code == 200
        assert http.get(f"{server.address}/models/3/health").status_code == 404
        (tmp_path / "loaded").touch()
        server.until_ready()
        first = http.get(f"{server.address}/health").json()
        assert (first["status"], first["name"], len(first["fingerprint"])) == ("ready", "slow", 16)
        second = http.get(f"{server.address}/models/2/health").json()
        assert http.get(f"{server.address}/ready").json() == {"palate": __version__, "models": [first, second]}
        (tmp_path / "go").touch()
        answer = http.post(f"{server.address}/?model={first['fingerprint']}", json=GOOD)
        assert answer.json() == {"ratings": [{"id": "1", "scores": [4, 3]}]}
        assert http.post(f"{server.address}/?model={second['fingerprint']}", json=GOOD).status_code == 412
        assert server.stop() == 0


def told_to_wait(answer: httpx.Response) -> None:
    assert answer.status_code == 503
    assert answer.json()["detail"].startswith("the server is loading its models: 0 of 2 loaded after ")
    assert 1 <= int(answer.headers["Retry-After"]) <= 30


def test_while_it_loads_it_does_as_its_schema_says(tmp_path: Path) -> None:
    with loading_server(tmp_path) as server:
        schema = schemathesis.openapi.from_dict(http.get(f"{server.address}/openapi.json").json())
        schema.config.update(base_url=server.address, request_timeout=300)
        statuses = {}
        for found in schema.get_all_operations():
            operation = found.ok()
            body = {"body": REWARD if "get_reward" in operation.label else GOOD} if operation.body else {}
            case = operation.Case(path_parameters={"number": 1}, **body)
            answer = case.call_and_validate(
                checks=[status_code_conformance, content_type_conformance, response_schema_conformance]
            )
            statuses[operation.label] = answer.status_code
    calm = {label for label, status in statuses.items() if status == 200}
    assert calm == {"GET /health", "GET /models/{number}/health", "GET /metrics"}
    assert {status for label, status in statuses.items() if label not in calm} == {503}


def test_who_has_no_token_is_not_even_told_that_it_loads(tmp_path: Path) -> None:
    with loading_server(tmp_path, PALATE_SERVE_TOKEN="a-token-of-some-length") as server:
        assert http.get(f"{server.address}/health").status_code == 401


def test_a_client_waits_until_the_model_is_loaded(tmp_path: Path) -> None:
    """Also where the server is started again during a run, and loads for longer than a request is tried."""
    port = free_port()
    (tmp_path / "go").touch()
    with ThreadPoolExecutor(1) as thread:
        with loading_server(tmp_path, port=port) as server:
            made = thread.submit(HttpReward, server.address, retry_policy=IMPATIENT)
            until_asked(server.address, "/health", times=3)
            assert not made.done()
            (tmp_path / "loaded").touch()
            client = made.result()
            assert client.name == "slow"
            assert client.rate(ASKS) == RATINGS
        with loading_server(tmp_path, port=port) as server:
            rated = thread.submit(client.rate, ASKS)
            until_asked(server.address, "/health", times=3)
            assert not rated.done()
            (tmp_path / "loaded").touch()
            assert rated.result() == RATINGS


def until_asked(address: str, route: str, times: int) -> None:
    """Until a server has been asked so often by others; the metrics are not counted."""
    before = asked(address, route)
    while asked(address, route) < before + times:
        time.sleep(0.02)


def asked(address: str, route: str) -> float:
    lines = http.get(f"{address}/metrics").text.splitlines()
    found = [line for line in lines if line.startswith("palate_requests_total{") and f'route="{route}"' in line]
    return sum(float(line.split()[-1]) for line in found)


def test_what_cannot_be_loaded_ends_the_server_with_the_reason(tmp_path: Path) -> None:
    with loading_server(tmp_path) as server:
        # Written whole and then named, so that the model never reads the file while it is still empty.
        (tmp_path / "unloadable").write_text("fail")
        (tmp_path / "unloadable").rename(tmp_path / "loaded")
        _, printed = server.process.communicate(timeout=300)
    said = f"Loading {tmp_path / 'models.py'}:Slow.\npalate: these weights cannot be read\n"
    assert (server.process.returncode, printed) == (2, said)


def test_between_a_failure_and_the_end_health_says_so() -> None:
    models = Models(["longset"])
    with pytest.raises(PalateError, match="Did you mean 'longest'"):
        models.load(profiles=None, metrics=Metrics(), wait=0, max_responses=1, progress=lambda *_: None)
    app = make_app(models, Metrics(), max_responses=1)

    async def both() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://palate") as client:
            return [await client.get("/health"), await client.get("/ready")]

    health, ready = asyncio.run(both())
    assert (health.status_code, health.json()["status"]) == (200, "failed")
    assert (ready.status_code, ready.json()["detail"]) == (503, "the models could not be loaded; the server is ending")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_told_to_stop_while_it_loads_it_ends_at_once(tmp_path: Path, how: signal.Signals) -> None:
    with loading_server(tmp_path) as server:
        server.process.send_signal(how)
        _, printed = server.process.communicate(timeout=300)
    assert (server.process.returncode, printed) == (0, f"Loading {tmp_path / 'models.py'}:Slow.\n")
