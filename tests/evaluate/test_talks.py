"""Talks of several turns: what a person chose earlier in a talk tells the talk, not the person."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import pytest

from palate.data import History, load_benchmark
from palate.evaluation import Summary, evaluate
from palate.records import Benchmark, Card, Comparison, Judgement, User

WORDS = "river stone lamp cloud garden copper window paper mountain harbour violin candle ladder forest".split()


def table(file: Path, *, taste: bool, talk_column: str = "Conversation ID", numbered: bool = False) -> Path:
    """30 people with five talks of four turns; the mood of a talk decides its choices, or the taste of the person.

    Talks have ids of their own, or each person's are numbered. Without their column, a prompt is the talk so far.
    """
    draw = random.Random(5)
    with file.open("w", newline="") as stream:
        lines = csv.writer(stream)
        lines.writerow(["user", "prompt", "chosen", "rejected", "created_at", talk_column][: 6 if talk_column else 5])
        for who in range(30):
            likes_tea = draw.random() < 0.5
            for talk in range(5):
                tea = likes_tea if taste else draw.random() < 0.5
                said: list[dict[str, str]] = []
                for turn in range(4):
                    first, second, third = draw.sample(WORDS, 3)
                    number = f"{who}-{talk}-{turn}"
                    pair = [
                        f"Warm tea with honey by the {first}, {number}a.",
                        f"Strong coffee at the {second}, {number}b.",
                    ]
                    moment = f"2024-{talk + 1:02}-{who % 28 + 1:02}T{10 + turn}:00"
                    chosen, rejected = pair if tea else reversed(pair)
                    question = f"And the {third}, {number}?"
                    said.append({"role": "user", "content": question})
                    prompt, talk_id = question, str(talk) if numbered else f"{who}:{talk}"
                    row = [f"u{who}", prompt, chosen, rejected, moment, talk_id]
                    if not talk_column:
                        row[1:] = [json.dumps(said), chosen, rejected, moment]
                    lines.writerow(row)
                    said.append({"role": "assistant", "content": chosen})
    return file


def measured(file: Path, tmp_path: Path) -> Summary:
    return evaluate(str(file), ["overlap"], views=["none", "judgements:8", "swapped"], out=tmp_path / "runs")


def check_gain(summary: Summary, *, taste: bool, least: float = 0.0, most: float = 0.1) -> None:
    """A taste is found over strangers, by more than the least; without one, no gain is, nor more than the most."""
    [gain] = [one for one in summary.gains if one.view == "judgements:8" and one.over == "swapped"]
    assert gain.low is not None and gain.high is not None
    if taste:
        assert gain.low > least
    else:
        assert gain.low < 0 and abs(gain.difference) < most


@pytest.mark.filterwarnings("ignore:.*as the group")
@pytest.mark.parametrize("taste", [False, True])
def test_the_mood_of_a_talk_is_no_taste(taste: bool, tmp_path: Path) -> None:
    summary = measured(table(tmp_path / "talks.csv", taste=taste), tmp_path)
    check_gain(summary, taste=taste, least=0.3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("talk_column", "numbered"), [("message_tree_id", False), ("conv_id", False), ("session_id", True), ("", False)]
)
def test_talks_are_known_however_they_are_written(talk_column: str, numbered: bool, tmp_path: Path) -> None:
    file = table(tmp_path / "talks.csv", taste=False, talk_column=talk_column, numbered=numbered)
    summary = measured(file, tmp_path)
    check_gain(summary, taste=False)


def judged_together(*, people: int, twins: bool = False, taste: bool = False) -> Benchmark:
    """Talks of four turns, each judged by some of 30 people, whose choices its mood decides, or a taste."""
    draw = random.Random(5)
    likes_tea = [draw.random() < 0.5 for _ in range(30)]
    items: list[Comparison] = []
    for talk in range(480 // people):
        tea, first = draw.random() < 0.5, draw.randrange(15) * 2
        who = [first, first + 1] if twins else draw.sample(range(30), people)
        for turn in range(4):
            one, other, third = draw.sample(WORDS, 3)
            number = f"{talk}-{turn}"
            pair = (f"Warm tea with honey by the {one}, {number}a.", f"Strong coffee at the {other}, {number}b.")
            for place, person in enumerate(who):
                wanted = likes_tea[person] if taste else tea != (twins and place == 1)
                items.append(
                    Comparison(
                        id=f"{number}-{person}",
                        user_id=f"u{person}",
                        prompt=f"And the {third}, {number}?",
                        responses=pair,
                        preferred=0 if wanted else 1,
                        group=f"talk {talk}",
                        twin=f"{number}-{who[1 - place]}" if twins else None,
                        date=f"2024-{talk // 28 + 1:02}-{talk % 28 + 1:02}T{10 + turn}:00",
                    )
                )
    past: dict[str, list[Judgement]] = {}
    for item in items:
        kept = {name: getattr(item, name) for name in ("id", "prompt", "responses", "preferred", "date")}
        past.setdefault(item.user_id, []).append(Judgement(**kept))
    users = {name: User(id=name, judgements=tuple(judged)) for name, judged in past.items()}
    card = Card(name="talks", title="talks", version="1", licence="MIT", source="invented")
    return Benchmark(card=card, users=users, comparisons=tuple(items), completions=())


@pytest.mark.parametrize(
    ("people", "twins", "taste"),
    [(2, False, False), (2, True, False), (5, False, False), (5, False, True)],
)
def test_a_talk_that_some_people_judged_is_no_taste(people: int, twins: bool, taste: bool, tmp_path: Path) -> None:
    """Strangers are rarely of the same talk, and a twin never is a stranger."""
    held = judged_together(people=people, twins=twins, taste=taste)
    summary = evaluate(held, ["overlap"], views=["none", "judgements:8", "swapped"], out=tmp_path / "runs")
    check_gain(summary, taste=taste, least=0.1, most=0.03)


def test_short_answers_tell_which_talk_goes_on(tmp_path: Path) -> None:
    earlier = Judgement(prompt="Tea?", responses=("Yes.", "No."), preferred=0, id="first", date="2024-01-01")
    apart = Judgement(prompt="Cake?", responses=("Yes.", "No."), preferred=0, id="other", date="2024-01-02")
    item = Comparison(
        id="last",
        user_id="ann",
        prompt="User: Tea?\n\nAssistant: Yes.\n\nUser: With milk?",
        responses=("A drop of it.", "None at all."),
        preferred=0,
        date="2024-02-01",
    )
    ann = User(id="ann", judgements=(earlier, apart))
    card = Card(name="talk", title="talk", version="1", licence="MIT", source="invented")
    history = History(Benchmark(card=card, users={"ann": ann}, comparisons=(item,), completions=()))
    assert [one.id for one in history.judgements(ann, item).events] == ["other"]


def test_a_talk_that_two_people_judged_is_one_group(tmp_path: Path) -> None:
    file = tmp_path / "shared.csv"
    rows = [("user", "prompt", "chosen", "rejected", "session_id")]
    rows += [
        (who, f"{asks} {talk}?", f"a {talk}", f"b {talk}", talk) for talk in "123" for who in "xy" for asks in "pq"
    ]
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)
    with pytest.warns(UserWarning, match="as the group"):
        assert {one.group for one in load_benchmark(str(file)).comparisons} == {"1", "2", "3"}
