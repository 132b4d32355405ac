"""What methods have in common that sum a user up in a few numbers, and how those numbers are found."""

from pathlib import Path

import msgspec
import pytest
import torch

from exact import shared_weights
from palate.personal import Known, MethodSettings, PersonalModel
from palate.personal._bradley_terry import BradleyTerrySettings, linear_base
from palate.personal._lore import LoReSettings
from palate.personal._own_vectors import Judgements, gaussian, most_probable, own_weights
from palate.personal._pairs import labelled, make_pairs
from palate.personal._pal import PalSettings
from palate.personal._user_embedding import UserEmbeddingSettings
from palate.records import Ask, Judgement, Part, View
from palate.rewards import check_reward_model
from unseen import BENCHMARK, accuracy, asks, trained

METHODS: dict[str, tuple[str, MethodSettings]] = {
    "multiplicative": ("user-embedding", UserEmbeddingSettings(rank=2)),
    "additive": ("user-embedding", UserEmbeddingSettings(rank=2, form="additive")),
    "lore": ("lore", LoReSettings(directions=3)),
    "pal": ("pal", PalSettings(prototypes=3)),
}


@pytest.fixture(scope="module", params=METHODS)
def model(request: pytest.FixtureRequest) -> PersonalModel:
    return trained(*METHODS[request.param])


@pytest.fixture(scope="module")
def impersonal() -> PersonalModel:
    return trained("bradley-terry", BradleyTerrySettings())


def known_of(features: int, judgements: int, seed: int = 0) -> Known:
    generator = torch.Generator().manual_seed(seed)
    better, worse = torch.randn(2, judgements, features, generator=generator) / features**0.5
    return Known(better, worse, torch.ones(judgements), torch.zeros(0, features))


def shown(judgements: list[Judgement]) -> View:
    parts = tuple(Part(kind="judgement", text=f"{place}", judgement=one) for place, one in enumerate(judgements))
    return View(name="judgements", user_id="somebody", parts=parts)


def test_tastes_of_strangers_are_found_from_judgements(model: PersonalModel, impersonal: PersonalModel) -> None:
    assert accuracy(impersonal, "judgements:8") == 0.5
    assert accuracy(model, "none") == 0.5
    assert accuracy(model, "judgements:8") > 0.9
    assert accuracy(model, "judgements:1") > 0.8


def test_it_keeps_the_contract(model: PersonalModel) -> None:
    check_reward_model(model, [ask for _, ask in asks("judgements:3")[:5]])


def test_saving_and_loading_change_nothing(model: PersonalModel, tmp_path: Path) -> None:
    loaded = PersonalModel.load(model.save(tmp_path / "kept"))
    known = Ask(
        id="known",
        prompt="?",
        responses=("Is it?", "It is 12."),
        view=View(name="user", user_id=model.users[0], by_name=True),
    )
    some = [known, *(ask for _, ask in asks("judgements:8")[:10])]
    assert loaded.rate(some) == model.rate(some)
    assert loaded.fingerprint == model.fingerprint


def test_the_same_seed_learns_the_same(model: PersonalModel) -> None:
    before = torch.random.get_rng_state()
    assert trained(model.method_name, model.settings).fingerprint == model.fingerprint
    assert torch.equal(torch.random.get_rng_state(), before)


def test_knowing_nothing_it_is_impersonal_and_says_so(model: PersonalModel, impersonal: PersonalModel) -> None:
    asked = [ask for _, ask in asks("none")[:5]]
    named = [msgspec.structs.replace(ask, view=View(name="user", user_id="never seen", by_name=True)) for ask in asked]
    for nobody, stranger, exact in zip(model.rate(asked), model.rate(named), impersonal.rate(asked), strict=True):
        assert stranger.scores == nobody.scores
        if model.method_name != "pal":  # whose distance from the mean ideal point is a term of its own
            assert nobody.scores == pytest.approx(exact.scores, abs=5e-3)
        assert stranger.note == "impersonal: the model knows nothing of this user"


