"""A damaged line in any file of any kind of run is named; repaired and resumed, the run is as it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("rouge_score", reason="the critic reference needs .[downstream]")

from palate.cli import main
from palate.data import load_benchmark
from palate.downstream import Drawing, Guiding, Training, best_of_n, guide, ppo, reach, steer
from palate.evaluation import evaluate
from palate.personal import train
from palate.records import Benchmark, PalateError
from palate.runs import open_run, repair_run
from tiny_models import TinyModels

CRITIC = "reference:rouge1,encoder=none"
KINDS = ["eval", "train", "bon", "guide", "steer", "reach", "ppo"]
Make = Callable[[Path], str]


def few() -> Benchmark:
    mini = load_benchmark("mini")
    users = {id: user for id, user in mini.users.items() if id.startswith("art-0")}
    items = tuple(item for item in mini.comparisons if item.user_id in users)[:16]
    return msgspec.structs.replace(mini, users=users, comparisons=items)


@pytest.fixture(scope="module")
def makers(tiny_models: TinyModels) -> dict[str, Make]:
    """The command of each kind of run, which resumes when it is given again."""
    policy, drawing = f"{tiny_models.causal()},device=cpu", Drawing(samples=2, tokens=4)
    return {
        "eval": lambda out: evaluate(few(), ["overlap"], ["none", "posts:1", "swapped"], out=out).run,
        "train": lambda out: train(few(), ["per-user"], features="traits", folds=2, out=out, keep_models=False).run,
        "bon": lambda out: best_of_n(
            few(), policy, ["overlap"], CRITIC, views=["posts:1"], drawing=drawing, limit=4, out=out
        ).run,
        "guide": lambda out: guide(
            few(), policy, ["overlap"], CRITIC, views=["posts:1"], guiding=Guiding(top_k=2, tokens=3),
            weights=[1.0], limit=4, out=out,
        ).run,
        "steer": lambda out: steer(
            few(), policy, ["overlap"], critic=CRITIC, views=["posts:1"], in_context=["posts:1"], drawing=drawing,
            top_k=2, limit=4, out=out,
        ).run,
        "reach": lambda out: reach(
            few(), policy, ["overlap"], CRITIC, view="posts:1", drawing=drawing, limit=6, out=out
        ).run,
        "ppo": lambda out: ppo(
            few(), policy, "overlap", CRITIC, view="posts:1", out=out,
            training=Training(
                steps=3, prompts=2, samples=2, tokens=4, minibatches=1, test_share=0.5, test_samples=2
            ),
        ).run,
    }  # fmt: skip


@pytest.fixture(scope="module")
def made(makers: dict[str, Make], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each kind once, undisturbed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALATE_CACHE", str(tmp_path_factory.mktemp("cache")))
        return {kind: Path(makers[kind](tmp_path_factory.mktemp(kind))) for kind in KINDS}


def ledgers(kind: str, run: Path) -> list[Path]:
    opened = open_run(run)
    if kind == "steer":
        return sorted(file for part in opened.experiment.parts(opened) for file in part.glob("*.jsonl"))
    return [run / ledger.name for ledger in opened.ledgers]


def contents(files: list[Path]) -> dict[str, list[bytes]]:
    return {str(Path(file.parent.name, file.name)): sorted(file.read_bytes().splitlines()) for file in files}


def palate(*words: str) -> int:
    """A command in this process; its exit code."""
    with pytest.raises(SystemExit) as done:
        main([*words])
    return int(str(done.value.code))


def tear(file: Path) -> int:
    """Cut a line in the middle of a file in half; its number."""
    lines = file.read_bytes().splitlines(keepends=True)
    place = (len(lines) - 1) // 2
    assert len(lines) > 1
    lines[place] = lines[place][: len(lines[place]) // 2] + b"\n"
    file.write_bytes(b"".join(lines))
    return place + 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_torn_line_is_named_dropped_and_made_again(
    made: dict[str, Path],
    makers: dict[str, Make],
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    out = tmp_path / "out"
    shutil.copytree(made[kind].parent, out)
    run = out / made[kind].name
    files = [file for file in ledgers(kind, run) if file.read_bytes().count(b"\n") > 1]
    assert len(files) >= 3
    before = contents(files)
    for file in files:
        whole = file.read_bytes()
        number = tear(file)
        assert palate("report", str(run)) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert f"{file.parent.name}/{file.name}, line {number}: it cannot be read" in said
        file.write_bytes(whole)
    for file in files:
        tear(file)
    if kind != "ppo":  # whose policy is trained, so that the lines of its curve cannot be made again
        damaged = [file for file in files if file.name != "items.jsonl"]
        with pytest.raises(PalateError, match="line") as raised:
            makers[kind](out)
        assert any(str(file) in str(raised.value) for file in damaged)
    for file in files:
        if file.name == "items.jsonl":  # resuming may have put some back
            file.write_bytes(b"".join(line + b"\n" for line in before[f"{file.parent.name}/{file.name}"]))
            tear(file)
    assert palate("report", str(run), "--repair") == 0
    shown = capsys.readouterr()
    for file in files:
        assert f"dropped from {file}: 1 line that cannot be read" in " ".join(shown.err.split())
        assert (file.parent / f"{file.name}.bad").is_file()
    assert repair_run(run) == []
    assert makers[kind](out) == str(run)
    after = contents(files)
    if kind == "ppo":
        assert after[f"{run.name}/held_out.jsonl"] == before[f"{run.name}/held_out.jsonl"]
        assert "the curve lacks 1 of 3 steps" in " ".join(shown.out.split())
        return
    assert after == before
    if kind != "steer":
        assert open_run(run).folder == run and not (run / "items.jsonl.bad").exists()


def test_samples_that_runs_share_are_repaired_by_their_folder(
    made: dict[str, Path], makers: dict[str, Make], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(made["bon"].parent, tmp_path / "out")
    [folder] = (tmp_path / "out" / "samples").iterdir()
    before = contents([folder / "samples.jsonl"])
    shutil.rmtree(tmp_path / "out" / made["bon"].name)
    number = tear(folder / "samples.jsonl")
    with pytest.raises(PalateError, match=rf"samples\.jsonl, line {number}: .* palate report {folder} --repair"):
        makers["bon"](tmp_path / "out")
    assert palate("report", str(folder), "--repair") == 0
    assert "1 line that cannot be read" in " ".join(capsys.readouterr().err.split())
    makers["bon"](tmp_path / "out")
    assert contents([folder / "samples.jsonl"]) == before
