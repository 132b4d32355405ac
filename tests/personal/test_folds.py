"""Nothing that a fold trains on tells of what it asks, whatever the protocol."""

import random
from functools import cache
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palate.data import load_benchmark
from palate.personal import Fold, make_folds, units
from palate.records import Benchmark, Comparison, Judgement, PalateError, Post, Privileged, User, came_before
from planted import CARD, planted

PROTOCOLS = ("seen", "unseen", "leave-out:category", "leave-out:side")


@cache
def plain(text: str) -> str:
    """A text without case, spacing and punctuation; written apart from the code under test."""
    return " ".join("".join(one if one.isalnum() else " " for one in text.lower()).split())


def trigrams(text: str) -> set[tuple[str, ...]]:
    words = plain(text).split()
    return {tuple(words[start : start + 3]) for start in range(len(words) - 2)}


def alike(one: str, other: str) -> bool:
    """Whether two texts are the same, or nearly so."""
    if plain(one) == plain(other):
        return True
    few, many = trigrams(one), trigrams(other)
    return min(len(few), len(many)) >= 6 and len(few & many) >= 0.8 * len(few | many)


def links(choice: Comparison | Judgement) -> set[str]:
    """Everything that would give a test item away, but for texts that are nearly the same."""
    keys = [plain(text) for text in choice.responses]
    found = {key if len(key.split()) >= 3 else f"{plain(choice.prompt)}: {key}" for key in keys}
    if isinstance(choice, Comparison):
        found |= {f"item {choice.id}"}
        found |= {f"item {choice.twin}"} if choice.twin else set()
        found |= {f"group {choice.group}"} if choice.group else set()
    return found


def tells(posts: set[str], item: Comparison) -> bool:
    """Whether one of some posts holds a response or the narrative of an item, or is held by the narrative."""
    narrative = plain(item.privileged.narrative or "")
    parts = [plain(text) for text in item.responses] + [narrative]
    joined = " | ".join(posts)
    return any(part in joined for part in parts if len(part) >= 40) or any(post in narrative for post in posts)


def assert_sound(benchmark: Benchmark, folds: list[Fold], protocol: str) -> None:
    asked = [item.id for fold in folds for item in fold.test]
    assert len(asked) == len(set(asked)), "an item is asked twice"
    place = {item.id: number for number, item in enumerate(benchmark.comparisons)}
    for fold in folds:
        test_links = set().union(*(links(item) for item in fold.test))
        trained = [*fold.train, *(one for user in fold.trained_users.values() for one in user.judgements)]
        for choice in trained:
            assert not links(choice) & test_links
        if protocol not in ("seen", "leave-out:category"):
            assert not {item.user_id for item in fold.test} & set(fold.trained_users)
            assert not {item.user_id for item in fold.test} & {item.user_id for item in fold.train}
        for item in fold.test:
            known = fold.trained_users.get(item.user_id, User(id=""))
            assert all(came_before(post, item) for post in known.posts)
            if protocol == "seen":
                own = [other for other in fold.train if other.user_id == item.user_id]
                assert all(came_before(other, item) for other in [*own, *known.judgements])
                undated = [other for other in own if other.date is None and other.sequence is None]
                assert not undated or (item.date is None and item.sequence is None)
                assert all(place[other.id] < place[item.id] for other in undated)
        posts = {plain(post.text) for user in fold.trained_users.values() for post in user.posts}
        for item in fold.test if posts else ():
            assert not tells(posts, item)


@pytest.mark.parametrize("protocol", PROTOCOLS[:3])
def test_nothing_crosses_on_planted_tastes(protocol: str) -> None:
    benchmark = planted(couples=8, choices=8)
    assert_sound(benchmark, make_folds(benchmark, protocol, folds=3), protocol)


