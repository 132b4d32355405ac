"""History that is borrowed: only where there is little, from people of the same taste, and never the answer."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from palate import evaluate
from palate.audit import selftest
from palate.engine import Conversation, Failure, WriteRequest, Written
from palate.records import Benchmark, Card, Comparison, Judgement, PalateError, Post, User, View
from palate.runs import VIEWS, open_run
from palate.views import ViewBuilder, Writer, parse_budget, parse_view

CARD = Card(name="test", title="test", version="1", licence="none", source="the test")
TASTES = {"tea": "leaf pot steep oolong", "coffee": "roast crema grind espresso"}
DISHES = ("soup", "rice", "cake", "stew", "salad", "curry")


def choice(name: str, number: int, taste: str, **more: object) -> Judgement:
    """What the chosen response has and the other has not is the taste alone."""
    dish = DISHES[number % len(DISHES)]
    [other] = TASTES.keys() - {taste}
    responses = tuple(f"{TASTES[one]} with {dish} for {name} {number}" for one in (taste, other))
    return Judgement(prompt=f"What goes with {dish}?", responses=responses, preferred=0, **more)  # type: ignore[arg-type]


def person(name: str, judgements: int, **more: object) -> User:
    taste = name.partition("-")[0]
    return User(id=name, judgements=tuple(choice(name, number, taste) for number in range(judgements)), **more)  # type: ignore[arg-type]


def asked(name: str, user: str, **more: object) -> Comparison:
    responses = (
        f"One answer that is given to {name} alone and to nobody else.",
        f"Quite another that nobody but {name} reads.",
    )
    fields = {"id": name, "user_id": user, "prompt": "What goes with soup?", "responses": responses, "preferred": 0}
    return msgspec.convert(fields | more, Comparison)


def benchmark(users: Sequence[User], *items: Comparison) -> Benchmark:
    return Benchmark(card=CARD, users={user.id: user for user in users}, comparisons=items)


CROWD = [person(f"{taste}-{number}", 5) for taste in TASTES for number in range(6)]
COLD = [person("tea-cold", 1), person("coffee-cold", 1)]
ITEMS = [asked("q-tea", "tea-cold"), asked("q-coffee", "coffee-cold"), asked("q-warm", "tea-0")]
GROUPS = benchmark([*CROWD, *COLD], *ITEMS)


def built(held: Benchmark, view: str, *, draw: int = 0, **options: object) -> list[View]:
    found = ViewBuilder(held, **options).build(parse_view(view), held.comparisons, draw)  # type: ignore[arg-type]
    views = [one for one in found if isinstance(one, View)]
    assert len(views) == len(found)
    return views


class Echo:
    """Writes one aspect; keeps what it was asked."""

    name = fingerprint = "echo"
    context: int | None = None

    def __init__(self) -> None:
        self.asked: list[str] = []

    def count_tokens(self, turns: Conversation) -> int | None:
        return len(turns[-1].content.split())

    def write(self, requests: Sequence[WriteRequest]) -> list[list[Written] | Failure]:
        self.asked += [request.turns[-1].content for request in requests]
        return [[Written(text="- Warmth", tokens=1, finished=True)] for _ in requests]

    choose = likelihood = None


def test_only_what_is_lacking_is_borrowed() -> None:
    alone, filled = (built(GROUPS, view) for view in ("judgements:4", "judgements:4+neighbours:2"))
    assert [len(view.parts) for view in alone] == [1, 1, 4]
    assert [[part.borrowed for part in view.parts] for view in filled[:2]] == [[False, True, True, True]] * 2
    assert filled[2].parts == alone[2].parts and filled[2].neighbours == ()
    own, *borrowed = filled[0].parts
    assert own == alone[0].parts[0]
    assert own.text.startswith("This user") and all("similar taste" in part.text for part in borrowed)


def test_neighbours_are_of_the_same_taste_and_random_ones_are_not() -> None:
    """Planted: two groups who choose between the same two things. The null: a retriever that knows nobody."""
    tea, coffee, _ = built(GROUPS, "judgements:4+neighbours:3")
    assert {user.partition("-")[0] for user in tea.neighbours} == {"tea"}
    assert {user.partition("-")[0] for user in coffee.neighbours} == {"coffee"}
    many = [person("tea-cold", 1), *CROWD]
    held = benchmark(many, *(asked(f"q{number}", "tea-cold") for number in range(20)))
    by_chance = [
        user for view in built(held, "judgements:4+neighbours:1", retriever="random") for user in view.neighbours
    ]
    assert 4 <= sum(user.startswith("coffee") for user in by_chance) <= 16


def test_who_was_asked_the_same_but_chose_otherwise_is_not_similar() -> None:
    """Taste is what sets the chosen response apart from the others, not what both are about."""

    def about(name: str, subject: str, drink: str, other: str) -> User:
        texts = tuple(f"A cup of {one} {subject}" for one in (drink, other))
        return User(id=name, judgements=(Judgement(prompt=f"What {subject}?", responses=texts, preferred=0),))

    walk, work = "on a long walk over the windy hills", "at a desk in the busy office"
    users = [
        about("cold", walk, "oolong", "espresso"),
        about("same subject", walk, "espresso", "oolong"),
        about("same taste", work, "oolong", "espresso"),
    ]
    [view] = built(benchmark(users, asked("q", "cold")), "judgements:2+neighbours:1")
    assert view.neighbours == ("same taste",)


def test_there_are_at_most_so_many_neighbours_and_nobody_is_their_own() -> None:
    for most in (1, 2):
        for view in built(GROUPS, f"judgements:30+neighbours:{most}"):
            assert 1 <= len(view.neighbours) <= most and view.user_id not in view.neighbours
            lent = [part.judgement for part in view.parts if part.borrowed]
            there = {one for user in view.neighbours for one in GROUPS.users[user].judgements}
            assert lent and set(lent) <= there


def test_traits_tell_who_is_similar_where_there_is_no_history_and_nothing_tells_of_nobody() -> None:
    crowd = [msgspec.structs.replace(user, values=(TASTES[user.id.partition("-")[0]],)) for user in CROWD]
    new, unknown = User(id="new", values=("oolong",)), User(id="unknown")
    held = benchmark([*crowd, new, unknown], asked("q1", "new"), asked("q2", "unknown"))
    known, nobody = built(held, "judgements:4+neighbours:2")
    assert len(known.parts) == 4 and all(user.startswith("tea") for user in known.neighbours)
    assert (nobody.parts, nobody.neighbours) == ((), ())


def test_no_neighbour_tells_the_answer_by_word_or_by_being_chosen() -> None:
    """Whatever anybody said of the item's own pair, the view is the same."""
    item = asked("q", "tea-cold", responses=("Green leaf in a warm pot.", "A short dark roast."))

    def told(preferred: int) -> Benchmark:
        """Half of the people say so of the pair, the others say the opposite."""
        users = []
        for number, one in enumerate([person("tea-cold", 1), *CROWD]):
            said = Judgement(prompt=item.prompt, responses=item.responses, preferred=(preferred + number) % 2)
            users.append(msgspec.structs.replace(one, judgements=(*one.judgements, said)))
        return benchmark(users, item)

    [first], [second] = (built(told(preferred), "judgements:9+neighbours:2") for preferred in (0, 1))
    assert first == second and len(first.parts) == 9
    assert not any(text in first.text for text in item.responses)
    assert first.withheld == 3  # the user's own and those of both neighbours


