"""A person whose history was lent to others' views is found there: erased, and counted in an export."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from people import LOVES, NAMES, people

from palate.data import Pseudonyms, write_benchmark
from palate.downstream import PPO, Drawing, Guiding, best_of_n, guide
from palate.evaluation import evaluate
from palate.privacy import export_user, forget
from palate.records import Benchmark
from palate.runs import open_run, write_report
from tiny_models import TinyModels

KEY = Pseudonyms(b"a key that only this test knows")
VIEW, PLAN = "posts:4+neighbours:2", "plan+neighbours:1"
CRITIC = "reference:rouge1,encoder=none"
Row = dict[str, object]


def lines(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def held() -> Benchmark:
    """One item each. Those whose names begin alike have values alike, and so are neighbours."""
    users = {
        id: msgspec.structs.replace(user, values=(*user.values, id[:2] * 3)) for id, user in people().users.items()
    }
    return msgspec.structs.replace(people(), users=users, comparisons=people().comparisons[::3])


OWNER = {item.id: item.user_id for item in held().comparisons}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, tiny_models: TinyModels) -> Path:
    """What is written in `plan` quotes nobody: only the run folder can tell of whom the writer read."""
    pytest.importorskip("rouge_score", reason="the critic reference needs .[downstream]")
    out = tmp_path_factory.mktemp("neighbours") / "runs"
    model = f"{tiny_models.causal()},device=cpu"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALATE_CACHE", str(out.parent / "cache"))
        rated = evaluate(held(), ["overlap"], ["none", VIEW, PLAN, "swapped"], writer=model, out=out, strangers=1)
        best = best_of_n(
            held(),
            model,
            ["overlap"],
            CRITIC,
            views=["posts:1"],
            policy_views=[VIEW],
            drawing=Drawing(samples=2, tokens=4),
            out=out,
        )
        guided = guide(
            held(),
            model,
            ["overlap"],
            CRITIC,
            views=[VIEW],
            guiding=Guiding(top_k=2, tokens=3),
            weights=[1.0],
            out=out,
        )
    write_report(open_run(Path(rated.run)), rated)
    write_report(open_run(Path(best.run)), best)
    write_report(open_run(Path(guided.run)), guided)
    for name, run in {"rated": rated.run, "best": best.run, "guided": guided.run}.items():
        Path(run).rename(out / name)
    return out


@pytest.fixture
def runs(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    shutil.copytree(made, tmp_path / "runs")
    return tmp_path / "runs"


def key(row: Row) -> tuple[object, ...]:
    return row["view"], row["item"], row.get("draw", 0)


def lent_by(user: str, folder: Path) -> set[tuple[object, ...]]:
    """The views of others' items in which this user's history was shown, or read by the writer."""
    views = [row for row in lines(folder / "views.jsonl") if OWNER[str(row["item"])] != user]
    return {key(row) for row in views if user in row.get("neighbours", ()) or row.get("user_id") == user}  # type: ignore[operator]


def holding(word: str, files: Iterable[Path]) -> list[str]:
    return [file.name for file in files if word in file.read_text()]


@pytest.mark.parametrize("data", [True, False])
def test_a_neighbour_is_erased_from_others_views_whether_or_not_they_are_quoted(
    runs: Path, tmp_path: Path, data: bool
) -> None:
    before = {name: lines(runs / "rated" / f"{name}.jsonl") for name in ("views", "ratings")}
    lent = lent_by("bo", runs / "rated")
    quoting_nobody = {view for view in lent if view[0] == PLAN}
    assert {view for view, *_ in lent} >= {VIEW, PLAN} and quoting_nobody
    if data:
        write_benchmark(held(), tmp_path / "data")
    forget(
        "bo", KEY, data=[tmp_path / "data"] if data else [], runs=[runs / name for name in ("rated", "best", "guided")]
    )
    for name, rows in before.items():
        left = [row for row in rows if OWNER[str(row["item"])] != "bo" and key(row) not in lent]
        assert lines(runs / "rated" / f"{name}.jsonl") == left and left, name
    files = [file for file in runs.rglob("*") if file.is_file()]
    assert not holding("chess", files) and not holding('"bo"', files)


def test_texts_that_a_policy_wrote_while_it_saw_a_neighbour_go_from_the_shared_samples_too(runs: Path) -> None:
    [shared] = (runs / "samples").glob("*/samples.jsonl")
    before = [row for row in lines(shared) if OWNER[str(row["item"])] != "bo"]
    kept = [row for row in before if "bo" not in row["neighbours"]]  # type: ignore[operator]
    assert 0 < len(kept) < len(before)
    forget("bo", KEY, runs=[runs / "best"])
    assert lines(shared) == lines(runs / "best" / "samples.jsonl") == kept
    left = {row["item"] for row in kept}
    assert {row["item"] for name in ("ratings", "grades") for row in lines(runs / "best" / f"{name}.jsonl")} == left


def test_texts_that_were_guided_by_a_neighbour_go(runs: Path) -> None:
    file, lent = runs / "guided" / "generations.jsonl", lent_by("bo", runs / "guided")
    guided = [row for row in lines(file) if OWNER[str(row["item"])] != "bo" and row.get("view")]
    kept = [row for row in guided if key(row) not in lent]
    assert 0 < len(kept) < len(guided)
    forget("bo", KEY, runs=[runs / "guided"])
    assert [row for row in lines(file) if row.get("view")] == kept


def test_of_samples_alone_a_neighbour_is_found_too(runs: Path) -> None:
    """They name nobody but strangers and neighbours, and their folder has no views."""
    [shared] = (runs / "samples").glob("*/samples.jsonl")
    assert "bo" in holding_neighbours(shared)
    write_benchmark(held(), runs.parent / "data")
    forget("bo", KEY, data=[runs.parent / "data"], runs=[shared.parent])
    assert "bo" not in holding_neighbours(shared)


def holding_neighbours(samples: Path) -> set[str]:
    return {user for row in lines(samples) for user in row.get("neighbours", ())}  # type: ignore[attr-defined]


@pytest.mark.parametrize("user", NAMES)
def test_an_export_tells_that_history_was_lent_and_holds_nothing_of_other_people(made: Path, user: str) -> None:
    found = export_user(held(), user, [made / "rated", made / "best"])
    [rated] = [one for one in found.runs if one.kind == "eval"]
    assert all("neighbours" not in row for rows in rated.lines.values() for row in rows)
    assert {row["view"] for row in rated.lines["ratings"]} == {"none"}  # everybody borrowed in the other views
    lent = lent_by(user, made / "rated")
    ratings = sum(key(row) in lent for row in lines(made / "rated" / "ratings.jsonl"))
    said = any(f"ratings.jsonl: {ratings} lines on others' items were made while this" in note for note in found.notes)
    assert said == bool(ratings)
    assert any("lines on this user's items were made while somebody else's profile" in note for note in found.notes)
    texts = json.dumps(msgspec.to_builtins(found.runs))
    assert not [love for name, love in zip(NAMES, LOVES, strict=True) if name != user and love in texts]
    [samples] = [one for one in found.runs if one.kind == "samples"]
    assert samples.lines == {}  # all were drawn while neighbours were shown


def test_a_policy_trained_while_neighbours_were_shown_may_tell_of_anybody(every_run: Path, tmp_path: Path) -> None:
    shutil.copytree(every_run / "trained", tmp_path / "trained")
    file = tmp_path / "trained" / "settings.json"
    settings = json.loads(file.read_text())
    settings["settings"]["policy_view"]["pieces"].append({"kind": "neighbours", "most": 2})
    file.write_text(json.dumps(settings))
    receipt = forget("bo", KEY, runs=[tmp_path / "trained"])
    assert (tmp_path / "trained" / "held_out.jsonl").read_bytes() == b""
    assert PPO.may_tell_of_anybody(open_run(tmp_path / "trained"))
    assert any("does not keep whose" in reason for reason in receipt.not_erased)
