"""Active choice: the model, what a pair tells, the draw with known probabilities, and what undoes its bias."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from collection import make_collection
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from simulated_collection import collect, items_of

from palate.collect._active import (
    Posterior,
    choose_next,
    correction_weights,
    draw_probabilities,
    fit,
    information,
    pair_features,
    weighted_accuracy,
)
from palate.collect._records import Answer, Item
from palate.records import PalateError


def test_the_posterior_is_at_the_largest_value_with_the_curvature_there() -> None:
    random = np.random.default_rng(0)
    rows, truth = random.normal(size=(40, 5)), random.normal(size=5)
    taken = (random.random(40) < 1 / (1 + np.exp(-rows @ truth))).astype(float)

    def loss(weights: np.ndarray) -> float:
        margins = rows @ weights
        return float(np.logaddexp(0, margins).sum() - taken @ margins + 0.25 * weights @ weights / 2)

    posterior = fit(rows, taken)
    assert posterior.mean == pytest.approx(minimize(loss, np.zeros(5)).x, abs=1e-4)
    step = 1e-3 * np.eye(5)
    at = posterior.mean
    hessian = [
        [(loss(at + a + b) - loss(at + a - b) - loss(at - a + b) + loss(at - a - b)) / 4e-6 for a in step] for b in step
    ]
    assert posterior.covariance == pytest.approx(np.linalg.inv(hessian), rel=1e-3, abs=1e-4)


def test_separable_answers_do_not_run_away() -> None:
    posterior = fit(np.array([[1.0, 0.0], [2.0, 0.0]]), [1, 1])
    assert np.isfinite(posterior.mean).all() and 0 < posterior.mean[0] < 10


def test_information_is_what_sampling_says() -> None:
    random = np.random.default_rng(1)
    square = random.normal(size=(3, 3))
    posterior = Posterior(random.normal(size=3), square @ square.T)
    pairs = random.normal(size=(6, 3))
    weights = random.multivariate_normal(posterior.mean, posterior.covariance, size=100_000)
    chances = 1 / (1 + np.exp(-pairs @ weights.T))

    def entropy(p: np.ndarray) -> np.ndarray:
        p = np.clip(p, 1e-12, 1 - 1e-12)
        return -(p * np.log(p) + (1 - p) * np.log(1 - p))

    sampled = entropy(chances.mean(axis=1)) - entropy(chances).mean(axis=1)
    assert information(posterior, pairs) == pytest.approx(sampled, abs=0.01)


def test_a_pair_of_equal_texts_tells_nothing_and_an_unknown_direction_most() -> None:
    posterior = fit(np.array([[1.0, 0.0]] * 30), [1] * 15 + [0] * 15)
    same, known, unknown = information(posterior, np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    assert same == pytest.approx(0, abs=1e-12)
    assert 0 < known < unknown


@given(st.lists(st.floats(0, 0.7), min_size=1, max_size=30), st.floats(0.01, 1))
def test_every_pair_has_a_chance(told: list[float], epsilon: float) -> None:
    chances = draw_probabilities(np.array(told), epsilon=epsilon)
    assert chances.sum() == pytest.approx(1)
    assert chances.min() >= epsilon / len(told) * (1 - 1e-9)


def test_the_draw_follows_the_probability_that_it_records() -> None:
    features = pair_features(items_of(12))
    draws = [choose_next(features, [], features.ids, seed=seed) for seed in range(1_500)]
    for id in features.ids:
        (chance,) = {draw.probability for draw in draws if draw.item == id}
        share = np.mean([draw.item == id for draw in draws])
        assert share == pytest.approx(chance, abs=4.5 * np.sqrt(chance * (1 - chance) / len(draws)))


def test_a_reload_shows_the_same_pair_and_an_answer_another() -> None:
    collected = collect(people=1, items=20, repeats=0, checks=1)
    features = pair_features(collected.items)
    answers = [answer for answer in collected.answers if not answer.item.startswith("check")][:5]
    left = [id for id in features.ids if id not in {answer.item for answer in answers}]
    assert choose_next(features, answers, left) == choose_next(features, answers, left[::-1])
    assert all(id.startswith("item") for id in features.ids)


def test_three_responses_and_no_pairs_are_refused() -> None:
    with pytest.raises(PalateError, match="'x' has more than two responses"):
        pair_features([Item(id="x", prompt="?", responses=("a", "b", "c"))])
    with pytest.raises(PalateError, match="epsilon=0"):
        choose_next(pair_features(items_of(3)), [], ["item-000"], epsilon=0)


def test_the_weighted_mean_is_that_of_the_whole_pool_on_average() -> None:
    """Ten of thirty pairs, drawn towards those that a model gets wrong: raw is too low, weighted is right."""
    random = np.random.default_rng(2)
    right = (random.random(30) < 0.7).astype(float)
    draw = np.where(right == 1, 1.0, 4.0)
    raw, weighted = [], []
    for _ in range(4_000):
        left, order, chances = list(range(30)), [], []
        for _ in range(10):
            chance = draw[left] / draw[left].sum()
            place = random.choice(len(left), p=chance)
            chances.append(chance[place])
            order.append(left.pop(place))
        raw.append(right[order].mean())
        weighted.append((correction_weights(chances, 30) * right[order]).mean())
    assert np.mean(weighted) == pytest.approx(right.mean(), abs=4 * np.std(weighted) / np.sqrt(4_000))
    assert np.mean(raw) < right.mean() - 0.15


def test_uniform_draws_are_weighted_equally() -> None:
    assert correction_weights([1 / (20 - place) for place in range(7)], 20) == pytest.approx(np.ones(7))


def test_accuracy_is_reported_raw_and_weighted() -> None:
    answers = [
        Answer(
            id=str(place), participant="ann", task="t", item=f"i{place}", shown=(0, 1), choice=0,
            probability=chance, date="2026-03-01", sequence=place,
        )
        for place, chance in enumerate((0.5, 0.1))
    ]  # fmt: skip
    measured = weighted_accuracy({"i0": 0.0, "i1": 1.0}, answers[::-1], pool=10)
    assert measured.raw == 0.5 and measured.weighted > 0.5 and measured.effective < 2
    with pytest.raises(PalateError, match="with which probability"):
        weighted_accuracy({}, [], 5)


def test_a_person_is_learned_from_their_answers() -> None:
    """After sixty pairs drawn actively, a simulated person's other choices are predicted."""
    collected = collect(people=2, items=160, repeats=0, checks=0, noise=0.1)
    features = pair_features(collected.items)
    answers = {answer.item: answer for answer in collected.answers if answer.participant == "sim-0-000"}
    left, told = list(features.ids[:100]), []
    for _ in range(60):
        chosen = choose_next(features, told, left)
        left.remove(chosen.item)
        told.append(answers[chosen.item])
    first = [1.0 - (answer.choice or 0) for answer in told]
    posterior = fit(features.rows([answer.item for answer in told]), first)
    held_out = features.ids[100:]
    guessed = features.rows(held_out) @ posterior.mean < 0
    assert np.mean([guess == answers[id].choice for guess, id in zip(guessed, held_out, strict=True)]) > 0.75


def test_items_that_a_command_brings_in_while_the_server_runs_are_chosen_from(tmp_path: Path) -> None:
    with make_collection(tmp_path / "study", "compare", active="true", overlap="0") as made:
        ann = made.join()
        ann.send(*(ann.choose(item) for item in ann.items()["items"]))
        new = Item(id="new", prompt="Something new?", responses=("Yes, please.", "No."))
        made.store.sync_items(
            msgspec.structs.replace(made.project, items={"pairs": (*made.project.items["pairs"], new)})
        )
        assert len(ann.items()["items"]) == 1
