"""Exporting a user reaches every kind of run: all of their lines, with the files they are from, and nobody else's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from people import LOVES, NAMES, people

from palate.cli import main
from palate.data import write_benchmark
from palate.downstream import STEER
from palate.privacy import Export, export_user
from palate.records import PalateError
from palate.runs import open_run

KINDS = ("rated", "best", "guided", "table", "trained")
OWNER = {item.id: item.user_id for item in people().comparisons}


def exported(runs: Path, user: str, *names: str) -> Export:
    return export_user(people(), user, [runs / name for name in names or KINDS])


def lines(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def views(folder: Path) -> list[dict[str, object]]:
    """Of strangers, with the draw that a line of zero leaves out."""
    return [{"draw": 0} | row for row in lines(folder / "views.jsonl") if row["view"] == "swapped"]


def has_strangers(samples: Path) -> bool:
    """Whether the policy was shown strangers."""
    return any("stranger" in row for row in lines(samples / "samples.jsonl"))


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)


def is_of(row: dict[str, object], user: str) -> bool:
    """Whose a line is, by the item that it is about or by its own word."""
    return row.get("user_id", OWNER.get(str(row.get("item")))) == user


def shows_a_stranger(row: dict[str, object]) -> bool:
    return any(str(row.get(name)).startswith("swapped") for name in ("view", "policy_view"))


def alone(row: dict[str, object]) -> dict[str, object]:
    """A held-out line without what was made while a stranger was shown."""
    controls = {
        name: [one for one in several if one.get("user_id") is None]
        for name in ("ratings", "written")
        if isinstance(several := row.get(name), list)
    }
    return row | controls


@pytest.mark.parametrize("user", ["ann", "ann-1", "bo", "bo-1"])
def test_every_line_of_the_user_is_there_with_its_file(every_run: Path, user: str) -> None:
    held = {file: one for one in exported(every_run, user).runs for file in one.files}
    files = [file for file in every_run.rglob("*.jsonl") if file.stem not in ("parts", "steps", "seconds")]
    assert {file.stem for file in files} >= {"samples", "generations", "likelihoods", "outcomes", "grades", "held_out"}
    for file in files:
        wanted = [alone(row) for row in lines(file) if is_of(row, user) and not shows_a_stranger(row)]
        if file.stem == "views":  # also where the user was the stranger
            wanted = [row for row in lines(file) if row.get("user_id") == user or OWNER[str(row["item"])] == user]
            wanted = [row for row in wanted if row.get("user_id") in (None, user)]
        found = held[str(file)].lines[file.stem] if wanted else []
        assert found == wanted, file
        assert held[str(file)].files[str(file)] == len(wanted) if wanted else str(file) not in held


@pytest.mark.parametrize("user", NAMES)
def test_nothing_of_anybody_else_is_there(every_run: Path, user: str) -> None:
    found = msgspec.to_builtins(exported(every_run, user).runs)
    for run in found:
        held = run["lines"]
        assert all(OWNER[item["id"]] == user for item in held.get("items", []))
        for key in held.keys() - {"parts", "views"}:
            assert all(is_of(row, user) for row in held[key]), (run["run"], key)
        assert all(view.get("user_id") in (None, user) for view in held.get("views", []))
    said = " ".join(text for text in strings(found) if " " in text)
    others = [love for name, love in zip(NAMES, LOVES, strict=True) if name != user]
    assert LOVES[NAMES.index(user)] in said and not [love for love in others if love in said]


def test_a_table_is_exported_as_the_runs_it_is_made_of(every_run: Path) -> None:
    made = exported(every_run, "ann", "table")
    parts = {str(folder) for folder in STEER.parts(open_run(every_run / "table"))}
    assert parts == {one.run for one in made.runs if one.kind != "samples"}
    assert {one.kind for one in made.runs} == {"eval", "best-of-n", "guide", "samples"}
    assert any("table over all users" in note for note in made.notes)


def test_of_a_training_run_the_side_and_what_was_written_for_held_out_users(every_run: Path) -> None:
    def sides(lines: dict[str, list[dict[str, object]]]) -> dict[object, object]:
        return {row["id"]: row.get("held_out", True) for row in lines["items"]}

    [held_out] = [one.lines for one in exported(every_run, "bo", "trained").runs if one.kind == "ppo"]
    assert sides(held_out) == {"bo-1": True, "bo-3": True}
    assert [row["item"] for row in held_out["held_out"]] == ["bo-1", "bo-3"]
    learned = exported(every_run, "ann", "trained")
    [trained] = [one.lines for one in learned.runs if one.kind == "ppo"]
    assert sides(trained) == {"ann-2": False, "ann-3": False}
    assert "held_out" not in trained
    assert any("weights keep" in note and str(every_run / "trained") in note for note in learned.notes)
    assert not any("weights keep" in note for note in exported(every_run, "bo", "trained").notes)


def test_what_may_tell_of_a_stranger_is_left_out_and_counted(every_run: Path) -> None:
    notes = exported(every_run, "ann", "best").notes
    best = lines(every_run / "best" / "ratings.jsonl")
    strange = [row for row in best if row["view"] == "swapped" and OWNER[str(row["item"])] == "ann"]
    assert len(strange) == 18  # three items, two policy views, three strangers
    assert any("27 lines on this user's items" in note for note in notes)  # with the nine views themselves
    shown = {(row["item"], row["draw"]) for row in views(every_run / "best") if row.get("user_id") == "ann"}
    lent = [row for row in best if row["view"] == "swapped" and (row["item"], row.get("draw", 0)) in shown]
    assert lent and any(f"ratings.jsonl: {len(lent)} lines on others' items were made" in note for note in notes)
    rated = exported(every_run, "ann", "rated")
    assert {row["view"] for row in rated.runs[0].lines["ratings"]} == {"none", "posts:1"}


def test_texts_that_quote_the_user_are_counted_but_are_others(every_run: Path, tmp_path: Path) -> None:
    shutil.copytree(every_run, tmp_path / "runs")
    file = tmp_path / "runs" / "best" / "samples.jsonl"
    rows = lines(file)
    other = next(row for row in rows if OWNER[str(row["item"])] == "bo")
    other["texts"] = [f"As ann said: {people().users['ann'].posts[0].text}", "b"]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"torn')
    made = exported(tmp_path / "runs", "ann", "best")
    assert not any("As ann said" in text for text in strings(msgspec.to_builtins(made.runs)))
    assert any("1 lines of others hold a text that this user wrote" in note for note in made.notes)
    assert any("samples.jsonl: 1 lines cannot be read" in note for note in made.notes)


def test_samples_named_alone_are_known_by_the_benchmark_or_by_a_run(every_run: Path) -> None:
    folders = sorted((every_run / "samples").iterdir(), key=has_strangers)
    made = export_user(people(), "ann", folders)
    assert len(made.runs) == len(folders) and all(one.kind == "samples" for one in made.runs)
    for folder, one in zip(folders, made.runs, strict=True):
        own = set() if has_strangers(folder) else {"ann-1", "ann-2", "ann-3"}
        assert {str(row["item"]) for row in one.lines.get("samples", [])} == own
    fewer = msgspec.structs.replace(people(), comparisons=people().comparisons[:3])
    with pytest.raises(PalateError, match=r"not known whose the samples .* Name a run that used them"):
        export_user(fewer, "ann", folders[:1])
    assert export_user(fewer, "ann", [every_run / "best", folders[0]]).runs[1].lines["samples"]


def test_ids_of_another_benchmark_are_not_taken_for_the_user_s(every_run: Path, tmp_path: Path) -> None:
    """The item `ann-1` is somebody else's there, so that its samples are not ann's."""
    shutil.copytree(every_run / "samples", tmp_path / "samples")
    shutil.copytree(every_run / "rated", tmp_path / "rated")
    for file in tmp_path.glob("samples/*/settings.json"):
        file.write_text(file.read_text().replace(people().content_hash, "0" * 64))
    made = exported(tmp_path, "ann", "rated")
    assert not any("samples" in one.lines for one in made.runs)
    assert any("24 items are in neither the benchmark nor the runs" in note for note in made.notes)


def test_the_command_says_what_it_found_and_what_is_not_in_it(
    every_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_benchmark(people(), tmp_path / "data")
    words = ["data", "export-user", str(tmp_path / "data"), "ann", "--output", str(tmp_path / "ann.json")]
    with pytest.raises(SystemExit) as done:
        main([*words, *(word for name in KINDS for word in ("--run", str(every_run / name)))])
    said = capsys.readouterr().out
    assert done.value.code == 0 and "14 runs" in said and "Note: " in said and "weights keep" in said
    kinds = [run["kind"] for run in json.loads((tmp_path / "ann.json").read_text())["runs"]]
    assert kinds.count("eval") == 5 and kinds.count("best-of-n") == 6 and kinds.count("guide") == 2
    assert kinds.count("ppo") == 1 and kinds.count("samples") == len(list((every_run / "samples").iterdir()))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("best/items.jsonl", "has no items.jsonl"),
        ("guided/settings.json", "is not a run: it has no settings.json"),
        ("trained/items.jsonl", "has no items.jsonl"),
    ],
)
def test_a_damaged_folder_is_refused(
    every_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], broken: str, message: str
) -> None:
    shutil.copytree(every_run, tmp_path / "runs")
    write_benchmark(people(), tmp_path / "data")
    (tmp_path / "runs" / broken).unlink()
    run = tmp_path / "runs" / broken.partition("/")[0]
    with pytest.raises(SystemExit) as done:
        main(["data", "export-user", str(tmp_path / "data"), "ann", "--output", str(tmp_path / "x"), "--run", str(run)])
    assert done.value.code == 2 and message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "x").exists()
