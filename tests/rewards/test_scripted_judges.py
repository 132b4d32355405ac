"""Judges and graders that say what the test wants: what is made of it, and what is kept."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from one_ask import ASK, ASPECTS, NOTHING_KNOWN, scores, with_view
from palate import evaluate
from palate.engine import (
    ChooseRequest,
    Chosen,
    Conversation,
    Failure,
    LikelihoodRequest,
    Turn,
    WriteRequest,
    Written,
)
from palate.evaluation import ITEMS, summarise
from palate.evaluation._ratings import Ratings
from palate.records import Rating
from palate.rewards import _judge as judge_module
from palate.rewards import make_reward_model, rate, read_again
from palate.rewards._prompts import conversation, grader_conversation, judge_conversation
from palate.runs import open_run


class Scripted:
    """A language model that answers by a function of the last turn."""

    name = fingerprint = "scripted"
    context = None

    def __init__(self, says: Callable[[str], str | Failure], shares: Callable[[str], Chosen | Failure] | None = None):
        self.says, self.shares = says, shares
        self.chosen = self.written = 0

    def status(self) -> str:
        return ""

    def count_tokens(self, turns: Conversation) -> int | None:
        return None

    def write(self, requests: Sequence[WriteRequest]) -> list[list[Written] | Failure]:
        self.written += len(requests)
        found = [self.says(request.turns[-1].content) for request in requests]
        return [one if isinstance(one, Failure) else [Written(text=one, tokens=1, finished=True)] for one in found]

    def choose(self, requests: Sequence[ChooseRequest]) -> list[Chosen | Failure]:
        self.chosen += len(requests)
        if self.shares is None:
            return [Failure("the server gives no token probabilities") for _ in requests]
        return [self.shares(request.turns[-1].content) for request in requests]

    def likelihood(self, requests: Sequence[LikelihoodRequest]) -> list[Any]:
        return [Failure("this model only writes and chooses") for _ in requests]


def scripted(monkeypatch: pytest.MonkeyPatch, spec: str, model: Scripted) -> Any:
    monkeypatch.setattr(judge_module, "open_language_model", lambda name, **options: model)
    return make_reward_model(spec)


def first_is_tea(text: str) -> bool:
    return bool(re.search(r"Response A:\n\n<<\w{12}\nGreen tea\.", text))


def tea_stands_after(heading: str, text: str) -> bool:
    return bool(re.search(rf"{heading}:\n\n<<\w{{12}}\nGreen", text))


# What they are asked.


def test_prompts_show_the_view_and_both_responses() -> None:
    for turns in (judge_conversation(ASK, 1, 0), grader_conversation(ASK, 0, "warmth"), conversation(ASK, "user")):
        assert isinstance(turns[-1], Turn)
        assert "I gave up coffee." in turns[-1].content and ASK.prompt in turns[-1].content
    text = judge_conversation(ASK, 1, 0)[0].content
    assert text.index(ASK.responses[1]) < text.index(ASK.responses[0])
    assert "What is known" not in judge_conversation(with_view(ASK, NOTHING_KNOWN), 0, 1)[0].content


# What a judge's two answers come to.


def test_a_judge_that_agrees_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Scripted(lambda text: "[[A]]" if first_is_tea(text) else "I take B. [[B]]")
    [found] = rate(scripted(monkeypatch, "judge:m,verdict=text", model), [ASK])
    assert scores(found) == [1.0, 0.0]
    assert found.verdicts == ("A", "B")
    assert found.raw is not None and json.loads(found.raw)["judge"] == ["[[A]]", "I take B. [[B]]"]
    assert read_again(found) == found


def test_a_judge_that_always_takes_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    [found] = rate(scripted(monkeypatch, "judge:m,verdict=text", Scripted(lambda text: "[[A]]")), [ASK])
    assert scores(found) == [0.5, 0.5]
    assert found.verdicts == ("A", "A")


def test_a_judge_that_sees_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    [found] = rate(scripted(monkeypatch, "judge:m,verdict=text", Scripted(lambda text: "It is a tie.")), [ASK])
    assert scores(found) == [0.5, 0.5]
    assert found.verdicts == ("tie", "tie")


def test_a_judge_of_three_meets_every_pair_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Scripted(
        lambda text: "[[A]]" if first_is_tea(text) else "[[B]]" if tea_stands_after("B", text) else "[[A]]"
    )
    three = msgspec.structs.replace(ASK, responses=("Water.", "Green tea.", "Milk."))
    [found] = rate(scripted(monkeypatch, "judge:m,verdict=text", model), [three])
    assert model.written == 6
    assert scores(found) == [0.25, 1.0, 0.25]
    assert found.verdicts is not None and len(found.verdicts) == 6
    assert read_again(found) == found


# What a grader's come to.


def test_grades_are_read_from_text_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Scripted(lambda text: "8/9" if tea_stands_after("Response", text) else "I would say 3.")
    [found] = rate(scripted(monkeypatch, "grader:m,grade=text", model), [ASK])
    assert scores(found) == [8.0, 3.0]
    assert read_again(found) == found
    [unreadable] = rate(scripted(monkeypatch, "grader:m,grade=text", Scripted(lambda text: "no")), [ASK])
    assert unreadable.unscored == "a grade could not be read"
    assert read_again(unreadable) == unreadable


def test_aspects_are_those_of_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    def shares(text: str) -> Chosen:
        grade = 9 if "Look only at this: tea" in text else 1
        return Chosen(probabilities=tuple(float(digit == grade) for digit in range(1, 10)), mass=1.0)

    model = scripted(monkeypatch, "aspects:m", Scripted(lambda text: "", shares))
    named, whole = rate(model, [with_view(ASK, ASPECTS), ASK])
    assert scores(named) == [5.0, 5.0]
    assert scores(whole) == [1.0, 1.0]
    assert whole.note == "graded on the whole: the view shows no aspects"


# Probabilities where there are any, else text.


def test_probabilities_are_the_mean_of_both_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    def shares(text: str) -> Chosen:
        share = 0.9 if first_is_tea(text) else 0.3
        return Chosen(probabilities=(share, 1 - share), mass=0.8)

    [found] = rate(scripted(monkeypatch, "judge:m", Scripted(lambda text: "", shares)), [ASK])
    assert scores(found) == pytest.approx([0.8, 0.2])
    assert found.probabilities == pytest.approx((0.8, 0.2))
    assert (found.verdicts, found.raw) == (("A", "B"), None)


@pytest.mark.parametrize("kind", ["judge", "grader"])
def test_whether_text_is_asked_for_does_not_depend_on_the_batch(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Where probabilities are missing for one ask, that ask is answered in text, alone or among others."""
    digits = (1 / 9,) * 9

    def shares(text: str) -> Chosen | Failure:
        if "Odd?" in text:
            return Failure("no letter among the likeliest tokens")
        return Chosen(probabilities=(0.75, 0.25) if kind == "judge" else digits, mass=1.0)

    model = scripted(monkeypatch, f"{kind}:m", Scripted(lambda text: "[[A]]" if kind == "judge" else "5", shares))
    odd = msgspec.structs.replace(ASK, id="odd", prompt="Odd?")
    together = rate(model, [ASK, odd])
    assert together == [rate(model, [ask])[0] for ask in (ASK, odd)]
    assert together[0].raw is None and together[1].raw is not None
    assert together[1].scores is not None


