"""What methods share that read a user from examples: a linear base, and a personal part trained on episodes.

An episode is some of a user's choices as a context and others as targets, drawn again each time. The models are
trained on the task that they will be given: here is a part of what somebody chose, what do they choose elsewhere?
A choice is never in its own context, nor is any other choice of the same user that shares a text with it: what is
asked in earnest shares no text with what is known.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from palate.personal._bradley_terry import BradleyTerry, BradleyTerrySettings, linear_base
from palate.personal._method import Method, Validate
from palate.personal._optimise import descend
from palate.personal._pairs import Known, Pairs

EPISODES = 64
"""In a batch."""


@dataclass(frozen=True, eq=False)
class EpisodeBatch:
    """Some episodes, one a row, padded; whatever is in neither mask is padding or was left out."""

    pair: Tensor
    """(episodes, length) places in the pairs"""
    context: Tensor
    """(episodes, length): which pairs are known"""
    target: Tensor
    """(episodes, length): which pairs are asked"""
    post: Tensor
    """(episodes, posts) places in `Episodes.posts`"""
    shown: Tensor
    """(episodes, posts): which posts are known"""


class Episodes:
    """Every user's pairs in episodes of at most `most`; each pair is in one of them in every round.

    How much of an episode is context differs from episode to episode, from nothing to everything.
    """

    def __init__(self, pairs: Pairs, known: Sequence[Known], most: int, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        """All that is random in training is drawn from it."""
        self._user, self._thread = pairs.user, threads(pairs)
        posts = [one.posts[-most:] for one in known]
        self.posts = torch.cat(posts) if posts else torch.zeros(0, pairs.rows.shape[1])
        self._posts = torch.tensor([len(one) for one in posts])
        self._first_post = self._posts.cumsum(0) - self._posts
        counts = torch.bincount(pairs.user, minlength=len(pairs.users))
        parts = torch.div(counts + most - 1, most, rounding_mode="floor")
        sizes = torch.div(counts + parts - 1, parts.clamp(min=1), rounding_mode="floor")
        self._owner = torch.repeat_interleave(torch.arange(len(counts)), parts)
        number = torch.arange(len(self._owner)) - (parts.cumsum(0) - parts)[self._owner]
        self._start = (counts.cumsum(0) - counts)[self._owner] + number * sizes[self._owner]
        self._length = torch.minimum(sizes[self._owner], counts[self._owner] - number * sizes[self._owner])
        self._shuffle()

    def __len__(self) -> int:
        return len(self._owner)

    def _shuffle(self) -> None:
        """A new order within each user, and a new chance of each thread to be context."""
        chance = torch.rand(len(self._user), generator=self.generator, dtype=torch.double)
        self._order = torch.argsort(self._user + chance)
        self._chance = torch.rand(int(self._thread.max()) + 1, generator=self.generator)
        self._drawn = 0

    def draw(self, places: Tensor) -> EpisodeBatch:
        """The episodes at these places. After a whole round, the next begins with a new order."""
        if self._drawn >= len(self):
            self._shuffle()
        self._drawn += len(places)
        length, owner = self._length[places], self._owner[places]
        slot = torch.arange(int(length.max()))
        present = slot < length[:, None]
        pair = self._order[(self._start[places][:, None] + slot).clamp(max=len(self._order) - 1)]
        share = torch.rand(len(places), 1, generator=self.generator)
        told = present & (self._chance[self._thread[pair]] < share)
        return EpisodeBatch(pair, told, present & ~told, *self._draw_posts(owner))

    def _draw_posts(self, owner: Tensor) -> tuple[Tensor, Tensor]:
        """Places of each owner's posts, and which of them are shown: of some owners many, of others few."""
        slot = torch.arange(int(self._posts[owner].max()))
        chance = torch.rand(len(owner), len(slot), generator=self.generator)
        share = torch.rand(len(owner), 1, generator=self.generator)
        place = (self._first_post[owner][:, None] + slot).clamp(max=max(0, len(self.posts) - 1))
        return place, (chance < share) & (slot < self._posts[owner][:, None])


