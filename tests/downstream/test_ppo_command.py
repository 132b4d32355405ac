"""`palate ppo` as people run it: from one end to the other, killed at any moment, shared by processes, misused."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from number_game import numbers

from palate.cli import main
from palate.data import write_benchmark
from palate.downstream import PPO, PpoSummary, StepLine, Training, ppo
from palate.downstream.ppo._run import training_curve
from palate.downstream.ppo._summary import warnings_of
from palate.downstream.ppo._watch import spark
from palate.records import PalateError
from palate.report import document_page
from palate.runs import open_run, read_spent
from tiny_models import TinyModels

torch = pytest.importorskip("torch")
pytest.importorskip("rouge_score", reason="the critic reference needs .[downstream]")

CRITIC = "reference:rouge1,encoder=none"
SLOW = """
import time
from palate import Rating

class Slow:
    name = "slow"

    def rate(self, asks):
        time.sleep(0.03)
        return [Rating([sum(map(ord, text)) % 101 for text in ask.responses]) for ask in asks]

class Broken:
    name = "broken"

    def rate(self, asks):
        return [Rating([float("nan")] * len(ask.responses)) for ask in asks]
"""
SMALL = ["--view", "none", "--prompts", "4", "-n", "2", "--tokens", "6", "--limit", "30", "--test-samples", "2"]
RAW = (
    "settings.json",
    "items.jsonl",
    "steps.jsonl",
    "parts.jsonl",
    "views.jsonl",
    "held_out.jsonl",
    "policy/model.safetensors",
)


def command(model: Path, *words: str, rm: str = "./slow.py:Slow", critic: str = CRITIC) -> list[str]:
    return ["ppo", "mini", "--policy", f"{model},device=cpu", "--rm", rm, "--critic", critic, *SMALL, *words]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a reward model, where commands of this process run too."""
    (tmp_path / "slow.py").write_text(SLOW)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(words: list[str], place: Path, *launcher: str, out: str = "runs") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *(launcher or ("-m", "palate")), *words, "--out", out],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(*words: str) -> None:
    """Run a command in this process; it ends well."""
    with pytest.raises(SystemExit) as left:
        main(list(words))
    assert not left.value.code


