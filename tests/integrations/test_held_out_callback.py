"""Held-out users during real training with TRL: what is logged and kept, and that training is none the wiser."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command import palate
from palate.data import load_benchmark
from palate.downstream import BEST_OF_N, HeldOutUsers
from palate.downstream._trainer_callback import HeldOutCallback
from palate.engine import LiveModel, LocalModel, Sampling, Turn, WriteRequest, same_random_state
from palate.integrations import held_out_callback, trl_reward
from palate.records import PalateError
from palate.runs import open_run
from tiny_models import TinyModels

torch = pytest.importorskip("torch")
trl = pytest.importorskip("trl")
transformers = pytest.importorskip("transformers")
datasets = pytest.importorskip("datasets")
hub = pytest.importorskip("huggingface_hub")

USERS = sorted(load_benchmark("mini").users)
TRAINED = USERS[:40]
QUESTIONS = ["What should I drink?", "What should I read?"]
SHORT: dict[str, Any] = {"samples": 2, "tokens": 4, "limit": 6}
COMMON: dict[str, Any] = {
    "per_device_train_batch_size": 4,
    "learning_rate": 1e-2,
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "save_strategy": "no",
    "report_to": [],
    "logging_steps": 1,
    "disable_tqdm": True,
    "seed": 0,
}


def loaded(folder: Path) -> tuple[Any, Any]:
    return (
        transformers.AutoModelForCausalLM.from_pretrained(folder),
        transformers.AutoTokenizer.from_pretrained(folder),
    )


def grpo(folder: Path, out: Path, *, steps: int = 2, users: bool = True, **more: Any) -> Any:
    rows: dict[str, list[Any]] = {
        "prompt": [[{"role": "user", "content": QUESTIONS[place % 2]}] for place in range(len(TRAINED))]
    }
    rows |= {"user_id": TRAINED} if users else {}
    policy, tokenizer = loaded(folder)
    arguments = COMMON | {"num_generations": 4, "max_completion_length": 6, "max_steps": steps} | more
    return trl.GRPOTrainer(
        policy,
        reward_funcs=trl_reward("shortest") if not users else (lambda completions, **_: [1.0, 0.0, 0.5, 0.2]),
        args=trl.GRPOConfig(output_dir=str(out), **arguments),
        train_dataset=datasets.Dataset.from_dict(rows),
        processing_class=tokenizer,
    )


def dpo(folder: Path, out: Path) -> Any:
    policy, tokenizer = loaded(folder)
    rows = {"prompt": QUESTIONS * 4, "chosen": [" Tea, slowly."] * 8, "rejected": [" Nothing at all."] * 8}
    return trl.DPOTrainer(
        policy,
        args=trl.DPOConfig(output_dir=str(out), max_steps=2, **COMMON),
        train_dataset=datasets.Dataset.from_dict(rows),
        processing_class=tokenizer,
    )


def rloo(folder: Path, out: Path) -> Any:
    policy, tokenizer = loaded(folder)
    return trl.RLOOTrainer(
        policy,
        reward_funcs=lambda completions, **_: [float(len(text)) for text in completions],
        args=trl.RLOOConfig(output_dir=str(out), max_steps=2, num_generations=4, max_completion_length=6, **COMMON),
        train_dataset=datasets.Dataset.from_dict({"prompt": QUESTIONS * 4}),
        processing_class=tokenizer,
    )


def weights(trainer: Any) -> dict[str, Any]:
    return {name: weight.clone() for name, weight in trainer.model.state_dict().items()}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def own_lines(trainer: Any) -> list[dict[str, float]]:
    """What the trainer logs of itself, less what the clock says."""
    timed = ("time", "per_second", "runtime")
    lines = [line for line in trainer.state.log_history if not any("held_out" in name for name in line)]
    return [{name: value for name, value in line.items() if not any(word in name for word in timed)} for line in lines]


@pytest.mark.parametrize("make", [grpo, dpo, rloo])
def test_training_is_the_same_bit_for_bit_with_and_without(
    tiny_models: TinyModels, tmp_path: Path, make: Callable[[Path, Path], Any]
) -> None:
    folder = tiny_models.causal()
    alone = make(folder, tmp_path / "alone")
    before = weights(alone)
    alone.train()
    watched = make(folder, tmp_path / "watched")
    users = None if make is grpo else USERS[40:]
    callback = held_out_callback(watched, "mini", "reference:rougeL", every=1, users=users, **SHORT)
    watched.add_callback(callback)
    watched.train()
    assert not same(before, weights(alone))
    assert same(weights(alone), weights(watched))
    assert own_lines(watched) == own_lines(alone)  # no line of the trainer's own is lost or changed
    assert [line.step for line in callback.curve] == list(range(watched.state.global_step + 1))


def test_the_log_says_what_the_runs_in_the_folder_say(tiny_models: TinyModels, tmp_path: Path) -> None:
    trainer = grpo(tiny_models.causal(), tmp_path, steps=4)
    how = {**SHORT, "limit": 40}
    callback = held_out_callback(
        trainer, "mini", "reference:rougeL", every=3, reward_model="overlap", view="posts:2", **how
    )
    trainer.add_callback(callback)
    trainer.train()
    assert [line.step for line in callback.curve] == [0, 3, 4]  # untrained, every third, and the end
    lines = [line for line in trainer.state.log_history if "eval_held_out_score" in line]
    assert [line["step"] for line in lines] == [0, 3, 4]
    assert "eval_held_out_change" not in lines[0]
    first = grades(Path(callback.curve[0].run))
    for line, found in zip(lines, callback.curve, strict=True):
        own = grades(Path(found.run))
        assert line["eval_held_out_score"] == pytest.approx(np.mean([*own.values()]))
        assert line["eval_held_out_score_low"] <= line["eval_held_out_score"] <= line["eval_held_out_score_high"]
        assert 0 <= line["eval_held_out_agreement_low"] <= line["eval_held_out_agreement"] <= 1
        if line["step"]:
            assert own.keys() == first.keys()
            expected = np.mean([own[item] - first[item] for item in own])
            assert line["eval_held_out_change"] == pytest.approx(expected)
            assert line["eval_held_out_change_low"] <= expected <= line["eval_held_out_change_high"]
    shown = palate("report", callback.curve[-1].run)
    assert shown.returncode == 0 and "step 4" in shown.stdout, shown.stderr
    run = open_run(Path(callback.curve[-1].run), BEST_OF_N)
    assert not {item.user_id for item in run.read(run.ledgers[0])} & set(TRAINED)
    person = next(iter(run.read(run.ledgers[0]))).user_id
    own = {"PALATE_CACHE": str(tmp_path / "cache"), "PALATE_PSEUDONYM_KEY": "a key that is long enough"}
    words = ("forget", person, "--run", callback.curve[-1].run, "--receipt", tmp_path / "receipt.json")
    assert palate(*words, **own).returncode == 0
    assert person not in {item.user_id for item in run.read(run.ledgers[0])}


def grades(run: Path) -> dict[str, float]:
    opened = open_run(run, BEST_OF_N)
    [ledger] = [one for one in opened.ledgers if one.name == "grades.jsonl"]
    return {line.item: float(np.mean([grade.score for grade in line.grades])) for line in opened.read(ledger)}


def test_a_training_that_is_resumed_is_compared_with_where_it_began(tiny_models: TinyModels, tmp_path: Path) -> None:
    saving = {"save_strategy": "steps", "save_steps": 2}
    first = grpo(tiny_models.causal(), tmp_path, steps=2, **saving)
    callback = held_out_callback(first, "mini", "reference:rougeL", every=2, **SHORT)
    first.add_callback(callback)
    first.train()
    again = grpo(tiny_models.causal(), tmp_path, steps=4, **saving)
    resumed = held_out_callback(again, "mini", "reference:rougeL", every=2, **SHORT)
    again.add_callback(resumed)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert [line.step for line in resumed.curve] == [0, 2, 4]
    assert resumed.curve[:2] == callback.curve and resumed.curve[2].change is not None


def written(policy: LocalModel) -> list[str]:
    sampling = Sampling(most_tokens=8, temperature=1.0, top_p=0.9, seed=3)
    [answer] = policy.write([WriteRequest(turns=(Turn("user", QUESTIONS[0]),), sampling=sampling, samples=6)])
    assert isinstance(answer, list)
    return [one.text for one in answer]


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_live_model_writes_what_its_folder_would(tiny_models: TinyModels, tmp_path: Path, family: str) -> None:
    """On palate's own decoder and on transformers' forward pass, also while it trains with dropout and hooks."""
    model, tokenizer = loaded(tiny_models.causal(family))
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.05 * torch.randn_like(weight))
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model.train()
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    model.forward = lambda *given, **named: pytest.fail("the model in training was asked")
    live = LiveModel("live", model, tokenizer)
    assert written(live) == written(LocalModel(str(tmp_path), device="cpu"))
    assert model.training and all(weight.requires_grad and weight.grad is None for weight in model.parameters())
    assert live.fingerprint == LiveModel("again", model, tokenizer).fingerprint
    with torch.no_grad():
        next(model.parameters()).add_(1e-3)
    assert live.fingerprint != LiveModel("later", model, tokenizer).fingerprint


def test_adapters_count_and_stay_as_they_are(tiny_models: TinyModels, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    model, tokenizer = loaded(tiny_models.causal())
    bare = written(LiveModel("bare", model, tokenizer))
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], lora_dropout=0.5))
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.normal_()
    adapted.train()
    before = {name: weight.clone() for name, weight in adapted.state_dict().items()}
    texts = written(LiveModel("adapted", adapted, tokenizer))
    assert same(before, adapted.state_dict()) and adapted.training
    merged = adapted.merge_and_unload()
    merged.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert texts == written(LocalModel(str(tmp_path), device="cpu")) != bare


def test_random_numbers_come_as_if_nothing_had_been_drawn() -> None:
    def numbers() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = numbers()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    with same_random_state():
        numbers()
        torch.manual_seed(99)
    assert numbers() == expected


def test_who_is_held_out_is_never_guessed(tiny_models: TinyModels, tmp_path: Path) -> None:
    folder = tiny_models.causal()
    known, unknown = grpo(folder, tmp_path), grpo(folder, tmp_path, users=False)
    with pytest.raises(PalateError, match="no column user_id"):
        held_out_callback(unknown, "mini", "reference:rougeL", **SHORT)
    with pytest.raises(PalateError, match="1 user of those to hold out are in the column user_id"):
        held_out_callback(known, "mini", "reference:rougeL", users=[TRAINED[0], USERS[-1]], **SHORT)
    with pytest.raises(PalateError, match="has no user 'nobody' to hold out"):
        held_out_callback(known, "mini", "reference:rougeL", users=["nobody"], **SHORT)
    with pytest.raises(PalateError, match="every is a number of steps, from 1"):
        held_out_callback(known, "mini", "reference:rougeL", every=0, **SHORT)
    mini = load_benchmark("mini")
    with pytest.raises(PalateError, match="all of which are trained on as somebody else's"):
        HeldOutUsers(mini, "reference:rougeL", users=USERS[:3], trained_prompts=[i.prompt for i in mini.comparisons])
    templated = [f"<|im_start|>user\n{i.prompt}<|im_end|>\n<|im_start|>assistant\n" for i in mini.comparisons]
    with pytest.raises(PalateError, match="all of which are trained on as somebody else's"):
        HeldOutUsers(mini, "reference:rougeL", users=USERS[:3], trained_prompts=templated)
    assert isinstance(held_out_callback(known, "mini", "reference:rougeL", **SHORT), HeldOutCallback)


def test_nothing_of_held_out_users_is_among_what_the_trainer_sends_to_a_hub(
    tiny_models: TinyModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Path] = []

    class Hub:
        def upload_folder(self, *, folder_path: str, ignore_patterns: list[str], **_: object) -> None:
            names = [file.relative_to(folder_path) for file in Path(folder_path).rglob("*") if file.is_file()]
            kept = hub.utils.filter_repo_objects(map(str, names), ignore_patterns=ignore_patterns)
            sent.extend(Path(folder_path, name) for name in kept)

    output = tmp_path / "policy"
    trainer = grpo(tiny_models.causal(), output)
    callback = held_out_callback(trainer, "mini", "reference:rougeL", **SHORT)
    trainer.add_callback(callback)
    trainer.train()
    run = Path(callback.curve[-1].run)
    ids = [json.loads(line)["user_id"] for line in (run / "items.jsonl").read_text().splitlines()]
    assert ids
    monkeypatch.setattr(transformers.trainer, "hf_api", Hub)
    trainer.hub_model_id = "ann/policy"
    trainer.push_to_hub()
    assert any(file.suffix == ".safetensors" for file in sent)
    assert not [file for file in sent if any(id.encode() in file.read_bytes() for id in ids)]
    assert run.is_relative_to(tmp_path / "policy-held-out")


def test_a_folder_that_the_trainer_sends_to_a_hub_is_refused(tiny_models: TinyModels, tmp_path: Path) -> None:
    trainer = grpo(tiny_models.causal(), tmp_path / "policy")
    trainer.args.push_to_hub = True
    with pytest.raises(PalateError, match="push_to_hub sends to the hub"):
        held_out_callback(trainer, "mini", "reference:rougeL", out=tmp_path / "policy" / "runs", **SHORT)
    held_out_callback(trainer, "mini", "reference:rougeL", out=tmp_path / "runs", **SHORT)
