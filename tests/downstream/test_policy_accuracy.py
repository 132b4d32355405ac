"""Policy accuracy with tiny real models: the right limits at weight 0 and at large weights, computed plainly."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from drinks import SMALL, drinks

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from palate import Ask  # noqa: E402
from palate.downstream import GUIDE, guide  # noqa: E402
from palate.downstream.guide import summarise_guide  # noqa: E402
from palate.downstream.guide._run import LIKELIHOODS, RATINGS, TOKEN_REWARDS  # noqa: E402
from palate.engine import LikelihoodRequest, LocalModel, Turn  # noqa: E402
from palate.records import RewardModel  # noqa: E402
from palate.rewards import make_reward_model  # noqa: E402
from palate.runs import open_run  # noqa: E402
from tiny_models import TinyModels  # noqa: E402


def test_at_weight_nought_policy_accuracy_is_the_likelihoods(tiny_models: TinyModels, tmp_path: Path) -> None:
    policy = LocalModel(str(tiny_models.causal()), device="cpu")
    reward = f"classifier:{tiny_models.classifier()}"
    benchmark = drinks(8)
    summary = guide(benchmark, policy, [reward], views=["none"], guiding=SMALL, out=tmp_path)
    assert summary.complete
    whole, normalised = [], []
    likelihoods = open_run(Path(summary.run), GUIDE).lines(LIKELIHOODS)
    for item in benchmark.comparisons:
        request = LikelihoodRequest(turns=(Turn("user", item.prompt),), continuations=item.responses)
        [plain] = policy.likelihood([request])
        assert isinstance(plain, list)
        kept = likelihoods["none", item.id].answers
        assert [sum(one.log_probabilities) for one in kept] == pytest.approx([one.total for one in plain], abs=1e-4)
        assert [len(one.tokens) for one in kept] == [one.tokens for one in plain]
        own, other = plain[item.preferred], plain[1 - item.preferred]
        whole.append(own.total > other.total)
        normalised.append(own.total / own.tokens > other.total / other.tokens)
    [result] = summary.accuracies
    alone = result.policy_accuracy[0]
    assert alone.weight == 0
    assert alone.whole.value == np.mean(whole)
    assert alone.normalised.value == np.mean(normalised)
    assert alone.over_alone.value == 0
    assert 0 < np.mean(whole) < 1, "a benchmark on which the answer could be wrong"


def test_at_large_weights_the_order_is_that_of_the_rewards_regret(tiny_models: TinyModels, tmp_path: Path) -> None:
    """The regret is computed here from whole texts, read one by one, and the policy's own logits."""
    policy = LocalModel(str(tiny_models.causal()), device="cpu")
    reward = make_reward_model(f"classifier:{tiny_models.classifier(seed=3)}")
    benchmark = drinks(6)
    summary = guide(benchmark, policy, [reward], views=["none"], guiding=SMALL, weights=[1e6], out=tmp_path)
    right = {"whole": [], "normalised": []}
    for item in benchmark.comparisons:
        regrets = [plain_regret(policy, reward, item.prompt, text, SMALL.top_k) for text in item.responses]
        for name, of in (("whole", np.sum), ("normalised", np.mean)):
            values = [float(of(one)) for one in regrets]
            right[name].append(values[item.preferred] > values[1 - item.preferred])
    [result] = summary.accuracies
    _, large, limit = result.policy_accuracy
    assert (large.weight, limit.weight) == (1e6, None)
    for one in (large, limit):
        assert one.whole.value == np.mean(right["whole"])
        assert one.normalised.value == np.mean(right["normalised"])
    assert 0 < np.mean(right["whole"]) < 1


def test_a_reward_that_says_nothing_moves_policy_accuracy_at_no_weight(tiny_models: TinyModels, tmp_path: Path) -> None:
    policy = LocalModel(str(tiny_models.causal()), device="cpu")
    summary = guide(drinks(8), policy, ["overlap"], views=["none"], guiding=SMALL, weights=[1, 1e6], out=tmp_path)
    [result] = summary.accuracies
    alone, *steered = result.policy_accuracy
    assert [one.weight for one in steered] == [1, 1e6, None]
    for one in steered:
        assert (one.whole.value, one.normalised.value) == (alone.whole.value, alone.normalised.value)


def plain_regret(policy: LocalModel, reward: RewardModel, prompt: str, text: str, top: int) -> list[float]:
    turns = (Turn("user", prompt),)
    group = policy.answers(turns, [text])
    row, begin = [*group.prefix, *group.continuations[0]], len(group.prefix)
    with torch.inference_mode():
        logits = policy._model(input_ids=torch.tensor([row])).logits[0]
    regrets = []
    for place in range(begin, len(row)):
        tokens = {*logits[place - 1].topk(top).indices.tolist(), row[place]}
        rewards = {}
        for token in tokens:
            ask = Ask(id="x", prompt=prompt, responses=(policy.decoded([*row[begin:place], token]),))
            [rating] = reward.rate([ask])
            assert rating.scores is not None
            rewards[token] = rating.scores[0]
        regrets.append(rewards[row[place]] - max(rewards.values()))
    return regrets


def test_the_last_reward_of_a_response_is_that_of_the_whole_one(tiny_models: TinyModels, tmp_path: Path) -> None:
    policy, reward = str(tiny_models.causal()), f"classifier:{tiny_models.classifier()}"
    run = open_run(Path(guide(drinks(3), policy, [reward], views=["none"], guiding=SMALL, out=tmp_path).run), GUIDE)
    ratings, likelihoods = run.lines(RATINGS), run.lines(LIKELIHOODS)
    for (_, rm, view, item), line in run.lines(TOKEN_REWARDS).items():
        scores = ratings[rm, view, item].rating.scores
        assert scores is not None
        for answer, rewards, score in zip(likelihoods["none", item].answers, line.rewards, scores, strict=True):
            assert rewards[-1][answer.candidates[-1][2]] == pytest.approx(score, abs=1e-4)


def test_weights_can_be_had_afterwards_without_a_model(tiny_models: TinyModels, tmp_path: Path) -> None:
    policy, reward = str(tiny_models.causal()), f"classifier:{tiny_models.classifier()}"
    asked = guide(drinks(5), policy, [reward], views=["none"], guiding=SMALL, weights=[3, 30], out=tmp_path)
    other = guide(drinks(5), policy, [reward], views=["none"], guiding=SMALL, weights=[7], out=tmp_path)
    again = summarise_guide(open_run(Path(other.run), GUIDE), weights=[3, 30])
    assert again.accuracies == asked.accuracies


def test_ties_are_half(tiny_models: TinyModels, tmp_path: Path) -> None:
    benchmark = drinks(2)
    same = [msgspec.structs.replace(item, responses=("Tea", "Tea")) for item in benchmark.comparisons]
    benchmark = msgspec.structs.replace(benchmark, comparisons=tuple(same))
    summary = guide(benchmark, str(tiny_models.causal()), ["longest"], views=["none"], guiding=SMALL, out=tmp_path)
    for point in summary.accuracies[0].policy_accuracy:
        assert point.normalised.value == point.whole.value == 0.5
