"""A trained personal model: a reward model like any other, which knows its users."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np

from palate.engine import require
from palate.personal._features import Features
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
from palate.personal._folds import units
from palate.personal._method import (
    OWN_CHOICE,
    Method,
    MethodSettings,
    method_of_file,
    method_type,
    plug_in_source,
    refuse_code_of_members,
)
from palate.personal._pairs import (
    Choice,
    Known,
    Pairs,
    choices_of,
    fields_of,
    know,
    know_all,
    know_view,
    make_pairs,
    offered,
    training_choices,
)
from palate.personal._private import PrivacySettings, learn_privately, standardise_publicly
from palate.personal._tune import inner_splits, tune
from palate.records import (
    Ask,
    Benchmark,
    Comparison,
    Completion,
    Judgement,
    PalateError,
    Rating,
    User,
    View,
    describe_error,
)

if TYPE_CHECKING:
    import torch


State = TypeVar("State")
Shown = TypeVar("Shown")
UNFIT = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What methods raise over settings and numbers that do not fit together."""
UNKNOWN = "impersonal: the model knows nothing of this user"
EMPTY = "impersonal: the view shows nothing of this user"


class PersonalModel:
    """Rates responses for the user that a view names or describes.

    A view that shows judgements, posts or groups is all that is used: the model adapts to what it shows. The
    view `user` shows nothing but who it is, and calls up what was learned or adapted for that user. Where there
    is nothing to go by, as in a view whose history is empty, the rating is impersonal and its note says so.

    >>> model = PersonalModel("per-user", features="minilm+traits")  # doctest: +SKIP
    >>> model.fit(benchmark.comparisons, benchmark.users).save("mine")  # doctest: +SKIP
    """

    batch_size = 1024
    knows_users = True

    def __init__(self, method: str = "per-user", *, features: str = "minilm+traits", seed: int = 0) -> None:
        require("torch", "local")
        self.method_name = method
        self.name = f"personal:{method}"
        self.features = Features(features)
        self._kind = method_type(method)
        self._source = plug_in_source(method)
        self._seed = seed
        self._method: Method | None = None
        self._states: dict[str, torch.Tensor] = {}
        self._trained: set[int] = set()
        self.trained_on: list[TrainedOn] = []
        self.chosen_by: float | None = None
        """The inner score by which the settings were chosen: mean log-likelihood of held-out users' choices."""

    @property
    def method(self) -> Method:
        """The method with what it has learned."""
        if self._method is None:
            raise PalateError(f"{self.name} has not been trained: call fit first, or load a trained one")
        return self._method

    @property
    def settings(self) -> MethodSettings:
        """The settings that were chosen or given."""
        return self.method.settings

    @property
    def users(self) -> tuple[str, ...]:
        """The users that the model knows by name."""
        return tuple(self._states)

    def fit(
        self,
        comparisons: Sequence[Comparison],
        users: Mapping[str, User],
        settings: MethodSettings | None = None,
        privacy: PrivacySettings | None = None,
    ) -> PersonalModel:
        """Learn from comparisons and from the judgements in the users' histories.

        Without `settings`, they are chosen on an inner split: some users, and some units of items, are set
        aside, and the settings win that predict those users best after adapting to what else they chose.
        With `privacy` the shared part is learned under differential privacy: nothing is chosen on the data, the
        features are standardised on public texts, and the marks of what was trained on are not kept.
        """
        self.features.restore({})
        if privacy is not None:
            standardise_publicly(self.features)
            settings = settings or self._kind.settings_type(seed=self._seed)
        pairs, known, flat = self._read(comparisons, users)
        if settings is None:
            settings = self._choose(pairs, known, flat)
        self._method = self._kind(settings, self.features.blocks)
        if privacy is None:
            self._method.learn(pairs, known)
        else:
            learn_privately(self._method, pairs, privacy)
        personal = bool(self._kind.uses)
        self._states = dict(zip(pairs.users, self._method.users(known), strict=True)) if personal else {}
        self._trained = set()
        if privacy is None:
            self._trained.update(*(marks(choice.prompt, choice.responses) for choice in flat))
        return self

    def choose(self, comparisons: Sequence[Comparison], users: Mapping[str, User]) -> MethodSettings:
        """The settings that `fit` would choose on these."""
        self.features.restore({})
        return self._choose(*self._read(comparisons, users))

    def _choose(self, pairs: Pairs, known: Sequence[Known], flat: Sequence[Choice]) -> MethodSettings:
        splits = inner_splits(pairs, known, units(flat), self._seed)
        settings, self.chosen_by = tune(self._kind, self.features.blocks, splits, self._seed)
        return settings

    def _read(
        self, comparisons: Sequence[Comparison], users: Mapping[str, User]
    ) -> tuple[Pairs, list[Known], list[Choice]]:
        choices = training_choices(comparisons, users)
        pairs = make_pairs(choices, self.features)
        known = know_all(pairs, users, self.features, self._kind.uses)
        return pairs, known, [choice for own in choices.values() for choice in own]

    def adapt(self, user: str | User, judgements: Sequence[Judgement] = ()) -> PersonalModel:
        """Learn a user from these judgements alone, and what a given `User` holds, without retraining.

        It replaces what was known of this user. Contradictory judgements cancel each other.
        """
        if isinstance(user, str):
            user = User(id=user)
        posts = [post.text for post in user.posts]
        choices = choices_of(user, judgements)
        known = know(choices, posts, fields_of(user), self.features, self._kind.uses)
        if known.nothing:
            needed = " or ".join(sorted(self._kind.uses)) or "nothing: it is impersonal"
            raise PalateError(f"nothing is known of user {user.id!r} that {self.name} could use; it uses {needed}")
        self._states[user.id] = self.method.user(known)
        if "judgements" in self._kind.uses:
            self._trained.update(*(marks(choice.prompt, choice.responses, user.id) for choice in choices))
        return self

    def can_learn(self, user: User) -> bool:
        """Whether anything is known of this user that the method uses."""
        held = {"judgements": user.judgements, "posts": user.posts, "groups": user.demographics or user.values}
        return any(held[kind] for kind in self._kind.uses)

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
        """Read every response once, then rate the asks of each user together."""
        import torch

        if not asks:
            return []
        rows = torch.from_numpy(self.features.rows(*offered(asks)))
        ends = np.cumsum([len(ask.responses) for ask in asks])
        with torch.no_grad():
            states = self._states_of([ask.view for ask in asks])
            return [
                self._rating(ask, rows[end - len(ask.responses) : end], *state)
                for ask, end, state in zip(asks, ends.tolist(), states, strict=True)
            ]

    def _states_of(self, views: Sequence[View]) -> list[tuple[torch.Tensor, str | None]]:
        """The state that each view allows, and a note where it is impersonal though a user was named."""
        nobody, uses = self.method.nobody(), self._kind.uses
        if not uses:
            return [(nobody, None)] * len(views)

        def shown(view: View) -> Known | None:
            known = know_view(view, self.features, uses)
            return None if known.nothing else known

        return states_of(views, self._states, nobody, shown, self.method.users, " or ".join(sorted(uses)))

    def _rating(self, ask: Ask, rows: torch.Tensor, state: torch.Tensor, note: str | None) -> Rating:
        import torch

        if is_trained_on(ask, self._trained):
            return Rating(unscored=OWN_CHOICE)
        scores = self.method.reward(rows, state).double()
        return Rating(scores=scores.tolist(), probabilities=torch.softmax(scores, 0).tolist(), note=note)

    @property
    def fingerprint(self) -> str:
        """Changes with anything that was learned, and with the features."""
        digest = hashlib.sha256(f"{self.method_name} {self.features.fingerprint}{self._source}".encode())
        digest.update(msgspec.json.encode(self.settings))
        learned = {name: one.numpy() for name, one in {**self.method.shared, **self._states}.items()}
        for name, numbers in sorted({**learned, **self.features.tensors()}.items()):
            digest.update(name.encode("utf-8", "surrogatepass"))
            digest.update(numbers.tobytes())
        return digest.hexdigest()[:16]

    def save(self, folder: str | Path) -> Path:
        """Write `model.json` and `model.safetensors`, each whole or not at all."""
        return write_model(
            Path(folder),
            ModelFile(
                method=self.method_name,
                settings=msgspec.to_builtins(self.settings),
                features=self.features.name,
                features_fingerprint=self.features.fingerprint,
                users=list(self._states),
                about=self.method.about,
                seed=self._seed,
                chosen_by=self.chosen_by,
                trained_on=self.trained_on,
            ),
            ModelTensors(
                self.method.shared, self.features.tensors(), list(self._states.values()), sorted(self._trained)
            ),
        )

    @classmethod
    def load(cls, folder: str | Path, *, method: str | None = None) -> PersonalModel:
        """A model that was saved; refused where its features are not the same any more.

        `method` names the method where that is a file of code, which is not run because a model says so.
        """
        kept, tensors = read_model(Path(folder))
        model = cls(method_of_file(Path(folder), kept.method, method), features=kept.features, seed=kept.seed)
        if model.features.fingerprint != kept.features_fingerprint:
            raise PalateError(
                f"{folder} was trained with other features than {kept.features!r} gives here: the encoder's files "
                "have changed. Use the encoder it was trained with, or train it again."
            )
        try:
            settings = msgspec.convert(kept.settings, model._kind.settings_type)
            refuse_code_of_members(Path(folder), settings)
            model._restore(kept, tensors, settings)
        except (*UNFIT, msgspec.ValidationError) as error:
            raise PalateError(
                f"the model in {folder} is damaged ({describe_error(error)}). Copy it again, or train it again"
            ) from error
        return model

    def _restore(self, kept: ModelFile, tensors: ModelTensors, settings: MethodSettings) -> None:
        self.features.restore(tensors.features)
        self._method = self._kind(settings, self.features.blocks)
        self._method.shared.update(tensors.shared)
        self._method.about.update(kept.about)
        self._states = dict(zip(kept.users, tensors.states, strict=True))
        self._trained = set(tensors.trained)
        self.chosen_by = kept.chosen_by
        self.trained_on = kept.trained_on
        self._try_out()

    def _try_out(self) -> None:
        """Rate two texts for nobody, and for a user of each shape of state: what fits together does so for all."""
        import torch

        numbers = [*self.method.shared.values(), *self._states.values()]
        if any(bool(torch.isnan(one).any()) for one in numbers) or self.features.is_damaged:
            raise ValueError("numbers are missing from it")
        rows = torch.zeros(2, self.features.dimensions)
        with torch.no_grad():
            for state in (self.method.nobody(), *{tuple(one.shape): one for one in self._states.values()}.values()):
                if self.method.reward(rows, state).shape != (2,):
                    raise ValueError("it does not give a number for each text")