@pytest.mark.parametrize(
    ("name", "protocol"),
    [
        ("mini", "seen"),
        ("mini", "unseen"),
        ("convarg-crowdsample", "seen"),
        ("convarg-crowdsample", "unseen"),
        ("stackexchange", "seen"),
        ("stackexchange", "unseen"),
        ("coauthor", "seen"),
    ],
)
def test_nothing_crosses_on_real_people(name: str, protocol: str, request: pytest.FixtureRequest) -> None:
    folder: Path | None = None if name == "mini" else request.getfixturevalue("data_dir")
    benchmark = load_benchmark(name, data_dir=folder)
    if name == "coauthor":  # twelve thousand choices, which take long to compare with each other
        some = dict(list(benchmark.users.items())[:8])
        items = tuple(item for item in benchmark.comparisons if item.user_id in some)
        benchmark = msgspec.structs.replace(benchmark, users=some, comparisons=items)
    folds = make_folds(benchmark, protocol)
    assert len(folds) > 1
    assert_sound(benchmark, folds, protocol)


def test_a_debate_side_is_one_unit(data_dir: Path) -> None:
    benchmark = load_benchmark("convarg-crowdsample", data_dir=data_dir)
    found = units(benchmark.comparisons).tolist()
    sides: dict[str | None, set[int]] = {}
    for item, unit in zip(benchmark.comparisons, found, strict=True):
        sides.setdefault(item.category, set()).add(unit)
    assert len(sides) == 32
    assert {len(own) for own in sides.values()} == {1}


@st.composite
def benchmarks(draw: st.DrawFn) -> Benchmark:
    """Few users, few texts and few moments, so that nearly everything is tied to something."""
    texts = [
        f"a text that is long enough to be known again, number {number}" for number in range(draw(st.integers(4, 10)))
    ]
    texts += ["Yes.", "No.", "Perhaps."]
    names = [f"user {number}" for number in range(draw(st.integers(2, 6)))]
    moment = st.sampled_from([None, *range(5)]) if draw(st.booleans()) else st.just(None)
    day = (
        st.sampled_from([None, "2023", "2023-05", "2023-05-01", "2023-05-02"]) if draw(st.booleans()) else st.just(None)
    )
    comparisons = []
    for number in range(draw(st.integers(2, 24))):
        one, other = draw(st.permutations(texts))[:2]
        comparisons.append(
            Comparison(
                id=f"item {number}",
                user_id=draw(st.sampled_from(names)),
                prompt=draw(st.sampled_from(["Why?", "How?"])),
                responses=(one, other),
                preferred=draw(st.integers(0, 1)),
                group=draw(st.sampled_from([None, "a", "b", "c", "d"])),
                twin=f"item {number - 1}" if number and draw(st.booleans()) else None,
                sequence=draw(moment),
                date=draw(day),
                category=draw(st.sampled_from(["x", "y"])),
                privileged=Privileged(
                    narrative=draw(
                        st.sampled_from([None, f"What was really meant by the question that has the number {number}"])
                    )
                ),
            )
        )
    users = {}
    for side, name in enumerate(names):
        copies = [one for one in comparisons if one.user_id == name] if draw(st.booleans()) else []
        judgements = [
            Judgement(
                id=one.id, prompt=one.prompt, responses=one.responses, preferred=0, sequence=one.sequence, date=one.date
            )
            for one in copies
        ]
        judgements += [
            Judgement(
                id=f"j{number}",
                prompt="Why?",
                responses=tuple(draw(st.permutations(texts))[:2]),
                preferred=0,
                sequence=draw(moment),
                date=draw(day),
            )
            for number in range(draw(st.integers(0, 3)))
        ]
        said = [*texts[:3], *(one.privileged.narrative for one in comparisons if one.privileged.narrative)]
        posts = tuple(
            Post(
                id=f"p{number}",
                text=f"I wrote: {draw(st.sampled_from([*said, 'nothing of the kind']))}!",
                date=draw(day),
                sequence=draw(moment),
            )
            for number in range(draw(st.integers(0, 3)))
        )
        sides = {"side": "left" if side % 2 else "right"}
        users[name] = User(id=name, judgements=tuple(judgements), posts=posts, demographics=sides)
    return Benchmark(card=CARD, users=users, comparisons=tuple(comparisons))


