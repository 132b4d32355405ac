"""Shared taste, personal taste and self-contradiction are told apart where the truth is known."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from msgspec.structs import replace

from palate.audit._headroom import measure_headroom
from palate.evaluation import RatedItem, Ratings
from palate.simulate import ceiling, simulate, taste_of, utility


def ratings_of(items: list[RatedItem]) -> Ratings:
    return Ratings(items, {})


def judged(user: int, pair: int, again: int, first: bool) -> RatedItem:
    return RatedItem(
        id=f"{user}-{pair}-{again}",
        user_id=f"u{user}",
        prompt=f"Question {pair}?",
        responses=(f"Answer {pair}.", f"Reply {pair}."),
        preferred=0 if first else 1,
    )


def drawn(shared: float, personal: float, seed: int, *, users: int = 40, pairs: int = 60, again: int = 2) -> Ratings:
    """Everybody judges every pair, some pairs twice; noise makes up the rest of a variance of 1."""
    draw = np.random.default_rng(seed)
    wanted = np.sqrt(shared) * draw.normal(size=pairs) + np.sqrt(personal) * draw.normal(size=(users, pairs))
    said = wanted + np.sqrt(1 - shared - personal) * draw.normal(size=(again, users, pairs))
    return ratings_of(
        [
            judged(user, pair, time, bool(said[time, user, pair] > 0))
            for user in range(users)
            for pair in range(pairs)
            for time in range(again if pair % 4 == 0 else 1)
        ]
    )


def test_people_who_agree_less_than_half_of_the_time_leave_room_for_some_shared_taste() -> None:
    at_the_edge = 0
    for seed in range(8):
        found = measure_headroom(drawn(0.0, 0.6, seed, users=12, pairs=40), [], seed)
        assert found.with_others and found.shared and found.impersonal_ceiling
        if found.with_others.value <= 0.5:
            at_the_edge += 1
            high = math.sin(math.pi * max(0.0, found.with_others.high - 0.5))
            assert (found.shared.value, found.shared.low) == (0, 0) and found.shared.high == pytest.approx(high)
            ceiling = 0.5 + math.asin(math.sqrt(high)) / math.pi
            assert found.impersonal_ceiling.low == 0.5 and found.impersonal_ceiling.high == pytest.approx(ceiling)
            assert ceiling > 0.5
    assert at_the_edge


def test_the_parts_and_the_ceilings_cover_the_truth() -> None:
    shared, personal = 0.4, 0.3
    truth = {
        "shared": shared,
        "personal": personal,
        "noise": 1 - shared - personal,
        "impersonal_ceiling": 0.5 + math.asin(math.sqrt(shared)) / math.pi,
        "ceiling": 0.5 + math.asin(math.sqrt(shared + personal)) / math.pi,
    }
    truth["attainable"] = truth["ceiling"] - truth["impersonal_ceiling"]
    covered = dict.fromkeys(truth, 0)
    for seed in range(20):
        found = measure_headroom(drawn(shared, personal, seed), [], seed)
        for name, value in truth.items():
            estimate = getattr(found, name)
            covered[name] += estimate.low <= value <= estimate.high
    assert min(covered.values()) >= 16, covered


def test_nothing_personal_is_found_where_people_only_err() -> None:
    found = measure_headroom(drawn(0.6, 0.0, seed=1), [], 0)
    assert found.personal is not None and found.personal.low <= 0 <= found.personal.high


@pytest.mark.parametrize("noise", [0.2, 1.0])
def test_covers_the_truth_on_simulated_users(noise: float) -> None:
    """Couples of opposite tastes: nothing is shared. Each simulated user is asked every item again."""
    benchmark = simulate(seed=3, users=40, judgements=0, items=20, noise=noise)
    draw = random.Random(4)
    items = []
    for item in benchmark.comparisons:
        taste = taste_of(item.user_id)
        one, other = (utility(taste, text) for text in item.responses)
        first = 1 / (1 + math.exp(-(one - other) / noise))
        items += [
            RatedItem(
                id=f"{item.id}-{time}",
                user_id=item.user_id,
                prompt=item.prompt,
                responses=item.responses,
                preferred=int(draw.random() >= first),
            )
            for time in range(2)
        ]
    found = measure_headroom(ratings_of(items), [], 0)
    assert found.impersonal_ceiling is not None and found.ceiling is not None
    assert found.impersonal_ceiling.low <= 0.5 <= found.impersonal_ceiling.high
    truth = ceiling(benchmark.comparisons, noise)
    assert found.ceiling.low <= truth <= found.ceiling.high
    assert found.ceiling_at_least is not None and found.ceiling_at_most is not None
    assert found.ceiling_at_least - 0.02 <= truth <= found.ceiling_at_most + 0.02


def test_a_score_is_a_part_of_the_personal_gain() -> None:
    ratings = drawn(0.4, 0.3, seed=2)
    found = measure_headroom(ratings, [], 0)
    assert found.impersonal_ceiling and found.ceiling
    middle = (found.impersonal_ceiling.value + found.ceiling.value) / 2
    [half] = measure_headroom(ratings, [("m", "posts", np.full(len(ratings.items), middle))], 0).scores
    assert half.share is not None and half.share.value == pytest.approx(0.5)


def test_what_cannot_be_told_is_said() -> None:
    lone = measure_headroom(ratings_of([judged(user, user, 0, True) for user in range(30)]), [], 0)
    assert lone.impersonal_ceiling is None and lone.ceiling is None
    assert [text.split(":")[0] for text in lone.unknown] == [
        "Shared taste cannot be told",
        "Personal taste cannot be told from self-contradiction",
    ]
    once = measure_headroom(drawn(0.4, 0.3, seed=0, again=1), [], 0)
    assert once.impersonal_ceiling is not None and once.ceiling is None and len(once.unknown) == 1


def test_rows_that_an_export_repeats_are_no_second_judgements() -> None:
    """Judges of one mind who err look as if each had a taste of their own, once every row is there twice."""
    once = drawn(0.5, 0.0, seed=3, again=1).items
    twice = [*once, *(replace(item, id=f"{item.id}-copy") for item in once)]
    found = measure_headroom(ratings_of(twice), [], 0)
    assert found.attainable is None and found.ceiling is None and found.impersonal_ceiling is not None
    assert found.unknown == [text for text in found.unknown if "as copies would" in text] != []
