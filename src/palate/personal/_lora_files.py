"""The adapter of a tuned model on the disk, as peft writes and reads it."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from palate.personal._lora_classifier import lora_config
from palate.personal._lora_settings import LoraSettings
from palate.records import PalateError
from palate.runs import write_whole

if TYPE_CHECKING:
    import torch

FOLDER = "adapter"
"""Inside the model's folder; peft loads it by itself."""
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


def write_adapter(folder: Path, settings: LoraSettings, weights: Mapping[str, torch.Tensor]) -> str:
    """Write both files, each whole or not at all; the hash of the weights."""
    from safetensors.torch import save

    described = lora_config(settings)
    described.base_model_name_or_path = settings.base
    described.inference_mode = True
    with tempfile.TemporaryDirectory() as made:
        described.save_pretrained(made)
        config = (Path(made) / CONFIG).read_bytes()
    content = save(dict(weights), metadata={"format": "pt"})
    target = folder / FOLDER
    try:
        target.mkdir(parents=True, exist_ok=True)
        write_whole(target / CONFIG, config)
        write_whole(target / WEIGHTS, content)
    except OSError as error:
        raise PalateError(f"cannot write the model to {folder}: {error.strerror or error}") from error
    return hashlib.sha256(content).hexdigest()


def read_adapter(folder: Path, expected: object) -> dict[str, torch.Tensor]:
    """The weights, if they are those that `model.json` speaks of."""
    from safetensors.torch import load

    try:
        content = (folder / FOLDER / WEIGHTS).read_bytes()
    except OSError as error:
        raise PalateError(f"the model in {folder} cannot be read: {error}") from error
    if hashlib.sha256(content).hexdigest() != expected:
        raise PalateError(
            f"the model in {folder} is damaged: its adapter is not the one that model.json speaks of. Train it again."
        )
    return dict(load(content))
