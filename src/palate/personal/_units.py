"""What must not be torn apart: choices that share a text, a group or a twin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from palate.data import SameTexts, is_short, questions, text_key
from palate.personal._pairs import Choice
from palate.records import Comparison


class Links:
    """Everything that ties one choice to others: texts that count as the same, its group, its twin and itself.

    A question alone ties nothing, since many tables ask one question in every row; short answers to the same
    question do.
    """

    def __init__(self, choices: Iterable[Choice]) -> None:
        self._texts = SameTexts(text for choice in choices for text in choice.responses)

    def of(self, choice: Choice) -> frozenset[str]:
        """Names; two choices that have one in common must not be torn apart."""
        found: set[str] = set()
        for text in choice.responses:
            key = text_key(text)
            if is_short(key):
                asked = questions(choice.prompt, choice.responses)
                found.update(f"answer\x00{question}\x00{key}" for question in asked)
            else:
                found.update(f"text\x00{number}" for number in self._texts.like(text))
        if isinstance(choice, Comparison):
            found.update(f"item\x00{name}" for name in (choice.id, choice.twin) if name)
            found.update([f"group\x00{choice.group}"] if choice.group else ())
        return frozenset(found)


def units(choices: Sequence[Choice]) -> NDArray[np.intp]:
    """A code for each choice; two choices that share a text, group or twin, or are tied by others, have one code.

    The texts of a debate are compared with one another, so a debate is one unit; a question with its answers
    is another. Training on one pair of a unit tells about the texts of its other pairs.
    """
    links = Links(choices)
    names: dict[str, int] = {}
    rows, columns = [], []
    for place, choice in enumerate(choices):
        for link in sorted(links.of(choice)):
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
