"""The true utility as a reward model: it rates for whoever the view is of, and for nobody else."""

from __future__ import annotations

import pytest

from palate.data import load_benchmark
from palate.evaluation import evaluate
from palate.records import Ask, Draft, View
from palate.rewards import check_reward_model, make_reward_model
from palate.simulate import SimulatedCritic
from palate.views import Missing, ViewBuilder, parse_view


def test_it_says_what_the_critic_says() -> None:
    benchmark = load_benchmark("sim,users=4,items=3")
    views = ViewBuilder(benchmark).build(parse_view("user"), benchmark.comparisons)
    asks = []
    for item, view in zip(benchmark.comparisons, views, strict=True):
        assert not isinstance(view, Missing)
        asks.append(Ask(id=item.id, prompt=item.prompt, responses=item.responses, view=view))
    drafts = [Draft(item=item, text=text) for item in benchmark.comparisons for text in item.responses]
    marks = [mark.score for mark in SimulatedCritic().judge(drafts)]
    assert [score for one in make_reward_model("sim").rate(asks) for score in one.scores or ()] == pytest.approx(marks)


@pytest.mark.parametrize(
    ("view", "text"),
    [
        (View(name="none"), "words"),
        (View(name="user", user_id="ann"), "words"),
        (View(name="user", user_id="sim-0-001"), " "),
    ],
)
def test_what_it_cannot_know_is_unscored(view: View, text: str) -> None:
    [rating] = make_reward_model("sim").rate([Ask(id="q", prompt="p", responses=(text, "more"), view=view)])
    assert rating.unscored


def test_it_is_as_right_as_one_can_be_and_wrong_with_a_strangers_view(tmp_path: object) -> None:
    summary = evaluate("sim,users=20,seed=5", ["sim"], ["judgements:4", "swapped"], out=str(tmp_path))
    own, other = (result.accuracy or 0.0 for result in summary.results)
    assert own > 0.85
    assert abs(other - 0.5) < 0.15


def test_it_keeps_the_contract() -> None:
    assert not [check for check in check_reward_model(make_reward_model("sim")) if check.fault]
