"""`palate study` as people run it: from one end to the other, stopped at any moment, and read again."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from plans import BENCHMARK, VIEW, best_of, guided, model, ppo, predictor, reach, trained

import command
from palate.data import load_benchmark, write_benchmark
from palate.downstream import BestOfNSummary, GuideSummary, PpoSummary, ReachSummary
from palate.evaluation import Summary
from palate.study import StudySummary
from tiny_models import TinyModels

KILLS = 4
FILES = {"settings.json", "command.txt", "cells.jsonl", "failures.jsonl", "seconds.jsonl", "spent.json", "models"}
REPORTS = {"report.html", "report.md", "results.csv", "summary.json"}
PLUG_INS = """
import os
from pathlib import Path
from palate import Rating

class Shy:
    name = "shy"

    def rate(self, asks):
        if Path("shy").exists():
            raise ValueError("not today")
        return [Rating(scores=[len(text) for text in ask.responses]) for ask in asks]

class Deadly(Shy):
    name = "deadly"

    def rate(self, asks):
        if Path("shy").exists():
            os._exit(7)
        return super().rate(asks)
"""


def palate(*words: str, cwd: Path, cache: str = "cache") -> command.Done:
    return command.palate(*words, cwd=cwd, PALATE_CACHE=str(cwd / cache))


def studied(text: str, folder: Path, *words: str) -> StudySummary:
    (folder / "plan.toml").write_text(text)
    done = palate("study", "plan.toml", "--json", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout, type=StudySummary)


def number(summary: StudySummary, entry: str, name: str) -> float:
    [found] = [one.numbers[name] for one in summary.entries if one.entry == entry]
    assert found is not None
    return found.value


def gains(summary: StudySummary, measure: str) -> list[float]:
    return [found.value for one in summary.entries if (found := one.numbers.get(f"{measure}: gain")) is not None]


def without_costs(summary: StudySummary) -> StudySummary:
    return msgspec.structs.replace(summary, costs=[], run="")


@pytest.fixture(scope="module")
def policy(tiny_models: TinyModels) -> str:
    return f"{tiny_models.causal()},device=cpu"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, policy: str) -> tuple[Path, StudySummary]:
    """A study with everything in it."""
    folder = tmp_path_factory.mktemp("study")
    text = model("random", VIEW, family="control") + model("longest", family="control") + model("sim", VIEW, "user")
    text += trained("per user") + predictor() + predictor("mini", benchmark="mini", view="judgements:2")
    text += best_of(policy, in_context=["oracle"]) + guided(policy, critic="sim", models=["sim"])
    text += ppo(policy, seeds=[0, 1], models=["random"]) + reach(policy, models=["sim", "random"])
    return folder, studied(text, folder)


def test_from_one_end_to_the_other(whole: tuple[Path, StudySummary]) -> None:
    folder, summary = whole
    assert summary.complete and not summary.unfinished and summary.cells == 1 + 4 + 4 + 5 + 1 + 2 + 3
    assert [one.entry for one in summary.entries] == [
        "random, judgements:4", "longest", "sim, judgements:4", "sim, user", "per user, judgements:4",
    ]  # fmt: skip
    assert summary.primary == "bench: accuracy"
    names = {one.name: one for one in summary.numbers}
    assert {"best of 3: gain", "best of 3: agreement", "guided: policy accuracy", "guided: gain", "ppo: gain"} <= {
        *names
    }
    assert {"mini: accuracy", "reach: reach", "reach: followed"} <= {*names}
    assert {one.name for one in summary.numbers if one.happens} == {
        "best of 3: gain", "guided: policy accuracy", "guided: gain", "ppo: gain",
    }  # fmt: skip
    assert names["bench: accuracy"].models == 5 and names["ppo: gain"].models == 1
    [flat] = [one for one in summary.findings if "even the reward itself of 1 of 1 entry" in one.text]
    assert flat.detail == "random, judgements:4" and number(summary, flat.detail, "ppo: own reward") < 0.5
    [context] = summary.in_context
    assert context.view == "oracle" and context.gain is not None and context.best is not None
    best = number(summary, context.best, "best of 3: gain")
    assert context.best_gain is not None and context.best_gain.value == best == max(gains(summary, "best of 3"))
    assert context.over_best is not None and context.over_best.value == pytest.approx(context.gain.value - best)
    for cost in summary.costs:
        assert cost.seconds > 0 and cost.device == "CPU" and cost.items > 0
        assert (cost.tokens > 0) == (cost.measure not in ("bench", "mini"))
    [run] = folder.glob("runs/plan-study-*")
    assert {file.name for file in run.iterdir()} == FILES | REPORTS
    spent, clock = json.loads((run / "summary.json").read_text())["spent"], json.loads((run / "spent.json").read_text())
    assert spent["seconds"] == clock["seconds"] and len(spent["models"]) > len(clock["models"])
    assert (run / "models" / "per-user" / "model.json").is_file()
    assert len(list(folder.glob("runs/*/held_out.jsonl"))) == 2 and not list(folder.glob("runs/*/policy"))


def test_a_report_has_the_same_bytes(whole: tuple[Path, StudySummary]) -> None:
    folder, summary = whole
    run = f"runs/{Path(summary.run).name}"
    before = {name: (folder / run / name).read_bytes() for name in REPORTS}
    (folder / run / "summary.json").unlink()
    done = palate("report", run, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert msgspec.json.decode(done.stdout, type=StudySummary) == summary
    assert {name: (folder / run / name).read_bytes() for name in REPORTS} == before
    text = palate("report", run, cwd=folder).stdout
    assert "What predicts what happens?" in text and max(map(len, text.splitlines()[:-1])) <= 80


def test_numbers_are_those_of_the_separate_commands(whole: tuple[Path, StudySummary], policy: str) -> None:
    folder, summary = whole

    def run(kind: Any, *words: str) -> Any:
        done = palate(*words, "--json", cwd=folder)
        assert done.returncode == 0, done.stderr
        return msgspec.json.decode(done.stdout, type=kind)

    rated = run(Summary, "eval", BENCHMARK, "--rm", "sim", "--view", "none", "--view", VIEW, "--view", "user")
    for view in (VIEW, "user"):
        [result] = [one for one in rated.results if one.view == view]
        entry = f"sim, {view}"
        assert number(summary, entry, "bench: accuracy") == result.accuracy
        assert number(summary, entry, "bench: twin consistency") == result.twin_consistency.value
        controlled = number(summary, entry, "bench: length-controlled accuracy")
        assert controlled == pytest.approx(result.length_controlled.value)

    words = [BENCHMARK, "--policy", policy, "--critic", "sim", "--view", VIEW]
    few = ["--tokens", "12", "--policy-view", "none"]
    chosen = run(BestOfNSummary, "bon", *words, "--rm", "sim", "--rm", "random", "-n", "3", *few)
    for rm in ("sim", "random"):
        found = [one for one in chosen.differences if one.about == "over random" and one.one.chooser == rm]
        [gain] = [one.difference for one in found if one.one.k == 3]
        assert number(summary, f"{rm}, {VIEW}", "best of 3: gain") == pytest.approx(gain)
    assert number(summary, f"sim, {VIEW}", "best of 3: gain") > 0

    steered = run(
        GuideSummary, "guide", *words, "--rm", "sim", "--weight", "5", "--top-k", "2", "--tokens", "4", "--limit", "4"
    )
    [pairs] = [one for one in steered.accuracies if one.view == VIEW]
    [accuracy] = [one.normalised.value for one in pairs.policy_accuracy if one.weight == 5]
    assert number(summary, f"sim, {VIEW}", "guided: policy accuracy") == pytest.approx(accuracy)
    texts = {one.weight: one.score.value for one in steered.texts}
    assert number(summary, f"sim, {VIEW}", "guided: gain") == pytest.approx(texts[5] - texts[0])

    words = ["--policy", policy, "--rm", "random", "--critic", "sim", "--view", VIEW, "--steps", "2"]
    words += ["--prompts", "2", "--samples", "2", "--tokens", "12", "--minibatches", "1", "--test-samples", "2"]
    words += ["--learning-rate", "0.03"]
    changes = [run(PpoSummary, "ppo", BENCHMARK, *words, "--unscored", "leave-out", "--seed", s).score for s in "01"]
    pooled = sum(one.difference * one.n for one in changes) / sum(one.n for one in changes)
    assert number(summary, f"random, {VIEW}", "ppo: gain") == pytest.approx(pooled)
    assert any(one.difference for one in changes)

    words = [BENCHMARK, "--policy", policy, "--critic", "sim", "--view", VIEW, "--rm", "sim", "-n", "4"]
    far = run(ReachSummary, "reach", *words, "--tokens", "12", "--policy-view", "none").models[0]
    for name in ("reach", "pays", "rise", "followed"):
        test = getattr(far, name)
        found = [one.numbers[f"reach: {name}"] for one in summary.entries if one.entry == f"sim, {VIEW}"]
        assert (found[0] and found[0].value) == (test and pytest.approx(test.difference))
    assert far.followed is not None


def test_a_cell_that_fails_does_not_stop_the_others_and_is_tried_again(tmp_path: Path, policy: str) -> None:
    (tmp_path / "own.py").write_text(PLUG_INS)
    (tmp_path / "shy").touch()
    text = model("./own.py:Shy", name="shy") + model("random") + predictor() + best_of(policy)
    summary = studied(text, tmp_path)
    assert not summary.complete
    assert [one.cell for one in summary.unfinished] == ["bench | shy", "best of 3 | shy"]
    assert all("not today" in one.reason for one in summary.unfinished)
    assert any("bench | shy failed: " in finding for finding in summary.warnings)
    assert number(summary, "random", "bench: accuracy") > 0
    assert [one.numbers["bench: accuracy"] for one in summary.entries if one.entry == "shy"] == [None]
    [run] = tmp_path.glob("runs/plan-study-*")
    before = (run / "cells.jsonl").read_bytes()
    (tmp_path / "shy").unlink()
    done = palate("study", "plan.toml", cwd=tmp_path)
    assert "2 of 4 cells are there" in done.stderr
    ended = [line for line in done.stderr.splitlines()[1:] if " now: " not in line]
    assert [line.split()[0] for line in ended] == ["3/4", "4/4"]
    assert "FAILED" not in done.stderr
    after = (run / "cells.jsonl").read_bytes().splitlines()
    assert {*before.splitlines()} < {*after}
    names = [msgspec.json.decode(line)["cell"] for line in after]
    assert names == ["bench | shy", "bench | random", "best of 3 | shy", "best of 3 | random"]  # as the plan has them
    done = palate("study", "plan.toml", "--json", cwd=tmp_path)
    assert msgspec.json.decode(done.stdout, type=StudySummary).complete


def test_a_worker_that_is_killed_takes_only_its_own_cell_with_it(tmp_path: Path, policy: str) -> None:
    (tmp_path / "own.py").write_text(PLUG_INS)
    (tmp_path / "shy").touch()
    text = model("./own.py:Deadly", name="deadly") + model("random") + model("longest") + predictor()
    summary = studied(text, tmp_path, "--at-once", "2")
    assert [one.cell for one in summary.unfinished] == ["bench | deadly"]
    assert "its process was ended from outside" in summary.unfinished[0].reason
    assert "exit code 7" in summary.unfinished[0].reason
    (tmp_path / "shy").unlink()
    assert studied(text, tmp_path, "--at-once", "2").complete


def test_cells_side_by_side_give_the_same(whole: tuple[Path, StudySummary], tmp_path: Path) -> None:
    folder, summary = whole
    shutil.copy(folder / "plan.toml", tmp_path)
    done = palate("study", "plan.toml", "--json", "--at-once", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = msgspec.json.decode(done.stdout, type=StudySummary)
    assert without_costs(found) == without_costs(summary)
    assert [(one.measure, one.tokens, one.items) for one in found.costs] == [
        (one.measure, one.tokens, one.items) for one in summary.costs
    ]


def test_three_models_run_and_nothing_is_concluded(tmp_path: Path, policy: str) -> None:
    summary = studied(model("sim", VIEW) + model("random") + model("longest") + predictor() + best_of(policy), tmp_path)
    assert summary.complete
    assert any("do not conclude anything from their order" in one for one in summary.warnings)
    assert not [one for one in summary.findings if one.severity == "good" and "predicts" in one.text]


@pytest.mark.parametrize("what", ["predictors", "downstream"])
def test_half_a_plan_runs(what: str, tmp_path: Path, policy: str) -> None:
    text = model("sim", VIEW) + model("random") + (predictor() if what == "predictors" else best_of(policy))
    summary = studied(text, tmp_path)
    assert summary.complete and all(one.numbers for one in summary.entries)
    assert palate("report", summary.run, cwd=tmp_path).returncode == 0


def test_entries_with_other_seeds_are_about_other_people(tmp_path: Path, policy: str) -> None:
    summary = studied(model("random") + model("longest") + predictor() + ppo(policy, seeds=[0, 1]), tmp_path)
    told = "some entries were trained with more seeds than others"
    assert not any(told in one for one in summary.warnings)
    lines = map(msgspec.json.decode, (tmp_path / summary.run / "cells.jsonl").read_text().splitlines())
    [gone] = [line["run"] for line in lines if line["cell"] == "ppo | longest | none | seed 1"]
    shutil.rmtree(tmp_path / "runs" / gone)
    done = palate("report", summary.run, "--json", cwd=tmp_path)
    assert any(told in one for one in msgspec.json.decode(done.stdout, type=StudySummary).warnings)


def test_a_folder_that_is_gone_is_made_again(tmp_path: Path, policy: str) -> None:
    text = model("longest") + trained("t") + predictor()
    first = studied(text, tmp_path)
    for folder in (*tmp_path.glob("runs/sim-*"), *tmp_path.glob("runs/plan-study-*/models")):
        shutil.rmtree(folder)
    left = palate("report", f"runs/{Path(first.run).name}", "--json", cwd=tmp_path)
    assert msgspec.json.decode(left.stdout, type=StudySummary).cells == len(
        msgspec.json.decode(left.stdout, type=StudySummary).unfinished
    )
    assert without_costs(studied(text, tmp_path)) == without_costs(first)


def test_a_benchmark_or_a_model_that_changed_is_another_study(tmp_path: Path) -> None:
    write_benchmark(load_benchmark(BENCHMARK), tmp_path / "people")
    (tmp_path / "own.py").write_text(PLUG_INS)
    text = model("./own.py:Shy", name="shy") + model("random") + predictor(benchmark="./people")
    first = studied(text, tmp_path)
    shutil.rmtree(tmp_path / "people")
    write_benchmark(load_benchmark(BENCHMARK.replace("seed=3", "seed=4")), tmp_path / "people")
    second = studied(text, tmp_path)
    assert first.run != second.run
    (tmp_path / "own.py").write_text(PLUG_INS.replace("len(text)", "-len(text)"))
    third = studied(text, tmp_path)
    assert third.run not in (first.run, second.run)
    assert number(third, "shy", "bench: accuracy") == pytest.approx(1 - number(second, "shy", "bench: accuracy"))
    # Only what changed is run again.
    assert len(list(tmp_path.glob("runs/sim-*"))) == 5

    # A run on the other version in the place of one of this study's.
    old, new = (
        {line["cell"]: tmp_path / "runs" / line["run"] for line in map(msgspec.json.decode, lines)}
        for lines in ((tmp_path / one.run / "cells.jsonl").read_text().splitlines() for one in (first, second))
    )
    shutil.rmtree(new["bench | random"])
    old["bench | random"].rename(new["bench | random"])
    done = palate("report", second.run, cwd=tmp_path)
    assert done.returncode == 2
    assert "runs of this study are on 2 versions of ./people" in done.stderr


def test_who_stops_it_goes_on_later(tmp_path: Path, policy: str) -> None:
    (tmp_path / "own.py").write_text(
        PLUG_INS.replace('"not today"', '"x"').replace("raise", "import time; time.sleep(3600); raise")
    )
    (tmp_path / "shy").touch()
    (tmp_path / "plan.toml").write_text(model("random") + model("./own.py:Shy", name="shy") + predictor())
    for words in ((), ("--at-once", "2")):
        process = subprocess.Popen(
            [sys.executable, "-m", "palate", "study", "plan.toml", *words], cwd=tmp_path, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"PALATE_CACHE": str(tmp_path)},
        )  # fmt: skip
        deadline = time.monotonic() + command.GUARD
        while (
            process.poll() is None
            and time.monotonic() < deadline
            and not (
                any(tmp_path.glob("runs/plan-study-*/cells.jsonl"))
                and len(list(tmp_path.glob("runs/sim-*/ratings.jsonl"))) == 2
            )
        ):
            time.sleep(0.05)
        time.sleep(0.5)
        other = palate("study", "plan.toml", cwd=tmp_path)  # two at once
        assert other.returncode == 2 and "another process is writing to" in other.stderr
        assert f"process {process.pid} on {socket.gethostname()}" in " ".join(other.stderr.split())
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, told = process.communicate(timeout=command.GUARD)
        assert process.returncode == 130, told
        assert "Run the same command again to resume" in told and "Traceback" not in told
        [run] = tmp_path.glob("runs/plan-study-*")
        assert not (run / "failures.jsonl").read_bytes()
        if not words:
            shutil.rmtree(tmp_path / "runs")
    (tmp_path / "shy").unlink()
    done = palate("study", "plan.toml", "--json", cwd=tmp_path)
    assert msgspec.json.decode(done.stdout, type=StudySummary).complete


@pytest.mark.parametrize("words", [(), ("--at-once", "2")])
def test_a_log_says_every_while_what_runs(words: tuple[str, ...], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("palate.cli.study.EVERY", 0.0)
    (tmp_path / "plan.toml").write_text(model("random") + model("longest") + predictor())
    done = palate("study", "plan.toml", *words, cwd=tmp_path)
    lines = [line for line in done.stderr.splitlines() if " now: " in line]
    assert lines[0].startswith("0/2 now: bench | random")
    assert not words or "processes at work, 2 of 2" in done.stderr


def test_only_some_measures_and_models_are_run_when_asked(tmp_path: Path, policy: str) -> None:
    (tmp_path / "plan.toml").write_text(
        model("random") + model("longest") + trained("t") + predictor() + best_of(policy)
    )
    done = palate("study", "plan.toml", "--only", "bensh", cwd=tmp_path)
    assert done.returncode == 2 and "Did you mean 'bench'" in done.stderr and not (tmp_path / "runs").exists()
    done = palate("study", "plan.toml", "--model", "rendom", cwd=tmp_path)
    assert done.returncode == 2 and "Did you mean 'random'" in done.stderr and not (tmp_path / "runs").exists()
    done = palate("study", "plan.toml", "--only", "bench", "--model", "longest", "--json", cwd=tmp_path)
    summary = msgspec.json.decode(done.stdout, type=StudySummary)
    assert "train | t" in [one.cell for one in summary.unfinished] and len(summary.unfinished) == 6
    done = palate("study", "plan.toml", "--only", "bench", "--json", cwd=tmp_path)
    summary = msgspec.json.decode(done.stdout, type=StudySummary)
    assert [one.cell for one in summary.unfinished] == [f"best of 3 | {name}" for name in ("random", "longest", "t")]
    assert not any(one.reason for one in summary.unfinished)
    assert "3 cells of 7 not run yet: run the same command to go on" in summary.warnings
    done = palate("study", "plan.toml", "--json", cwd=tmp_path)
    assert msgspec.json.decode(done.stdout, type=StudySummary).complete


def test_one_more_model_runs_only_what_is_new(tmp_path: Path) -> None:
    """Also what another command measured before with the same settings is taken as it is. Trained models are part of
    a study: another study trains its own."""
    (tmp_path / "own.py").write_text(PLUG_INS)
    settings = ["--view", "none", "--seed", "0", "--out", "runs"]
    done = palate("eval", BENCHMARK, "--rm", "./own.py:Shy", *settings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    before = run_files(tmp_path)
    (tmp_path / "shy").touch()  # from now on it cannot rate
    text = model("./own.py:Shy", name="shy") + model("random") + trained("t") + predictor()
    first = studied(text, tmp_path)
    assert first.complete
    after = run_files(tmp_path)
    assert before.items() <= after.items()
    second = studied(text + model("longest"), tmp_path)
    assert second.complete and second.run != first.run
    added = {file.partition("/")[0] for file in run_files(tmp_path).keys() - after.keys()}
    assert after.items() <= run_files(tmp_path).items()
    assert len(added) == 2  # of the new model, and of the one that is trained
    for entry in ("shy", "random", f"t, {VIEW}"):
        assert number(second, entry, "bench: accuracy") == number(first, entry, "bench: accuracy")


def run_files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """The ledgers of all runs but studies, with the time at which they were written last."""
    return {
        str(file.relative_to(folder / "runs")): (file.read_bytes(), file.stat().st_mtime_ns)
        for file in folder.glob("runs/sim-*/*.jsonl")
    }


def test_cells_that_are_one_run_wait_for_each_other(tmp_path: Path) -> None:
    """On a benchmark where both are shown the same, a model under two views is twice the same run."""
    text = model("sim", VIEW, name="four") + model("sim", "judgements:2", name="two")
    text += predictor(view="user") + predictor("as it is")
    summary = studied(text, tmp_path, "--at-once", "2")
    assert summary.complete
    four, two = ({name: f for name, f in one.numbers.items() if name.startswith("bench")} for one in summary.entries)
    assert four == two


def test_a_place_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(model("random") + predictor())
    (tmp_path / "taken").touch()
    done = palate("study", "plan.toml", "--out", "taken", cwd=tmp_path)
    assert done.returncode == 2 and "--out" in done.stderr and "Traceback" not in done.stderr
    (tmp_path / "plan.toml").write_text(trained("t") + predictor())
    done = palate("study", "plan.toml", "--out", "a,b", cwd=tmp_path)
    assert done.returncode == 2 and "a,b has a comma" in done.stderr and not (tmp_path / "a,b").exists()


def test_killed_at_any_moment_it_ends_byte_for_byte_the_same(tmp_path: Path, policy: str) -> None:
    (tmp_path / "own.py").write_text(PLUG_INS)
    text = model("./own.py:Shy", name="shy") + model("sim", VIEW) + trained("t") + predictor() + best_of(policy)
    text += ppo(policy, models=["sim"])
    folders = [tmp_path / name for name in ("calm", "stormy")]
    for folder in folders:
        folder.mkdir()
        (folder / "plan.toml").write_text(text.replace("./own.py", "../own.py"))
    environment = os.environ | {"PALATE_CACHE": str(tmp_path / "cache-stormy")}
    assert palate("study", "plan.toml", cwd=folders[0]).returncode == 0
    draw, kills = random.Random(4), 0
    for _ in range(KILLS):
        before, process = written(folders[1]), subprocess.Popen(
            [sys.executable, "-m", "palate", "study", "plan.toml"], cwd=folders[1], env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + command.GUARD
        while process.poll() is None and time.monotonic() < deadline and written(folders[1]) == before:
            time.sleep(0.01)
        time.sleep(draw.random() * 0.3)
        if process.poll() is None:
            process.kill()
            kills += 1
        process.wait()
    assert kills >= KILLS / 2
    assert palate("study", "plan.toml", cwd=folders[1]).returncode == 0
    calm, stormy = (
        {
            str(file.relative_to(folder)): file.read_bytes()
            for file in folder.glob("runs/**/*")
            if file.suffix in (".jsonl", ".safetensors") and file.name != "seconds.jsonl"
        }
        for folder in folders
    )
    assert sum(name.endswith("cells.jsonl") for name in calm) == 1 and len(calm) > 30
    assert {name for name in calm if calm[name] != stormy.get(name)} == set() and calm.keys() == stormy.keys()


def written(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("runs/*/*.jsonl"))


def test_entries_that_are_the_same_in_every_number_count_once(tmp_path: Path, policy: str) -> None:
    zoo = model("sim", VIEW) + model("longest") + model("random", VIEW) + trained("one") + trained("other")
    summary = studied(zoo + predictor() + best_of(policy), tmp_path)
    assert {one.models for one in summary.agreements if one.predictor == "bench: accuracy"} == {4}
    told = [finding.text for finding in summary.findings if "the same in every number" in finding.text]
    assert told and told[0].startswith(f"other, {VIEW} and one, {VIEW} are")
    assert number(summary, f"other, {VIEW}", "bench: accuracy") == number(summary, f"one, {VIEW}", "bench: accuracy")
