"""A judge's verdict is read as a careful person would read it, or not at all."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.rewards._verdict import read_verdict

CORPUS = [json.loads(line) for line in (Path(__file__).parent / "verdicts.jsonl").read_text("utf-8").splitlines()]

TEMPLATES = [
    "{x}",
    "{x}.",
    "**{x}**",
    "[[{x}]]",
    "({x})",
    "\\boxed{{\\text{{Response {x}}}}}",
    "Response {x}",
    "Verdict: {x}",
    "My choice is {x}",
    "Final answer: **Response {x}**",
    "### Verdict\n{x}",
    "{x} > {y}",
    "{y} << {x}",
    "{x}. Because {y} is too long.",
    "{x}\n\nResponse {y} is longer than Response {x}.",
    '{{"reason": "{y} is dull", "winner": "response_{x}"}}',
    "```json\n{{'verdict': '{x}'}}\n```",
    "<think>Verdict: {y}</think>Verdict: {x}",
    "<answer>{x}</answer>",
    "{y} is better on tone, however {x} is right. Final verdict: {x}",
    "Verdict: {y}\n\nActually, on reflection: {x}",
    "Response {x} is better than Response {y}.",
    "Response {y} is worse.",
    "This user would prefer Response {x}, since Response {y} is a list.",
    "Response {y} is better at jokes, but Response {x} is better overall.",
    "{x}: 9/10, {y}: 6/10",
    "答案：{x}",
]
REASONING = "Response A lists five teas while Response B explains how to brew one. "
LONG = REASONING * (500_000 // len(REASONING))
PIECES = [
    "A",
    "B",
    " ",
    "\n",
    "[[",
    "]]",
    "Verdict: ",
    "Response ",
    "is better",
    "tie",
    "<think>",
    "</think>",
    "**",
]
PIECES += [
    "\\boxed{",
    "}",
    '{"verdict": "',
    '"',
    "Actually, ",
    "but ",
    "both are ",
    "equal",
    ". ",
    "> ",
    "7/10",
    "#",
    "_",
]


@pytest.mark.parametrize("line", CORPUS, ids=lambda line: f"{line['kind']}: {line['text'][-40:]!r}")
def test_the_corpus_is_read_as_a_careful_person_labelled_it(line: dict[str, str | None]) -> None:
    assert read_verdict(str(line["text"])) == line["verdict"]


def test_the_corpus_has_five_of_each_kind() -> None:
    kinds = Counter(line["kind"] for line in CORPUS)
    assert min(kinds.values()) >= 5
    assert len({line["text"] for line in CORPUS}) == len(CORPUS)


@pytest.mark.parametrize("template", TEMPLATES)
def test_exchanging_the_letters_exchanges_the_verdict(template: str) -> None:
    assert read_verdict(template.format(x="A", y="B")) == "A"
    assert read_verdict(template.format(x="B", y="A")) == "B"


@given(st.text() | st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_any_text_gives_a_verdict_or_none(text: str) -> None:
    assert read_verdict(text) in ("A", "B", "tie", None)


@given(st.text(), st.sampled_from(["A", "B", "tie"]))
def test_reasoning_never_decides(reasoning: str, verdict: str) -> None:
    assert read_verdict(f"<think>Verdict: A {reasoning}</think>Verdict: {verdict}") == verdict
    assert read_verdict(f"<think>Verdict: {verdict}") is None


@pytest.mark.parametrize(
    "piece", [*PIECES, "A\n", "Response A is better. ", "Verdict: A\n", "<", "\\text{", "( ", "\u0315\u0300"]
)
def test_much_of_anything_is_read(piece: str) -> None:
    assert read_verdict(piece * (190_000 // len(piece))) in ("A", "B", "tie", None)


@pytest.mark.parametrize("verdict", ["A", "B", "tie"])
@pytest.mark.parametrize(
    "text", ["{long}[[{verdict}]]", "Verdict: {verdict}\n{long}", "{long}\n{verdict}", "{long}\nVerdict: {verdict}"]
)
def test_a_verdict_is_found_at_either_end_of_a_long_text(text: str, verdict: str) -> None:
    assert read_verdict(text.format(long=LONG, verdict=verdict)) == verdict


@pytest.mark.parametrize(
    "text",
    ["{long}", "[[A]] {long}[[B]]", "{long}[[A]] {long}[[B]]", "{long}Verdict: A\nVerdict: B", "<think>{long}[[B]]"],
)
def test_a_long_text_that_decides_nothing_or_both_has_no_verdict(text: str) -> None:
    assert read_verdict(text.format(long=LONG)) is None


def test_a_correction_is_heard_across_a_long_text() -> None:
    assert read_verdict(f"[[A]] {LONG} On reflection: [[B]]") == "B"


@pytest.mark.parametrize("letters", ["\u0315\u0300", "é", "e\u0301", "好"])
def test_a_long_run_of_any_script_hides_no_verdict(letters: str) -> None:
    assert read_verdict(f"{letters * (500_000 // len(letters))} [[Ｂ]]") == "B"
