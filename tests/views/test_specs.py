"""The language of views."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.records import PalateError
from palate.views import parse_view, resolve_views


def test_views_combine_with_plus() -> None:
    view = parse_view("values+posts:3+judgements:4")
    assert [(piece.kind, piece.most) for piece in view.pieces] == [
        ("values", None),
        ("posts", 3),
        ("judgements", 4),
    ]


def test_swapped_stands_for_the_only_profile_view() -> None:
    views = resolve_views(["none", "posts:5", "swapped", "oracle"])
    assert [view.name for view in views] == ["none", "posts:5", "swapped", "oracle"]
    assert (views[2].whose, views[2].of) == ("swapped", "posts:5")


def test_swapped_stands_for_each_of_several_profile_views() -> None:
    views = resolve_views(["posts:5", "values", "swapped", "twin"])
    assert [view.name for view in views[2:]] == [
        "swapped:posts:5",
        "swapped:values",
        "twin:posts:5",
        "twin:values",
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("post:3", "Did you mean 'posts'"),
        ("posts:0", "whole number from 1"),
        ("posts:many", "whole number from 1"),
        ("posts:²", "whole number from 1"),
        ("values:3", "takes no number"),
        ("swapped", "needs a profile view"),
        ("swapped:none", "shows none"),
        ("swapped:oracle", "shows none"),
        ("posts:3+posts:4", "twice"),
        ("persona:3", "takes no number"),
        ("plan+neighbours", "whole number from 1 after the colon, as in neighbours:"),
        ("neighbours:3", "no history that neighbours could fill up"),
        ("values+neighbours:3", "no history that neighbours could fill up"),
        ("judgements+neighbours:3", "up to how many: judgements:4"),
        ("", "unknown view"),
    ],
)
def test_a_wrong_view_is_told_what_is_wrong(name: str, words: str) -> None:
    with pytest.raises(PalateError, match=words):
        resolve_views([name])


def test_a_view_named_twice_is_refused() -> None:
    with pytest.raises(PalateError, match="twice"):
        resolve_views(["none", "none"])


@given(st.text(max_size=40))
def test_any_text_is_a_view_or_a_clear_error(text: str) -> None:
    try:
        assert parse_view(text).name == text.strip()
    except PalateError as error:
        assert str(error)
