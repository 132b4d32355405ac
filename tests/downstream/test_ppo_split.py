"""Nobody and nothing is on both sides."""

from __future__ import annotations

import random

import pytest
from number_game import CARD

from palate.data import load_benchmark
from palate.downstream.ppo._split import Side, of_step, prompt_key, split_by_users
from palate.records import Benchmark, Comparison, Judgement, PalateError, User
from palate.runs import prompts


def sides(benchmark: Benchmark, seed: int = 0, share: float = 0.25) -> tuple[Side, Side]:
    return split_by_users(benchmark, prompts(benchmark), share, seed)


@pytest.mark.parametrize("name", ["mini", "sim,users=24", "sim,users=60,seed=3"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_user_prompt_group_or_twin_is_on_both_sides(name: str, seed: int) -> None:
    train, test = sides(load_benchmark(name), seed)
    assert train.items
    assert test.items
    assert not train.users & test.users
    for what in (
        lambda item: prompt_key(item.prompt),
        lambda item: item.group or item.id,
        lambda item: min(item.id, item.twin or item.id),
    ):
        assert not {what(item) for item in train.items} & {what(item) for item in test.items}


def test_each_side_is_shown_its_own_users_only() -> None:
    train, test = sides(load_benchmark("sim,users=24"))
    assert not set(train.benchmark.users) & set(test.benchmark.users)
    assert train.users <= set(train.benchmark.users)
    closed = {prompt_key(item.prompt) for item in test.items}
    shown = [one for user in train.benchmark.users.values() for one in user.judgements]
    assert shown
    assert not [one for one in shown if prompt_key(one.prompt) in closed]


def test_every_prompt_comes_once_before_any_comes_again() -> None:
    drawn = [of_step(list(range(10)), step, 4, seed=0) for step in range(5)]  # type: ignore[arg-type]
    flat = [one for step in drawn for one in step]
    assert sorted(flat[:10]) == sorted(flat[10:]) == list(range(10))
    assert flat[:10] != flat[10:]
    assert drawn[3] == of_step(list(range(10)), 3, 4, seed=0)  # type: ignore[arg-type]


def test_dropping_an_item_moves_no_other() -> None:
    benchmark = load_benchmark("mini")
    whole = {item.id for item in sides(benchmark)[1].items}
    kept = [item for item in prompts(benchmark) if item.id != sorted(whole)[0]]
    _, test = split_by_users(benchmark, random.Random(1).sample(kept, len(kept)), 0.25, 0)
    assert len(whole - {item.id for item in test.items}) <= 2  # itself, and a twin that is alone now


def test_twins_keep_their_users_together() -> None:
    items = []
    for couple in range(8):
        for side in (0, 1):
            own, other = f"i{couple}-{side}", f"i{couple}-{1 - side}"
            items.append(
                Comparison(
                    id=own,
                    user_id=f"u{couple}-{side}",
                    prompt=f"Question {couple}, put {side} ways?",
                    responses=("a", "b"),
                    preferred=side,
                    twin=other,
                )
            )
    benchmark = Benchmark(card=CARD, users={i.user_id: User(id=i.user_id) for i in items}, comparisons=tuple(items))
    for side in sides(benchmark):
        assert all(f"{user[:-1]}{1 - int(user[-1])}" in side.users for user in side.users)


def test_what_cannot_be_split_says_so() -> None:
    people = {
        f"u{n}": User(id=f"u{n}", judgements=(Judgement(prompt="p", responses=("a", "b"), preferred=0),))
        for n in range(9)
    }
    same = tuple(
        Comparison(id=f"i{n}", user_id=f"u{n}", prompt="The same for all", responses=("a", "b"), preferred=0)
        for n in range(9)
    )
    with pytest.raises(PalateError, match="cannot be split: of 9 users with 9 prompts"):
        sides(Benchmark(card=CARD, users=people, comparisons=same))
