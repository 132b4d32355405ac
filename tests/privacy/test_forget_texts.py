"""Forgetting a user in what policies wrote for them: best-of-N runs, guided runs and the samples that runs share."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from palate.data import Pseudonyms, load_benchmark, write_benchmark
from palate.downstream import BEST_OF_N, Drawing, Guiding, best_of_n, guide
from palate.evaluation import ITEMS
from palate.privacy import Receipt, check_receipt, forget
from palate.records import Benchmark, PalateError
from palate.runs import Appender, open_run, write_report
from tiny_models import TinyModels

pytest.importorskip("rouge_score", reason="the critic reference needs .[downstream]")

USER, OTHER = "art-01-a", "art-01-b"
NAMES = Pseudonyms(b"a key that only this test knows")
CRITIC = "reference:rouge1,encoder=none"


def few() -> Benchmark:
    mini = load_benchmark("mini")
    users = {id: user for id, user in mini.users.items() if id.startswith("art-0") and id < "art-03"}
    items = tuple(item for item in mini.comparisons if item.user_id in users and "-q1-" not in item.id)
    return msgspec.structs.replace(mini, users=users, comparisons=items)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, tiny_models: TinyModels) -> Path:
    """Runs by real use of a tiny policy; one line of samples quotes the user in another's name."""
    out = tmp_path_factory.mktemp("forget-texts") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALATE_CACHE", str(out / "cache"))
        policy, benchmark = str(tiny_models.causal()), few()
        best = best_of_n(
            benchmark,
            policy,
            ["overlap"],
            CRITIC,
            views=["posts:2", "swapped"],
            policy_views=["none", "values"],
            drawing=Drawing(samples=2, tokens=4),
            out=out,
        )
        write_report(open_run(Path(best.run)), best)
        guided = guide(
            benchmark,
            policy,
            ["overlap"],
            CRITIC,
            views=["posts:2"],
            guiding=Guiding(top_k=2, tokens=3),
            weights=[1.0],
            out=out,
        )
        write_report(open_run(Path(guided.run)), guided)
    Path(best.run).rename(out / "best")
    Path(guided.run).rename(out / "guided")
    return out


@pytest.fixture
def runs(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    shutil.copytree(made, tmp_path / "runs")
    return tmp_path / "runs"


def erase(runs: Path, *, dry_run: bool = False) -> Receipt:
    return forget(USER, NAMES, runs=[runs / "best", runs / "guided"], dry_run=dry_run)


def contents(folder: Path) -> dict[str, bytes]:
    files = sorted(file for file in folder.rglob("*") if file.is_file() and "cache" not in file.parts)
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def lines(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_no_byte_of_the_user_is_left_in_any_file(runs: Path) -> None:
    own = {item.id for item in few().comparisons if item.user_id == USER}
    assert sum(f'"{min(own)}"'.encode() in content for content in contents(runs).values()) > 10
    receipt = erase(runs)
    for name, content in contents(runs).items():
        assert USER.encode() not in content, name
        assert not any(f'"{item}"'.encode() in content for item in own), name
    assert check_receipt(receipt, USER, NAMES).clean
    assert not any("still holds" in reason for reason in receipt.not_erased)


def test_the_receipt_names_runs_and_the_samples_beside_them(runs: Path) -> None:
    receipt = erase(runs)
    by_name = {Path(place.path).name: place for place in receipt.places}
    own = sum(item.user_id == USER for item in few().comparisons)
    assert by_name["best"].kind == "run" and by_name["best"].erased["items"] == own
    assert by_name["best"].erased["samples"] == by_name["best"].erased["grades"] == 2 * own  # two policy views
    assert by_name["guided"].erased["texts"] == 2 * own  # the policy alone, and guided
    shared = [place for place in receipt.places if place.kind == "samples"]
    assert len(shared) == 2 and all(place.erased == {"samples": own} for place in shared)
    assert all(change.before != change.after for place in receipt.places for change in place.files)


def test_others_stay_but_for_what_a_stranger_s_profile_may_have_shown(runs: Path, made: Path) -> None:
    erase(runs)
    for file in ("best/samples.jsonl", "best/grades.jsonl", "guided/generations.jsonl", "guided/rewards.jsonl"):
        own = {item.id for item in few().comparisons if item.user_id == USER}
        assert lines(runs / file) == [line for line in lines(made / file) if line["item"] not in own], file
    lent = [line for line in lines(made / "best" / "views.jsonl") if line.get("user_id") == USER]
    gone = {(line["view"], line["item"], line.get("draw", 0)) for line in lent}
    rated = [line for line in lines(made / "best" / "ratings.jsonl") if line["item"] not in own]
    staying = [line for line in rated if (line["view"], line["item"], line.get("draw", 0)) not in gone]
    assert lines(runs / "best" / "ratings.jsonl") == staying and len(staying) < len(rated)
    assert {line["view"] for line in staying} == {"posts:2", "swapped"}
    assert USER not in (runs / "best" / "summary.json").read_text()
    users = {item.user_id for item in list(open_run(runs / "best").read(ITEMS))}
    assert USER not in users and OTHER in users
    assert BEST_OF_N.summarise(open_run(runs / "best")).users == len(users)
    assert not {item.user_id for item in open_run(runs / "guided").read(ITEMS)} & {USER}


def test_a_text_that_quotes_the_user_goes_whoever_it_was_written_for(runs: Path, tmp_path: Path) -> None:
    benchmark = few()
    write_benchmark(benchmark, tmp_path / "data")
    post = benchmark.users[USER].posts[0].text
    file = runs / "best" / "samples.jsonl"
    rows = lines(file)
    own = {item.id for item in benchmark.comparisons if item.user_id == USER}
    place = next(place for place, row in enumerate(rows) if row["item"] not in own)
    rows[place]["texts"] = [f"As somebody said: {post}", "b"]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    receipt = forget(USER, NAMES, data=[tmp_path / "data"], runs=[runs / "best"])
    assert rows[place] not in lines(file)
    assert check_receipt(receipt, USER, NAMES).clean


def test_samples_can_be_named_alone_where_the_benchmark_tells_whose_they_are(runs: Path, tmp_path: Path) -> None:
    write_benchmark(few(), tmp_path / "data")
    [first, _] = sorted((runs / "samples").iterdir())
    with pytest.raises(PalateError, match="no such user"):
        forget(USER, NAMES, runs=[first])
    receipt = forget(USER, NAMES, data=[tmp_path / "data"], runs=[first])
    own = {item.id for item in few().comparisons if item.user_id == USER}
    assert not own & {line["item"] for line in lines(first / "samples.jsonl")}
    assert [place.kind for place in receipt.places if place.path == str(first)] == ["samples"]


def test_a_dry_run_touches_nothing_and_says_the_same(runs: Path) -> None:
    before = contents(runs)
    told = erase(runs, dry_run=True)
    assert contents(runs) == before
    assert [place.erased for place in told.places] == [place.erased for place in erase(runs).places]


def test_a_second_call_finds_nobody(runs: Path) -> None:
    erase(runs)
    with pytest.raises(PalateError, match="no such user"):
        erase(runs)


def test_a_folder_that_is_being_written_to_is_left_alone(runs: Path) -> None:
    writer = Appender(runs / "guided" / "grades.jsonl")
    with pytest.raises(PalateError, match="another process is writing"):
        erase(runs)
    writer.close()
    assert check_receipt(erase(runs), USER, NAMES).clean
