"""verl's custom reward function: how verl loads it, and how it calls it from many threads."""

from __future__ import annotations

import importlib
import importlib.resources
import inspect
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from palate.data import load_benchmark
from palate.integrations.verl import compute_score
from palate.records import Ask, PalateError
from palate.rewards import make_reward_model
from palate.serve import Profiles, trainer_ask
from reward_router import requests, router
from reward_server import reward_server
from tiny_models import TinyModels

VIEW = "posts:2"


def test_verl_finds_it_and_calls_it_by_these_names() -> None:
    """As verl does with `path=pkg://palate.integrations.verl`, `name=compute_score` and `reward_kwargs`."""
    found = getattr(importlib.import_module("palate.integrations.verl"), "compute_score")  # noqa: B009
    assert not inspect.iscoroutinefunction(found)  # verl then calls it in threads
    call = partial(found, rm="longest")
    extra = {"question": "Tea?", "view": "Drinks tea.", "num_turns": None, "rollout_reward_scores": {}}
    assert call(data_source="chat", solution_str="Yes.", ground_truth=None, extra_info=extra) == 4


def test_many_threads_at_a_time_are_each_paid_their_own() -> None:
    user = sorted(load_benchmark("mini").users)[0]
    texts = [f"A book about rain, number {number}, and a poem. " * (1 + number % 4) for number in range(64)]
    with reward_server("--rm", "overlap", "--benchmark", "mini", "--view", VIEW) as server:

        def one(text: str) -> float:
            told = {"question": "What shall I read?", "user_id": user}
            return compute_score("chat", text, None, told, rm=f"http:{server.address}")

        with ThreadPoolExecutor(16) as threads:
            paid = list(threads.map(one, texts))
    asks = Profiles("mini", VIEW).fill([trainer_ask("", "What shall I read?", [text], user_id=user) for text in texts])
    expected = make_reward_model("overlap").rate(asks)  # type: ignore[arg-type]
    assert paid == [rating.scores[0] for rating in expected if rating.scores]


def test_verls_own_reward_workers_are_paid_by_two_replicas(tiny_models: TinyModels, tmp_path: Path) -> None:
    """verl reads the options as its command line gives them, and its workers, which are actors of Ray, call it."""
    pytest.importorskip("verl", reason="verl is not installed")
    ray, torch, numpy = (pytest.importorskip(name) for name in ("ray", "torch", "numpy"))
    hydra, transformers = pytest.importorskip("hydra"), pytest.importorskip("transformers")
    config = importlib.resources.files("verl") / "trainer/config"
    loop = importlib.import_module("verl.experimental.reward_loop.reward_loop")
    policy, spec = tiny_models.causal(), f"classifier:{tiny_models.classifier()}"
    tokenizer = transformers.AutoTokenizer.from_pretrained(policy)
    users = sorted(load_benchmark("mini").users)[:6]
    texts = [f"{'Tea and rain. ' * (1 + number % 3)}{number}" for number in range(24)]
    rows = tokenizer(texts, padding=True, padding_side="right", return_tensors="pt", add_special_tokens=False)
    heard = [tokenizer.decode(ids, skip_special_tokens=True) for ids in rows["input_ids"]]
    with ExitStack() as running:
        words = ("--rm", spec, "--benchmark", "mini", "--view", VIEW)
        addresses = [running.enter_context(reward_server(*words)).address for _ in range(2)]
        address = running.enter_context(router(addresses, tmp_path))
        with hydra.initialize_config_dir(str(config), version_base=None):
            options = hydra.compose(
                "ppo_trainer",
                [
                    f"actor_rollout_ref.model.path={policy}",
                    "reward.num_workers=2",
                    "reward.custom_reward_function.path=pkg://palate.integrations.verl",
                    "reward.custom_reward_function.name=compute_score",
                    f"+reward.custom_reward_function.reward_kwargs.rm='http:{address},by_user=true'",
                ],
            )
        data = importlib.import_module("verl").DataProto.from_dict(
            tensors={
                "prompts": rows["input_ids"][:, :1],
                "responses": rows["input_ids"],
                "attention_mask": torch.cat([rows["attention_mask"][:, :1], rows["attention_mask"]], dim=1),
            },
            non_tensors={
                "data_source": numpy.array(["chat"] * 24, dtype=object),
                "reward_model": numpy.array([{"ground_truth": None}] * 24, dtype=object),
                "extra_info": numpy.array(
                    [{"question": "What shall I read?", "user_id": users[number // 4]} for number in range(24)],
                    dtype=object,
                ),
            },
        )
        ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=80 * 2**20)
        running.callback(ray.shutdown)
        paid = loop.RewardLoopManager(options).compute_rm_score(data).batch["rm_scores"]
        served = [requests(one) for one in addresses]
    asks = [
        trainer_ask("", "What shall I read?", [text], user_id=users[number // 4]) for number, text in enumerate(heard)
    ]
    filled = [ask for ask in Profiles("mini", VIEW).fill(asks) if isinstance(ask, Ask)]
    expected = [rating.scores[0] for rating in make_reward_model(spec).rate(filled) if rating.scores]
    assert paid.sum(-1).tolist() == pytest.approx(expected, abs=1e-4)
    assert torch.equal((paid != 0).sum(-1), torch.ones(24, dtype=torch.long))  # at the last token of each
    assert all(served)


def test_a_question_is_needed() -> None:
    with pytest.raises(PalateError, match="no text named 'question'"):
        compute_score("chat", "Yes.", None, {}, rm="longest")
