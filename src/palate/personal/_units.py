"""What must not be torn apart: choices that share a text, a question or a twin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from palate.personal._pairs import Choice
from palate.records import Comparison

SHORTEST_LINK = 20
"""Shorter texts (`Yes.`) are said by many and link nothing."""


def key_of(text: str) -> str:
    """A text as it is compared: case and spacing do not make another text of it."""
    return " ".join(text.lower().split())


def links_of(choice: Choice) -> list[str]:
    """Everything that ties a choice to others: its texts, its group, its twin and itself."""
    texts = [key_of(text) for text in choice.responses]
    found = [f"text\x00{text}" for text in texts if len(text) >= SHORTEST_LINK]
    found.append("pair\x00" + "\x00".join([key_of(choice.prompt), *sorted(texts)]))
    if isinstance(choice, Comparison):
        found += [f"item\x00{name}" for name in (choice.id, choice.twin) if name]
        found += [f"group\x00{choice.group}"] if choice.group else []
    return found


def units(choices: Sequence[Choice]) -> NDArray[np.intp]:
    """A code for each choice; two choices that share a text, group or twin, or are tied by others, have one code.

    The texts of a debate are compared with one another, so a debate is one unit; a question with its answers
    is another. Training on one pair of a unit tells about the texts of its other pairs.
    """
    names: dict[str, int] = {}
    rows, columns = [], []
    for place, choice in enumerate(choices):
        for link in links_of(choice):
            rows.append(place)
            columns.append(names.setdefault(link, len(names)))
    size = len(choices) + len(names)
    graph = coo_array(
        (np.ones(len(rows), np.int8), (np.array(rows, int), np.array(columns, int) + len(choices))), shape=(size, size)
    )
    _, component = connected_components(graph, directed=False)
    return np.unique(component[: len(choices)], return_inverse=True)[1]


def spread(codes: NDArray[np.intp], parts: int, seed: int) -> NDArray[np.intp]:
    """For each unit a part, so that the parts hold like numbers of choices: largest first, to the emptiest."""
    sizes = np.bincount(codes)
    order = np.random.default_rng(seed).permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    room = np.zeros(parts)
    part_of = np.zeros(len(sizes), np.intp)
    for unit in order:
        part_of[unit] = room.argmin()
        room[part_of[unit]] += sizes[unit]
    return part_of
