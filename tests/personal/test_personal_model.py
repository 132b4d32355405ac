"""What every personal model does: fit, adapt, rate, save, load; and what it says when it knows nobody."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from palate.personal import METHODS, Method, MethodSettings, PersonalModel, adapt_users, make_folds
from palate.personal._bradley_terry import BradleyTerry
from palate.records import Ask, Benchmark, Judgement, PalateError, Part, User, View
from palate.rewards import check_reward_model, make_reward_model
from planted import planted

SIMPLE = ("bradley-terry", "per-user", "demographic")


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    return planted(couples=12, choices=10, history=8)


@pytest.fixture(scope="module", params=SIMPLE)
def model(request: pytest.FixtureRequest, benchmark: Benchmark) -> PersonalModel:
    return PersonalModel(request.param, features="traits").fit(benchmark.comparisons, benchmark.users)


def ask_of(judgement: Judgement, view: View) -> Ask:
    return Ask(
        id="new", prompt=judgement.prompt, responses=tuple(f"{text} Now." for text in judgement.responses), view=view
    )


def test_it_keeps_the_contract(model: PersonalModel) -> None:
    check_reward_model(model)


def test_it_is_loaded_by_its_folder(model: PersonalModel, benchmark: Benchmark, tmp_path: Path) -> None:
    model.save(tmp_path / "kept")
    loaded = make_reward_model(f"personal:{tmp_path / 'kept'}")
    asks = [
        ask_of(user.judgements[0], View(name="user", user_id=user.id, by_name=True))
        for user in list(benchmark.users.values())[:6]
    ]
    assert loaded.rate(asks) == model.rate(asks)
    assert loaded.fingerprint == model.fingerprint  # type: ignore[attr-defined]


def test_the_same_seed_learns_the_same(model: PersonalModel, benchmark: Benchmark) -> None:
    again = PersonalModel(model.method_name, features="traits").fit(benchmark.comparisons, benchmark.users)
    assert again.fingerprint == model.fingerprint


def test_a_choice_it_was_trained_on_is_not_rated(model: PersonalModel, benchmark: Benchmark) -> None:
    item = benchmark.comparisons[0]
    for responses in (item.responses, item.responses[::-1]):
        rating = model.rate([Ask(id=item.id, prompt=item.prompt, responses=responses)])[0]
        assert rating.unscored is not None
        assert "trained" in rating.unscored


def test_a_user_never_seen_gets_an_impersonal_rating_that_says_so(model: PersonalModel, benchmark: Benchmark) -> None:
    judgement = benchmark.users["user-0-asks"].judgements[0]
    nobody = model.rate([ask_of(judgement, View(name="none"))])[0]
    stranger = model.rate([ask_of(judgement, View(name="user", user_id="never seen", by_name=True))])[0]
    assert stranger.scores == nobody.scores
    assert nobody.note is None
    assert (stranger.note is None) == (model.method_name == "bradley-terry")
    assert "impersonal" in (stranger.note or "impersonal")


def test_a_view_that_shows_nothing_is_not_the_trained_user(model: PersonalModel, benchmark: Benchmark) -> None:
    name = "user-0-asks"
    judgement = benchmark.users[name].judgements[0]
    nobody, empty, by_name = model.rate(
        [
            ask_of(judgement, View(name="none")),
            ask_of(judgement, View(name="judgements:4", user_id=name)),
            ask_of(judgement, View(name="user", user_id=name, by_name=True)),
        ]
    )
    assert empty.scores == nobody.scores
    if model.method_name != "bradley-terry":
        assert empty.note == "impersonal: the view shows nothing of this user"
        assert by_name.scores != nobody.scores


def test_per_user_serves_users_it_never_met(benchmark: Benchmark) -> None:
    right: dict[str, list[bool]] = {"none": [], "judgements": []}
    for fold in make_folds(benchmark, "unseen", folds=3):
        model = PersonalModel("per-user", features="traits").fit(fold.train, fold.trained_users)
        for item in fold.test:
            told = tuple(
                Part(kind="judgement", text=one.id or "", judgement=one)
                for one in benchmark.users[item.user_id].judgements
            )
            for name, parts in (("none", ()), ("judgements", told)):
                view = View(name=name, parts=parts, user_id=item.user_id if parts else None)
                rating = model.rate([Ask(id=item.id, prompt=item.prompt, responses=item.responses, view=view)])[0]
                assert rating.scores is not None
                right[name].append(int(np.argmax(rating.scores)) == item.preferred)
    assert np.mean(right["none"]) == pytest.approx(0.5, abs=0.1)
    assert np.mean(right["judgements"]) > 0.9


def test_adapting_by_name_equals_a_view_that_shows_the_same(benchmark: Benchmark) -> None:
    model = PersonalModel("per-user", features="traits").fit(benchmark.comparisons, benchmark.users)
    judgements = benchmark.users["user-3-counts"].judgements
    model.adapt("somebody new", judgements[1:])
    parts = tuple(Part(kind="judgement", text=one.id or "", judgement=one) for one in judgements[1:])
    by_name = model.rate([ask_of(judgements[0], View(name="user", user_id="somebody new", by_name=True))])[0]
    by_view = model.rate([ask_of(judgements[0], View(name="judgements:7", user_id="x", parts=parts))])[0]
    assert by_name.scores == pytest.approx(by_view.scores, abs=1e-6)
    assert model.forget("somebody new")
    assert not model.forget("somebody new")


def test_adapting_to_nothing_is_refused(model: PersonalModel) -> None:
    with pytest.raises(PalateError, match="nothing is known of user 'blank'"):
        model.adapt(User(id="blank"))


def test_adapting_to_a_benchmark_learns_its_users(benchmark: Benchmark) -> None:
    others = planted(couples=3, choices=2, seed=9)
    renamed = {f"new-{name}": msgspec.structs.replace(user, id=f"new-{name}") for name, user in others.users.items()}
    model = PersonalModel("per-user", features="traits").fit(benchmark.comparisons, benchmark.users)
    before = len(model.users)
    adapt_users(model, msgspec.structs.replace(others, users=renamed, comparisons=()))
    assert len(model.users) == before + 6
    with pytest.raises(PalateError, match="no user 'nobody'"):
        adapt_users(model, others, "nobody")


def test_a_group_of_one_person_has_no_weights(benchmark: Benchmark) -> None:
    alone = {
        name: msgspec.structs.replace(user, demographics={**user.demographics, "club": "only me"})
        if name == "user-0-asks"
        else user
        for name, user in benchmark.users.items()
    }
    model = PersonalModel("demographic", features="traits").fit(benchmark.comparisons, alone)
    assert model.method.about["groups"] == ["taste=asks", "taste=counts"]


def test_a_choice_among_many_weighs_as_one() -> None:
    benchmark = planted(couples=6, choices=6)
    extra = tuple(
        msgspec.structs.replace(item, responses=(*item.responses, "A third text that nobody took, plain and dull."))
        for item in benchmark.comparisons
    )
    model = PersonalModel("per-user", features="traits").fit(extra, benchmark.users)
    ask = Ask(id="x", prompt="?", responses=("Is it so? Why?", "It is 12 and 14.", "No."))
    rating = model.rate([ask])[0]
    assert rating.probabilities is not None
    assert sum(rating.probabilities) == pytest.approx(1)


class TestBadFiles:
    @pytest.fixture
    def folder(self, benchmark: Benchmark, tmp_path: Path) -> Path:
        model = PersonalModel("per-user", features="traits").fit(benchmark.comparisons, benchmark.users)
        return model.save(tmp_path / "kept")

    def change(self, folder: Path, **fields: object) -> None:
        kept = msgspec.json.decode((folder / "model.json").read_bytes())
        (folder / "model.json").write_bytes(msgspec.json.encode({**kept, **fields}))

    def test_no_model_there(self, tmp_path: Path) -> None:
        with pytest.raises(PalateError, match=r"no model\.json"):
            PersonalModel.load(tmp_path)

    def test_another_version(self, folder: Path) -> None:
        self.change(folder, format=99, palate="9.0")
        with pytest.raises(PalateError, match=r"format 99, made by palate 9\.0"):
            PersonalModel.load(folder)

    def test_other_features(self, folder: Path) -> None:
        self.change(folder, features_fingerprint="something else")
        with pytest.raises(PalateError, match="other features"):
            PersonalModel.load(folder)

    def test_an_unknown_method(self, folder: Path) -> None:
        self.change(folder, method="per-usr")
        with pytest.raises(PalateError, match="per-user"):
            PersonalModel.load(folder)

    def test_a_torn_file(self, folder: Path) -> None:
        file = folder / "model.safetensors"
        file.write_bytes(file.read_bytes()[:50])
        with pytest.raises(PalateError, match="cannot be read"):
            PersonalModel.load(folder)

    def test_a_user_without_a_state(self, folder: Path) -> None:
        self.change(folder, users=["only one"])
        with pytest.raises(PalateError, match="damaged"):
            PersonalModel.load(folder)


def test_an_untrained_model_says_so() -> None:
    with pytest.raises(PalateError, match="has not been trained"):
        PersonalModel("per-user", features="traits").rate([Ask(id="a", prompt="?", responses=("x", "y"))])


def test_nothing_to_learn_from_is_said() -> None:
    with pytest.raises(PalateError, match="nothing to learn from"):
        PersonalModel("per-user", features="traits").fit([], {})


def test_features_that_are_no_numbers_are_refused(benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    model = PersonalModel("per-user", features="traits")
    encoder = model.features._encoders["traits"]
    assert encoder is not None
    honest = encoder.encode
    monkeypatch.setattr(
        type(encoder),
        "encode",
        lambda self, texts, contexts=None: honest(texts, contexts=contexts) * np.nan,
        raising=True,
    )
    with pytest.raises(PalateError, match="not finite numbers"):
        model.fit(benchmark.comparisons, benchmark.users)


def test_the_impersonal_method_comes_first() -> None:
    assert next(iter(METHODS)) == "bradley-terry"


def test_a_method_that_sums_up_no_user_is_refused() -> None:
    class Forgetful(BradleyTerry):
        user = Method.user

    with pytest.raises(TypeError, match="Forgetful has to define user or users"):
        Forgetful(MethodSettings(), {})
