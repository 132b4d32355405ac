"""What methods have in common that read a user from examples."""

from pathlib import Path

import msgspec
import pytest
import torch

from palate.personal import Known, PersonalModel, method_type
from palate.personal._bradley_terry import BradleyTerrySettings
from palate.personal._in_context import EpisodeBatch, Episodes, InContextMethod
from palate.personal._pairs import know_all, make_pairs
from palate.records import Ask, Judgement, Part, View
from palate.rewards import check_reward_model
from planted import planted
from unseen import BENCHMARK, accuracy, asks, trained

METHODS = ("history-attention", "vpl", "gpo")


@pytest.fixture(scope="module", params=METHODS)
def model(request: pytest.FixtureRequest) -> PersonalModel:
    return trained(request.param, method_type(request.param).settings_type(epochs=8))  # type: ignore[call-arg]


def shown(judgements: list[Judgement]) -> View:
    parts = tuple(Part(kind="judgement", text=f"{place}", judgement=one) for place, one in enumerate(judgements))
    return View(name="judgements", user_id="somebody", parts=parts)


def test_it_keeps_the_contract(model: PersonalModel) -> None:
    check_reward_model(model, [ask for _, ask in asks("judgements:3")[:5]])


def test_saving_and_loading_change_nothing(model: PersonalModel, tmp_path: Path) -> None:
    loaded = PersonalModel.load(model.save(tmp_path / "kept"))
    name = model.users[0]
    prompt, responses = BENCHMARK.users[name].judgements[0].prompt + " Now.", ("Is it so?", "There are 12 of 30.")
    known = Ask(id="known", prompt=prompt, responses=responses, view=View(name="user", user_id=name, by_name=True))
    some = [known, *(ask for _, ask in asks("judgements:8")[:10])]
    assert loaded.rate(some) == model.rate(some)
    assert loaded.fingerprint == model.fingerprint


def test_the_same_seed_learns_the_same(model: PersonalModel) -> None:
    before = torch.random.get_rng_state()
    assert trained(model.method_name, model.settings).fingerprint == model.fingerprint
    assert torch.equal(torch.random.get_rng_state(), before)


def test_knowing_nothing_it_is_the_impersonal_base_and_says_so(model: PersonalModel) -> None:
    item, ask = asks("none")[0]
    named = msgspec.structs.replace(ask, view=View(name="user", user_id="never seen", by_name=True))
    nobody, stranger = model.rate([ask, named])
    assert stranger.scores == nobody.scores
    assert stranger.note == "impersonal: the model knows nothing of this user"
    assert isinstance(model.method, InContextMethod)
    rows = torch.from_numpy(model.features.rows([item.prompt] * 2, list(item.responses), [None] * 2))
    assert nobody.scores == pytest.approx(model.method.base(rows).tolist(), abs=1e-5)


def test_the_impersonal_base_is_bradley_terry(model: PersonalModel) -> None:
    plain = trained("bradley-terry", BradleyTerrySettings(precision=1.0))
    assert torch.equal(model.method.shared["weights"], plain.method.shared["weights"])


@pytest.mark.parametrize("kind", ["one", "contradictory", "two hundred"])
def test_odd_histories_give_finite_scores(model: PersonalModel, kind: str) -> None:
    one = BENCHMARK.users["user-0-asks"].judgements[0]
    other = msgspec.structs.replace(one, preferred=1 - one.preferred)
    many = [judgement for user in BENCHMARK.users.values() for judgement in user.judgements][:200]
    history = {"one": [one], "contradictory": [one, other], "two hundred": many}[kind]
    assert len(many) == 200
    rating = model.rate([Ask(id="x", prompt="?", responses=("Is it so?", "It is 12."), view=shown(history))])[0]
    assert rating.scores is not None
    assert all(abs(score) < 100 for score in rating.scores)


def test_the_grid_chooses_a_precision_and_when_to_stop() -> None:
    model = trained("vpl", benchmark=planted(couples=20, choices=6, history=3))
    assert model.chosen_by is not None
    assert isinstance(model.method, InContextMethod)
    assert 1 <= model.method.settings.epochs <= 30
    assert accuracy(model, "judgements:3", planted(couples=20, choices=6, history=3)) > 0.8


@pytest.mark.parametrize("name", METHODS)
def test_where_examples_do_not_help_the_personal_part_is_left_out(name: str) -> None:
    """Here validation likes nothing better than that a user's judgements leave a reward as it is."""
    features = PersonalModel(name, features="traits").features
    users = {key: user for key, user in BENCHMARK.users.items() if key.startswith("user-1")}
    pairs = make_pairs({key: user.judgements for key, user in users.items()}, features)
    known = know_all(pairs, users, features, {"judgements", "posts"})
    method = method_type(name)(method_type(name).settings_type(), features.blocks)

    @torch.no_grad()
    def moved() -> float:
        return float(
            (method.reward(pairs.rows, method.user(known[0])) - method.reward(pairs.rows, method.nobody())).abs().sum()
        )

    method.learn(pairs, known, lambda: -moved())
    assert isinstance(method, InContextMethod)
    assert method.settings.epochs == 0
    assert moved() == 0.0
    again = method_type(name)(method.settings, features.blocks)
    again.learn(pairs, known)
    for key, value in method.shared.items():
        assert torch.equal(again.shared[key], value)


@pytest.mark.parametrize("name", ["history-attention", "gpo"])
def test_training_and_rating_compute_the_same(name: str) -> None:
    """The padded batches of training against users and texts taken one by one."""
    model = trained(name, method_type(name).settings_type(epochs=2))  # type: ignore[call-arg]
    method = model.method
    assert isinstance(method, InContextMethod)
    users = {key: user for key, user in BENCHMARK.users.items() if key.startswith("user-1")}
    pairs = make_pairs({key: user.judgements for key, user in users.items()}, model.features)
    episodes = Episodes(pairs, know_all(pairs, users, model.features, method.uses), method.settings.most, seed=0)
    batch = episodes.draw(torch.arange(len(episodes)))
    total = count = 0.0
    for place in range(len(episodes)):
        state = method.user(known_in(batch, place, episodes, pairs.rows, pairs.better, pairs.worse))
        for pair in batch.pair[place][batch.target[place]].tolist():
            rewards = method.reward(pairs.rows[[int(pairs.better[pair]), int(pairs.worse[pair])]], state)
            total -= float(torch.nn.functional.logsigmoid(rewards[0] - rewards[1]))
            count += 1
    assert batch.context.any()
    assert float(method._loss(batch, episodes, pairs)) == pytest.approx(total / count, abs=1e-5)


def known_in(
    batch: EpisodeBatch, place: int, episodes: Episodes, rows: torch.Tensor, better: torch.Tensor, worse: torch.Tensor
) -> Known:
    told = batch.pair[place][batch.context[place]]
    posts = episodes.posts[batch.post[place][batch.shown[place]]]
    return Known(rows[better[told]], rows[worse[told]], torch.ones(len(told)), posts)
