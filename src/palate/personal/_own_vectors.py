"""Users' own vectors, by Newton's method: vectors of any model, weights of mixtures, logistic regressions.

The methods that sum a user up in a few numbers differ in how those numbers make a margin (the reward of what
was taken minus that of what was left) and in what is expected of them beforehand. The rest is here. Each user's
steps depend on that user alone, so a user gets the same vector alone and in company.

A mixture has weights that are not negative and sum to one, over a few things shared by everybody: those of user u
are a_u = softmax(t_u). Beforehand they are expected near the mean weights m of the users of the training data: the
penalty is c KL(m || a_u), that of a Dirichlet prior with c m counted in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from palate.personal._pairs import Known, Pairs

STEPS = 20
HALVINGS = 20
TOLERANCE = 1e-6

Margins = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From the (users, s) vectors: the (judgements,) margins, and their (judgements, s) slopes in the own vector."""
Prior = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
"""From the (users, s) vectors: the (users,) penalty, its (users, s) slope, and a (users, s, s) curvature."""


@dataclass(frozen=True, eq=False)
class Judgements:
    """The judgements of many users, laid end to end."""

    better: Tensor
    """(judgements, features) of what was taken."""
    worse: Tensor
    """(judgements, features) of what was left."""
    weight: Tensor
    """(judgements,)"""
    user: Tensor
    """(judgements,) whose each is."""
    users: int

    @classmethod
    def of(cls, known: Sequence[Known]) -> Judgements:
        """Everything that is known of these users' choices."""
        counts = torch.tensor([len(one.better) for one in known])
        return cls(
            torch.cat([one.better for one in known]),
            torch.cat([one.worse for one in known]),
            torch.cat([one.weight for one in known]).double(),
            torch.repeat_interleave(torch.arange(len(known)), counts),
            len(known),
        )

    def total(self, values: Tensor) -> Tensor:
        """Sums over each user's judgements."""
        return torch.zeros(self.users, *values.shape[1:], dtype=values.dtype).index_add_(0, self.user, values)


