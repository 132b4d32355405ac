"""Meta-learning: a starting point, the steps from it, and weight on the users who are served worst."""

from pathlib import Path

import pytest
import torch

from minority import WIDTH, known_of, served
from palate.personal import Known, PersonalModel
from palate.personal._meta import Meta, MetaSettings, tilted
from palate.personal._pairs import Pairs
from palate.records import Ask, View
from palate.rewards import check_reward_model
from planted import planted
from unseen import BENCHMARK, accuracy, asks, trained

SETTINGS = MetaSettings(precision=10.0)


@pytest.fixture(scope="module")
def model() -> PersonalModel:
    return trained("meta", SETTINGS)


def test_two_steps_by_hand() -> None:
    method = Meta(MetaSettings(steps=2), {"some": slice(0, 2)})
    method.shared = {
        "start": torch.tensor([1.0, 0.0]),
        "step": torch.tensor([2.0, 0.5]),
        "doubt": torch.tensor(3.0),
    }
    choice = torch.tensor([-1.0, 2.0])
    first = torch.tensor([2.0, 0.5]) * torch.sigmoid(torch.tensor(1.0)) * choice / 4
    margin = (torch.tensor([1.0, 0.0]) + first) @ choice
    second = first + torch.tensor([2.0, 0.5]) * torch.sigmoid(-margin) * choice / 4
    state = method.user(Known(choice[None], torch.zeros(1, 2), torch.ones(1), torch.zeros(0, 2)))
    torch.testing.assert_close(state, second[None])
    rows = torch.tensor([[1.0, 1.0]])
    torch.testing.assert_close(method.reward(rows, state), 1 + second.sum()[None])
    torch.testing.assert_close(method.reward(rows, method.nobody()), torch.tensor([1.0]))


def test_tastes_of_strangers_are_read_from_judgements(model: PersonalModel) -> None:
    assert accuracy(model, "none") == pytest.approx(0.5, abs=0.05)
    assert accuracy(model, "judgements:1") > 0.8
    assert accuracy(model, "judgements:8") > 0.9
    assert accuracy(model, "swapped:judgements:8") < 0.7


def test_where_choices_are_coins_judgements_tell_nothing() -> None:
    """And next to no step is taken."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(2400, WIDTH, generator=generator)
    user = torch.arange(100).repeat_interleave(12)
    places = torch.arange(1200)
    pairs = Pairs(rows, places, places + 1200, user, torch.ones(1200), places, tuple(map(str, range(100))))
    method = Meta(MetaSettings(), {"some": slice(0, WIDTH)})
    method.learn(pairs, [known_of(one) for one in pairs.differences.split(12)])
    own = torch.randn(200, 20, WIDTH, generator=generator)
    moved = [method.user(known_of(one[:10])) for one in own]
    right = torch.stack([method.reward(one[10:], state) > 0 for one, state in zip(own, moved, strict=True)])
    assert float(right.float().mean()) == pytest.approx(0.5, abs=0.03)
    assert max(float(state.norm()) for state in moved) < 0.2


def test_it_keeps_the_contract(model: PersonalModel) -> None:
    check_reward_model(model, [ask for _, ask in asks("judgements:3")[:5]])


def test_saving_and_loading_change_nothing(model: PersonalModel, tmp_path: Path) -> None:
    loaded = PersonalModel.load(model.save(tmp_path / "kept"))
    name = model.users[0]
    known = View(name="user", user_id=name, by_name=True)
    some = [
        Ask(id="known", prompt="Now?", responses=("Is it so?", "There are 12 of 30."), view=known),
        *(ask for _, ask in asks("judgements:8")[:10]),
    ]
    assert loaded.rate(some) == model.rate(some)
    assert loaded.fingerprint == model.fingerprint
    assert loaded.forget(name)
    assert loaded.fingerprint != model.fingerprint
    assert loaded.rate(some)[0].note is not None


def test_the_same_seed_learns_the_same(model: PersonalModel) -> None:
    before = torch.random.get_rng_state()
    assert trained("meta", SETTINGS).fingerprint == model.fingerprint
    assert torch.equal(torch.random.get_rng_state(), before)


def test_settings_are_chosen_on_other_users() -> None:
    small = planted(couples=16, choices=5, history=3)
    model = trained("meta", benchmark=small)
    assert model.chosen_by is not None
    assert accuracy(model, "judgements:3", small) > 0.8


def test_two_hundred_judgements_do_not_carry_a_user_away(model: PersonalModel) -> None:
    many = [judgement for user in BENCHMARK.users.values() for judgement in user.judgements][:200]
    model.adapt("somebody", many)
    assert float(model._states["somebody"].norm()) < 50
    model.forget("somebody")


def test_weight_on_the_worst_serves_a_minority_better() -> None:
    (plain_few, plain_many), (few, many) = served(0.0), served(MetaSettings().worst)
    assert few > plain_few + 0.05
    assert plain_many > many > plain_many - 0.05
    assert served(8.0)[0] > few


def test_the_weight_lies_between_the_mean_and_the_worst() -> None:
    losses = torch.tensor([0.1, 0.4, 2.0])
    values = [float(tilted(losses, worst)) for worst in (0.0, 0.01, 1.0, 10.0, 1000.0)]
    assert values == sorted(values)
    assert values[0] == pytest.approx(float(losses.mean()))
    assert values[-1] == pytest.approx(2.0, abs=0.01)
