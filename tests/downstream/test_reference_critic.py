"""Likeness to what the user really wrote."""

from collections.abc import Callable
from pathlib import Path

import pytest

from palate.downstream import ReferenceCritic, make_critic
from palate.records import Benchmark, Card, Comparison, Completion, Critic, Draft, Grade, PalateError

pytest.importorskip("rouge_score")
pytest.importorskip("sacrebleu")

WRITTEN = Completion(id="w", user_id="ann", prompt="p", text="the cat sat on the mat")
CHOSEN = Comparison(
    id="c", user_id="ann", prompt="p", responses=("a dog barked", "the cat sat on the mat"), preferred=1
)
CARD = Card(name="n", title="t", version="1", licence="l", source="s")


def judge(critic: Critic, text: str, item: Comparison | Completion = WRITTEN) -> Grade:
    [mark] = critic.judge([Draft(item=item, text=text)])
    return mark


def test_rouge_is_what_one_reckons_by_hand() -> None:
    critic = ReferenceCritic("rouge1", encoder="none")
    assert isinstance(critic, Critic)
    mark = judge(critic, "on the mat the cat slept")
    # five of six words are shared, and three of them in a row in both: "on the mat" or "the cat" after it
    assert mark.score == mark.parts["rouge1"] == pytest.approx(5 / 6)
    assert mark.parts["rougeL"] == pytest.approx(3 / 6)
    assert 0 < mark.parts["chrf"] < 1


def test_the_named_measure_is_the_score() -> None:
    for measure in ("rouge1", "rougeL", "chrf"):
        mark = judge(ReferenceCritic(measure, encoder="none"), "the cat sat")
        assert mark.score == mark.parts[measure]
        assert sorted(mark.parts) == ["chrf", "rouge1", "rougeL"]


def test_the_same_text_is_as_like_as_can_be_and_an_empty_one_not_at_all() -> None:
    critic = ReferenceCritic(encoder="none")
    for item in (WRITTEN, CHOSEN):
        assert set(judge(critic, "the cat sat on the mat", item).parts.values()) == {1.0}
    assert set(judge(critic, "").parts.values()) == {0.0}


def test_an_embedding_stands_beside_the_words(tiny_encoder: Callable[[int], Path]) -> None:
    folder = str(tiny_encoder(1))
    critic = ReferenceCritic("embedding", encoder=folder)
    drafts = [Draft(item=item, text=text) for item in (WRITTEN, CHOSEN) for text in (WRITTEN.text or "", "zebra!")]
    same, other, same_again, other_again = critic.judge(drafts)
    assert same.score == pytest.approx(1) and same.score > (other.score or 0)
    assert (same_again.score, other_again.score) == pytest.approx((same.score, other.score))
    assert list(other.parts) == ["rouge1", "rougeL", "chrf", "embedding"]
    assert critic.fingerprint != ReferenceCritic("embedding", encoder=str(tiny_encoder(2))).fingerprint


def test_real_vectors_know_what_words_do_not(minilm: object) -> None:
    critic = ReferenceCritic("embedding")
    item = Completion(id="w", user_id="ann", prompt="p", text="My kitten naps on a rug.")
    near, far = critic.judge([Draft(item=item, text=text) for text in ("A cat sleeps on the carpet.", "Taxes rose.")])
    assert (near.score or 0) > (far.score or 0) + 0.3


def test_letters_that_rouge_does_not_read_are_unscored_and_not_zero() -> None:
    item = Completion(id="w", user_id="ann", prompt="p", text="猫が好きです")
    assert "all that ROUGE reads" in (judge(ReferenceCritic(encoder="none"), "猫が好き", item).unscored or "")
    assert (judge(ReferenceCritic("chrf", encoder="none"), "猫が好き", item).score or 0) > 0.3


def test_an_item_without_a_reference_is_unscored_and_a_benchmark_without_any_refused() -> None:
    bare = Completion(id="b", user_id="ann", prompt="p")
    assert "no reference" in (judge(ReferenceCritic(encoder="none"), "tea", bare).unscored or "")
    benchmark = Benchmark(card=CARD, users={}, completions=(bare,))
    with pytest.raises(PalateError, match="what the user really wrote, and none of the 1 items says it"):
        make_critic("reference:rougeL,encoder=none", benchmark)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("reference:rouge-l", "unknown measure 'rouge-l'. Did you mean 'rougeL'"),
        ("reference:embedding,encoder=none", "the embedding needs an encoder"),
        ("reference:chrf,encodr=minilm", "unknown option 'encodr'. Did you mean 'encoder'"),
        ("refrence", "unknown critic 'refrence'. Did you mean 'reference'"),
        ("rubric", "write rubric:MODEL"),
        ("sim:3", "takes no argument"),
    ],
)
def test_wrong_names_are_refused_with_the_nearest(spec: str, message: str) -> None:
    with pytest.raises(PalateError, match=message):
        make_critic(spec, Benchmark(card=CARD, users={}, completions=(WRITTEN,)))
