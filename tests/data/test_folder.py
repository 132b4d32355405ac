"""palate's own folder format: what is accepted, and what is said about what is not."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from palate.data import load_benchmark, load_named, write_benchmark
from palate.records import Aspect, Benchmark, Card, Comparison, PalateError, User

USER = {"user_id": "ann", "posts": [{"id": "p1", "text": "I row.", "date": "2023-05-14T20:11:00+02:00"}]}
ROW = {"id": "q1", "user_id": "ann", "question": "Which boat?", "chosen": "A skiff.", "rejected": "A liner."}


def folder(path: Path, users: list[object], comparisons: list[object]) -> Path:
    for name, rows in (("users", users), ("comparisons", comparisons)):
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        (path / f"{name}.jsonl").write_text("".join(line + "\n" for line in lines))
    return path


def complaint(path: Path) -> str:
    with pytest.raises(PalateError) as refused:
        load_benchmark(path)
    return str(refused.value).replace(f"{path}/", "")


def test_mini_is_built_in() -> None:
    mini = load_benchmark("mini")
    assert (len(mini.users), len(mini.comparisons), mini.card.licence) == (60, 300, "Apache-2.0")
    item = mini.comparisons[0]
    assert item.privileged.narrative and item.privileged.aspects[0].evidence
    groups = {item.id: item.group for item in mini.comparisons}
    assert all(item.twin and groups[item.id] == groups[item.twin] for item in mini.comparisons)


def test_chosen_comes_first_and_dates_become_utc(tmp_path: Path) -> None:
    benchmark = load_benchmark(folder(tmp_path, [USER], [ROW | {"rejected": ["A liner.", "A raft."]}]))
    assert benchmark.comparisons[0].responses == ("A skiff.", "A liner.", "A raft.")
    assert benchmark.comparisons[0].preferred == 0
    assert benchmark.users["ann"].posts[0].date == "2023-05-14T18:11:00"


def test_responses_with_the_index_preferred_keep_their_order(tmp_path: Path) -> None:
    row = {
        "id": 7,
        "user_id": "ann",
        "prompt": "?",
        "responses": ["a", "b", "c"],
        "preferred": 2,
        "shown": [1, 0, 2],
    }
    item = load_benchmark(folder(tmp_path, [USER], [row])).comparisons[0]
    assert (item.id, item.chosen, item.rejected, item.shown) == ("7", "c", ("a", "b"), (1, 0, 2))


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"responses": ["A skiff.", "A liner."], "preferred": 1}, "chosen"),
        ({"responses": ["A canoe.", "A liner."], "preferred": 0}, "chosen"),
        ({"rejected": None, "responses": ["A skiff.", "A liner."], "preferred": 1}, "chosen"),
        ({"chosen": None, "responses": ["A skiff.", "A liner."], "preferred": 1}, "rejected"),
        ({"prompt": "Which train?"}, "prompt"),
    ],
)
def test_a_row_that_says_one_thing_twice_must_not_contradict_itself(
    more: dict[str, object], field: str, tmp_path: Path
) -> None:
    assert f"comparisons.jsonl:1: field {field!r}: says" in complaint(folder(tmp_path, [USER], [ROW | more]))


@pytest.mark.parametrize("name", ["timestamp", "created_at", "PostedAt"])
@pytest.mark.parametrize("of", ["posts", "preferences", "comparisons"])
def test_times_of_another_name_are_said_since_what_is_later_is_shown(of: str, name: str, tmp_path: Path) -> None:
    when = {name: "2024-03-01T10:00:00"}
    past = {"prompt": "?", "response_A": "a", "response_B": "b", "chosen_response": "A"}
    posts = [{"id": "p", "text": f'He said "{name}": 1.', **(when if of == "posts" else {})}]
    user = USER | {"posts": posts, "preferences": [past | (when if of == "preferences" else {})]}
    where = folder(tmp_path, [user], [ROW | (when if of == "comparisons" else {})])
    with pytest.warns(UserWarning, match=f"field '{name}': palate does not read times of this name"):
        load_benchmark(where)


def test_a_row_may_say_one_choice_in_both_ways(tmp_path: Path) -> None:
    row = ROW | {"prompt": ROW["question"], "responses": ["A liner.", "A skiff."], "preferred": 1}
    assert load_benchmark(folder(tmp_path, [USER], [row])).comparisons[0].chosen == "A skiff."


def test_a_judgement_must_not_contradict_itself(tmp_path: Path) -> None:
    past = {"prompt": "?", "response_A": "a", "response_B": "b", "chosen_response": "A", "responses": ["a", "b"]}
    said = complaint(folder(tmp_path, [USER | {"preferences": [past | {"preferred": 1}]}], [ROW]))
    assert "users.jsonl:1: field 'preferences[0].chosen_response': says another choice" in said
    made = load_benchmark(folder(tmp_path, [USER | {"preferences": [past | {"preferred": 0}]}], [ROW]))
    assert made.users["ann"].judgements[0].preferred == 0


def test_demographics_become_text(tmp_path: Path) -> None:
    facts = {"age": 35, "rows": True, "weight": 70.5, "interests": ["tea", 7], "region": None}
    user = load_benchmark(folder(tmp_path, [USER | {"demographics": facts}], [ROW])).users["ann"]
    assert user.demographics == {"age": "35", "rows": "true", "weight": "70.5", "interests": ["tea", "7"]}


def test_an_empty_text_is_no_category_no_group_and_no_trait(tmp_path: Path) -> None:
    user = USER | {"demographics": {"age": "", "city": "Basel"}}
    benchmark = load_benchmark(folder(tmp_path, [user], [ROW | {"category": "", "group": ""}]))
    assert (benchmark.comparisons[0].category, benchmark.comparisons[0].group) == (None, None)
    assert benchmark.users["ann"].demographics == {"city": "Basel"}


def test_gzipped_files_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    folder(tmp_path, [USER], [ROW])
    plain = tmp_path / "users.jsonl"
    (tmp_path / "users.jsonl.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + plain.read_bytes()))
    plain.unlink()
    assert list(load_benchmark(tmp_path).users) == ["ann"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            ROW | {"id": "q2", "question": 5},
            "comparisons.jsonl:2: field 'question': expected a string or null, got a whole",
        ),
        ('{"id": "q2", ', "comparisons.jsonl:2: broken JSON"),
        ('"q2"', "comparisons.jsonl:2: expected an object, got a string"),
        ({"id": "q2"}, "comparisons.jsonl:2: field 'user_id': is missing"),
        (ROW, "comparisons.jsonl:2: field 'id': 'q1' is already used in line 1"),
        (ROW | {"id": "q2", "user_id": "bob"}, "comparisons.jsonl:2: field 'user_id': no user 'bob'"),
        (ROW | {"id": "q2", "responses": ["a", "b"], "preferred": 2}, "field 'preferred': 2 is out of range"),
        (ROW | {"id": "q2", "shown": [1, 1]}, "field 'shown': [1, 1] has two responses at one position"),
        (ROW | {"id": "q2", "responses": ["a"], "preferred": 0}, "field 'responses': 1 given"),
        (ROW | {"id": "q2", "rejected": []}, "field 'responses': 1 given"),
        (ROW | {"id": "q2", "responses": ["a", "b"]}, "field 'preferred': is missing"),
        (ROW | {"id": "q2", "chosen": None}, "field 'chosen': is missing"),
        (ROW | {"id": "q2", "date": "soon"}, "field 'date': 'soon' is not a date; write 2023"),
        (ROW | {"id": "q2", "date": "2023-02-30"}, "field 'date': '2023-02-30' is not a date"),
        (ROW | {"id": ""}, "field 'id': is empty"),
        (
            ROW | {"id": "q2", "rubric_aspects": [{"aspect": 1}]},
            "field 'rubric_aspects[0].aspect': expected a string",
        ),
    ],
)
def test_a_broken_row_is_named_by_file_line_and_field(row: object, said: str, tmp_path: Path) -> None:
    assert said in complaint(folder(tmp_path, [USER], [ROW, row]))


def test_the_first_fault_is_told_and_the_others_counted(tmp_path: Path) -> None:
    said = complaint(folder(tmp_path, [USER], [ROW, {"id": 1}, {"id": 2}, {"id": 3}]))
    assert said.startswith("comparisons.jsonl:2:")
    assert f"... and 2 more faults; `palate data check {tmp_path}` lists them all" in said


def test_a_single_fault_is_told_whole_and_sends_nobody_elsewhere(tmp_path: Path) -> None:
    assert "lists" not in complaint(folder(tmp_path, [USER], [ROW, {"id": 1}]))


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    folder(tmp_path, [USER], [ROW])
    (tmp_path / "users.jsonl").write_bytes(b'{"user_id": "\xff"}\n')
    assert "users.jsonl:1: not UTF-8 text" in complaint(tmp_path)
    (tmp_path / "users.jsonl").write_bytes(b"")
    assert "users.jsonl: the file is empty" in complaint(tmp_path)
    (tmp_path / "users.jsonl").unlink()
    assert "users.jsonl: is missing" in complaint(tmp_path)
    (tmp_path / "users.jsonl.gz").write_bytes(b"no gzip")
    assert "users.jsonl.gz: not a whole gzip file" in complaint(tmp_path)


def test_a_broken_card_is_named(tmp_path: Path) -> None:
    folder(tmp_path, [USER], [ROW])
    (tmp_path / "card.json").write_text('{"name": "boats"}')
    assert "card.json: field 'title': is missing" in complaint(tmp_path)


def test_wrong_names_and_paths_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(PalateError, match=r"unknown benchmark 'mimi'. Did you mean 'mini'.*path of a file or folder"):
        load_benchmark("mimi")
    for missing in (tmp_path / "none", str(tmp_path / "none"), "prefs.jsonl", "prefs.jsonl,user=a"):
        with pytest.raises(PalateError, match="no such file or folder"):
            load_benchmark(missing)
    with pytest.raises(PalateError, match="no data in this folder"):
        load_benchmark(tmp_path)
    with pytest.raises(PalateError, match=r"unknown option 'size'.*options: none"):
        load_benchmark("mini,size=3")
    with pytest.raises(PalateError, match="it takes no argument"):
        load_benchmark("mini:3")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(PalateError, match="unknown kind of file"):
        load_benchmark(tmp_path / "notes.txt")


def test_writing_leaves_no_stale_or_temporary_files(tmp_path: Path) -> None:
    target = folder(tmp_path, [USER], [ROW])
    (target / "completions.jsonl.gz").write_bytes(b"old")
    write_benchmark(load_benchmark("mini"), target)
    assert sorted(path.name for path in target.iterdir()) == ["card.json", "comparisons.jsonl", "users.jsonl"]
    assert load_benchmark(target).content_hash == load_benchmark("mini").content_hash


def test_writing_refuses_a_folder_of_other_things_and_a_broken_benchmark(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("...")
    with pytest.raises(PalateError, match="not empty and not a benchmark"):
        write_benchmark(load_benchmark("mini"), tmp_path)
    card = Card(name="b", title="b", version="1", licence="none", source="here")
    item = Comparison(id="1", user_id="nobody", prompt="?", responses=("a", "b"), preferred=0)
    with pytest.raises(PalateError, match="no user 'nobody'"):
        write_benchmark(Benchmark(card=card, users={}, comparisons=(item,)), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_twin_without_a_group_stays_without_one(tmp_path: Path) -> None:
    item = Comparison(id="1", user_id="ann", prompt="?", responses=("a", "b"), preferred=0, twin="2")
    card = Card(name="b", title="b", version="1", licence="none", source="here")
    benchmark = Benchmark(card=card, users={"ann": User(id="ann")}, comparisons=(item,))
    write_benchmark(benchmark, tmp_path)
    assert load_benchmark(tmp_path).comparisons == (item,)


def test_aspects_may_be_plain_text(tmp_path: Path) -> None:
    item = load_benchmark(folder(tmp_path, [USER], [ROW | {"rubric_aspects": ["Speed"]}])).comparisons[0]
    assert item.privileged.aspects == (Aspect(aspect="Speed"),)


def test_what_palate_loads_for_itself_does_not_depend_on_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder named `mini` is the user's own, perhaps private, and must not stand in for the texts that are public."""
    usual = load_benchmark("sim,users=2")
    (tmp_path / "mini").mkdir()
    (tmp_path / "mini" / "private.jsonl").write_text('{"secret": "of somebody"}\n')
    monkeypatch.chdir(tmp_path)
    assert load_benchmark("sim,users=2") == usual
    assert len(load_named("mini").comparisons) == 300


def test_a_file_of_options_is_told_where_it_belongs(tmp_path: Path) -> None:
    file = tmp_path / "options.jsonl"
    file.write_text('{"user_id": "u", "prompt": "Which?", "responses": ["a", "b", "c"], "preferred": 2}\n')
    with pytest.raises(PalateError, match=r"comparisons\.jsonl .* users\.jsonl beside it"):
        load_benchmark(file)


def test_a_choice_between_equal_texts_is_said_whenever_it_is_loaded(tmp_path: Path) -> None:
    same = ROW | {"id": "q2", "rejected": ["A raft.", "A skiff."]}
    with pytest.warns(UserWarning, match=r"comparisons.jsonl:2: .*chosen is also a rejected response.*\(1 items\)"):
        load_benchmark(folder(tmp_path, [USER], [ROW, same]))
