"""Several replicas behind nginx: a user's asks go to one of them, and to another when that one is gone."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from palate.data import load_benchmark
from palate.engine._throttle import RetryPolicy
from palate.records import Ask, PalateError
from palate.rewards import make_reward_model, rate
from palate.rewards._http import ROUTES, HttpReward, route
from palate.serve import Profiles, trainer_ask
from reward_router import requests, router
from reward_server import RewardServer, free_port, http, write_models

STEADY = RetryPolicy(tries=2000, first_wait=0.05, longest_wait=0.5)
MINI = ("--rm", "overlap", "--benchmark", "mini", "--view", "posts:2")
USERS = sorted(load_benchmark("mini").users)


class Servers(NamedTuple):
    """Two replicas, and two more with a model that waits until it may go on."""

    replicas: list[str]
    patient: list[str]
    folder: Path


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("models")
    patient = ("--rm", f"{write_models(folder)}:Patient", "--queue", "1")
    with started([MINI, MINI, patient, patient]) as running:
        addresses = [server.address for server in running]
        yield Servers(addresses[:2], addresses[2:], folder)


@contextmanager
def started(commands: Sequence[Sequence[str]], ports: Sequence[int] = (0, 0, 0, 0)) -> Iterator[list[RewardServer]]:
    """All at once: a start is mostly reading Python's files. What takes the place of one is ended, too."""
    running = [RewardServer(*words, port=port, ready=False) for words, port in zip(commands, ports, strict=False)]
    try:
        for server in running:
            server.until_ready()
        yield running
    finally:
        for server in running:
            server.process.kill()
            server.process.wait()


@pytest.fixture(scope="module")
def replicas(servers: Servers) -> list[str]:
    return servers.replicas


