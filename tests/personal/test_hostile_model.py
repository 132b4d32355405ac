"""A trained model from a stranger: nothing in its folder makes palate run code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load, save

from command import palate
from palate.personal import PersonalModel, load_personal
from palate.personal._features import EDGES
from palate.privacy import target_of
from palate.records import PalateError
from palate.rewards import make_reward_model
from planted import planted

CODE = """
from pathlib import Path
from palate.personal._bradley_terry import BradleyTerry

Path(__file__).with_name("it-ran").touch()

class Theirs(BradleyTerry):
    name = "theirs"
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A sound model, with a file of code beside it."""
    people = planted(couples=4, choices=4, history=4)
    folder = tmp_path / "theirs"
    PersonalModel("bradley-terry", features="traits").fit(people.comparisons, people.users).save(folder)
    (folder / "method.py").write_text(CODE)
    return folder


def name_its_code(folder: Path, *, as_member: bool = False) -> str:
    file, code = folder / "model.json", f"{folder}/method.py:Theirs"
    said = json.loads(file.read_text())
    if as_member:
        said |= {"method": "ensemble", "settings": {"members": [code]}, "about": {"theirs": {}}}
    else:
        said |= {"method": code}
    file.write_text(json.dumps(said))
    return code


LOADERS: list[Callable[[Path], object]] = [
    load_personal,
    target_of,
    lambda folder: make_reward_model(f"personal:{folder}"),
]


@pytest.mark.parametrize("loader", LOADERS, ids=["load_personal", "target_of", "make_reward_model"])
@pytest.mark.parametrize("as_member", [False, True], ids=["method", "member"])
def test_a_model_cannot_name_code_that_is_run(model: Path, loader: Callable[[Path], object], as_member: bool) -> None:
    code = name_its_code(model, as_member=as_member)
    with pytest.raises(PalateError, match="not run because a model says so") as error:
        loader(model)
    assert code in str(error.value)
    assert not (model / "it-ran").exists()


def test_commands_refuse_it_in_a_sentence(model: Path) -> None:
    code = name_its_code(model)
    for command in (
        ("eval", "mini", "--rm", f"personal:{model}", "--limit", "4", "--out", f"{model}/runs"),
        ("adapt", str(model), "mini"),
        ("privacy", "attack", "mini", "--model", str(model), "--out", f"{model}/runs"),
    ):
        refused = palate(*command)
        assert (refused.returncode, "Traceback" in refused.stderr) == (2, False), refused.stderr
        assert "not run because a model says so" in refused.stderr
    assert not (model / "it-ran").exists()
    trusted = palate("adapt", str(model), "mini", "--method", code)
    assert "could learn from" in trusted.stderr  # it is loaded, and impersonal
    assert (model / "it-ran").exists()


def test_code_runs_where_the_caller_names_it(model: Path) -> None:
    code = name_its_code(model)
    assert make_reward_model(f"personal:{model},method={code}").name == f"personal:{code}"
    assert (model / "it-ran").exists()
    assert target_of(model, code).method == code


def test_another_method_than_it_was_trained_with_is_refused(model: Path) -> None:
    with pytest.raises(PalateError, match="trained with the method bradley-terry, not with per-user"):
        load_personal(model, method="per-user")


@pytest.mark.parametrize("change", ["missing", "nan", "empty", "short"])
def test_numbers_that_do_not_fit_together_are_refused_when_it_is_loaded(model: Path, change: str) -> None:
    file = model / "model.safetensors"
    sound = load(file.read_bytes())
    for name, tensor in sound.items():
        flat = tensor.flatten()
        if change == "missing" and name in EDGES:
            continue  # models of earlier versions have none
        if change == "short" and (len(flat) <= 1 or name == "trained"):
            continue  # as it was, or the marks of other choices
        if change in ("nan", "empty") and not tensor.is_floating_point():
            continue
        others = {key: one for key, one in sound.items() if key != name}
        changed = {"nan": tensor * float("nan"), "empty": flat[:0], "short": flat[:1].clone()}
        file.write_bytes(save(others if change == "missing" else {**others, name: changed[change]}))
        with pytest.raises(PalateError, match="is damaged"):
            load_personal(model)


@pytest.mark.parametrize("settings", [{"seed": "x"}, {"seed": []}], ids=str)
def test_settings_that_no_method_has_are_refused(model: Path, settings: dict[str, object]) -> None:
    file = model / "model.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"settings": settings}))
    with pytest.raises(PalateError, match="is damaged"):
        load_personal(model)


def test_a_model_that_names_a_user_twice_is_refused(model: Path) -> None:
    described = json.loads((model / "model.json").read_bytes())
    described["users"] = ["ann", "ann"]
    (model / "model.json").write_text(json.dumps(described))
    with pytest.raises(PalateError, match="names a user twice"):
        load_personal(model)
