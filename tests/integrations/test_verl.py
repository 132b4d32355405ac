"""verl's custom reward function: how verl loads it, and how it calls it from many threads."""

from __future__ import annotations

import importlib
import inspect
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from palate.data import load_benchmark
from palate.integrations.verl import compute_score
from palate.records import PalateError
from palate.rewards import make_reward_model
from palate.serve import Profiles, trainer_ask
from reward_server import reward_server

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


def test_a_question_is_needed() -> None:
    with pytest.raises(PalateError, match="no text named 'question'"):
        compute_score("chat", "Yes.", None, {}, rm="longest")
