"""How a trained model lies on the disk: `model.json` and `model.safetensors`, and no pickle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from palate import __version__
from palate.records import PalateError
from palate.runs import write_whole

if TYPE_CHECKING:
    import torch

FORMAT = 1


class ModelFile(msgspec.Struct, frozen=True, kw_only=True):
    """`model.json`."""

    method: str
    settings: dict[str, object]
    features: str
    features_fingerprint: str
    users: list[str]
    """Whom the model knows by name, in the order of the states."""
    about: dict[str, object]
    seed: int
    chosen_by: float | None
    palate: str = __version__
    format: int = FORMAT


class _Format(msgspec.Struct):
    format: int
    palate: str = "an unknown version"


@dataclass(frozen=True, eq=False)
class ModelTensors:
    """`model.safetensors`, taken apart."""

    shared: dict[str, torch.Tensor]
    features: dict[str, np.ndarray]
    states: list[torch.Tensor]
    trained: list[int]


def write_model(
    folder: Path,
    kept: ModelFile,
    *,
    shared: Mapping[str, torch.Tensor],
    features: Mapping[str, np.ndarray],
    states: Sequence[torch.Tensor],
    trained: Sequence[int],
) -> Path:
    """Write both files; the JSON last, so that a folder with it is complete."""
    import torch
    from safetensors.torch import save

    tensors = {f"shared.{name}": tensor.contiguous() for name, tensor in shared.items()}
    tensors.update({name: torch.from_numpy(np.ascontiguousarray(rows)) for name, rows in features.items()})
    if states:
        tensors["users.states"] = torch.cat(list(states)).contiguous()
        tensors["users.lengths"] = torch.tensor([len(state) for state in states])
    tensors["trained"] = torch.tensor(list(trained), dtype=torch.int64)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "model.safetensors", save(tensors))
        write_whole(folder / "model.json", msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")
    except OSError as error:
        raise PalateError(f"cannot write the model to {folder}: {error.strerror or error}") from error
    return folder


def read_model(folder: Path) -> tuple[ModelFile, ModelTensors]:
    """Read both files, or say what is wrong with them."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load

    description = folder / "model.json"
    if not description.is_file():
        raise PalateError(f"{folder} holds no trained model: it has no model.json. palate train makes one.")
    try:
        raw = description.read_bytes()
        found = msgspec.json.decode(raw, type=_Format)
        if found.format != FORMAT:
            raise PalateError(
                f"{description} has format {found.format}, made by palate {found.palate}; this palate "
                f"({__version__}) reads format {FORMAT}. Train the model again, or use the version that made it."
            )
        kept = msgspec.json.decode(raw, type=ModelFile)
        tensors = load((folder / "model.safetensors").read_bytes())
    except (msgspec.DecodeError, OSError, SafetensorError) as error:
        raise PalateError(f"the model in {folder} cannot be read: {error}") from error
    states: list[torch.Tensor] = []
    if "users.states" in tensors:
        states = list(torch.split(tensors["users.states"], tensors["users.lengths"].tolist()))
    if len(states) != len(kept.users):
        raise PalateError(f"the model in {folder} is damaged: {len(kept.users)} users, {len(states)} states")
    return kept, ModelTensors(
        shared={name.removeprefix("shared."): one for name, one in tensors.items() if name.startswith("shared.")},
        features={name: one.numpy() for name, one in tensors.items() if name.startswith("features.")},
        states=states,
        trained=tensors["trained"].tolist(),
    )
