"""A language model that is tuned to read users' views: a tiny Llama learns in seconds what two tastes look like."""

from __future__ import annotations

import random
import shutil
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

import tiny_models
from hot_drinks import drinks, save_base
from palate.personal import (
    LoraModel,
    LoraSettings,
    PersonalModel,
    adapt_users,
    erase_users,
    load_personal,
    strip_model,
    train,
)
from palate.personal._lora_classifier import TunedClassifier
from palate.personal._lora_training import (
    Histories,
    Lesson,
    Read,
    ask_of,
    batches,
    inner_split,
    learn,
    log_likelihood,
    losses,
)
from palate.personal._pairs import labelled
from palate.records import Ask, Judgement, PalateError, Post, User, View
from palate.rewards import check_reward_model, make_reward_model
from palate.views import ViewBuilder, judgement_part, resolve_views
from planted import planted

BENCHMARK = drinks(20)
STRANGERS = 8
"""The first so many couples are not trained on."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def settings(base: Path) -> LoraSettings:
    return LoraSettings(
        base=str(base),
        learning_rate=1e-2,
        warm_up=5,
        epochs=3,
        choices_per_step=8,
        most_judgements=2,
        impersonal=0.1,
    )


@pytest.fixture(scope="module")
def model(settings: LoraSettings) -> LoraModel:
    """Trained on everybody but the strangers."""
    known = {name: user for name, user in BENCHMARK.users.items() if int(name.split("-")[1]) >= STRANGERS}
    items = [item for item in BENCHMARK.comparisons if item.user_id in known]
    return LoraModel(settings).fit(items, known, stop_early=False)


@pytest.fixture(scope="module")
def small(settings: LoraSettings) -> LoraSettings:
    return msgspec.structs.replace(settings, epochs=1)


def fitted(settings: LoraSettings, couples: int = 2) -> LoraModel:
    few = drinks(couples)
    return LoraModel(settings).fit(few.comparisons, few.users, stop_early=False)


def drink_ask(view: View, prompt: str = "garden garden?") -> Ask:
    return Ask(id="new", prompt=prompt, responses=("8 tea", "8 coffee"), view=view)


def told(judgements: tuple[Judgement, ...], name: str = "judgements") -> View:
    return View(name=name, user_id="somebody", parts=tuple(map(judgement_part, judgements)))


def accuracy(model: LoraModel, view: str) -> float:
    """How often the strangers' choices are foretold."""
    items = [item for item in BENCHMARK.comparisons if int(item.user_id.split("-")[1]) < STRANGERS]
    right = []
    for item, shown in zip(items, ViewBuilder(BENCHMARK).build(resolve_views([view])[0], items), strict=True):
        assert isinstance(shown, View)
        rating = model.rate([Ask(id=item.id, prompt=item.prompt, responses=item.responses, view=shown)])[0]
        right.append(int(np.argmax(rating.scores or ())) == item.preferred)
    return float(np.mean(right))