@settings(max_examples=100, deadline=None)
@given(benchmark=benchmarks(), protocol=st.sampled_from(PROTOCOLS), seed=st.integers(0, 5))
def test_nothing_crosses_whatever_is_tied_to_what(benchmark: Benchmark, protocol: str, seed: int) -> None:
    try:
        folds = make_folds(benchmark, protocol, folds=3, seed=seed)
    except PalateError:
        return
    assert_sound(benchmark, folds, protocol)


def test_texts_that_are_nearly_the_same_stay_together() -> None:
    draw = random.Random(0)
    words = "garden river window evening table letter music winter bridge paper coffee market story".split()
    comparisons = []
    for number in range(40):
        long = [" ".join(draw.choices(words, k=60)) for _ in range(2)]
        for copy in range(2):  # the second is the first with one word changed
            responses = tuple(text.replace(" ", " indeed ", copy) for text in long)
            name = f"{number}-{copy}"
            comparisons.append(Comparison(id=name, user_id=f"u{copy}", prompt=name, responses=responses, preferred=0))
    users = {name: User(id=name) for name in ("u0", "u1")}
    folds = make_folds(Benchmark(card=CARD, users=users, comparisons=tuple(comparisons)), "seen", folds=4)
    for fold in folds:
        for item in fold.test:
            for other in fold.train:
                assert not any(alike(one, two) for one in item.responses for two in other.responses)


def test_one_question_for_all_rows_ties_nothing_but_its_short_answers() -> None:
    def choice(number: int, *responses: str) -> Judgement:
        return Judgement(prompt="Which is better?", responses=responses, preferred=number % 2)

    apart = [choice(number, f"the first text of pair {number}", f"the other of pair {number}") for number in range(4)]
    assert len(set(units(apart).tolist())) == 4
    assert units([choice(0, "Anna", "Berta"), choice(1, "anna!", "Carla"), choice(2, "Dora", "Emma")]).tolist() == [
        0,
        0,
        1,
    ]


def test_prompts_that_differ_in_their_options_only_are_one_question() -> None:
    def choice(topic: str, *options: str) -> Judgement:
        return Judgement(prompt=f"Which {topic}? {' or '.join(options)}", responses=options, preferred=0)

    films = [choice("film", "Alien", "Heat"), choice("film", "Jaws", "Alien"), choice("film", "Up", "Rocky")]
    assert units([*films, choice("book", "Alien", "Solaris")]).tolist() == [0, 0, 1, 2]
    listed = [
        Judgement(prompt="Alien, Heat, Jaws?", responses=("Alien", other), preferred=0) for other in ("Heat", "Jaws")
    ]
    assert units(listed).tolist() == [0, 0]  # the prompt lists more than the pair


def test_items_of_one_moment_are_not_trained_on() -> None:
    benchmark = planted(couples=4, choices=10)
    same = tuple(msgspec.structs.replace(item, sequence=1) for item in benchmark.comparisons)
    earlier = tuple(msgspec.structs.replace(item, sequence=int(item.id.split("-")[-1]) > 4) for item in same)
    with pytest.raises(PalateError, match="cannot be split"):
        make_folds(msgspec.structs.replace(benchmark, comparisons=same), "seen")
    folds = make_folds(msgspec.structs.replace(benchmark, comparisons=earlier), "seen")
    assert {item.sequence for fold in folds for item in fold.train} == {0}
    assert {item.sequence for fold in folds for item in fold.test} == {1}


def test_users_whom_twins_tie_to_one_another_are_the_reason_that_is_given() -> None:
    benchmark = planted(couples=4, choices=10)
    ring = list(benchmark.comparisons)
    first = {item.user_id: place for place, item in reversed(list(enumerate(ring)))}
    for place, other in zip(first.values(), [*list(first.values())[1:], next(iter(first.values()))], strict=True):
        ring[place] = msgspec.structs.replace(ring[place], twin=ring[other].id)
    tied = msgspec.structs.replace(benchmark, comparisons=tuple(ring))
    with pytest.raises(PalateError, match=r"twins tie all 8 users to one another, so nobody is left to train on"):
        make_folds(tied, "unseen")
    assert make_folds(tied, "seen")


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
