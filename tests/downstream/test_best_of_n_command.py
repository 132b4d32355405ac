"""`palate bon` as people run it: from the command line, stopped at any moment, and read again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

import command
from faulty_server import faulty_server
from palate.downstream import BestOfNSummary
from tiny_models import TinyModels

pytest.importorskip("rouge_score", reason="the critic reference needs .[downstream]")

SLOW = """
import time
from palate import Rating

class Slow:
    name = "slow"
    batch_size = 4

    def rate(self, asks):
        time.sleep(0.05)
        return [Rating(scores=[sum(map(ord, text)) % 101 for text in ask.responses]) for ask in asks]
"""
CRITIC = ["--critic", "reference:rouge1,encoder=none"]
RAW = ("items.jsonl", "parts.jsonl", "views.jsonl", "samples.jsonl", "ratings.jsonl", "grades.jsonl")


def palate(*words: str, cwd: Path) -> command.Done:
    return command.palate(*words, cwd=cwd, PALATE_CACHE=str(cwd / "cache"))


def test_from_one_end_to_the_other(tiny_models: TinyModels, tmp_path: Path) -> None:
    words = ["bon", "mini", "--policy", str(tiny_models.causal()), "--rm", "overlap", "--rm", "shortest", *CRITIC]
    words += ["--view", "judgements:2", "--policy-view", "none", "--policy-view", "values"]
    words += ["-n", "4", "--tokens", "6", "--limit", "4"]
    done = palate(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "The policy sees none" in done.stdout
    assert "The policy sees values" in done.stdout
    for word in ("overlap", "shortest", "random", "longest", "oracle", "k = 4"):
        assert word in done.stdout
    [run] = tmp_path.glob("runs/mini-best-of-4-*")
    assert {file.name for file in run.iterdir()} == {
        *RAW,
        "settings.json",
        "spent.json",
        "command.txt",
        "report.html",
        "report.md",
        "results.csv",
        "summary.json",
    }
    again = palate(*words, "--json", cwd=tmp_path)
    summary = msgspec.json.decode(again.stdout, type=BestOfNSummary)
    assert summary.complete
    (run / "summary.json").unlink()
    reported = palate("report", f"runs/{run.name}", "--json", cwd=tmp_path)
    assert reported.stdout == again.stdout
    assert msgspec.json.decode((run / "summary.json").read_bytes(), type=BestOfNSummary) == summary


def test_killed_at_any_moment_it_goes_on_and_ends_byte_for_byte_the_same(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    with faulty_server(delay=0.02) as address:
        words = ["bon", "mini", "--policy", f"m,url={address}/plain/v1", *CRITIC]
        words += ["--rm", "./slow.py:Slow", "--view", "none", "--policy-view", "none", "--policy-view", "values"]
        words += ["-n", "8", "--limit", "30", "--json", "--out"]

        def cache(out: str) -> dict[str, str]:
            return {"PALATE_CACHE": str(tmp_path / f"cache-{out}")}

        def ends_well(out: str) -> bool:
            return command.palate(*words, out, cwd=tmp_path, **cache(out)).returncode == 0

        assert ends_well("calm")
        draw = random.Random(1)
        kills = 0
        for target in ("samples.jsonl", "samples.jsonl", "ratings.jsonl", "grades.jsonl"):
            process = subprocess.Popen(
                [sys.executable, "-m", "palate", *words, "stormy"],
                cwd=tmp_path,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=os.environ | cache("stormy"),
            )
            before = size(tmp_path, target)
            deadline = time.monotonic() + command.GUARD
            while process.poll() is None and time.monotonic() < deadline and size(tmp_path, target) == before:
                time.sleep(0.002)
            time.sleep(draw.random() * 0.05)
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
            process.wait()
        assert kills >= 2
        tear(tmp_path)
        assert ends_well("stormy")
    [calm], [stormy] = (list(tmp_path.glob(f"{name}/mini-best-of-*")) for name in ("calm", "stormy"))
    assert calm.name == stormy.name
    for name in RAW:
        assert (calm / name).read_bytes() == (stormy / name).read_bytes(), name
    drawn = [sorted(tmp_path.glob(f"{name}/samples/*/samples.jsonl")) for name in ("calm", "stormy")]
    assert len(drawn[0]) == 2
    assert [file.read_bytes() for file in drawn[0]] == [file.read_bytes() for file in drawn[1]]


def size(folder: Path, name: str) -> int:
    return sum(file.stat().st_size for file in folder.glob(f"stormy/mini-best-of-*/{name}"))


def tear(folder: Path) -> None:
    """Half a line at the end of what was being written, as a crash of the machine leaves it."""
    for name in ("samples.jsonl", "ratings.jsonl", "grades.jsonl"):
        [file] = folder.glob(f"stormy/mini-best-of-*/{name}")
        with file.open("ab") as stream:
            stream.write(b'{"policy_view": "no')


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-n", "0"], "-n is the number of samples"),
        (["-n", "4", "--k", "5"], "--k 5 is more than the 4 samples"),
        (["--temperature", "-1"], "--temperature is 0 or more"),
        (["--top-p", "0"], "--top-p is more than 0 and at most 1"),
        (["--policy-view", "judgments:4"], "Did you mean 'judgements'?"),
        (["--policy", "./nowhere"], "nowhere"),
        (["--policy", "smollm2,uri=http://x"], "option"),
    ],
)
def test_bad_input_ends_with_two_and_one_message(words: list[str], message: str, tmp_path: Path) -> None:
    done = palate("bon", "mini", "--rm", "shortest", *CRITIC, *words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_critic_that_says_nothing_of_these_items(tmp_path: Path) -> None:
    done = palate("bon", "mini", "--rm", "shortest", "--critic", "sim", cwd=tmp_path)
    assert done.returncode == 2
    assert "sim" in done.stderr
    missing = palate("bon", "mini", "--rm", "shortest", cwd=tmp_path)
    assert missing.returncode == 2
    assert "--critic" in missing.stderr


def test_ratings_of_such_a_run_cannot_be_read_again(tiny_models: TinyModels, tmp_path: Path) -> None:
    words = ["bon", "mini", "--policy", str(tiny_models.causal()), "--rm", "shortest", *CRITIC, "-n", "2"]
    assert palate(*words, "--tokens", "4", "--limit", "2", cwd=tmp_path).returncode == 0
    [run] = tmp_path.glob("runs/mini-best-of-2-*")
    refused = palate("report", str(run), "--read-again", cwd=tmp_path)
    assert refused.returncode == 2
    assert "leave out --read-again" in refused.stderr
    other = palate("audit", str(run), cwd=tmp_path)
    assert other.returncode == 2
    assert "palate bon" in other.stderr
