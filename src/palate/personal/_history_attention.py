"""History attention: a text is weighed by what the user wrote and chose that bears on it.

A model without user ids, in the manner of Zhou, Zhu, Song and others, *Deep interest network for click-through
rate prediction* (2018), and of the memory read by attention of Vaswani and others (2017). The candidate x looks
through the pieces h_i of a history, attends to those that bear on it, and is liked as far as it resembles them:

    reward = w·x + sum_i a_i(x) g v(h_i)·p(x),    a_i(x) = e_i / (1 + sum_j e_j),    e_i = exp(q(x)·k(h_i) / sqrt(r))

q, k, v and p are linear maps to r numbers. A piece is a judgement (what was taken minus what was left) or a post,
each kind with maps k and v and a strength g of its own. A judgement speaks as loudly as the base was surprised by
it, which makes it one step of each user's logistic regression in a learned metric. It is trained on everybody, with
a part of each user's choices as the history of the others and never of themselves.

Where we differ: features are frozen and the base is linear; the 1 beside the sum stands for a piece that says
nothing, so that a short history moves the reward less than a long one, and none at all leaves it impersonal.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from palate.personal._in_context import EpisodeBatch, Episodes, InContextMethod, InContextSettings, choice_loss, padded
from palate.personal._pairs import Known, Pairs


class HistoryAttentionSettings(InContextSettings, frozen=True, kw_only=True):
    """Settings of `history-attention`."""

    width: int = 32
    """Numbers in a query, a key and a value."""


class HistoryAttention(InContextMethod):
    """Shared weights plus what attention brings back from the user's history."""

    name = "history-attention"
    settings_type = HistoryAttentionSettings
    settings: HistoryAttentionSettings
    uses = frozenset({"judgements", "posts"})
    grid: ClassVar[dict[str, tuple[object, ...]]] = {"decay": (1.0, 0.1)}

    def _start(self, features: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Like is liked: values start as probes, so that a piece speaks for its likes, with a strength of zero."""
        query, key, probe = torch.randn(3, features, self.settings.width, generator=generator)
        return {
            "query": query / 10,
            "probe": probe,
            "judgement.key": key / 10,
            "judgement.value": probe.clone(),
            "post.key": key / 10,
            "post.value": probe.clone(),
            "strength": torch.zeros(2),
        }

    def _loss(self, batch: EpisodeBatch, episodes: Episodes, pairs: Pairs) -> Tensor:
        """Each target is read beside the context of its episode."""
        judged, asked = batch.pair[batch.context], batch.pair[batch.target]
        differences = pairs.rows[pairs.better[judged]] - pairs.rows[pairs.worse[judged]]
        judgements = self._judgements(differences, pairs.weight[judged])
        posts = self._posts(episodes.posts[batch.post[batch.shown]])
        memory = torch.cat([_pieces(judgements, batch.context), _pieces(posts, batch.shown)], dim=1)
        rows = pairs.rows[torch.stack([pairs.better[asked], pairs.worse[asked]], dim=1)]
        rewards = self.base(rows) + self._brought(padded(self._ask(rows), batch.target), memory)[batch.target]
        return choice_loss(rewards[:, 0] - rewards[:, 1], pairs.weight[asked])

    def _ask(self, rows: Tensor) -> Tensor:
        """What a text looks for, and what it is judged by."""
        return torch.cat([rows @ self.shared["query"], rows @ self.shared["probe"]], dim=-1)

    def _judgements(self, differences: Tensor, weight: Tensor) -> Tensor:
        value = self.shared["strength"][0] * self.surprise(differences)[:, None] * differences
        return torch.cat(
            [differences @ self.shared["judgement.key"], value @ self.shared["judgement.value"], weight.log()[:, None]],
            dim=1,
        )

    def _posts(self, posts: Tensor) -> Tensor:
        value = self.shared["strength"][1] * posts @ self.shared["post.value"]
        return torch.cat([posts @ self.shared["post.key"], value, torch.zeros(len(posts), 1)], dim=1)

    def _brought(self, asked: Tensor, memory: Tensor) -> Tensor:
        """How much that which attention brings back speaks for each text.

        (episodes, ..., 2r) queries and probes against (episodes, pieces, 2r + 1) keys, values and weights.
        """
        query, probe = asked.chunk(2, dim=-1)
        key, value, weight = torch.split(memory, [query.shape[-1], probe.shape[-1], 1], dim=-1)
        logits = query.flatten(1, -2) @ key.transpose(1, 2) / query.shape[-1] ** 0.5 + weight.transpose(1, 2)
        silent = torch.zeros(*logits.shape[:2], 1)
        attention = torch.softmax(torch.cat([logits, silent], dim=2), dim=2)[..., :-1]
        brought = (attention @ value).reshape(probe.shape)
        return (brought * probe).sum(-1)

    @torch.no_grad()
    def user(self, known: Known) -> Tensor:
        """A row for each piece: key, value, and the logarithm of its weight."""
        most = self.settings.most
        return torch.cat(
            [self._judgements(known.differences[-most:], known.weight[-most:]), self._posts(known.posts[-most:])]
        )

    def nobody(self) -> Tensor:
        """No history."""
        return torch.zeros(0, 2 * self.settings.width + 1)

    def reward(self, rows: Tensor, state: Tensor) -> Tensor:
        """The base plus what attention brings back."""
        return self.base(rows) + self._brought(self._ask(rows)[None], state[None])[0]


def _pieces(flat: Tensor, where: Tensor) -> Tensor:
    """Pieces in their places; padding has a weight of zero, and so is never attended to."""
    found = padded(flat, where)
    outside = torch.where(where, 0.0, -float("inf"))
    return torch.cat([found[..., :-1], found[..., -1:] + outside[..., None]], dim=-1)
