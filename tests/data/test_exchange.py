"""The exchange format: one user a record, with the preferences they stated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palate.data import load_benchmark
from palate.records import PalateError

PREFERENCE = {
    "prompt": "What shall I read?",
    "response_A": "A history of salt.",
    "response_B": "A thriller.",
    "chosen_response": "response_A",
    "reason": "I like to learn.",
    "value_alignment": ["autonomy"],
}
USER = {
    "user_id": "user_456",
    "demographics": {"age_group": "35-44", "interests": ["history", "travel"]},
    "preferences": [PREFERENCE, PREFERENCE | {"prompt": "And then?", "chosen_response": "B"}],
}


def write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_each_preference_is_an_item_and_a_judgement_in_the_same_place(tmp_path: Path) -> None:
    benchmark = load_benchmark(write(tmp_path / "user.json", USER))
    assert [item.id for item in benchmark.comparisons] == ["user_456-0", "user_456-1"]
    assert [item.chosen for item in benchmark.comparisons] == ["A history of salt.", "A thriller."]
    user = benchmark.users["user_456"]
    assert user.demographics["interests"] == ["history", "travel"]
    assert [one.sequence for one in user.judgements] == [item.sequence for item in benchmark.comparisons] == [0, 1]
    assert user.judgements[0].reason == "I like to learn."


def test_lists_lines_and_folders_are_read_alike(tmp_path: Path) -> None:
    other = USER | {"user_id": "user_457"}
    whole = load_benchmark(write(tmp_path / "users.json", [USER, other]))
    (tmp_path / "lines.jsonl").write_text(json.dumps(USER) + "\n\n" + json.dumps(other) + "\n")
    (tmp_path / "each").mkdir()
    write(tmp_path / "each" / "a.json", USER)
    write(tmp_path / "each" / "b.json", other)
    assert load_benchmark(tmp_path / "lines.jsonl").content_hash == whole.content_hash
    assert load_benchmark(tmp_path / "each").content_hash == whole.content_hash


def test_dates_order_where_every_preference_has_one(tmp_path: Path) -> None:
    dated = [PREFERENCE | {"date": "2024-01-02", "id": "first"}, PREFERENCE | {"date": "2024-01-03Z"[:10]}]
    benchmark = load_benchmark(write(tmp_path / "user.json", USER | {"preferences": dated}))
    assert [(item.id, item.date, item.sequence) for item in benchmark.comparisons] == [
        ("first", "2024-01-02", None),
        ("user_456-1", "2024-01-03", None),
    ]


def test_more_than_two_responses(tmp_path: Path) -> None:
    three = {"prompt": "?", "responses": ["a", "b", "c"], "preferred": 1}
    item = load_benchmark(write(tmp_path / "user.json", USER | {"preferences": [three]})).comparisons[0]
    assert (item.chosen, item.rejected) == ("b", ("a", "c"))


@pytest.mark.parametrize(
    ("preference", "said"),
    [
        (
            PREFERENCE | {"chosen_response": "C"},
            r"\(record 2\): field 'preferences\[0\].chosen_response': invalid",
        ),
        ({"prompt": "?"}, r"\(record 2\): field 'preferences\[0\]': needs response_A"),
        (
            {"prompt": "?", "responses": ["a", "b"], "preferred": 5},
            r"field 'preferences\[0\].preferred': 5 is out of",
        ),
        (PREFERENCE | {"date": "yesterday"}, r"field 'preferences\[0\].date': 'yesterday' is not a date"),
    ],
)
def test_a_broken_preference_is_named(preference: object, said: str, tmp_path: Path) -> None:
    path = write(tmp_path / "users.json", [USER, {"user_id": "u2", "preferences": [preference]}])
    with pytest.raises(PalateError, match=said):
        load_benchmark(path)