@pytest.mark.parametrize("kind", ["one", "contradictory", "two hundred"])
def test_odd_histories_give_finite_scores(model: PersonalModel, kind: str) -> None:
    one = BENCHMARK.users["user-0-asks"].judgements[0]
    other = msgspec.structs.replace(one, preferred=1 - one.preferred)
    many = [judgement for user in BENCHMARK.users.values() for judgement in user.judgements][:200]
    history = {"one": [one], "contradictory": [one, other], "two hundred": many}[kind]
    rating = model.rate([Ask(id="x", prompt="?", responses=("Is it so?", "It is 12."), view=shown(history))])[0]
    assert rating.scores is not None
    assert all(abs(score) < 100 for score in rating.scores)


def test_users_found_together_are_as_users_found_alone(model: PersonalModel) -> None:
    known = [known_of(model.features.dimensions, count, seed=count) for count in (1, 0, 7, 40)]
    for state, one in zip(model.method.users(known), known, strict=True):
        torch.testing.assert_close(state, model.method.user(one), atol=1e-6, rtol=0)
    torch.testing.assert_close(model.method.user(known[1]), model.method.nobody())


def test_the_order_of_judgements_does_not_matter(model: PersonalModel) -> None:
    known = known_of(model.features.dimensions, 12)
    turned = Known(known.better.flip(0), known.worse.flip(0), known.weight, known.posts)
    torch.testing.assert_close(model.method.user(turned), model.method.user(known), atol=1e-6, rtol=0)


def test_a_users_state_is_where_the_posterior_is_highest(model: PersonalModel) -> None:
    """No small move along the segment towards another user's state makes what is known more probable."""
    known = known_of(model.features.dimensions, 9)
    best, other = model.method.user(known), model.method.user(known_of(model.features.dimensions, 9, seed=1))

    def objective(state: torch.Tensor) -> float:
        margin = model.method.reward(known.better, state) - model.method.reward(known.worse, state)
        if model.method_name == "user-embedding":
            penalty = state.square().sum() / 2
        else:
            assert isinstance(model.settings, LoReSettings | PalSettings)
            mean = model.method.nobody()
            penalty = model.settings.concentration * (mean * (mean / state).log()).sum()
        return float(penalty - torch.nn.functional.logsigmoid(margin.double()).sum())

    for part in (0.1, -0.1):
        assert objective(best + part * (other - best)) > objective(best) - 1e-5


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("user-embedding", UserEmbeddingSettings(factor_precision=10.0)),
        ("lore", LoReSettings(direction_precision=10.0)),
    ],
)
def test_a_strong_prior_keeps_users_near_everybody(name: str, settings: MethodSettings) -> None:
    model = trained(name, settings)
    known = known_of(model.features.dimensions, 8)
    personal, nobody = (
        model.method.reward(known.better, state) for state in (model.method.user(known), model.method.nobody())
    )
    assert (personal - nobody).abs().max() < 0.05


def test_newton_agrees_with_the_exact_solution_in_the_dual() -> None:
    known = [known_of(5, count, seed=count) for count in (3, 1, 30)]
    judged = Judgements.of(known)
    base, differences = torch.randn(len(judged.weight)).double(), (judged.better - judged.worse).double()
    found = most_probable(
        torch.zeros(3, 5),
        judged,
        lambda own: (base + (differences * own[judged.user]).sum(1), differences),
        gaussian(0.5),
    )
    offsets = torch.split(base.float(), [3, 1, 30])
    exact = own_weights([one.differences for one in known], [one.weight for one in known], offsets, 0.5)
    torch.testing.assert_close(found.float(), exact, atol=1e-4, rtol=1e-3)


def test_the_base_is_bradley_terry() -> None:
    features = PersonalModel("bradley-terry", features="traits").features
    pairs = make_pairs(labelled(BENCHMARK.comparisons[:40], {}), features)
    exact = shared_weights(pairs.differences, pairs.weight, 1.0)
    torch.testing.assert_close(linear_base(pairs, 1.0), exact, atol=2e-3, rtol=0)
