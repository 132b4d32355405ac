"""Smaller batches where memory runs out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from palate.engine import in_halves
from palate.records import PalateError


class Device:
    """Has room for a few items at a time."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.tried: list[int] = []

    def work(self, batch: Sequence[int]) -> list[int]:
        self.tried.append(len(batch))
        if len(batch) > self.room:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.25 GiB.")
        return [item * 10 for item in batch]


def test_batches_are_halved_and_stay_so() -> None:
    device, exhausted = Device(room=2), []
    results = list(in_halves(range(10), 8, device.work, lambda: exhausted.append(1)))
    assert [item for batch in results for item in batch] == [item * 10 for item in range(10)]
    assert device.tried == [8, 4, 2, 2, 2, 2, 2]
    assert len(exhausted) == 2


def test_one_item_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="out of memory"):
        list(in_halves(range(3), 3, Device(room=0).work))


def test_an_error_that_names_the_model_counts_and_any_other_does_not() -> None:
    def named(batch: Sequence[int]) -> int:
        if len(batch) > 1:
            raise PalateError("the reward model failed") from RuntimeError("out of memory")
        return len(batch)

    assert list(in_halves(range(3), 3, named)) == [1, 1, 1]

    def other(batch: Sequence[int]) -> int:
        raise PalateError("no such file")

    with pytest.raises(PalateError, match="no such file"):
        list(in_halves(range(3), 3, other))
