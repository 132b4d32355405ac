"""Likeness to what a user wrote, chose, gave as a reason or is known to want."""

import msgspec
import numpy as np
import pytest

from palate.engine import SentenceEncoder
from palate.records import Ask, Judgement, PalateError, Part, View
from palate.rewards import check_reward_model, follow, make_reward_model, rate
from palate.rewards._embedding import PROFILE_WEIGHT

DRINKS = ("A quiet pot of green tea.", "A strong black espresso.")
POST = Part(kind="post", text="I wrote: I only drink tea now.", content="I only drink tea now.")
JUDGED = Judgement(
    prompt="Breakfast?", responses=("Coffee from the bar.", "Tea at home."), preferred=1, reason="Tea calms me."
)
JUDGEMENT = Part(kind="judgement", text="They preferred tea at home.", judgement=JUDGED)
ASPECT = Part(kind="aspect", text="This user looks for: herbal tea", content="herbal tea")
ANYTHING = "posts or judgements or reasons or aspects or traits"
VALUES = Part(kind="values", text="This user values: tea ceremonies")


@pytest.mark.parametrize(
    ("spec", "part"),
    [
        ("embedding:posts", POST),
        ("embedding:judgements", JUDGEMENT),
        ("embedding:reasons", JUDGEMENT),
        ("embedding:aspects", ASPECT),
        ("embedding:traits", VALUES),
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


def scores(spec: str, ask: Ask, *parts: Part) -> np.ndarray:
    """With these parts shown, or with the view `none`."""
    view = View(name="v", parts=parts, user_id="u") if parts else View(name="none")
    [rating] = rate(make_reward_model(spec), [msgspec.structs.replace(ask, view=view)])
    assert rating.scores is not None
    return np.array(rating.scores)


def test_a_view_adds_to_the_likeness_to_the_prompt(minilm: SentenceEncoder) -> None:
    """One scorer with and without a profile: what is added is the weight times the likeness, and nothing else."""
    ask = Ask(id="a", prompt="Something hot and strong?", responses=(*DRINKS, ""))
    responses, [prompt] = minilm.encode(ask.responses), minilm.encode([ask.prompt])
    without = scores("embedding", ask)
    assert without == pytest.approx(responses @ prompt, abs=1e-6)
    chosen, left, reason, aspect, values, post = minilm.encode(
        ["Tea at home.", "Coffee from the bar.", "Tea calms me.", "herbal tea", VALUES.text, "I only drink tea now."]
    )
    added = {
        "posts": responses @ post,
        "judgements": responses @ (chosen - left),
        "reasons": responses @ reason,
        "aspects": responses @ aspect,
        "traits": responses @ values,
    }
    everything = (POST, JUDGEMENT, ASPECT, VALUES)
    for kind, likeness in added.items():
        shown = scores(f"embedding:{kind}", ask, *everything)
        assert shown - PROFILE_WEIGHT * likeness == pytest.approx(without, abs=1e-6)
    shown = scores("embedding", ask, *everything)
    assert shown - PROFILE_WEIGHT * sum(added.values()) == pytest.approx(without, abs=1e-6)


def test_a_profile_that_tells_nothing_changes_no_order(minilm: SentenceEncoder) -> None:
    """A choice between two equal texts is as near to every response: what decides is the prompt, as under `none`."""
    same = Judgement(prompt="Breakfast?", responses=("Tea at home.", "Tea at home."), preferred=0)
    empty = Part(kind="judgement", text="They preferred tea at home to tea at home.", judgement=same)
    for prompt in ("Something hot and strong?", "Something calm?"):
        ask = Ask(id="a", prompt=prompt, responses=DRINKS)
        assert scores("embedding", ask, empty) == pytest.approx(scores("embedding", ask), abs=1e-6)


@pytest.mark.parametrize("spec", ["embedding", "embedding:judgements"])
def test_a_score_does_not_depend_on_the_other_responses(minilm: SentenceEncoder, spec: str) -> None:
    ask = Ask(id="a", prompt="A drink?", responses=(*DRINKS, "Water.", ""))
    together = scores(spec, ask, POST, JUDGEMENT)
    alone = [
        scores(spec, msgspec.structs.replace(ask, responses=(text,)), POST, JUDGEMENT)[0] for text in ask.responses
    ]
    assert together == pytest.approx(alone, abs=1e-6)


@pytest.mark.parametrize(
    ("spec", "view", "note"),
    [
        ("embedding", View(name="none"), None),
        ("embedding:posts", View(name="none"), None),
        ("embedding:reasons", View(name="posts:1", parts=(POST,)), "impersonal: the view shows no reasons"),
        ("embedding:posts", View(name="posts:5", user_id="u"), "impersonal: the view shows no posts"),
        ("embedding:posts", View(name="posts:5"), "impersonal: the view shows no posts"),
        ("embedding:posts", View(name="user", user_id="u"), "impersonal: the view shows no posts"),
        ("embedding", View(name="posts:5", user_id="u"), f"impersonal: the view shows no {ANYTHING}"),
        (
            "embedding",
            View(name="persona", parts=(Part(kind="persona", text="A tea drinker."),)),
            f"impersonal: the view shows no {ANYTHING}",
        ),
    ],
)
def test_with_nothing_to_go_by_it_is_impersonal_and_says_so(
    minilm: SentenceEncoder, spec: str, view: View, note: str | None
) -> None:
    model = make_reward_model(spec)
    ask = Ask(id="a", prompt="A drink?", responses=DRINKS)
    plain, seen = rate(model, [ask, msgspec.structs.replace(ask, view=view)])
    assert plain.note is None and plain.scores == seen.scores
    assert seen.note == note
    followed = follow(model, [msgspec.structs.replace(ask, view=view)]).rate({0: DRINKS})[0]
    assert followed.note == note


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
