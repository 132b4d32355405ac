"""What an audit says of real data, where that is to be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from palate.audit import audit_benchmark
from palate.audit._conflicts import find_conflicts
from palate.audit._habits import measure_positions
from palate.data import load_benchmark
from palate.evaluation import Ratings, rated_item


def test_coauthor_takes_the_first_half_of_the_time(data_dir: Path) -> None:
    benchmark = load_benchmark("coauthor", data_dir=data_dir)
    ratings = Ratings([rated_item(item, benchmark) for item in benchmark.comparisons], {})
    found = measure_positions(benchmark, ratings, seed=0)
    assert found is not None
    assert round(found.chosen[0], 2) == 0.49 and round(found.chance, 2) == 0.24
    assert found.chosen == sorted(found.chosen, reverse=True)
    assert found.habit is not None and found.habit.spread > 0.1 and found.habit.p < 0.01
    assert found.over_time is not None and found.over_time[0] > 0.9 and found.over_time[-1] < 0.4


def test_voters_of_convarg_disagree(data_dir: Path) -> None:
    benchmark = load_benchmark("convarg", data_dir=data_dir)
    ratings = Ratings([rated_item(item, benchmark) for item in benchmark.comparisons], {})
    found = find_conflicts(ratings, seed=0)
    assert found.shared > 15_000
    assert found.conflict_share is not None and 0.2 < found.conflict_share < 0.7
    assert found.agreement is not None and found.majority is not None and found.left_out_majority is not None
    assert found.agreement.value < found.left_out_majority.value < found.majority < 1
    assert found.self_agreement is not None and found.self_agreement.own > found.self_agreement.others


def test_nobody_shares_a_question_on_stackexchange(data_dir: Path) -> None:
    audit = audit_benchmark("stackexchange", impersonal=False, data_dir=data_dir)
    assert audit.conflicts.shared == 0
    assert any("No pair has been judged by two users" in one.text for one in audit.findings)
    longest = next(one for one in audit.controls if one.rm == "longest")
    assert longest.accuracy == pytest.approx(0.537, abs=0.1) and longest.q < 0.05
