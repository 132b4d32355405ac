"""Simulated users: their tastes are known, their choices follow them, and they agree on nothing."""

import random
from pathlib import Path

import numpy as np
import pytest

from palate import evaluate
from palate.data import check_benchmark, list_benchmarks, load_benchmark
from palate.downstream import make_critic
from palate.downstream.ppo._split import split_by_users
from palate.records import Benchmark, Completion, Draft, PalateError
from palate.simulate import SimulatedCritic, ceiling, simulate, taste_of, utility
from palate.simulate._pool import EDITS, pool
from palate.simulate._taste import PHRASES, STANDARD, measure_standard, standardised, user_id
from palate.stats import independent_clusters

TEXT = "Take the early train. The hills are quiet then, and the river is high. Pack bread and a map."
USERS = [user_id(0, number) for number in range(60)]


@pytest.fixture(scope="module")
def sim() -> Benchmark:
    return simulate(seed=3, users=60, judgements=10, items=60)


def score(user: str, text: str) -> float:
    draft = Draft(item=Completion(id="i", user_id=user, prompt="p"), text=text)
    [mark] = SimulatedCritic().judge([draft])
    assert mark.score is not None, mark.unscored
    assert mark.score == pytest.approx(sum(mark.parts.values()))
    return mark.score


# Who they are.


def test_a_taste_is_sparse_of_length_one_and_told_by_the_id_alone() -> None:
    for user in USERS:
        taste = taste_of(user)
        topics = [name for name in taste if name.startswith("topic:")]
        assert len(topics) == 1 and 2 <= len(taste) - 1 <= 4
        assert sum(weight**2 for weight in taste.values()) == pytest.approx(1)
    assert taste_of("sim-0-004") != taste_of("sim-1-004") != taste_of("sim-1-006")


def test_couples_want_the_opposite_so_that_all_together_want_nothing() -> None:
    for name in STANDARD:
        weights = [taste_of(user).get(name, 0.0) for user in USERS]
        assert sum(weights) == pytest.approx(0) and any(weights), "everybody's mean is zero, and somebody cares"


def test_the_standard_is_that_of_the_texts_of_sim() -> None:
    assert measure_standard([text for offer in pool(0) for text in offer.responses]) == STANDARD


def test_who_is_not_simulated_has_no_taste() -> None:
    for stranger in ("ann", "sim-0", "sim-0-1\n", "sim-x-1"):
        with pytest.raises(PalateError, match="not a simulated user: those are named like 'sim-0-007'"):
            taste_of(stranger)


# What they choose.


def test_the_true_utility_is_right_as_often_as_the_ceiling_says(sim: Benchmark) -> None:
    gains = np.array(
        [score(item.user_id, item.chosen) - score(item.user_id, item.rejected[0]) for item in sim.comparisons]
    )
    right = (1 + np.sign(gains)) / 2  # a pair that differs in nothing the user cares for is a tie, and counts half
    expected = ceiling(sim.comparisons)
    assert 0.8 < expected < 0.95
    assert abs(right.mean() - expected) < 2.6 * np.sqrt(expected * (1 - expected) / len(right))


def test_choices_follow_the_logistic_function_of_the_difference(sim: Benchmark) -> None:
    differences = [
        utility(taste_of(i.user_id), i.responses[0]) - utility(taste_of(i.user_id), i.responses[1])
        for i in sim.comparisons
    ]
    expected = 1 / (1 + np.exp(-np.array(differences) / 0.2))
    chosen = np.array([item.preferred == 0 for item in sim.comparisons])
    for low, high in ((0, 0.1), (0.1, 0.4), (0.4, 0.6), (0.6, 0.9), (0.9, 1)):
        some = (expected >= low) & (expected <= high)
        spread = np.sqrt((expected[some] * (1 - expected[some])).sum())
        assert some.sum() > 100
        assert abs(chosen[some].sum() - expected[some].sum()) < 3 * spread