def threads(pairs: Pairs) -> Tensor:
    """(pairs,): a code for what hangs together; two pairs of a user that share a text have one code.

    A user whose choices all hang together would never have a context: theirs count as threads of their own,
    choice by choice.
    """
    user = pairs.user.numpy().astype(np.int64)
    texts = np.concatenate([pairs.better.numpy(), pairs.worse.numpy()]) + np.tile(user, 2) * len(pairs.rows)
    names, node = np.unique(texts, return_inverse=True)
    count = len(pairs)
    edges = np.tile(np.arange(count), 2), node + count
    size = count + len(names)
    graph = coo_array((np.ones(2 * count, np.int8), edges), shape=(size, size))
    component = connected_components(graph, directed=False)[1][:count]
    owner = np.zeros(size, np.int64)
    owner[component] = user
    alone = np.bincount(owner[np.unique(component)], minlength=len(pairs.users))[user] == 1
    codes = np.where(alone, size + pairs.choice.numpy(), component)
    return torch.from_numpy(np.unique(codes, return_inverse=True)[1])


def padded(flat: Tensor, where: Tensor) -> Tensor:
    """What was worked out for the places of a mask, put back there, with zeros elsewhere."""
    found = torch.zeros(*where.shape, *flat.shape[1:])
    found[where] = flat
    return found


class InContextSettings(BradleyTerrySettings, frozen=True, kw_only=True):
    """Settings of every method that reads a user from examples."""

    epochs: int = 30
    """How often each pair is seen at most; 0 leaves the model impersonal."""
    rate: float = 3e-3
    """The step of AdamW."""
    decay: float = 1.0
    """AdamW's pull of every parameter towards zero."""
    most: int = 32
    """How many judgements of a user are looked at, the last; and as many posts, where posts are used."""
    least_gain: float = 0.01
    """How much the personal part must add to the mean log-likelihood of held-out users' choices to be kept: the
    best of many epochs on a few held-out questions adds a little by luck alone."""


class InContextMethod(Method):
    """The impersonal reward w·x, found first and then held, plus a personal part that is zero without context.

    Where the inner split says that the personal part helps too little, it is left out, and `epochs` is 0.
    """

    settings: InContextSettings

    @abstractmethod
    def _start(self, features: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Starting values of everything trained, under which the personal part is zero for everybody."""

    @abstractmethod
    def _loss(self, batch: EpisodeBatch, episodes: Episodes, pairs: Pairs) -> Tensor:
        """What training makes small."""

    def learn(self, pairs: Pairs, known: Sequence[Known], validate: Validate | None = None) -> None:
        """The base by L-BFGS, then the personal part by AdamW on episodes, stopped early."""
        settings = self.settings
        start = self._start(pairs.rows.shape[1], torch.Generator().manual_seed(settings.seed))
        self.shared.update(start)
        settings, alone = self._learn_base(pairs, validate)
        parameters = [value.clone().requires_grad_() for value in start.values()]
        self.shared.update(zip(start, parameters, strict=True))
        episodes = Episodes(pairs, known, settings.most, settings.seed)
        epochs = descend(
            parameters,
            lambda places: self._loss(episodes.draw(places), episodes, pairs),
            len(episodes),
            epochs=settings.epochs,
            batch=EPISODES,
            rate=settings.rate,
            decay=settings.decay,
            seed=settings.seed,
            validate=validate,
        )
        self.shared.update({name: value.detach() for name, value in zip(start, parameters, strict=True)})
        if validate is not None and validate() < alone + settings.least_gain:
            self.shared.update(start)
            epochs = 0
        self.settings = msgspec.structs.replace(settings, epochs=epochs)

    def _learn_base(self, pairs: Pairs, validate: Validate | None) -> tuple[InContextSettings, float]:
        """The impersonal weights, with the precision that validates best, and how well it does."""
        if validate is None:
            self.shared["weights"] = linear_base(pairs, self.settings.precision)
            return self.settings, -float("inf")
        found: dict[float, tuple[float, Tensor]] = {}
        for precision in sorted(float(str(one)) for one in BradleyTerry.grid["precision"]):
            self.shared["weights"] = linear_base(pairs, precision)
            found[precision] = validate(), self.shared["weights"]
        best = max(found, key=lambda precision: found[precision][0])
        score, self.shared["weights"] = found[best]
        return msgspec.structs.replace(self.settings, precision=best), score

    def base(self, rows: Tensor) -> Tensor:
        """The impersonal reward."""
        return rows @ self.shared["weights"]

    def surprise(self, differences: Tensor) -> Tensor:
        """How improbable the base finds each choice: what everybody would choose tells nothing of a user."""
        return torch.sigmoid(-self.base(differences))


def choice_loss(margins: Tensor, weight: Tensor) -> Tensor:
    """Mean negative log-likelihood of choices that were won by these margins."""
    return -(weight * torch.nn.functional.logsigmoid(margins)).sum() / weight.sum().clamp(min=1)