def states_of(
    views: Sequence[View],
    kept: Mapping[str, State],
    nobody: State,
    shown: Callable[[View], Shown | None],
    learn: Callable[[Sequence[Shown]], Sequence[State]],
    uses: str,
) -> list[tuple[State, str | None]]:
    """The state that each view allows, and a note where it is impersonal though a user was named.

    `shown` says what a view shows that can be learned from. Views that show the same share a state, and those that
    have to be learned are learned together.
    """
    keys = [(view.user_id, view.by_name, tuple(part.text for part in view.parts)) for view in views]
    found: dict[object, tuple[State, str | None]] = {}
    told: dict[object, Shown] = {}
    for key, view in dict(zip(keys, views, strict=True)).items():
        if view.user_id is None and not view.parts:
            found[key] = nobody, None
        elif view.by_name and not view.parts:
            state = kept.get(view.user_id or "")
            found[key] = (nobody, UNKNOWN) if state is None else (state, None)
        elif not view.parts:
            found[key] = nobody, EMPTY
        elif (known := shown(view)) is not None:
            told[key] = known
        else:
            found[key] = nobody, f"impersonal: the view shows no {uses}"
    learned = learn(list(told.values())) if told else []
    found.update((key, (state, None)) for key, state in zip(told, learned, strict=True))
    return [found[key] for key in keys]
