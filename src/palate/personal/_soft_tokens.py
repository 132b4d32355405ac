"""Tokens that are no words: vectors before a conversation, which a language model reads like those of words.

They have numbers behind the last word's, so that whatever reads rows of numbers reads them too: training, and the
engine with its shared prefixes. The tokens of place p, `count` of them, stand at p * count and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding

from palate.engine import Failure, LikelihoodRequest
from palate.personal._lora_classifier import Adapter, TunedClassifier, TunedSettings
from palate.personal._lora_training import Read, batches, losses
from palate.personal._optimise import optimise

GENERIC, OWN = "tokens.generic", "tokens.own"


class SoftEmbedding(torch.nn.Module):
    """The base's word embeddings, and a function that gives the vectors of tokens which are no words."""

    def __init__(self, words: Any) -> None:
        super().__init__()
        self.words = words
        self.soft: Callable[[Tensor], Tensor] | None = None
        """From numbers counted from the first soft token to their vectors."""

    def forward(self, ids: Tensor) -> Tensor:
        """(..., width)"""
        soft = ids >= self.words.num_embeddings
        found: Tensor = self.words(ids.masked_fill(soft, 0))
        if self.soft is None:
            return found
        vectors = self.soft(ids[soft] - self.words.num_embeddings)
        return found.index_put((soft,), vectors.to(found.dtype))


class SoftClassifier(TunedClassifier):
    """A base that can be given soft tokens."""

    def __init__(self, base: str, *, count: int, **options: Any) -> None:
        super().__init__(base, **options)
        self._options = {**options, "count": count}
        self.count = count

    @cached_property
    def _model(self) -> Any:
        model = super()._model
        model.set_input_embeddings(SoftEmbedding(model.get_input_embeddings()))
        return model

    @property
    def embedding(self) -> SoftEmbedding:
        """Where the soft tokens are put."""
        found: SoftEmbedding = self._model.get_input_embeddings()
        return found

    @cached_property
    def scale(self) -> float:
        """How far words lie apart: offsets of tokens are counted in it."""
        return float(self.embedding.words.weight.float().std())

    def numbers(self, place: int) -> list[int]:
        """The tokens of a place."""
        first = self.embedding.words.num_embeddings + place * self.count
        return list(range(first, first + self.count))

    @contextmanager
    def reading(self, generic: Tensor, offsets: Tensor) -> Iterator[None]:
        """Within this, at place p stand the generic tokens, moved by the offset p of (places, count, width)."""
        held = self.embedding.soft
        generic, offsets = generic.to(self.device), offsets.to(self.device)
        self.embedding.soft = lambda numbers: (generic + self.scale * offsets).flatten(0, 1)[numbers]
        try:
            yield
        finally:
            self.embedding.soft = held

    def score_after(self, requests: Sequence[LikelihoodRequest], places: Sequence[int]) -> list[list[float] | Failure]:
        """One number for each continuation of each request, read after the tokens of its place."""
        groups = [
            replace(group, prefix=[*self.numbers(place), *group.prefix])
            for group, place in zip(map(self.group, requests), places, strict=True)
        ]
        return self.score_groups(groups)


class SoftAdapter(Adapter):
    """An adapter, generic tokens, and for each user an offset from these; place 0 is nobody's and stays zero."""

    def __init__(self, classifier: SoftClassifier, settings: TunedSettings, users: int, rate: float) -> None:
        super().__init__(classifier._model, settings)
        self._classifier, self._rate = classifier, rate
        words = classifier.embedding.words
        drawn = torch.randint(
            words.num_embeddings, (classifier.count,), generator=torch.Generator().manual_seed(settings.seed)
        )
        with torch.no_grad():
            self._start: Tensor = words(drawn.to(classifier.device)).float()
        self._moved = torch.zeros_like(self._start, requires_grad=True)
        self._own = torch.zeros(users + 1, self._start.numel(), device=classifier.device, requires_grad=True)
        classifier.embedding.soft = self._vectors

    @property
    def generic(self) -> Tensor:
        """(count, width): the tokens of nobody in particular."""
        return self._start + self._classifier.scale * self._moved

    def offsets(self, places: Tensor) -> Tensor:
        """(places, count * width); a gradient goes to those that are asked for, and to no others."""
        found: Tensor = embedding(places, self._own, padding_idx=0, sparse=True)
        return found

    def _vectors(self, numbers: Tensor) -> Tensor:
        place, which = numbers // self._classifier.count, numbers % self._classifier.count
        own: Tensor = self.offsets(place).view(len(numbers), *self._start.shape)
        own = own[torch.arange(len(numbers), device=numbers.device), which]
        return self.generic[which] + self._classifier.scale * own

    def optimisers(self, settings: TunedSettings) -> list[torch.optim.Optimizer]:
        """Tokens move faster than weights, and a user's own only where a choice of theirs is read."""
        weights = {"params": self.parameters, "lr": settings.learning_rate}
        tokens = {"params": [self._moved], "lr": self._rate}
        return [
            torch.optim.AdamW([weights, tokens], weight_decay=0.0),
            torch.optim.SparseAdam([self._own], lr=self._rate),
        ]

    def weights(self) -> dict[str, Tensor]:
        """With the tokens: (count, width), and (users + 1, count, width)."""
        own = self._own.detach().view(-1, *self._start.shape)
        tokens = {GENERIC: self.generic.detach(), OWN: own}
        return super().weights() | {name: one.cpu().clone() for name, one in tokens.items()}

    @torch.no_grad()
    def put(self, weights: Mapping[str, Tensor]) -> None:
        """Set everything to these weights."""
        super().put({name: one for name, one in weights.items() if name not in (GENERIC, OWN)})
        self._moved.copy_((weights[GENERIC].to(self._start.device) - self._start) / self._classifier.scale)
        self._own.copy_(weights[OWN].flatten(1))


def held_losses(classifier: SoftClassifier, adapter: SoftAdapter, share: Tensor, reads: Sequence[Read]) -> Tensor:
    """(choices,): their losses, and the share in the penalty on its user's offset that one choice of each place has."""
    first = classifier.numbers(0)[0]
    place = torch.tensor([(read.rows[0][0] - first) // classifier.count for read in reads], device=classifier.device)
    return losses(classifier, reads) + share.to(place.device)[place] * adapter.offsets(place).square().sum(1)


def offset_of(
    classifier: SoftClassifier, generic: Tensor, reads: Sequence[Read], *, penalty: float, steps: int, tokens: int
) -> Tensor:
    """(count, width): the most probable offset of a user who made these choices, read at place 0.

    By L-BFGS on all of them at once, from zero, with everything else held; `tokens` are read at a time.
    """
    offset = torch.zeros_like(generic, device=classifier.device).requires_grad_()

    def loss() -> Tensor:
        total, slope = torch.zeros((), device=offset.device), torch.zeros_like(offset)
        for some in batches(reads, tokens):
            part = losses(classifier, some).sum()
            slope += torch.autograd.grad(part, offset)[0]
            total += part.detach()
        linear = (slope * offset).sum()  # has the value's slope, so that only one batch's graph is ever held
        return total + linear - linear.detach() + penalty / 2 * offset.square().sum()

    with torch.enable_grad(), classifier.reading(generic.detach(), offset[None]):
        optimise([offset], loss, steps=steps)
    return offset.detach().cpu()
