"""What a run costs: foretold, counted as the server counts, summed over resumes, and said in every form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from command import Done, palate
from counting_server import CountingServer, counting_server
from palate.downstream import Guiding, guide
from palate.engine import CHARACTERS
from palate.engine._meter import count
from palate.evaluation import RATINGS, evaluate
from palate.records import Ask, Rating
from palate.runs import SPENT, Estimate, forecasting, read_spent, rehearse
from tiny_models import TinyModels

MODELS = """
from pathlib import Path

from palate import Rating


class Careful:
    name = "careful"

    def rate(self, asks):
        Path("asked").touch()
        if not Path("go").exists():
            raise RuntimeError("not yet")
        return [Rating([float(len(text)) for text in ask.responses]) for ask in asks]
"""
ITEMS = 12


@pytest.fixture
def server() -> Iterator[CountingServer]:
    with counting_server() as running:
        yield running


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MODELS)
    return tmp_path


def judge(server: CountingServer) -> str:
    return f"judge:paid,url={server.address},verdict=text,tokens=8,prices=1/2"


def measured(place: Path, *words: str) -> Done:
    given = ("eval", "mini", "--limit", str(ITEMS), "--view", "posts:2", *words)
    return palate(*given, cwd=place, PALATE_CACHE=str(place / "cache"))


def row(spent: dict[str, Any], model: str) -> dict[str, Any]:
    [found] = [one for one in spent["models"] if one["model"] == model]
    return dict(found)


def test_costs_are_those_that_the_server_counts(server: CountingServer, place: Path) -> None:
    done = measured(place, "--rm", judge(server), "--rm", "longest", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    paid = row(found["spent"], "judge:paid,verdict=text")
    assert paid["calls"] == paid["requests"] == server.requests == 2 * ITEMS
    assert (paid["prompt_tokens"], paid["completion_tokens"]) == (server.prompt_tokens, server.completion_tokens)
    assert paid["cost"] == pytest.approx((server.prompt_tokens + 2 * server.completion_tokens) / 1e6)
    assert row(found["spent"], "longest")["requests"] == 0
    run = place / found["run"]
    assert json.loads((run / "summary.json").read_text())["spent"] == found["spent"]
    for name in ("report.md", "report.html"):
        text = (run / name).read_text()
        assert "What it cost" in text and f"{server.prompt_tokens:,}" in text, name
    before = {file.name: file.read_bytes() for file in run.glob("*.jsonl")}

    again = measured(place, "--rm", judge(server), "--rm", "longest")  # nothing is left to measure
    assert server.requests == 2 * ITEMS and "What it cost" in again.stdout
    assert f"{server.prompt_tokens:,}" in again.stdout
    (run / SPENT).unlink()
    said = palate("report", run, cwd=place).stdout
    assert "Nothing is recorded of what this run cost" in " ".join(said.split())
    assert json.loads((run / "summary.json").read_text())["spent"] is None
    assert {file.name: file.read_bytes() for file in run.glob("*.jsonl")} == before

    other = measured(place, "--rm", judge(server), "--rm", "shortest", "--json")  # another run, the same questions
    assert server.requests == 2 * ITEMS
    kept = row(json.loads(other.stdout)["spent"], "judge:paid,verdict=text")
    assert (kept["calls"], kept["cached"], kept["requests"], kept["cost"]) == (2 * ITEMS, 2 * ITEMS, 0, 0.0)


def test_costs_of_a_run_that_was_resumed_add_up(server: CountingServer, place: Path) -> None:
    words = ("--rm", judge(server), "--rm", "./mine.py:Careful", "--json")
    stopped = measured(place, *words)
    assert stopped.returncode == 2 and "not yet" in stopped.stderr
    begun = server.requests
    assert 0 < begun < 2 * ITEMS
    [file] = (place / "runs").glob(f"*/{SPENT}")
    first = read_spent(file.parent)
    assert first is not None and row(json.loads(file.read_text()), "judge:paid,verdict=text")["requests"] == begun

    (place / "go").touch()
    found = json.loads(measured(place, *words).stdout)
    paid = row(found["spent"], "judge:paid,verdict=text")
    assert found["spent"]["times"] == 2 and paid["requests"] == server.requests == 2 * ITEMS
    assert paid["prompt_tokens"] == server.prompt_tokens


def test_a_dry_run_asks_nobody_and_keeps_nothing(server: CountingServer, place: Path) -> None:
    words = ("--rm", judge(server), "--rm", "./mine.py:Careful", "--rm", "longest", "--dry-run")
    done = measured(place, *words, "--json")
    assert done.returncode == 0, done.stderr
    assert server.requests == 0
    assert not (place / "runs").exists() and not (place / "asked").exists()
    found = json.loads(done.stdout)
    assert found["left"] == ITEMS and found["rehearsed"]
    assert sorted(model for _, model in found["unasked"]) == ["careful", "judge:paid,verdict=text"]
    paid = row(found, "judge:paid,verdict=text")
    assert paid["calls"] == paid["requests"] == 2 * ITEMS
    assert paid["completion_tokens"] == 2 * ITEMS * 8  # the longest answers that there may be
    assert paid["cost"] == pytest.approx((paid["prompt_tokens"] + 2 * paid["completion_tokens"]) / 1e6)
    table = " ".join(measured(place, *words).stdout.split())
    assert (
        "What 12 items would take" in table
        and "nothing was sent to a server" in table
        and "careful, judge:paid" in table
    )

    (place / "go").touch()
    measured(place, *words[:-1])
    assert server.requests == 2 * ITEMS  # as foretold; and the rehearsal left no made-up answer in the cache
    assert server.prompt_tokens <= 2 * paid["prompt_tokens"]


def test_what_is_to_come_is_told_once_the_first_items_are_measured(
    server: CountingServer, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("PALATE_CACHE", str(place / "cache"))
    told: list[tuple[Estimate, int, int]] = []

    def hear(estimate: Estimate) -> None:
        [folder] = (place / "runs").glob("mini-*")
        told.append((estimate, len(list(RATINGS.read(folder))), server.requests))

    with forecasting(hear):
        evaluate("mini", [judge(server)], ["posts:2"], limit=ITEMS)
    [(estimate, kept, asked)] = told
    assert kept == estimate.measured == 4 and asked == 8  # the first items are on the disk, and only they
    assert estimate.left == ITEMS - 4
    [paid] = estimate.models
    assert paid.calls == paid.requests == 2 * (ITEMS - 4)
    assert estimate.paid and paid.completion_tokens == 2 * paid.requests
    assert server.requests == 2 * ITEMS  # nothing was asked twice

    said = measured(place, "--rm", judge(server).replace("paid", "dear"), "--rm", "longest").stderr
    assert "Still to come" in said and "Measured on the first 4 items" in said


class RemembersTexts:
    """Reads each text once, as an encoder whose vectors are kept does."""

    name = "remembers"

    def __init__(self) -> None:
        self.read: set[str] = set()

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        texts = {text for ask in asks for text in (ask.prompt, *ask.responses, *(part.text for part in ask.view.parts))}
        count(prompt_tokens=sum(len(text) for text in texts - self.read) // CHARACTERS, remembered=True)
        self.read |= texts
        return [Rating([0.0] * len(ask.responses)) for ask in asks]


def test_texts_that_come_again_are_foretold_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four items of mini show a quarter of all people, who come again with every other item."""
    monkeypatch.chdir(place)
    told: list[Estimate] = []
    with forecasting(told.append):
        summary = evaluate("mini", [RemembersTexts()], ["none", "posts:5", "swapped:posts:5"])
    [estimate], [took] = told, [one for one in read_spent(Path(summary.run)).models if one.model == "remembers"]
    [foretold] = estimate.models
    assert took.prompt_tokens * 0.7 < foretold.prompt_tokens < took.prompt_tokens * 1.5


def test_guide_tells_of_progress_within_a_text_and_rehearses_a_few_steps(
    tmp_path: Path, tiny_models: TinyModels
) -> None:
    heard: list[float] = []
    policy, guiding = str(tiny_models.causal()), Guiding(top_k=2, tokens=12)

    def measure(**given: Any) -> Any:
        return guide(
            "sim,users=2", policy, ["overlap"], "sim",
            views=["none", "judgements:2"], weights=[1], guiding=guiding, accuracy=False, limit=2, **given,
        )  # fmt: skip

    estimate = rehearse(measure)
    assert estimate is not None and estimate.left == 2
    texts = {one.part: one for one in estimate.models}
    assert texts["policy"].calls == 2 * 3  # alone, and guided under each of two views
    assert 0 < texts["policy"].completion_tokens <= 2 * 3 * 12
    assert texts["critic"].calls == 2 * 3 and not estimate.unasked
    measure(out=tmp_path, progress=lambda what, done, total: heard.append(done))
    assert any(done != int(done) for done in heard) and heard == sorted(heard)
