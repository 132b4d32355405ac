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

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Self

import msgspec
import numpy as np

from palate.personal._lora_classifier import LoraSettings
from palate.personal._lora_training import (
    Histories,
    Lesson,
    Split,
    learn,
    log_likelihood,
    losses,
    read_choice,
    remembered,
)
from palate.personal._model import EMPTY, UNKNOWN
from palate.personal._pairs import Choice, choices_of, training_choices
from palate.personal._tuned import Learn, TunedModel, rating
from palate.records import Ask, Comparison, Judgement, PalateError, Part, Rating, User, View
from palate.rewards import fit_view

if TYPE_CHECKING:
    import torch


class LoraModel(TunedModel):
    """Rates responses after reading what a view shows of the user; the same face as `PersonalModel`.

    A view with words is read as it is. The view `user` has none, and calls up the words that `adapt` kept of that
    user. Of those it was trained on the model keeps no words unless the setting `remember` asks for it.

    >>> model = LoraModel(LoraSettings(base="smollm2"))  # doctest: +SKIP
    >>> model.fit(benchmark.comparisons, benchmark.users).save("mine")  # doctest: +SKIP
    """

    method_name = "lora"
    name = "personal:lora"
    settings_type = LoraSettings
    settings: LoraSettings

    def fit(self, comparisons: Sequence[Comparison], users: Mapping[str, User], *, stop_early: bool = True) -> Self:
        """As every tuned model; then keep the words of those it was trained on, if asked to."""
        super().fit(comparisons, users, stop_early=stop_early)
        if self.settings.remember:
            for user, own in training_choices(comparisons, users).items():
                self._states[user] = _as_bytes(remembered(users.get(user, User(id=user)), own, self.settings))
        return self

    def _learner(self, choices: Mapping[str, Sequence[Choice]], users: Mapping[str, User]) -> Learn:
        return partial(self._learn, Histories(choices, users))

    def _learn(self, histories: Histories, lessons: Sequence[Lesson], split: Split | None) -> tuple[int, float | None]:
        """Train an adapter from nothing on the base from its files, and add it in."""
        classifier = self._classifier = self._classifier.reload()
        settings = self.settings
        adapter = classifier.attach(settings)
        reads = (
            read_choice(classifier, histories.whole(lesson, settings), lesson.preferred, settings)
            for lesson in (split.asked if split else ())
        )
        asked = [one for one in reads if one]
        found = learn(
            adapter,
            lessons,
            settings,
            lambda lesson, epoch: read_choice(
                classifier, histories.drawn(lesson, settings, epoch), lesson.preferred, settings
            ),
            partial(losses, classifier),
            validate=partial(log_likelihood, classifier, asked, settings) if asked else None,
            report=self._report,
        )
        self._weights = adapter.weights()
        adapter.merge()
        return found

    def adapt(self, user: str | User, judgements: Sequence[Judgement] = ()) -> Self:
        """Keep these judgements, and what a given `User` holds, as what the view `user` stands for.

        Nothing is trained. It replaces what was kept of this user; the latest are kept where there are many.
        """
        if isinstance(user, str):
            user = User(id=user)
        choices = choices_of(user, judgements)
        parts = remembered(user, choices, self.settings)
        if not parts:
            raise PalateError(
                f"nothing is known of user {user.id!r} that {self.name} could read; it reads judgements, posts, "
                "demographics and values"
            )
        self._states[user.id] = _as_bytes(parts)
        self._taught(user.id, choices)
        return self

    def can_learn(self, user: User) -> bool:
        """Whether anything is known of this user that could stand in a view."""
        return bool(user.judgements or user.posts or user.demographics or user.values)

    def _rated(self, asks: Sequence[Ask]) -> list[Rating]:
        classifier = self._classifier
        shown = [self._shown(ask) for ask in asks]
        fitted = [
            fit_view(ask, lambda one: classifier.count_tokens(classifier.request(one)), classifier.context)
            for ask, _ in shown
        ]
        found = classifier.score([classifier.request(ask) for ask, _ in fitted])
        return [rating(scores, note or cut) for scores, (_, note), (_, cut) in zip(found, shown, fitted, strict=True)]

    def _shown(self, ask: Ask) -> tuple[Ask, str | None]:
        """The ask with the words that its view stands for, and a note where the user who is named is not known."""
        if ask.view.parts or ask.view.user_id is None:
            return ask, None
        if not ask.view.by_name:
            return ask, EMPTY
        words = self._states.get(ask.view.user_id)
        if words is None:
            return ask, UNKNOWN
        parts = msgspec.json.decode(words.numpy().tobytes(), type=tuple[Part, ...])
        return msgspec.structs.replace(ask, view=View(name="user", user_id=ask.view.user_id, parts=parts)), None


def _as_bytes(parts: tuple[Part, ...]) -> torch.Tensor:
    """Words as a tensor, which is what is kept of a user."""
    import torch

    return torch.from_numpy(np.frombuffer(msgspec.json.encode(parts), np.uint8).copy())
