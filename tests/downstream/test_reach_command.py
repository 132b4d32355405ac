"""`palate reach` as people run it: from one end to the other, reported again, misused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from command import palate
from palate.downstream import ReachSummary
from tiny_models import TinyModels

pytest.importorskip("torch")
pytest.importorskip("rouge_score", reason="the critic reference needs .[downstream]")

CRITIC = ("--critic", "reference:rouge1,encoder=none")


def test_from_one_end_to_the_other(tiny_models: TinyModels, tmp_path: Path) -> None:
    words = ["reach", "mini", "--policy", f"{tiny_models.causal()},device=cpu", "--rm", "shortest", "--rm", "overlap"]
    words += [*CRITIC, "--view", "posts:1", "-n", "3", "--tokens", "4", "--limit", "16"]
    done = palate(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for word in ("Reach: what a small step", "(critic)", "overlap", "Rise", "root-nat", "report.html"):
        assert word in done.stdout
    said = palate(*words, "--json", cwd=tmp_path)
    summary = msgspec.json.decode(said.stdout, type=ReachSummary)
    assert summary.complete
    assert [one.rm for one in summary.models] == ["shortest", "overlap"]
    assert sum(summary.halves) == summary.users
    shortest = summary.models[0]
    assert shortest.reach is not None and shortest.reach.difference == 0  # it reads no view
    [run] = tmp_path.glob("runs/mini-reach-*")
    assert palate("report", f"runs/{run.name}", "--json", cwd=tmp_path).stdout == said.stdout
    hidden = palate("report", str(run), "--without-users", cwd=tmp_path)
    assert hidden.returncode == 0
    assert "Sample 1" not in (run / "report.html").read_text()
    shared = palate(
        "bon",
        *words[1:8],
        *CRITIC,
        "--policy-view",
        "posts:1",
        "-n",
        "3",
        "--tokens",
        "4",
        "--limit",
        "16",
        "--top-p",
        "1",
        cwd=tmp_path,
    )
    assert shared.returncode == 0
    assert len(list(tmp_path.glob("runs/samples/*"))) == 1  # the texts are drawn once for both


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-n", "1"], "-n must be at least 2"),
        (["--temperature", "0"], "--temperature 0"),
        (["--view", "oracle"], "--view oracle"),
        (["--view", "judgments:4"], "Did you mean 'judgements'?"),
        (["--limit", "2"], "cannot be split into two halves"),
        (["--policy", "m,url=http://127.0.0.1:9/v1"], "cannot be trained from here"),
    ],
)
def test_bad_input_ends_with_two_and_one_message(words: list[str], message: str, tmp_path: Path) -> None:
    done = palate("reach", "mini", "--rm", "shortest", *CRITIC, *words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
