"""The reward models of a run: made from their names, each with a label of its own and what identifies it."""

from __future__ import annotations

import hashlib
import inspect
import secrets
from collections.abc import Callable, Sequence

import msgspec

from palate.records import PalateError, RewardModel
from palate.rewards import load_reward_model
from palate.runs._settings import ModelSettings

BATCH = 256

Report = Callable[[str, int, int], None]
"""Told what is being rated, how much is done and how much there is in all."""


class LoadedModel(msgspec.Struct, frozen=True):
    """A reward model with its name in the tables and what identifies it."""

    settings: ModelSettings
    model: RewardModel

    @property
    def batch_size(self) -> int:
        """How many asks the model wants at once."""
        return max(1, int(getattr(self.model, "batch_size", BATCH)))

    @property
    def status(self) -> str:
        """What the model says of itself for the progress bar, such as tokens and money spent."""
        said = getattr(self.model, "status", None)
        return f" ({said()})" if said and said() else ""


def load_models(reward_models: Sequence[str | RewardModel]) -> list[LoadedModel]:
    """Make every reward model, each with a label of its own."""
    if not reward_models:
        raise PalateError("name at least one reward model, for instance --rm embedding")
    loaded: list[tuple[RewardModel, dict[str, str]]] = []
    for given in reward_models:
        loaded.append(load_reward_model(given) if isinstance(given, str) else (given, _identity(given)))
    names = [model.name for model, _ in loaded]
    labels = [
        name if names.count(name) == 1 else f"{name} ({identity.get('spec', index)})"
        for index, (name, (_, identity)) in enumerate(zip(names, loaded, strict=True))
    ]
    repeated = {label for label in labels if labels.count(label) > 1}
    if repeated:
        raise PalateError(f"a reward model is named twice: {', '.join(sorted(repeated))}")
    return [
        LoadedModel(ModelSettings(label=label, identity=identity), model)
        for label, (model, identity) in zip(labels, loaded, strict=True)
    ]


def _identity(model: RewardModel) -> dict[str, str]:
    """An object's class tells what it does; only its fingerprint tells what it holds."""
    kind = type(model)
    try:
        source = hashlib.sha256(inspect.getsource(kind).encode()).hexdigest()
    except (OSError, TypeError):
        source = "unknown"
    fingerprint = getattr(model, "fingerprint", None) or f"unknown, drawn {secrets.token_hex(8)}"
    return {"class": f"{kind.__module__}.{kind.__qualname__}", "source": source, "fingerprint": str(fingerprint)}
