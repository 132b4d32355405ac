"""What a causal language model makes of a text: the mean of its hidden states over the text's own tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from palate.engine._encoder import Layer, average_windows, batches_of_like_length, spread_layers
from palate.engine._language import Turn
from palate.engine._local import Loaded, context_of
from palate.engine._torch import in_halves, require, steady_attention
from palate.engine._vectors import Pair, Vectors, VectorStore, remembered, vectors_folder
from palate.records import PalateError

READING = 1
"""Part of every fingerprint: raise it when texts are read or pooled otherwise."""
LONGEST_WINDOW = 8_192
"""Tokens read at once, however much the model could take: the cost of a text stays linear in its length."""
TOKENS_A_BATCH = {"cpu": 2_048, "cuda": 32_768}


@dataclass(frozen=True)
class _Window:
    """A stretch of one text after what stands before it."""

    owner: int
    head: Sequence[int]
    own: Sequence[int]

    def __len__(self) -> int:
        return len(self.head) + len(self.own)


class HiddenStateEncoder(Loaded):
    """Hidden states of any causal language model, averaged over the tokens of the text.

    With a context the text is read as the answer to it, through the chat template where there is one; without,
    alone after a beginning-of-text token. Neither context nor template is averaged in. The default layer is about
    two thirds deep: the last layers turn towards the next word, and those after the chosen one are not computed.
    The last layer is taken after the final norm. `all` is seven layers side by side, from the first to the last.
    """

    def __init__(self, name: str, layer: Layer = None) -> None:
        super().__init__(name)
        config = self._config.get_text_config()
        self._depth = int(config.num_hidden_layers)
        self._context = context_of(config) or LONGEST_WINDOW
        self._every = spread_layers(self._depth) if layer == "all" else []
        self._layer = self._depth if layer == "all" else _counted_from_one(name, layer, self._depth)
        self.dimensions = int(config.hidden_size) * (len(self._every) or 1)

    @property
    def fingerprint(self) -> str:
        """The model's, with the layer and how it is read."""
        return f"{super().fingerprint}-hidden{READING}-{'all' if self._every else self._layer}"

    def encode(
        self, texts: Sequence[str], contexts: Sequence[str | None] | None = None, *, keep: bool = True
    ) -> Vectors:
        """One row for each text, read after its context if there is one."""
        rows = remembered(self._store, texts, contexts, self._read, keep=keep)
        return np.stack(rows) if rows else np.zeros((0, self.dimensions), np.float32)

    @cached_property
    def _store(self) -> VectorStore:
        return VectorStore(vectors_folder() / self.fingerprint)

    @cached_property
    def _model(self) -> Any:
        """The model without its head, and without the layers after the one that is wanted."""
        model = self._load("AutoModel").get_decoder()
        if self._layer < self._depth:
            blocks = _blocks(model, self._depth)
            del blocks[self._layer :]
            self._last_block = blocks[-1]
        return model

    def _read(self, pairs: Sequence[Pair]) -> Vectors:
        windows = self._windows(pairs)
        lengths = np.asarray([len(window) for window in windows])
        found = np.zeros((len(windows), self.dimensions), np.float32)
        for batch in batches_of_like_length(lengths, TOKENS_A_BATCH[self._device.split(":")[0]]):
            pooled = in_halves(batch, len(batch), lambda part: self._pooled([windows[index] for index in part]))
            found[batch] = np.concatenate(list(pooled))
        owners = np.asarray([window.owner for window in windows])
        return average_windows(found, owners, np.asarray([len(window.own) for window in windows]))

    def _pooled(self, windows: Sequence[_Window]) -> Vectors:
        """Padded on the right, where no token of a causal model looks: no mask is needed, nor does padding matter."""
        torch = require("torch", "local")
        longest = max(map(len, windows))
        ids = np.zeros((len(windows), longest), np.int64)
        weights = np.zeros((len(windows), longest), np.float32)
        for row, window in enumerate(windows):
            ids[row, : len(window)] = [*window.head, *window.own]
            weights[row, len(window.head) : len(window)] = 1 / len(window.own)
        with torch.inference_mode(), steady_attention():
            states = self._states(torch.from_numpy(ids).to(self._device)).float()
            pooled = torch.bmm(torch.from_numpy(weights).to(self._device)[:, None], states)[:, 0]
        found: Vectors = pooled.cpu().numpy()
        return found

    def _states(self, ids: Any) -> Any:
        model = self._model
        if self._every:
            states = model(input_ids=ids, use_cache=False, output_hidden_states=True).hidden_states
            return require("torch", "local").cat([states[layer] for layer in self._every], dim=-1)
        if self._layer == self._depth:
            return model(input_ids=ids, use_cache=False).last_hidden_state
        seen: list[Any] = []
        handle = self._last_block.register_forward_hook(lambda _module, _given, states: seen.append(states))
        try:
            model(input_ids=ids, use_cache=False)
        finally:
            handle.remove()
        return seen[0][0] if isinstance(seen[0], tuple) else seen[0]

    def _windows(self, pairs: Sequence[Pair]) -> list[_Window]:
        """Each text in stretches that fit the model after the text's whole head."""
        most = min(self._context, LONGEST_WINDOW)
        heads = {context: self._head(context, most // 2) for context in dict.fromkeys(context for _, context in pairs)}
        windows = []
        gap = "" if self.chat.templated else " "  # as the plain way of writing turns has it after `Assistant:`
        nothing = self._tokens(["\n"])[0] or [0]  # an empty text is read as a line break: there is a state to speak of
        tokens = self._tokens([(gap if context else "") + text for text, context in pairs])
        for owner, ((_, context), found) in enumerate(zip(pairs, tokens, strict=True)):
            own = found or nothing
            room = most - len(heads[context])
            windows += [_Window(owner, heads[context], own[start : start + room]) for start in range(0, len(own), room)]
        return windows

    def _head(self, context: str | None, most: int) -> list[int]:
        """What stands before the text. Of one too long the middle goes, so that the template's two ends stay."""
        if context is None:
            # The first token of all gathers the attention of the others; its state tells nothing of the text.
            tokenizer = self.chat.tokenizer
            first = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
            return [token for token in first if token is not None][:1]
        ids = self.chat.ids(self.chat.prompt((Turn("user", context),)))
        return ids if len(ids) <= most else [*ids[: most // 2], *ids[len(ids) - most // 2 :]]

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        words = [self.chat._harmless(text) for text in texts]
        found: list[list[int]] = self.chat.tokenizer(words, add_special_tokens=False, verbose=False)["input_ids"]
        return found


def _counted_from_one(name: str, layer: int | None, depth: int) -> int:
    if layer is None:
        return -(-2 * depth // 3)
    if not 1 <= abs(layer) <= depth:
        raise PalateError(f"layer={layer}: {name} has {depth} layers; give 1 to {depth}, or -1 for the last")
    return layer if layer > 0 else depth + 1 + layer


def _blocks(model: Any, count: int) -> Any:
    """The list of the model's layers, whatever its family calls it."""
    torch = require("torch", "local")
    lists = [part for part in model.modules() if isinstance(part, torch.nn.ModuleList) and len(part) == count]
    if not lists:
        raise PalateError(f"cannot find the {count} layers of {type(model).__name__}; use layer=-1")
    return lists[0]
