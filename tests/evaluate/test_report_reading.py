from __future__ import annotations

import msgspec
import pytest
from report_sample import sample_summary

from palate.evaluation._findings import readings
from palate.evaluation._order import condensed, groups, is_control, telling_differences, view_kind, views
from palate.evaluation._results import Gain, Summary


def gain(value: float, over: str, *, clear: bool = True, view: str = "posts:5", rm: str = "embedding") -> Gain:
    half = abs(value) / 2 if clear else abs(value) + 0.02
    return Gain(
        rm=rm, view=view, over=over, n=300, users=60, difference=value, low=value - half, high=value + half,
        p=0.001 if clear else 0.3, q=0.002 if clear else 0.4,
    )  # fmt: skip


def read(*gains: Gain) -> str:
    summary = sample_summary(gains=list(gains), differences=[])
    return next(reading for reading in readings(summary) if reading.about == "embedding").sentence


def test_a_model_that_gains_over_both_uses_the_person() -> None:
    assert read(gain(0.14, "none"), gain(0.173, "swapped")) == (
        "embedding: it uses the person's own profile. "
        "Seeing posts:5 adds +14.0 points over no profile (95% +7.0 to +21.0) "
        "and +17.3 over a stranger's profile (95% +8.6 to +25.9)."
    )


def test_a_gain_that_may_be_zero_is_not_called_a_gain() -> None:
    text = read(gain(0.01, "none", clear=False), gain(0.02, "swapped", clear=False))
    assert text.startswith("embedding: this run does not show that it uses the person's own profile. ")
    assert "Seeing posts:5 brings no measurable gain over no profile (+1.0," in text


@pytest.mark.parametrize(
    ("over_none", "over_stranger", "verdict"),
    [
        (gain(0.1, "none"), gain(0.01, "swapped", clear=False), "does not show that it has to be this person's"),
        (gain(0.1, "none"), gain(-0.1, "swapped"), "it does better with a stranger's profile"),
        (gain(0.01, "none", clear=False), gain(0.1, "swapped"), "no gain over knowing nothing"),
        (gain(-0.1, "none"), gain(0.1, "swapped"), "better off without a profile"),
        (gain(-0.1, "none"), gain(0.01, "swapped", clear=False), "better off without a profile"),
    ],
)
def test_verdict_follows_from_both_gains(over_none: Gain, over_stranger: Gain, verdict: str) -> None:
    text = read(over_none, over_stranger)
    assert verdict in text
    assert "it uses the person's own profile" not in text


def test_without_a_stranger_it_does_not_say_that_the_person_helps() -> None:
    assert "no stranger's profile was tried" in read(gain(0.1, "none"))
    assert "it uses the person's own profile" not in read(gain(0.1, "none"))


def test_without_any_comparison_it_says_what_to_add() -> None:
    assert "add the views none and swapped" in read()


def test_small_q_with_an_interval_over_zero_is_no_gain() -> None:
    odd = msgspec.structs.replace(gain(0.1, "none"), low=-0.01)
    assert "no measurable gain" in read(odd)


def test_a_loss_is_written_as_a_cost() -> None:
    assert "costs 3.0 points against no profile (95% −4.5 to −1.5)" in read(gain(-0.03, "none"))


def test_a_twin_is_not_called_a_stranger() -> None:
    assert "over the twin's profile" in read(gain(0.1, "none"), gain(0.2, "twin"))


def test_a_plain_stranger_is_preferred_to_the_twin() -> None:
    text = read(gain(0.1, "none"), gain(0.3, "twin"), gain(0.2, "swapped"))
    assert "+20.0 over a stranger's profile" in text


def test_counting_shared_words_is_named_beside_a_model_that_uses_the_person() -> None:
    text = next(reading for reading in readings(sample_summary()) if reading.about == "embedding").text
    assert "it uses the person's own profile, " in text
    assert "counting shared words" in text


def test_controls_get_no_reading_and_every_model_gets_one() -> None:
    assert [reading.about for reading in readings(sample_summary())] == ["embedding"] * 2 + ["judge:small"] * 2


def test_a_model_without_scores_or_profile_is_read_carefully() -> None:
    summary = sample_summary()
    nothing = [
        msgspec.structs.replace(result, n=0, accuracy=None, low=None, high=None, macro=None, chance=None)
        for result in summary.results
    ]
    assert "no item has a score" in readings(msgspec.structs.replace(summary, results=nothing))[0].text
    only_none = [result for result in summary.results if result.view == "none"]
    assert "never shown a profile" in readings(msgspec.structs.replace(summary, results=only_none))[0].text


def test_order_is_models_then_controls_and_none_before_oracle() -> None:
    found = groups(sample_summary())
    assert [group.rm for group in found] == ["embedding", "judge:small", "random", "longest", "overlap"]
    assert [row.label for row in views(sample_summary())] == [
        "none",
        "posts:5",
        "judgements:4",
        "swapped",
        "oracle",
    ]


def test_a_control_that_never_changes_takes_one_row() -> None:
    rows = {group.rm: condensed(group) for group in groups(sample_summary())}
    assert [row.label for row in rows["random"]] == ["every view"]
    assert len(rows["overlap"]) == len(rows["embedding"]) == 5


def test_names_with_options_are_understood() -> None:
    assert is_control("overlap:posts,weight=idf")
    assert not is_control("first-reward")
    assert view_kind("swapped:posts:5") == "stranger"
    assert view_kind("anything", of="posts:5") == "stranger"
    assert view_kind("posts:5+judgements:4") == "profile"


def test_two_strangers_are_told_apart() -> None:
    summary = sample_summary()
    other = [
        msgspec.structs.replace(result, of="judgements:4") for result in summary.results if result.view == "swapped"
    ]
    both: Summary = msgspec.structs.replace(summary, results=summary.results + other)
    labels = [row.label for row in views(both)]
    assert "swapped of posts:5" in labels
    assert "swapped of judgements:4" in labels


def test_a_gain_without_an_interval_is_not_called_a_gain() -> None:
    bare = msgspec.structs.replace(gain(0.3, "none"), low=None, high=None)
    assert "no measurable gain over no profile (+30.0, too few users for an interval)" in read(bare)


def test_differences_put_the_model_before_the_control() -> None:
    summary = sample_summary()
    turned = [
        msgspec.structs.replace(found, rm=found.than, than=found.rm) if found.than == "overlap" else found
        for found in summary.differences
    ]
    found = telling_differences(msgspec.structs.replace(summary, differences=turned))
    assert {each.rm for each in found} == {"embedding", "judge:small"}
    assert found[0].difference == -summary.differences[0].difference
