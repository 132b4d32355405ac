"""A reward model is found by name, from an installed package, or in a file of one's own."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.records import PalateError, parse_spec
from palate.rewards import REWARD_MODELS, load_reward_model, make_reward_model

PLUG_IN = """
from palate import Rating

class Vowels:
    name = "vowels"

    def __init__(self, weight="1"):
        self.weight = float(weight)

    def rate(self, asks):
        return [Rating(scores=[self.weight * sum(c in "aeiou" for c in r) for r in a.responses]) for a in asks]

class NoRate:
    name = "no rate"

class NoName:
    def rate(self, asks):
        return []

class Raises:
    name = "raises"
    def __init__(self):
        raise RuntimeError("no weights here")
"""


@pytest.fixture
def plug_in(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(PLUG_IN)
    return file


def test_a_file_of_ones_own(plug_in: Path) -> None:
    assert make_reward_model(f"{plug_in}:Vowels").name == "vowels"
    assert make_reward_model(f"{plug_in}:Vowels,weight=2").weight == 2  # type: ignore[attr-defined]


def test_the_identity_changes_with_the_source_and_the_options(plug_in: Path) -> None:
    def identity(spec: str) -> dict[str, str]:
        return load_reward_model(spec)[1]

    before = identity(f"{plug_in}:Vowels")
    assert before != identity(f"{plug_in}:Vowels,weight=2")
    plug_in.write_text(PLUG_IN + "\n# changed\n")
    assert before != identity(f"{plug_in}:Vowels")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("embeding", "Did you mean 'embedding'"),
        ("{file}:Vowel", "Did you mean 'Vowels'"),
        ("{file}", "say which class or function"),
        ("{file}:NoRate", "no rate"),
        ("{file}:NoName", "has no name"),
        ("{file}:Raises", "RuntimeError: no weights here"),
        ("{file}:Vowels,height=2", "Its options: weight"),
        ("./nowhere.py:Vowels", "no such file"),
        ("random,seed", "key=value"),
        ("random,seed=1,seed=2", "twice"),
        ("", "cannot read"),
    ],
)
def test_a_wrong_spec_is_told_what_is_wrong(plug_in: Path, spec: str, words: str) -> None:
    with pytest.raises(PalateError, match=words):
        make_reward_model(spec.format(file=plug_in))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise ValueError('oh no')", r"ValueError: oh no \(mine.py, line 1\)"),
        ("import no_such_module_anywhere", "ModuleNotFoundError"),
        ("def broken(:", r"SyntaxError: [^(]*\(mine.py, line 1\)$"),
        ("import sys; sys.exit(3)", "SystemExit"),
    ],
)
def test_a_file_that_raises_says_where(plug_in: Path, source: str, words: str) -> None:
    plug_in.write_text(source)
    with pytest.raises(PalateError, match=words):
        make_reward_model(f"{plug_in}:Vowels")


def test_an_installed_package_brings_its_own_by_entry_point(tmp_path: Path, plug_in: Path) -> None:
    """A real package, installed for real into a folder, found by a fresh interpreter."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "vowels_reward.py").write_text(PLUG_IN)
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "vowels-reward"\nversion = "1.2"\n'
        '[project.entry-points."palate.reward_models"]\nvowels = "vowels_reward:Vowels"\n'
        '[tool.hatch.build.targets.wheel]\ninclude = ["vowels_reward.py"]\n'
    )
    installed = tmp_path / "installed"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(installed),
        str(project),
    ]
    subprocess.run(install, check=True, capture_output=True)
    program = (
        f"import sys; sys.path.insert(0, {str(installed)!r})\n"
        "from palate.rewards import REWARD_MODELS, load_reward_model\n"
        "assert 'vowels' in REWARD_MODELS\n"
        "print(load_reward_model('vowels')[1]['source'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "vowels-reward 1.2"


def test_the_built_in_names() -> None:
    assert {"random", "longest", "shortest", "first", "overlap", "embedding"} <= set(REWARD_MODELS)


@given(st.text(max_size=30))
def test_any_text_is_a_spec_or_a_clear_error(text: str) -> None:
    try:
        assert parse_spec(text).name
    except PalateError as error:
        assert str(error)
