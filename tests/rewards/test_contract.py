"""The contract finds what is wrong with a reward model, and passes the built-in ones."""

from collections.abc import Sequence

import pytest

from palate.records import Ask, PalateError, Rating
from palate.rewards import CONTROLS, check_reward_model, make_reward_model, rate


class Model:
    """Sound; each test breaks it in one way."""

    name = "model"

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        return [Rating(scores=[len(response) for response in ask.responses]) for ask in asks]


class DependsOnBatch(Model):
    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        return [Rating(scores=[len(asks) + len(response) for response in ask.responses]) for ask in asks]


class DependsOnPlace(Model):
    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        return [Rating(scores=[i + len(r) for r in ask.responses]) for i, ask in enumerate(asks)]


class ChangesItsMind(Model):
    calls = 0

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        self.calls += 1
        return [Rating(scores=[self.calls for _ in ask.responses]) for ask in asks]


class PrefersTheFirst(Model):
    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        return [Rating(scores=[-index for index, _ in enumerate(ask.responses)]) for ask in asks]


class Declared(PrefersTheFirst):
    order_sensitive = True


class BreaksOnEmptyText(Model):
    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        return [Rating(scores=[1 / len(response) for response in ask.responses]) for ask in asks]


class LosesOne(Model):
    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        return super().rate(asks)[1:]


class ForgetsWhatItLearned(Model):
    def __init__(self, bonus: float = 1.0) -> None:
        self.bonus = bonus

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        return [Rating(scores=[self.bonus for _ in ask.responses]) for ask in asks]

    def save(self, folder: object) -> None:
        pass

    @classmethod
    def load(cls, folder: object) -> "ForgetsWhatItLearned":
        return cls(0.0)


@pytest.mark.parametrize("name", CONTROLS)
def test_the_controls_keep_the_contract(name: str) -> None:
    assert check_reward_model(make_reward_model(name))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (DependsOnBatch(), "batch size"),
        (DependsOnPlace(), "batch order"),
        (ChangesItsMind(), "same input twice"),
        (PrefersTheFirst(), "order of the responses"),
        (BreaksOnEmptyText(), "ZeroDivisionError"),
        (LosesOne(), "gave 5 ratings for 6 asks"),
        (ForgetsWhatItLearned(), "saving and loading"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_breach_is_named(model: Model, words: str) -> None:
    with pytest.raises(PalateError, match=words):
        check_reward_model(model)


def test_a_model_may_say_that_order_matters_to_it() -> None:
    remarks = [check.remark for check in check_reward_model(Declared())]
    assert remarks[-1] == "another favourite in the other order on 6 of 6 asks"


ASK = Ask(id="a", prompt="p", responses=("x", "y"))


class Answers:
    """Gives whatever the test wants."""

    name = "answers"

    def __init__(self, *ratings: object) -> None:
        self.ratings = ratings

    def rate(self, asks: Sequence[Ask]) -> Sequence[Rating]:
        return self.ratings  # type: ignore[return-value]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_score_that_is_no_number_is_unscored_and_not_a_half(number: float) -> None:
    [rating] = rate(Answers(Rating(scores=[number, 1.0])), [ASK])
    assert rating.scores is None
    assert rating.unscored is not None and "not finite" in rating.unscored


@pytest.mark.parametrize(
    ("rating", "words"),
    [
        (Rating(scores=[1.0]), "1 scores for 2 responses"),
        (Rating(scores=[1, 2], probabilities=[0.5, 0.9]), "add up to 1"),
        (0.5, "gave a float"),
    ],
)
def test_a_rating_that_does_not_fit_is_an_error(rating: object, words: str) -> None:
    with pytest.raises(PalateError, match=words):
        rate(Answers(rating), [ASK])


def test_a_rating_is_scored_or_unscored_and_not_both() -> None:
    with pytest.raises(ValueError, match="not both"):
        Rating(scores=[1.0], unscored="why")
    with pytest.raises(ValueError, match="not both"):
        Rating()
