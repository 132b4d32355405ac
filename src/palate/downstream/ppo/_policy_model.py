"""The policy in training: the weights that learn, the frozen reference, and the copy that writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import DynamicCache

from palate.downstream.ppo._training import Training
from palate.engine import LocalModel, require, steady_attention, yes
from palate.engine._scorer import head_logits
from palate.records import PalateError, parse_spec, unknown_name

LOGITS_AT_ONCE = 2**28
"""A gibibyte of them. More tokens than that have theirs computed twice, in parts."""


@dataclass(frozen=True)
class TokenBatch:
    """Prompts and responses as tensors; prompts are filled up on the left, responses on the right."""

    prompts: Tensor
    """Each prompt once, however many responses there are to it: (prompts, longest prompt)."""
    shown: Tensor
    """Which tokens of the prompts there are."""
    owner: Tensor
    """For each text, which of the prompts is its own."""
    responses: Tensor
    mask: Tensor
    """Which tokens of the responses there are: (texts, longest response)."""


class ValueHead(nn.Module):
    """What a text will still be paid, read from the policy's last hidden states. It begins at nothing.

    The states are taken as they are: its loss never moves the policy.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size, elementwise_affine=False)
        self.inner, self.out = nn.Linear(size, size), nn.Linear(size, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, states: Tensor) -> Tensor:
        """(texts, tokens, size) to (texts, tokens)."""
        states = states.detach().float()
        found: Tensor = self.out(torch.tanh(self.inner(self.norm(states))))[..., 0]
        return found


