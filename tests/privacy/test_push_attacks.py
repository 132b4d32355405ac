"""What a push may not carry along: folders of this machine, and cards that end their own lines."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml
from test_push import NAME, folder, hub  # noqa: F401

from command import palate
from palate.data import load_benchmark, write_benchmark
from palate.privacy import plan_push, push
from palate.runs import open_run, report_files
from writable_hub import State

MODELS = """
from palate import Rating


class Length:
    name = "length"
    fingerprint = "1"

    def rate(self, asks):
        return [Rating([len(text) for text in ask.responses]) for ask in asks]


class Other(Length):
    fingerprint = "2"
"""
TABLE = "user_id,prompt,chosen,rejected\n" + "".join(f"u-{one % 4},q{one},good {one},bad {one}\n" for one in range(12))


def of_ann(tmp_path: Path) -> Path:
    place = tmp_path / "home" / "ann-smith"
    place.mkdir(parents=True)
    return place


def test_the_card_of_a_table_names_no_folder(hub: State, tmp_path: Path) -> None:  # noqa: F811
    place = of_ann(tmp_path)
    (place / "prefs.csv").write_text(TABLE)
    assert load_benchmark(place / "prefs.csv").card.source == "prefs.csv"
    palate("data", "convert", place / "prefs.csv", place / "mine", "--pseudonymise")
    benchmark = load_benchmark(place / "mine")
    old = msgspec.structs.replace(benchmark.card, source=f"{place}/prefs.csv,user=user_id")  # as cards once were
    for card in (benchmark.card, old):
        write_benchmark(msgspec.structs.replace(benchmark, card=card), place / "mine")
        plan = plan_push(str(place / "mine"), NAME)
        assert not [name for name, content in plan.files.items() if b"ann-smith" in content]


def test_a_run_names_no_folder_of_its_models(hub: State, folder: Path, tmp_path: Path) -> None:  # noqa: F811
    place = of_ann(tmp_path)
    (place / "mine.py").write_text(MODELS)
    models = [f"--rm={place}/mine.py:{name}" for name in ("Length", "Other")]
    done = palate("eval", folder, *models, "--view", "none", "--limit", "20", "--out", place / "runs", cwd=place)
    assert done.returncode == 0, done.stderr
    plan = plan_push(str(place / "runs/latest"), NAME)
    assert b"ann-smith" in (place / "runs" / plan.name / "settings.json").read_bytes()
    assert not [name for name, content in plan.files.items() if b"ann-smith" in content]
    push(plan)
    there = tmp_path / "there" / plan.name
    there.mkdir(parents=True)
    for name, content in hub.files(NAME).items():
        (there / name).write_bytes(content)
    again = open_run(there)
    summary = again.experiment.summarise(again)
    _, files = report_files(again, msgspec.structs.replace(summary, run=plan.name))
    assert files["results.csv"] == plan.files["results.csv"]


@pytest.mark.parametrize("end", ["\x85", "\u2028", "\u2029", "\n"])
def test_no_name_ends_a_line_of_the_card(hub: State, folder: Path, end: str) -> None:  # noqa: F811
    benchmark = load_benchmark(folder)
    forged = f"Teas{end}---{end}palate: {{}}{end}licence: none"
    card = msgspec.structs.replace(
        benchmark.card, name=forged, title=forged, licence=forged, version=f"1 |{end}| a | b"
    )
    write_benchmark(msgspec.structs.replace(benchmark, card=card), folder)
    push(plan_push(str(folder), NAME))
    page = hub.files(NAME)["README.md"].decode()
    front = yaml.safe_load(page.split("\n---\n")[0])
    assert (front["pretty_name"], front["license_name"]) == (forged, forged)
    assert front["palate"]["name"] == forged
    assert "| version | 1 &#124; &#124; a &#124; b |" in page
    assert not push(plan_push(str(folder), NAME)).changed  # its own mark is still known