def test_from_one_end_to_the_other(tiny_models: TinyModels, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = command(tiny_models.causal(), "--steps", "11", "--policy-view", "values", "--algorithm", "rloo")
    done(*words)
    shown = capsys.readouterr()
    for word in (
        "What held-out users got",
        "critic's score",
        "untrained",
        "trained",
        "entropy",
        "KL coefficient",
        "report.html",
    ):
        assert word in shown.out
    assert "step 10 of 11: reward" in shown.err
    [run] = place.glob("runs/mini-rloo-slow-*")
    made = {file.name for file in run.iterdir()}
    reports = {"report.html", "report.md", "results.csv", "summary.json"}
    assert made == {*RAW[:-1], "seconds.jsonl", "spent.json", "policy", "command.txt", *reports}
    spent = read_spent(run)
    assert spent is not None and spent.times == 1  # training and test are one start of the command
    done(*words, "--json")
    said = capsys.readouterr().out
    summary = msgspec.json.decode(said, type=PpoSummary)
    assert summary.complete
    assert (run / "policy").exists()
    done(*words, "--no-keep-policy", "--json")
    capsys.readouterr()
    done(*words, "--json")  # is finished, and trains nothing
    assert msgspec.json.decode(capsys.readouterr().out, type=PpoSummary) == summary
    assert not (run / "policy").exists()
    assert len(summary.curve) == 11
    assert summary.score is not None
    assert summary.score.n == summary.test_items
    assert summary.before is not None
    assert summary.before.texts == 2 * summary.test_items
    # The policy sees values, so it is tried with none and with a stranger's; the reward model sees nobody anyway.
    assert [(one.measure, one.view) for one in summary.by_view] == [
        ("the critic's score", view) for view in ("values", "none", "swapped:values")
    ]
    assert {(one.who, one.over) for one in summary.personal} == {
        ("the trained policy", "none"),
        ("the trained policy", "swapped:values"),
    }
    assert {one.view: one.strangers for one in summary.shown} == {"values": 0, "swapped:values": 1}
    (run / "summary.json").unlink()
    done("report", f"runs/{run.name}", "--json")
    assert capsys.readouterr().out == said
    page = (run / "report.html").read_text()
    for word in ("Untrained 1", "Trained, seeing none 1", "KL coefficient", "What held-out users got"):
        assert word in page
    people = {item["user_id"] for item in map(msgspec.json.decode, (run / "items.jsonl").open("rb"))}
    done("report", f"runs/{run.name}", "--json", "--without-users")
    assert capsys.readouterr().out == said  # the summary itself tells of nobody
    page = (run / "report.html").read_text()
    assert "Untrained 1" not in page
    assert not [user for user in people if user in page]
    with pytest.raises(SystemExit) as left:
        main(["report", str(run), "--read-again"])
    assert left.value.code == 2
    assert not any("share prompts" in finding.text for finding in summary.findings)
    lines = [msgspec.json.decode(line) | {"prompt": "?"} for line in (run / "items.jsonl").open("rb")]
    (run / "items.jsonl").write_bytes(msgspec.json.Encoder().encode_lines(lines))
    assert any("users share prompts" in finding.text for finding in PPO.summarise(open_run(run)).findings)


def test_the_trained_policy_is_a_folder_like_any_other(tiny_models: TinyModels, place: Path) -> None:
    transformers = pytest.importorskip("transformers")
    training = Training(steps=1, prompts=2, samples=2, tokens=4, minibatches=1, learning_rate=1e-2)
    summary = ppo(
        "mini", f"{tiny_models.causal()},device=cpu", "shortest", CRITIC, view="none", training=training, limit=40
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(Path(summary.run) / "policy")
    first = transformers.AutoModelForCausalLM.from_pretrained(tiny_models.causal())
    moved = [not torch.equal(a, b) for a, b in zip(model.parameters(), first.parameters(), strict=True)]
    assert any(moved)
    assert not (Path(summary.run) / "report.html").exists()  # which the command writes, and longer training
    chained = ppo(
        "mini", f"{summary.run}/policy,device=cpu", "shortest", CRITIC, view="none", training=training, limit=40
    )
    assert chained.complete


def test_the_page_of_longer_training_is_that_of_the_end(tiny_models: TinyModels, place: Path) -> None:
    training = Training(steps=11, prompts=1, samples=2, tokens=2, minibatches=1, test_samples=1)
    summary = ppo(
        "mini", f"{tiny_models.causal()},device=cpu", "shortest", CRITIC, view="none", training=training, limit=20
    )
    written = msgspec.json.decode((Path(summary.run) / "summary.json").read_bytes())
    assert written["complete"] and len(written["curve"]) == 11 and written["score"] is not None


def test_killed_at_any_moment_it_goes_on_and_ends_bit_for_bit_the_same(
    tiny_models: TinyModels, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = command(tiny_models.causal(), "--steps", "12", "--checkpoint-every", "2", "--learning-rate", "1e-3")
    done(*words, "--out", "calm")
    draw = random.Random(2)
    for steps in (3, 6):  # of twelve, with a checkpoint after every second one
        process = start(words, place, out="stormy")
        while process.poll() is None and written(place) < steps:
            time.sleep(0.002)
        time.sleep(draw.random() * 0.2)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    [torn] = sorted(place.glob("stormy/*/checkpoints/step-*"))[-1:]
    with (torn / "state.pt").open("r+b") as stream:
        stream.truncate(1000)
    capsys.readouterr()
    done(*words, "--out", "stormy")
    assert f"the checkpoint {torn.name} is not used: it was cut short" in " ".join(capsys.readouterr().err.split())
    [one], [other] = (list(place.glob(f"{name}/mini-ppo-slow-*")) for name in ("calm", "stormy"))
    assert one.name == other.name
    for name in RAW:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


LIMITED = """
import resource, sys
from palate.cli import main

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
main(sys.argv[1:])
"""


@pytest.mark.parametrize(("every", "what"), [("1", "a checkpoint"), ("9", "the policy")])
def test_a_full_disk_is_told_and_the_run_goes_on_once_there_is_room(
    every: str, what: str, tiny_models: TinyModels, place: Path
) -> None:
    """No file may grow beyond so many bytes: torch and safetensors have errors of their own for that."""
    words = command(tiny_models.causal(), "--steps", "2", "--checkpoint-every", every)
    process = start(words, place, "-c", LIMITED)
    _, said = process.communicate()
    assert process.returncode == 2, said
    assert f"cannot write {what} to" in " ".join(said.split())
    assert "Traceback" not in said
    done(*words, "--out", "runs")


def written(place: Path) -> int:
    """How many steps there are in the files."""
    return sum(len(file.read_bytes().splitlines()) for file in place.glob("stormy/*/steps.jsonl"))


def test_two_processes_end_where_one_does(tiny_models: TinyModels, place: Path) -> None:
    pytest.importorskip("accelerate")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = command(tiny_models.causal(), "--steps", "3", "--epochs", "1", "--minibatches", "1", "--json")
    words += ["--learning-rate", "1e-3"]
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(port), "-m", "palate")
    both = start(words, place, *launcher, out="two")
    done(*words, "--out", "one")
    said, errors = both.communicate()
    assert both.returncode == 0, errors
    assert said.count('"run":') == 1
    one, two = (training_curve(open_run(next(place.glob(f"{name}/mini-ppo-*")))) for name in ("one", "two"))
    for alone, shared in zip(one, two, strict=True):
        assert alone.reward == pytest.approx(shared.reward, rel=1e-9)
        assert alone.kl == pytest.approx(shared.kl, abs=1e-3)
        assert alone.explained_variance == pytest.approx(shared.explained_variance, abs=1e-3)
    assert abs(one[-1].kl) > 1e-2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--learning-rate", "0"], "--learning-rate is more than 0"),
        (["--steps", "0"], "--steps is a number from 1"),
        (["--kl", "-1"], "--kl is 0 or more"),
        (["--kl", "0", "--kl-target", "3"], "--kl-target"),
        (["--gae-lambda", "1.5"], "--gae-lambda is from 0 to 1"),
        (["--algorithm", "rloo", "-n", "1"], "--samples must be at least 2"),
        (["--algorithm", "rloo", "--value-clip-range", "0.3"], "--value-clip-range is of no use with rloo"),
        (["--kl-horizon", "50"], "--kl-horizon says how soon the coefficient answers to --kl-target"),
        (["--minibatches", "99"], "--minibatches 99 is more than the texts of a step"),
        (["--test-share", "0"], "--test-share"),
        (["--test-share", "0.999"], "cannot be split"),
        (["--checkpoint-every", "0"], "--checkpoint-every"),
        (["--tokens", "512"], "leave none for the prompt; lower --tokens"),
        (["--tokens", "490"], "has 512, and 490 of them are for the answer. Lower --tokens"),
        (["--view", "judgments:4"], "Did you mean 'judgements'?"),
        (["--policy", "m,url=http://127.0.0.1:9/v1"], "cannot be trained from here"),
        (["--policy", "./nowhere"], "nowhere"),
        (["--seed", "99999999999999999999"], "--seed is a number from 0 to"),
        (["--critic", "sim"], "the critic sim knows the tastes of simulated users only"),
        (["--rm", "sim"], "the view does not name a simulated user"),
        (["--rm", "./slow.py:Broken"], "'broken' gave no reward for the texts of item"),
    ],
)
def test_bad_input_ends_with_two_and_one_message(
    words: list[str], message: str, tiny_models: TinyModels, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(replaced(command(tiny_models.causal(), "--steps", "1"), words))
    assert left.value.code == 2
    assert message in capsys.readouterr().err


def replaced(words: list[str], by: list[str]) -> list[str]:
    """Options given again in the place of those that are there."""
    for option, value in zip(by[::2], by[1::2], strict=True):
        if option in words:
            words[words.index(option) + 1] = value
        else:
            words += [option, value]
    return words


def test_a_policy_without_a_template_is_refused(tiny_models: TinyModels, place: Path) -> None:
    with pytest.raises(PalateError, match="no chat template"):
        ppo("mini", str(tiny_models.causal(template="none")), "shortest", CRITIC)


def test_another_reward_model_has_another_folder(tiny_models: TinyModels, place: Path) -> None:
    training = Training(steps=1, prompts=1, samples=1, tokens=2, minibatches=1, test_samples=1)
    write_benchmark(numbers(12), place / "numbers")
    runs = set()
    for source in (SLOW, SLOW.replace("% 101", "% 7")):
        (place / "slow.py").write_text(source)
        for model in ("shortest", "./slow.py:Slow"):
            policy = f"{tiny_models.causal()},device=cpu"
            runs.add(ppo("numbers", policy, model, CRITIC, view="none", training=training).run)
    assert len(runs) == 3  # shortest once, and Slow twice, whose file was changed


def curve(**ends: tuple[float, float]) -> list[StepLine]:
    """Twenty steps that go straight from one number to another."""
    still = dict.fromkeys(StepLine.__struct_fields__, (1.0, 1.0)) | {"truncated": (0.0, 0.0)} | ends
    lines = []
    for step in range(20):
        values = {name: first + (last - first) * step / 19 for name, (first, last) in still.items()}
        lines.append(StepLine(**values | {"step": step + 1, "left_out": 0}))
    return lines


def test_what_is_warned_of() -> None:
    assert warnings_of(curve(reward=(0, 1))) == []
    assert warnings_of(curve(reward=(0, 1), entropy=(3, 0.5)))[0].startswith("reward rises while entropy collapses")
    assert warnings_of(curve(reward=(0, 1), length=(20, 60)))[0].startswith("reward rises while length runs away")
    assert warnings_of(curve(reward=(0, 1), length=(60, 20)))[0].startswith("reward rises while length shrinks")
    assert warnings_of(curve(reward=(1, 0), entropy=(3, 0.5), length=(20, 60))) == []
    shaken = [
        msgspec.structs.replace(line, reward=line.reward + (-1) ** line.step)
        for line in curve(reward=(0, 0.1), length=(60, 20))
    ]
    assert warnings_of(shaken) == []  # so small a rise is the noise of steps


def test_a_curve_in_a_line_of_text() -> None:
    assert spark([5.0]) == "▁"
    assert len(spark([float(n) for n in range(1000)])) == 24
    assert spark([float(n) for n in range(1000)])[-1] == "█"
    assert set(spark([0.05] * 53)) == {"▁"}  # means of the same number differ in their last digits


def test_a_run_that_is_under_way_can_be_read(tiny_models: TinyModels, place: Path) -> None:
    """What is there is shown, and said not to be all."""
    training = Training(steps=3, prompts=2, samples=2, tokens=3, minibatches=1)

    def stop(line: StepLine, steps: int) -> None:
        if line.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ppo(
            "mini",
            f"{tiny_models.causal()},device=cpu",
            "shortest",
            CRITIC,
            view="none",
            training=training,
            on_step=stop,
        )
    [run] = place.glob("runs/*")
    opened = open_run(run)
    summary = PPO.summarise(opened)
    assert (len(summary.curve), summary.complete, summary.score) == (2, False, None)
    assert "not over yet" in document_page(PPO.document(opened, summary))


def test_a_curve_that_was_lost_is_told(tiny_models: TinyModels, place: Path) -> None:
    def stop(line: StepLine, steps: int) -> None:
        if line.step == 2:
            raise KeyboardInterrupt

    def go(on_step: Callable[[StepLine, int], None] | None, said: list[str]) -> None:
        training = Training(steps=3, prompts=2, samples=2, tokens=3, minibatches=1)
        policy = f"{tiny_models.causal()},device=cpu"
        ppo(
            "mini", policy, "shortest", CRITIC, view="none", training=training, checkpoint_every=1,
            on_step=on_step, say=said.append,
        )  # fmt: skip

    with pytest.raises(KeyboardInterrupt):
        go(stop, [])
    [run] = place.glob("runs/*")
    (run / "steps.jsonl").write_bytes(b"")
    said: list[str] = []
    go(None, said)
    assert "resuming after step 2 of 3; steps.jsonl holds 0 of these steps only" in said
