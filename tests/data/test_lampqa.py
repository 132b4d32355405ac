"""Personalized RewardBench and LaMP-QA, from a local copy and from a hub served on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from hub_server import COMMIT, serving
from palate.data import load_benchmark
from palate.records import PalateError

ROW = {
    "id": "17",
    "question": "How do I start rowing?",
    "profile": [{"id": "p1", "category": "sport", "text": "I fear cold water."}],
    "rubric_aspects": [{"aspect": "Safety", "evidence": "p1", "reason": "cold water"}],
    "narrative": "I want to row but I am afraid.",
    "category": "Lifestyle_and_Personal_Development",
}
PAIR = ROW | {"chosen": "Begin on a machine, indoors.", "rejected": "Jump into the sea."}


def parquet(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def test_a_row_is_a_user_of_its_own_and_the_rubric_is_privileged(tmp_path: Path) -> None:
    parquet(tmp_path / "personalized-rewardbench" / "test.parquet", [PAIR, PAIR | {"id": "18"}])
    benchmark = load_benchmark("personalized-rewardbench", data_dir=tmp_path)
    item = benchmark.comparisons[0]
    assert (item.id, item.user_id, item.chosen) == ("17", "row-17", "Begin on a machine, indoors.")
    assert item.privileged.narrative == "I want to row but I am afraid."
    assert item.privileged.aspects[0].reason == "cold water"
    assert benchmark.users["row-17"].posts[0].id == "p1"
    assert benchmark.card.version == "local"


def test_nested_fields_may_be_json_text(tmp_path: Path) -> None:
    as_text = PAIR | {name: json.dumps(PAIR[name]) for name in ("profile", "rubric_aspects")}
    parquet(tmp_path / "text" / "test.parquet", [as_text])
    parquet(tmp_path / "lists" / "test.parquet", [PAIR])
    assert load_benchmark(tmp_path / "text").content_hash == load_benchmark(tmp_path / "lists").content_hash
    parquet(tmp_path / "broken" / "test.parquet", [PAIR | {"profile": "[{", "rubric_aspects": "[]"}])
    with pytest.raises(PalateError, match=r"\(row 1\): field 'profile': expected a list"):
        load_benchmark(tmp_path / "broken")


def test_splits_and_domains_are_told_by_the_path(tmp_path: Path) -> None:
    plain = {name: value for name, value in ROW.items() if name != "category"}
    for domain in ("Art_and_Entertainment", "Society_and_Culture"):
        for split in ("train", "test"):
            parquet(tmp_path / "lamp-qa" / domain / f"{split}-00000-of-00001.parquet", [plain])
    benchmark = load_benchmark("lamp-qa", data_dir=tmp_path)
    assert [(item.id, item.category, item.text) for item in benchmark.completions] == [
        ("Art_and_Entertainment-17", "Art_and_Entertainment", None),
        ("Society_and_Culture-17", "Society_and_Culture", None),
    ]
    one = load_benchmark("lamp-qa,domain=Society_and_Culture,split=train", data_dir=tmp_path)
    assert [item.id for item in one.completions] == ["17"]
    with pytest.raises(PalateError, match="no rows of domain 'Cooking'; known domains: Art"):
        load_benchmark("lamp-qa,domain=Cooking", data_dir=tmp_path)
    with pytest.raises(PalateError, match="no data file of split 'validation'"):
        load_benchmark("lamp-qa,split=validation", data_dir=tmp_path)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[str]:
    def files(rows: list[dict[str, object]], *splits: str) -> dict[str, bytes]:
        written = {}
        for split in splits:
            name = f"Lifestyle_and_Personal_Development/{split}-00000-of-00001.parquet"
            parquet(tmp_path / name, rows)
            written[name] = (tmp_path / name).read_bytes()
        return {"README.md": b"# data", **written}

    repositories = {
        "datasets/QiyaoMa/Personalized-RewardBench": files([PAIR], "test"),
        "datasets/alireza7/LaMP-QA": files([ROW], "train", "test"),
    }
    with serving(repositories) as address:
        yield address


def load_elsewhere(spec: str, endpoint: str, cache: Path) -> subprocess.CompletedProcess[str]:
    """Load in another process, because the hub's client reads its settings when it is imported."""
    program = f"""
from palate.data import load_benchmark
from palate.records import PalateError
try:
    found = load_benchmark({spec!r})
    print(found.card.version, len(found.comparisons), len(found.completions))
except PalateError as error:
    print("refused:", error)
"""
    settings = {"HF_ENDPOINT": endpoint, "HF_HOME": str(cache), "HF_HUB_DISABLE_XET": "1", "PALATE_DATA": ""}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, timeout=900, check=True)


def test_both_data_sets_come_from_the_hub(hub: str, tmp_path: Path) -> None:
    assert load_elsewhere("personalized-rewardbench", hub, tmp_path / "cache").stdout.split() == [COMMIT, "1", "0"]
    assert load_elsewhere("lamp-qa", hub, tmp_path / "cache").stdout.split() == [COMMIT, "0", "1"]
    assert not list((tmp_path / "cache").rglob("train*.parquet"))


def test_a_hub_that_does_not_have_it_or_does_not_answer_says_how_to_go_on(tmp_path: Path) -> None:
    with serving({}) as empty_hub:
        said = load_elsewhere("personalized-rewardbench", empty_hub, tmp_path / "cache").stdout
    assert said.startswith("refused: could not get QiyaoMa/Personalized-RewardBench from the Hugging Face hub (")
    assert "put a copy of its files in $PALATE_DATA/personalized-rewardbench" in said
    nobody = load_elsewhere("lamp-qa", "http://127.0.0.1:9", tmp_path / "cache")
    assert nobody.stdout.startswith("refused: could not get alireza7/LaMP-QA")
    assert nobody.stderr == ""  # the hub's client was not let try again and again, and say so
