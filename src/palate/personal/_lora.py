"""`lora`: a language model tuned to read who is asking.

Hu et al. (2021), LoRA: Low-Rank Adaptation of Large Language Models, for how it is tuned; the loss is that of
Bradley and Terry (1952), a softmax where more than two responses were offered. The model reads a conversation: the
user's view, the prompt, one response; a head turns the state at its last token into a reward:

    r(response | view, prompt) = w · h_last(view, prompt, response),    W = W_base + (alpha / rank) B A

    loss = - log softmax_i r(response_i | view, prompt) at the response that was taken

Only A, B and w are learned. A user is words in the view, not a vector: each choice is read after some of the same
user's other choices and posts, another sample in each epoch, so that the model learns to read tastes off a history
and does so for users it never met. A quarter of the choices are read without a view. Where the other methods stand
on frozen features, this one moves the weights that read; it needs a GPU to be quick.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from palate.engine import Failure, require
from palate.personal._files import ModelFile, ModelTensors, mark, read_model, write_model
from palate.personal._lora_classifier import (
    LoraSettings,
    TunedClassifier,
    base_fingerprint,
    read_adapter,
    write_adapter,
)
from palate.personal._lora_training import Histories, Lesson, Report, inner_split, learn, remembered
from palate.personal._model import EMPTY, UNKNOWN
from palate.personal._pairs import choices_of, labelled
from palate.records import Ask, Comparison, Judgement, PalateError, Part, Rating, User, View
from palate.rewards import fit_view

if TYPE_CHECKING:
    import torch


class LoraModel:
    """Rates responses after reading what a view shows of the user; the same face as `PersonalModel`.

    A view with words is read as it is. The view `user` has none, and calls up the words that `adapt` kept of that
    user. Of those it was trained on the model keeps no words unless the setting `remember` asks for it.

    >>> model = LoraModel(LoraSettings(base="smollm2"))  # doctest: +SKIP
    >>> model.fit(benchmark.comparisons, benchmark.users).save("mine")  # doctest: +SKIP
    """

    method_name = "lora"
    name = "personal:lora"
    batch_size = 256
    knows_users = True

    def __init__(
        self, settings: LoraSettings | None = None, *, device: str | None = None, report: Report | None = None
    ) -> None:
        require("peft", "train")
        self.settings = settings or LoraSettings()
        self._classifier = TunedClassifier(self.settings.base, device=device)
        self._report = report
        self._weights: dict[str, torch.Tensor] = {}
        self._remembered: dict[str, tuple[Part, ...]] = {}
        self._trained: set[int] = set()
        self.chosen_by: float | None = None
        """The score by which training was stopped: mean log-likelihood of held-out users' choices."""

    @property
    def users(self) -> tuple[str, ...]:
        """The users whose words the model keeps."""
        return tuple(self._remembered)

    def fit(
        self, comparisons: Sequence[Comparison], users: Mapping[str, User], *, stop_early: bool = True
    ) -> LoraModel:
        """Learn from comparisons and from the judgements in the users' histories.

        With `stop_early`, and users enough, the number of epochs is found first on held-out users and items;
        then the model is trained for that many on everything.
        """
        choices = {user: own for user, own in labelled(comparisons, users).items() if own}
        if not choices:
            raise PalateError("there is nothing to learn from: no comparisons, and no user has judgements")
        flat = [(user, choice) for user, own in choices.items() for choice in own]
        lessons = [Lesson(choice, user, number) for number, (user, choice) in enumerate(flat)]
        histories = Histories(choices, users)
        split = inner_split(lessons, self.settings.seed) if stop_early else None
        if split is not None:
            epochs, self.chosen_by = self._learn(split[0], histories, split[1])
            self.settings = msgspec.structs.replace(self.settings, epochs=epochs)
        self._learn(lessons, histories)
        self._trained = {mark(choice.prompt, choice.responses) for _, choice in flat}
        self._remembered = {}
        if self.settings.remember:
            known = {user: users.get(user, User(id=user)) for user in choices}
            self._remembered = {user: remembered(known[user], own, self.settings) for user, own in choices.items()}
        return self

    def _learn(
        self, lessons: Sequence[Lesson], histories: Histories, validate: Sequence[Lesson] = ()
    ) -> tuple[int, float | None]:
        """Train an adapter from nothing on the base from its files, and add it in."""
        self._classifier = self._classifier.reload()
        adapter = self._classifier.attach(self.settings)
        found = learn(self._classifier, adapter, lessons, histories, self.settings, validate, self._report)
        self._weights = adapter.weights()
        adapter.merge()
        return found

    def adapt(self, user: str | User, judgements: Sequence[Judgement] = ()) -> LoraModel:
        """Keep these judgements, and what a given `User` holds, as what the view `user` stands for.

        Nothing is trained. It replaces what was kept of this user; the latest are kept where there are many.
        """
        if isinstance(user, str):
            user = User(id=user)
        parts = remembered(user, choices_of(user, judgements), self.settings)
        if not parts:
            raise PalateError(
                f"nothing is known of user {user.id!r} that {self.name} could read; it reads judgements, posts, "
                "demographics and values"
            )
        self._remembered[user.id] = parts
        return self

    def can_learn(self, user: User) -> bool:
        """Whether anything is known of this user that could stand in a view."""
        return bool(user.judgements or user.posts or user.demographics or user.values)

    def forget(self, user: str) -> bool:
        """Drop the words that are kept of one user; whether there were any."""
        return self._remembered.pop(user, None) is not None

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """Read every response after its view and prompt; what an ask's responses share is read once."""
        if not self._weights:
            raise PalateError(f"{self.name} has not been trained: call fit first, or load a trained one")
        new = [ask for ask in asks if mark(ask.prompt, ask.responses) not in self._trained]
        read = iter(self._read(new))
        known = Rating(unscored="the model was trained on this very choice, so its rating would say nothing")
        return [known if mark(ask.prompt, ask.responses) in self._trained else next(read) for ask in asks]

    def _read(self, asks: Sequence[Ask]) -> list[Rating]:
        classifier = self._classifier
        shown = [self._shown(ask) for ask in asks]
        fitted = [
            fit_view(ask, lambda one: classifier.count_tokens(classifier.request(one)), classifier.context)
            for ask, _ in shown
        ]
        found = classifier.score([classifier.request(ask) for ask, _ in fitted])
        return [_rating(scores, note or cut) for scores, (_, note), (_, cut) in zip(found, shown, fitted, strict=True)]

    def _shown(self, ask: Ask) -> tuple[Ask, str | None]:
        """The ask with the words that its view stands for, and a note where the user who is named is not known."""
        if ask.view.parts or ask.view.user_id is None:
            return ask, None
        if not ask.view.by_name:
            return ask, EMPTY
        parts = self._remembered.get(ask.view.user_id)
        if parts is None:
            return ask, UNKNOWN
        return msgspec.structs.replace(ask, view=View(name="user", user_id=ask.view.user_id, parts=parts)), None

    @property
    def fingerprint(self) -> str:
        """Changes with anything that was learned or kept, with the base, and with where it runs."""
        digest = hashlib.sha256(f"{self.name} {self._classifier.fingerprint}".encode())
        digest.update(msgspec.json.encode(self.settings))
        for name, tensor in sorted(self._weights.items()):
            digest.update(name.encode())
            digest.update(tensor.numpy().tobytes())
        for user, parts in sorted(self._remembered.items()):
            digest.update(user.encode("utf-8", "surrogatepass") + msgspec.json.encode(parts))
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
            users=list(self._remembered),
            about={"adapter": adapter},
            seed=self.settings.seed,
            chosen_by=self.chosen_by,
        )
        words = [_as_bytes(parts) for parts in self._remembered.values()]
        return write_model(Path(folder), kept, ModelTensors({}, {}, words, sorted(self._trained)))

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> LoraModel:
        """A model that was saved; refused where its base is not the same any more."""
        kept, tensors = read_model(Path(folder))
        model = cls(msgspec.convert(kept.settings, LoraSettings), device=device)
        if base_fingerprint(model.settings.base) != kept.features_fingerprint:
            raise PalateError(
                f"{folder} was trained on another base than {model.settings.base!r} is here: the files have changed. "
                "Use the base it was trained on, or train it again."
            )
        model._weights = read_adapter(Path(folder), kept.about.get("adapter"))
        model._classifier.attach(model.settings, model._weights).merge()
        words = [msgspec.json.decode(state.numpy().tobytes(), type=tuple[Part, ...]) for state in tensors.states]
        model._remembered = dict(zip(kept.users, words, strict=True))
        model._trained = set(tensors.trained)
        model.chosen_by = kept.chosen_by
        return model


def _rating(found: list[float] | Failure, note: str | None) -> Rating:
    import torch

    if isinstance(found, Failure):
        return Rating(unscored=found.reason)
    return Rating(scores=found, probabilities=torch.tensor(found).double().softmax(0).tolist(), note=note)


def _as_bytes(parts: tuple[Part, ...]) -> torch.Tensor:
    """Words as a tensor, so that they lie with every other model's users and are erased like them."""
    import numpy as np
    import torch

    return torch.from_numpy(np.frombuffer(msgspec.json.encode(parts), np.uint8).copy())
