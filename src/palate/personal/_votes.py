"""Votes between texts as regression with Gaussian processes: everybody's taste and the voter's own, in closed form.

    vote = f_u(first) - f_u(second) + noise,   f_u = t + x . d_u,
    t ~ GP(0, k / precision),   d_u ~ N(0, 1 / own_precision)

A vote is 1, -1 or, for a tie, 0. The prior precisions are in units of the noise. With every text an inducing point
and a Gaussian likelihood, t takes one linear solve and each voter another, of the size of the voter's votes: hundreds
of fits in minutes, so that everything can be chosen within the training sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import coo_array

from palate.data import Vote
from palate.personal._features import Features

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Whose = Literal["own", "stranger", "ceiling"]

PRECISIONS = (3.0, 10.0, 30.0, 100.0)
OWN_PRECISIONS = (3.0, 10.0, 30.0, 100.0, 300.0)
LENGTH = "length"
"""As the name of features: the logarithm of the number of characters, the simplest habit there is."""
GROUPS = 6
"""Of sides: a group's settings are chosen on the others, each of which is held out in turn."""
STRANGERS = 3
"""Drawn for each voter and side."""


@dataclass(frozen=True, eq=False)
class Ballots:
    """Votes as arrays: which texts, whose, on which side."""

    ids: list[str]
    texts: list[str]
    prompts: list[str]
    """One for each text."""
    first: Places
    second: Places
    voter: Places
    side: Places
    choice: Floats

    @classmethod
    def of(cls, votes: Sequence[Vote]) -> Ballots:
        """Texts are told apart by what they answer, too."""
        texts = {
            text: place
            for place, text in enumerate(dict.fromkeys((one.prompt, text) for one in votes for text in one.responses))
        }
        voters = {name: place for place, name in enumerate(sorted({one.voter for one in votes}))}
        sides = {name: place for place, name in enumerate(sorted({one.side for one in votes}))}
        return cls(
            ids=[one.id for one in votes],
            texts=[text for _, text in texts],
            prompts=[prompt for prompt, _ in texts],
            first=np.array([texts[one.prompt, one.responses[0]] for one in votes]),
            second=np.array([texts[one.prompt, one.responses[1]] for one in votes]),
            voter=np.array([voters[one.voter] for one in votes]),
            side=np.array([sides[one.side] for one in votes]),
            choice=np.array([one.choice for one in votes], float),
        )

    @property
    def sides(self) -> int:
        """How many there are."""
        return int(self.side.max()) + 1

    @property
    def strict(self) -> NDArray[np.bool_]:
        """Votes that prefer one of two different texts."""
        return np.not_equal(self.choice, 0) & np.not_equal(self.first, self.second)

    def margins(self, rewards: Floats, votes: Places | NDArray[np.bool_]) -> Floats:
        """By how much the first text of each vote exceeds the second."""
        return rewards[self.first[votes]] - rewards[self.second[votes]]

    def between(self, products: Floats, left: Places, right: Places) -> Floats:
        """(left, right): dot products of votes' differences, from those of texts."""
        rows: Floats = products[self.first[left]] - products[self.second[left]]
        return rows[:, self.first[right]] - rows[:, self.second[right]]

    def of_voters(self) -> list[Places]:
        """The votes of each voter."""
        order = np.argsort(self.voter, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self.voter[order])) + 1)


def products(ballots: Ballots, features: str, *, smooth: bool) -> Floats:
    """(texts, texts): the kernel of `gppl`, or dot products alone; 1 on average on the diagonal.

    Columns are standardised over all texts, those of held-out sides too; no vote is read.
    """
    import torch

    from palate.personal._inducing import InducingSettings, kernel

    if features == LENGTH:
        length = np.log([len(text) for text in ballots.texts])
        length = (length - length.mean()) / length.std()
        return np.outer(length, length)
    reader = Features(features)
    rows = torch.from_numpy(reader.rows(ballots.prompts, ballots.texts, [None] * len(ballots.texts))).double()
    if smooth:
        distances = [torch.nn.functional.pdist(rows[:, block]).median() for block in reader.blocks.values()]
        table = kernel(rows, rows, reader.blocks, torch.stack(distances), InducingSettings().linear)
    else:
        table = rows @ rows.T
    found: Floats = table.numpy()
    return found / float(np.diagonal(found).mean())


