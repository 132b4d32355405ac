"""How much of a claimed gain survives."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from planted_audits import benchmark_of, run_of, written

import command
from palate.audit import audit_benchmark
from palate.audit._claims import Impersonal, _judge, judge_number
from palate.evaluation import RatedItem, Ratings
from palate.records import Benchmark, Comparison, PalateError, User


def with_brackets(share: float) -> Benchmark:
    """A list of the rejected response instead of the response, in a share of the items."""
    draw = random.Random(0)
    words = "river window evening table letter music winter bridge paper coffee market story".split()
    items = []
    for number in range(300):
        texts = [f"{' '.join(draw.sample(words, 8))}." for _ in range(2)]
        rejected = str([texts[1]]) if draw.random() < share else texts[1]
        items.append(
            Comparison(
                id=f"i{number}",
                user_id=f"u{number % 30}",
                prompt=f"Question {number}?",
                responses=(texts[0], rejected),
                preferred=0,
            )
        )
    return benchmark_of([User(id=f"u{number}") for number in range(30)], items)


def test_nothing_survives_where_brackets_tell_the_choice(tmp_path: Path) -> None:
    found = audit_benchmark(written(with_brackets(1.0), tmp_path / "b"), impersonal=False, claimed=0.95)
    [claim] = found.claims
    assert claim.best == "artefacts" and claim.best_accuracy > 0.95
    assert claim.survives is not None and claim.survives.high < 0.2
    assert "of the claimed gain survives" in found.findings[0].text and found.findings[0].severity == "warning"


def test_what_is_left_is_what_is_above_the_artefact(tmp_path: Path) -> None:
    """Brackets in 40% of the items make the artefact right on about 70%; of a claimed 90%, half is left."""
    found = audit_benchmark(written(with_brackets(0.4), tmp_path / "b"), impersonal=False, claimed=0.9)
    survives = found.claims[0].survives
    assert survives is not None and survives.low < 0.5 < survives.high
    assert survives.high - survives.low < 0.4


def test_a_run_is_judged_by_its_own_items(tmp_path: Path) -> None:
    """The planted model is right on 60% without and 80% with a profile: a third of the gain is impersonal."""
    run = run_of({"north": 20, "south": 20}, dict.fromkeys(("north", "south"), (0.6, 0.8)), tmp_path, items=15)
    items = [json.loads(line) for line in (run / "items.jsonl").read_text().splitlines()]
    comparisons = [
        Comparison(
            id=item["id"],
            user_id=item["user_id"],
            prompt=item["prompt"],
            responses=tuple(item["responses"]),
            preferred=item["preferred"],
        )
        for item in items
    ]
    benchmark = benchmark_of([User(id=name) for name in {item.user_id for item in comparisons}], comparisons)
    found = audit_benchmark(written(benchmark, tmp_path / "b"), impersonal=False, run=run)
    [claim] = found.claims
    assert claim.accuracy == pytest.approx(0.8, abs=0.05)
    # the planted responses begin with "good" and "evil", so the artefact is right on every one
    assert claim.best == "artefacts" and claim.survives is not None and claim.survives.value < 0


def columns_of(accuracies: list[float], draw: np.random.Generator, users: int = 60, items: int = 10) -> Impersonal:
    rated = [
        RatedItem(id=f"{u}-{i}", user_id=f"u{u}", prompt=f"{u} {i}?", responses=("a", "b"), preferred=0)
        for u in range(users)
        for i in range(items)
    ]
    credits = {f"m{place}": (draw.random(len(rated)) < share) * 1.0 for place, share in enumerate(accuracies)}
    return Impersonal(Ratings(rated, {}), credits)


@pytest.mark.parametrize("accuracies", [[0.65, 0.5], [0.65] * 5, [0.5] * 5])
def test_the_interval_holds_what_survives_of_a_number(accuracies: list[float]) -> None:
    """Of five that are as good, the best has been lucky; the interval has to know that."""
    truth = (0.75 - max(accuracies)) / 0.25
    covered = 0
    for seed in range(40):
        survives = judge_number(0.75, columns_of(accuracies, np.random.default_rng(seed)), seed).survives
        assert survives is not None
        covered += survives.low <= truth <= survives.high
    assert covered >= 35


def test_two_items_do_not_prove_a_claim() -> None:
    """Whatever reads nothing of the person is wrong on both: that says next to nothing."""
    for users, low in ((2, -0.4), (50, 0.88)):
        impersonal = columns_of([0.0], np.random.default_rng(0), users=users, items=1)
        survives = judge_number(0.8, impersonal, 0).survives
        assert survives is not None and survives.value == 1 and survives.low == pytest.approx(low, abs=0.01)


def test_a_claim_about_some_items_is_held_against_what_rivals_get_on_them() -> None:
    """The longest response is right on every item that the run measured, and on no other."""
    impersonal = columns_of([0.5], np.random.default_rng(0))
    measured = np.arange(len(impersonal.ratings.items)) % 3 == 0
    impersonal.credits["longest"] = measured * 1.0
    claimed = np.where(measured, np.arange(len(measured)) % 9 > 0, np.nan)
    claim = _judge("m", "posts", claimed, {}, None, impersonal, 0)
    assert claim.best == "longest" and claim.best_accuracy == 1.0
    assert claim.survives is not None and claim.survives.value < 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"claimed": 86.0}, "a share above 0 and at most 1"),
        ({"claimed": 0.8, "run": "runs/x"}, "not both"),
    ],
)
def test_what_is_no_claim_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(PalateError, match=said):
        audit_benchmark("mini", **given)  # type: ignore[arg-type]


def test_a_claim_below_guessing_claims_nothing(tmp_path: Path) -> None:
    found = audit_benchmark(written(with_brackets(0.0), tmp_path / "b"), impersonal=False, claimed=0.45)
    assert found.claims[0].survives is None and "nothing is claimed over guessing" in found.findings[0].text


def test_the_claim_is_the_first_thing_that_the_command_says(tmp_path: Path) -> None:
    folder = written(with_brackets(1.0), tmp_path / "b")
    done = command.palate("audit", folder, "--no-impersonal", "--claimed", "0.95", "--output", tmp_path / "a.md")
    assert done.returncode == 0, done.stderr
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    assert lines[1] == "What survives of the claim" and "of the claimed gain survives" in lines[2]
    page = (tmp_path / "a.md").read_text(encoding="utf-8")
    assert page.index("of the claimed gain survives") < page.index("How far one gets")
    assert "begins with" in page or "ends with" in page or "contains" in page


def test_what_others_chose_of_the_same_pairs_is_said_beside_a_bare_number(tmp_path: Path) -> None:
    """No word tells what everybody likes of these pairs, so no impersonal model learns it from other pairs."""
    words = np.random.default_rng(1).permutation([f"w{number}" for number in range(480)]).reshape(20, 3, 8)
    pairs = [tuple(map(" ".join, pair)) for pair in words.tolist()]
    comparisons = [
        Comparison(
            id=f"{user}-{number}",
            user_id=f"user-{user}",
            prompt=prompt,
            responses=(one, other),
            preferred=int((user + number) % 5 == 0) if number % 2 else 1 - int((user + number) % 5 == 0),
        )
        for user in range(15)
        for number, (prompt, one, other) in enumerate(pairs)
    ]
    users = [User(id=f"user-{user}") for user in range(15)]
    folder = written(benchmark_of(users, comparisons), tmp_path / "b")
    found = audit_benchmark(folder, impersonal=False, claimed=0.8)
    assert found.findings[0].severity == "warning"
    assert "their majority gets 80.0%" in found.findings[0].text and "0.0% survives" in found.findings[0].text
