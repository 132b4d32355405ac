"""A population in which nine users in ten like a feature and the tenth dislikes it; the other features are noise.

    python tests/minority.py

prints, for several weights on the users served worst, how well `meta` serves strangers of either kind.
"""

from __future__ import annotations

import torch

from palate.personal import Known, Pairs
from palate.personal._meta import Meta, MetaSettings

WIDTH = 4


def known_of(differences: torch.Tensor) -> Known:
    """Choices by what was taken less what was left."""
    return Known(differences, torch.zeros_like(differences), torch.ones(len(differences)), torch.zeros(0, WIDTH))


def population(users: int, choices: int, seed: int) -> Pairs:
    """Every tenth user is of the minority."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(2 * users * choices, WIDTH, generator=generator)
    first, second = torch.arange(0, len(rows), 2), torch.arange(1, len(rows), 2)
    user = torch.arange(users).repeat_interleave(choices)
    taste = torch.where(user % 10 == 0, -2.0, 2.0)
    taken = torch.rand(len(user), generator=generator) < torch.sigmoid(taste * (rows[first, 0] - rows[second, 0]))
    better, worse = torch.where(taken, first, second), torch.where(taken, second, first)
    names = tuple(map(str, range(users)))
    return Pairs(rows, better, worse, user, torch.ones(len(user)), torch.arange(len(user)), names)


def served(worst: float) -> tuple[float, float]:
    """How often the choices of strangers are foretold after one judgement: the minority's, and the others'."""
    method = Meta(MetaSettings(worst=worst), {"some": slice(0, WIDTH)})
    pairs = population(100, 12, seed=0)
    method.learn(pairs, [known_of(one) for one in pairs.differences.split(12)])
    strangers = population(200, 20, seed=1).differences.reshape(200, 20, WIDTH)
    right = torch.stack([(method.reward(one[1:], method.user(known_of(one[:1]))) > 0).float() for one in strangers])
    few = torch.arange(len(right)) % 10 == 0
    return float(right[few].mean()), float(right[~few].mean())


if __name__ == "__main__":
    for weight in (0.0, 1.0, 2.0, 4.0, 8.0):
        print(f"{weight:g}  minority {{:.3f}}  others {{:.3f}}".format(*served(weight)))
