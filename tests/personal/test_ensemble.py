"""The average of several methods."""

from pathlib import Path

import msgspec
import pytest
import torch

from palate.personal import Known, PersonalModel
from palate.personal._crowd_gppl import CrowdGpplSettings
from palate.personal._ensemble import Ensemble, EnsembleSettings, pack, unpack
from palate.personal._per_user import PerUserSettings
from palate.records import Ask, PalateError, View
from palate.rewards import check_reward_model
from planted import planted
from unseen import accuracy, asks, trained

CHOSEN = (PerUserSettings(own_precision=1.0), CrowdGpplSettings(inducing=40, components=2, taste_precision=3.0))
SETTINGS = EnsembleSettings(
    members=("per-user", "crowd-gppl"), chosen=tuple(msgspec.json.encode(one).decode() for one in CHOSEN)
)


@pytest.fixture(scope="module")
def model() -> PersonalModel:
    return trained("ensemble", SETTINGS)


def members_of(model: PersonalModel) -> dict[str, object]:
    assert isinstance(model.method, Ensemble)
    return dict(model.method.members)


def test_tastes_of_strangers_are_read_from_their_judgements(model: PersonalModel) -> None:
    assert accuracy(trained("bradley-terry"), "judgements:8") == 0.5
    assert accuracy(model, "none") == 0.5
    assert accuracy(model, "judgements:8") > 0.9


def test_the_reward_is_the_average_of_the_members_learned_alone(model: PersonalModel) -> None:
    alone = [trained(name, own) for name, own in zip(SETTINGS.members, CHOSEN, strict=True)]
    rated = [ask for _, ask in asks("judgements:4")[:20]]
    for together, *apart in zip(model.rate(rated), *(one.rate(rated) for one in alone), strict=True):
        rewards = torch.tensor([one.scores for one in apart])
        assert together.scores == pytest.approx(rewards.mean(0).tolist(), abs=1e-4)


def test_settings_and_members_are_chosen_on_other_users() -> None:
    """No impersonal member helps where tastes are opposite, so that none is left."""
    small = planted(couples=16, choices=5, history=3)
    model = PersonalModel("ensemble", features="traits").fit(small.comparisons, small.users)
    assert isinstance(model.settings, EnsembleSettings)
    assert model.chosen_by is not None
    assert "bradley-terry" not in model.settings.members
    assert len(model.settings.chosen) == len(model.settings.members) == len(members_of(model))


def test_knowing_nothing_it_is_impersonal_and_says_so(model: PersonalModel) -> None:
    asked = Ask(id="x", prompt="p", responses=("Who knows?", "There are 12."))
    nobody = model.rate([asked])[0]
    stranger = model.rate([msgspec.structs.replace(asked, view=View(name="user", user_id="new", by_name=True))])[0]
    assert stranger.scores == nobody.scores
    assert stranger.note is not None
    assert stranger.note.startswith("impersonal")


def test_one_many_and_contradictory_judgements_are_finite(model: PersonalModel) -> None:
    rows = torch.randn(400, model.features.dimensions, generator=torch.Generator().manual_seed(0))
    better, worse = rows[:200], rows[200:]
    for told in ((better[:1], worse[:1]), (better, worse), (rows, rows.roll(200, 0))):
        state = model.method.user(Known(*told, torch.ones(len(told[0])), rows[:0]))
        assert model.method.reward(rows, state).isfinite().all()


def test_states_of_any_shape_are_packed_and_unpacked() -> None:
    states = [torch.zeros(1, 0), torch.randn(3, 4), torch.zeros(0, 5), torch.randn(1, 2)]
    for before, after in zip(states, unpack(pack(states), 4), strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("members", [(), ("ensemble",), ("per-user", "per-user")])
def test_members_that_make_no_ensemble_are_refused(members: tuple[str, ...]) -> None:
    with pytest.raises(PalateError, match="members"):
        Ensemble(EnsembleSettings(members=members), {})


def test_saving_and_loading_change_nothing(model: PersonalModel, tmp_path: Path) -> None:
    check_reward_model(model)
    loaded = PersonalModel.load(model.save(tmp_path / "kept"))
    for view in ("none", "judgements:4"):
        rated = [ask for _, ask in asks(view)[:20]]
        assert loaded.rate(rated) == model.rate(rated)
    by_name = [
        Ask(id=name, prompt="p", responses=("Who?", "12."), view=View(name="user", user_id=name, by_name=True))
        for name in model.users[:4]
    ]
    assert loaded.rate(by_name) == model.rate(by_name)
    assert loaded.fingerprint == model.fingerprint


def test_the_same_seed_learns_the_same(model: PersonalModel) -> None:
    assert trained("ensemble", SETTINGS).fingerprint == model.fingerprint
