"""`palate train`: honest tables, nothing lost, models that can be used, and clear words for bad input."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command import GUARD, palate
from palate.cli import main
from palate.data import write_benchmark
from palate.evaluation import ITEMS, summarise
from palate.leaderboard import list_runs
from palate.personal import MethodSettings, make_folds, train
from palate.personal._costs import measure_cost
from palate.personal._gpo import GpoSettings
from palate.personal._per_user import PerUserSettings
from palate.personal._train import _part
from palate.report import Chart, Table
from palate.runs import open_run, write_report
from planted import planted
from unseen import BENCHMARK, trained


def run(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert not left.value.code


def test_the_table_has_the_impersonal_model_first_and_gains_over_it(tmp_path: Path) -> None:
    summary = train(planted(couples=8, choices=8), ["per-user"], features="traits", folds=3, out=tmp_path)
    assert next(result.rm for result in summary.results) == "bradley-terry"
    assert [result.view for result in summary.results if result.rm == "per-user"] == ["none", "user", "swapped"]
    impersonal = next(one for one in summary.results if one.rm == "bradley-terry")
    assert impersonal.accuracy == 0.5
    gain = next(one for one in summary.over_baseline if (one.rm, one.view) == ("per-user", "user"))
    assert gain.than == "bradley-terry"
    assert gain.difference > 0.3
    assert gain.low is not None and gain.low > 0.2
    assert gain.q < 0.05
    assert (Path(summary.run) / "models" / "per-user" / "model.json").exists()
    assert [run.kind for run in list_runs(tmp_path)] == ["train"]


def test_gains_are_told_for_users_of_whom_little_and_much_is_known(tmp_path: Path) -> None:
    summary = train(
        planted(couples=12, choices=8, history=8), ["per-user"], features="traits", protocol="unseen", out=tmp_path
    )
    items = list(open_run(Path(summary.run)).read(ITEMS))
    assert all(item.known is not None for item in items)
    assert {one.known for one in summary.over_baseline} >= {"any"}


def test_a_cold_start_has_the_same_items_at_every_step(tmp_path: Path) -> None:
    benchmark = planted(couples=10, choices=6, history=6)
    summary = train(benchmark, ["per-user"], features="traits", cold_start=[0, 1, 4], folds=3, out=tmp_path)
    steps = {result.view: result for result in summary.results if result.rm == "per-user"}
    assert list(steps) == ["none", "judgements:1", "judgements:4", "swapped:judgements:4"]
    assert len({result.n for result in steps.values()}) == 1
    assert (steps["judgements:4"].accuracy or 0) > 0.9
    assert (steps["none"].accuracy or 1) < 0.6


def test_a_curve_over_users_asks_the_same_of_models_of_more_and_more_users(tmp_path: Path) -> None:
    """Nothing can be learned of a group of fewer than five people."""
    summary = train(
        planted(couples=14, choices=6),
        ["demographic"],
        features="traits",
        users_curve=[12, 2],
        folds=2,
        views=["demographics"],
        out=tmp_path,
    )
    labels = ["demographic", "demographic,users=2", "demographic,users=12"]
    found = {result.rm: result for result in summary.results}
    assert list(found)[3:] == labels
    assert len({result.n for result in found.values()}) == 1
    everybody, few, many = (found[label].accuracy or 0 for label in labels)
    assert few == pytest.approx(0.5, abs=0.1)
    assert many > 0.8 < everybody
    document = write_report(open_run(Path(summary.run)), summary)
    [section] = [section for section in document.sections if section.title == "How many users to train on"]
    chart, table = section.blocks
    assert isinstance(chart, Chart) and isinstance(table, Table)
    assert [name for _, name in chart.x_ticks] == ["2", "12"]
    assert [row[1] for row in table.rows if row[0] == "demographic"] == ["2", "12", "all"]
    assert {folder.name for folder in (Path(summary.run) / "models").iterdir()} == {"bradley-terry", "demographic"}


def test_more_users_hold_the_fewer_and_none_who_is_asked() -> None:
    folds = make_folds(planted(couples=8, choices=4), "unseen", folds=2)
    for fold in folds:
        parts = [_part(fold, users, seed=0) for users in (2, 5, None)]
        names = [{item.user_id for item in part.train} for part in parts]
        assert [len(own) for own in names[:2]] == [2, 5]
        assert names[0] < names[1] < names[2]
        assert [set(part.trained_users) for part in parts[:2]] == names[:2]
        assert {part.test for part in parts} == {fold.test}
        assert not names[2] & {item.user_id for item in fold.test}
        assert {item.user_id for item in _part(fold, 5, seed=1).train} != names[1]


def test_any_reward_model_can_stand_beside_the_trained_ones(tmp_path: Path) -> None:
    summary = train(planted(couples=6, choices=6), [], reward_models=["longest"], features="traits", out=tmp_path)
    assert {result.rm for result in summary.results} == {"bradley-terry", "longest"}


def test_killed_at_any_moment_it_ends_as_if_undisturbed(tmp_path: Path) -> None:
    write_benchmark(planted(couples=6, choices=6), tmp_path / "planted")
    words = ["train", str(tmp_path / "planted"), "--features", "traits", "--folds", "3", "--json", "--out"]
    calm = json.loads(palate(*words, tmp_path / "calm").stdout)

    def written(what: str) -> int:
        return sum(file.stat().st_size for file in (tmp_path / "killed").glob(f"*/{what}"))

    for what in ("ratings.jsonl", "ratings.jsonl", "models/*/*"):
        process = subprocess.Popen(
            [sys.executable, "-m", "palate", *words, str(tmp_path / "killed")], stdout=subprocess.DEVNULL
        )
        before, deadline = written(what), time.monotonic() + GUARD
        while process.poll() is None and written(what) == before and time.monotonic() < deadline:
            time.sleep(0.002)
        process.kill()
        process.wait()
    found = json.loads(palate(*words, tmp_path / "killed").stdout)
    assert {one["rm"] for one in found["costs"]} == {"bradley-terry", "per-user"}
    differing = {"run": "", "costs": [], "spent": None}
    assert {**found, **differing} == {**calm, **differing}
    assert Path(found["run"]).name == Path(calm["run"]).name


def test_a_trained_model_is_adapted_and_used_like_any_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark = str(tmp_path / "planted")
    write_benchmark(planted(couples=6, choices=6), tmp_path / "planted")
    summary = train(benchmark, ["per-user"], features="traits", folds=2, out=tmp_path)
    model = Path(summary.run) / "models" / "per-user"
    run(["adapt", str(model), benchmark, "--user", "user-0-asks", "--output", str(tmp_path / "knows")])
    assert "now knows 12 users" in capsys.readouterr().out
    used = ["--rm", f"personal:{tmp_path / 'knows'}", "--view", "none", "--limit", "20"]
    run(["eval", benchmark, *used, "--out", str(tmp_path / "runs"), "--json"])
    result = json.loads(capsys.readouterr().out)["results"][0]
    assert result["unscored"] == 20  # every item was trained on, so none of them may be rated
    latest = tmp_path / "latest" / "models" / "per-user"
    run(["adapt", str(latest), benchmark, "--user", "user-0-asks"])  # in place: in the newest run
    run(["privacy", "strip", str(latest), str(tmp_path / "stripped")])
    assert f"{model} now knows 12 users" in capsys.readouterr().out.replace("\n", "")
    assert not (tmp_path / "latest").exists() and (tmp_path / "stripped" / "model.json").is_file()


def test_what_a_model_has_to_say_of_itself_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_benchmark(planted(couples=3, choices=4), tmp_path / "planted")
    (tmp_path / "modest.py").write_text(
        "from palate.personal._bradley_terry import BradleyTerry\n"
        "class Modest(BradleyTerry):\n"
        "    def learn(self, pairs, known, validate=None):\n"
        "        super().learn(pairs, known, validate)\n"
        "        self.about['findings'] = [{'severity': 'warning', 'text': 'it knows nobody'}]\n"
    )
    method = f"{tmp_path / 'modest.py'}:Modest"
    run(["train", str(tmp_path / "planted"), "--method", method, "--features", "traits", "--out", str(tmp_path)])
    assert "warning: modest.py:Modest: it knows nobody.\n" in capsys.readouterr().out


def test_what_a_user_costs_is_told_of_every_model_and_kept_apart(tmp_path: Path) -> None:
    """Two runs differ in the times alone, and those are in a file of their own."""
    once, again = (
        train(planted(couples=4, choices=6), ["demographic"], features="traits", folds=2, out=tmp_path / name)
        for name in ("once", "again")
    )
    assert [cost.rm for cost in once.costs] == ["bradley-terry", "demographic"]
    assert (once.costs[0].bytes, once.costs[0].adapt_ms) == (0, None)
    folders = [Path(summary.run) for summary in (once, again)]
    files = {file.relative_to(folders[0]) for file in folders[0].rglob("*") if file.is_file()}
    assert Path("costs.jsonl") in files and Path("ratings.jsonl") in files
    for file in files - {Path("costs.jsonl"), Path("spent.json")}:
        assert (folders[0] / file).read_bytes() == (folders[1] / file).read_bytes(), file


@pytest.mark.parametrize(
    ("method", "settings", "kept"),
    [
        ("per-user", PerUserSettings(), 4 * 26),
        # For each of 8 examples two levels of 16 numbers and a weight.
        ("gpo", GpoSettings(epochs=1, width=16, heads=2), 8 * 4 * (2 * 16 + 1)),
    ],
)
def test_what_is_kept_of_a_user_is_what_the_model_would_save(
    method: str, settings: MethodSettings, kept: int, tmp_path: Path
) -> None:
    model = trained(method, settings)
    before = model.fingerprint
    cost = measure_cost(method, model, BENCHMARK)
    assert cost.bytes == kept
    assert cost.adapt_ms is not None and cost.score_ms is not None
    assert 0 < cost.score_ms < 1000 > cost.adapt_ms > 0
    assert model.fingerprint == before
    without = (model.save(tmp_path / "without") / "model.safetensors").stat().st_size
    judgements = BENCHMARK.users["user-0-asks"].judgements
    model.adapt("somebody", judgements)
    grown = (model.save(tmp_path / "with") / "model.safetensors").stat().st_size - without
    marks = 8 * len(
        {text for one in judgements for text in one.responses}
    )  # so that it does not rate what it was taught
    assert grown == pytest.approx(kept + marks, abs=24)  # a length, and where the file's header ends


def test_a_run_without_trained_models_has_no_costs(tmp_path: Path) -> None:
    summary = train(planted(couples=6, choices=6), [], features="traits", folds=2, out=tmp_path, keep_models=False)
    assert summary.costs == []


def test_a_run_is_read_again_without_training(tmp_path: Path) -> None:
    summary = train(planted(couples=6, choices=6), ["per-user"], features="traits", folds=2, out=tmp_path)
    assert summarise(open_run(Path(summary.run))) == summary


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mini", "--method", "per-usr"], "per-user"),
        (["mini", "--protocol", "tomorrow"], "protocol"),
        (["mini", "--protocol", "leave-out:hat"], "two groups or more"),
        (["mini", "--features", "traits+traits"], "twice"),
        (["mini", "--features", "no-such-folder/encoder"], "no-such-folder"),
        (["mini", "--features", "traits", "--cold-start", "1,two"], "whole numbers"),
        (["mini", "--features", "traits", "--cold-start", "0,400"], "has 400 judgements"),
        (["mini", "--features", "traits", "--folds", "1"], "counted from 2"),
        (["mini", "--features", "traits", "--users-curve", "ten"], "--users-curve takes whole numbers"),
        (["mini", "--features", "traits", "--users-curve", "10,400"], "from 2 to 48"),
        (
            ["mini", "--features", "traits", "--users-curve", "9", "--protocol", "leave-out:category"],
            "never trained on",
        ),
        (["nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_explained(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["train", *arguments, "--out", str(tmp_path)])
    assert left.value.code == 2
    assert said in capsys.readouterr().err


def test_an_unknown_experiment_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["reproduce", "convrg"])
    assert left.value.code == 2
    assert "convarg" in capsys.readouterr().err
