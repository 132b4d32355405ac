"""A judge's grade is read on its own scale, or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.rewards._grade import read_grade

CORPUS = [json.loads(line) for line in (Path(__file__).parent / "grades.jsonl").read_text("utf-8").splitlines()]
FORMS = [
    "{}",
    "**{}**",
    "Score: {}",
    "[[{}]]",
    "\\boxed{{{}}}",
    "I'd give it a {}.",
    '{{"score": {}}}',
    "Overall: {}",
]
PIECES = [
    "7",
    "10",
    "/",
    "Score: ",
    "[[",
    "]]",
    "overall",
    "\n",
    " ",
    ".",
    "-",
    "%",
    "out of ",
    "I'd give it ",
    "seven ",
]


@pytest.mark.parametrize("line", CORPUS, ids=lambda line: f"{line['text'][-40:]!r} of {line['top']}")
def test_the_corpus_is_read_as_a_careful_person_labelled_it(line: dict[str, Any]) -> None:
    assert read_grade(line["text"], line["top"]) == pytest.approx(line["grade"])


@given(st.integers(0, 10), st.sampled_from(FORMS))
def test_every_form_gives_the_grade(grade: int, form: str) -> None:
    assert read_grade(form.format(grade), 10) == grade


@given(st.integers(0, 100), st.sampled_from([5, 10, 100]), st.sampled_from([1.0, 5.0, 10.0]))
def test_a_grade_is_rescaled_or_refused(grade: int, scale: int, top: float) -> None:
    expected = pytest.approx(grade * top / scale) if grade <= scale else None
    assert read_grade(f"Score: {grade}/{scale}", top) == expected


@given(st.text() | st.lists(st.sampled_from(PIECES), max_size=30).map("".join), st.floats(0.5, 100))
def test_any_text_gives_a_grade_in_range_or_none(text: str, top: float) -> None:
    grade = read_grade(text, top)
    assert grade is None or 0 <= grade <= top * (1 + 1e-9)


@pytest.mark.parametrize("piece", [*PIECES, "Score: 7\n", "I say the ", "7/10 "])
def test_much_of_anything_is_read(piece: str) -> None:
    grade = read_grade(piece * (190_000 // len(piece)), 10)
    assert grade is None or 0 <= grade <= 10


@pytest.mark.parametrize(("last", "grade"), [("Score: 7", 7), ("[[7]]", 7), ("Score: 7\nScore: 8", None), ("", None)])
def test_a_grade_is_found_at_the_end_of_a_long_text(last: str, grade: int | None) -> None:
    reasoning = "The reply lists five teas and explains how to brew one. "
    assert read_grade(f"{reasoning * (500_000 // len(reasoning))}\n{last}", 10) == grade
