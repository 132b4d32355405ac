"""Group preference optimisation: a small transformer that reads a user's choices and predicts others.

Zhao, Dang and Grover, *Group preference optimization: few-shot alignment of large language models* (2024). The
examples of a group (here a user) stand in the context of a transformer without positions, so their order does
not matter; targets attend to the examples and not to one another, so each is scored as if it were alone.

    examples   c^0_i = E [better - worse, (better + worse) / 2, surprise],    c^(l+1) = block_l(c^l, c^l)
    a text     t^0 = T x,                                                     t^(l+1) = block_l(t^l, c^l)
    reward = w·x + head·(t^L with the examples - t^L without)

block(t, c) is t plus attention of t over c, then that plus a two-layer network of itself, with layer norms before
each. It is trained so that differences of rewards predict choices, with random parts of a user's choices as
examples and the others as targets.

Where we differ: features are frozen, the reward of each text is predicted instead of the preference in a pair, and
what the transformer says of a text without any examples is taken away, so that the base speaks alone there. In
attention, one more key says nothing at all: few examples may be given less weight than many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from palate.personal._in_context import EpisodeBatch, Episodes, InContextMethod, InContextSettings, choice_loss, padded
from palate.personal._pairs import Known, Pairs

TOGETHER = 256
"""Users whose examples are read at once."""


class GpoSettings(InContextSettings, frozen=True, kw_only=True):
    """Settings of `gpo`."""

    rate: float = 1e-3
    """The step of AdamW."""
    width: int = 64
    """Numbers in a token; a multiple of `heads`."""
    layers: int = 2
    """Blocks."""
    heads: int = 4
    """Of attention."""


class Gpo(InContextMethod):
    """Shared weights plus what a transformer makes of the user's examples."""

    name = "gpo"
    settings_type = GpoSettings
    settings: GpoSettings
    grid: ClassVar[dict[str, tuple[object, ...]]] = {"rate": (1e-3, 3e-3)}

    def _start(self, features: int, generator: torch.Generator) -> dict[str, Tensor]:
        """A random transformer, and a head that says nothing yet."""
        width = self.settings.width

        def draw(inputs: int, outputs: int) -> Tensor:
            return torch.randn(inputs, outputs, generator=generator) / math.sqrt(inputs)

        found = {
            # Rows of features have a squared length of about 1, whatever their width.
            "example": torch.randn(2 * features + 1, width, generator=generator),
            "text": torch.randn(features, width, generator=generator),
            "head": torch.zeros(width),
        }
        for layer in range(self.settings.layers):
            found |= {
                f"{layer}.query": draw(width, width),
                f"{layer}.key_value": draw(width, 2 * width),
                f"{layer}.out": draw(width, width),
                f"{layer}.up": draw(width, 2 * width),
                f"{layer}.down": draw(2 * width, width),
            }
        return found

    def _loss(self, batch: EpisodeBatch, episodes: Episodes, pairs: Pairs) -> Tensor:
        """Both texts of each target are read beside the examples of its episode."""
        told, asked = batch.pair[batch.context], batch.pair[batch.target]
        examples = self._examples(pairs.rows[pairs.better[told]], pairs.rows[pairs.worse[told]])
        weight = _log_weight(pairs.weight[told], batch.context)
        levels = self._read(examples, batch.context, weight)
        rows = pairs.rows[torch.stack([pairs.better[asked], pairs.worse[asked]], dim=1)]
        rewards = self.base(rows) + self._personal(rows, batch.target, levels, weight)
        return choice_loss(rewards[:, 0] - rewards[:, 1], pairs.weight[asked])

    def _examples(self, better: Tensor, worse: Tensor) -> Tensor:
        """(examples, width): choices as tokens."""
        differences = better - worse
        read = torch.cat([differences, (better + worse) / 2, self.surprise(differences)[:, None]], dim=1)
        return read @ self.shared["example"]

    def _read(self, tokens: Tensor, where: Tensor, weight: Tensor) -> list[Tensor]:
        """The examples as each block finds them, padded; they attend to one another."""
        levels = [padded(tokens, where)]
        for layer in range(self.settings.layers - 1):
            tokens = self._think(layer, tokens + self._attended(layer, tokens, where, levels[-1], weight))
            levels.append(padded(tokens, where))
        return levels

    def _personal(self, rows: Tensor, where: Tensor, levels: Sequence[Tensor], weight: Tensor) -> Tensor:
        """What the examples change: read with them, less read without them."""
        beside = alone = rows @ self.shared["text"]
        for layer, level in enumerate(levels):
            beside = self._think(layer, beside + self._attended(layer, beside, where, level, weight))
            alone = self._think(layer, alone)
        return (_normal(beside) - _normal(alone)) @ self.shared["head"]

    def _attended(self, layer: int, tokens: Tensor, where: Tensor, level: Tensor, weight: Tensor) -> Tensor:
        """What attention brings to `tokens`, which stand at `where`, from the examples in the same row."""
        asked = padded(_normal(tokens) @ self.shared[f"{layer}.query"], where)
        found = _normal(level) @ self.shared[f"{layer}.key_value"]
        silent = torch.zeros(len(level), 1, 1)
        key, value = torch.cat([found, silent.expand(-1, -1, found.shape[2])], dim=1).chunk(2, dim=2)
        brought = torch.nn.functional.scaled_dot_product_attention(
            self._heads(asked.flatten(1, -2)),
            self._heads(key),
            self._heads(value),
            attn_mask=torch.cat([weight, silent[..., 0]], dim=1)[:, None, None],
        )
        return brought.transpose(1, 2).reshape(asked.shape)[where] @ self.shared[f"{layer}.out"]

    def _heads(self, tokens: Tensor) -> Tensor:
        heads = self.settings.heads
        return tokens.reshape(*tokens.shape[:2], heads, tokens.shape[2] // heads).transpose(1, 2)

    def _think(self, layer: int, tokens: Tensor) -> Tensor:
        raised = torch.nn.functional.gelu(_normal(tokens) @ self.shared[f"{layer}.up"])
        return tokens + raised @ self.shared[f"{layer}.down"]

    def users(self, known: Sequence[Known]) -> list[Tensor]:
        """A row for each example: what every block reads of it, and the logarithm of its weight.

        Many users at once, padded to the longest of each batch.
        """
        return [state for start in range(0, len(known), TOGETHER) for state in self._states(known[start:][:TOGETHER])]

    @torch.no_grad()
    def _states(self, known: Sequence[Known]) -> list[Tensor]:
        most = self.settings.most
        counts = torch.tensor([min(most, len(one.weight)) for one in known])
        where = torch.arange(int(counts.max())) < counts[:, None]
        better, worse = (torch.cat([getattr(one, side)[-most:] for one in known]) for side in ("better", "worse"))
        weight = _log_weight(torch.cat([one.weight[-most:] for one in known]), where)
        levels = self._read(self._examples(better, worse), where, weight)
        found = torch.cat([*levels, weight[..., None]], dim=2)[where]
        return list(torch.split(found, counts.tolist()))

    def nobody(self) -> Tensor:
        """No examples."""
        return torch.zeros(0, self.settings.layers * self.settings.width + 1)

    def reward(self, rows: Tensor, state: Tensor) -> Tensor:
        """The base plus what the examples change."""
        *levels, weight = torch.split(state[None], [*[self.settings.width] * self.settings.layers, 1], dim=2)
        where = torch.ones(1, len(rows), dtype=torch.bool)
        return self.base(rows) + self._personal(rows, where, levels, weight[..., 0])


def _normal(tokens: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(tokens, tokens.shape[-1:])


def _log_weight(flat: Tensor, where: Tensor) -> Tensor:
    """Logarithms of weights in their places; padding has a weight of zero, and so is never attended to."""
    return padded(flat, where).log()
