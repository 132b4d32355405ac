"""Reading a prefix once gives, for every candidate, what the whole sequence alone gives."""

import copy
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from palate.engine import _scorer  # noqa: E402
from palate.engine._packing import Group, can_pack  # noqa: E402
from palate.engine._scorer import Scorer, classifier_finish, likelihood_finish, read_both_ways  # noqa: E402
from tiny_models import CAUSAL, CLASSIFIERS, build  # noqa: E402

VOCABULARY = 330
DECODERS = [family for family in CLASSIFIERS if family != "bert"]
CLOSE = {"rel": 1e-4, "abs": 1e-4}


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return {family: build(family) for family in CAUSAL}


@pytest.fixture(scope="module")
def packed_llama() -> Any:
    return build("llama")


@pytest.fixture(scope="module")
def classifiers() -> dict[str, Any]:
    return {family: build(family, labels=3) for family in CLASSIFIERS}


def draw(seed: int, *, groups: int = 5, prefix: int = 60, longest: int = 40) -> list[Group]:
    """Ragged: prefixes of one token and of many, beyond the sliding window; some continuations are empty."""
    chance = random.Random(seed)

    def tokens(count: int) -> list[int]:
        return [chance.randrange(VOCABULARY) for _ in range(count)]

    return [
        Group(
            tokens(chance.choice([1, 2, prefix // 2, prefix])),
            [tokens(chance.choice([0, 1, 3, longest // 2, longest])) for _ in range(chance.randint(1, 5))],
        )
        for _ in range(groups)
    ]


def plain(model: Any, group: Group) -> list[float]:
    """Each whole sequence alone, through the model as it comes, head and all."""
    found = []
    for tokens in group.continuations:
        ids = torch.tensor([[*group.prefix, *tokens]])
        with torch.inference_mode():
            logs = model(input_ids=ids).logits[0].float().log_softmax(-1)
        start = len(group.prefix)
        found.append(sum(float(logs[start + place - 1, token]) for place, token in enumerate(tokens)))
    return found


def plain_logit(model: Any, group: Group, label: int) -> list[float]:
    with torch.inference_mode():
        rows = [torch.tensor([[*group.prefix, *tokens]]) for tokens in group.continuations]
        return [float(model(input_ids=row, attention_mask=torch.ones_like(row)).logits[0, label]) for row in rows]


def flat(numbers: list[list[float]]) -> list[float]:
    return [number for some in numbers for number in some]


@pytest.mark.parametrize("family", CAUSAL)
def test_likelihoods_are_those_of_each_sequence_alone(models: dict[str, Any], family: str) -> None:
    model = models[family]
    groups = draw(1)
    assert any(not len(tokens) for group in groups for tokens in group.continuations)
    found = Scorer(model).run(groups, likelihood_finish(model))
    assert [len(some) for some in found] == [len(group.continuations) for group in groups]
    assert flat(found) == pytest.approx(flat([plain(model, group) for group in groups]), **CLOSE)


@pytest.mark.parametrize("family", CAUSAL)
def test_order_neighbours_and_budget_change_nothing(models: dict[str, Any], family: str) -> None:
    model = models[family]
    groups = draw(2)
    finish = likelihood_finish(model)
    together = Scorer(model).run(groups, finish)
    assert flat(Scorer(model).run(groups[::-1], finish)[::-1]) == pytest.approx(flat(together), **CLOSE)
    alone = [Scorer(model).run([group], finish)[0] for group in groups]
    assert flat(alone) == pytest.approx(flat(together), **CLOSE)
    assert flat(Scorer(model, budget=8).run(groups, finish)) == pytest.approx(flat(together), **CLOSE)
    single = [
        Scorer(model).run([Group(group.prefix, [tokens])], finish)[0][0]
        for group in groups
        for tokens in group.continuations
    ]
    assert single == pytest.approx(flat(together), **CLOSE)


@pytest.mark.parametrize("family", CAUSAL)
def test_two_to_sixteen_candidates(models: dict[str, Any], family: str) -> None:
    model = models[family]
    chance = random.Random(3)
    prefix = [chance.randrange(VOCABULARY) for _ in range(30)]
    following = [[chance.randrange(VOCABULARY) for _ in range(chance.randint(0, 24))] for _ in range(16)]
    expected = plain(model, Group(prefix, following))
    for count in (2, 3, 7, 16):
        [found] = Scorer(model).run([Group(prefix, following[:count])], likelihood_finish(model))
        assert found == pytest.approx(expected[:count], **CLOSE)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), budget=st.sampled_from([None, 4, 64]))
def test_any_groups_of_a_model_with_a_window(models: dict[str, Any], seed: int, budget: int | None) -> None:
    model = models["gemma3"]
    groups = draw(seed, groups=2, prefix=24, longest=20)
    found = Scorer(model, budget=budget).run(groups, likelihood_finish(model))
    assert flat(found) == pytest.approx(flat([plain(model, group) for group in groups]), **CLOSE)


def test_the_logits_held_at_once_change_nothing(models: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model, groups = models["gemma2"], draw(4)
    whole = Scorer(model).run(groups, likelihood_finish(model))
    monkeypatch.setattr(_scorer, "LOGITS_AT_ONCE", 7 * VOCABULARY)
    assert flat(Scorer(model).run(groups, likelihood_finish(model))) == pytest.approx(flat(whole), **CLOSE)


def test_nothing_to_read(models: dict[str, Any]) -> None:
    assert Scorer(models["llama"]).run([], likelihood_finish(models["llama"])) == []
    assert Scorer(models["llama"]).run([Group([5, 6], [[], []])], likelihood_finish(models["llama"])) == [[0.0, 0.0]]


@pytest.mark.parametrize("family", DECODERS)
def test_classifiers_are_read_at_the_last_token(classifiers: dict[str, Any], family: str) -> None:
    model = classifiers[family]
    groups = draw(5)
    for label in (0, 2):
        found = Scorer(model).run(groups, classifier_finish(model.score, label))
        assert flat(found) == pytest.approx(flat([plain_logit(model, group, label) for group in groups]), **CLOSE)


def test_encoders_are_read_as_if_alone(classifiers: dict[str, Any]) -> None:
    model = classifiers["bert"]
    groups = [*draw(6), Group([], [[5, 6, 7], [8]])]
    expected = flat([plain_logit(model, group, 1) for group in groups])
    for pad in (0, 330):
        assert flat(read_both_ways(model, groups, 1, pad)) == pytest.approx(expected, **CLOSE)
    assert flat(read_both_ways(model, groups[::-1], 1, 0)[::-1]) == pytest.approx(expected, **CLOSE)
    assert read_both_ways(model, [], 1, 0) == []


# Packed: the code that a GPU runs too, with another kernel for attention.


@pytest.mark.parametrize("budget", [64, 1024])
@pytest.mark.parametrize("family", CAUSAL)
def test_packed_groups_give_the_same_numbers(models: dict[str, Any], family: str, budget: int) -> None:
    """Where a model cannot be packed, asking for it changes nothing."""
    model, groups = copy.deepcopy(models[family]), draw(7)
    expected = flat([plain(models[family], group) for group in groups])
    finish = likelihood_finish(model)
    scorer = Scorer(model, budget=budget, packs=True)
    assert flat(scorer.run(groups, finish)) == pytest.approx(expected, **CLOSE)
    assert flat(scorer.run(groups[::-1], finish)[::-1]) == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize("family", DECODERS)
def test_packed_classifiers_give_the_same_numbers(classifiers: dict[str, Any], family: str) -> None:
    model, groups = copy.deepcopy(classifiers[family]), draw(8)
    expected = flat([plain_logit(classifiers[family], group, 1) for group in groups])
    found = Scorer(model, budget=256, packs=True).run(groups, classifier_finish(model.score, 1))
    assert flat(found) == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize("packs", [True, False])
def test_two_models_may_read_at_the_same_time(models: dict[str, Any], packs: bool) -> None:
    groups = [draw(seed) for seed in range(12)]
    expected = [flat([plain(models["llama"], group) for group in some]) for some in groups]
    twins = [copy.deepcopy(models["llama"]) for _ in range(2)]
    scorers = [(Scorer(model, packs=packs), likelihood_finish(model)) for model in twins]

    def read(turn: int) -> list[float]:
        scorer, finish = scorers[turn % 2]
        return flat(scorer.run(groups[turn], finish))

    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        found = [(one, other)[turn % 2].submit(read, turn) for turn in range(12)]
        for answer, wanted in zip(found, expected, strict=True):
            assert answer.result() == pytest.approx(wanted, **CLOSE)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), budget=st.sampled_from([16, 128, 4096]))
def test_any_groups_packed(packed_llama: Any, models: dict[str, Any], seed: int, budget: int) -> None:
    groups = draw(seed, groups=4, prefix=24, longest=20)
    scorer = Scorer(packed_llama, budget=budget, packs=True)
    assert scorer.packs
    found = scorer.run(groups, likelihood_finish(packed_llama))
    assert flat(found) == pytest.approx(flat([plain(models["llama"], group) for group in groups]), **CLOSE)


def test_what_cannot_be_packed_is_not(models: dict[str, Any]) -> None:
    assert not can_pack(models["gemma2"])  # its attention has a soft cap
    assert can_pack(models["llama"])
    assert can_pack(models["qwen3"])