def test_nothing_later_and_never_a_twin_or_an_author() -> None:
    later = tuple(choice("tea-later", number, "tea", date="2024-06-01") for number in range(4))
    earlier = tuple(choice("coffee-early", number, "coffee", date="2024-01-01") for number in range(2))
    item = asked("q", "tea-cold", date="2024-03-01", twin="t")
    author = person("tea-author", 4, posts=(Post(id="p", text=f"I once wrote: {item.responses[0]}"),))
    users = [
        person("tea-cold", 1),
        person("tea-twin", 4),
        author,
        User(id="tea-later", judgements=later),
        User(id="coffee-early", judgements=earlier),
    ]
    held = benchmark(users, item, asked("t", "tea-twin", twin="q"))
    assert built(held, "judgements:4+neighbours:4")[0].neighbours == ("coffee-early",)


def test_a_strangers_view_is_filled_from_the_strangers_neighbours_and_never_the_user() -> None:
    users = [person(f"{taste}-{number}", 1) for taste in TASTES for number in range(4)]
    held = benchmark(users, *(asked(f"q-{user.id}", user.id) for user in users))
    own = built(held, "judgements:3+neighbours:2")
    for draw in range(3):
        for mine, view in zip(own, built(held, "swapped:judgements:3+neighbours:2", draw=draw), strict=True):
            assert view.user_id != mine.user_id
            assert mine.user_id not in view.neighbours and view.user_id not in view.neighbours
            assert [part.borrowed for part in view.parts] == [part.borrowed for part in mine.parts]
            stranger = str(view.user_id).partition("-")[0]
            near = sum(user.startswith(stranger) for user in view.neighbours)
            assert near == 2, (view.user_id, view.neighbours)


def test_a_twin_of_either_is_no_neighbour_of_the_stranger() -> None:
    users = [person(f"tea-{number}", 1) for number in range(4)]
    pair = ("One thing for both of them.", "And another thing for both.")
    items = [
        asked("q0", "tea-0", twin="q1", responses=pair),
        asked("q1", "tea-1", twin="q0", responses=pair, preferred=1),
    ]
    for view in built(benchmark(users, *items), "swapped:judgements:3+neighbours:3"):
        assert view.user_id in ("tea-2", "tea-3") and set(view.neighbours) == {"tea-2", "tea-3"} - {view.user_id}


