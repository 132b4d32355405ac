"""OpenRLHF's remote reward URL: what its rollout workers post, and what they read from the answer."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from palate.data import load_benchmark
from palate.records import Ask
from palate.rewards import make_reward_model
from palate.serve import Profiles, trainer_ask
from reward_router import requests, router
from reward_server import RewardServer, http, reward_server
from tiny_models import TinyModels

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


class Engine:
    """In place of vLLM: says one text after another."""

    def __init__(self, tokenizer: Any, texts: list[str]) -> None:
        self._tokenizer, self._texts = tokenizer, iter(texts)

    async def generate(self, prompt_ids: list[int], sampling: object, **more: object) -> object:
        ids = self._tokenizer(next(self._texts), add_special_tokens=False)["input_ids"]
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=ids, finish_reason="stop", logprobs=None)])


def test_openrlhfs_own_rollouts_are_paid_by_two_replicas(tiny_models: TinyModels, tmp_path: Path) -> None:
    agent = pytest.importorskip("openrlhf.utils.agent", reason="OpenRLHF is not installed")
    tokenizer = importlib.import_module("transformers").AutoTokenizer.from_pretrained(tiny_models.causal())
    users = sorted(load_benchmark("mini").users)[:8]
    texts = [f"A poem about the sea, and rain, {number}.<|im_end|>" for number in range(32)]
    sampling = SimpleNamespace(max_tokens=64, logprobs=None)
    engine = Engine(tokenizer, texts)

    async def rollouts(address: str) -> list[dict[str, Any]]:
        executor = agent.SingleTurnAgentExecutor([f"{address}/get_reward"])
        labels = [json.dumps({"user_id": users[number // 4], "question": "What shall I read?"}) for number in range(32)]
        return await asyncio.gather(
            *(executor.execute(PROMPT, label, sampling, 512, tokenizer, engine) for label in labels)
        )

    words = ("--rm", "overlap", "--benchmark", "mini", "--view", VIEW)
    with (
        reward_server(*words) as one,
        reward_server(*words) as other,
        router([one.address, other.address], tmp_path) as address,
    ):
        found = asyncio.run(rollouts(address))
        assert requests(one.address) % 4 == requests(other.address) % 4 == 0  # all four of a user on one of them
        assert requests(one.address) and requests(other.address)
    asks = [
        trainer_ask("", "What shall I read?", [text.removesuffix("<|im_end|>")], user_id=users[number // 4])
        for number, text in enumerate(texts)
    ]
    filled = [ask for ask in Profiles("mini", VIEW).fill(asks) if isinstance(ask, Ask)]
    expected = [list(rating.scores or ()) for rating in make_reward_model("overlap").rate(filled)]
    assert [output["reward"] for output in found] == expected
