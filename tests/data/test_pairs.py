"""Pairs from completions: the own text against another's, and length gives nothing away."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palate.cli import main
from palate.data import check_benchmark, load_benchmark, pairs_from_completions, write_benchmark
from palate.data._pairs import WITHIN
from palate.records import Benchmark, Card, Comparison, Completion, PalateError, Post, User, came_before
from palate.views import ViewBuilder, resolve_views

CARD = Card(name="letters", title="Letters", version="1", licence="none", source="made for the tests")


def written(*lengths: int, letter: str = "o") -> tuple[str, ...]:
    return tuple((letter + str(place) + letter * length)[:length] for place, length in enumerate(lengths))


def benchmark(*completions: Completion) -> Benchmark:
    users = {item.user_id: User(id=item.user_id) for item in completions}
    return Benchmark(card=CARD, users=users, completions=completions)


def completion(id: str, own: int, *others: int, user: str = "ann") -> Completion:
    return Completion(id=id, user_id=user, prompt="Write!", text="w" * own, alternatives=written(*others))


def lead(item: Comparison) -> int:
    return (len(item.chosen) > len(item.rejected[0])) - (len(item.chosen) < len(item.rejected[0]))


def test_the_own_text_is_chosen_and_the_nearest_in_length_rejected() -> None:
    made = pairs_from_completions(benchmark(completion("c1", 100, 300, 108, 95)))
    [item] = made.comparisons
    assert (item.id, item.user_id, item.prompt) == ("c1", "ann", "Write!")
    assert len(item.chosen) == 100 and len(item.rejected[0]) == 95
    assert made.completions == () and made.card.name == "letters-pairs"


def test_what_cannot_be_matched_is_left_out_and_counted() -> None:
    same = Completion(id="c3", user_id="ann", prompt="Write!", text="one  text", alternatives=("one text", "a text so"))
    made = pairs_from_completions(
        benchmark(completion("c1", 100, 130, 70), completion("c2", 100, 125), same, completion("c4", 0, 5))
    )
    assert [item.id for item in made.comparisons] == ["c2", "c3"]
    assert made.comparisons[1].rejected == ("a text so",)  # the same words are no other text
    assert "2 pairs from 4 completions" in made.card.notes[0]
    assert "1 without an own text, 1 without a match in length, 0 to keep the balance" in made.card.notes[1]


def test_a_text_of_the_other_side_is_taken_before_a_pair_is_dropped() -> None:
    shorter = [completion(f"c{place}", 100, 99, 110 + place) for place in range(4)]
    made = pairs_from_completions(benchmark(*shorter))
    assert len(made.comparisons) == 4 and sum(map(lead, made.comparisons)) == 0
    assert {item.id for item in made.comparisons if lead(item) < 0} == {"c0", "c1"}  # the least is lost there


def test_without_another_side_the_worst_matched_are_dropped() -> None:
    made = pairs_from_completions(benchmark(*(completion(f"c{place}", 100, 99 - place) for place in range(5))))
    assert [item.id for item in made.comparisons] == ["c0"]
    assert "4 to keep the balance" in made.card.notes[1]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 8))
def test_for_every_user_and_over_all_the_own_text_is_longer_as_often_as_shorter(seed: int, n: int, users: int) -> None:
    draw = random.Random(seed)
    items = [
        completion(f"c{n}", draw.randint(20, 60), *(draw.randint(10, 60) for _ in range(3)), user=f"u{n % users}")
        for n in range(n)
    ]
    try:
        made = pairs_from_completions(benchmark(*items))
    except PalateError:
        return
    leads: Counter[str] = Counter()
    for item in made.comparisons:
        leads[item.user_id] += lead(item)
        assert abs(math.log(len(item.chosen) / len(item.rejected[0]))) <= math.log(WITHIN) + 1e-9
    assert max(map(abs, leads.values())) <= 1
    assert abs(sum(leads.values())) <= 1
    assert set(made.users) == {item.user_id for item in made.comparisons}
    assert pairs_from_completions(benchmark(*items)) == made


def test_the_order_hangs_on_the_id_alone_and_tells_nothing() -> None:
    items = [completion(f"c{place}", 100, 99, 101) for place in range(200)]
    whole, part = (pairs_from_completions(benchmark(*some)) for some in (items, items[:50]))
    places = {item.id: item.preferred for item in whole.comparisons}
    assert all(places[item.id] == item.preferred for item in part.comparisons)
    assert 70 < sum(places.values()) < 130


def test_history_of_a_pair_is_earlier_and_never_of_the_same_group() -> None:
    posts = tuple(Post(id=f"c{place}", text=f"text {place}", sequence=place) for place in range(4))
    items = [
        Completion(
            id=f"c{place}",
            user_id="ann",
            prompt="?",
            text=f"own text {place}",
            alternatives=(f"his text {place}",),
            group=group,
            sequence=place,
        )
        for place, group in enumerate(["sea", "wood", "wood", "sea"])
    ]
    made = pairs_from_completions(
        Benchmark(card=CARD, users={"ann": User(id="ann", posts=posts)}, completions=tuple(items))
    )
    views = ViewBuilder(made).build(resolve_views(["posts"])[0], made.comparisons)
    shown = {
        item.id: {part.id for part in getattr(view, "parts", ())}
        for item, view in zip(made.comparisons, views, strict=True)
    }
    assert shown == {"c0": set(), "c1": {"c0"}, "c2": {"c0"}, "c3": set()}


def test_texts_may_come_from_elsewhere() -> None:
    titles = benchmark(*(Completion(id=f"c{n}", user_id="ann", prompt="?", text="Tea at noon") for n in range(2)))
    with pytest.raises(PalateError, match="--rejected-by"):
        pairs_from_completions(titles)
    made = pairs_from_completions(titles, {"c0": ["Tea at night", "A much longer title"], "c1": ["", "Cold tea"]})
    assert [item.rejected for item in made.comparisons] == [("Tea at night",)]
    assert "a policy's" in made.card.notes[0]


def test_any_folder_of_completions_can_be_read_as_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = [completion(f"c{place}", 100, 99, 101, user=f"u{place % 2}") for place in range(6)]
    write_benchmark(benchmark(*items), tmp_path / "letters")
    made = load_benchmark(f"{tmp_path / 'letters'},pairs=true")
    assert len(made.comparisons) == 6
    with pytest.raises(SystemExit) as left:
        main(["data", "convert", str(tmp_path / "letters"), str(tmp_path / "pairs"), "--pairs"])
    assert left.value.code == 0
    assert "6 pairs from 6 completions" in capsys.readouterr().out
    assert load_benchmark(tmp_path / "pairs").content_hash == made.content_hash
    assert not [fault for fault in check_benchmark(tmp_path / "pairs") if fault.severity == "error"]
    assert load_benchmark(f"{tmp_path / 'letters'},pairs=false").completions


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--limit", "3"], "--limit says how a policy writes"),
        (["--rejected-by", "smollm2"], "add --pairs"),
        (["--pairs"], "has no completion with a text"),
    ],
)
def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    with pytest.raises(SystemExit) as left:
        main(["data", "convert", "mini", str(tmp_path / "pairs"), *words])
    assert left.value.code == 2 and said in capsys.readouterr().err
    assert not (tmp_path / "pairs").exists()


def test_on_real_answers_length_gives_nothing_away(data_dir: Path) -> None:
    made = load_benchmark("squality,pairs=true", data_dir=data_dir)
    assert len(made.comparisons) == 1_768 and len(made.users) == 24
    assert abs(sum(map(lead, made.comparisons))) <= 1
    assert not [one for one in check_benchmark("squality,pairs=true", data_dir=data_dir) if one.severity == "error"]
    for item in made.comparisons:
        earlier = [post for post in made.users[item.user_id].posts if came_before(post, item)]
        assert not any(post.id.split(":")[0] == item.group for post in earlier)  # nothing on the same story
