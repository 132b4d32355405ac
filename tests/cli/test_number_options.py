"""Infinity and not-a-number are no settings, wherever a number is asked for."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from palate.cli import main
from palate.cli._main import app
from palate.personal._private import PrivacySettings
from palate.records import PalateError, parse_spec
from palate.study import read_plan

VALUES = ["inf", "-inf", "nan", "Infinity"]


def float_options() -> Iterator[tuple[tuple[str, ...], str]]:
    """Every option of every command that takes a number with a point; with the command and what it has to have."""
    for name in sorted(app):
        if not name.startswith("-"):
            inner = [word for word in sorted(app[name]) if not word.startswith("-")]
            for words in [(name, word) for word in inner] or [(name,)]:
                command = app[name] if len(words) == 1 else app[name][words[1]]
                arguments = command.assemble_argument_collection()
                needed = [one.name for one in arguments if one.required]
                values = [word for one in needed for word in ((one, "x") if one.startswith("-") else ("x",))]
                for argument in arguments:
                    if argument.hint in (float, float | None):
                        yield (*words, *values), argument.name


OPTIONS = list(float_options())


def test_there_are_such_options() -> None:
    known = {(words[0], option) for words, option in OPTIONS}
    assert {("steer", "--weight"), ("ppo", "--kl"), ("serve", "--max-wait-ms")} <= known and len(known) > 15


@pytest.mark.parametrize(("command", "option"), OPTIONS)
@pytest.mark.parametrize("value", ["inf", "nan"])
def test_no_option_of_any_command_takes_one(
    command: tuple[str, ...], option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([*command, f"{option}={value}"])
    said = capsys.readouterr().err
    assert option in said and "expected a finite number" in said


@pytest.mark.parametrize("value", VALUES)
def test_no_option_of_a_name_takes_one(value: str) -> None:
    with pytest.raises(PalateError, match="expected a finite number"):
        parse_spec(f"per-user,clip={value}")


@pytest.mark.parametrize("field", ["clip", "epsilon", "learning_rate", "rate", "delta"])
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_no_privacy_setting_takes_one(field: str, value: float) -> None:
    assert field in inspect.signature(PrivacySettings).parameters
    with pytest.raises(PalateError):
        PrivacySettings(**({"epsilon": 1.0} | {field: value}))


@pytest.mark.parametrize("value", ["inf", "nan", "-inf"])
def test_no_plan_takes_one(value: str, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(f"seed = {value}\n")
    with pytest.raises(PalateError, match="is no number that a setting can have"):
        read_plan(tmp_path / "plan.toml")