def test_less_noise_raises_the_ceiling_and_more_lowers_it() -> None:
    exact, usual, blind = (simulate(users=10, noise=noise) for noise in (0.001, 0.2, 1000.0))
    assert ceiling(exact.comparisons, 0.001) > 0.95
    assert 0.75 < ceiling(usual.comparisons) < 0.95
    assert ceiling(blind.comparisons, 1000.0) == pytest.approx(0.5, abs=0.01)


def test_the_best_impersonal_ranking_is_near_chance(sim: Benchmark) -> None:
    """Even one that is fitted to the very choices it is tested on."""
    rows = np.array(
        [
            [standardised(i.responses[0], name) - standardised(i.responses[1], name) for name in STANDARD]
            for i in sim.comparisons
        ]
    )
    chosen = np.array([1 if item.preferred == 0 else -1 for item in sim.comparisons])
    weights = np.linalg.lstsq(rows, chosen, rcond=None)[0]
    assert ((rows @ weights > 0) == (chosen > 0)).mean() < 0.54


def test_every_trait_is_found_again_by_a_linear_fit(sim: Benchmark) -> None:
    texts = [text for item in sim.comparisons for text in item.responses]
    rows = np.array([[standardised(text, name) for name in STANDARD] for text in texts])
    for user in USERS[:20]:
        utilities = [score(user, text) for text in texts]
        found = np.linalg.lstsq(rows, np.array(utilities), rcond=None)[0]
        truth = [taste_of(user).get(name, 0.0) for name in STANDARD]
        assert found == pytest.approx(np.array(truth), abs=1e-9)


@pytest.mark.parametrize(
    ("edit", "trait", "direction"),
    [
        ("shortened", "length", -1),
        ("joined", "sentence_length", 1),
        ("split", "sentence_length", -1),
        ("asking", "questions", 1),
        ("exclaiming", "exclamations", 1),
        ("listed", "list_form", 1),
        ("hedged", "hedging", 1),
        ("personal", "first_person", 1),
        ("addressing", "second_person", 1),
        ("counting", "numbers", 1),
        ("pleasant", "sentiment", 1),
        ("gloomy", "sentiment", -1),
        ("formal", "formality", 1),
        ("casual", "formality", -1),
    ],
)
def test_a_writer_can_vary_each_trait(edit: str, trait: str, direction: int) -> None:
    changed = EDITS[edit](TEXT, random.Random(0))
    assert direction * (standardised(changed, trait) - standardised(TEXT, trait)) > 0.2


def test_every_edit_takes_any_text() -> None:
    for text in ("", " ", "\n", "Yes", "?!", "One. Two", "a; b: c", "日本語。はい。"):
        for edit in EDITS.values():
            assert isinstance(edit(text, random.Random(0)), str)


# What they say.


def test_reasons_are_true_and_hold_no_numbers(sim: Benchmark) -> None:
    said = set()
    for user in sim.users.values():
        phrases = {phrase for name in taste_of(user.id) for phrase in PHRASES[name]}
        for past in user.judgements:
            if past.reason:
                assert any(phrase in past.reason for phrase in phrases), past.reason
                assert not any(letter.isdigit() for letter in past.reason)
                said.add(past.reason)
    assert len(said) > 200
    assert all(name in PHRASES for name in STANDARD)


def test_a_choice_against_the_taste_has_no_reason() -> None:
    noisy = simulate(users=20, noise=1000.0)
    reasons = [past.reason for user in noisy.users.values() for past in user.judgements]
    assert 0.1 < sum(reason is None for reason in reasons) / len(reasons) < 0.6


def test_the_oracle_knows_the_taste_in_words_and_the_model_never_sees_it(sim: Benchmark) -> None:
    for item in sim.comparisons[::60]:
        taste = taste_of(item.user_id)
        wanted = [PHRASES[name][0 if weight > 0 else 1] for name, weight in taste.items()]
        assert [aspect.aspect.lower() for aspect in item.privileged.aspects] == [phrase.lower() for phrase in wanted]


# The benchmark.


