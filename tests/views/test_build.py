"""What a view shows: the right person's history, from before the item, and never what is privileged."""

import msgspec
import pytest

from palate.data import load_benchmark
from palate.records import (
    Aspect,
    Benchmark,
    Card,
    Comparison,
    Completion,
    Judgement,
    PalateError,
    Post,
    Privileged,
    User,
    View,
)
from palate.views import NO_FURTHER_STRANGER, Missing, ViewBuilder, parse_budget, parse_view

CARD = Card(name="test", title="test", version="1", licence="none", source="the test")


def user(name: str, *posts: tuple[str, str | None, str], judgements: tuple[Judgement, ...] = ()) -> User:
    written = tuple(Post(id=f"{name}-{key}", date=date, text=text) for key, date, text in posts)
    return User(id=name, values=(f"{name} matters",), posts=written, judgements=judgements)


def item(name: str, owner: str, **more: object) -> Comparison:
    fields: dict[str, object] = {
        "id": name,
        "user_id": owner,
        "prompt": "How do I bake bread in a cold kitchen?",
        "responses": ("Use the oven light.", "Buy a machine."),
        "preferred": 0,
    }
    return msgspec.convert(fields | more, Comparison)


def benchmark(users: list[User], items: list[Comparison]) -> Benchmark:
    return Benchmark(card=CARD, users={one.id: one for one in users}, comparisons=tuple(items))


def build(held: Benchmark, view: str, index: int = 0, **options: object) -> View:
    builder = ViewBuilder(held, **options)  # type: ignore[arg-type]
    [built] = builder.build(parse_view(view), [held.comparisons[index]])
    assert isinstance(built, View), built
    return built


def test_none_shows_nothing_and_nobody() -> None:
    view = build(benchmark([user("ann", ("1", None, "bread"))], [item("q", "ann")]), "none")
    assert (view.text, view.parts, view.user_id) == ("", (), None)


def test_what_a_person_wrote_on_the_same_matter_is_not_shown_with_what_they_wrote_next() -> None:
    """It holds what the item is about, which no stranger's post does, and would pass for style."""
    texts = ["The cat sleeps.", "Captain Retief lands on Lovenbroy.", "Retief meets Arapoulous.", "The dog barks."]
    ann = User(
        id="ann", posts=tuple(Post(id=str(place), text=text, sequence=place) for place, text in enumerate(texts))
    )
    wrote = [
        Completion(id=f"q{place}", user_id="ann", prompt="What happens?", text=text, group=group, sequence=place)
        for place, (text, group) in enumerate(zip(texts, ["a", "b", "b", None], strict=True))
    ]
    held = msgspec.structs.replace(benchmark([ann], []), completions=tuple(wrote))
    shown = ViewBuilder(held).build(parse_view("posts:5"), wrote[1:])
    assert [sorted(part.id for part in view.parts) for view in shown if isinstance(view, View)] == [
        ["0"],
        ["0"],
        ["0", "1", "2"],
    ]


def test_a_text_without_a_date_does_not_open_the_history_of_its_group() -> None:
    days = ["2024-01", "2024-02", "2024-03", "2024-04"]
    posts = tuple(Post(id=f"p{place}", text=f"Letter {place}.", date=day) for place, day in enumerate(days))
    items = tuple(
        Completion(
            id=f"q{place}", user_id="ann", prompt="What happens?", text=f"Answer {place}.", group="sea", date=day
        )
        for place, day in enumerate([None, "2024-03", "2024-02"])
    )
    held = Benchmark(card=CARD, users={"ann": User(id="ann", posts=posts)}, completions=items)
    views = ViewBuilder(held).build(parse_view("posts"), items)
    assert [[part.id for part in view.parts] for view in views if isinstance(view, View)] == [["p0"]] * 3


def test_posts_keep_their_own_ids_when_they_are_ranked() -> None:
    ann = user("ann", ("1", None, "My cat sleeps."), ("2", None, "Bread dough in a cold kitchen rose slowly."))
    view = build(benchmark([ann], [item("q", "ann")]), "posts:2")
    assert [part.id for part in view.parts] == ["ann-2", "ann-1"]
    for part in view.parts:
        [post] = [post for post in ann.posts if post.id == part.id]
        assert part.content == post.text


def test_only_what_came_before_the_item_is_shown() -> None:
    ann = user(
        "ann",
        ("old", "2023-05-01", "bread one"),
        ("same-day", "2024-01-01", "bread two"),
        ("later", "2024-06-01", "bread three"),
        ("undated", None, "bread four"),
    )
    view = build(benchmark([ann], [item("q", "ann", date="2024-01-01T12:00:00")]), "posts:9")
    assert {part.id for part in view.parts} == {"ann-old", "ann-undated"}


