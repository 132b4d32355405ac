"""Published figures: the paper's metric and ours, their intervals, and the closed-form model of votes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from palate.data import Vote, load_votes
from palate.personal._reproduce import Figures, Measure, TwoWayEstimate, headroom
from palate.personal._votes import Ballots, SideFolds, fit_shared, root_of, solve


def vote(voter: str, side: str, choice: int, responses: tuple[str, str] = ("a", "bb")) -> Vote:
    return Vote(
        id=f"{voter}:{side}:{responses}", voter=voter, side=side, prompt=side, responses=responses, choice=choice
    )


def longest(ballots: Ballots) -> np.ndarray:
    length = np.array([len(text) for text in ballots.texts], float)
    return ballots.margins(length, np.arange(len(ballots.ids)))[None]


def test_the_papers_metric_is_a_mean_over_sides_of_means_over_voters() -> None:
    votes = [
        # On the first side anna is right once of two, ben always; carl has one strict vote, dora is known nowhere else.
        *(vote("anna", "one", choice) for choice in (1, -1)),
        *(vote("ben", "one", -1) for _ in range(4)),
        *(vote("carl", "one", choice) for choice in (1, 0)),
        *(vote("dora", "one", 1) for _ in range(2)),
        # On the second side everybody is right, and ben's 51 ties make anybody's elsewhere "over 50" of his.
        *(vote(name, "two", -1) for name in ("anna", "ben", "carl") for _ in range(2)),
        *(vote("ben", "two", 0) for _ in range(49)),
    ]
    ballots = Ballots.of(votes)
    measure = Measure(ballots)
    figures = measure.figures(measure.credits(longest(ballots)))
    assert figures.by_fold.value == pytest.approx(np.mean([np.mean([0.5, 1.0]), 1.0]))
    assert figures.by_fold_much.value == pytest.approx(
        1.0
    )  # ben on the first side: 2 strict votes and 49 ties elsewhere
    assert figures.by_vote.value == pytest.approx((1 + 4 + 0 + 0 + 6) / 15)


def test_longest_on_the_crowd_sample_is_what_the_authors_code_gives(data_dir: Path) -> None:
    ballots = Ballots.of(load_votes("convarg-crowdsample", data_dir=data_dir))
    measure = Measure(ballots)
    figures = measure.figures(measure.credits(longest(ballots)))
    assert (len(ballots.ids), ballots.strict.sum(), ballots.sides) == (16_927, 13_228, 32)
    assert figures.by_fold.value == pytest.approx(0.697, abs=5e-4)
    assert figures.by_fold_much.value == pytest.approx(0.724, abs=5e-4)
    assert figures.by_vote.value == pytest.approx(0.684, abs=5e-4)


@pytest.mark.parametrize("metric", ["by_vote", "by_fold"])
def test_intervals_hold_for_new_voters_and_new_sides(metric: str) -> None:
    rng = np.random.default_rng(0)
    voters, sides, each = 60, 24, 3
    votes = [
        vote(f"{voter:03}", f"{side:02}", -1) for voter in range(voters) for side in range(sides) for _ in range(each)
    ]
    ballots = Ballots.of(votes)
    measure = Measure(ballots)
    held = []
    for _ in range(300):
        chance = 0.7 + rng.normal(0, 0.05, (voters, 1)) + rng.normal(0, 0.05, (1, sides))
        figure = getattr(measure.figures(rng.binomial(each, chance.clip(0, 1)).astype(float)), metric)
        held.append(figure.low <= 0.7 <= figure.high)
    assert 0.91 <= np.mean(held) <= 0.98


def random_ballots(rng: np.random.Generator, votes: int = 40) -> Ballots:
    texts = [f"{'word ' * place}end" for place in range(8)]
    pairs = [tuple(rng.choice(texts, 2, replace=False)) for _ in range(votes)]
    return Ballots.of([vote("anna", "one", int(rng.integers(-1, 2)), pair) for pair in pairs])


def test_everybodys_taste_is_the_ridge_regression_of_votes_on_differences() -> None:
    rng = np.random.default_rng(1)
    ballots = random_ballots(rng)
    rows = rng.normal(size=(len(ballots.texts), 5))
    root = root_of(rows @ rows.T)
    [found] = fit_shared(ballots, root, [2.0], np.ones(len(ballots.ids), bool))
    difference = rows[ballots.first] - rows[ballots.second]
    weights = np.linalg.solve(difference.T @ difference + 2 * np.eye(5), difference.T @ ballots.choice)
    assert found == pytest.approx(rows @ weights, abs=1e-3)


def test_a_voters_part_is_the_ridge_regression_of_what_was_missed() -> None:
    rng = np.random.default_rng(2)
    known, asked, missed = rng.normal(size=(30, 4)), rng.normal(size=(6, 4)), rng.normal(size=30)
    weights = np.linalg.solve(known.T @ known + 3 * np.eye(4), known.T @ missed)
    assert asked @ known.T @ solve(known @ known.T, 3.0, missed) == pytest.approx(asked @ weights)


def planted(taste: float) -> Ballots:
    """Forty voters on eight sides; half of them take the longer text with this probability, half the shorter."""
    rng = np.random.default_rng(3)
    votes = []
    for side in range(8):
        texts = [f"{'word ' * int(rng.integers(1, 60))}of {side} {place}" for place in range(12)]
        for voter in range(40):
            for _ in range(8):
                pair = tuple(rng.choice(texts, 2, replace=False))
                longer = 1 if len(pair[0]) > len(pair[1]) else -1
                follows = 1 if rng.random() < taste else -1
                votes.append(vote(f"{voter:02}", str(side), longer * follows * (1 if voter % 2 else -1), pair))
    return Ballots.of(votes)


def own_gain(ballots: Ballots, whose: str) -> Figures:
    folds = SideFolds(ballots, ["traits"], ["traits"])
    margins, rewards, chosen = folds.shared_margins(["traits"])
    measure = Measure(ballots)
    own = folds.own_margins(rewards, folds.choose_own(chosen), whose)
    return measure.figures(measure.credits(margins + own) - measure.credits(margins[None]))


def test_a_planted_habit_is_found_and_a_strangers_is_not() -> None:
    ballots = planted(0.8)
    found = own_gain(ballots, "own")
    assert 0.2 < found.by_vote.value < 0.35
    assert found.by_vote.low > 0
    assert found.by_fold.low > 0
    assert own_gain(ballots, "stranger").by_vote.value < 0.1


def test_coin_flips_show_no_gain() -> None:
    found = own_gain(planted(0.5), "own")
    assert found.by_vote.low < 0 < found.by_vote.high


def test_headroom_tells_a_habit_from_chance() -> None:
    nothing = Figures(*[TwoWayEstimate(0.0, -0.1, 0.1)] * 4)
    for taste, spread, reliable in ((0.8, 0.3, True), (0.5, 0.0, False)):
        ballots = planted(taste)
        votes = [
            Vote(
                id=one,
                voter=f"{voter:02}",
                side=str(side),
                prompt="",
                responses=(ballots.texts[first], ballots.texts[second]),
                choice=int(choice),
            )
            for one, voter, side, first, second, choice in zip(
                ballots.ids, ballots.voter, ballots.side, ballots.first, ballots.second, ballots.choice, strict=True
            )
        ]
        room = headroom(votes, nothing, nothing)
        assert room.longer_spread == pytest.approx(spread, abs=0.05)
        assert (room.longer_reliability > 0.8) == reliable
