"""A run says of its data what nobody would look up: what was left out, what is empty, what is there twice."""

from __future__ import annotations

import warnings
from pathlib import Path

from palate.evaluation import evaluate

ROWS = """user_id,prompt,response_a,response_b,label
ann,Tea?,Green.,Black.,a
ann,Tea?,Green.,Black.,a
ann,Cake?,Two!,,a
bob,Tea?,Green.,Black.,b
bob,Cake?,Two!,One.,tie
bob,Bread?,Rye.,Wheat.,
bob,Soup?,Hot.,Cold.,a
"""


def test_an_evaluation_says_in_one_line_what_data_check_warns_of(tmp_path: Path) -> None:
    (tmp_path / "prefs.csv").write_text(ROWS)
    with warnings.catch_warnings(action="ignore"):
        summary = evaluate(f"{tmp_path}/prefs.csv,bad=skip", ["longest"], ["none"], out=tmp_path / "runs")
    said = [finding.sentence for finding in summary.findings]
    assert (
        "In the data, 1 item has an empty response and 1 item repeats an earlier choice of the same user; "
        "palate data check says where." in said
    )
    left_out = ["rows that cannot be used, left out: 1", "ties, which prefer neither response, left out: 1"]
    assert said[-1] == f"Not in this run: {'; '.join(left_out)}." and summary.data_left_out == left_out


def test_an_evaluation_of_whole_data_says_nothing_of_it(tmp_path: Path) -> None:
    summary = evaluate("mini", ["longest"], ["none"], limit=20, out=tmp_path)
    assert not summary.data_left_out and not [one for one in summary.findings if "the data" in one.text]
