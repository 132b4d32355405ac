"""A Gaussian process as a linear model: features whose dot products are its kernel, by inducing points.

With inducing points Z and kernel k, phi(x) = R k(Z, x) where R'R is the inverse of k(Z, Z): dot products of phi
are the Nystroem approximation of k, exact where x is one of Z. A function with a Gaussian process as its prior is
then a weighted sum of phi, with independent Gaussian weights, and whoever can learn weights can learn functions.

The kernel is a sum over encoders' blocks of Matern 3/2 kernels, each with the median distance between texts times
`length` as its length scale, plus `linear` times the dot product of the rows: smooth taste over the texts, and the
weighted sum that Bradley-Terry learns. Points are centres of clusters of texts (k-means), or all texts where they
are few.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from palate.personal._method import MethodSettings

_ROUNDS = 10
"""Of k-means: centres need to cover the texts, not to be optimal."""
_SAMPLE = 10_000
"""Texts that k-means looks at."""
_ROWS = 8192
"""Rows that are mapped at a time, so that memory holds one copy of the features and not several."""
_JITTER = 1e-4
"""Added to the diagonal of k(Z, Z), so that centres close to each other do no harm."""


class InducingSettings(MethodSettings, frozen=True, kw_only=True):
    """Settings of the kernel and its approximation."""

    inducing: int = 200
    """How many inducing points: more follow the kernel more closely, and cost their square."""
    length: float = 1.0
    """Length scale, in median distances between texts: more is smoother."""
    linear: float = 0.3
    """Weight of the linear kernel beside the smooth ones; 0 leaves it out."""


def learn_map(rows: Tensor, blocks: Mapping[str, slice], settings: InducingSettings) -> dict[str, Tensor]:
    """Inducing points for these texts, with the length scales and the root that `feature_map` needs."""
    points = _centres(rows, settings.inducing, settings.seed)
    distances = [torch.nn.functional.pdist(points[:, block]) for block in blocks.values()]
    medians = [float(one[one > 0].median()) if (one > 0).any() else 1.0 for one in distances]
    lengths = settings.length * torch.tensor(medians)
    among = kernel(points.double(), points.double(), blocks, lengths.double(), settings.linear)
    lower = torch.linalg.cholesky(among + _JITTER * torch.eye(len(points), dtype=torch.double))
    eye = torch.eye(len(points), dtype=torch.double)
    root = torch.linalg.solve_triangular(lower, eye, upper=False)
    return {"points": points, "lengths": lengths, "root": root.float().contiguous()}


def feature_map(rows: Tensor, learned: Mapping[str, Tensor], blocks: Mapping[str, slice], linear: float) -> Tensor:
    """(rows, inducing): phi of each row."""
    points, lengths, root = learned["points"], learned["lengths"], learned["root"]
    return torch.cat([kernel(some, points, blocks, lengths, linear) @ root.T for some in torch.split(rows, _ROWS)])


def kernel(left: Tensor, right: Tensor, blocks: Mapping[str, slice], lengths: Tensor, linear: float) -> Tensor:
    """(left, right): Matern 3/2 over each block, (1 + r) exp(-r) with r = sqrt(3) distance / length; and linear."""
    total = linear * (left @ right.T)
    for block, length in zip(blocks.values(), lengths, strict=True):
        far = 3**0.5 * torch.cdist(left[:, block], right[:, block]) / length
        total = total + (1 + far) * torch.exp(-far)
    return total


def _centres(rows: Tensor, count: int, seed: int) -> Tensor:
    """K-means from random texts, on a sample."""
    generator = torch.Generator().manual_seed(seed)
    sample = rows[torch.randperm(len(rows), generator=generator)[:_SAMPLE]]
    if len(sample) <= count:
        return sample
    centres = sample[torch.randperm(len(sample), generator=generator)[:count]]
    for _ in range(_ROUNDS):
        nearest = torch.cdist(sample, centres).argmin(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, sample)
        sizes = torch.bincount(nearest, minlength=count)[:, None]
        centres = torch.where(sizes > 0, sums / sizes.clamp(min=1), centres)
    return centres
