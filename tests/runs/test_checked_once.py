"""A run that is resumed reads its ledgers once, and again only where they changed meanwhile."""

from pathlib import Path

import msgspec
import pytest

from palate import evaluate
from palate.evaluation._run import RATINGS
from palate.runs import Appender, Ledger, Run, open_run


@pytest.fixture
def run(tmp_path: Path) -> Run[object]:
    summary = evaluate("mini", ["longest"], ["none"], limit=6, out=tmp_path)
    found: Run[object] = open_run(Path(summary.run), check=False)
    found.checked = found.check()
    return found


def test_what_was_checked_is_not_read_again(run: Run[object], monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [line.key for line in run.read(RATINGS)]
    monkeypatch.setattr(Ledger, "keys", lambda *_: pytest.fail("read again"))
    with run.writing() as writing:
        assert len(keys) == len(writing.keys(RATINGS)) == 6 and all(key in writing.keys(RATINGS) for key in keys)


def test_what_another_process_added_meanwhile_is_seen(run: Run[object]) -> None:
    first = next(run.read(RATINGS))
    appender = Appender(run.folder / RATINGS.name)
    appender.append([msgspec.structs.replace(first, item="new")])
    appender.close()
    with run.writing() as writing:
        assert (first.rm, first.view, "new", 0) in writing.keys(RATINGS)
