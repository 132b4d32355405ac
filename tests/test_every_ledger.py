"""A damaged line in the middle of any ledger of any kind of run is an error with file and line, and can be repaired."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from palate.records import PalateError
from palate.runs import EXPERIMENTS, Experiment, Ledger
from palate.runs._repair import repair_ledgers

pytest.importorskip("torch", reason="the kinds of runs that train need .[local]")
KINDS: list[Experiment[Any, Any]] = [EXPERIMENTS.find(name).target for name in EXPERIMENTS]
LEDGERS = sorted(
    {
        f"{ledger.line.__module__}.{ledger.line.__qualname__} {ledger.name}": ledger
        for ledger in gc.get_objects()
        if isinstance(ledger, Ledger) and ledger.line.__module__.startswith("palate.")
    }.items()
)
DAMAGE = {
    "torn": b'{"item": "a", "sco\n',
    "empty": b"\n",
    "NUL bytes": b"\0\0\0\0\n",
    "not UTF-8": b'{"\xff": 1}\n',
    "another type": b"[1, 2, 3]\n",
    "no object": b"17\n",
    "nested": b"[" * 100_000 + b"\n",
}


def test_the_kinds_have_ledgers() -> None:
    names = {ledger.name for _, ledger in LEDGERS}
    assert len(KINDS) >= 8
    assert {"ratings.jsonl", "samples.jsonl", "steps.jsonl", "slopes.jsonl", "cells.jsonl"} - names <= {"cells.jsonl"}
    assert len(LEDGERS) > 15


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize(("name", "ledger"), LEDGERS, ids=[name for name, _ in LEDGERS])
def test_damage_in_the_middle(name: str, ledger: Ledger[Any], damage: str, tmp_path: Path) -> None:
    file = tmp_path / ledger.name
    file.write_bytes(DAMAGE[damage] + DAMAGE["another type"])
    with pytest.raises(PalateError, match=rf"{ledger.name}, line 1: .*--repair"):
        list(ledger.read(tmp_path))
    [dropped] = (
        repair_ledgers(tmp_path, [ledger])
        if ledger.needs is None
        else repair_ledgers(tmp_path, [ledger.needs.ledger, ledger])
    )
    assert dropped.bad == 2
    assert list(ledger.read(tmp_path)) == []
