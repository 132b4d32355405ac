"""A view that is too long for a model's context gives way, least relevant first, and as little of it as may be."""

from __future__ import annotations

import pytest

from palate.records import Ask, Part, View
from palate.rewards import conversation, fit_view


def words(ask: Ask) -> int:
    return sum(len(turn.content.split()) for turn in conversation(ask))


def asked(posts: int, judgements: int) -> Ask:
    parts = [Part(kind="demographics", text="Lives by the sea.")]
    parts += [Part(kind="post", text=f"Post {number} " + "tea " * number) for number in range(posts)]
    parts += [Part(kind="judgement", text=f"Choice {number} " + "pot " * 3) for number in range(judgements)]
    return Ask(id="a", prompt="What now?", responses=("x", "y"), view=View(name="v", parts=tuple(parts)))


@pytest.mark.parametrize("most", [0, 5, 20, 37, 60, 61, 62, 100, 400, 10_000])
@pytest.mark.parametrize(("posts", "judgements"), [(9, 4), (3, 8), (0, 5), (40, 40)])
def test_it_is_the_longest_view_that_fits_when_parts_go_one_by_one(most: int, posts: int, judgements: int) -> None:
    counted = 0

    def count(ask: Ask) -> int:
        nonlocal counted
        counted += 1
        return words(ask)

    ask = asked(posts, judgements)
    fitted, note = fit_view(ask, count, most)
    assert counted <= 9, "not once for each part"
    kept, gone = fitted.view.parts, [part for part in ask.view.parts if part not in fitted.view.parts]
    assert [part for part in ask.view.parts if part in kept] == list(kept), "in the same order"
    assert (note is None) == (not gone)
    if words(ask) <= most:
        assert fitted == ask
    elif kept:
        assert words(fitted) <= most
    if gone:  # what is next longer would not have fitted
        some = (fit_view(ask, words, words(fitted) + more)[0] for more in range(1, 100))
        assert words(next(one for one in some if one != fitted)) > most


def test_history_goes_before_anything_else_and_the_last_of_it_first() -> None:
    ask = asked(posts=3, judgements=1)
    kept = [[part.text.split()[:2] for part in fit_view(ask, words, most)[0].view.parts] for most in range(60)]
    ever_more = [list(one) for one in dict.fromkeys(tuple(map(tuple, some)) for some in kept)]
    sea, choice, posts = ("Lives", "by"), ("Choice", "0"), [("Post", str(number)) for number in range(3)]
    assert ever_more[0] == []
    assert [sea] in ever_more
    assert ever_more[-1] == [sea, *posts, choice]
    assert [sea, posts[0], choice] in ever_more, "the third and the second post first"


def test_where_nothing_can_be_counted_nothing_is_cut() -> None:
    ask = asked(posts=5, judgements=5)
    assert fit_view(ask, lambda _: None, 10) == (ask, None)
    assert fit_view(ask, words, None) == (ask, None)
