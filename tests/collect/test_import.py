"""Items from benchmarks, tables and runs; answers from Potato and Label Studio. All faults at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from palate.collect._export import benchmark_of
from palate.collect._import import read_items
from palate.collect._import_answers import import_label_studio, import_potato
from palate.collect._records import Collected
from palate.data import load_benchmark
from palate.downstream import Drawing, best_of_n
from palate.engine import Conversation, WriteRequest, Written
from palate.records import PalateError
from palate.simulate import SimulatedCritic, simulate


def test_a_benchmark_gives_each_pair_of_texts_once_and_not_what_was_chosen() -> None:
    read = read_items("mini")
    assert len(read.items) == 150  # twins share their pair
    assert all(item.preferred is None and item.user_id is None for item in read.items)
    assert all(item.responses == tuple(sorted(item.responses)) for item in read.items)
    assert "150 comparisons left out: they repeat" in read.notes[0]


def test_items_to_validate_carry_a_profile_that_does_not_hold_the_answer() -> None:
    read = read_items("mini", validation=True)
    mini = {item.id: item for item in load_benchmark("mini").comparisons}
    assert len(read.items) == 300
    for item in read.items:
        assert item.preferred == mini[item.id].preferred and item.user_id == mini[item.id].user_id
        shown = "\n".join(item.profile)
        assert shown and not any(text in shown for text in item.responses)


def test_no_id_of_an_item_to_validate_says_whose_it_is(tmp_path: Path) -> None:
    rows = ["user,prompt,chosen,rejected"]
    rows += [
        f"{who},Tea {place}?,Green {who} {place}.,Black {place}." for who in ("ann@x.org", "bob") for place in "123"
    ]
    (tmp_path / "prefs.csv").write_text("\n".join(rows) + "\n")
    read = read_items(tmp_path / "prefs.csv", validation=True)
    assert len({item.id for item in read.items}) == len(read.items) > 0
    assert not any(item.user_id in item.id for item in read.items if item.user_id)


TABLE = """id,prompt,response_a,response_b,response_c,category,check
q1,Tea?,Yes please.,No thanks.,,drinks,
q2,Which is a colour?,Blue.,Seven.,,,0
q3,Three?,One.,Two.,Three.,,
"""


def test_a_table_has_a_row_for_each_prompt(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text(TABLE)
    first, check, three = read_items(tmp_path / "items.csv").items
    assert (first.id, first.responses, first.category) == ("q1", ("Yes please.", "No thanks."), "drinks")
    assert check.check == 0 and first.check is None
    assert len(three.responses) == 3


def test_lines_of_json_with_a_list_or_with_columns_of_other_names(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"prompt": "?", "responses": ["one", "two"]}\n')
    assert read_items(tmp_path / "a.jsonl").items[0].responses == ("one", "two")
    (tmp_path / "b.jsonl").write_text('{"ask": "?", "ours": "one", "theirs": "two"}\n')
    (item,) = read_items(tmp_path / "b.jsonl", prompt="ask", responses=["ours", "theirs"]).items
    assert (item.id, item.prompt, item.responses) == ("item-0001", "?", ("one", "two"))


def test_which_was_chosen_in_a_table_of_pairs_does_not_show_in_the_order(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"prompt": "?", "chosen": "b", "rejected": "a"}\n')
    (item,) = read_items(tmp_path / "a.jsonl").items
    assert item.responses == ("a", "b") and item.preferred is None


def test_every_fault_of_a_table_is_told_with_its_line(tmp_path: Path) -> None:
    rows = [
        'q1,,One.,Two.,,,',
        'q2,Same?,One.,One.,,,',
        'q3,Alone?,One.,,,,',
        'q4,Fine?,One.,Two.,,,',
        'q4,Again?,One.,Two.,,,',
        'q5,Check?,One.,Two.,,,4',
    ]  # fmt: skip
    (tmp_path / "items.csv").write_text(TABLE.splitlines()[0] + "\n" + "\n".join(rows) + "\n")
    with pytest.raises(PalateError) as told:
        read_items(tmp_path / "items.csv")
    lines = str(told.value).splitlines()
    places = [line.removeprefix(str(tmp_path / "items.csv")).split(":")[1] for line in lines]
    assert places == ["2", "3", "4", "6", "7"]
    assert "no text in column 'prompt'" in lines[0] and "same text" in lines[1] and "1 response" in lines[2]
    assert "'q4' is already used in line 5" in lines[3] and "0 to 1" in lines[4]


class Alphabet:
    """A policy that writes two letters, the same for some prompts."""

    name = "alphabet"
    fingerprint = "1"
    context: int | None = None
    templated = True

    def status(self) -> str:
        return ""

    def count_tokens(self, turns: Conversation) -> int | None:
        return None

    def write(self, requests: Sequence[WriteRequest]) -> list[list[Written]]:
        return [
            [Written(text=f"Words for number {place if number else 0}.", tokens=2, finished=True) for place in range(4)]
            for number, _ in enumerate(requests)
        ]


def test_a_best_of_n_run_gives_two_different_texts_of_a_prompt(tmp_path: Path) -> None:
    benchmark = simulate(users=4, judgements=2, items=2)
    best_of_n(
        benchmark, Alphabet(), ["random"], SimulatedCritic(), views=["none"], drawing=Drawing(samples=4), out=tmp_path
    )  # type: ignore[arg-type]
    (folder,) = (file.parent for file in tmp_path.rglob("grades.jsonl"))
    read = read_items(folder)
    assert 0 < len(read.items) < 8 and "without two different texts" in read.notes[0]
    for item in read.items:
        assert len(set(item.responses)) == 2 and item.models == ("alphabet", "alphabet")
    assert read_items(folder).items == read.items != read_items(folder, seed=1).items


def test_another_kind_of_run_is_refused(tmp_path: Path) -> None:
    from palate.evaluation import evaluate

    evaluate("mini", ["random"], ["none"], limit=4, out=tmp_path)
    (folder,) = (file.parent for file in tmp_path.rglob("settings.json"))
    with pytest.raises(PalateError, match="a run of palate bon"):
        read_items(folder)


def hidden(name: str) -> str:
    return f"p{len(name)}"


def potato(tmp_path: Path, second: object) -> tuple[Path, Path]:
    data = tmp_path / "items.jsonl"
    rows = [
        {"id": "1", "prompt": "Tea?", "responses": ["Yes please.", "No thanks."]},
        {"id": "2", "prompt": "Bath?", "left": "Hot.", "right": "Cold."},
        {"id": "3", "prompt": "Run?", "responses": ["Far.", "Fast."]},
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    output = tmp_path / "annotation_output"
    states = {
        "ann@example.org": {
            "user_id": "ann@example.org",
            "instance_id_ordering": ["2", "1", "3"],
            "instance_id_to_label_to_value": {
                "1": [[{"schema": "preference", "name": "selection"}, "A"]],
                "2": [[{"schema": "preference", "name": "selection"}, "tie"], [{"schema": "why", "name": "text"}, "x"]],
                "3": {"preference": {"scale_value": "-2"}},
            },
        },
        "bob": second,
    }
    for name, state in states.items():
        (output / name).mkdir(parents=True)
        (output / name / "user_state.json").write_text(json.dumps(state))
    return data, output


def test_pairwise_answers_of_potato(tmp_path: Path) -> None:
    bob = {"user_id": "bob", "instance_id_to_label_to_value": {"3": {"preference": {"selection": "B"}}}}
    data, output = potato(tmp_path, bob)
    imported = import_potato([data], output, pseudonym=hidden, task="compare")
    told = [(a.participant, a.item, a.choice, a.tie, a.strength, a.sequence) for a in imported.answers]
    assert told == [
        ("p15", "2", None, True, None, 0),
        ("p15", "1", 0, False, None, 1),
        ("p15", "3", 0, False, 2, 2),
        ("p3", "3", 1, False, None, 0),
    ]
    assert "ann@example.org" not in str(imported)
    assert "not randomised" in imported.notes[0]
    again = import_potato([data], output, pseudonym=hidden, task="compare")
    assert [a.id for a in again.answers] == [a.id for a in imported.answers]


def test_answers_of_the_first_version_of_potato(tmp_path: Path) -> None:
    data, output = potato(tmp_path, {"user_id": "bob", "instance_id_to_label_to_value": {}})
    (output / "cy").mkdir()
    line = {
        "id": "1",
        "displayed_text": "",
        "label_annotations": {"preference": {"selection": "B"}},
        "span_annotations": {},
    }
    (output / "cy" / "annotated_instances.jsonl").write_text(json.dumps(line) + "\n")
    imported = import_potato([data], output, pseudonym=hidden, task="compare")
    assert [(a.item, a.choice) for a in imported.answers if a.participant == "p2"] == [("1", 1)]


def test_every_fault_of_potatos_files_is_told(tmp_path: Path) -> None:
    labels = {"9": {"preference": {"selection": "A"}}, "1": {"preference": {"selection": "left"}}}
    data, output = potato(tmp_path, {"user_id": "bob", "instance_id_to_label_to_value": labels})
    with data.open("a") as file:
        file.write('{"id": "4", "responses": "one text"}\n{"id": "3", "responses": ["Far.", "Near."]}\n')
    with pytest.raises(PalateError) as told:
        import_potato([data], output, pseudonym=hidden, task="compare")
    text = str(told.value)
    assert "items.jsonl:4: field 'responses'" in text and "items.jsonl:5: field 'id': '3' is already used" in text
    assert "field '9': is not in the data files" in text and "selection 'left' is not A, B or tie" in text


def task(id: int, annotations: list[dict[str, object]], **data: str) -> dict[str, object]:
    texts = data or {"prompt": "Tea?", "text1": "Yes please.", "text2": "No thanks."}
    return {"id": id, "data": texts, "annotations": annotations, "predictions": [], "project": 1}


def annotation(
    selected: object, who: object, moment: str, *more: dict[str, object], **fields: object
) -> dict[str, object]:
    result = {
        "id": "x",
        "from_name": "pw",
        "to_name": "text1,text2",
        "type": "pairwise",
        "value": {"selected": selected},
    }
    return {
        "id": 5, "completed_by": who, "result": [result, *more], "was_cancelled": False, "ground_truth": False,
        "created_at": moment, "lead_time": 7.5, **fields,
    }  # fmt: skip


def test_pairwise_answers_of_label_studio(tmp_path: Path) -> None:
    why = {"id": "y", "from_name": "why", "to_name": "text1", "type": "textarea", "value": {"text": ["I like it."]}}
    tasks = [
        task(1, [annotation("left", {"id": 3, "email": "ann@example.org"}, "2026-03-01T12:00:00.5Z", why)]),
        task(2, [annotation("right", {"id": 3, "email": "ann@example.org"}, "2026-03-01T11:00:00Z"),
                 annotation("left", 4, "2026-03-01T11:00:00+02:00"),
                 annotation("left", 5, "2026-03-01T11:00:00Z", was_cancelled=True)],
             text1="Hot.", text2="Cold."),
    ]  # fmt: skip
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    imported = import_label_studio(tmp_path / "export.json", pseudonym=hidden, task="compare")
    told = [(a.participant, a.item, a.choice, a.sequence, a.date, a.reason, a.seconds) for a in imported.answers]
    assert told == [
        ("p1", "2", 0, 0, "2026-03-01T09:00:00Z", None, 7.5),
        ("p15", "2", 1, 0, "2026-03-01T11:00:00Z", None, 7.5),
        ("p15", "1", 0, 1, "2026-03-01T12:00:00Z", "I like it.", 7.5),
    ]
    assert imported.notes == (imported.notes[0], "1 cancelled annotations left out")
    collected = Collected(
        project="ls", title="LS", version="1", licence="CC0-1.0", participants=imported.participants,
        items=imported.items, answers=imported.answers,
    )  # fmt: skip
    assert [item.chosen for item in benchmark_of(collected).comparisons] == ["Hot.", "Cold.", "Yes please."]


def test_a_task_of_label_studio_that_turns_its_texts_round_is_refused(tmp_path: Path) -> None:
    turned = annotation("left", 5, "2026-03-01T11:00:00Z")
    turned["result"][0]["to_name"] = "text2,text1"  # type: ignore[index]
    tasks = [
        task(1, [annotation("left", 4, "2026-03-01T11:00:00Z"), turned]),
        task(2, [annotation("left", 4, "2026-03-01T11:00:00Z")]),
        task(2, [annotation("left", 4, "2026-03-01T11:00:00Z")], text1="Hot.", text2="Cold."),
        task(3, [annotation("left", None, "2026-03-01T11:00:00Z")]),
    ]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    with pytest.raises(PalateError) as told:
        import_label_studio(tmp_path / "export.json", pseudonym=hidden, task="compare")
    first, second, third = str(told.value).splitlines()
    assert "'1' compares other texts" in first and "'2' compares other texts" in second
    assert "completed_by is missing" in third


def test_two_annotations_of_a_task_by_one_person_are_refused(tmp_path: Path) -> None:
    twice = [annotation("left", 4, "2026-03-01T11:00:00Z"), annotation("right", 4, "2026-03-02T11:00:00Z")]
    (tmp_path / "export.json").write_text(json.dumps([task(1, twice)]))
    with pytest.raises(PalateError, match="'1' has two annotations of one person"):
        import_label_studio(tmp_path / "export.json", pseudonym=hidden, task="compare")


@pytest.mark.parametrize("scale", ["nan", "inf"])
def test_a_scale_of_potato_that_is_no_number_is_told(scale: str, tmp_path: Path) -> None:
    labels = {"1": {"preference": {"scale_value": scale}}}
    data, output = potato(tmp_path, {"user_id": "bob", "instance_id_to_label_to_value": labels})
    with pytest.raises(PalateError, match="is no number"):
        import_potato([data], output, pseudonym=hidden, task="compare")


def test_every_fault_of_label_studios_file_is_told(tmp_path: Path) -> None:
    tasks = [
        {"id": 1, "text1": "a", "pw": {"selected": "left"}},
        task(2, [annotation("left", 4, "2026-03-01T11:00:00Z")], one="a", other="b"),
        task(3, [annotation("middle", 4, "2026-03-01T11:00:00Z")]),
        task(4, [annotation("left", 4, "yesterday")]),
    ]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    with pytest.raises(PalateError) as told:
        import_label_studio(tmp_path / "export.json", pseudonym=hidden, task="compare")
    first, second, third, fourth = str(told.value).splitlines()
    assert "(record 1)" in first and "not as JSON-MIN" in first
    assert "(record 2)" in second and "Fields: one, other" in second
    assert "selected is 'middle'" in third and "created_at is 'yesterday'" in fourth
    named = [task(2, [annotation("left", 4, "2026-03-01T11:00:00Z")], one="a", other="b")]
    (tmp_path / "export.json").write_text(json.dumps(named))
    read = import_label_studio(tmp_path / "export.json", pseudonym=hidden, task="compare", left="one", right="other")
    assert read.items[0].responses == ("a", "b")


def test_a_table_of_choices_gives_each_pair_once_and_does_not_tell_who_chose(tmp_path: Path) -> None:
    rows = ["annotator,question,answer_a,answer_b,preferred", "ann,Tea?,Green.,Black.,answer_a"]
    rows += ["bob,Tea?,Black.,Green.,answer_a", "bob,Cake?,Two!,,answer_a"]
    (tmp_path / "prefs.csv").write_text("\n".join(rows) + "\n")
    read = read_items(tmp_path / "prefs.csv")
    (item,) = read.items
    assert item.responses == ("Black.", "Green.") and not {"ann", "bob"} & set(item.id.split("-"))
    assert "2 comparisons left out" in read.notes[0]