@pytest.mark.parametrize("kind", ["plan", "persona"])
def test_a_writer_is_told_what_is_borrowed_and_the_view_keeps_from_whom(kind: str) -> None:
    model = Echo()
    tea, coffee, warm = built(GROUPS, f"{kind}+neighbours:2", writer=Writer(model))  # type: ignore[arg-type]
    assert [view.of_kind(kind)[0].content.strip("- ") for view in (tea, coffee, warm)] == ["Warmth"] * 3  # type: ignore[arg-type, union-attr]
    before, borrowed = model.asked[0].split("Here is what people whose taste is similar to this person's")
    assert "for tea-cold 0" in before and "similar taste" not in before
    assert borrowed.count("Somebody with similar taste was asked") == 3 and "tea-cold" not in borrowed
    assert 1 <= len(tea.neighbours) <= 2
    assert {user.partition("-")[0] for user in tea.neighbours} == {"tea"}
    assert {user.partition("-")[0] for user in coffee.neighbours} == {"coffee"}
    assert "similar" not in model.asked[2] and warm.neighbours == ()
    stranger = built(GROUPS, f"swapped:{kind}+neighbours:2", writer=Writer(model))[0]  # type: ignore[arg-type]
    assert stranger.neighbours and "tea-cold" not in stranger.neighbours and "for tea-cold" not in model.asked[3]


def test_where_room_is_short_the_borrowed_gives_way_first() -> None:
    [view, *_] = built(GROUPS, "judgements:4+neighbours:2", budget=parse_budget("words:60"))
    assert view.dropped and not view.parts[0].borrowed
    model = Echo()
    users = [person("tea-cold", 1, posts=(Post(id="own", text="My very own words."),)), *CROWD]
    held = benchmark(users, asked("q", "tea-cold"))
    model.context = 260
    built(held, "plan+neighbours:2", writer=Writer(model))  # type: ignore[arg-type]
    assert "My very own words." in model.asked[0] and model.asked[0].count("Somebody") < 3


def test_the_report_says_for_how_many_items_something_was_borrowed(own_cache: Path, tmp_path: Path) -> None:
    views = ["judgements:4+neighbours:2", "swapped"]
    summary = evaluate(GROUPS, ["overlap"], views, out=tmp_path)
    assert any("for 2 of 3 items" in one and "similar users" in one for one in summary.warnings)
    assert not any("no neighbours to show" in one for one in summary.warnings)
    kept = {line.item: line.neighbours for line in open_run(Path(summary.run)).read(VIEWS) if line.view == views[0]}
    assert kept["q-tea"] and kept["q-coffee"] and not kept["q-warm"]
    enough = evaluate(GROUPS, ["overlap"], ["judgements:1+neighbours:2"], out=tmp_path)
    assert any("nothing was borrowed" in one for one in enough.warnings)


def test_what_cannot_be_done_is_refused() -> None:
    spec = parse_view("judgements:4+neighbours:2")
    with pytest.raises(PalateError, match="one user only"):
        ViewBuilder(benchmark([person("tea-0", 1)], asked("q", "tea-0"))).require(spec)
    with pytest.raises(PalateError, match="'recent' cannot tell which users are similar"):
        ViewBuilder(GROUPS, retriever="recent").require(spec)
    with pytest.raises(PalateError, match="cannot show neighbours"):
        selftest(GROUPS, view=spec.name)


def test_what_neighbours_know_of_a_cold_user_is_worth_something_where_taste_is_shared(tmp_path: Path) -> None:
    """Planted: who first chose as a group did wants what the group wants. The null: a stranger's neighbours."""
    words = {"tea": ("leaf pot", "oolong kettle"), "coffee": ("roast crema", "espresso grinder")}
    users, items = [], []
    for taste, other in (("tea", "coffee"), ("coffee", "tea")):
        for number in range(10):
            offered = [tuple(words[one][place] for one in (taste, other)) for place in (0, 1)]
            known = [
                Judgement(prompt=f"Choice {place}?", responses=pair, preferred=0) for place, pair in enumerate(offered)
            ]
            name = f"{taste}-{number}"
            users.append(User(id=name, judgements=tuple(known[:1] if number < 5 else known)))
            if number < 5:
                pair = (f"{words[taste][1]} {name}", f"{words[other][1]} {name}")
                items.append(asked(f"q-{name}", name, prompt="What to buy?", responses=pair))
    views = ["judgements:3", "judgements:3+neighbours:2", "swapped:judgements:3+neighbours:2"]
    found = evaluate(benchmark(users, *items), ["overlap"], views, out=tmp_path)
    accuracy = {result.view: result.accuracy for result in found.results}
    assert accuracy["judgements:3"] == 0.5 and accuracy["judgements:3+neighbours:2"] == 1.0
    assert accuracy["swapped:judgements:3+neighbours:2"] < 0.8
