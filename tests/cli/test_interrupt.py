"""Ctrl-C ends a command with a word and the exit code that shells know."""

import pytest

from palate.cli import main


def test_who_stops_a_command_is_told_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(spec: str, data_dir: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("palate.data.load_benchmark", stopped)
    with pytest.raises(SystemExit) as left:
        main(["data", "show", "mini"])
    assert left.value.code == 130
    assert "Run the same command again to resume" in capsys.readouterr().err
