"""What methods share that tune a language model: a base, an adapter with a reward head, and a part for each user.

A user's part is a tensor, so that it lies in the model's file as every method's does, and is erased like them.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import msgspec

from palate.engine import Failure, require
from palate.personal._files import (
    ModelFile,
    ModelTensors,
    TrainedOn,
    caution,
    is_trained_on,
    marks,
    read_model,
    write_model,
)
from palate.personal._lora_classifier import (
    TunedClassifier,
    TunedSettings,
    base_fingerprint,
    read_adapter,
    write_adapter,
)
from palate.personal._lora_training import Lesson, Report, Split, inner_split
from palate.personal._method import OWN_CHOICE
from palate.personal._pairs import Choice, training_choices
from palate.records import Ask, Benchmark, Comparison, Completion, Judgement, PalateError, Rating, User

if TYPE_CHECKING:
    import torch

Learn = Callable[[Sequence[Lesson], Split | None], tuple[int, float | None]]
"""Train from nothing; the number of epochs that were worth it, and what the held-out users' choices then scored."""


class TunedModel(ABC):
    """Reads whole conversations with a language model that was tuned; the same face as `PersonalModel`."""

    method_name: ClassVar[str]
    name: str
    settings_type: ClassVar[type[TunedSettings]]
    batch_size = 256
    knows_users = True

    def __init__(
        self, settings: TunedSettings | None = None, *, device: str | None = None, report: Report | None = None
    ) -> None:
        require("peft", "train")
        self.settings = settings or self.settings_type()
        self._classifier = self._open(device)
        self._report = report and (lambda what: report(f"{self.method_name}: {what}"))
        self._weights: dict[str, torch.Tensor] = {}
        self._shared: dict[str, torch.Tensor] = {}
        """What else is learned from everybody."""
        self._states: dict[str, torch.Tensor] = {}
        """What is kept of each user."""
        self._trained: set[int] = set()
        self.trained_on: list[TrainedOn] = []
        self.chosen_by: float | None = None
        """The score by which training was stopped: mean log-likelihood of held-out users' choices."""

    def _open(self, device: str | None) -> TunedClassifier:
        """The base, untouched."""
        return TunedClassifier(self.settings.base, device=device)

    @property
    def users(self) -> tuple[str, ...]:
        """The users of whom the model keeps something."""
        return tuple(self._states)

    @abstractmethod
    def _learner(self, choices: Mapping[str, Sequence[Choice]], users: Mapping[str, User]) -> Learn:
        """How the model learns from some of these choices."""

    @abstractmethod
    def _rated(self, asks: Sequence[Ask]) -> list[Rating]:
        """Ratings of asks that the model was not trained on."""

    @abstractmethod
    def adapt(self, user: str | User, judgements: Sequence[Judgement] = ()) -> Self:
        """Learn a user from these judgements and what a given `User` holds; what was kept of them is replaced."""

    def _taught(self, user: str, choices: Sequence[Choice]) -> None:
        """Remember of which choices something is kept under a user's name."""
        self._trained.update(*(marks(choice.prompt, choice.responses, user) for choice in choices))

    @abstractmethod
    def can_learn(self, user: User) -> bool:
        """Whether anything is known of this user that the method uses."""

    def fit(self, comparisons: Sequence[Comparison], users: Mapping[str, User], *, stop_early: bool = True) -> Self:
        """Learn from comparisons and from the judgements in the users' histories.

        With `stop_early`, and users enough, the number of epochs is found first on held-out users and items;
        then the model is trained for that many on everything.
        """
        choices = training_choices(comparisons, users)
        flat = [(user, choice) for user, own in choices.items() for choice in own]
        lessons = [Lesson(choice, user, number) for number, (user, choice) in enumerate(flat)]
        learn = self._learner(choices, users)
        self._states = {}
        split = inner_split(lessons, self.settings.seed) if stop_early else None
        if split is not None:
            epochs, self.chosen_by = learn(split.train, split)
            self.settings = msgspec.structs.replace(self.settings, epochs=epochs)
        learn(lessons, None)
        self._trained = set().union(*(marks(choice.prompt, choice.responses) for _, choice in flat))
        return self

    def _require_training(self) -> None:
        if not self._weights:
            raise PalateError(f"{self.name} has not been trained: call fit first, or load a trained one")

    def forget(self, user: str) -> bool:
        """Drop what is kept of one user; whether there was anything."""
        return self._states.pop(user, None) is not None

    def caution(self, benchmark: Benchmark, items: Sequence[Comparison | Completion]) -> str | None:
        """What to know where it is asked about these items under the view `user`."""
        return caution(self.name, self.trained_on, benchmark, items)

    def bytes_of(self, user: str) -> int:
        """How much is kept of one user."""
        return self._states[user].nbytes if user in self._states else 0

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """Read every response of every ask; what an ask's responses share is read once."""
        self._require_training()
        trained = [is_trained_on(ask, self._trained) for ask in asks]
        new = [ask for ask, known in zip(asks, trained, strict=True) if not known]
        rated = iter(self._rated(new))
        return [Rating(unscored=OWN_CHOICE) if known else next(rated) for known in trained]

    @property
    def fingerprint(self) -> str:
        """Changes with anything that was learned or kept, with the base, and with where it runs."""
        digest = hashlib.sha256(f"{self.name} {self._classifier.fingerprint}".encode())
        digest.update(msgspec.json.encode(self.settings))
        for tensors in (self._weights, self._shared, self._states):
            for name, tensor in sorted(tensors.items()):
                digest.update(name.encode("utf-8", "surrogatepass"))
                digest.update(tensor.numpy().tobytes())
        return digest.hexdigest()[:16]

    def save(self, folder: str | Path) -> Path:
        """Write the adapter as peft does, then `model.safetensors` and `model.json`, each whole or not at all."""
        if not self._weights:
            raise PalateError(f"{self.name} has not been trained, so there is nothing to save")
        adapter = write_adapter(Path(folder), self.settings, self._weights)
        kept = ModelFile(
            method=self.method_name,
            settings=msgspec.to_builtins(self.settings),
            features=self.settings.base,
            features_fingerprint=base_fingerprint(self.settings.base),
            users=list(self._states),
            about={"adapter": adapter},
            seed=self.settings.seed,
            chosen_by=self.chosen_by,
            trained_on=self.trained_on,
        )
        tensors = ModelTensors(self._shared, {}, list(self._states.values()), sorted(self._trained))
        return write_model(Path(folder), kept, tensors)

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> Self:
        """A model that was saved; refused where its base is not the same any more."""
        kept, tensors = read_model(Path(folder))
        model = cls(msgspec.convert(kept.settings, cls.settings_type), device=device)
        if base_fingerprint(model.settings.base) != kept.features_fingerprint:
            raise PalateError(
                f"{folder} was trained on another base than {model.settings.base!r} is here: the files have changed. "
                "Use the base it was trained on, or train it again."
            )
        model._weights = read_adapter(Path(folder), kept.about.get("adapter"))
        model._classifier.attach(model.settings, model._weights).merge()
        model._shared = tensors.shared
        model._states = dict(zip(kept.users, tensors.states, strict=True))
        model._trained = set(tensors.trained)
        model.chosen_by = kept.chosen_by
        model.trained_on = kept.trained_on
        return model


def rating(found: list[float] | Failure, note: str | None) -> Rating:
    """Scores as a rating, with a note; or why there are none."""
    import torch

    if isinstance(found, Failure):
        return Rating(unscored=found.reason)
    return Rating(scores=found, probabilities=torch.tensor(found).double().softmax(0).tolist(), note=note)
