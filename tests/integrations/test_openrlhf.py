"""OpenRLHF's remote reward URL: what its rollout workers post, and what they read from the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from palate.data import load_benchmark
from palate.records import Ask
from palate.rewards import make_reward_model
from palate.serve import Profiles, trainer_ask
from reward_server import RewardServer, http, reward_server

PROMPT = "<|im_start|>user\nWhat shall I read?<|im_end|>\n<|im_start|>assistant\n"
VIEW = "posts:2"


@pytest.fixture(scope="module")
def server() -> Iterator[RewardServer]:
    with reward_server("--rm", "overlap", "--benchmark", "mini", "--view", VIEW) as running:
        yield running


def rewards(server: RewardServer, labels: list[object], responses: list[str]) -> list[float]:
    """As OpenRLHF 0.11 asks: whole texts with their special tokens, prompts as they were sent to the policy."""
    body = {"query": [PROMPT + text for text in responses], "prompts": [PROMPT] * len(responses), "labels": labels}
    answer = http.post(f"{server.address}/get_reward", json=body)
    answer.raise_for_status()
    found: list[float] = answer.json()["rewards"]
    return found


def test_a_label_names_the_user_and_the_question(server: RewardServer) -> None:
    user = sorted(load_benchmark("mini").users)[0]
    label = json.dumps({"user_id": user, "question": "What shall I read?"})
    [filled] = Profiles("mini", VIEW).fill(
        [trainer_ask("", "What shall I read?", ["A book about rain.", "A poem about the sea."], user_id=user)]
    )
    assert isinstance(filled, Ask)
    [expected] = make_reward_model("overlap").rate([filled])
    found = rewards(server, [label, label], ["A book about rain.<|im_end|>\n", "A poem about the sea.<|im_end|>"])
    assert tuple(found) == expected.scores


def test_a_label_brings_the_view_or_only_the_user(server: RewardServer) -> None:
    user = sorted(load_benchmark("mini").users)[0]
    view = {"view": "Poems about the sea."}
    texts = ["A poem about the sea."] * 3
    found = rewards(server, [view, json.dumps(view), user], texts)
    assert found[0] == found[1] > 0


def test_the_end_of_the_text_is_not_part_of_the_response() -> None:
    with reward_server("--rm", "longest") as server:
        texts = ["Yes.", "Yes.<|im_end|>", "Yes.</s>", "Yes.<|eot_id|>\n", "Yes. <|im_end|> No."]
        assert rewards(server, [None] * 5, texts) == [4, 4, 4, 4, len(texts[4])]
