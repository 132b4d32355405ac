"""A study is about people too: they go from all of its cells, from the models trained for it, and from its reports."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest
from people import LOVES, NAMES, people

from palate.data import Pseudonyms, load_benchmark, write_benchmark
from palate.personal import describe_model
from palate.privacy import export_user, forget
from palate.runs import open_run, write_report
from palate.study import STUDY, study
from tiny_models import TinyModels

pytest.importorskip("rouge_score", reason="the critic reference needs .[downstream]")

KEY = Pseudonyms(b"a key that only this test knows")
PLUG_IN = """
class Telltale:
    name = "telltale"

    def rate(self, asks):
        raise ValueError(f"no words for bo, who asks {asks[0].prompt!r}")
"""
PLAN = """
[[models]]
rm = "overlap"
views = ["none", "posts:1"]

[[models]]
rm = "./telltale.py:Telltale"
name = "telltale"
views = ["posts:1"]

[[train]]
name = "own"
method = "per-user"
features = "traits"
data = "./people"
views = ["none"]

[[predictors]]
name = "bench"
benchmark = "./people"

[[downstream]]
kind = "best-of-n"
name = "best"
benchmark = "./people"
critic = "reference:rouge1,encoder=none"
policy = "POLICY"
in_context = ["posts:1"]
samples = 2
tokens = 4
"""


@pytest.fixture
def made(tiny_models: TinyModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write_benchmark(people(), tmp_path / "people")
    (tmp_path / "telltale.py").write_text(PLUG_IN)
    (tmp_path / "plan.toml").write_text(PLAN.replace("POLICY", f"{tiny_models.causal()},device=cpu"))
    summary = study("plan.toml")
    run = Path(summary.run)
    write_report(open_run(run), summary)
    assert [one.cell for one in summary.unfinished] == ["bench | telltale", "best | telltale"]
    return run


def holding(user: str, *folders: Path) -> list[str]:
    love, id = LOVES[NAMES.index(user)].encode(), f'"{user}"'.encode()
    files = (file for folder in folders for file in folder.rglob("*") if file.is_file())
    return [str(file) for file in files if love in file.read_bytes() or id in file.read_bytes()]


def test_a_person_is_gone_from_every_part_of_a_study(made: Path, tmp_path: Path) -> None:
    assert (made / "failures.jsonl").read_bytes()
    assert "bo" in describe_model(made / "models" / "own").users
    left = [folder for folder in (tmp_path / "runs").iterdir() if folder.name != "samples"]
    unknown = [folder for folder in left if folder not in (tmp_path / made, *STUDY.parts(open_run(made)))]
    would = forget("bo", KEY, data=[tmp_path / "people"], runs=[made], dry_run=True)
    assert (made / "failures.jsonl").read_bytes()
    receipt = forget("bo", KEY, data=[tmp_path / "people"], runs=[made])
    places = {Path(place.path).name: place for place in receipt.places}
    assert {Path(place.path).name for place in would.places} == places.keys()
    assert places[made.name].erased["failures"] == 2
    assert any("2 cells are not finished" in line for line in receipt.not_erased)
    assert not (made / "failures.jsonl").read_bytes()
    assert "bo" not in describe_model(made / "models" / "own").users
    for folder in unknown:
        shutil.rmtree(folder)
    assert not holding("bo", tmp_path / "runs", tmp_path / "people")
    assert holding("cy", tmp_path / "runs")
    again = json.loads((made / "summary.json").read_bytes())
    assert again["users"] == len(NAMES) - 1 and again["entries"][0]["numbers"]["bench: accuracy"]


def test_a_person_is_found_in_every_part_of_a_study(made: Path, tmp_path: Path) -> None:
    export = msgspec.to_builtins(export_user(load_benchmark(tmp_path / "people"), "bo", runs=[made]))
    kinds = [run["kind"] for run in export["runs"]]
    assert {"eval", "best-of-n", "samples"} <= set(kinds) and len(kinds) == len(STUDY.parts(open_run(made))) + 2


def test_a_report_without_users_names_nobody(made: Path) -> None:
    run = open_run(made)
    summary = STUDY.summarise(run)
    assert "who asks" in summary.warnings[0]
    write_report(run, summary, users=False)
    for name in ("report.html", "report.md", "results.csv", "summary.json"):
        content = (made / name).read_text()
        assert "who asks" not in content and "words for bo" not in content, name
        assert not [love for love in LOVES if love in content], name
    assert "the reason may name somebody" in (made / "summary.json").read_text()