class TestWhatItLearns:
    def test_tastes_of_strangers_are_read_off_their_judgements(self, model: LoraModel) -> None:
        assert accuracy(model, "none") == 0.5  # nobody's rating is the same for both of a couple
        assert accuracy(model, "judgements:1") > 0.75
        assert accuracy(model, "judgements:2") > 0.75

    def test_it_keeps_the_contract(self, model: LoraModel) -> None:
        check_reward_model(model)

    def test_a_choice_it_was_trained_on_is_not_rated(self, model: LoraModel) -> None:
        item = next(item for item in BENCHMARK.comparisons if item.user_id.startswith("user-9"))
        rating = model.rate([Ask(id="x", prompt=item.prompt, responses=item.responses[::-1])])[0]
        assert "trained on this very choice" in (rating.unscored or "")

    @pytest.mark.parametrize("count", [2, 200])
    def test_any_number_of_judgements_gives_a_rating(self, model: LoraModel, count: int) -> None:
        one = BENCHMARK.users["user-0-tea"].judgements[0]
        other = msgspec.structs.replace(one, preferred=1 - one.preferred)
        rating = model.rate([drink_ask(told((one, other) * (count // 2)))])[0]  # which contradict each other
        assert np.isfinite(rating.scores or [np.nan]).all()
        assert ("did not fit" in (rating.note or "")) == (count == 200)

    def test_rating_reads_what_training_read(self, model: LoraModel) -> None:
        """Shared prefixes and merged matrices give what whole rows give beside the adapter."""
        ask = drink_ask(told(BENCHMARK.users["user-0-tea"].judgements))
        plain = TunedClassifier(model.settings.base)
        plain.attach(model.settings, model._weights).train(False)
        with torch.no_grad():
            expected = plain.rewards(plain.rows(ask))
        assert model.rate([ask])[0].scores == pytest.approx(expected.tolist(), abs=1e-4)


class TestWhomItKnows:
    def test_adapting_is_a_view_under_a_name(self, settings: LoraSettings) -> None:
        model = fitted(settings)
        judgements = BENCHMARK.users["user-3-tea"].judgements
        model.adapt("new", judgements)
        by_name = model.rate([drink_ask(View(name="user", user_id="new", by_name=True))])[0]
        by_view = model.rate([drink_ask(told(judgements[:0:-1]))])[0]  # the latest two, the last first
        assert by_name.scores == pytest.approx(by_view.scores)
        assert model.users == ("new",)
        assert model.forget("new")
        assert not model.forget("new")

    def test_a_user_it_does_not_know_is_nobody_and_that_is_said(self, model: LoraModel) -> None:
        nobody, stranger = model.rate(
            [drink_ask(View(name="none")), drink_ask(View(name="user", user_id="user-9-tea", by_name=True))]
        )
        assert stranger.scores == nobody.scores
        assert nobody.note is None
        assert "impersonal" in (stranger.note or "")

    def test_it_remembers_those_it_was_trained_on_if_asked(self, small: LoraSettings) -> None:
        model = fitted(msgspec.structs.replace(small, remember=True))
        assert set(model.users) == set(drinks(2).users)

    def test_adapting_to_a_benchmark(self, small: LoraSettings) -> None:
        model = fitted(small)
        assert len(adapt_users(model, drinks(3)).users) == 6
        with pytest.raises(PalateError, match="nothing is known of user 'blank'"):
            model.adapt(User(id="blank"))


class TestFiles:
    def test_saving_and_loading_change_nothing(self, small: LoraSettings, tmp_path: Path) -> None:
        model = fitted(small).adapt(BENCHMARK.users["user-4-tea"])
        loaded = make_reward_model(f"personal:{model.save(tmp_path / 'kept')}")
        asks = [drink_ask(View(name="none")), drink_ask(View(name="user", user_id="user-4-tea", by_name=True))]
        assert loaded.rate(asks) == model.rate(asks)
        assert loaded.fingerprint == model.fingerprint  # type: ignore[attr-defined]

    def test_peft_reads_the_adapter_by_itself(self, small: LoraSettings, tmp_path: Path) -> None:
        import peft
        import transformers

        model = fitted(small)
        folder = model.save(tmp_path / "kept")
        plain = transformers.AutoModelForSequenceClassification.from_pretrained(small.base, num_labels=1)
        tuned = peft.PeftModel.from_pretrained(plain, str(folder / "adapter")).eval()
        ask = drink_ask(View(name="none"))
        rows = TunedClassifier(small.base).rows(ask)
        with torch.no_grad():
            found = [float(tuned(input_ids=torch.tensor([row])).logits) for row in rows]
        assert model.rate([ask])[0].scores == pytest.approx(found, abs=1e-4)

    def test_it_keeps_no_words_of_those_it_was_trained_on(self, small: LoraSettings, tmp_path: Path) -> None:
        folder = fitted(small).save(tmp_path / "kept")
        content = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
        assert b"user-0" not in content
        assert b"coffee" not in content

    def test_words_that_were_kept_can_be_erased_and_stripped(self, small: LoraSettings, tmp_path: Path) -> None:
        folder = fitted(small).adapt(BENCHMARK.users["user-4-tea"]).save(tmp_path / "kept")
        assert b"coffee" in (folder / "model.safetensors").read_bytes()
        assert load_personal(strip_model(folder, tmp_path / "bare")).users == ()
        assert erase_users(folder, ["user-4-tea"], []).states == 1
        assert b"coffee" not in (folder / "model.safetensors").read_bytes()
        assert load_personal(folder).users == ()

    def test_another_base_is_refused(self, small: LoraSettings, tmp_path: Path) -> None:
        shutil.copytree(small.base, tmp_path / "base")
        folder = fitted(msgspec.structs.replace(small, base=str(tmp_path / "base"))).save(tmp_path / "kept")
        tiny_models.build("llama", seed=5).save_pretrained(tmp_path / "other")
        shutil.copytree(tmp_path / "base", tmp_path / "moved")
        shutil.copy(tmp_path / "other" / "model.safetensors", tmp_path / "moved" / "model.safetensors")
        kept = msgspec.json.decode((folder / "model.json").read_bytes())
        kept["settings"]["base"] = str(tmp_path / "moved")
        (folder / "model.json").write_bytes(msgspec.json.encode(kept))
        with pytest.raises(PalateError, match="another base"):
            LoraModel.load(folder)

    def test_an_adapter_of_another_training_is_refused(self, small: LoraSettings, tmp_path: Path) -> None:
        folder = fitted(small).save(tmp_path / "kept")
        file = folder / "adapter" / "adapter_model.safetensors"
        file.write_bytes(file.read_bytes()[:-4] + b"\0\0\0\1")
        with pytest.raises(PalateError, match="damaged"):
            LoraModel.load(folder)

    def test_an_untrained_model_says_so(self, small: LoraSettings, tmp_path: Path) -> None:
        with pytest.raises(PalateError, match="has not been trained"):
            LoraModel(small).rate([drink_ask(View(name="none"))])
        with pytest.raises(PalateError, match="has not been trained"):
            LoraModel(small).save(tmp_path)

    def test_without_peft_the_line_that_installs_it(self, small: LoraSettings, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "peft", None)
        with pytest.raises(PalateError, match=r"palate\[train\]"):
            LoraModel(small)

    def test_frozen_features_are_no_use_to_it(self) -> None:
        with pytest.raises(PalateError, match="LoraModel"):
            PersonalModel("lora", features="traits")


class TestTraining:
    def test_broken_off_and_begun_again_it_ends_the_same(self, base: Path, tmp_path: Path) -> None:
        def break_off(what: str, done: int, total: int) -> None:
            if "epoch 2" in what and "everything" in what:
                raise KeyboardInterrupt

        def measure(out: Path, **more: object) -> Path:
            summary = train(
                drinks(2, choices=2, history=2),
                ["lora"],
                features="traits",
                base=str(base),
                protocol="unseen",
                folds=2,
                out=out,
                **more,  # type: ignore[arg-type]
            )
            return Path(summary.run) / "models" / "lora"

        with pytest.raises(KeyboardInterrupt):
            measure(tmp_path / "broken", progress=break_off)
        assert not list(tmp_path.glob("broken/*/models/lora/*"))
        again, whole = load_personal(measure(tmp_path / "broken")), load_personal(measure(tmp_path / "whole"))
        assert again.fingerprint == whole.fingerprint
        assert isinstance(again, LoraModel)
        assert again.users == ()

    def test_it_stops_when_held_out_users_are_foretold_worse_and_goes_back(self, settings: LoraSettings) -> None:
        """Everybody in the training data takes tea, and those who validate take coffee: it only ever gets worse."""
        few = drinks(4)
        choices = labelled(few.comparisons, few.users)
        lessons = [Lesson(choice, user, 0) for user, own in choices.items() for choice in own]
        tea, coffee = ([one for one in lessons if one.user.endswith(taste)] for taste in ("tea", "coffee"))

        def weights(epochs: int, validate: list[Lesson]) -> dict[str, torch.Tensor]:
            once = msgspec.structs.replace(settings, epochs=epochs)
            classifier = TunedClassifier(once.base)
            adapter = classifier.attach(once)

            def read(lesson: Lesson, epoch: int = 0) -> Read:
                return Read(classifier.rows(ask_of(lesson.choice)), lesson.preferred)

            score = partial(log_likelihood, classifier, [read(one) for one in validate], once)
            found = learn(adapter, tea, once, read, partial(losses, classifier), validate=score if validate else None)
            assert found[0] == 1
            return adapter.weights()

        stopped, once = weights(9, coffee), weights(1, [])
        assert all(torch.equal(tensor, once[name]) for name, tensor in stopped.items())

    def test_the_epochs_found_on_held_out_users_are_those_of_the_whole(self, small: LoraSettings) -> None:
        few = drinks(10)
        assert LoraModel(small).fit(few.comparisons, few.users).chosen_by is not None

    def test_training_that_goes_astray_is_said(self, small: LoraSettings) -> None:
        with pytest.raises(PalateError, match="lower learning rate"):
            fitted(msgspec.structs.replace(small, epochs=9, learning_rate=100.0, warm_up=0), couples=4)

    def test_gradients_add_up_however_few_tokens_are_read_at_once(self, small: LoraSettings) -> None:
        whole, pieces = fitted(small), fitted(msgspec.structs.replace(small, batch_tokens=64))
        for name, tensor in whole._weights.items():
            assert torch.allclose(tensor, pieces._weights[name], atol=2e-3), name

    def test_the_loss_is_a_softmax_over_what_was_offered(self, small: LoraSettings) -> None:
        classifier = TunedClassifier(small.base)
        weights = {"base_model.model.score.weight": torch.randn(1, 32, generator=torch.Generator().manual_seed(0))}
        classifier.attach(small, weights).train(False)
        asks = [
            Ask(id="2", prompt="kettle?", responses=("tea", "coffee, and a morning in the garden")),
            Ask(id="3", prompt="?", responses=("tea", "coffee", "neither")),
        ]
        with torch.no_grad():
            found = losses(classifier, [Read(classifier.rows(ask), 1) for ask in asks])
            for ask, loss in zip(asks, found, strict=True):
                alone = [float(classifier.rewards([row])) for row in classifier.rows(ask)]  # nothing filled up
                assert float(loss) == pytest.approx(np.log(np.exp(alone).sum()) - alone[1], abs=1e-4)

    def test_batches_hold_every_choice_once_and_stay_within_the_tokens(self) -> None:
        draw = random.Random(0)
        reads = [Read([[0] * draw.randint(1, 50) for _ in range(draw.randint(2, 4))], 0) for _ in range(60)]
        found = list(batches(reads, 300))
        assert Counter(id(read) for some in found for read in some) == Counter(map(id, reads))
        for some in found:
            assert len(some) == 1 or max(read.longest for read in some) * sum(len(read.rows) for read in some) <= 300

    def test_choices_that_never_fit_are_said(self, small: LoraSettings) -> None:
        with pytest.raises(PalateError, match="no choice fits 4 tokens"):
            fitted(msgspec.structs.replace(small, most_tokens=4))

    @pytest.mark.parametrize("template", ["bos", "none", "no system"])
    def test_text_begins_once(self, template: str, tiny_models: tiny_models.TinyModels) -> None:
        classifier = TunedClassifier(str(tiny_models.causal("llama", template)))
        ask = drink_ask(told(BENCHMARK.users["user-0-tea"].judgements))
        begin = classifier.chat.tokenizer.bos_token_id
        for row in classifier.rows(ask):
            assert row.count(begin) == (0 if template == "no system" else 1)
            assert "They preferred: 0 tea" in classifier.chat.tokenizer.decode(row)

    def test_an_encoder_is_no_base(self, tiny_models: tiny_models.TinyModels) -> None:
        model = LoraModel(LoraSettings(base=str(tiny_models.causal("bert"))))
        with pytest.raises(PalateError, match="Is it a model of another kind"):
            model.fit(BENCHMARK.comparisons, BENCHMARK.users, stop_early=False)


class TestViews:
    def test_no_view_shows_the_choice_its_texts_or_what_came_later(self) -> None:
        benchmark = planted(couples=2, choices=6, history=3)
        name = "user-0-asks"
        item = next(item for item in benchmark.comparisons if item.user_id == name)
        echo = msgspec.structs.replace(item, id="echo", prompt="Once more?", responses=(item.responses[0], "Else."))
        later = msgspec.structs.replace(item, id="later", prompt="L", responses=("l1", "l2"), date="2024-03-01")
        own = Post(id="own", text=item.responses[1])
        user = msgspec.structs.replace(benchmark.users[name], posts=(own, *benchmark.users[name].posts))
        dated = msgspec.structs.replace(item, date="2024-02-01")
        items = [dated, echo, later, *benchmark.comparisons[1:]]
        choices = labelled(items, {**benchmark.users, name: user})
        lesson = Lesson(dated, name, 0)
        histories = Histories(choices, {name: user})
        settings = LoraSettings(most_judgements=50, most_posts=50)
        shown = [histories.drawn(lesson, settings, epoch).view for epoch in range(40)]
        assert 2 < sum(not view.parts for view in shown) < 20  # about a quarter
        assert len({view.text for view in shown}) > 20
        for view in (*shown, histories.whole(lesson, settings).view):
            assert not any(text in view.text for text in (*item.responses, "They preferred: l"))
        assert "taste: asks" in histories.whole(lesson, settings).view.text

    def test_validating_users_and_items_are_not_trained_on(self) -> None:
        benchmark = planted(couples=10, choices=10)
        choices = labelled(benchmark.comparisons, benchmark.users)
        flat = [(user, choice) for user, own in choices.items() for choice in own]
        split = inner_split([Lesson(choice, user, n) for n, (user, choice) in enumerate(flat)], seed=0)
        assert split is not None
        assert not {one.user for one in split.train} & {one.user for one in (*split.told, *split.asked)}
        texts = {text for one in (*split.train, *split.told) for text in one.choice.responses}
        assert not texts & {text for one in split.asked for text in one.choice.responses}