def gaussian(precision: float) -> Prior:
    """Expects a vector near zero."""

    def prior(vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        eye = torch.eye(vectors.shape[1], dtype=vectors.dtype)
        return (
            precision / 2 * vectors.square().sum(1),
            precision * vectors,
            (precision * eye).expand(len(vectors), -1, -1),
        )

    return prior


def most_probable(start: Tensor, judged: Judgements, margins: Margins, prior: Prior) -> Tensor:
    """(users, s): where each user's posterior is highest, sought from `start` in double precision.

    Where margins are not linear in the vector their own curvature is left out (Gauss-Newton), and each user's
    step is halved until that user's objective does not rise, so it goes down from anywhere.
    """
    vectors = start.double()

    def objective(candidates: Tensor) -> Tensor:
        missed = -torch.nn.functional.logsigmoid(margins(candidates)[0])
        return judged.total(judged.weight * missed) + prior(candidates)[0]

    value = objective(vectors)
    moving = torch.ones(judged.users, dtype=torch.bool)
    for _ in range(STEPS):
        step = _step(vectors, judged, margins, prior)
        step[~moving] = 0
        lower = objective(vectors - step)
        for _ in range(HALVINGS):
            rises = ~(lower <= value)
            if not rises.any():
                break
            step[rises] /= 2
            lower = objective(vectors - step)
        step[~(lower <= value)] = 0
        vectors = vectors - step
        lower = torch.minimum(lower, value)
        moving &= value - lower > TOLERANCE * (1 + value)
        value = lower
        if not moving.any():
            break
    return vectors


def _step(vectors: Tensor, judged: Judgements, margins: Margins, prior: Prior) -> Tensor:
    margin, slope = margins(vectors)
    won = torch.sigmoid(margin)
    _, gradient, curvature = prior(vectors)
    gradient = gradient - judged.total((judged.weight * (1 - won))[:, None] * slope)
    counted = (judged.weight * won * (1 - won))[:, None] * slope
    # Row by row of the curvature: all rows at once would need a small matrix for every judgement.
    rows = [judged.total(counted[:, [row]] * slope) for row in range(slope.shape[1])]
    step: Tensor = torch.linalg.solve(curvature + torch.stack(rows, 1), gradient)
    return step


def divergence(weights: Tensor) -> Tensor:
    """The sum over users of KL(m || a_u), where m is the mean of the (users, k) weights."""
    mean = weights.mean(0)
    return (mean * (mean.log() - weights.log())).sum()


def near_mean(mean: Tensor, concentration: float) -> Prior:
    """The same for given mean weights, as a prior on logits."""

    def prior(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        log_weights = torch.log_softmax(logits, 1)
        weights = log_weights.exp()
        curvature = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None, :]
        # Adding a number to all logits changes nothing. A curvature there keeps the system solvable; the
        # slope there is zero, so it moves nothing.
        flat = torch.full_like(curvature, 1 / logits.shape[1])
        return (
            concentration * (mean * (mean.log() - log_weights)).sum(1),
            concentration * (weights - mean),
            concentration * (curvature + 1e-3 * torch.eye(logits.shape[1], dtype=logits.dtype) + flat),
        )

    return prior


def mixture_weights(
    judged: Judgements, scores: Tensor, offset: Tensor, mean: Tensor, concentration: float
) -> list[Tensor]:
    """Each user's (1, k) most probable weights, where the margin of a judgement is offset + a_u . scores."""
    scores, offset = scores.double(), offset.double()
    centre = mean.double() / mean.double().sum()

    def margins(logits: Tensor) -> tuple[Tensor, Tensor]:
        weights = torch.softmax(logits, 1)[judged.user]
        mixed = (weights * scores).sum(1)
        return offset + mixed, weights * (scores - mixed[:, None])

    start = centre.log().expand(judged.users, -1)
    logits = most_probable(start, judged, margins, near_mean(centre, concentration))
    return [row[None] for row in torch.softmax(logits, 1).float()]


def draw_logits(users: int, count: int, generator: torch.Generator) -> Tensor:
    """Where the users of the training data start: near equal weights, no two alike."""
    return (0.1 * torch.randn(users, count, generator=generator)).requires_grad_()


LOGISTIC_STEPS = 50
_LARGEST_PADDED = 4_000_000
"""Numbers in a padded batch of small problems: 32 MiB in float64."""


def own_weights(
    differences: Sequence[Tensor], weight: Sequence[Tensor], offset: Sequence[Tensor], precision: float
) -> Tensor:
    """(users, features): each user's weights on top of the offsets, from few differences each.

    The solution is a weighted sum of the differences, so it is sought there where these are fewer than the
    features: the system to solve is as large as the smaller of the two. Users with like numbers are solved together.
    """
    if not differences:
        return torch.zeros(0, 0)
    width = differences[0].shape[1]
    found = torch.zeros(len(differences), width)
    order = sorted(range(len(differences)), key=lambda place: len(differences[place]))
    while order and not len(differences[order[0]]):
        order.pop(0)
    while order:
        batch = [order.pop()]
        longest = len(differences[batch[0]])
        while (
            order
            and (len(batch) + 1) * longest * width <= _LARGEST_PADDED
            and 2 * len(differences[order[-1]]) >= longest
        ):
            batch.append(order.pop())
        found[batch] = _own(
            _padded([differences[place] for place in batch]),
            _padded([weight[place] for place in batch]),
            _padded([offset[place] for place in batch]),
            precision,
        )
    return found


def _padded(tensors: Sequence[Tensor]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(tensors), batch_first=True).double()


def _own(x: Tensor, counted: Tensor, base: Tensor, precision: float) -> Tensor:
    """One padded batch. Padding has weight 0 and so never moves anything."""
    _, pairs, width = x.shape
    flipped = x.transpose(1, 2)
    dual = pairs < width  # sought: a with weights = x' a, else the weights themselves
    margins = x @ flipped if dual else x
    eye = precision * torch.eye(min(pairs, width), dtype=torch.double)
    found = torch.zeros(len(x), min(pairs, width), dtype=torch.double)
    own = torch.zeros_like(base)
    for _ in range(LOGISTIC_STEPS):
        won = torch.sigmoid(base + own)
        curvature = counted * won * (1 - won)
        curved = curvature[..., None] * margins
        target = (curvature * own + counted * (1 - won))[..., None]
        system, target = (curved, target) if dual else (flipped @ curved, flipped @ target)
        new = torch.linalg.solve(eye + system, target)[..., 0]
        moved = ((margins @ new[..., None])[..., 0] - own).abs().max()
        # A full Newton step may overshoot where a user is sure of everything; averaging keeps it from circling.
        found = new if moved < 1 else (found + new) / 2
        own = (margins @ found[..., None])[..., 0]
        if moved < TOLERANCE:
            break
    return ((flipped @ found[..., None])[..., 0] if dual else found).float()


def users_present(pairs: Pairs) -> tuple[Tensor, int]:
    """Whose each pair is, counting only users who have pairs, and how many those are."""
    present, user = torch.unique(pairs.user, return_inverse=True)
    return user, len(present)
