"""The commands of the page "An hour with your own data", as they stand, on fewer people; and what the example hides."""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections import defaultdict
from pathlib import Path

import pytest
from collection import Collection, Invited

from command import Done, palate
from palate.engine import SentenceEncoder
from palate.simulate import EXAMPLE_COLUMNS, EXAMPLE_HABIT, EXAMPLE_TASTE, example_table

PAGE = Path(__file__).parents[2] / "docs" / "an-hour.md"
SMALL = ["--people", "12", "--choices", "8"]


def commands() -> list[list[str]]:
    """Every command of the page in order, without the comments."""
    text = "\n".join(re.findall(r"^```bash\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
    lines = [shlex.split(line, comments=True) for line in text.replace("\\\n", " ").splitlines()]
    return [words[1:] for words in lines if words and words[0] == "palate"]


class Hour:
    """One reader, who follows the page in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done: dict[str, Done] = {}

    def follow(self) -> None:
        for words in commands():
            small = SMALL if words[:2] == ["data", "example"] else []
            if words[:2] == ["collect", "serve"]:
                continue  # served in this process, where the links are followed
            done = self.done[shlex.join(words)] = palate(*words, *small, cwd=self.folder)
            faulty = words == ["data", "check", "prefs.csv"]
            assert done.returncode == (2 if faulty else 0), (words, done.stdout[-2000:], done.stderr[-2000:])
            assert "Traceback" not in done.stderr
            if words[:2] == ["collect", "invite"]:
                self.answer([line.split()[0] for line in done.stdout.splitlines() if line.startswith("http")])

    def answer(self, links: list[str]) -> None:
        study = Collection(self.folder / "my-study")
        try:
            for position, link in enumerate(links):
                Invited(study, link).agree().answer_all(position=position)
        finally:
            study.context.live.close()
            study.store.close()

    def said(self, *words: str) -> str:
        """What the one command that holds these words printed, on one line."""
        (done,) = (done for line, done in self.done.items() if all(word in line for word in words))
        return " ".join((done.stdout + done.stderr).split())


def test_the_commands_of_the_page_run_one_after_the_other(minilm: SentenceEncoder, tmp_path: Path) -> None:
    hour = Hour(tmp_path)
    hour.follow()
    with (tmp_path / "prefs.csv").open(newline="", encoding="utf-8") as file:
        exported = list(csv.DictReader(file))
    rows = [dict(row) for row in {tuple(row.items()): None for row in exported}]
    bad = sum(not row["annotator"] or not row["preferred"] for row in rows)
    ties = sum(row["preferred"] == "tie" for row in rows if row["annotator"])
    kept = f"{len(rows) - bad - ties} items, 12 users"
    left_out = f"rows that cannot be used, left out: {bad}; rows that are there twice, with the same time"

    assert f"{bad} errors" in " ".join(hour.done["data check prefs.csv"].stdout.split())
    checked = hour.said("data check prefs.csv,")
    assert "0 errors" in checked and left_out.split(";")[0] in checked
    (warnings,) = re.findall(r"0 errors, (\d+) warnings", checked)
    assert f"{warnings} warnings of palate data check" in hour.said("audit prefs.csv")
    for words in (["eval prefs.csv"], ["train prefs.csv"]):
        assert left_out in hour.said(*words) and f"left out: {ties}" in hour.said(*words)
    assert kept in hour.said("eval prefs.csv")
    assert f"Of {kept.replace(',', ' of')}" in hour.said("train prefs.csv")
    assert "12 choices of 2 people" in hour.said("collect export")
    (run,) = (tmp_path / "runs").glob("my-study-*")
    summary = json.loads((run / "summary.json").read_bytes())
    personal = [result for result in summary["results"] if result["rm"] == "personal:per-user"]
    assert {result["n"] for result in personal} == {12}, "questions that the model was not trained on"


def test_the_page_has_a_picture_for_each_step_of_less_than_200_kilobytes() -> None:
    page = PAGE.read_text(encoding="utf-8")
    pictures = [PAGE.parent / name for name in re.findall(r"!\[[^]]+\]\(([^)]+)\)", page)]
    assert len(pictures) == 4 and all(picture.stat().st_size < 200_000 for picture in pictures)


def test_the_example_holds_what_it_says() -> None:
    table = example_table()
    followed, habits = [], defaultdict(list)
    for row in table.rows:
        told = dict(zip(EXAMPLE_COLUMNS, row, strict=True))
        if told["preferred"] not in ("answer_a", "answer_b") or not told["annotator"]:
            continue
        one, other = told["answer_a"], told["answer_b"]
        chosen, left = (one, other) if told["preferred"] == "answer_a" else (other, one)
        listed = [text.startswith("- ") for text in (chosen, left)]
        if any(listed):
            likes = int(told["annotator"].removeprefix("rater-")) % 2 == 1
            followed.append(listed[0] == likes)
        else:
            habits[told["age"] == "60+"].append(len(chosen) > len(left))
    assert sum(followed) / len(followed) == pytest.approx(EXAMPLE_TASTE, abs=0.03)
    assert sum(habits[False]) / len(habits[False]) == pytest.approx(EXAMPLE_HABIT, abs=0.05)
    assert sum(habits[True]) / len(habits[True]) == pytest.approx(1 - EXAMPLE_HABIT, abs=0.08)
    assert table.best == pytest.approx((EXAMPLE_TASTE + EXAMPLE_HABIT) / 2, abs=0.01)
    asked = {text for row in table.rows for text in row[2:4]}
    assert len(table.questions) == 40 and not {text for row in table.questions for text in row[1:]} & asked


def test_an_example_is_not_written_over_another_file(tmp_path: Path) -> None:
    file = tmp_path / "prefs.csv"
    file.write_text("mine")
    done = palate("data", "example", "prefs.csv", cwd=tmp_path)
    assert done.returncode == 2 and "--force" in done.stderr and file.read_text() == "mine"
    assert palate("data", "example", "prefs.csv", "--force", *SMALL, cwd=tmp_path).returncode == 0
    few = palate("data", "example", "few.csv", "--people", "2", cwd=tmp_path)
    assert few.returncode == 2 and "at least 5 people" in few.stderr