@pytest.fixture(scope="module")
def address(replicas: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with router(replicas, tmp_path_factory.mktemp("nginx")) as address:
        yield address


def asks_of(users: Sequence[str], count: int) -> list[Ask]:
    return [
        trainer_ask(
            f"{user} {number}", f"What shall I read, {number}?", ["A poem.", "A book about rain."], user_id=user
        )
        for number in range(count)
        for user in users
    ]


def shares(replicas: list[str], before: tuple[int, int]) -> tuple[int, int]:
    first, second = (requests(replica) - so_far for replica, so_far in zip(replicas, before, strict=True))
    return first, second


def counts(replicas: list[str]) -> tuple[int, int]:
    return shares(replicas, (0, 0))


def test_a_user_stays_with_a_replica_and_scores_stay_the_same(address: str, replicas: list[str]) -> None:
    remote = HttpReward(address, by_user="true")
    served = []
    for user in USERS[:12]:
        asks, before = asks_of([user], 6), counts(replicas)
        filled = [ask for ask in Profiles("mini", "posts:2").fill(asks) if isinstance(ask, Ask)]
        expected = make_reward_model("overlap").rate(filled)
        assert [rating for ask in asks for rating in remote.rate([ask])] == expected
        served.append(shares(replicas, before))
    assert set(served) == {(6, 0), (0, 6)}  # each user with one of the two, and both have some


def test_a_request_holds_one_group_of_users_and_names_no_user(address: str, replicas: list[str]) -> None:
    asks, before = asks_of(USERS[:20], 3), counts(replicas)
    assert HttpReward(address, by_user=True).rate(asks) == HttpReward(replicas[0]).rate(asks)
    groups = {route(ask) for ask in asks}
    assert sum(shares(replicas, before)) == len(groups) + 1  # and the one that went to the replica itself
    assert groups <= set(range(ROUTES)) and len(groups) > 10
    before = counts(replicas)
    for user in USERS[:6]:
        line = {"id": "1", "prompt": "p", "responses": ["a"], "user_id": user}
        http.post(address, json={"asks": [line]}, headers={"X-Palate-Route": "7"})
    assert set(shares(replicas, before)) == {0, 6}  # the header counts, not the body
    nobody, before = Ask(id="1", prompt="p", responses=("a",)), counts(replicas)
    for _ in range(8):
        HttpReward(address, by_user=True).rate([nobody])
    assert set(shares(replicas, before)) == {0, 8}  # and it is there, though the body names nobody
    view, prompt = trainer_ask("", "Q", ["a"], view="Drinks tea."), trainer_ask("", "Q", ["a"])
    assert len({route(view), route(prompt), route(trainer_ask("", "P", ["b"]))}) == 3
    with pytest.raises(PalateError, match="expected true or false"):
        HttpReward(address, by_user="perhaps")


@pytest.mark.parametrize(
    "label",
    [
        lambda user: user,
        lambda user: {"user_id": user, "question": "Q"},
        lambda user: json.dumps({"user_id": user, "question": "Q"}),
        lambda user: json.dumps({"view": f"{user} drinks tea.", "question": "Q"}),
    ],
)
def test_without_the_header_the_body_says_whose_it_is(
    label: Callable[[str], object], address: str, replicas: list[str]
) -> None:
    """As OpenRLHF sends it, whose client takes no header."""
    served = []
    for user in USERS[:10]:
        before = counts(replicas)
        for number in range(4):
            body = {"query": [f"Hi? Tea {number}."], "prompts": ["Hi? "], "labels": [label(user)]}
            assert http.post(f"{address}/get_reward", json=body).status_code == 200
        served.append(shares(replicas, before))
    assert set(served) == {(4, 0), (0, 4)}


def test_a_replica_that_dies_loses_nothing(tmp_path: Path) -> None:
    """Killed while it rates, and started again: every ask is rated, and as one process rates it."""
    asks = [Ask(id=f"{number}", prompt=f"p{number}", responses=("a", "b")) for number in range(200)]
    expected = rate(make_reward_model("random"), asks)
    ports = free_port(), free_port()
    with started([("--rm", "random")] * 2, ports) as servers:
        first, second = (f"http://127.0.0.1:{port}" for port in ports)
        with router([first, second], tmp_path) as address, ThreadPoolExecutor(1) as thread:
            client = HttpReward(address, batch_size=1, by_user=True, retry_policy=STEADY)
            assert client.rate(asks) == expected
            alone = requests(first)
            assert 0 < alone < 200
            doing = thread.submit(client.rate, asks * 5)
            until(lambda: requests(first) > alone + 20)
            assert servers[1].stop(signal.SIGKILL) == -signal.SIGKILL
            assert doing.result() == expected * 5
            before = requests(first)
            assert client.rate(asks) == expected
            assert requests(first) == before + 200  # the other's users are here now
            servers[0].stop(signal.SIGKILL)
            gone = http.post(address, json={"asks": [{"id": "1", "prompt": "p", "responses": ["a"]}]})
            assert (gone.status_code, gone.headers["Retry-After"]) == (503, "5")
            waiting = thread.submit(client.rate, asks)
            servers.append(RewardServer("--rm", "random", port=ports[1]))
            assert waiting.result() == expected


def test_a_full_replica_passes_on_and_full_ones_ask_to_come_again(servers: Servers, tmp_path: Path) -> None:
    body = {"asks": [{"id": "1", "prompt": "p", "responses": ["abc"], "user_id": "ann", "view": "Drinks tea."}]}
    with router(servers.patient, tmp_path) as address, ThreadPoolExecutor(2) as clients:
        taken = [clients.submit(http.post, address, json=body) for _ in range(2)]
        until(lambda: all(" 1.0" in held(replica) for replica in servers.patient) or any(one.done() for one in taken))
        refused = http.post(address, json=body)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        (servers.folder / "go").touch()
        assert [answer.result().json()["ratings"][0]["scores"] for answer in taken] == [[3.0], [3.0]]


def held(address: str) -> str:
    return next(line for line in http.get(f"{address}/metrics").text.splitlines() if line.startswith("palate_held"))


def until(happened: Callable[[], bool]) -> None:
    while not happened():
        time.sleep(0.02)


def test_a_replica_with_another_model_is_found_out(servers: Servers, tmp_path: Path) -> None:
    with router([servers.replicas[0], servers.patient[0]], tmp_path) as address:
        asks = [Ask(id=f"{number}", prompt=f"p{number}", responses=("a", "bc")) for number in range(40)]
        with pytest.raises(PalateError, match="another model than before"):
            HttpReward(address, by_user=True).rate(asks)