def test_a_sequence_orders_what_has_no_date() -> None:
    judgements = tuple(
        Judgement(prompt=f"p{n}", responses=(f"yes {n}", f"no {n}"), preferred=0, sequence=n) for n in range(4)
    )
    view = build(benchmark([user("ann", judgements=judgements)], [item("q", "ann", sequence=2)]), "judgements:9")
    assert {part.judgement.prompt for part in view.parts if part.judgement} == {"p0", "p1"}


def test_the_items_own_responses_are_never_among_the_judgements() -> None:
    same = Judgement(prompt="again", responses=("Buy a machine.", "Use the oven light."), preferred=1)
    view = build(benchmark([user("ann", judgements=(same,))], [item("q", "ann")]), "judgements:9")
    assert view.parts == ()


def test_privileged_facts_reach_the_oracle_view_alone() -> None:
    secret = Privileged(narrative="NARRATIVE", aspects=(Aspect(aspect="ASPECT", reason="REASON"),))
    people = [user("ann", ("1", None, "bread")), user("bob", ("1", None, "cake"))]
    held = benchmark(people, [item("q", "ann", privileged=msgspec.to_builtins(secret))])
    for name in ("none", "values+posts:5", "swapped:posts:5"):
        shown = build(held, name).text
        assert not any(word in shown for word in ("NARRATIVE", "ASPECT", "REASON"))
    oracle = build(held, "oracle").text
    assert "ASPECT" in oracle
    assert "NARRATIVE" not in oracle


def test_swapped_is_a_stranger_of_the_same_category_and_always_the_same_one() -> None:
    people = [user(name, ("1", None, f"{name} bread")) for name in ("ann", "bob", "cat", "dan", "eve")]
    items = [item(f"q-{one.id}", one.id, category="a" if one.id in ("ann", "bob", "cat") else "b") for one in people]
    held = benchmark(people, items)
    strangers = [build(held, "swapped:posts:1", index).user_id for index in range(5)]
    assert strangers == [build(held, "swapped:posts:1", index).user_id for index in range(5)]
    assert all(stranger != one.id for stranger, one in zip(strangers, people, strict=True))
    assert set(strangers[:3]) == {"ann", "bob", "cat"}
    assert strangers[3:] == ["eve", "dan"]


def test_a_stranger_without_history_is_passed_over() -> None:
    people = [user("ann", ("1", None, "bread")), user("bob"), user("cat", ("1", None, "cake"))]
    assert build(benchmark(people, [item("q", "ann")]), "swapped:posts:1").user_id == "cat"


def test_whoever_wrote_one_of_the_responses_is_no_stranger() -> None:
    response = "Put the dough beside the kettle, and boil the kettle now and then."
    bob = user("bob", ("1", None, f"Question: bread? Answer: {response}"), ("2", None, "I keep bees."))
    cat = user("cat", ("1", None, "I keep cats."))
    people = [user("ann", ("1", None, "bread")), bob, cat]
    held = benchmark(people, [item("q", "ann", responses=(response, "No."))])
    builder = ViewBuilder(held)
    found = [builder.build(parse_view("swapped:posts:2"), held.comparisons, draw)[0] for draw in range(2)]
    assert isinstance(found[0], View) and found[0].user_id == "cat"
    assert found[1] == Missing(NO_FURTHER_STRANGER)


def test_on_mini_the_twin_and_a_stranger_can_both_be_asked_for() -> None:
    mini = load_benchmark("mini")
    by_id = {one.id: one for one in mini.comparisons}
    builder = ViewBuilder(mini)
    for view in builder.build(parse_view("twin:posts:3"), mini.comparisons[:20]):
        assert isinstance(view, View)
    for one, view in zip(mini.comparisons, builder.build(parse_view("swapped:posts:3"), mini.comparisons), strict=True):
        assert isinstance(view, View) and one.twin
        assert view.user_id not in (one.user_id, by_id[one.twin].user_id)


def test_an_item_without_a_twin_says_so() -> None:
    people = [user("ann", ("1", None, "bread")), user("bob", ("1", None, "cake"))]
    held = benchmark(people, [item("1", "ann", twin="2"), item("2", "bob", twin="1"), item("3", "ann")])
    built = ViewBuilder(held).build(parse_view("twin:posts:1"), held.comparisons)
    assert isinstance(built[0], View) and built[0].user_id == "bob"
    assert built[2] == Missing("this item has no twin")


