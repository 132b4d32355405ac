"""Whatever has a name can be somebody else's: a file of their own, or an installed package."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from palate.cli import main
from palate.data import LOADERS, load_benchmark
from palate.downstream import CRITICS, make_critic
from palate.evaluation import evaluate
from palate.personal import METHODS, parse_method, train
from palate.records import PalateError, Registry
from palate.rewards import REWARD_MODELS, make_reward_model
from palate.runs import EXPERIMENTS
from palate.views import RETRIEVERS, make_retriever

PAGE = Path(__file__).parents[1] / "docs/plug-ins.md"
REGISTRIES: list[Registry[object]] = [REWARD_MODELS, CRITICS, METHODS, RETRIEVERS, LOADERS, EXPERIMENTS]  # type: ignore[list-item]


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plug-ins of the documentation, as files in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name, text in re.findall(r'^```python title="(.*?)"\n(.*?)^```$', PAGE.read_text(), re.MULTILINE | re.DOTALL):
        Path(name).write_text(text)


def settings(run: str) -> str:
    return (Path(run) / "settings.json").read_text()


def test_a_retriever_of_ones_own_is_part_of_the_settings() -> None:
    def run() -> str:
        spec = "./longest_first.py:LongestFirst"
        return evaluate("mini", ["longest"], ["posts:2"], retriever=spec, limit=4).run

    before = run()
    assert "longest_first.py:LongestFirst sha256:" in settings(before)
    Path("longest_first.py").write_text(Path("longest_first.py").read_text() + "\n# changed\n")
    assert run() != before


def test_a_retriever_that_loses_a_text_is_refused() -> None:
    Path("bad.py").write_text("class Bad:\n    name = 'bad'\n    def rank(self, searches):\n        return [[0]]\n")
    with pytest.raises(PalateError, match="'bad' must rank every text of every search once"):
        evaluate("mini", ["longest"], ["posts:2"], retriever="./bad.py:Bad", limit=4)


def test_a_critic_of_ones_own() -> None:
    critic = make_critic("./brevity.py:Brevity,words=3", load_benchmark("mini"))
    assert critic.name == "brevity" and "sha256:" in critic.fingerprint
    assert critic.fingerprint != make_critic("./brevity.py:Brevity,words=4", load_benchmark("mini")).fingerprint


def test_a_loader_of_ones_own_and_data_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["eval", "./boats.py:load,users=6", "--rm", "longest", "--view", "none", "--json"])
    assert json.loads(capsys.readouterr().out)["users"] == 6
    Path("boats.py:load").mkdir()
    with pytest.raises(PalateError, match="no data in this folder"):
        load_benchmark("./boats.py:load")
    with pytest.raises(PalateError, match="say which class or function of boats"):
        load_benchmark("./boats.py")
    Path("none.py").write_text("def load():\n    return 3\n")
    with pytest.raises(PalateError, match="gave a int where a"):
        load_benchmark("./none.py:load")


def test_a_method_of_ones_own_is_trained_kept_and_loaded() -> None:
    method = str(Path("mean_taste.py").resolve()) + ":MeanTaste"
    summary = train("sim,users=4,judgements=6,items=4", [method], features="traits", folds=2)
    assert {one.rm for one in summary.results} == {"bradley-terry", method}
    assert '"method_source": "sha256:' in settings(summary.run)
    kept = Path(summary.run) / "models" / "mean_taste.py:MeanTaste"
    model = make_reward_model(f"personal:{kept},method={method}")
    before = model.fingerprint  # type: ignore[attr-defined]
    Path("mean_taste.py").write_text(Path("mean_taste.py").read_text() + "\n# changed\n")
    assert make_reward_model(f"personal:{kept},method={method}").fingerprint != before  # type: ignore[attr-defined]


def test_what_is_no_method_is_refused() -> None:
    with pytest.raises(PalateError, match=r"has to be a class that extends palate\.personal\.Method"):
        parse_method("./brevity.py:Brevity")
    with pytest.raises(PalateError, match="a method takes no argument"):
        parse_method("per-user:3")


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.group)
def test_every_kind_is_found_in_an_installed_package(
    registry: Registry[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "thing-1.2.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1.2\n")
    (package / "entry_points.txt").write_text(f"[{registry.group}]\nmy-thing = brevity:Brevity\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert dict(registry.items())["my-thing"] == "From thing 1.2."
    found = registry.find("my-thing")
    assert found.source == "thing 1.2" and found.target.__name__ == "Brevity"  # type: ignore[attr-defined]
    with pytest.raises(PalateError, match=f"unknown {registry.kind} 'my-thig'. Did you mean 'my-thing'"):
        registry.find("my-thig")


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.group)
def test_every_target_exists_and_is_described(registry: Registry[object]) -> None:
    for name, about in registry.items():
        assert about and registry.find(name).target is not None


def test_the_seed_of_the_run_reaches_a_retriever_and_is_no_option() -> None:
    assert make_retriever("random", seed=3).fingerprint == "random-3"
    with pytest.raises(PalateError, match="unknown option 'seed'"):
        make_retriever("random,seed=3")