class PolicyModel(LocalModel):
    """A language model that is trained and writes.

    float32: one set of weights learns and writes. bfloat16: the weights that learn are float32, are read under
    autocast, and are copied into bfloat16 to write. LoRA: adapters in float32 learn beside frozen weights, and the
    copy that writes has them merged. The reference is read in just the same way, so that at the start not a bit
    differs.
    """

    def begin(self, training: Training, seed: int) -> None:
        """Make what is trained. From here on the weights of the model itself are those that write."""
        self._temperature, self._lora = training.temperature, bool(training.lora)
        self.torch_device = torch.device(self._device)
        if self._dtype not in ("float32", "bfloat16"):
            raise PalateError(f"a policy is trained in float32 or bfloat16, not in {self._dtype}")
        for module in self._model.modules():  # a token's probability must not hang on chance
            for name in ("p", "attention_dropout"):
                if isinstance(getattr(module, name, None), float):
                    setattr(module, name, 0.0)
        self._check_head()
        for part in self._model.parameters():
            # Weights from a file lie at any address, and where they lie decides how sums are rounded.
            part.data = part.data.clone()
        self._reference: Any = None
        self._whole = training.gradient_checkpointing or not self._reader.able
        if self._lora:
            self._trained = self._with_adapters(training.lora, seed)
        else:
            whole = self._dtype == "float32"
            self._trained = self._model if whole else deepcopy(self._model).float()
            # It is only ever read without gradients; were it marked so, torch would multiply in another order.
            self._reference = deepcopy(self._trained)
        if self._trained is not self._model:
            self._model.requires_grad_(False)
        if training.gradient_checkpointing:
            self._trained.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            self._trained.train()
        self.parameters = [one for one in self._trained.parameters() if one.requires_grad]
        self.value_head: ValueHead | None = None
        if training.algorithm == "ppo":
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                self.value_head = ValueHead(self._model.config.get_text_config().hidden_size)
            self.value_head.to(self.torch_device)

    def _with_adapters(self, rank: int, seed: int) -> Any:
        peft = require("peft", "train")
        shape = peft.LoraConfig(
            task_type="CAUSAL_LM", r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear"
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return peft.get_peft_model(deepcopy(self._model), shape)

    @torch.no_grad()
    def _check_head(self) -> None:
        """Refuse a model that does more to its logits than is known here: it would learn something else."""
        ids = torch.arange(4, device=self.torch_device)[None]
        with steady_attention():
            own, found = self._model(ids).logits, self._model.base_model(ids).last_hidden_state
        if not torch.allclose(head_logits(self._model, found), own.float(), rtol=0.02, atol=0.02):
            raise PalateError(f"{self.name}: models of the kind {type(self._model).__name__} cannot be trained here")

    def sample(self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], training: Training) -> list[list[Any]]:
        """So many texts for each prompt, with the engine's sampler; it notices by itself that weights changed."""
        drawn: list[list[Any]] = self._sampler.sample(
            prompts,
            samples=training.samples,
            most_tokens=training.tokens,
            temperature=training.temperature,
            top_p=1.0,
            seeds=seeds,
        )
        return drawn

    def texts(self, rows: Sequence[tuple[Sequence[int], Sequence[int]]]) -> TokenBatch:
        """Pairs of prompt and response as tensors on the device."""
        numbers = {prompt: number for number, prompt in enumerate(dict.fromkeys(tuple(prompt) for prompt, _ in rows))}
        prompts, shown = self._filled_up(list(numbers), left=True)
        responses, mask = self._filled_up([response for _, response in rows], left=False)
        owner = torch.tensor([numbers[tuple(prompt)] for prompt, _ in rows], device=self.torch_device)
        return TokenBatch(prompts, shown, owner, responses, mask)

    def _filled_up(self, rows: Sequence[Sequence[int]], *, left: bool) -> tuple[Tensor, Tensor]:
        """Rows of tokens as one tensor, and which of its places are tokens."""
        longest = max(map(len, rows))
        ids = torch.full((len(rows), longest), self.chat.tokenizer.pad_token_id or 0)
        there = torch.zeros_like(ids, dtype=torch.bool)
        for place, row in enumerate(rows):
            span = slice(longest - len(row), longest) if left else slice(len(row))
            ids[place, span] = torch.tensor(row)
            there[place, span] = True
        return ids.to(self.torch_device), there.to(self.torch_device)

    def read(self, texts: TokenBatch) -> Tensor:
        """The policy's last hidden states before each token of the responses: (texts, longest response, size)."""
        return self._read(self._causal(self._trained), texts)

    def read_apart(self, texts: TokenBatch) -> Tensor:
        """The same, with a prompt of its own for each text: no text has a part in another's gradient."""
        with self._autocast(), steady_attention():
            return self._read_whole(self._causal(self._trained).base_model, texts)

    def measure(self, states: Tensor, texts: TokenBatch, of: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """What `of` says of the policy's logits, over the temperature, and the tokens that were taken; 0 elsewhere."""
        return self._measure(self._causal(self._trained), states, texts, of)

    def measure_reference(self, texts: TokenBatch, of: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """The same of the policy as it was before training."""
        model = self._causal(self._reference or self._trained)
        with nullcontext() if self._reference is not None else self._trained.disable_adapter():
            return self._measure(model, self._read(model, texts), texts, of)

    def _causal(self, model: Any) -> Any:
        """The model itself, where adapters are wrapped around it."""
        return model.get_base_model() if self._lora else model

    def _read(self, model: Any, texts: TokenBatch) -> Tensor:
        with self._autocast(), steady_attention():
            return (self._read_whole if self._whole else self._read_shared)(model.base_model, texts)

    @property
    def logits_at_once(self) -> int:
        """Tokens whose logits are held together."""
        vocabulary: int = self._model.config.get_text_config().vocab_size
        return max(1, LOGITS_AT_ONCE // vocabulary)

    def _autocast(self) -> AbstractContextManager[Any]:
        half = self._dtype == "bfloat16"
        return torch.autocast(self.torch_device.type, torch.bfloat16) if half else nullcontext()

    def _measure(self, model: Any, states: Tensor, texts: TokenBatch, of: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Logits are there for some tokens at a time, and recomputed for the gradient: all of them would take more
        memory than everything else."""

        def piece(some: Tensor, taken: Tensor) -> Tensor:
            with self._autocast():
                logits = head_logits(model, some)
            return of(logits if self._temperature == 1 else logits / self._temperature, taken)

        some, taken = (torch.split(one[texts.mask], self.logits_at_once) for one in (states, texts.responses))
        once = len(some) == 1 or not torch.is_grad_enabled()
        work = piece if once else partial(checkpoint, piece, use_reentrant=False)
        found = torch.cat([work(*one) for one in zip(some, taken, strict=True)])
        return found.new_zeros(*texts.mask.shape, *found.shape[1:]).index_put((texts.mask,), found)

    @staticmethod
    def _read_shared(body: Any, texts: TokenBatch) -> Tensor:
        """Every prompt is read once, and its responses go on from there; gradients find their way back through it."""
        cache: Any = DynamicCache()
        first = body(
            input_ids=texts.prompts,
            attention_mask=texts.shown.long(),
            position_ids=_counted(texts.shown),
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state[texts.owner, -1:]
        length = texts.responses.shape[1] - 1  # nothing is expected after the last token
        if not length:
            return first  # type: ignore[no-any-return]
        for layer in cache.layers:
            layer.keys, layer.values = layer.keys[texts.owner], layer.values[texts.owner]
        seen = torch.cat([texts.shown[texts.owner], texts.mask[:, :-1]], dim=1)
        rest = body(
            input_ids=texts.responses[:, :-1],
            attention_mask=seen.long(),
            position_ids=_counted(seen)[:, -length:],
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state
        return torch.cat([first, rest], dim=1)

    @staticmethod
    def _read_whole(body: Any, texts: TokenBatch) -> Tensor:
        """Prompt and response in one: activations that are computed twice cannot go on from what was kept."""
        seen = torch.cat([texts.shown[texts.owner], texts.mask], dim=1)
        states = body(
            input_ids=torch.cat([texts.prompts[texts.owner], texts.responses], dim=1),
            attention_mask=seen.long(),
            position_ids=_counted(seen),
            use_cache=False,
        ).last_hidden_state
        return states[:, texts.prompts.shape[1] - 1 : -1]  # type: ignore[no-any-return]

    @torch.no_grad()
    def refresh(self) -> None:
        """Put what was learned into the weights that write."""
        if self._trained is self._model:
            return
        if not self._lora:
            for own, learned in zip(self._model.parameters(), self._trained.parameters(), strict=True):
                own.copy_(learned)
            return
        for name, module in self._trained.base_model.model.named_modules():
            if hasattr(module, "get_delta_weight"):
                merged = module.base_layer.weight + module.get_delta_weight("default")
                self._model.get_submodule(name).weight.copy_(merged)

    @property
    def network(self) -> nn.Module:
        """The network whose weights are trained."""
        network: nn.Module = self._trained
        return network

    def learned(self) -> dict[str, Tensor]:
        """What is trained, by name."""
        return {name: one.detach() for name, one in self._trained.named_parameters() if one.requires_grad}

    @torch.no_grad()
    def put(self, learned: dict[str, Tensor]) -> None:
        """Go on from these weights."""
        for name, own in self.learned().items():
            own.copy_(learned[name])
        self.refresh()

    def like(self, name: str) -> LocalModel:
        """Another model, or a fresh copy of this one, in the same place and precision."""
        return LocalModel(name, device=self._device, dtype=self._dtype, trust_remote_code=self._trust)

    def in_float32(self) -> PolicyModel:
        """A fresh copy in the same place, in full precision."""
        return PolicyModel(self.name, device=self._device, dtype="float32", trust_remote_code=self._trust)

    def save(self, folder: Path) -> None:
        """A folder that transformers, and so palate, loads like any other; adapters are merged."""
        self._model.save_pretrained(folder)
        self.chat.tokenizer.save_pretrained(folder)


def _counted(there: Tensor) -> Tensor:
    """The position of each token among those that are there."""
    return (there.cumsum(1) - 1).clamp(min=0)


def open_policy_model(spec: str, device: object = None) -> PolicyModel:
    """A model of this process by `NAME` or `NAME,device=...`, refused where it cannot be trained."""
    name, *words = spec.split(",")
    options = parse_spec(",".join(["model", *words])).options
    if "url" in options:
        raise PalateError(
            f"the policy {name} is behind a server ({options['url']}), whose weights cannot be trained from here. "
            "Name a model of the hub, or a folder."
        )
    known = ("device", "dtype", "trust_remote_code")
    for option in options:
        if option not in known:
            raise unknown_name("option for a policy", option, known)
    policy = PolicyModel(
        name.strip(),
        device=options.get("device", str(device) if device else None),
        dtype=options.get("dtype"),
        trust_remote_code=yes(options.get("trust_remote_code", "false")),
    )
    if not policy.templated:
        raise PalateError(
            f"the policy {policy.name} has no chat template, so that it does not know where an answer begins and "
            "ends. Name a model that was tuned to answer, or put a chat_template into its tokenizer's files."
        )
    return policy
