"""`--device` and `--dtype`: what every model of a command takes that does not say so itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from command import palate
from palate.runs import open_run
from tiny_models import build, save

ASKED = ("eval", "mini", "--view", "none", "--limit", "2")


def fingerprints(folder: Path) -> list[str]:
    [run] = folder.glob("runs/mini-*")
    return [str(model.identity) for model in open_run(run).settings.models]


def test_it_holds_for_every_model_that_does_not_say_so_itself(tmp_path: Path) -> None:
    weights = save(tmp_path / "model", build("llama"))
    done = palate(
        *ASKED, "--dtype", "bfloat16", "--rm", f"likelihood:{weights}", "--rm", f"pmi:{weights},dtype=float16",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second = [text for text in fingerprints(tmp_path) if str(weights) in text or "model" in text][:2]
    assert "bfloat16-cpu" in first and "float16-cpu" in second and "bfloat16-cpu" not in second
    assert "PALATE_DTYPE" not in os.environ
    [run] = tmp_path.glob("runs/mini-*")
    assert "--dtype bfloat16" in (run / "command.txt").read_text()


def test_a_file_of_options_may_name_the_device(tmp_path: Path) -> None:
    weights = save(tmp_path / "model", build("llama"))
    (tmp_path / "eval.toml").write_text(f'device = "nonsense:3"\nrm = "likelihood:{weights}"\n')
    done = palate(*ASKED, "--config", "eval.toml", cwd=tmp_path)
    assert done.returncode == 2 and "device=nonsense:3 is not to be had on this machine" in done.stderr
    done = palate(*ASKED, "--config", "eval.toml", "--device", "cpu", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [("--device",), ("--dtype", "--json"), ("--device=",)])
def test_without_a_value_it_says_which_there_are(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = palate(*ASKED, *words, cwd=tmp_path)
    assert done.returncode == 2 and f"{words[0].strip('=')} needs a value, such as" in done.stderr
