"""Group preference optimisation: examples in the context of a small transformer."""

import pytest
import torch

from palate.personal import Known, PersonalModel
from palate.personal._gpo import GpoSettings
from unseen import accuracy, trained


@pytest.fixture(scope="module")
def model() -> PersonalModel:
    return trained("gpo", GpoSettings(epochs=10, rate=3e-3, width=16, heads=2))


def known_of(features: int, judgements: int, seed: int = 0) -> Known:
    generator = torch.Generator().manual_seed(seed)
    better, worse = torch.randn(2, judgements, features, generator=generator) / features**0.5
    return Known(better, worse, torch.ones(judgements), torch.zeros(0, features))


def rows_of(model: PersonalModel, count: int = 6) -> torch.Tensor:
    generator = torch.Generator().manual_seed(9)
    return torch.randn(count, model.features.dimensions, generator=generator) / model.features.dimensions**0.5


def test_tastes_of_strangers_are_read_from_judgements(model: PersonalModel) -> None:
    assert accuracy(trained("bradley-terry"), "judgements:8") == 0.5
    assert accuracy(model, "none") == 0.5
    assert accuracy(model, "judgements:8") > 0.9
    assert accuracy(model, "judgements:1") > 0.8


def test_the_order_of_the_examples_does_not_matter(model: PersonalModel) -> None:
    known, rows = known_of(model.features.dimensions, 9), rows_of(model)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(3))
    turned = Known(known.better[order], known.worse[order], known.weight, known.posts)
    first, second = (model.method.reward(rows, model.method.user(one)) for one in (known, turned))
    torch.testing.assert_close(first, second, atol=1e-5, rtol=1e-5)


def test_texts_do_not_see_one_another(model: PersonalModel) -> None:
    rows, state = rows_of(model), model.method.user(known_of(model.features.dimensions, 5))
    alone = torch.cat([model.method.reward(row[None], state) for row in rows])
    torch.testing.assert_close(model.method.reward(rows, state), alone, atol=1e-5, rtol=1e-5)


def test_users_read_together_are_as_users_read_alone(model: PersonalModel) -> None:
    known = [known_of(model.features.dimensions, count, seed=count) for count in (1, 7, 0, 40)]
    for state, one in zip(model.method.users(known), known, strict=True):
        torch.testing.assert_close(state, model.method.user(one), atol=1e-5, rtol=1e-5)
    assert [len(state) for state in model.method.users(known)] == [1, 7, 0, 32]


def test_a_choice_among_three_weighs_as_one(model: PersonalModel) -> None:
    """Two pairs of half the weight, alike, speak like one."""
    known, rows = known_of(model.features.dimensions, 3), rows_of(model)
    doubled = Known(known.better.repeat(2, 1), known.worse.repeat(2, 1), known.weight.repeat(2) / 2, known.posts)
    first, second = (model.method.reward(rows, model.method.user(one)) for one in (known, doubled))
    torch.testing.assert_close(first, second, atol=1e-5, rtol=1e-5)


def test_the_examples_matter(model: PersonalModel) -> None:
    rows = rows_of(model)
    rewards = [model.method.reward(rows, model.method.user(known_of(26, 8, seed))) for seed in range(2)]
    assert (rewards[0] - rewards[1]).abs().max() > 1e-2
