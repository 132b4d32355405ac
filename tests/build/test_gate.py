"""The release gate fails on planted artefacts, passes clean data, and says what few items cannot tell."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from dumps import WORDS, accepted_plan, write_dump

from command import palate
from palate.build import Gate, GateResult, run_gate
from palate.build._assemble import balance_positions
from palate.build._gate import judge
from palate.data import load_benchmark
from palate.evaluation import evaluate
from palate.records import Benchmark, Card, Comparison, Post, User

Plant = Callable[[str], str]
CARD = Card(name="planted", title="planted", version="1", licence="none", source="the test")
BLIND = Gate(models=[])


def benchmark(plant: Plant = str, users: int = 60, each: int = 5, seed: int = 0) -> Benchmark:
    """Responses of random words and equal length, which nobody can tell apart but for what is planted."""
    drawn = random.Random(seed)

    def text() -> str:
        return " ".join(drawn.choice(WORDS) for _ in range(12))

    pairs = []
    for user in range(users):
        for number in range(each):
            chosen, rejected = text(), text()
            size = max(len(chosen), len(rejected))
            responses = (plant(chosen.ljust(size, "x")), rejected.ljust(size, "x"))
            pairs.append(
                Comparison(id=f"{user}-{number}", user_id=f"u{user}", prompt=text(), responses=responses, preferred=0)
            )
    people = {f"u{n}": User(id=f"u{n}", posts=(Post(id=f"p{n}", text=text()),)) for n in range(users)}
    return Benchmark(card=CARD, users=people, comparisons=tuple(balance_positions(pairs, seed)))


def verdicts(result: GateResult) -> dict[str, str]:
    return {measure.kind: measure.verdict for measure in result.measures}


PLANTS: dict[str, tuple[Plant, str]] = {
    "brackets": (lambda text: f"[{text[1:-1]}]", "artefacts"),
    "length": (lambda text: text + " and then some more of it", "length"),
    "a signature phrase": (lambda text: "I hope this helps " + text[18:], "artefacts"),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_artefact_fails_the_gate_and_the_first_line_names_it(plant: str) -> None:
    change, kind = PLANTS[plant]
    result = run_gate(benchmark(change), BLIND, seed=0)
    assert verdicts(result)[kind] == "outside"
    assert not result.passes
    assert result.first_line.startswith("RELEASE GATE FAILED, not within 2 points of chance: ")
    assert f"{kind} (" in result.first_line.partition(". ")[0]


def test_a_chosen_response_that_always_comes_first_fails_the_gate() -> None:
    clean = benchmark()
    first = [
        Comparison(
            id=item.id, user_id=item.user_id, prompt=item.prompt, responses=(item.chosen, *item.rejected), preferred=0
        )
        for item in clean.comparisons
    ]
    result = run_gate(Benchmark(card=CARD, users=clean.users, comparisons=tuple(first)), BLIND, seed=0)
    assert verdicts(result)["position"] == "outside"


def test_clean_data_passes_the_gate_as_far_as_its_items_can_tell() -> None:
    result = run_gate(benchmark(users=100), Gate(models=[], within=0.1), seed=0)
    assert result.passes
    assert result.first_line.startswith("Release gate passed: every measure is within 10 points of chance (intervals")
    for measure in result.measures:  # with the usual bound, nothing is shown to be outside
        assert measure.accuracy is not None and measure.chance is not None
        assert judge(measure.accuracy, measure.low, measure.high, measure.chance, 0.02) != "outside"


def test_a_few_items_tell_little_and_the_card_says_so() -> None:
    result = run_gate(benchmark(users=12, each=2, seed=1), BLIND, seed=0)
    assert "outside" not in verdicts(result).values()
    assert result.first_line.startswith("Too few items to tell")


def test_twins_pass_by_construction_whatever_is_planted(tmp_path: Path) -> None:
    planted = benchmark(PLANTS["length"][0], users=20, each=1)
    twins = []
    for item in planted.comparisons:
        mirror = {"user_id": f"{item.user_id}t", "preferred": 1 - item.preferred}
        twins.append(msgspec.structs.replace(item, twin=f"{item.id}t"))
        twins.append(msgspec.structs.replace(item, id=f"{item.id}t", twin=item.id, **mirror))
    people = {item.user_id: User(id=item.user_id) for item in twins}
    whole = Benchmark(card=CARD, users=people, comparisons=tuple(twins))
    result = run_gate(whole, Gate(), seed=0)
    assert result.passes
    assert result.first_line.startswith("Release gate passed by construction: every item has a twin")
    [control] = evaluate(whole, ["longest"], ["none"], out=tmp_path).results
    assert control.accuracy == 0.5  # as the gate says without looking


def test_what_cannot_be_measured_is_said() -> None:
    result = run_gate(benchmark(users=12, each=2), Gate(models=["./nowhere.py:Model"]), seed=0)
    assert verdicts(result)["none"] == "not measured"
    assert not result.passes
    assert "Release gate incomplete: none (./nowhere.py:Model) not measured: no such file" in result.first_line


def test_a_benchmark_that_fails_is_written_and_says_so_first(tmp_path: Path) -> None:
    file = write_dump(tmp_path, users=30)
    rows = file.read_text().splitlines(keepends=True)
    signed = [
        row.replace("&lt;/p&gt;", " Hope that helps you out.&lt;/p&gt;")
        if 'PostTypeId="2"' in row and 'PostTypeId="1"' in before
        else row
        for before, row in zip(["", *rows], rows, strict=False)
    ]
    file.write_text("".join(signed))
    done = palate("build", accepted_plan(tmp_path), "--to", "signed", cwd=tmp_path)
    assert done.returncode == 0
    assert "RELEASE GATE FAILED" in done.stdout
    assert (tmp_path / "signed" / "CARD.md").read_text().startswith("RELEASE GATE FAILED")
    assert load_benchmark(tmp_path / "signed").card.description.startswith("RELEASE GATE FAILED")
