"""The KV cache of texts that grow side by side: tokens, keys, values and last states, in one block of memory.

Each text has a row. The text itself is at the beginning of its row; its branches, the continuations that were last
read, are further right. When a text continues with one of its branches, that branch is moved to the left.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

BLOCK = 16
"""Columns are used in blocks of this size: attention with a mask likes that on a GPU."""


@dataclass(frozen=True)
class Branches:
    """What each of some rows of tokens has beyond its text; in which column the first begins, and how far each next."""

    rows: Sequence[list[int]] = ()
    first: int = 0
    apart: int = 0


class KVCache:
    """The keys, values and last states of some texts, by their place."""

    def __init__(self, count: int, keys: Tensor, states: Tensor) -> None:
        """Of no token yet, in a model's shapes: (layers, 2, heads, 0, size) and (0, width)."""
        self.ids: list[list[int]] = [[] for _ in range(count)]
        """The tokens of each text that were read and belong to it."""
        self.branches = [Branches()] * count
        self.places = list(range(count))
        """Whose row each is."""
        self._rows = list(range(count))
        self._held = keys.new_zeros(*keys.shape[:2], count, *keys.shape[2:])
        self._states = states.new_zeros(count, *states.shape)

    def row(self, place: int) -> int:
        """Which row a text has."""
        return self._rows[place]

    def memory(self, first: int, rows: int, columns: int) -> tuple[Tensor, Tensor]:
        """Of some rows, keys and values (layers, 2, rows, heads, columns, size) and states (rows, columns, width).

        There are as many columns as are asked for, or a few more; room for them is made by a quarter at a time.
        """
        columns = _in_blocks(columns)
        have = self._states.shape[1]
        if columns > have:
            more = max(columns, _in_blocks(have * 5 // 4)) - have
            # Zeros, since what nobody may see is multiplied with zero, and zero times infinity is not zero.
            self._held, self._states = (pad(part, (0, 0, 0, more)) for part in (self._held, self._states))
        some = slice(first, first + rows)
        return self._held[:, :, some, :, :columns], self._states[some, :columns]

    def bring_forward(self, places: Sequence[int]) -> None:
        """Give the first rows to these texts, in any order; only those move that have to."""
        wanted, count = set(places), len(places)
        out = [row for row in range(count) if self.places[row] not in wanted]
        into = [self._rows[place] for place in places if self._rows[place] >= count]
        if not out:
            return
        here, there = [*out, *into], [*into, *out]
        self._held[:, :, here] = self._held[:, :, there]
        self._states[here] = self._states[there]
        for row, place in zip(here, [self.places[row] for row in there], strict=True):
            self.places[row], self._rows[place] = place, row

    def settle(self, beginnings: Mapping[int, list[int]]) -> None:
        """Bring texts to these beginnings as far as they were read: by falling back, or by taking over a branch."""
        moves: list[tuple[int, int, int]] = []
        for place, ids in beginnings.items():
            kept = common_prefix(self.ids[place], ids)
            if kept == len(self.ids[place]):
                moves += self._go_on(place, ids[kept:])
            else:
                self.ids[place] = ids[:kept]
            self.branches[place] = Branches()
        if moves:
            row, source, target = torch.tensor(moves).to(self._held.device).T
            self._held[:, :, row, :, target] = self._held[:, :, row, :, source]
            self._states[row, target] = self._states[row, source]

    def _go_on(self, place: int, ids: list[int]) -> list[tuple[int, int, int]]:
        """Take over the longest beginning of these tokens that a branch has; of each its row, column and new column."""
        branches, target = self.branches[place], len(self.ids[place])
        number, branch = max(enumerate(branches.rows), key=lambda pair: common_prefix(pair[1], ids), default=(0, []))
        taken, source = common_prefix(branch, ids), branches.first + number * branches.apart
        self.ids[place] = [*self.ids[place], *branch[:taken]]
        if source == target:  # it stands where it belongs
            return []
        return [(self._rows[place], source + at, target + at) for at in range(taken)]

    def states(self, where: Sequence[int]) -> Tensor:
        """Last states, one under another."""
        return self._states.flatten(0, 1)[torch.tensor(where, dtype=torch.long).to(self._states.device)]

    def where(self, place: int, number: int, start: int, end: int) -> list[int]:
        """Where `states` finds those of some tokens, from start to end, of the row of tokens with this number."""
        begin = self._rows[place] * self._states.shape[1]
        return [begin + column for column in self._columns(place, number, start, end)]

    def keys(self, place: int, number: int, end: int) -> Tensor:
        """Keys and values of the beginning of a row of tokens: (layers, 2, heads, tokens, size)."""
        return self._held[:, :, self._rows[place], :, self._columns(place, number, 0, end)]

    def _columns(self, place: int, number: int, start: int, end: int) -> list[int]:
        shared, branches = len(self.ids[place]), self.branches[place]
        beyond = branches.first + number * branches.apart - shared
        return [*range(start, min(end, shared)), *range(max(start, shared) + beyond, end + beyond)]


def _in_blocks(columns: int) -> int:
    return -(-columns // BLOCK) * BLOCK


def common_prefix(one: Sequence[object], other: Sequence[object]) -> int:
    """How many tokens two rows, or characters two texts, begin with alike."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:  # mostly so
        return most
    return bisect_left(range(most), True, key=lambda at: one[: at + 1] != other[: at + 1])
