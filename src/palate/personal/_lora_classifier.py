"""A language model with a reward head and an adapter, which the engine reads like any classifier.

The adapter lies in the model's folder as peft writes and reads it.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from palate.engine import (
    LikelihoodRequest,
    LocalClassifier,
    folder_fingerprint,
    require,
    steady_attention,
    weights_folder,
)
from palate.personal._method import MethodSettings
from palate.records import Ask, PalateError
from palate.rewards import conversation
from palate.runs import write_whole

if TYPE_CHECKING:
    import torch

HEAD = "score"
"""What transformers calls the head of a decoder that gives numbers."""
ADAPTER = "adapter"
"""Inside the model's folder; peft loads it by itself."""
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


class TunedSettings(MethodSettings, frozen=True, kw_only=True):
    """Settings of methods that tune a language model. The first four decide what can be learned, the others how."""

    base: str = "smollm2"
    """The language model that is tuned: a name or a folder. One that is a reward model already keeps its head."""
    rank: int = 16
    """The width of each adapter matrix."""
    alpha: float = 32.0
    """The adapter's product counts by alpha / rank."""
    dropout: float = 0.0
    """The share of an adapter's inputs that is left out in training."""
    learning_rate: float = 2e-4
    """Of AdamW; it rises to this over the first steps and stays."""
    warm_up: int = 20
    """Over how many steps it rises."""
    epochs: int = 4
    """The most passes over the choices; early stopping may make it fewer."""
    patience: int = 1
    """Epochs without a gain on held-out users after which training stops."""
    choices_per_step: int = 16
    """How many choices' gradients are added up before the weights move."""
    batch_tokens: int = 16_384
    """How many tokens are read at once; decides speed and memory, and nothing else."""
    most_tokens: int = 2048
    """The longest conversation in training; a view gives way, and a choice that is too long by itself is left out."""
    impersonal: float = 0.25
    """The share of choices that are read as nobody's, so that the model also serves nobody in particular."""


class LoraSettings(TunedSettings, frozen=True, kw_only=True):
    """Settings of `lora`."""

    most_judgements: int = 8
    """How many past choices a view holds at most, in training and in what is remembered of a user."""
    most_posts: int = 4
    """How many posts, likewise."""
    remember: bool = False
    """Whether the model keeps the texts of those it was trained on, so that the view `user` serves them."""


