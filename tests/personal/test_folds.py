"""No item, pair, question, argument or twin crosses a split, whatever the protocol."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palate.data import load_benchmark
from palate.personal import Fold, make_folds, units
from palate.personal._units import key_of
from palate.records import Benchmark, Comparison, Judgement, PalateError, User, came_before
from planted import CARD, planted

PROTOCOLS = ("seen", "unseen", "leave-out:category")


def links(choice: Comparison | Judgement) -> set[str]:
    """Everything that would give a test item away; written apart from the code under test."""
    found = {key_of(text) for text in choice.responses if len(key_of(text)) >= 20}
    if isinstance(choice, Comparison):
        found |= {f"item {choice.id}"}
        found |= {f"item {choice.twin}"} if choice.twin else set()
        found |= {f"group {choice.group}"} if choice.group else set()
    return found


def assert_sound(benchmark: Benchmark, folds: list[Fold], protocol: str) -> None:
    asked = [item.id for fold in folds for item in fold.test]
    assert len(asked) == len(set(asked)), "an item is asked twice"
    for fold in folds:
        test_links = set().union(*(links(item) for item in fold.test))
        for item in fold.train:
            assert not links(item) & test_links
        for user in (*fold.trained_users.values(), *fold.test_users.values()):
            for judgement in user.judgements:
                assert not links(judgement) & test_links
        if protocol == "unseen":
            assert not {item.user_id for item in fold.test} & set(fold.trained_users)
            assert not {item.user_id for item in fold.test} & {item.user_id for item in fold.train}
        if protocol == "seen":
            for item in fold.test:
                own = [other for other in fold.train if other.user_id == item.user_id]
                assert all(came_before(other, item) for other in own if other.date or other.sequence is not None)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_crosses_on_planted_tastes(protocol: str) -> None:
    benchmark = planted(couples=8, choices=8)
    assert_sound(benchmark, make_folds(benchmark, protocol, folds=3), protocol)


@pytest.mark.parametrize("protocol", ["seen", "unseen"])
@pytest.mark.parametrize("name", ["mini", "convarg-crowdsample", "stackexchange", "coauthor"])
def test_nothing_crosses_on_real_people(name: str, protocol: str, request: pytest.FixtureRequest) -> None:
    folder: Path | None = None if name == "mini" else request.getfixturevalue("data_dir")
    benchmark = load_benchmark(name, data_dir=folder)
    folds = make_folds(benchmark, protocol)
    assert len(folds) > 1
    assert_sound(benchmark, folds, protocol)


def test_a_debate_side_is_one_unit(data_dir: Path) -> None:
    benchmark = load_benchmark("convarg-crowdsample", data_dir=data_dir)
    found = units(benchmark.comparisons)
    sides = {item.category for item in benchmark.comparisons}
    assert len(set(found.tolist())) == len(sides) == 32


@st.composite
def benchmarks(draw: st.DrawFn) -> Benchmark:
    """Few users and few texts, so that nearly everything is tied to something."""
    texts = [f"a text that is long enough, number {number}" for number in range(draw(st.integers(4, 12)))]
    names = [f"user {number}" for number in range(draw(st.integers(2, 6)))]
    comparisons = []
    for number in range(draw(st.integers(2, 24))):
        one, other = draw(st.permutations(texts))[:2]
        comparisons.append(
            Comparison(
                id=f"item {number}",
                user_id=draw(st.sampled_from(names)),
                prompt="?",
                responses=(one, other),
                preferred=draw(st.integers(0, 1)),
                group=draw(st.sampled_from([None, "a", "b", "c", "d"])),
                twin=f"item {number - 1}" if number and draw(st.booleans()) else None,
                sequence=draw(st.integers(0, 9)),
                category=draw(st.sampled_from(["x", "y"])),
            )
        )
    users = {
        name: User(
            id=name,
            judgements=tuple(
                Judgement(
                    id=f"{name} {place}", prompt="?", responses=tuple(draw(st.permutations(texts))[:2]), preferred=0
                )
                for place in range(draw(st.integers(0, 3)))
            ),
        )
        for name in names
    }
    return Benchmark(card=CARD, users=users, comparisons=tuple(comparisons))


@settings(max_examples=60, deadline=None)
@given(benchmark=benchmarks(), protocol=st.sampled_from(PROTOCOLS), seed=st.integers(0, 5))
def test_nothing_crosses_whatever_is_tied_to_what(benchmark: Benchmark, protocol: str, seed: int) -> None:
    try:
        folds = make_folds(benchmark, protocol, folds=3, seed=seed)
    except PalateError:
        return
    assert_sound(benchmark, folds, protocol)


def test_every_later_item_of_seen_users_is_asked_once() -> None:
    benchmark = planted(couples=6, choices=10)
    folds = make_folds(benchmark, "seen", folds=4)
    assert sum(len(fold.test) for fold in folds) == 12 * 3


def test_a_group_left_out_is_not_trained_on() -> None:
    benchmark = planted(couples=6, choices=6)
    for fold in make_folds(benchmark, "leave-out:taste"):
        trained = {benchmark.users[item.user_id].demographics["taste"] for item in fold.train}
        assert trained.isdisjoint({benchmark.users[item.user_id].demographics["taste"] for item in fold.test})


def test_one_user_is_too_few() -> None:
    benchmark = planted(couples=1, choices=4)
    only = tuple(item for item in benchmark.comparisons if item.user_id.endswith("asks"))
    with pytest.raises(PalateError, match="one user only"):
        make_folds(msgspec.structs.replace(benchmark, comparisons=only))


@pytest.mark.parametrize("protocol", ["sometimes", "leave-out", "leave-out:age", "seen:later"])
def test_an_unknown_protocol_is_explained(protocol: str) -> None:
    with pytest.raises(PalateError, match=r"leave-out|protocol"):
        make_folds(planted(couples=2, choices=4), protocol)
