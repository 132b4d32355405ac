"""`palate guide` as people run it, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("torch")
pytest.importorskip("rouge_score", reason="the critic reference needs .[downstream]")

import command
from palate.cli import main
from palate.downstream import GuideSummary
from tiny_models import TinyModels, build, tokenizer

CRITIC = ["--critic", "reference:rouge1,encoder=none"]


def palate(*words: str, cwd: Path) -> command.Done:
    return command.palate(*words, cwd=cwd, PALATE_CACHE=str(cwd / "cache"))


def person(name: str) -> dict[str, object]:
    """One user's record in the exchange format."""
    choice = {"prompt": "What to drink?", "response_A": "Green tea", "response_B": "Coffee"}
    return {"user_id": name, "preferences": [choice | {"chosen_response": "response_A"}]}


def test_from_one_end_to_the_other(tiny_models: TinyModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tea.jsonl").write_text("".join(json.dumps(person(name)) + "\n" for name in ("one", "two")))
    words = ["guide", "tea.jsonl", "--policy", str(tiny_models.causal())]
    words += ["--rm", f"classifier:{tiny_models.classifier()}", "--view", "none", *CRITIC]
    words += ["--weight", "1", "--weight", "9", "--top-k", "3", "--tokens", "3"]
    done = palate(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for word in ("reward accuracy", "w = 0", "w = 1", "w = 9", "large", "alone", "The critic's score"):
        assert word in done.stdout
    assert max(map(len, done.stdout.split("Report:")[0].splitlines())) <= 80
    [run] = tmp_path.glob("runs/tea-guide-*")
    summary = msgspec.json.decode((run / "summary.json").read_bytes(), type=GuideSummary)
    assert summary.complete
    reported = palate("report", f"runs/{run.name}", "--json", cwd=tmp_path)
    assert msgspec.json.decode(reported.stdout, type=GuideSummary) == summary
    with pytest.raises(SystemExit) as stopped:
        main(["report", str(run), "--read-again"])
    assert stopped.value.code == 2
    assert "leave out --read-again" in capsys.readouterr().err


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(["guide", *words])
    assert stopped.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--top-k", "0"], "--top-k is the number of candidates"),
        (["--weight", "-1"], "--weight is a number from 0; -1 was given"),
        (["--weight", "inf"], "--weight is a number from 0"),
        (["--chunk", "0"], "--chunk is the number of tokens in a step"),
        (["--chunk", "4", "--temperature", "0"], "draws the same chunk 10 times"),
        (["--temperature", "-1"], "--temperature is 0 or more"),
        (["--tokens", "0"], "--tokens is the maximum number of tokens"),
        (["--limit", "0"], "the limit is a number of items"),
        (["--critic", "rubrik:m"], "Did you mean 'rubric'?"),
        (["--critic", "sim"], "sim"),
        (["--view", "judgments:4"], "Did you mean 'judgements'?"),
        (["--policy", "./nowhere"], "nowhere"),
        (["--policy", "m,url=http://127.0.0.1:9/v1"], "runs behind a server"),
    ],
)
def test_bad_input_ends_with_two_and_one_message(
    words: list[str], message: str, tmp_path: Path, own_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, "mini", "--rm", "shortest", "--out", str(tmp_path), *words)
    assert message in said


def test_a_policy_without_a_chat_template(
    tiny_models: TinyModels, tmp_path: Path, own_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = str(tiny_models.causal("llama", "none"))
    said = refused(capsys, "mini", "--policy", policy, "--rm", "shortest", "--out", str(tmp_path))
    assert "has no chat template" in said


def test_a_reward_model_whose_template_leaves_out_the_answer(
    tiny_models: TinyModels, tmp_path: Path, own_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "deaf"
    build("llama", labels=1).save_pretrained(folder)
    words = tokenizer("chatml")
    words.save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}{% if m['role'] != 'assistant' %}{{ m['content'] }}<|im_end|>{% endif %}{% endfor %}."
    )
    said = refused(
        capsys, "mini", "--policy", str(tiny_models.causal()), "--rm", f"classifier:{folder}", "--out", str(tmp_path)
    )
    assert "leaves out the assistant's answer" in said
