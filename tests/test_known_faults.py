"""Faults that earlier tools had, one test each, so that ours never has them."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from palate import Ask, Benchmark, Rating, evaluate, load_benchmark
from palate.evaluation import RATINGS, make_ask
from palate.records import View
from palate.runs import open_run
from palate.stats._intervals import Quantity, Resamples, paired_differences, ratio
from palate.views import ViewBuilder, parse_budget, parse_view


class Witness:
    """Remembers what it was asked, and answers as it is told."""

    name = fingerprint = "witness"

    def __init__(self, rating: Rating | None = None) -> None:
        self.asks: list[Ask] = []
        self.rating = rating

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        self.asks += asks
        return [self.rating or Rating(scores=[0.0] * len(ask.responses)) for ask in asks]


@pytest.fixture(scope="module")
def mini() -> Benchmark:
    return load_benchmark("mini")


def test_the_profile_reaches_the_reward_model(mini: Benchmark, tmp_path: Path) -> None:
    witness = Witness()
    evaluate(mini, [witness], ["none", "posts:3", "judgements:2"], limit=10, out=tmp_path)
    owner = {item.id: mini.users[item.user_id] for item in mini.comparisons}
    for ask in witness.asks:
        user = owner[ask.id]
        if ask.view.name == "none":
            assert ask.view.text == ""
        elif ask.view.name == "posts:3":
            assert sum(post.text in ask.view.text for post in user.posts) == 3
        else:
            assert sum(judged.chosen in ask.view.text for judged in user.judgements) == 2


def test_what_is_privileged_does_not(mini: Benchmark, tmp_path: Path) -> None:
    witness = Witness()
    evaluate(mini, [witness], ["none", "demographics+values+posts+judgements", "swapped"], out=tmp_path)
    secrets = {item.id: item.privileged for item in mini.comparisons}
    owner = {item.id: item.user_id for item in mini.comparisons}
    for ask in witness.asks:
        seen = msgspec.json.encode(ask).decode()
        secret = secrets[ask.id]
        assert secret.narrative and secret.narrative not in seen
        own = msgspec.json.encode(mini.users[owner[ask.id]]).decode()  # one reason quotes its user's own post
        assert all(aspect.reason in own or aspect.reason not in seen for aspect in secret.aspects if aspect.reason)


@pytest.mark.parametrize(
    "rating", [Rating(unscored="the verdict could not be read"), Rating(scores=[float("nan"), 1.0])], ids=repr
)
def test_an_answer_that_cannot_be_read_is_no_win_no_loss_and_no_half(
    mini: Benchmark, tmp_path: Path, rating: Rating
) -> None:
    [result] = evaluate(mini, [Witness(rating)], ["none"], limit=10, out=tmp_path).results
    assert (result.n, result.accuracy, result.unscored, result.ties) == (0, None, 10, 0)


def test_dropping_an_item_changes_the_order_of_no_other(mini: Benchmark) -> None:
    view = View(name="none")
    whole = {item.id: make_ask(item, view, seed=7).responses for item in mini.comparisons}
    for item in mini.comparisons[::-1][5:]:
        assert make_ask(item, view, seed=7).responses == whole[item.id]


def test_two_reward_models_never_share_a_folder(mini: Benchmark, tmp_path: Path) -> None:
    runs = [evaluate(mini, [name], ["none"], limit=4, out=tmp_path).run for name in ("longest", "shortest")]
    assert runs[0] != runs[1]
    for run, name in zip(runs, ("longest", "shortest"), strict=True):
        assert {line.rm for line in open_run(Path(run)).read(RATINGS)} == {name}


@pytest.mark.parametrize("retriever", ["bm25", "recent", "random"])
def test_ranked_posts_keep_their_own_ids(mini: Benchmark, retriever: str) -> None:
    builder = ViewBuilder(mini, retriever=retriever)
    for item, view in zip(mini.comparisons, builder.build(parse_view("posts:8"), mini.comparisons), strict=True):
        assert isinstance(view, View)
        written = {post.id: post.text for post in mini.users[item.user_id].posts}
        assert {part.id: part.content for part in view.parts} == written


def test_a_budget_cuts_the_profile_and_never_the_response(mini: Benchmark, tmp_path: Path) -> None:
    witness = Witness()
    evaluate(mini, [witness], ["posts:8"], budget="words:60", limit=20, out=tmp_path)
    held = {item.id: item for item in mini.comparisons}
    for ask in witness.asks:
        assert len(ask.view.text.split()) <= 60 and ask.view.dropped > 0
        assert sorted(ask.responses) == sorted(held[ask.id].responses)
        assert ask.prompt == held[ask.id].prompt
    builder = ViewBuilder(mini, budget=parse_budget("words:60"))
    [view] = builder.build(parse_view("posts:8"), mini.comparisons[:1])
    assert isinstance(view, View)
    written = {post.text for post in mini.users[mini.comparisons[0].user_id].posts}
    assert all(part.content in written for part in view.parts), "whole posts go, no post is cut"


def test_paired_data_gets_a_paired_test() -> None:
    """Two models that differ by the same little on every user: plain to a paired test, lost to another."""
    by_user = np.array([[0.02, 1.0]] * 12)
    [found] = paired_differences([Quantity(by_user, ratio)], Resamples(12))
    assert found.p == 2 / 2**12
    assert found.low is not None and found.low > 0


def test_the_long_profile_is_handed_over_once_whatever_the_number_of_responses(tmp_path: Path) -> None:
    mini = load_benchmark("mini")
    item = mini.comparisons[0]
    many = msgspec.structs.replace(item, responses=tuple(f"response {n}" for n in range(16)), twin=None)
    held = Benchmark(card=mini.card, users=mini.users, comparisons=(many,))
    witness = Witness()
    evaluate(held, [witness], ["posts:8"], out=tmp_path)
    [ask] = witness.asks
    assert len(ask.responses) == 16
