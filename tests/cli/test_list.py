"""`palate list` names everything that can be named."""

import json

import pytest

from palate.cli import main
from palate.cli.list import KINDS
from palate.views._spec import HISTORY, NEIGHBOURS, OTHERS, PLAIN, VIEWS, WRITTEN


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit, match="0"):
        main(["list", *words])
    return capsys.readouterr().out


def test_all_kinds_and_one(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(listed(capsys, "--json"))
    assert list(found) == list(KINDS) and all(about for kind in found.values() for about in kind.values())
    methods = listed(capsys, "methods")
    assert "per-user" in methods and "bm25" not in methods
    said = listed(capsys)
    assert all(name in said for name in ("embedding", "bm25", "mini", "oracle"))


def test_every_view_is_described() -> None:
    assert set(VIEWS) == {"none", NEIGHBOURS, *HISTORY, *PLAIN, *WRITTEN, *OTHERS}


def test_an_unknown_kind_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["list", "modles"])
    assert stopped.value.code == 2 and "palate:" in capsys.readouterr().err