@pytest.mark.parametrize(
    ("view", "words"),
    [
        ("judgements:4", "no user of test has any"),
        ("swapped:posts:1", "one user only"),
        ("twin:posts:1", "has none; use swapped"),
        ("oracle", "needs rubric aspects"),
        ("demographics", "there is: posts, values"),
    ],
)
def test_a_view_that_nobody_can_have_is_refused(view: str, words: str) -> None:
    held = benchmark([user("ann", ("1", None, "bread"))], [item("q", "ann")])
    with pytest.raises(PalateError, match=words):
        ViewBuilder(held).require(parse_view(view))


class TestBudget:
    ann = user("ann", ("far", None, "cats " * 10), ("near", None, "bread kitchen " * 5), ("mid", None, "bread " * 10))

    def test_the_least_relevant_history_goes_first(self) -> None:
        held = benchmark([self.ann], [item("q", "ann")])
        view = build(held, "values+posts:3", budget=parse_budget("words:34"))
        assert [part.id for part in view.parts if part.kind == "post"] == ["ann-near", "ann-mid"]
        assert view.dropped == 1

    def test_what_is_not_history_is_kept_however_small_the_budget(self) -> None:
        held = benchmark([self.ann], [item("q", "ann")])
        view = build(held, "values+posts:3", budget=parse_budget("1"))
        assert [part.kind for part in view.parts] == ["values"]
        assert view.dropped == 3

    @pytest.mark.parametrize("text", ["letters:3", "words:0", "words:x", "", ":"])
    def test_a_budget_that_cannot_be_read(self, text: str) -> None:
        with pytest.raises(PalateError, match="words:300"):
            parse_budget(text)


@pytest.mark.parametrize("view", ["demographics", "values", "demographics+values"])
@pytest.mark.parametrize("whose", ["", "swapped:"])
def test_demographics_and_values_that_hold_a_response_are_not_shown(view: str, whose: str) -> None:
    chosen, other = (
        "Boil the kettle, warm the pot, and wait a while.",
        "Take the train into town and have coffee there.",
    )
    told = {"bio": f"Somebody who says: {chosen}", "region": "north", "likes": [chosen, "tea"]}
    people = [User(id=name, demographics=dict(told), values=("calm", f"{chosen.upper()}")) for name in ("ann", "bob")]
    asked = Comparison(id="q", user_id="ann", prompt="How do I start?", responses=(chosen, other), preferred=0)
    shown = build(benchmark(people, [asked]), whose + view)
    words = "\n".join(part.text for part in shown.parts).lower()
    assert "kettle" not in words
    assert ("north" in words and "tea" in words) == ("demographics" in view)
    assert ("calm" in words) == ("values" in view)
    assert shown.withheld == 2 * ("demographics" in view) + ("values" in view)


@pytest.mark.parametrize("dated", [True, False])
def test_what_was_chosen_earlier_in_the_same_talk_is_not_shown(dated: bool) -> None:
    """It tells what the talk is about, which no stranger's choices do. Strangers of a category can show as much."""

    def asked(who: str, place: int, group: str | None) -> Comparison:
        date = f"2024-01-{place + 1:02}" if dated else None
        pair = (f"Yes, {who} goes to town number {place}.", f"No, {who} stays at home on day {place}.")
        place_then = None if dated else place
        prompt = f"Question {place}?"
        one = item(f"{who}-{place}", who, prompt=prompt, responses=pair, date=date, sequence=place_then, group=group)
        return msgspec.structs.replace(one, category=group)

    others = ["bob", "cem", "dea", "eve"]
    groups = [None, "hers", "hers", "hers", None, "debate", "debate"]
    items = [asked("ann", place, group) for place, group in enumerate(groups)]
    items += [asked(who, 5, "debate") for who in others]
    past = tuple(
        Judgement(
            id=one.id, prompt=one.prompt, responses=one.responses, preferred=0, date=one.date, sequence=one.sequence
        )
        for one in items[:7]
    )
    held = benchmark([user("ann", judgements=past), *map(user, others)], items)
    shown = ViewBuilder(held).build(parse_view("judgements:9"), items[:7])
    assert [sorted(str(part.id) for part in view.parts) for view in shown if isinstance(view, View)] == [
        [], ["ann-0"], ["ann-0"], ["ann-0"],
        ["ann-0", "ann-1", "ann-2", "ann-3"],
        ["ann-0", "ann-1", "ann-2", "ann-3", "ann-4"],
        ["ann-0", "ann-1", "ann-2", "ann-3", "ann-4", "ann-5"],
    ]  # fmt: skip
