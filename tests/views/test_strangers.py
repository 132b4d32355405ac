"""Strangers are controls: like the user in all that is known but the person."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palate.data import History
from palate.records import Benchmark, Card, Comparison, Judgement, PalateError, Post, User, View
from palate.views import NO_FURTHER_STRANGER, Missing, ViewBuilder, parse_view
from palate.views._strangers import Strangers, sampled

CARD = Card(name="test", title="test", version="1", licence="none", source="the test")


def judged(user: str, number: int, prompt: str = "", **more: int | str) -> Judgement:
    texts = (f"{user} likes answer {number}", f"{user} leaves answer {number}")
    return Judgement(prompt=prompt or f"{user} asks {number}", responses=texts, preferred=0, **more)  # type: ignore[arg-type]


def person(name: str, judgements: int, **more: object) -> User:
    return User(id=name, judgements=tuple(judged(name, number) for number in range(judgements)), **more)  # type: ignore[arg-type]


def asked(name: str, user: str, **more: object) -> Comparison:
    responses = (f"one thing for {name}", f"another thing for {name}")
    return Comparison(
        id=name, user_id=user, **{"prompt": f"What of {name}?", "responses": responses, "preferred": 0} | more
    )  # type: ignore[arg-type]


def strangers(held: Benchmark, view: str = "swapped:judgements:4", index: int = 0) -> list[View | Missing]:
    builder, spec = ViewBuilder(held), parse_view(view)
    return [builder.build(spec, [held.comparisons[index]], draw)[0] for draw in range(spec.draws)]


def benchmark(users: list[User], *items: Comparison) -> Benchmark:
    return Benchmark(card=CARD, users={user.id: user for user in users}, comparisons=items)


def test_strangers_show_as_much_as_the_user_and_no_more() -> None:
    people = [person("ann", 2), *(person(f"p{number}", number) for number in range(9))]
    found = strangers(benchmark(people, asked("q", "ann")))
    assert len({view.user_id for view in found if isinstance(view, View)}) == 3
    assert [len(view.parts) for view in found if isinstance(view, View)] == [2, 2, 2]


def test_who_has_less_than_half_as_much_to_show_is_no_stranger() -> None:
    people = [person("ann", 4), person("bob", 3), person("cat", 1)]
    first, second, third = strangers(benchmark(people, asked("q", "ann")))
    assert isinstance(first, View) and (first.user_id, len(first.parts)) == ("bob", 3)
    assert second == third == Missing(NO_FURTHER_STRANGER)


def test_each_item_of_a_user_draws_strangers_of_its_own() -> None:
    people = [person("ann", 4), *(person(f"p{number}", 4) for number in range(30))]
    items = [asked(f"q{number}", "ann") for number in range(12)]
    held = benchmark(people, *items)
    drawn = {view.user_id for index in range(12) for view in strangers(held, index=index) if isinstance(view, View)}
    assert len(drawn) > 12


def test_the_same_topic_and_batch_come_first() -> None:
    people = [person(name, 4) for name in ("ann", "both", "topic1", "topic2", "batch", "far1", "far2", "far3")]
    held = benchmark(
        people,
        asked("q", "ann", category="bread"),
        asked("b1", "both", category="bread", prompt="What of q?"),
        asked("t1", "topic1", category="bread"),
        asked("t2", "topic2", category="bread"),
        asked("b2", "batch", category="tea", prompt="What of q?"),
    )
    found = [view for view in strangers(held) if isinstance(view, View)]
    assert [view.closeness for view in found] == ["topic and batch", "topic", "topic"]
    assert found[0].user_id == "both"
    assert {view.user_id for view in found[1:]} == {"topic1", "topic2"}


def test_twins_are_never_strangers_though_their_items_are_elsewhere() -> None:
    people = [person("ann", 2), person("bob", 2), person("cat", 2)]
    whole = benchmark(people, asked("q", "ann", twin="t"), asked("t", "bob", twin="q"))
    part = Benchmark(card=CARD, users=whole.users, comparisons=whole.comparisons[:1])
    [view] = ViewBuilder(part, whole=whole).build(parse_view("swapped:judgements:2"), part.comparisons)
    assert isinstance(view, View) and view.user_id == "cat"


def test_a_place_in_one_persons_sequence_says_nothing_about_anothers() -> None:
    late = tuple(judged("bob", number, sequence=100 + number) for number in range(4))
    ann = User(id="ann", judgements=tuple(judged("ann", number, sequence=number) for number in range(4)))
    found = strangers(benchmark([ann, User(id="bob", judgements=late)], asked("q", "ann", sequence=3)))
    assert isinstance(found[0], View) and len(found[0].parts) == 3


def test_dates_are_compared_between_people() -> None:
    bob = User(id="bob", posts=(Post(id="1", text="early words", date="2020"), Post(id="2", text="late", date="2024")))
    ann = User(id="ann", posts=(Post(id="3", text="early too", date="2020"),))
    [view, *_] = strangers(benchmark([ann, bob], asked("q", "ann", date="2022")), "swapped:posts:2")
    assert isinstance(view, View) and [part.id for part in view.parts] == ["1"]


def test_a_co_annotator_judged_the_very_same_pair_and_that_judgement_is_not_shown() -> None:
    pair = ("Use the oven light for warmth.", "Buy a machine for it.")
    same = Judgement(prompt="Bread in a cold kitchen?", responses=pair, preferred=1)
    bob = User(id="bob", judgements=(same, judged("bob", 1), judged("bob", 2)))
    item = asked("q", "ann", prompt="Bread in a cold kitchen?", responses=pair)
    held = benchmark([person("ann", 2), bob, person("cat", 9)], item)
    first, second, _ = strangers(held, "co-annotator:judgements:4")
    assert isinstance(first, View) and (first.user_id, first.closeness) == ("bob", "same pair")
    assert same not in [part.judgement for part in first.parts]
    assert isinstance(second, Missing)


def test_co_annotators_are_refused_where_only_twins_judged_the_same_pair() -> None:
    texts = ("Use the oven light for warmth.", "Buy a machine for it.")
    ann = asked("q", "ann", prompt="Bread?", responses=texts, twin="r")
    bob = asked("r", "bob", prompt="Bread?", responses=texts, preferred=1, twin="q")
    cat = asked("s", "cat", prompt="Bread?", responses=texts)
    people = [person(name, 2) for name in ("ann", "bob", "cat")]
    view = parse_view("co-annotator:judgements:4")
    with pytest.raises(PalateError, match="needs pairs that several users judged, twins apart, and test has none"):
        ViewBuilder(benchmark(people, ann, bob)).require(view)
    ViewBuilder(benchmark(people, ann, bob, cat)).require(view)


def test_a_trained_users_stranger_is_known_by_half_to_twice_as_many_choices() -> None:
    people = [person(name, 0) for name in ("ann", "few", "like", "many")]
    known = {"ann": 100, "few": 6, "like": 150, "many": 900}
    held = benchmark(people, asked("q", "ann"))
    builder = ViewBuilder(held, known=known)
    found = [builder.build(parse_view("swapped:user"), held.comparisons, draw)[0] for draw in range(2)]
    assert isinstance(found[0], View) and (found[0].user_id, found[0].by_name) == ("like", True)
    assert isinstance(found[1], Missing)


def test_strangers_show_as_many_pieces_about_the_question_and_its_category() -> None:
    """Else a taste that everybody has for one topic would look like one of the person."""

    def chose(user: str, *topics: str) -> User:
        made = [judged(user, number, prompt=f"a question of {topic}") for number, topic in enumerate(topics)]
        return User(id=user, judgements=tuple(made))

    people = [chose("ann", "tea", "tea", "tea", "milk")]
    people += [chose(f"other{number}", "milk", "milk", "tea", "tea", "milk", "tea") for number in range(4)]
    topics = [
        asked(f"{topic}{user.id}", user.id, category=topic, prompt=f"a question of {topic}")
        for user in people
        for topic in ("tea", "milk")
    ]
    held = benchmark(people, asked("q", "ann", category="tea", prompt="another question of tea"), *topics)
    own = ViewBuilder(held).build(parse_view("judgements:4"), held.comparisons[:1])[0]
    for view in (own, *strangers(held)):
        assert isinstance(view, View)
        shown = [part.judgement.prompt for part in view.parts if part.judgement]
        assert sorted(shown) == ["a question of milk", *["a question of tea"] * 3], view.user_id


def plain_strangers(held: Benchmark, item: Comparison, seed: int, to: str | None) -> list[tuple[str, str]]:
    """Who stands in for a user, by sets of names that are made anew for each item."""
    choices = [(one.user_id, one.prompt) for one in held.comparisons]
    choices += [(user.id, one.prompt) for user in held.users.values() for one in user.judgements]
    user = to or item.user_id
    own = {prompt for other, prompt in choices if other == user}
    topic = {one.user_id for one in held.comparisons if one.category and one.category == item.category}
    batch = {other for other, prompt in choices if prompt in own}
    draw = random.Random(f"{seed}\x00{to or item.id}".encode())
    drawn: dict[str, str] = {}
    circles = {"topic and batch": topic & batch, "topic": topic, "batch": batch, "anybody": set(held.users)}
    for closeness, people in circles.items():
        for other in draw.sample(sorted(people), min(60, len(people))):
            if other not in (user, item.user_id):
                drawn.setdefault(other, closeness)
    return list(drawn.items())


@given(st.integers(0, 10_000), st.integers(2, 90), st.integers(1, 6), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_strangers_are_those_of_plain_sets_of_names(seed: int, users: int, prompts: int, topics: int) -> None:
    draw = random.Random(seed)
    names = [f"p{number}" for number in range(users)]
    people = [
        User(id=name, judgements=tuple(judged(name, 0, f"question {draw.randrange(prompts)}") for _ in range(2)))
        for name in names
    ]
    items = [
        asked(f"q{number}", draw.choice(names), category=draw.choice([None, *map(str, range(topics))]))
        for number in range(20)
    ]
    held = benchmark(people, *items)
    strangers = Strangers(held, set(names), History(held), seed=seed)
    for item in items:
        for to in (None, draw.choice(names)):
            assert list(strangers.of(item, to=to)) == plain_strangers(held, item, seed, to)


@given(st.integers(0, 2**32), st.integers(0, 700), st.integers(0, 70))
def test_numbers_drawn_one_by_one_are_those_of_a_sample(seed: int, size: int, count: int) -> None:
    one, other, count = random.Random(seed), random.Random(seed), min(size, count)
    assert list(sampled(one, size, count)) == other.sample(range(size), count)
    assert one.random() == other.random()
