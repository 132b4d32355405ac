"""Own, none and stranger downstream: a planted taste is found, a shuffled one is not, and empty views do not count."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from number_game import Noisy, Normal, Worth, drawn, numbers
from rich.console import Console

from palate import Ask, Rating
from palate.downstream import BEST_OF_N, GUIDE, BestOfNSummary, Drawing, Guiding, best_of, best_of_n, guide
from palate.downstream._items import ITEMS
from palate.downstream._personal import PersonalGain, personal_findings, shared_prompts
from palate.downstream._samples import SAMPLES
from palate.downstream.best_of_n._run import GRADES, RATINGS
from palate.engine import Failure, WriteRequest, Written
from palate.records import Benchmark, Draft, Grade, User, View
from palate.report import print_document
from palate.runs import open_run
from palate.simulate import simulate, taste_of, utility
from palate.simulate._pool import pool
from palate.stats import false_discovery
from tiny_models import TinyModels

TEXTS = [text for offer in pool(0, "mini", None) for text in offer.responses]


class Library(Normal):
    """A policy that writes what somebody wrote before, drawn by the seed."""

    name = "library"

    def _write(self, request: WriteRequest) -> list[Written] | Failure:
        chosen = drawn(request.sampling.seed, request.turns[-1].content).choice(len(TEXTS), request.samples)
        return [Written(text=TEXTS[place], tokens=9, finished=True) for place in chosen]


class Knows:
    """A reward model that knows the taste of whoever it is shown, and of nobody where it is shown nothing.

    With `shuffled`, what it takes for a user's taste is somebody else's, so that there is nothing personal in it.
    """

    name = "knows"

    def __init__(self, shuffled: dict[str, str] | None = None) -> None:
        self.shuffled = shuffled
        self.fingerprint = str(shuffled)

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        return [Rating([self._score(ask.view, text) for text in ask.responses]) for ask in asks]

    def _score(self, view: View, text: str) -> float:
        if not view.parts or view.user_id is None:
            return 0.0
        return utility(taste_of((self.shuffled or {}).get(view.user_id, view.user_id)), text)


def chosen(benchmark: Benchmark, model: object, out: Path, **options: object) -> BestOfNSummary:
    given = {"drawing": Drawing(samples=8, tokens=64), "steps": [1, 8], "out": out} | options
    return best_of_n(benchmark, Library(), [model], "sim", **given)  # type: ignore[list-item, arg-type]


def gains(found: Sequence[PersonalGain]) -> dict[str, PersonalGain]:
    return {gain.over: gain for gain in found}


def sim(seed: int = 1, users: int = 40) -> Benchmark:
    return simulate(seed=seed, users=users, judgements=4, items=2)


def test_a_planted_taste_is_found_over_none_and_over_strangers(tmp_path: Path) -> None:
    summary = chosen(sim(), Knows(), tmp_path)
    assert [curve.view for curve in summary.curves if curve.kind == "model"] == ["none", "judgements:4", "swapped"]
    score = {curve.view: curve.points[-1].score or 0 for curve in summary.curves if curve.kind == "model"}
    assert score["judgements:4"] > 1 > score["none"] + 0.5
    found = gains(summary.personal)
    assert set(found) == {"none", "swapped"}
    for over, gain in found.items():
        assert (gain.low or 0) > 0.5 and gain.q < 0.001 and gain.n == 80 and gain.left_out == 0
        assert gain.difference == pytest.approx(score["judgements:4"] - score[over])
    assert abs(score["swapped"] - score["none"]) < 0.25, "a stranger's taste is worth nothing to this user"
    [said] = [finding for finding in summary.findings if "gives a personal gain" in finding.text]
    assert said.severity == "good" and "over no profile" in said.text and "over a stranger's" in said.text


@pytest.mark.parametrize("seed", range(3))
def test_a_taste_that_is_somebody_else_s_is_no_gain(seed: int, tmp_path: Path) -> None:
    """Users shuffled over items: couples go to couples, so that nobody gets their opposite's taste."""
    benchmark = sim(seed)
    names = sorted(benchmark.users)
    moved = np.random.default_rng(seed).permutation(len(names) // 2)
    moved = np.roll(moved, 1)[np.argsort(moved)]  # a cycle, so that nobody stays
    shuffled = {name: names[2 * moved[place // 2] + place % 2] for place, name in enumerate(names)}
    assert all(name != other for name, other in shuffled.items())
    summary = chosen(benchmark, Knows(shuffled), tmp_path)
    for gain in summary.personal:
        assert gain.q > 0.05 and (gain.low or 0) < 0 < (gain.high or 0)
    assert any(finding.text.startswith("No measurable personal gain") for finding in summary.findings)


def test_items_with_nothing_to_show_are_left_out_and_said_on_the_first_screen(tmp_path: Path) -> None:
    benchmark = sim()
    bare = {
        name: User(id=name) if place < 10 else user
        for place, (name, user) in enumerate(sorted(benchmark.users.items()))
    }
    cut = msgspec.structs.replace(benchmark, users=bare)
    summary = chosen(cut, Knows(), tmp_path)
    for gain in summary.personal:
        assert (gain.n, gain.left_out, gain.users) == (60, 20, 30)
    whole = {curve.view: curve for curve in summary.curves if curve.kind == "model"}
    pooled = (whole["judgements:4"].points[-1].score or 0) - (whole["none"].points[-1].score or 0)
    assert gains(summary.personal)["none"].difference == pytest.approx(pooled * 80 / 60), "the others dilute it"
    [shown] = [one for one in summary.shown if one.view == "judgements:4"]
    assert (shown.items, shown.empty, shown.pieces) == (80, 20, 4.0)
    console = Console(width=100, record=True, file=io.StringIO())
    print_document(BEST_OF_N.document(open_run(Path(summary.run)), summary), console)
    assert "20 of 80 items have nothing to show" in " ".join(console.export_text().split())


def test_a_stranger_s_score_is_the_mean_over_several(tmp_path: Path) -> None:
    summary = chosen(sim(users=12), Knows(), tmp_path)
    run = open_run(Path(summary.run))
    ratings = {line.key: line.rating for line in run.read(RATINGS)}
    grades = run.lines(GRADES)
    lines = [msgspec.json.decode(line) for line in (run.folder / "views.jsonl").read_bytes().splitlines()]
    expected = []
    for item in run.read(ITEMS):
        strangers = [one for one in lines if one["view"] == "swapped" and one["item"] == item.id]
        assert len({one["user_id"] for one in strangers}) == len(strangers) == 3
        assert item.user_id not in {one["user_id"] for one in strangers}
        assert all(one["kinds"] == {"judgement": 4} for one in strangers)
        worth = [grade.score or 0 for grade in grades["none", item.id].grades]
        rated = [ratings["none", "knows", "swapped", item.id, draw].scores or () for draw in range(3)]
        expected.append(np.mean([best_of(scores, worth, 8) for scores in rated]))
    [curve] = [one for one in summary.curves if one.view == "swapped"]
    assert curve.points[-1].score == pytest.approx(float(np.mean(expected)))


def test_the_false_discovery_rate_is_held_over_all_that_is_printed(tmp_path: Path) -> None:
    summary = chosen(sim(users=12), Knows(), tmp_path)
    tests = [one for one in (*summary.differences, *summary.personal) if one.difference]  # 0 by design is no test
    assert len(tests) == 4
    assert [one.q for one in tests] == pytest.approx(false_discovery([one.p for one in tests]))


def test_that_users_share_prompts_is_told(tmp_path: Path) -> None:
    own = numbers(6)
    shared = tuple(msgspec.structs.replace(item, prompt="Write a number.") for item in own.comparisons)
    for held, told in ((own, []), (msgspec.structs.replace(own, comparisons=shared), ["6 of 6"])):
        summary = best_of_n(held, Normal(), [Noisy()], Worth(), views=["none"], out=tmp_path)
        said = [finding for finding in summary.findings if "share prompts" in finding.text]
        assert [one.text for one in said] == [
            f"users share prompts ({part} items): intervals are for new users and these prompts" for part in told
        ]
        assert all(one.severity == "note" for one in said)
    # a couple of twins is one cluster, and shares nothing with anybody else
    assert shared_prompts(shared[:2], np.array([0, 0])) == []


def test_a_view_without_its_controls_is_warned_of(tmp_path: Path) -> None:
    summary = best_of_n(numbers(6), Normal(), [Noisy()], Worth(), views=["judgements:1"], out=tmp_path)
    [said] = [finding for finding in summary.findings if "to compare with, so this run cannot say" in finding.text]
    assert said.severity == "warning" and "--view none --view swapped" in said.text and not summary.personal


def test_what_the_policy_is_shown_has_its_controls_too(tmp_path: Path) -> None:
    """Any profile moves this policy, so that examples are worth much over none and nothing over a stranger's."""
    summary = best_of_n(
        numbers(40),
        Normal(taught=2.5),
        [Noisy()],
        Worth(),
        views=["none"],
        policy_views=["none", "judgements:1", "swapped"],
        drawing=Drawing(samples=4),
        out=tmp_path,
    )
    found = gains(summary.personal)
    assert found["none"].difference == pytest.approx(2.5, abs=0.3) and found["none"].q < 0.001
    assert found["swapped"].q > 0.05 and found["swapped"].who == "the policy alone"
    [said] = [finding.text for finding in summary.findings if "is not shown to be personal" in finding.text]
    assert "over a stranger's view (swapped), not established" in said
    samples = open_run(Path(summary.run)).lines(SAMPLES)
    assert all((line.stranger is None) == (view != "swapped") for (view, _), line in samples.items())


def test_a_cost_is_said_as_one() -> None:
    gain = PersonalGain(
        who="best of 8 by embedding", measure="the critic's score", view="posts:5", over="none", left_out=0, n=107,
        users=90, difference=-0.028, low=-0.05, high=-0.006, p=0.004, q=0.012,
    )  # fmt: skip
    [said] = personal_findings([gain])
    assert said.severity == "warning"
    assert said.text == (
        "best of 8 by embedding: seeing the user's own posts:5 costs 0.028 in the critic's score against seeing "
        "no profile (95% −0.050 to −0.006, q = .012)"
    )


class Letter:
    """Pays for the letter that the user of the view loves, e or t, by the number at the end of the id; and marks so."""

    name = fingerprint = "letter"

    def require(self, items: object) -> None:
        return None

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        return [
            Rating([loved(ask.view.user_id, text) if ask.view.parts else 0.0 for text in ask.responses]) for ask in asks
        ]

    def judge(self, drafts: Sequence[Draft]) -> list[Grade]:
        return [Grade(loved(draft.item.user_id, draft.text)) for draft in drafts]


def loved(user: str | None, text: str) -> float:
    number = int((user or "user-0").rpartition("-")[2])
    return float(text.count("et"[number % 2]) - text.count("te"[number % 2]))


def test_a_planted_taste_guides_a_policy(tiny_models: TinyModels, tmp_path: Path) -> None:
    summary = guide(
        numbers(8),
        str(tiny_models.causal()),
        [Letter()],
        Letter(),
        guiding=Guiding(top_k=16, tokens=3),
        weights=[100],
        accuracy=False,
        out=tmp_path,
    )
    assert summary.complete and {one.view for one in summary.texts if one.rm} == {"none", "judgements:4", "swapped"}
    found = gains(summary.personal)
    assert found["none"].difference > 0 and found["none"].p < 0.05 and found["swapped"].difference > 0
    assert found["none"].who == "guided by letter at weight 100" and found["none"].n == 8
    assert [one.strangers for one in summary.shown if one.view == "swapped"] == [1]
    assert GUIDE.summarise(open_run(Path(summary.run))) == summary
