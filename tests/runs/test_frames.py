"""Results as data frames, and in a notebook."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import palate
from palate.data import load_benchmark


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> palate.Summary:
    out = tmp_path_factory.mktemp("runs")
    return palate.evaluate("mini", ["overlap", "longest"], ["none", "posts:5", "swapped"], limit=40, out=out)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_frame_has_a_row_for_each_model_and_view(summary: palate.Summary, package: str) -> None:
    pytest.importorskip(package)
    frame = getattr(summary, f"to_{package}")()
    assert frame.shape[0] == len(summary.results) == 6
    assert list(frame["rm"]) == [result.rm for result in summary.results]
    assert list(frame["accuracy"]) == [result.accuracy for result in summary.results]


def test_a_notebook_shows_tables_and_findings_and_nobody(summary: palate.Summary) -> None:
    shown = summary._repr_html_()
    assert shown is not None and "<table" in shown and "<script" not in shown and "overlap" in shown
    assert all(finding.text.split("<")[0][:20] in shown for finding in summary.findings if "'" not in finding.text[:20])
    assert not [user for user in load_benchmark("mini").users if user in shown]


def test_without_its_folder_a_summary_has_no_display_and_says_so_for_a_frame(tmp_path: Path) -> None:
    gone = palate.evaluate("mini", ["longest"], ["none"], limit=4, out=tmp_path)
    shutil.rmtree(gone.run)
    assert gone._repr_html_() is None
    with pytest.raises(palate.PalateError):
        gone.columns()
