"""History attention: what the user wrote and chose speaks for what resembles it."""

import torch

from palate.personal import Known
from palate.personal._history_attention import HistoryAttention, HistoryAttentionSettings
from unseen import accuracy, trained


def method_of(features: int, width: int) -> HistoryAttention:
    """Random maps and strengths."""
    method = HistoryAttention(HistoryAttentionSettings(width=width, most=4), {"all": slice(0, features)})
    generator = torch.Generator().manual_seed(1)
    method.shared = {
        name: torch.randn(one.shape, generator=generator) for name, one in method._start(features, generator).items()
    }
    method.shared["weights"] = torch.randn(features, generator=generator)
    return method


def known_of(features: int, judgements: int, posts: int, seed: int = 0) -> Known:
    generator = torch.Generator().manual_seed(seed)
    better, worse = torch.randn(2, judgements, features, generator=generator)
    weight = torch.rand(judgements, generator=generator) + 0.1
    return Known(better, worse, weight, torch.randn(posts, features, generator=generator))


def test_tastes_of_strangers_are_read_from_judgements_and_from_posts() -> None:
    model = trained("history-attention", HistoryAttentionSettings(epochs=15))
    assert accuracy(trained("bradley-terry"), "judgements:8") == 0.5
    assert accuracy(model, "none") == 0.5
    assert accuracy(model, "judgements:8") > 0.9
    assert accuracy(model, "judgements:1") > 0.8
    assert accuracy(model, "posts") > 0.8
    assert accuracy(model, "posts+judgements:8") > 0.9


def test_the_reward_is_what_the_equation_says() -> None:
    method, known, x = method_of(5, 2), known_of(5, 3, 2), torch.randn(5, generator=torch.Generator().manual_seed(2))
    shared = method.shared
    scores, values = [], []
    for difference, weight in zip(known.differences, known.weight, strict=True):
        scores.append(weight * torch.exp((x @ shared["query"]) @ (difference @ shared["judgement.key"]) / 2**0.5))
        surprise = 1 / (1 + torch.exp(difference @ shared["weights"]))
        values.append(shared["strength"][0] * surprise * difference @ shared["judgement.value"])
    for post in known.posts:
        scores.append(torch.exp((x @ shared["query"]) @ (post @ shared["post.key"]) / 2**0.5))
        values.append(shared["strength"][1] * post @ shared["post.value"])
    brought = sum(score * value for score, value in zip(scores, values, strict=True)) / (1 + sum(scores))
    expected = x @ shared["weights"] + brought @ (x @ shared["probe"])
    torch.testing.assert_close(method.reward(x[None], method.user(known))[0], expected)


def test_the_order_of_the_history_does_not_matter() -> None:
    method, known = method_of(5, 3), known_of(5, 4, 3)
    rows, state = torch.randn(6, 5), method.user(known)
    torch.testing.assert_close(method.reward(rows, state.flip(0)), method.reward(rows, state))


def test_a_choice_among_three_weighs_as_one() -> None:
    """Two pairs of half the weight, alike, speak like one."""
    method, known = method_of(5, 3), known_of(5, 1, 0)
    doubled = Known(known.better.repeat(2, 1), known.worse.repeat(2, 1), known.weight.repeat(2) / 2, known.posts)
    rows = torch.randn(6, 5)
    torch.testing.assert_close(method.reward(rows, method.user(doubled)), method.reward(rows, method.user(known)))


def test_only_the_last_pieces_of_each_kind_are_kept() -> None:
    method, known = method_of(5, 3), known_of(5, 9, 7)
    last = Known(known.better[-4:], known.worse[-4:], known.weight[-4:], known.posts[-4:])
    assert torch.equal(method.user(known), method.user(last))
    assert method.user(known).shape == (8, 7)
