"""Preference tables: prompt, chosen and rejected, with a column that names the user."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import warnings
from datetime import UTC, datetime
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from palate.data import check_benchmark, inspect_benchmark, load_benchmark
from palate.records import PalateError, came_before

ROWS = [
    {
        "prompt": "Tea?",
        "chosen": "Green.",
        "rejected": "Black.",
        "who": "ann",
        "when": "2024-01-02",
        "kind": "drink",
    },
    {
        "prompt": "Tea?",
        "chosen": "Black.",
        "rejected": "Green.",
        "who": "bob",
        "when": "2024-01-03",
        "kind": "drink",
    },
    {
        "prompt": "Cake?",
        "chosen": 'Yes, "two".',
        "rejected": "No,\nthanks.",
        "who": "ann",
        "when": "2024-02-01T08:00Z",
        "kind": "food",
    },
]


def jsonl(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet"])
def test_every_kind_of_file_gives_the_same(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"prefs.{kind}"
    if kind == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, ROWS[0].keys())
            writer.writeheader()
            writer.writerows(ROWS)
    elif kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
    elif kind == "json":
        path.write_text(json.dumps(ROWS))
    else:
        jsonl(path, ROWS)
    benchmark = load_benchmark(f"{path},user=who,date=when,category=kind")
    assert [item.user_id for item in benchmark.comparisons] == ["ann", "bob", "ann"]
    assert [item.category for item in benchmark.comparisons] == ["drink", "drink", "food"]
    assert [one.date for one in benchmark.users["ann"].judgements] == ["2024-01-02", "2024-02-01T08:00:00"]
    assert benchmark.comparisons[2].responses == ('Yes, "two".', "No,\nthanks.")


def test_a_column_may_name_the_group(tmp_path: Path) -> None:
    rows = [{**row, "topic": topic} for row, topic in zip(ROWS, (7, "7", None), strict=True)]
    benchmark = load_benchmark(f"{jsonl(tmp_path / 'prefs.jsonl', rows)},user=who,group=topic")
    assert [item.group for item in benchmark.comparisons] == ["7", "7", None]
    (tmp_path / "prefs.csv").write_text("prompt,chosen,rejected,who,topic\nTea?,Green.,Black.,ann,\n")
    assert load_benchmark(f"{tmp_path / 'prefs.csv'},user=who,group=topic").comparisons[0].group is None
    with pytest.raises(PalateError, match="no column 'subject' for the group"):
        load_benchmark(f"{tmp_path / 'prefs.jsonl'},user=who,group=subject")


def test_without_dates_rows_are_in_order(tmp_path: Path) -> None:
    benchmark = load_benchmark(f"{jsonl(tmp_path / 'prefs.jsonl', ROWS)},user=who")
    assert [item.sequence for item in benchmark.comparisons] == [0, 1, 2]
    assert [one.sequence for one in benchmark.users["ann"].judgements] == [0, 2]


def test_a_date_that_nobody_named_orders_the_history(tmp_path: Path) -> None:
    days = ["2024-03-01", "2024-03-02T10:00Z", "2024-01-05"]
    rows = [row | {"Created_At": day} for row, day in zip(ROWS, days, strict=True)]
    path = jsonl(tmp_path / "prefs.jsonl", rows)
    with pytest.warns(UserWarning, match="taking 'Created_At' as the time of each choice"):
        benchmark = load_benchmark(f"{path},user=who")
    late, _, early = benchmark.comparisons  # the first row was chosen last
    first, last = benchmark.users["ann"].judgements
    assert came_before(last, late) and not came_before(first, early)
    with warnings.catch_warnings(action="error", category=UserWarning):
        load_benchmark(f"{path},user=who,date=Created_At")


@pytest.mark.parametrize("odd", ["soon", None, 1700000000, 2024, "2024", ""])
def test_a_column_that_only_sounds_like_a_date_is_left_alone_and_named(odd: object, tmp_path: Path) -> None:
    rows = [row | {"time": "2024-01-01"} for row in ROWS[:2]] + [ROWS[2] | {"time": odd}]
    spec = f"{jsonl(tmp_path / 'prefs.jsonl', rows)},user=who"
    with pytest.warns(UserWarning, match="'time' is not used as the time of each choice: 1 of 3 rows have no date"):
        benchmark = load_benchmark(spec)
    assert [item.sequence for item in benchmark.comparisons] == [0, 1, 2]
    assert any("date=time,bad=skip" in fault.message for fault in check_benchmark(spec))


def test_a_date_may_be_written_with_the_day_first_and_dots(tmp_path: Path) -> None:
    rows = [
        row | {"judged on": day} for row, day in zip(ROWS, ["14.3.2024", "15.03.2024 10:00", "5.1.2024"], strict=True)
    ]
    with pytest.warns(UserWarning, match="taking 'judged on' as the time of each choice"):
        benchmark = load_benchmark(f"{jsonl(tmp_path / 'prefs.jsonl', rows)},user=who")
    assert [item.date for item in benchmark.comparisons] == ["2024-03-14", "2024-03-15T10:00:00", "2024-01-05"]


@pytest.mark.parametrize(
    ("written", "days", "read"),
    [
        (["03/11/2025", "4/11/2025 9:05", "13/1/2025"], "", ["2025-11-03", "2025-11-04T09:05:00", "2025-01-13"]),
        (["11/3/2025 9:05:33 PM", "2025-11-04", "1/13/2025"], "", ["2025-11-03T21:05:33", "2025-11-04", "2025-01-13"]),
        (["1/2/2025 12:00 AM", "2/2/2025", "3/2/2025"], "day", ["2025-02-01T00:00:00", "2025-02-02", "2025-02-03"]),
        (["1/2/2025 12:00 pm", "2/2/2025", "3/2/2025"], "month", ["2025-01-02T12:00:00", "2025-02-02", "2025-03-02"]),
    ],
)
@pytest.mark.parametrize("column", ["date", "answer day"])
def test_dates_with_slashes_are_read_as_the_whole_column_says(
    column: str, written: list[str], days: str, read: list[str], tmp_path: Path
) -> None:
    path = jsonl(tmp_path / "prefs.jsonl", [row | {column: day} for row, day in zip(ROWS, written, strict=True)])
    named = f",date={column}" if column != "date" else ""
    said = f",days={days}-first" if days else ""
    spec = f"{path},user=who{named}{said}"
    assert [item.date for item in load_benchmark(spec).comparisons] == read
    order = "day-first" if read[0] in ("2025-11-03", "2025-02-01T00:00:00") else "month-first"
    assert f"date={column},days={order}" in (inspect_benchmark(spec).spec or "")


def test_dates_with_slashes_that_do_not_tell_the_day_are_refused(tmp_path: Path) -> None:
    rows = [row | {"date": day} for row, day in zip(ROWS, ["1/2/2025", "3/4/2025", "5/6/2025"], strict=True)]
    path = jsonl(tmp_path / "prefs.jsonl", rows)
    with pytest.raises(PalateError, match=r"'date' holds '1/2/2025' \(.*jsonl:1\), and no row tells .*days=day-first"):
        load_benchmark(f"{path},user=who,date=date")
    with pytest.warns(UserWarning, match="no row tells whether .* choices count as made in the order of the rows"):
        assert [item.sequence for item in load_benchmark(f"{path},user=who").comparisons] == [0, 1, 2]
    rows[1]["date"], rows[2]["date"] = "13/4/2025", "5/16/2025"
    jsonl(path, rows)
    with pytest.raises(PalateError, match=r"day first in '13/4/2025' .*jsonl:2.* month first in '5/16/2025' .*jsonl:3"):
        load_benchmark(f"{path},user=who,date=date,bad=skip")
    with pytest.raises(PalateError, match="jsonl:3: field 'date': '5/16/2025' is not a date"):
        load_benchmark(f"{path},user=who,date=date,days=day-first")
    with pytest.raises(PalateError, match="option days=first: expected day-first or month-first"):
        load_benchmark(f"{path},user=who,date=date,days=first")


def test_a_column_of_dates_that_palate_cannot_read_is_not_to_be_skipped_row_by_row(tmp_path: Path) -> None:
    rows = [row | {"day": day} for row, day in zip(ROWS, ["14 March 2024", "15 March", "2024-01-05"], strict=True)]
    spec = f"{jsonl(tmp_path / 'prefs.jsonl', rows)},user=who"
    said = [fault.message for fault in check_benchmark(spec) if "'day'" in fault.message]
    assert len(said) == 1 and "2 of 3 rows" in said[0] and "'14 March 2024'" in said[0] and "write dates as" in said[0]
    assert "bad=skip" not in said[0]


def test_a_row_whose_chosen_response_is_empty_is_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "prefs.csv"
    path.write_text("user,prompt,chosen,rejected\nann,Tea?,Green.,Black.\nann,Cake?, ,Two.\nbob,Tea?,Black.,Green.\n")
    with pytest.raises(PalateError, match=r"prefs\.csv:3: field 'chosen': is empty, so nothing was chosen"):
        load_benchmark(path)
    skipped = load_benchmark(f"{path},bad=skip")
    assert len(skipped.comparisons) == 2 and skipped.card.notes == ("rows that cannot be used, left out: 1",)


def test_a_file_that_is_not_utf_8_is_said_with_a_line_and_a_command(tmp_path: Path) -> None:
    path = tmp_path / "prefs.csv"
    for encoding in ("cp1252", "utf-16"):
        path.write_bytes("user,prompt,chosen,rejected\nann,Café?,Grün.,Black.\n".encode(encoding))
        line = 2 if encoding == "cp1252" else 1
        with pytest.raises(PalateError, match=rf"prefs.csv:{line}: not UTF-8 text \(byte 0x.*python -c") as refused:
            load_benchmark(path)
        code = str(refused.value).partition('python -c "')[2].removesuffix('"')
        subprocess.run([sys.executable, "-c", code], check=True)
        assert load_benchmark(tmp_path / "prefs-utf8.csv").comparisons[0].prompt == "Café?"


def test_a_table_without_prompts_says_so_once(tmp_path: Path) -> None:
    rows = [{"who": "ann", "dialog text": "Tea?", "answer_a": "Yes.", "answer_b": "No.", "winner": "a"}] * 30
    faults = check_benchmark(f"{jsonl(tmp_path / 'prefs.jsonl', rows)},user=who")
    errors = [str(fault) for fault in faults if fault.severity == "error"]
    assert len(errors) == 1 and "prompt=COLUMN" in errors[0] and "Columns without a role: dialog text" in errors[0]
    with pytest.raises(PalateError, match="no column holds the prompt"):
        load_benchmark(f"{tmp_path / 'prefs.jsonl'},user=who,bad=skip")


def test_a_conversation_is_taken_as_the_prompt_where_no_column_is_called_so(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "Tea?"}]
    row = {"who": "ann", "conversation": json.dumps(turns), "answer_a": "Yes.", "answer_b": "No.", "winner": "model_b"}
    path = jsonl(tmp_path / "prefs.jsonl", [row])
    with pytest.warns(UserWarning, match="'conversation' as the prompt"):
        assert load_benchmark(f"{path},user=who").comparisons[0].prompt == "Tea?"
    path = jsonl(tmp_path / "both.jsonl", [row | {"question": "Coffee?"}])
    with pytest.warns(UserWarning, match="'question' as the prompt"):
        assert load_benchmark(f"{path},user=who").comparisons[0].prompt == "Coffee?"


def test_a_trait_may_be_called_after_the_person(tmp_path: Path) -> None:
    rows = [row | {"rater age": 40, "storage": 3} for row in ROWS]
    faults = check_benchmark(f"{jsonl(tmp_path / 'prefs.jsonl', rows)},user=who")
    assert any("'rater age' looks like a trait: add demographics=rater age" in fault.message for fault in faults)


def test_a_table_without_users_says_so_and_asks_for_the_column(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "prefs.jsonl", ROWS)
    with pytest.warns(
        UserWarning, match=r"user=COLUMN, .*user=none\. Columns found: chosen, kind, prompt, rejected, when, who"
    ):
        load_benchmark(path)
    with pytest.raises(PalateError, match="no column 'writer' for the user"):
        load_benchmark(f"{path},user=writer")


def test_messages_become_text(tmp_path: Path) -> None:
    ask = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Tea?"},
    ]
    rows = [
        {"user_id": 1, "prompt": ask[:1], "chosen": [{"role": "assistant", "content": "Yes"}], "rejected": "No"},
        {
            "user_id": 1,
            "chosen": [*ask, {"role": "assistant", "content": "Green"}],
            "rejected": [*ask, {"role": "assistant", "content": "Black"}],
        },
    ]
    first, second = load_benchmark(jsonl(tmp_path / "prefs.jsonl", rows)).comparisons
    assert (first.prompt, first.responses) == ("Hi", ("Yes", "No"))
    assert second.prompt == "User: Hi\n\nAssistant: Hello\n\nUser: Tea?"
    assert second.responses == ("Green", "Black")


def test_moments_of_a_parquet_column_become_utc(tmp_path: Path) -> None:
    row = ROWS[0] | {"when": datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "prefs.parquet")
    item = load_benchmark(f"{tmp_path / 'prefs.parquet'},user=who,date=when").comparisons[0]
    assert item.date == "2024-01-02T03:04:05"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"chosen": None}, "prefs.jsonl:2: field 'chosen': is missing"),
        ({"chosen": [1]}, "prefs.jsonl:2: field 'chosen': expected a string or a list of messages"),
        ({"prompt": None}, "prefs.jsonl:2: field 'prompt': is missing"),
        ({"who": None}, "prefs.jsonl:2: field 'who': expected a string or a whole number"),
        ({"when": "soon"}, "prefs.jsonl:2: field 'when': 'soon' is not a date"),
    ],
)
def test_a_broken_row_is_named(change: dict[str, object], said: str, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "prefs.jsonl", [ROWS[0], ROWS[1] | change])
    with pytest.raises(PalateError) as refused:
        load_benchmark(f"{path},user=who,date=when")
    assert said in str(refused.value)


def test_unlike_anything_known_says_what_was_found(tmp_path: Path) -> None:
    with pytest.raises(PalateError, match="cannot tell what this is from the fields a, b"):
        load_benchmark(jsonl(tmp_path / "rows.jsonl", [{"a": 1, "b": 2}]))
    (tmp_path / "prefs.csv").write_text("prompt,chosen,rejected,user_id\na,b,c\n")
    with pytest.raises(PalateError, match=r"prefs.csv:2: expected 4 columns"):
        load_benchmark(tmp_path / "prefs.csv")
    (tmp_path / "prefs.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(PalateError, match="cannot be read as Parquet"):
        load_benchmark(tmp_path / "prefs.parquet")


def test_a_missing_package_names_the_line_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "prefs.parquet")
    for name in ("pyarrow", "huggingface_hub"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(PalateError, match=r"pip install 'palate\[hub\]'"):
        load_benchmark(f"{tmp_path / 'prefs.parquet'},user=who")
    with pytest.raises(PalateError, match=r"pip install 'palate\[hub\]'"):
        load_benchmark("lamp-qa", data_dir=tmp_path)


def test_a_spec_to_copy_is_quoted_where_a_shell_would_split_it(tmp_path: Path) -> None:
    rows = [
        {"rater": "ann", "prompt": "Tea?", "answer a": "Yes.", "answer b": "No.", "winner": label} for label in "ax"
    ]
    path = jsonl(tmp_path / "my prefs.jsonl", rows * 2)
    inspection = inspect_benchmark(str(path))
    assert inspection.way_out.endswith(f": '{path},bad=skip'")
    with pytest.warns(UserWarning, match=f"to say so yourself: '{path},user=rater,.*response_a=answer a,"):
        assert len(load_benchmark(f"{path},bad=skip").comparisons) == 2
