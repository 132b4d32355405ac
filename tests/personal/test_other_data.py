"""A model that calls up users by their ids, asked about data that it was not trained on: they may be other people."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from palate.evaluation import evaluate, summarise
from palate.personal import adapt_users, load_personal, train
from palate.records import Benchmark, Card
from palate.runs import open_run
from planted import planted


def dated(name: str, year: int, seed: int) -> Benchmark:
    """People of the same ids whatever the seed, with choices of that year."""
    held = planted(couples=6, choices=6, history=4, seed=seed)
    items = [msgspec.structs.replace(item, date=f"{year}-05-01", sequence=None) for item in held.comparisons]
    card = Card(name=name, title=name, version="1", licence="none", source="planted", description="")
    return msgspec.structs.replace(held, card=card, comparisons=tuple(items))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    benchmark = dated("here", 2024, 1)
    run = train(
        benchmark, ["per-user"], features="traits", protocol="unseen", folds=2, out=tmp_path_factory.mktemp("t")
    )
    return Path(run.run) / "models" / "per-user"


def told(model: Path, benchmark: Benchmark, out: Path, *views: str) -> list[str]:
    run = evaluate(benchmark, [f"personal:{model}"], views, out=out).run
    findings = summarise(open_run(Path(run))).findings  # from the folder, without the model
    return [one.text for one in findings if "trained on other data" in one.text]


def test_other_data_is_said_where_users_are_called_by_name(model: Path, tmp_path: Path) -> None:
    [said] = told(model, dated("there", 2030, 2), tmp_path, "none", "user")
    assert "(here)" in said and "other people" in said and "afterwards" not in said
    assert not told(model, dated("there", 2030, 2), tmp_path, "none", "judgements:2")


def test_choices_from_after_the_items_are_said(model: Path, tmp_path: Path) -> None:
    [said] = told(model, dated("there", 2020, 2), tmp_path, "user")
    assert re.search(r"up to 2024-05-01, and \d+ items are not later", said)


def test_the_same_data_needs_no_word(model: Path, tmp_path: Path) -> None:
    assert not told(model, dated("here", 2024, 1), tmp_path, "user")


def test_whoever_it_was_taught_last_counts(model: Path, tmp_path: Path) -> None:
    there = dated("there", 2030, 2)
    adapted = adapt_users(load_personal(model), there).save(tmp_path / "adapted")
    assert not told(adapted, there, tmp_path, "user")
    assert told(adapted, dated("here", 2024, 1), tmp_path, "user")