def test_a_server_without_probabilities_is_asked_for_text(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Scripted(lambda text: "[[A]]" if first_is_tea(text) else "[[B]]")
    [found] = rate(scripted(monkeypatch, "judge:m", model), [ASK])
    assert scores(found) == [1.0, 0.0]
    [lost] = rate(scripted(monkeypatch, "judge:m,verdict=probabilities", Scripted(lambda text: "[[A]]")), [ASK])
    assert lost.unscored == "the server gives no token probabilities"


# What cannot be read or never came, and reading again.


@pytest.mark.parametrize("text", ["I cannot say.", "Verdict: A ... Verdict: B", ""])
def test_a_verdict_that_cannot_be_read_is_kept_and_not_guessed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    model = Scripted(lambda asked: "[[A]]" if first_is_tea(asked) else text)
    [found] = rate(scripted(monkeypatch, "judge:m,verdict=text", model), [ASK])
    assert found.unscored == "a verdict could not be read"
    assert found.raw is not None and json.loads(found.raw)["judge"] == ["[[A]]", text]
    assert read_again(found) == found


@pytest.mark.parametrize(("spec", "said"), [("judge:m,verdict=text", "[[A]]"), ("grader:m,grade=text", "7")])
def test_one_answer_that_never_came_leaves_the_ask_unscored(
    monkeypatch: pytest.MonkeyPatch, spec: str, said: str
) -> None:
    """Read again, what did come must not be taken for the whole."""

    def says(text: str) -> str | Failure:
        first = first_is_tea(text) or tea_stands_after("Response", text)
        return Failure("content filter") if first else said

    [found] = rate(scripted(monkeypatch, spec, Scripted(says)), [ASK])
    assert found.unscored == "content filter"
    assert found.raw is not None and said in found.raw
    assert read_again(found) == found


def test_what_a_reader_should_know_survives_reading_again() -> None:
    raw = msgspec.json.encode({"judge": ["[[A]]", "[[B]]"], "responses": 2}).decode()
    kept = Rating([1.0, 0.0], raw=raw, note="2 of 3 parts did not fit", verdicts=("A", "B"))
    assert read_again(kept) == kept
    assert read_again(Rating([1.0, 0.0], raw="words of another model")).raw == "words of another model"
    short = Rating(unscored="content filter", raw=json.dumps({"judge": ["[[A]]"], "responses": 2}))
    assert read_again(short) == short  # as runs wrote it before a missing answer had a place


def test_a_run_with_verdicts_in_text_is_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Reading again must not forget in which order the judge saw the responses."""

    def says(text: str) -> str:
        one, other = text.split("Response A:\n\n")[1].split("\n\nResponse B:\n\n")
        return "[[A]]" if len(one) > len(other.split("\n\nThe texts between")[0]) else "[[B]]"

    judge = scripted(monkeypatch, "judge:m,verdict=text", Scripted(says))
    summary = evaluate("mini", [judge], ["none"], limit=20, out=tmp_path)
    run = open_run(Path(summary.run))
    judged, again = (Ratings.of(run, again=again).browsed[judge.name, "none"] for again in (False, True))
    for item in run.read(ITEMS):
        longer = max(range(2), key=lambda index: len(item.responses[index]))
        assert scores(judged[item.id, 0])[longer] == 1.0
    assert summarise(run, again=True).results[0].orders == summary.results[0].orders
    assert again == judged
