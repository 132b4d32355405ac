"""Who is held out, and what of them is left to show."""

from __future__ import annotations

from palate.data import History
from palate.downstream._held_out_users import _part
from palate.records import Benchmark, Card, Completion, Post, User

CARD = Card(name="letters", title="Letters", version="1", licence="none", source="made for the tests")


def test_posts_on_the_matter_of_a_prompt_stay_hidden_where_another_of_its_group_is_trained_on() -> None:
    posts = tuple(Post(id=str(place), text=f"Letter {place}", sequence=place) for place in range(3))
    items = tuple(
        Completion(
            id=str(place), user_id="ann", prompt=f"Ask {place}?", text=f"Say {place}", group=group, sequence=place
        )
        for place, group in enumerate(["wood", "sea", "sea"])
    )
    whole = Benchmark(card=CARD, users={"ann": User(id="ann", posts=posts)}, completions=items)
    part = _part(whole, None, {"bob"}, {"ask 1?"})
    assert [item.id for item in part.completions] == ["0", "2"]
    shown = History(part).posts(part.users["ann"], part.completions[1]).events
    assert [post.id for post in shown] == ["0"]  # not the letter about the sea
