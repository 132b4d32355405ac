"""Likeness to what a user wrote, chose, gave as a reason or is known to want."""

import msgspec
import pytest

from palate.engine import SentenceEncoder
from palate.records import Ask, Judgement, PalateError, Part, View
from palate.rewards import check_reward_model, follow, make_reward_model, rate

DRINKS = ("A quiet pot of green tea.", "A strong black espresso.")
POST = Part(kind="post", text="I wrote: I only drink tea now.", content="I only drink tea now.")
JUDGED = Judgement(
    prompt="Breakfast?", responses=("Coffee from the bar.", "Tea at home."), preferred=1, reason="Tea calms me."
)
JUDGEMENT = Part(kind="judgement", text="They preferred tea at home.", judgement=JUDGED)
ASPECT = Part(kind="aspect", text="This user looks for: herbal tea", content="herbal tea")


@pytest.mark.parametrize(
    ("spec", "part"),
    [
        ("embedding:posts", POST),
        ("embedding:judgements", JUDGEMENT),
        ("embedding:reasons", JUDGEMENT),
        ("embedding:aspects", ASPECT),
        ("embedding:traits", Part(kind="values", text="This user values: tea ceremonies")),
        ("embedding", POST),
        ("embedding", JUDGEMENT),
        ("embedding", ASPECT),
    ],
)
def test_what_the_view_shows_decides(minilm: SentenceEncoder, spec: str, part: Part) -> None:
    ask = Ask(id="a", prompt="A drink?", responses=DRINKS, view=View(name="v", parts=(part,)))
    [rating] = rate(make_reward_model(spec), [ask])
    assert rating.scores is not None and rating.note is None
    assert rating.scores[0] > rating.scores[1]


def test_with_nothing_to_go_by_it_is_impersonal_and_says_so(minilm: SentenceEncoder) -> None:
    model = make_reward_model("embedding:reasons")
    nothing = Ask(id="a", prompt="A drink?", responses=DRINKS)
    posts = Ask(id="b", prompt="A drink?", responses=DRINKS, view=View(name="posts:1", parts=(POST,)))
    plain, fallen_back = rate(model, [nothing, posts])
    assert plain.note is None
    assert fallen_back.note == "impersonal: the view shows no reasons"
    assert plain.scores == fallen_back.scores


@pytest.mark.parametrize("spec", ["embedding", "embedding:posts", "embedding:judgements", "embedding,encoder=traits"])
def test_texts_are_rated_alike_while_they_are_written(minilm: SentenceEncoder, spec: str) -> None:
    """And what was only a piece of a text leaves no vector on the disk."""
    model = make_reward_model(spec)
    asks = [
        Ask(id="a", prompt="A drink?", responses=("",), view=View(name="v", parts=(POST, JUDGEMENT, ASPECT))),
        Ask(id="b", prompt="A drink?", responses=("",), view=View(name="v", parts=(ASPECT,))),
        Ask(id="c", prompt="A drink?", responses=("",)),
    ]
    follower = follow(model, asks)
    kept = len(minilm._store)
    found = [
        follower.rate({place: [f"{text} {word}" for word in ("tea", "tea", "")] for place in places})
        for text, places in (("A quiet pot of", (0, 1, 2)), ("A quiet pot of green", (2, 0)))
    ]
    assert len(minilm._store) == kept
    for text, ratings in zip(("A quiet pot of", "A quiet pot of green"), found, strict=True):
        for place, rating in ratings.items():
            responses = tuple(f"{text} {word}" for word in ("tea", "tea", ""))
            [whole] = rate(model, [msgspec.structs.replace(asks[place], responses=responses)])
            assert rating.scores == pytest.approx(whole.scores, abs=1e-6)
            assert rating.note == whole.note


def test_it_keeps_the_contract(minilm: SentenceEncoder) -> None:
    assert all(check.fault is None for check in check_reward_model(make_reward_model("embedding")))


def test_an_unknown_likeness_is_named() -> None:
    with pytest.raises(PalateError, match="Did you mean 'posts'"):
        make_reward_model("embedding:post")