def root_of(products: Floats) -> Floats:
    """A square root: each text's row is its features."""
    return np.linalg.cholesky(products + 1e-5 * np.eye(len(products))).astype(np.float64)


def fit_shared(ballots: Ballots, root: Floats, precisions: Sequence[float], train: NDArray[np.bool_]) -> list[Floats]:
    """Everybody's taste (texts,) from the votes to `train` on, for each precision."""
    first, second, choice = ballots.first[train], ballots.second[train], ballots.choice[train]
    votes, texts = np.arange(len(choice)), len(root)
    signs = coo_array(
        (np.repeat([1.0, -1.0], len(choice)), (np.tile(votes, 2), np.concatenate([first, second]))),
        shape=(len(choice), texts),
    ).tocsr()
    system = root.T @ ((signs.T @ signs) @ root)
    return [root @ solve(system, precision, root.T @ (signs.T @ choice)) for precision in precisions]


def solve(system: Floats, precision: float, target: Floats) -> Floats:
    """Solve with the precision added to the diagonal."""
    regularised = system.copy()
    regularised[np.diag_indices(len(system))] += precision
    found: Floats = cho_solve(cho_factor(regularised, lower=True, overwrite_a=True, check_finite=False), target)
    return found


class SideFolds:
    """Predicts the votes on each side from those on the others, with settings chosen on the others."""

    def __init__(self, ballots: Ballots, features: Sequence[str], own_features: Sequence[str], seed: int = 0) -> None:
        self.ballots = ballots
        self._roots = {name: root_of(products(ballots, name, smooth=True)) for name in features}
        self._own = {name: products(ballots, name, smooth=False) for name in own_features}
        self._rng = np.random.default_rng(seed)
        self._group = self._rng.permutation(ballots.sides) % min(GROUPS, ballots.sides)
        """Of each side."""
        self._voters = ballots.of_voters()
        cast = np.zeros((len(self._voters), ballots.sides), int)
        np.add.at(cast, (ballots.voter, ballots.side), 1)
        self._elsewhere = cast.sum(axis=1, keepdims=True) - cast
        """(voters, sides): votes on other sides."""
        self._grid = [(name, precision) for name in features for precision in PRECISIONS]
        self._inner = self._held_out_twice()
        self._fits: dict[tuple[tuple[str, float], int], Floats] = {}

    def _held_out_twice(self) -> dict[tuple[int, int], Floats]:
        """(grid, texts) for every two groups: everybody's taste by the votes on the sides of neither."""
        of_vote = self._group[self.ballots.side]
        found = {}
        for one, other in combinations(range(int(self._group.max()) + 1), 2):
            train = (of_vote != one) & (of_vote != other)
            fits = [fit for root in self._roots.values() for fit in fit_shared(self.ballots, root, PRECISIONS, train)]
            found[one, other] = found[other, one] = np.array(fits)
        return found

    def choose_shared(self, group: int, features: Sequence[str]) -> tuple[str, float]:
        """The features and precision that best predict the votes of the other groups, by squared error."""
        errors = np.zeros(len(self._grid))
        for other in self._others(group):
            asked = np.flatnonzero(self._group[self.ballots.side] == other)
            for place, rewards in enumerate(self._inner[group, other]):
                missed = self.ballots.choice[asked] - self.ballots.margins(rewards, asked)
                errors[place] += missed @ missed
        allowed = [place for place, (name, _) in enumerate(self._grid) if name in features]
        return self._grid[min(allowed, key=lambda place: errors[place])]

    def choose_own(self, chosen: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
        """The same, for each side, of what voters add to what was chosen for everybody there."""
        ballots, groups = self.ballots, range(int(self._group.max()) + 1)
        shared = [self._grid.index(chosen[int(np.argmax(self._group == group))]) for group in groups]
        options = [(name, precision) for name in self._own for precision in OWN_PRECISIONS]
        errors = np.zeros((len(groups), len(options)))
        for votes in self._voters:
            tables = [ballots.between(table, votes, votes) for table in self._own.values()]
            of_vote = self._group[ballots.side[votes]]
            for group, other in permutations(groups, 2):
                asked, known = of_vote == other, (of_vote != other) & (of_vote != group)
                if asked.any() and known.any():
                    missed = ballots.choice[votes] - ballots.margins(self._inner[group, other][shared[group]], votes)
                    added = [
                        table[np.ix_(asked, known)] @ solve(table[np.ix_(known, known)], precision, missed[known])
                        for table in tables
                        for precision in OWN_PRECISIONS
                    ]
                    errors[group] += np.square(missed[asked] - np.array(added)).sum(axis=1)
        return [options[int(errors[group].argmin())] for group in self._group]

    def _others(self, group: int) -> list[int]:
        return [other for other in range(int(self._group.max()) + 1) if other != group]

    def shared_margins(self, features: Sequence[str]) -> tuple[Floats, Floats, list[tuple[str, float]]]:
        """Margins of all votes by everybody's taste, the tastes (sides, texts), and what was chosen for each side."""
        ballots = self.ballots
        choices = [self.choose_shared(group, features) for group in range(int(self._group.max()) + 1)]
        chosen = [choices[group] for group in self._group]
        rewards = np.array([self._fitted(choice, side) for side, choice in enumerate(chosen)])
        margins = rewards[ballots.side, ballots.first] - rewards[ballots.side, ballots.second]
        return margins, rewards, chosen

    def _fitted(self, choice: tuple[str, float], side: int) -> Floats:
        if (choice, side) not in self._fits:
            features, precision = choice
            fits = fit_shared(self.ballots, self._roots[features], [precision], self.ballots.side != side)
            self._fits[choice, side] = fits[0]
        return self._fits[choice, side]

    def own_margins(self, rewards: Floats, chosen: Sequence[tuple[str, float]], whose: Whose = "own") -> Floats:
        """(draws, votes): what voters' tastes add, by their votes on other sides.

        `stranger`: by the votes of a random voter who has as many of them elsewhere, cut to that number; where nobody
        has as many, of the one with the most. `ceiling`: by the voter's votes on this side too, the ones asked about.
        """
        ballots = self.ballots
        draws = STRANGERS if whose == "stranger" else 1
        found = np.zeros((draws, len(ballots.ids)))
        for voter, votes in enumerate(self._voters):
            for side in np.unique(ballots.side[votes]).tolist():
                asked, known = votes[ballots.side[votes] == side], votes[ballots.side[votes] != side]
                name, precision = chosen[side]
                for draw in range(draws if len(known) else 0):
                    learned = {"own": known, "ceiling": votes}.get(whose)
                    if learned is None:
                        learned = self._stranger(voter, side, len(known))
                    table = self._own[name]
                    missed = ballots.choice[learned] - ballots.margins(rewards[side], learned)
                    weights = solve(ballots.between(table, learned, learned), precision, missed)
                    found[draw, asked] = ballots.between(table, asked, learned) @ weights
        return found

    def _stranger(self, voter: int, side: int, count: int) -> Places:
        elsewhere = self._elsewhere[:, side].copy()
        elsewhere[voter] = 0
        many = np.flatnonzero(elsewhere >= min(count, elsewhere.max()))
        votes = self._voters[self._rng.choice(many)]
        votes = votes[self.ballots.side[votes] != side]
        return self._rng.choice(votes, min(count, len(votes)), replace=False)
