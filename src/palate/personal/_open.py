"""Which kind of model a method's name, or a folder, calls for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from palate.personal._features import Features
from palate.personal._folds import Fold
from palate.personal._lora import LoraModel
from palate.personal._lora_classifier import base_fingerprint
from palate.personal._lora_settings import LoraSettings
from palate.personal._method import MethodSettings
from palate.personal._methods import TUNED, plug_in_source
from palate.personal._model import PersonalModel
from palate.personal._named import choose_settings, fit_method
from palate.records import Benchmark, Comparison, PalateError, User

TrainedModel = PersonalModel | LoraModel
"""Both fit, adapt, rate, save and load."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """What models are made of, whatever their methods."""

    features: str = "minilm+traits"
    """What methods over frozen features read."""
    base: str = "smollm2"
    """Which language model is tuned by methods that tune one."""
    seed: int = 0

    def identity(self, method: str) -> dict[str, str]:
        """What, beside the data, decides what a model of this method learns."""
        if method in TUNED:
            return {"method": method, "base": self.base, "base_fingerprint": base_fingerprint(self.base)}
        fingerprint = Features(self.features).fingerprint
        identity = {"method": method, "features": self.features, "features_fingerprint": fingerprint}
        source = plug_in_source(method)
        return identity | {"method_source": source} if source else identity

    def choose(self, method: str, folds: Sequence[Fold]) -> MethodSettings | None:
        """The settings for all of these folds; None where `fit` finds them by itself."""
        return None if method in TUNED else choose_settings(method, self.features, self.seed, folds)

    def fit(
        self,
        method: str,
        comparisons: Sequence[Comparison],
        users: Mapping[str, User],
        settings: MethodSettings | None = None,
        *,
        remember: bool = False,
        report: Callable[[str], None] | None = None,
    ) -> TrainedModel:
        """A trained model. With `remember`, one that reads words keeps those of the users it is trained on."""
        if method in TUNED:
            tuned = LoraSettings(base=self.base, seed=self.seed, remember=remember)
            return LoraModel(tuned, report=report).fit(comparisons, users)
        return fit_method(method, self.features, self.seed, comparisons, users, settings)


def load_personal(folder: str | Path) -> TrainedModel:
    """The trained model in a folder, as `--rm personal:FOLDER` calls it."""
    return LoraModel.load(folder) if _method(Path(folder)) in TUNED else PersonalModel.load(folder)


class _Described(msgspec.Struct):
    method: str


def _method(folder: Path) -> str:
    try:
        return msgspec.json.decode((folder / "model.json").read_bytes(), type=_Described).method
    except (OSError, msgspec.DecodeError):
        return ""  # loading says what is wrong


def adapt_users(model: TrainedModel, benchmark: Benchmark, user: str | None = None) -> TrainedModel:
    """Adapt a model to one user of a benchmark, or to all of whom something is known."""
    if user is not None:
        if user not in benchmark.users:
            raise PalateError(f"{benchmark.card.name} has no user {user!r}")
        return model.adapt(benchmark.users[user])
    known = [one for one in benchmark.users.values() if model.can_learn(one)]
    if not known:
        raise PalateError(f"no user of {benchmark.card.name} has anything that {model.name} could learn from")
    for one in known:
        model.adapt(one)
    return model