class TunedClassifier(LocalClassifier):
    """A base model that is being tuned, or has been.

    While it is tuned, the adapter's matrices stand beside the base's; `merge` adds them in, and from then on the
    engine shares prefixes and packs as it does for any classifier. The head is in float32 throughout.
    """

    def __init__(self, base: str, **options: Any) -> None:
        super().__init__(base, **options)
        self._options = options
        self._place = "system" if self.chat.takes_system_turns else "user"

    @cached_property
    def _config(self) -> Any:
        config = super()._config
        config.num_labels = 1
        return config

    @cached_property
    def _model(self) -> Any:
        kind = "AutoModelForSequenceClassification"
        return self._load(kind, new={f"{HEAD}.weight"}, config=self._config)

    def reload(self) -> Self:
        """The same base from its files, whatever was added to this one."""
        return type(self)(self.name, **self._options)

    def request(self, ask: Ask) -> LikelihoodRequest:
        """An ask as every classifier is given it: the view in a system turn where there can be one."""
        return LikelihoodRequest(turns=conversation(ask, self._place), continuations=ask.responses)

    def rows(self, ask: Ask) -> list[list[int]]:
        """For each response the tokens of the whole conversation."""
        group = self.group(self.request(ask))
        return [[*group.prefix, *tokens] for tokens in group.continuations]

    def attach(self, settings: TunedSettings, weights: Mapping[str, torch.Tensor] | None = None) -> Adapter:
        """Put an adapter beside the base's matrices, a new one or one with these weights."""
        adapter = Adapter(self._model, settings)
        if weights is not None:
            adapter.put(weights)
        return adapter

    def rewards(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """(rows,): what the head says at the last token of each, with gradients where they are wanted.

        Shorter rows are filled up on the right, which tokens that look to the left never see.
        """
        import torch

        lengths = torch.tensor([len(row) for row in rows], device=self._device)
        ids = torch.zeros((len(rows), int(lengths.max())), dtype=torch.long)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = torch.tensor(row)
        with steady_attention():
            states = self._model.base_model(input_ids=ids.to(self._device), use_cache=False).last_hidden_state
        last = states[torch.arange(len(rows), device=self._device), lengths - 1]
        found: torch.Tensor = self._model.score(last.float())[:, 0]
        return found


class Adapter:
    """The matrices that are learned, and the head, in the places of one model."""

    def __init__(self, model: Any, settings: TunedSettings) -> None:
        import torch

        self._peft = require("peft", "train")
        with torch.random.fork_rng():
            torch.manual_seed(settings.seed)
            self._tuned = self._peft.get_peft_model(model, lora_config(settings))
        model.score.float()
        self.parameters = [one for one in self._tuned.parameters() if one.requires_grad]

    def optimisers(self, settings: TunedSettings) -> list[torch.optim.Optimizer]:
        """What moves everything that is learned."""
        import torch

        return [torch.optim.AdamW(self.parameters, lr=settings.learning_rate, weight_decay=0.0)]

    def weights(self) -> dict[str, torch.Tensor]:
        """A copy of what was learned, under the names that peft gives it."""
        found = self._peft.get_peft_model_state_dict(self._tuned, save_embedding_layers=False)
        return {name: tensor.detach().float().cpu().clone().contiguous() for name, tensor in found.items()}

    def put(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Set everything to these weights."""
        self._peft.set_peft_model_state_dict(self._tuned, dict(weights))

    def train(self, on: bool) -> None:
        """Whether inputs are dropped."""
        self._tuned.train(on)

    def merge(self) -> None:
        """Add the matrices into the base's; none of them can be learned afterwards."""
        self._tuned.merge_and_unload().requires_grad_(False)


def lora_config(settings: TunedSettings) -> Any:
    """The adapter's shape: every linear map but the head gets two matrices, and the head is learned whole."""
    return require("peft", "train").LoraConfig(
        task_type="SEQ_CLS",
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules="all-linear",
        modules_to_save=[HEAD],
    )


def base_fingerprint(base: str) -> str:
    """What identifies a base model's files, whatever the device and the precision."""
    return folder_fingerprint(weights_folder(base))


def write_adapter(folder: Path, settings: TunedSettings, weights: Mapping[str, torch.Tensor]) -> str:
    """Write both files, each whole or not at all; the hash of the weights."""
    from safetensors.torch import save

    described = lora_config(settings)
    described.base_model_name_or_path = settings.base
    described.inference_mode = True
    with tempfile.TemporaryDirectory() as made:
        described.save_pretrained(made)
        config = (Path(made) / CONFIG).read_bytes()
    content = save(dict(weights), metadata={"format": "pt"})
    target = folder / ADAPTER
    try:
        target.mkdir(parents=True, exist_ok=True)
        write_whole(target / CONFIG, config)
        write_whole(target / WEIGHTS, content)
    except OSError as error:
        raise PalateError(f"cannot write the model to {folder}: {error.strerror or error}") from error
    return hashlib.sha256(content).hexdigest()


def read_adapter(folder: Path, expected: object) -> dict[str, torch.Tensor]:
    """The weights, if they are those that `model.json` names."""
    from safetensors.torch import load

    try:
        content = (folder / ADAPTER / WEIGHTS).read_bytes()
    except OSError as error:
        raise PalateError(f"the model in {folder} cannot be read: {error}") from error
    if hashlib.sha256(content).hexdigest() != expected:
        raise PalateError(
            f"the model in {folder} is damaged: its adapter is not the one that model.json names. Train it again."
        )
    return dict(load(content))
