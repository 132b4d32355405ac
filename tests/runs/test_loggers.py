"""Numbers of a run in Weights & Biases, MLflow and TensorBoard, each with its own library and without a network."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from command import Done, palate, palate_process
from palate.data import load_benchmark
from palate.records import PalateError
from palate.runs import _loggers, make_loggers

ASKED = ("eval", "mini", "--rm", "overlap", "--view", "none", "--view", "posts:5", "--limit", "20")
NAME = "overlap/posts:5/accuracy"


def logged(tmp_path: Path, name: str, run: Callable[..., Done] = palate, **environment: str) -> tuple[Path, float, str]:
    """The run folder, the accuracy in its summary, and what was said."""
    home = {"HOME": str(tmp_path)} | environment
    done = run(*ASKED, "--log", name, "--json", cwd=tmp_path, **home)
    assert done.returncode == 0, done.stderr
    [result] = [one for one in json.loads(done.stdout)["results"] if one["view"] == "posts:5"]
    return tmp_path / json.loads(done.stdout)["run"], result["accuracy"], done.stderr


def users_named_in(files: Iterable[Path]) -> list[str]:
    """The ids of the benchmark's users that stand anywhere in these files, or in their names."""
    told = b"\n".join(str(file).encode() + file.read_bytes() for file in files if file.is_file())
    assert told
    return [user for user in load_benchmark("mini").users if user.encode() in told]


def test_the_search_for_users_finds_them_where_they_are(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    run, _, _ = logged(tmp_path, "tensorboard")
    assert len(users_named_in([run / "items.jsonl"])) > 1


def test_tensorboard_reads_the_event_file_and_a_second_run_replaces_it(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for _ in range(2):
        run, accuracy, said = logged(tmp_path, "tensorboard")
    assert "Logged to TensorBoard" in said
    assert len(list((run / "tensorboard").iterdir())) == 1
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    [scalar] = events.Scalars(NAME)
    assert scalar.value == pytest.approx(accuracy)
    assert users_named_in((run / "tensorboard").iterdir()) == []


def test_mlflow_keeps_one_run_with_numbers_and_settings(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    store = (tmp_path / "store").as_uri()
    before = mlflow.get_tracking_uri()
    try:
        for _ in range(2):
            run, accuracy, _ = logged(tmp_path, "mlflow", MLFLOW_TRACKING_URI=store, MLFLOW_ALLOW_FILE_STORE="true")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
            client = mlflow.MlflowClient(store)
            [experiment] = [one for one in client.search_experiments() if one.name == "palate"]
            [kept] = client.search_runs([experiment.experiment_id])
    finally:
        mlflow.set_tracking_uri(before)
    assert kept.data.metrics[NAME] == pytest.approx(accuracy)
    assert kept.data.params["benchmark"] == "mini" and kept.info.run_name == run.name
    assert users_named_in((tmp_path / "store").rglob("*")) == []


def test_wandb_writes_an_offline_run(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    offline = {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true"}
    # The library writes the last of it when the process ends.
    run, accuracy, said = logged(tmp_path, "wandb", palate_process, **offline)
    assert "Logged to Weights & Biases" in said
    [file] = tmp_path.glob("wandb/offline-run-*/*.wandb")
    written = file.read_bytes()  # the library has no reader for it; texts stand in it as they are
    assert run.name.encode() in written and NAME.encode() in written and repr(accuracy).encode() in written
    assert users_named_in((tmp_path / "wandb").rglob("*")) == []


@pytest.mark.parametrize("name", ["wandb", "mlflow", "tensorboard"])
def test_a_missing_package_is_said_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(_loggers, "find_spec", lambda package: None)
    done = palate(*ASKED, "--log", name, cwd=tmp_path)
    assert done.returncode == 2 and f"pip install 'palate[{name}]'" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_logger_of_ones_own_and_one_that_fails(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import json\n"
        "class Lines:\n"
        "    def log(self, logged):\n"
        "        (logged.folder / 'numbers.json').write_text(json.dumps(dict(logged.numbers)))\n"
        "        return 'a file'\n"
        "class Broken:\n"
        "    def log(self, logged):\n"
        "        raise OSError('no room')\n"
    )
    run, accuracy, _ = logged(tmp_path, "./mine.py:Lines")
    assert json.loads((run / "numbers.json").read_text())[NAME] == accuracy
    done = palate(*ASKED, "--log", "./mine.py:Broken", cwd=tmp_path)
    assert done.returncode == 2 and "no room" in done.stderr and "is kept in" in done.stderr
    with pytest.raises(PalateError, match="tensorboard"):
        make_loggers(["tensorbord"])


def test_a_part_of_a_run_is_not_logged_and_the_whole_is_after_merging(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    home = {"HOME": str(tmp_path)}
    done = palate(*ASKED, "--log", "tensorboard", "--shard", "1/2", cwd=tmp_path, **home)
    assert done.returncode == 2 and "palate merge" in done.stderr and not (tmp_path / "runs").exists()
    for shard in ("1/2", "2/2"):
        assert palate(*ASKED, "--shard", shard, cwd=tmp_path, **home).returncode == 0
    shards = sorted(str(path) for path in tmp_path.glob("runs/shard-*-of-2/*"))
    joined = palate("merge", *shards, "--out", "runs", cwd=tmp_path, **home)
    assert joined.returncode == 0, joined.stderr
    [merged] = tmp_path.glob("runs/mini-*")
    ratings = (merged / "ratings.jsonl").read_bytes()
    run, _, _ = logged(tmp_path, "tensorboard")
    assert run == merged and (merged / "ratings.jsonl").read_bytes() == ratings
    assert list((run / "tensorboard").iterdir())


def test_no_folder_of_this_machine_is_logged(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import json\nfrom pathlib import Path\nfrom palate import Rating\n\n"
        "class Model:\n    name = 'mine'\n\n"
        "    def rate(self, asks):\n        return [Rating([1.0, 0.0]) for _ in asks]\n\n"
        "class Keep:\n    def log(self, logged):\n"
        "        file = Path(__file__).with_name('logged.json')\n"
        "        file.write_text(json.dumps(dict(logged.settings)))\n        return str(file)\n"
    )
    mine = tmp_path / "mine.py"
    words = ("eval", "mini", "--rm", f"{mine}:Model", "--view", "none", "--limit", "4", "--log", f"{mine}:Keep")
    done = palate(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    sent = (tmp_path / "logged.json").read_text()
    assert (str(tmp_path) in sent, "mine.py:Model" in sent) == (False, True)
