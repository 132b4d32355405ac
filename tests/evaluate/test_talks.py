"""Talks of several turns: what a person chose earlier in a talk tells the talk, not the person."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest

from palate.evaluation import Summary, evaluate

WORDS = "river stone lamp cloud garden copper window paper mountain harbour violin candle ladder forest".split()


def table(file: Path, *, taste: bool) -> Path:
    """30 people with five talks of four turns; the mood of a talk decides its choices, or the taste of the person."""
    draw = random.Random(5)
    with file.open("w", newline="") as stream:
        lines = csv.writer(stream)
        lines.writerow(["user", "prompt", "chosen", "rejected", "created_at", "Conversation ID"])
        for who in range(30):
            likes_tea = draw.random() < 0.5
            for talk in range(5):
                tea = likes_tea if taste else draw.random() < 0.5
                for turn in range(4):
                    first, second, third = draw.sample(WORDS, 3)
                    number = f"{who}-{talk}-{turn}"
                    pair = [
                        f"Warm tea with honey by the {first}, {number}a.",
                        f"Strong coffee at the {second}, {number}b.",
                    ]
                    moment = f"2024-{talk + 1:02}-{who % 28 + 1:02}T{10 + turn}:00"
                    chosen, rejected = pair if tea else reversed(pair)
                    lines.writerow(
                        [f"u{who}", f"And the {third}, {number}?", chosen, rejected, moment, f"{who}:{talk}"]
                    )
    return file


def measured(file: Path, tmp_path: Path) -> Summary:
    return evaluate(str(file), ["overlap"], views=["none", "judgements:8", "swapped"], out=tmp_path / "runs")


@pytest.mark.filterwarnings("ignore:.*as the group")
@pytest.mark.parametrize("taste", [False, True])
def test_the_mood_of_a_talk_is_no_taste(taste: bool, tmp_path: Path) -> None:
    summary = measured(table(tmp_path / "talks.csv", taste=taste), tmp_path)
    [gain] = [one for one in summary.gains if one.view == "judgements:8" and one.over == "swapped"]
    assert gain.low is not None and gain.high is not None
    if taste:
        assert gain.low > 0.3
    else:
        assert gain.low < 0 < gain.high and abs(gain.difference) < 0.1
