"""Input tokens of each user's own before a shared language model: a tiny Llama learns in seconds who drinks what."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

import tiny_models
from hot_drinks import drinks, save_base
from palate.personal import (
    PersonalModel,
    UserTokensModel,
    UserTokensSettings,
    adapt_users,
    erase_users,
    load_personal,
    state_of,
    strip_model,
    train,
)
from palate.personal._lora_training import Read, losses
from palate.personal._soft_tokens import SoftAdapter, SoftClassifier, held_losses, offset_of
from palate.records import Ask, Benchmark, Judgement, PalateError, User, View
from palate.rewards import check_reward_model, make_reward_model
from palate.views import ViewBuilder, judgement_part, resolve_views

BENCHMARK = drinks(16)
STRANGERS = 4
"""The first so many couples are not trained on."""
NOBODY = View(name="none")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def settings(base: Path) -> UserTokensSettings:
    return UserTokensSettings(
        base=str(base), tokens=2, learning_rate=3e-3, warm_up=5, epochs=6, choices_per_step=8, steps=10
    )


def last(benchmark: Benchmark, *, strangers: bool) -> list[str]:
    """The last item of each user: what is asked about, and trained on by nobody."""
    ids = [f"{name}-6" for name in benchmark.users if (int(name.split("-")[1]) < STRANGERS) == strangers]
    return [item.id for item in benchmark.comparisons if item.id in ids]


def fitted(settings: UserTokensSettings, benchmark: Benchmark = BENCHMARK) -> UserTokensModel:
    """Trained on everybody but the strangers, without the last item of each."""
    known = {name: user for name, user in benchmark.users.items() if int(name.split("-")[1]) >= STRANGERS}
    asked = last(benchmark, strangers=False)
    items = [item for item in benchmark.comparisons if item.user_id in known and item.id not in asked]
    return UserTokensModel(settings).fit(items, known, stop_early=False)


@pytest.fixture(scope="module")
def model(settings: UserTokensSettings) -> UserTokensModel:
    return fitted(settings)


@pytest.fixture(scope="module")
def small(settings: UserTokensSettings) -> UserTokensSettings:
    return msgspec.structs.replace(settings, epochs=1, steps=2)


def few(settings: UserTokensSettings, couples: int = 2) -> UserTokensModel:
    some = drinks(couples)
    return UserTokensModel(settings).fit(some.comparisons, some.users, stop_early=False)


def accuracy(model: UserTokensModel, view: str, *, strangers: bool, benchmark: Benchmark = BENCHMARK) -> float:
    asked = last(benchmark, strangers=strangers)
    items = [item for item in benchmark.comparisons if item.id in asked]
    views = ViewBuilder(benchmark).build(resolve_views([view])[0], items)
    asks = [
        Ask(id=item.id, prompt=item.prompt, responses=item.responses, view=shown)
        for item, shown in zip(items, views, strict=True)
        if isinstance(shown, View)
    ]
    assert len(asks) == len(items)
    ratings = model.rate(asks)
    right = [int(np.argmax(rating.scores or ())) == item.preferred for item, rating in zip(items, ratings, strict=True)]
    return float(np.mean(right))


def drink_ask(view: View, prompt: str = "garden garden?") -> Ask:
    return Ask(id="new", prompt=prompt, responses=("8 tea", "8 coffee"), view=view)


def by_name(user: str) -> View:
    return View(name="user", user_id=user, by_name=True)


def told(judgements: tuple[Judgement, ...]) -> View:
    return View(name="judgements", user_id="somebody", parts=tuple(map(judgement_part, judgements)))


class TestWhatItLearns:
    def test_tastes_of_those_it_was_trained_on(self, model: UserTokensModel) -> None:
        assert accuracy(model, "none", strangers=False) == 0.5  # nobody's rating is the same for both of a couple
        assert accuracy(model, "user", strangers=False) > 0.9

    def test_tastes_of_strangers_are_found_by_fitting_tokens_alone(self, model: UserTokensModel) -> None:
        before = model.fingerprint
        assert accuracy(model, "none", strangers=True) == 0.5
        assert accuracy(model, "judgements:3", strangers=True) > 0.9
        assert model.fingerprint == before

    def test_another_persons_tokens_do_not_help(self, model: UserTokensModel) -> None:
        names = {name: name.replace("tea", "_").replace("coffee", "tea").replace("_", "coffee") for name in model.users}
        turned = UserTokensModel.__new__(UserTokensModel)
        turned.__dict__.update(model.__dict__)
        turned._states = {name: model._states[names[name]] for name in names}
        assert accuracy(turned, "user", strangers=False) < 0.1
        assert accuracy(model, "swapped:judgements:3", strangers=True) < 0.7

    def test_choices_at_random_teach_nothing(self, settings: UserTokensSettings) -> None:
        draw = random.Random(1)
        users = {
            name: msgspec.structs.replace(
                user,
                judgements=tuple(msgspec.structs.replace(one, preferred=draw.randint(0, 1)) for one in user.judgements),
            )
            for name, user in BENCHMARK.users.items()
        }
        items = tuple(msgspec.structs.replace(item, preferred=draw.randint(0, 1)) for item in BENCHMARK.comparisons)
        null = msgspec.structs.replace(BENCHMARK, users=users, comparisons=items)
        model = fitted(settings, null)
        assert 0.2 < accuracy(model, "user", strangers=False, benchmark=null) < 0.8  # 24 items: 0.5 within 3 deviations

    def test_without_personal_readings_nobody_has_tokens_of_their_own(self, small: UserTokensSettings) -> None:
        model = few(msgspec.structs.replace(small, impersonal=1.0))
        assert not any(state.any() for state in model._states.values())

    def test_it_keeps_the_contract(self, small: UserTokensSettings) -> None:
        check_reward_model(few(small), [drink_ask(told(BENCHMARK.users["user-0-tea"].judgements))])

    def test_it_is_the_same_each_time(self, small: UserTokensSettings) -> None:
        assert few(small).fingerprint == few(small).fingerprint


class TestTokens:
    def test_what_the_engine_reads_is_what_the_model_reads_after_these_vectors(self, model: UserTokensModel) -> None:
        """Against the plain network, given embeddings by hand."""
        ask = drink_ask(by_name("user-9-tea"))
        network, classifier = model._classifier._model, model._classifier
        own = model._shared["generic"] + classifier.scale * model._states["user-9-tea"]
        expected = []
        with torch.no_grad():
            for row in classifier.rows(drink_ask(NOBODY)):
                words = classifier.embedding.words(torch.tensor([row]))
                states = network.base_model(inputs_embeds=torch.cat([own[None], words], 1)).last_hidden_state
                expected.append(float(network.score(states[0, -1])))
        assert model.rate([ask])[0].scores == pytest.approx(expected, abs=1e-4)

    def test_only_those_who_are_read_get_a_gradient(self, small: UserTokensSettings) -> None:
        classifier = SoftClassifier(small.base, count=small.tokens)
        adapter = SoftAdapter(classifier, small, users=3, rate=0.1)
        with torch.no_grad():
            classifier._model.score.weight.fill_(1.0)
        rows = classifier.rows(drink_ask(NOBODY))
        reads = [Read([[*classifier.numbers(place), *row] for row in rows], 0) for place in (0, 2)]
        held_losses(classifier, adapter, torch.zeros(4), reads).sum().backward()  # type: ignore[no-untyped-call]
        slope = adapter._own.grad
        assert slope is not None
        assert set(slope.coalesce().indices()[0].tolist()) == {2}
        assert slope.to_dense()[2].abs().max() > 0

    def test_a_choice_carries_its_share_of_the_penalty(self, small: UserTokensSettings) -> None:
        classifier = SoftClassifier(small.base, count=small.tokens)
        adapter = SoftAdapter(classifier, small, users=1, rate=0.1)
        with torch.no_grad():
            adapter._own[1] = 0.5
        read = Read([[*classifier.numbers(1), *row] for row in classifier.rows(drink_ask(NOBODY))], 0)
        with torch.no_grad():
            found = held_losses(classifier, adapter, torch.tensor([0.0, 0.3]), [read])
            assert float(found - losses(classifier, [read])) == pytest.approx(0.3 * 0.25 * small.tokens * 32)

    def test_the_offset_is_where_the_slope_is_nothing(self, model: UserTokensModel) -> None:
        reads = model._reads(BENCHMARK.users["user-0-tea"].judgements)
        penalty = 1.0
        generic, classifier = model._shared["generic"], model._classifier
        offset = offset_of(classifier, generic, reads, penalty=penalty, steps=100, tokens=64).requires_grad_()
        with classifier.reading(generic, offset[None]):
            loss = losses(classifier, reads).sum() + penalty / 2 * offset.square().sum()
        slope = torch.autograd.grad(loss, offset)[0]
        assert float(offset.detach().norm()) > 0.1
        assert float(slope.norm()) < 0.01 * float(penalty * offset.detach().norm())

    def test_contradictory_judgements_cancel_where_nobody_has_a_taste(self, model: UserTokensModel) -> None:
        one = BENCHMARK.users["user-0-tea"].judgements[0]
        other = msgspec.structs.replace(one, preferred=1 - one.preferred)
        alone, both = (model._offset(model._reads(some), model._shared["generic"]) for some in ((one,), (one, other)))
        assert float(both.norm()) < 0.5 * float(alone.norm())


class TestWhomItKnows:
    def test_a_user_it_does_not_know_is_the_generic_one_and_that_is_said(self, model: UserTokensModel) -> None:
        empty = View(name="judgements", user_id="x")
        nobody, stranger, blank = model.rate([drink_ask(NOBODY), drink_ask(by_name("nobody")), drink_ask(empty)])
        assert stranger.scores == pytest.approx(nobody.scores, abs=1e-5)
        assert blank.scores == pytest.approx(nobody.scores, abs=1e-5)
        assert nobody.note is None
        assert "knows nothing of this user" in (stranger.note or "")
        assert "shows nothing" in (blank.note or "")

    def test_adapting_is_a_view_under_a_name(self, model: UserTokensModel) -> None:
        judgements = BENCHMARK.users["user-1-tea"].judgements
        model.adapt("new", judgements)
        named, shown = model.rate([drink_ask(by_name("new")), drink_ask(told(judgements))])
        assert named.scores == pytest.approx(shown.scores)
        assert model.forget("new")
        assert not model.forget("new")

    def test_adapting_to_a_benchmark(self, small: UserTokensSettings) -> None:
        model = few(small)
        assert len(adapt_users(model, drinks(3)).users) == 6
        with pytest.raises(PalateError, match="nothing is known of user 'blank'"):
            model.adapt(User(id="blank"))


class TestFiles:
    def test_saving_and_loading_change_nothing(self, small: UserTokensSettings, tmp_path: Path) -> None:
        model = few(small).adapt(BENCHMARK.users["user-4-tea"])
        loaded = make_reward_model(f"personal:{model.save(tmp_path / 'kept')}")
        judgements = BENCHMARK.users["user-5-tea"].judgements
        asks = [drink_ask(NOBODY), drink_ask(by_name("user-4-tea")), drink_ask(told(judgements))]
        assert loaded.rate(asks) == model.rate(asks)
        assert loaded.fingerprint == model.fingerprint  # type: ignore[attr-defined]

    def test_tokens_can_be_erased_and_stripped(self, small: UserTokensSettings, tmp_path: Path) -> None:
        model = few(small)
        state, stays = model._states["user-0-tea"], model._states["user-1-tea"]
        folder = model.save(tmp_path / "kept")
        assert state_of(folder, "user-0-tea") == state.tolist()
        bare = load_personal(strip_model(folder, tmp_path / "bare"))
        assert bare.users == ()
        assert bare.rate([drink_ask(NOBODY)]) == model.rate([drink_ask(NOBODY)])
        assert erase_users(folder, ["user-0-tea"], []).states == 1
        content = (folder / "model.safetensors").read_bytes()
        assert state.numpy().tobytes() not in content
        assert stays.numpy().tobytes() in content
        assert "user-0-tea" not in load_personal(folder).users

    def test_it_keeps_no_words(self, small: UserTokensSettings, tmp_path: Path) -> None:
        folder = few(small).save(tmp_path / "kept")
        assert b"coffee?" not in b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())

    def test_an_untrained_model_says_so(self, small: UserTokensSettings) -> None:
        with pytest.raises(PalateError, match="has not been trained"):
            UserTokensModel(small).rate([drink_ask(NOBODY)])
        with pytest.raises(PalateError, match="has not been trained"):
            UserTokensModel(small).adapt(BENCHMARK.users["user-0-tea"])

    def test_frozen_features_are_no_use_to_it(self) -> None:
        with pytest.raises(PalateError, match="make a UserTokensModel"):
            PersonalModel("user-tokens", features="traits")


class TestTraining:
    def test_the_epochs_are_found_on_held_out_users_who_are_adapted_to(self, small: UserTokensSettings) -> None:
        some = drinks(10)
        model = UserTokensModel(small).fit(some.comparisons, some.users)
        assert model.chosen_by is not None
        assert set(model.users) == set(some.users)

    def test_it_goes_back_to_the_tokens_of_the_best_epoch(self, small: UserTokensSettings) -> None:
        classifier = SoftClassifier(small.base, count=small.tokens)
        adapter = SoftAdapter(classifier, small, users=2, rate=0.1)
        kept = adapter.weights()
        with torch.no_grad():
            adapter._own += 1
            adapter._moved += 1
        adapter.put(kept)
        assert all(torch.equal(tensor, kept[name]) for name, tensor in adapter.weights().items())

    def test_choices_that_never_fit_are_said(self, small: UserTokensSettings) -> None:
        with pytest.raises(PalateError, match="no choice fits 4 tokens"):
            few(msgspec.structs.replace(small, most_tokens=4))

    def test_training_measures_it_like_any_other(self, base: Path, tmp_path: Path) -> None:
        summary = train(
            drinks(2, choices=2, history=2),
            ["user-tokens"],
            features="traits",
            base=str(base),
            folds=2,
            out=tmp_path,
        )
        rows = {(one.rm, one.view): one for one in summary.results}
        assert {view for rm, view in rows if rm == "user-tokens"} == {"none", "user", "swapped"}
        kept = load_personal(Path(summary.run) / "models" / "user-tokens")
        assert isinstance(kept, UserTokensModel)
        assert len(kept.users) == 4

    @pytest.mark.parametrize("family", ["gpt2", "gemma3", "qwen3"])
    def test_any_decoder_will_do(
        self, family: str, small: UserTokensSettings, tiny_models: tiny_models.TinyModels
    ) -> None:
        model = few(msgspec.structs.replace(small, base=str(tiny_models.causal(family))), couples=1)
        nobody, user = model.rate([drink_ask(NOBODY), drink_ask(by_name("user-0-tea"))])
        assert nobody.scores != user.scores
