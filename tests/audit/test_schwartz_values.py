"""Which values prompts touch: planted shares are found, and a null stays null."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import command
from palate.audit import measure_values
from palate.audit._anchors import ANCHORS, NONE, anchors
from palate.audit._values import cover
from palate.records import PalateError

TEXTS, VALUES = anchors()
NAMES = list(ANCHORS)


def vectors(values: list[str], noise: float, seed: int) -> np.ndarray:
    """Each value in a direction of its own, with noise."""
    rows = np.eye(len(NAMES))[[NAMES.index(value) for value in values]]
    return rows + noise * np.random.default_rng(seed).standard_normal(rows.shape)


@pytest.mark.parametrize("noise", [0.05, 0.35])
def test_a_planted_share_is_found_however_often_the_encoder_errs(noise: float) -> None:
    planted = ["power"] * 300 + ["tradition"] * 100 + [NONE] * 600
    found = cover(vectors(VALUES, noise, 1), VALUES, vectors(planted, noise, 2), 1000)
    assert [one.value for one in found.values[:2]] == ["power", "tradition"]
    shares = {one.value: one for one in found.values}
    assert shares["power"].low <= 0.3 <= shares["power"].high and shares["power"].verdict == "touched"
    assert shares["tradition"].low <= 0.1 <= shares["tradition"].high
    assert {one.verdict for one in found.values[2:]} == {"not seen"}
    assert (found.right > 0.95) == (noise < 0.1)


def test_prompts_without_values_show_none() -> None:
    found = cover(vectors(VALUES, 0.35, 1), VALUES, vectors([NONE] * 500, 0.35, 3), 500)
    assert {one.verdict for one in found.values} == {"not seen"}


def test_anchors_differ_and_every_value_has_enough() -> None:
    assert len(set(TEXTS)) == len(TEXTS) and len(NAMES) == 11
    assert all(VALUES.count(value) >= 12 for value in NAMES)


OWN = [
    "Which hymn do villagers sing at the harvest feast, as their parents did?",
    "How is a bar mitzvah celebrated in an orthodox family?",
    "Why do monks still follow vows from the sixth century?",
    "How should a bride dress according to our old customs?",
    "What offerings are brought to the temple at the festival of lights?",
]
PLAIN = [f"What is {number} plus {number + 4}?" for number in range(45)]


def test_the_encoder_sees_a_value_in_prompts_that_it_does_not_know(minilm: object) -> None:
    found = measure_values(OWN + PLAIN)
    assert found.values[0].value == "tradition" and found.values[0].verdict == "touched"
    assert {one.verdict for one in found.values[1:]} == {"not seen"}
    assert 0.6 < found.right < 1.0 and (found.prompts, found.of) == (50, 50)


def test_a_table_without_people_says_which_values_it_lacks(minilm: object, tmp_path: Path) -> None:
    rows = [{"prompt": text, "chosen": f"Yes, {n}.", "rejected": f"No, {n}."} for n, text in enumerate(OWN + PLAIN)]
    table = tmp_path / "table.jsonl"
    table.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    done = command.palate("audit", f"{table},user=none", "--values", "--no-impersonal", COLUMNS="200")
    assert done.returncode == 0, done.stderr
    assert "Which values the prompts touch" in done.stdout and "Not seen: " in done.stdout


def test_values_are_asked_of_benchmarks_only() -> None:
    done = command.palate("audit", "--docket", "mini", "--values")
    assert done.returncode == 2 and "leave out --claimed, --run, --values" in done.stderr
    with pytest.raises(PalateError, match="is a run"):
        _audit_a_run()


def _audit_a_run() -> None:
    from tempfile import TemporaryDirectory

    from palate.audit import audit

    with TemporaryDirectory() as folder:
        (Path(folder) / "settings.json").write_text("{}")
        audit(folder, values=True)