def test_sim_loads_by_name_with_options_and_is_the_same_every_time() -> None:
    named = load_benchmark("sim,users=6,seed=1,items=4,judgements=3")
    assert named.content_hash == simulate(1, 6, judgements=3, items=4).content_hash
    assert named.content_hash != load_benchmark("sim,users=6,seed=2,items=4,judgements=3").content_hash
    [listed] = [one for one in list_benchmarks() if one.name == "sim"]
    default = load_benchmark("sim")
    assert listed.available and (listed.people, listed.items) == (len(default.users), len(default.comparisons))
    assert check_benchmark("sim") == []


def test_sim_is_the_same_on_every_machine() -> None:
    """If this fails because tastes, edits or traits were changed on purpose, raise the version on the card too."""
    benchmark = load_benchmark("sim")
    assert benchmark.card.version == "1.1-mini" and benchmark.content_hash.startswith("d9204dfc4f0537d3")


def test_more_users_leave_the_others_as_they_were() -> None:
    few, many = simulate(users=2), simulate(users=8)
    assert many.comparisons[: len(few.comparisons)] == few.comparisons
    assert many.users["sim-0-001"] == few.users["sim-0-001"]


def test_couples_are_no_two_independent_people(sim: Benchmark) -> None:
    """Where they chose differently their items are twins: intervals draw both together, and no split parts them."""
    items = {item.id: item for item in sim.comparisons}
    paired = [(item, items[item.twin]) for item in sim.comparisons if item.twin]
    assert len(paired) > len(items) / 2
    for one, other in paired:
        assert other.twin == one.id and other.responses == one.responses and other.preferred != one.preferred
        assert {int(name.user_id[-3:]) // 2 for name in (one, other)} == {int(one.user_id[-3:]) // 2}
    assert len(set(independent_clusters(sim.comparisons))) == len(sim.users) / 2
    _, test = split_by_users(sim, sim.comparisons, 0.25, seed=0)
    held_out = {int(item.user_id[-3:]) for item in test.items}
    assert held_out == {number ^ 1 for number in held_out}


def test_history_and_items_share_no_text(sim: Benchmark) -> None:
    for item in sim.comparisons:
        past = {text for one in sim.users[item.user_id].judgements for text in one.responses}
        assert not past & set(item.responses)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("sim,usrs=3", "Did you mean 'users'"),
        ("sim,users=two", "option users=two: expected a whole number"),
        ("sim,noise=much", "option noise=much: expected a number"),
        ("sim,noise=0", "noise above 0"),
        ("sim,users=1", "2 users and 1 item at the least"),
        ("sim,users=5", "users in couples"),
        ("sim,items=631", "need 651 pairs of texts for each user, and texts=mini has 630; ask for fewer"),
        ("sim,texts=novels", "option texts=novels: it is mini or stackexchange"),
    ],
)
def test_wrong_options_are_refused(spec: str, message: str) -> None:
    with pytest.raises(PalateError, match=message):
        load_benchmark(spec)


def test_stack_exchange_answers_are_read_from_the_data_folder(data_dir: Path) -> None:
    found = load_benchmark("sim,texts=stackexchange,users=4", data_dir=data_dir)
    assert found.card.licence == "CC BY-SA 3.0/4.0" and len(found.comparisons) == 40


def test_eval_measures_on_sim(tmp_path: Path) -> None:
    found = evaluate(simulate(users=10), ["overlap"], views=["none", "judgements:4", "oracle"], out=tmp_path)
    assert found.items == 100


# The critic.


def test_the_critic_wants_simulated_users(sim: Benchmark) -> None:
    with pytest.raises(PalateError, match="simulated users only, and no item is of one"):
        make_critic("sim", load_benchmark("mini"))
    critic = make_critic("sim", sim)
    item = Completion(id="i", user_id="ann", prompt="p")
    marks = critic.judge([Draft(item=item, text="Tea."), Draft(item=sim.comparisons[0], text=" ")])
    assert [mark.unscored for mark in marks] == [
        "the user is not a simulated one, so the taste is not known",
        "the text is empty",
    ]
    assert critic.fingerprint == SimulatedCritic().fingerprint
