"""Whatever a client sends, it gets a clear answer, nobody gets a made-up score, and the server lives on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from palate.rewards._http import HttpReward
from reward_server import RewardServer, http, reward_server, write_models

TOKEN = "a-token-of-some-length"
GOOD = {"asks": [{"id": "1", "prompt": "Tea?", "responses": ["Yes.", "No."], "view_name": "none"}]}
SEEN = {"view": "Drinks tea."}
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RewardServer]:
    models = write_models(tmp_path_factory.mktemp("models"))
    specs = ["longest", f"{models}:NotANumber", f"{models}:Fails"]
    arguments = [word for spec in specs for word in ("--rm", spec)]
    with reward_server(*arguments, "--max-responses", "100", "--benchmark", "mini") as running:
        yield running


@pytest.fixture(autouse=True)
def still_alive(server: RewardServer) -> Iterator[None]:
    yield
    assert http.post(server.address, json=GOOD).json()["ratings"] == [{"id": "1", "scores": [4, 3]}]


def ask(**changes: object) -> bytes:
    return json.dumps({"asks": [GOOD["asks"][0] | changes]}).encode()


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b'{"asks": "\xff\xfe"}', 400, "not UTF-8: invalid start byte at byte 10"),
        (b'{"asks": [', 422, "this is not JSON: Input data was truncated"),
        (b"", 422, "this is not JSON"),
        (b"[" * 100_000, 422, "Expected `object`, got `array`"),
        (b'{"x": ' + b"[" * 100_000, 422, "nested too deeply"),
        (b'{"asks": []}', 422, "length >= 1"),
        (ask(prompt=None), 422, '"loc":["body","asks",0,"prompt"],"msg":"Expected `str`, got `null`"'),
        (ask(prompt="tea \ud83d"), 422, "half a character"),
        (ask(id="\ud83d"), 422, "half a character"),
        (ask(responses=[]), 422, "length >= 1"),
        (ask(responses=["x"] * 101), 413, "101 responses in one request; the most is 100"),
        (ask(shown=[0]), 422, "one place for each response"),
        (ask(shown=[1, 1]), 422, "one place for each response"),
        (ask(view="a", parts=[]), 422, "as text or in parts"),
        (ask(parts=[{"kind": "secret", "text": ""}]), 422, "Not one of the words"),
        (json.dumps({"asks": GOOD["asks"] * 2}).encode(), 422, "two asks have the same id"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_the_reason(
    server: RewardServer, body: bytes, status: int, says: str
) -> None:
    answer = http.post(server.address, content=body, headers=JSON)
    assert (answer.status_code, says in answer.text) == (status, True), answer.text


def test_a_refusal_does_not_repeat_what_was_sent(server: RewardServer) -> None:
    answer = http.post(server.address, content=ask(prompt=["my private diary"]), headers=JSON)
    assert answer.status_code == 422
    assert "diary" not in answer.text


def sized() -> bytes:
    return b" " * 50_000_000


def streamed() -> Iterator[bytes]:
    for _ in range(50):
        yield b" " * 1_000_000


@pytest.mark.parametrize("body", [sized, streamed], ids=["with its length", "in chunks"])
def test_fifty_megabytes_are_too_much(server: RewardServer, body: Callable[[], bytes | Iterator[bytes]]) -> None:
    answer = http.post(server.address, content=body(), headers=JSON)
    assert (answer.status_code, answer.json()) == (413, {"detail": "the body is larger than 16777216 bytes"})


def test_a_model_that_gives_no_number_gives_no_score(server: RewardServer) -> None:
    answer = http.post(f"{server.address}/models/2", json=GOOD).json()
    assert answer == {"ratings": [{"id": "1", "unscored": "scores are not finite numbers: nan, nan"}]}
    reward = http.post(
        f"{server.address}/models/2/get_reward", json={"query": ["ab"], "prompts": ["a"], "labels": [SEEN]}
    )
    assert reward.status_code == 422
    assert reward.json()["detail"][0]["msg"] == "query 0 has no score: scores are not finite numbers: nan"


@pytest.mark.parametrize("word", ["poison", "exit"])
def test_a_model_that_fails_fails_for_those_who_asked_for_it(server: RewardServer, word: str) -> None:
    failed = http.post(f"{server.address}/models/3", content=ask(prompt=word), headers=JSON)
    assert failed.status_code == 500
    assert "the reward model 'fails' failed" in failed.json()["detail"]
    assert http.post(f"{server.address}/models/3", json=GOOD).json()["ratings"][0]["scores"] == [1, 1]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"prompts": []}, "1 queries, 0 prompts"),
        ({"labels": ["a", "b"]}, "2 labels"),
        ({"prompts": ["other"]}, "query 0 does not begin with its prompt"),
        ({"labels": ["{broken"]}, "cannot be read as one"),
        ({"labels": ["somebody unknown"]}, "has no user 'somebody unknown'"),
        *(({"labels": label}, "no user is named") for label in (None, [None], [""], [{}], [{"userid": "ann"}])),
        ({"labels": [3]}, "got `int`"),
        ({"labels": ['{"x": ' + "[" * 100_000]}, "nested too deeply"),
    ],
)
def test_rewards_that_cannot_be_given_are_errors(server: RewardServer, changes: dict[str, object], says: str) -> None:
    answer = http.post(f"{server.address}/get_reward", json={"query": ["a b"], "prompts": ["a"]} | changes)
    assert (answer.status_code, says in answer.text) == (422, True), answer.text


def test_other_addresses_and_methods(server: RewardServer) -> None:
    assert http.get(f"{server.address}/nothing").status_code == 404
    assert http.put(server.address, json=GOOD).status_code == 405
    assert http.post(f"{server.address}/models/one", json=GOOD).status_code == 422


def test_without_the_token_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with reward_server("--rm", "longest", PALATE_SERVE_TOKEN=TOKEN) as guarded:
        for path in ("/", "/health", "/ready", "/metrics", "/openapi.json", "/get_reward"):
            for headers in (
                {},
                {"Authorization": "Bearer wrong"},
                {"Authorization": TOKEN},
                {"Authorization": "Basic x"},
            ):
                answer = http.request("GET" if path != "/" else "POST", guarded.address + path, headers=headers)
                assert (answer.status_code, "longest" in answer.text) == (401, False)
        bearer = http.post(guarded.address, json=GOOD, headers={"Authorization": f"Bearer {TOKEN}"})
        password = http.post(guarded.address, json=GOOD, auth=("any", TOKEN))
        assert bearer.json() == password.json() == {"ratings": [{"id": "1", "scores": [4, 3]}]}
        monkeypatch.setenv("PALATE_REWARD_TOKEN", TOKEN)
        assert HttpReward(guarded.address).name == "longest"
        assert TOKEN not in "".join(guarded.printed)
