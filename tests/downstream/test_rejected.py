"""Pairs against a policy: what it writes stands against the user's own, without what would give it away for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from number_game import Normal

from palate.data import check_benchmark, load_benchmark, write_benchmark
from palate.downstream import Drawing, SampleLine, pairs_against_policy
from palate.downstream._rejected import bare_texts
from palate.engine import Failure, WriteRequest, Written
from palate.records import Benchmark, Card, Completion, PalateError, Post, User

CARD = Card(name="titles", title="Titles", version="1", licence="none", source="made for the tests")


def titles(count: int = 12) -> Benchmark:
    items = [
        Completion(id=f"p{place}", user_id=f"a{place % 3}", prompt=f"Title, {place}?", text=f"Tea at Noon {place:02d}")
        for place in range(count)
    ]
    users = {f"a{one}": User(id=f"a{one}", posts=(Post(id=f"x{one}", text="Tea"),)) for one in range(3)}
    return Benchmark(card=CARD, users=users, completions=tuple(items))


class Titler(Normal):
    """Writes titles a little longer and a little shorter than the users', with ceremony, and one that is cut off."""

    name = "titler"

    def _write(self, request: WriteRequest) -> list[Written] | Failure:
        texts = ['The title is "Coffee at Dusk II"', "Title: Rum by Night\nAbstract: ...", "Tea at Noon and then"]
        return [Written(text=text, tokens=5, finished=place < 2) for place, text in enumerate(texts)]


def sampled(*texts: str, unfinished: Sequence[int] = ()) -> SampleLine:
    return SampleLine(policy_view="none", item="p0", texts=texts, unfinished=tuple(unfinished))


def test_the_policy_s_texts_stand_against_the_users(tmp_path: Path) -> None:
    policy = Titler()
    made = pairs_against_policy(titles(), policy, drawing=Drawing(samples=3), limit=10, out=tmp_path)
    assert {item.rejected[0] for item in made.comparisons} == {"Coffee at Dusk II", "Rum by Night"}
    assert all(item.chosen.startswith("Tea at Noon ") for item in made.comparisons)
    longer = sum((len(item.chosen) > len(item.rejected[0])) * 2 - 1 for item in made.comparisons)
    assert abs(longer) <= 1
    assert "10 of 12 completions" in made.card.notes[-1] and "a policy's" in made.card.notes[0]
    write_benchmark(made, tmp_path / "pairs")
    assert not [one for one in check_benchmark(tmp_path / "pairs") if one.severity == "error"]
    assert load_benchmark(tmp_path / "pairs").content_hash == made.content_hash


def test_a_sample_of_the_texts_stands_where_their_groups_begin(tmp_path: Path) -> None:
    items = tuple(
        msgspec.structs.replace(item, group="tea", sequence=place) for place, item in enumerate(titles(12).completions)
    )
    items = tuple(msgspec.structs.replace(item, user_id="a0") for item in items)
    posts = tuple(Post(id=f"x{place}", text=f"Cup {place}", sequence=place) for place in range(12))
    whole = Benchmark(card=CARD, users={"a0": User(id="a0", posts=posts)}, completions=items)
    made = pairs_against_policy(whole, Titler(), drawing=Drawing(samples=3), limit=5, out=tmp_path)
    assert 0 not in {int(item.id[1:]) for item in made.comparisons}  # else the sample has the first text by chance
    assert {item.sequence for item in made.comparisons} == {0}


def test_the_policy_sees_nothing_of_the_user_and_is_asked_once(tmp_path: Path) -> None:
    policy = Titler()
    first = pairs_against_policy(titles(), policy, drawing=Drawing(samples=3), out=tmp_path)
    assert all([turn.role for turn in request.turns] == ["user"] for request in policy.asked)
    asked = len(policy.asked)
    assert pairs_against_policy(titles(), policy, drawing=Drawing(samples=3), out=tmp_path) == first
    assert len(policy.asked) == asked == 12


def test_announcements_and_torn_ends_go_but_titles_stay() -> None:
    item = titles(1).completions[0]
    assert bare_texts(sampled("“Tea”", "torn off in the", "First line\nand torn", unfinished=[1, 2]), item) == [
        "Tea",
        "First line",
    ]
    kept = ["The paper presents a cup.", "'Tea' and 'rum'", "Titles in the wild"]
    assert bare_texts(sampled(*kept), item) == kept
    several = Completion(id="p0", user_id="a0", prompt="?", text="One line\nand another")
    assert bare_texts(sampled("A poem\nof lines"), several) == ["A poem\nof lines"]


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(PalateError, match="limit is a number"):
        pairs_against_policy(titles(), Titler(), limit=0, out=tmp_path)
    with pytest.raises(PalateError, match="no completion with a text"):
        pairs_against_policy(load_benchmark("mini"), Titler(), out=tmp_path)
