"""Models that keep features of single texts say so, when a person is erased and when they are shared."""

from __future__ import annotations

from pathlib import Path

import pytest
from people import people

from palate.cli import main
from palate.data import Pseudonyms, write_benchmark
from palate.personal import PersonalModel
from palate.privacy import forget

NAMES = Pseudonyms(b"a key that only this test knows")


@pytest.mark.parametrize(("method", "keeps"), [("gppl", True), ("crowd-gppl", True), ("per-user", False)])
def test_points_of_single_texts_are_told(
    method: str, keeps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    held = people()
    write_benchmark(held, tmp_path / "data")
    model = PersonalModel(method, features="traits").fit(held.comparisons, held.users).save(tmp_path / "model")
    receipt = forget("bo", NAMES, data=[tmp_path / "data"], models=[model], keep_answers=True)
    assert any("inducing points" in line for line in receipt.not_erased) == keeps
    with pytest.raises(SystemExit, match="0"):
        main(["privacy", "strip", str(model), str(tmp_path / "bare")])
    assert ("inducing points" in capsys.readouterr().out) == keeps
