"""GRPO and RLOO with TRL itself, on a tiny policy, with a personal reward from `palate serve`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from palate.data import load_benchmark
from palate.integrations import trl_reward
from palate.records import Ask, PalateError, Rating
from palate.rewards import make_reward_model
from palate.serve import Profiles, trainer_ask
from reward_router import router
from reward_server import reward_server
from tiny_models import TinyModels

VIEW = "posts:1"


@pytest.mark.parametrize(("name", "replicas"), [("GRPO", 1), ("RLOO", 2)])
def test_a_trainer_is_paid_what_the_reward_model_says_of_each_users_text(
    name: str, replicas: int, tiny_models: TinyModels, tmp_path: Path
) -> None:
    datasets, torch, trl = (pytest.importorskip(name) for name in ("datasets", "torch", "trl"))
    transformers = pytest.importorskip("transformers")
    folder, spec = tiny_models.causal(), f"classifier:{tiny_models.classifier()}"
    users = sorted(load_benchmark("mini").users)[:2]
    questions = ["What should I drink?", "What should I read?"]
    rows = {
        "prompt": [
            [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}] for text in questions
        ],
        "user_id": users,
    }
    paid: list[tuple[str, str, str, float]] = []
    with ExitStack() as running:
        words = ("--rm", spec, "--benchmark", "mini", "--view", VIEW)
        addresses = [running.enter_context(reward_server(*words)).address for _ in range(replicas)]
        address = addresses[0] if replicas == 1 else running.enter_context(router(addresses, tmp_path))
        reward = trl_reward(f"http:{address},by_user=true")

        def recorded(prompts: list, completions: list, user_id: list, **columns: object) -> list[float]:
            rewards = reward(prompts=prompts, completions=completions, user_id=user_id, **columns)
            for prompt, completion, user, number in zip(prompts, completions, user_id, rewards, strict=True):
                paid.append((prompt[-1]["content"], completion[0]["content"], user, number))
            return rewards

        policy = transformers.AutoModelForCausalLM.from_pretrained(folder)
        before = policy.get_input_embeddings().weight.detach().clone()
        trainer = getattr(trl, f"{name}Trainer")(
            policy,
            reward_funcs=recorded,
            args=getattr(trl, f"{name}Config")(
                output_dir=str(tmp_path),
                max_steps=3,
                per_device_train_batch_size=4,
                num_generations=4,
                max_completion_length=8,
                learning_rate=1e-2,
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                save_strategy="no",
                report_to=[],
                logging_steps=1,
                disable_tqdm=True,
                seed=0,
            ),
            train_dataset=datasets.Dataset.from_dict(rows),
            processing_class=transformers.AutoTokenizer.from_pretrained(folder),
        )
        trainer.train()
    assert len(paid) == 12
    asks = [trainer_ask("", question, [text], user_id=user) for question, text, user, _ in paid]
    filled = [ask for ask in Profiles("mini", VIEW).fill(asks) if isinstance(ask, Ask)]
    expected = [rating.scores for rating in make_reward_model(spec).rate(filled)]
    assert [(number,) for *_, number in paid] == [pytest.approx(scores, abs=1e-4) for scores in expected]
    logged = [line["reward"] for line in trainer.state.log_history if "reward" in line]
    means = [sum(number for *_, number in paid[step : step + 4]) / 4 for step in (0, 4, 8)]
    assert logged == pytest.approx(means, abs=1e-4)
    assert not torch.equal(before, policy.get_input_embeddings().weight)


def test_completions_of_one_prompt_are_one_ask() -> None:
    seen: list[Ask] = []

    class Rank:
        name = "rank"
        knows_users = True

        def rate(self, asks: list[Ask]) -> list[Rating]:
            seen.extend(asks)
            return [Rating([sorted(ask.responses).index(text) for text in ask.responses]) for ask in asks]

    reward = trl_reward(Rank())
    rewards = reward(
        prompts=["Q", "Q", "Q", "Q"],
        completions=["b", "c", "a", "d"],
        user_id=["ann", "ann", "ann", 7],
        view=[None, None, None, "Drinks tea."],
        question=[None, None, None, "What shall I drink?"],
    )
    assert rewards == [1, 2, 0, 0]
    assert [(ask.prompt, ask.view.user_id, ask.view.text) for ask in seen] == [
        ("Q", "ann", ""),
        ("What shall I drink?", "7", "Drinks tea."),
    ]


def test_without_a_score_the_training_stops() -> None:
    class Silent:
        name = "silent"

        def rate(self, asks: list[Ask]) -> list[Rating]:
            return [Rating(unscored="no idea") for _ in asks]

    with pytest.raises(PalateError, match="silent gave no score for the prompt 'Q': no idea"):
        trl_reward(Silent())(prompts=["Q"], completions=["a"])


def test_a_user_whom_nobody_looks_up_is_an_error() -> None:
    """Else a model would be paid for that never saw the profile."""
    with pytest.raises(PalateError, match="overlap knows no user by name"):
        trl_reward("overlap")(prompts=["Q"], completions=["a"], user_id=["ann"])


def test_what_cannot_be_told_is_not_guessed() -> None:
    reward = trl_reward("longest")
    twice = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    with pytest.raises(PalateError, match="a column named 'question'"):
        reward(prompts=[twice], completions=["x"])
    assert reward(prompts=[twice], completions=["xyz"], question=["c"]) == [3]
    with pytest.raises(PalateError, match="one value for each of 1 prompts"):
        reward(prompts=["a"], completions=["x"], user_id=["ann", "bob"])
    with pytest.raises(PalateError, match="2 messages where one text"):
        reward(prompts=["a"], completions=[[{"content": "x"}, {"content": "y"}]])
    with pytest.raises(PalateError, match="built from a benchmark"):
        trl_reward("longest", view="posts:2")
