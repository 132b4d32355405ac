"""What a method is: one way of knowing a user, over frozen features. Each has a file of its own beside this one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec

from palate.personal._pairs import Known, Pairs
from palate.records import PalateError, Registry

if TYPE_CHECKING:
    import torch

Validate = Callable[[], float]
"""How well the model as it stands predicts users it does not train on: mean log-likelihood of their choices."""


class MethodSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What one may set. A method adds fields of its own, each with a line that says what it does."""

    seed: int = 0
    """Decides starting values and the order of batches."""


class Method(ABC):
    """Learns a shared part from everybody, and sums one user up in a tensor, their *state*.

    A user who is never seen in training gets a state from `user` without any retraining, and nobody at all
    gets `nobody`. A state has two dimensions, (k, s): k is 1 for methods that sum a user up in a vector, and
    may be the number of examples for methods that look at each.
    """

    name: ClassVar[str]
    settings_type: ClassVar[type[MethodSettings]] = MethodSettings
    uses: ClassVar[frozenset[str]] = frozenset({"judgements"})
    """Which of `judgements`, `posts` and `groups` the method can learn a user from; empty when impersonal."""
    grid: ClassVar[dict[str, tuple[object, ...]]] = {}
    """Settings to choose on an inner split of users: one field after the other, the best of each kept."""

    def __init__(self, settings: MethodSettings, blocks: dict[str, slice]) -> None:
        self.settings = settings
        self.blocks = blocks
        """Which columns of the features come from which encoder."""
        self.shared: dict[str, torch.Tensor] = {}
        """Everything learned from everybody; what is saved."""
        self.about: dict[str, object] = {}
        """Anything else that has to be saved, as JSON. What it has to say of itself goes under `findings`."""
        if type(self).user is Method.user and type(self).users is Method.users:
            raise TypeError(f"{type(self).__name__} has to define user or users")

    @abstractmethod
    def learn(self, pairs: Pairs, known: Sequence[Known], validate: Validate | None = None) -> None:
        """Learn the shared part; `known` has one entry for each of `pairs.users`.

        With `validate`, stop early where it says that more training makes it worse, and set `self.settings`
        so that learning again without it stops at the same place.
        """

    def user(self, known: Known) -> torch.Tensor:
        """The state of a user of whom this is known. Called for users of the training data and for others."""
        return self.users([known])[0]

    @abstractmethod
    def nobody(self) -> torch.Tensor:
        """The state under which the method is impersonal."""

    @abstractmethod
    def reward(self, rows: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """(rows,): how much a user in this state likes each text, on a logistic scale.

        A difference of x between two texts means that the first is preferred with probability sigmoid(x).
        """

    def users(self, known: Sequence[Known]) -> list[torch.Tensor]:
        """States of many users; a method that can do better than one after the other defines this instead of `user`."""
        return [self.user(one) for one in known]


METHODS: Registry[type] = Registry(
    "method",
    "palate.methods",
    {
        "bradley-terry": ("Impersonal: one taste for everybody.", "palate.personal._bradley_terry:BradleyTerry"),
        "gppl": ("Impersonal: one smooth taste for everybody, by a Gaussian process.", "palate.personal._gppl:Gppl"),
        "per-user": ("Everybody's taste, moved by each user's own judgements.", "palate.personal._per_user:PerUser"),
        "demographic": (
            "Everybody's taste, moved by the groups a user belongs to.",
            "palate.personal._demographic:Demographic",
        ),
        "history-attention": (
            "Attention over what the user wrote and chose.",
            "palate.personal._history_attention:HistoryAttention",
        ),
        "vpl": ("A taste inferred from the user's choices, and how sure it is.", "palate.personal._vpl:Vpl"),
        "gpo": ("A small transformer that reads the user's choices.", "palate.personal._gpo:Gpo"),
        "user-embedding": ("A short vector for each user.", "palate.personal._user_embedding:UserEmbedding"),
        "lore": ("A few reward functions shared by everybody, mixed for each user.", "palate.personal._lore:LoRe"),
        "pal": ("An ideal point among a few prototypes.", "palate.personal._pal:Pal"),
        "meta": (
            "A starting point from which a few steps on a user's choices lead to their taste.",
            "palate.personal._meta:Meta",
        ),
        "crowd-gppl": (
            "A consensus, and a few smooth tastes mixed for each user.",
            "palate.personal._crowd_gppl:CrowdGppl",
        ),
        "ensemble": ("The average of several methods' rewards.", "palate.personal._ensemble:Ensemble"),
        "lora": ("A language model tuned to read the profile, by LoRA.", "palate.personal:LoraModel"),
        "user-tokens": (
            "A language model tuned to read after input tokens of each user's own.",
            "palate.personal:UserTokensModel",
        ),
    },
)
"""Impersonal first: it is the one to beat."""
OWN_CHOICE = (
    "the model was trained on this very choice, or taught one of this user's with a text of it, so its rating would "
    "say nothing: the report of its training has how it does on choices it had not seen, and other choices can be "
    "asked about"
)
TUNED = ("lora", "user-tokens")
"""Methods that tune a language model instead of standing on frozen features; see `TunedModel`."""


def check_method(name: str) -> None:
    """Refuse what names no method; a built-in one is not imported for that."""
    if name not in METHODS:
        method_type(name)


def method_type(name: str) -> type[Method]:
    """The class of a method over frozen features: by name, or `./file.py:Name`."""
    if name in TUNED:
        tuned = METHODS.find(name).target.__name__
        raise PalateError(f"{name} tunes a language model and has no use for features: make a {tuned} instead")
    found = METHODS.find(name)
    if found.spec.argument is not None:
        raise PalateError(f"{name!r}: a method takes no argument")
    if not (isinstance(found.target, type) and issubclass(found.target, Method)):
        raise PalateError(f"{name} is no method: it has to be a class that extends palate.personal.Method")
    return found.target


def method_of_file(folder: Path, said: str, named: str | None = None) -> str:
    """The method of a model in a folder, which may come from a stranger: a file of code is run only if you name it."""
    if not METHODS.is_file(said):
        if named not in (None, said):
            raise PalateError(f"{folder} was trained with the method {said}, not with {named}")
        return said
    if named is None:
        raise PalateError(
            f"{folder} was trained with a method in a file of code, {said}, which is not run because a model says so. "
            f"If you trust that file, name it yourself: personal:{folder},method={said}, or --method {said}"
        )
    return named


def refuse_code_of_members(folder: Path, settings: MethodSettings) -> None:
    """The same for the methods that a method is made of."""
    for name in getattr(settings, "members", ()):
        method_of_file(folder, name)


def personal_spec(folder: Path, method: str) -> str:
    """How a reward model is named that was trained with this method, as for `--rm`."""
    return f"personal:{folder},method={method}" if METHODS.is_file(method) else f"personal:{folder}"


def plug_in_source(name: str) -> str:
    """The version or hash of a method that is not built in; palate's own version tells that of the others."""
    return "" if METHODS.is_built_in(name) else METHODS.find(name).source
