"""What is counted for whom, and what a rehearsal counts instead of doing it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from palate.engine import Meter, Spent, at_work, metering, steps, summed, telling
from palate.engine._encoder import SentenceEncoder
from palate.engine._meter import count


def models(meter: Meter) -> dict[tuple[str, str], Spent]:
    return {(one.part, one.model): one for one in meter.models}


def test_tokens_and_calls_belong_to_the_model_that_is_at_work() -> None:
    with metering(Meter()) as meter, at_work("policy", "writes"):
        count(completion_tokens=5)
        with at_work("reward model", "rates", 3), at_work("reward model", "rates by another name", 3):
            count(prompt_tokens=7)
        count(calls=2, completion_tokens=1)
    found = models(meter)
    assert list(found) == [("policy", "writes"), ("reward model", "rates")]
    assert (found["policy", "writes"].completion_tokens, found["policy", "writes"].calls) == (6, 2)
    rates = found["reward model", "rates"]
    assert (rates.prompt_tokens, rates.completion_tokens, rates.calls) == (7, 0, 3)  # no prompts, so its asks
    assert all(one.seconds > 0 for one in meter.models)


def test_an_encoder_imports_its_packages_while_it_loads(
    tiny_encoder: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the seconds of the import count as those of the first item, and an estimate multiplies them."""
    known = importlib.import_module("sentence_transformers")
    at: list[str] = []

    class Finder(MetaPathFinder, Loader):
        def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
            if name != "sentence_transformers":
                return None
            at.append(meter._stack[-1][1])
            return ModuleSpec(name, self, is_package=True)

        def create_module(self, spec: ModuleSpec) -> ModuleType:
            return known

        def exec_module(self, module: ModuleType) -> None:
            pass

    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "sentence_transformers")
    encoder = SentenceEncoder(str(tiny_encoder(3)))
    with metering(Meter()) as meter, at_work("reward model", "embedding"):
        encoder.encode(["Tea."], keep=False)
    assert at == ["loading"]


def test_outside_of_a_meter_nothing_is_counted() -> None:
    with at_work("policy", "writes", 1):
        count(calls=1)
        assert list(steps(3)) == [0, 1, 2]


def test_a_rehearsal_takes_a_few_steps_and_counts_all() -> None:
    with metering(Meter(rehearsal=True)) as meter, at_work("policy", "writes"):
        count(prompt_tokens=50)  # read once, however long the text
        taken = 0
        for _ in steps(100):
            taken += 1
            count(completion_tokens=3)
            for _ in steps(10):  # what is inside a step is done in full
                count(calls=1)
    [spent] = meter.models
    assert taken < 10
    assert (spent.prompt_tokens, spent.completion_tokens, spent.calls) == (50, 300, 1000)


def test_a_text_that_ends_early_in_a_rehearsal_counts_as_it_is() -> None:
    with metering(Meter(rehearsal=True)) as meter, at_work("policy", "writes"):
        for step in steps(100):
            count(completion_tokens=1)
            if step == 1:
                break
        for _ in steps(8):
            count(completion_tokens=1)
    assert meter.models[0].completion_tokens == 10


def test_progress_is_told_within_long_work_and_not_within_its_steps() -> None:
    heard: list[float] = []
    with metering(Meter()), telling(heard.append):
        for _ in steps(4):
            list(steps(2))
    assert heard == [0.25, 0.5, 0.75, 1.0]


def test_sums_keep_models_apart_and_unknown_prices_unknown() -> None:
    one, other = Spent(part="critic", model="c", calls=2, cost=0.5), Spent(part="critic", model="c", calls=1, cost=None)
    policy = Spent(part="policy", model="c", calls=4, cost=1.0)
    found = summed([one, policy], [other, policy])
    assert [(spent.part, spent.calls, spent.cost) for spent in found] == [("critic", 3, None), ("policy", 8, 2.0)]
    assert one.calls == 2  # what was given is left alone
