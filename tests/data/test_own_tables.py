"""Tables as people have them: usual names, labels, messages, and other kinds of files."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from command import palate
from palate.data import inspect_benchmark, load_benchmark
from palate.evaluation import evaluate
from palate.records import Benchmark, PalateError

PAIR = {"prompt": "Tea?", "chosen": "Green.", "rejected": "Black."}
SIDES = {"user_id": "ann", "prompt": "Tea?", "response_a": "Green.", "response_b": "Black."}


def written(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def quietly(spec: str | Path) -> Benchmark:
    with warnings.catch_warnings(action="ignore"):
        return load_benchmark(spec)


def told(spec: str | Path) -> str:
    inspection = inspect_benchmark(spec)
    return "\n".join(str(fault) for fault in (*inspection.taken, *inspection.faults))


@pytest.mark.parametrize(
    "name",
    "user user_id annotator annotator_id worker worker_id rater judge participant Annotator-ID workerId".split(),
)
def test_a_usual_name_of_the_user_is_understood_and_said(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / "prefs.jsonl", [PAIR | {name: "ann"}, PAIR | {name: "bob"}])
    assert set(quietly(path).users) == {"ann", "bob"}
    said = f"taking '{name}' as the user"
    assert (said in told(path)) == (name != "user_id")  # the documented name is no guess
    with warnings.catch_warnings(action="error", category=UserWarning):
        load_benchmark(f"{path},user={name}")


@pytest.mark.parametrize("name", ["prompt", "question", "instruction", "input"])
def test_a_usual_name_of_the_prompt_is_understood(name: str, tmp_path: Path) -> None:
    rows = [{"user_id": "ann", name: "Tea?", "chosen": "Green.", "rejected": "Black."}]
    assert quietly(written(tmp_path / "prefs.jsonl", rows)).comparisons[0].prompt == "Tea?"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            PAIR | {"worker": 1, "annotator": 2},
            "'worker' and 'annotator' could each be the user. Say which, for example ",
        ),
        (PAIR | {"user": 1, "question": "?"}, "'prompt' and 'question' could each be the prompt"),
        (PAIR | SIDES | {"label": "A"}, "the choice is there twice"),
        (SIDES | {"chosen": "response_a", "rejected": "response_b"}, "label=chosen"),
        (SIDES | {"winner": "gpt-4", "loser": "claude"}, "Say which columns hold the texts"),
        (SIDES, "no column says which was preferred; say which does: "),
        (SIDES | {"label": "A", "winner": "B"}, "'label' and 'winner' could each be the label"),
    ],
)
def test_where_two_columns_could_be_meant_the_spec_to_write_is_given(
    row: dict[str, object], said: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "prefs.jsonl", [row])
    with pytest.raises(PalateError) as refused:
        load_benchmark(path)
    assert said in str(refused.value) and f"{path}," in str(refused.value)
    if "for example " in str(refused.value):
        assert quietly(str(refused.value).split("for example ")[1]).comparisons


def test_columns_of_any_name_need_only_mapping(tmp_path: Path) -> None:
    (tmp_path / "prefs.csv").write_text("annotator,q,a,b\nann,Tea?,Green.,Black.\n")
    with pytest.raises(PalateError, match=r"say which they are: .*chosen=COLUMN,rejected=COLUMN"):
        load_benchmark(tmp_path / "prefs.csv")
    with warnings.catch_warnings(action="error", category=UserWarning):
        item = load_benchmark(f"{tmp_path / 'prefs.csv'},user=annotator,prompt=q,chosen=a,rejected=b").comparisons[0]
    assert (item.user_id, item.prompt, item.chosen, item.rejected) == ("ann", "Tea?", "Green.", ("Black.",))
    with pytest.raises(PalateError, match="no column 'c' for the rejected"):
        load_benchmark(f"{tmp_path / 'prefs.csv'},user=annotator,prompt=q,chosen=a,rejected=c")


@pytest.mark.parametrize(
    "labels",
    [
        ("A", "B", "tie"),
        ("a", "b", "Tie"),
        (0, 1, "tie"),
        ("1", "2", "tie"),
        ("model_a", "model_b", "tie (bothbad)"),
        ("response_a", "response_b", "neither"),
        ("A is better", "B is better", "same"),
        ([4, 2], [1, 3.5], [2, 2]),
        ("[4, 2]", "[1, 3]", "[2, 2]"),
    ],
)
def test_labels_in_all_usual_shapes(labels: tuple[object, ...], tmp_path: Path) -> None:
    path = written(tmp_path / "prefs.jsonl", [SIDES | {"label": label} for label in labels])
    benchmark = quietly(path)
    assert [item.chosen for item in benchmark.comparisons] == ["Green.", "Black."]
    assert [item.responses for item in benchmark.comparisons] == [("Green.", "Black.")] * 2  # as they were shown
    assert "ties, which prefer neither response, left out: 1" in benchmark.card.notes[-1]
    assert "left out: 1" in told(path)


def test_ties_that_say_more_than_a_tie_are_named(tmp_path: Path) -> None:
    labels = ("A", "B", "tie", "both_bad", "both_bad", "both good")
    path = written(tmp_path / "prefs.jsonl", [SIDES | {"label": label} for label in labels])
    said = "ties, which prefer neither response, left out: 4, among them 'both_bad' (2), 'both good' (1)"
    assert quietly(path).card.notes == (said,) and said in told(path)


def test_what_numbers_mean_is_said_and_can_be_turned_round(tmp_path: Path) -> None:
    path = written(tmp_path / "prefs.jsonl", [SIDES | {"label": label} for label in (0, 1)])
    assert "0 is 'response_a', 1 is 'response_b'" in told(path)
    turned = quietly(f"{path},labels=1+0")
    assert [item.chosen for item in turned.comparisons] == ["Black.", "Green."]
    for odd in ([1, 1], [0, 1, 2], [-1, 1]):  # which of these is the first response?
        written(path, [SIDES | {"label": label} for label in odd])
        with pytest.raises(PalateError, match=r"cannot tell which number means 'response_a'.*labels=0\+1\+2"):
            load_benchmark(path)
    assert len(quietly(f"{path},labels=1+-1").comparisons) == 2


def test_pairs_of_scores(tmp_path: Path) -> None:
    scores = [{"score_a": "3,5", "score_b": 2}, {"score_a": 1, "score_b": "4"}, {"score_a": 2, "score_b": 2.0}]
    path = written(tmp_path / "prefs.jsonl", [SIDES | each for each in scores])
    assert [item.chosen for item in quietly(path).comparisons] == ["Green.", "Black."]
    assert "the higher of 'score_a' and 'score_b' as the choice" in told(path)
    written(path, [SIDES | {"score_a": 1, "score_b": "good"}])
    with pytest.raises(PalateError, match=r"prefs.jsonl:1: field 'score_b': 'good' is not a number"):
        load_benchmark(path)


def test_an_unknown_label_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "prefs.jsonl", [SIDES | {"label": "A"}, SIDES | {"label": "perhaps"}])
    with pytest.raises(
        PalateError, match=r"prefs.jsonl:2: field 'label': 'perhaps' is not a label.*other rows hold 'A'"
    ):
        load_benchmark(path)


def test_labels_of_another_language_are_named_with_what_to_write(tmp_path: Path) -> None:
    labels = [*["links", "rechts"] * 20, "unentschieden"]
    path = written(tmp_path / "prefs.jsonl", [SIDES | {"label": label} for label in labels])
    with pytest.raises(PalateError) as refused:
        load_benchmark(path)
    assert "the column holds 'links' (20), 'rechts' (20), 'unentschieden' (1)" in str(refused.value)
    assert "bad=skip" not in str(refused.value)  # it would leave out every row
    done = palate("data", "check", path)
    assert len(done.stdout.splitlines()) < 12
    assert "... and 36 more of field 'label'; --json lists them all" in done.stdout
    assert len(json.loads(palate("data", "check", path, "--json").stdout)) >= 41
    with pytest.raises(PalateError, match=r"if it is a tie, name it last: labels=links\+rechts\+TIE"):
        load_benchmark(f"{path},labels=links+rechts")
    assert len(quietly(f"{path},labels=links+rechts+unentschieden").comparisons) == 40


SCALE = ["A viel besser", "A etwas besser", "gleich gut", "B etwas besser", "B viel besser"]


@pytest.mark.parametrize(
    ("scale", "labels"),
    [
        (SCALE, "A viel besser|A etwas besser+B viel besser|B etwas besser+gleich gut"),
        (["-2", "-1", "0", "1", "2"], "-2|-1+1|2+0"),
        ([1, 2, 3, 4, 5], "1|2+4|5+3"),
    ],
)
def test_a_scale_is_read_where_several_labels_mean_the_same(
    scale: list[str] | list[int], labels: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "prefs.jsonl", [SIDES | {"label": label} for label in scale])
    with pytest.raises(PalateError, match=r"Where several mean the same: labels=FIRST\|FIRST\+SECOND\|SECOND\+TIE"):
        load_benchmark(path)
    scaled = quietly(f"{path},labels={labels}")
    assert [item.chosen for item in scaled.comparisons] == ["Green.", "Green.", "Black.", "Black."]
    assert scaled.card.notes == ("ties, which prefer neither response, left out: 1",)
    with pytest.raises(PalateError, match="Where several mean the same"):
        load_benchmark(f"{path},labels={scale[0]}|{scale[1]}+{scale[1]}")


def test_rows_left_out_for_their_label_are_told_apart_from_bad_ones(tmp_path: Path) -> None:
    rows = [SIDES | {"label": label} for label in (-2, -1, -1, -1, 1, 1, 2, 2)]
    path = written(tmp_path / "prefs.jsonl", [*rows, SIDES | {"label": 1, "user_id": None}])
    spec = f"{path},labels=-1+1,bad=skip"
    note = "rows that cannot be used, left out: 4, 3 of them for a label of no known meaning"
    assert quietly(spec).card.notes == (note,)
    assert "left out for a label of no known meaning: '2' (2), '-2' (1). If these mean one of the responses" in told(
        spec
    )


def test_a_column_that_nothing_is_read_from_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "prefs.jsonl", [PAIR | {"user_id": "ann", "Zeitpunkt": "2023-05-14", "Tarif": "Plus"}])
    assert "\nNot used: Zeitpunkt, Tarif\n" in palate("data", "check", path).stdout
    assert "Not used: Tarif\n" in palate("data", "check", f"{path},date=Zeitpunkt").stdout
    assert "Not used" not in palate("data", "check", f"{path},date=Zeitpunkt,demographics=Tarif").stdout


def test_what_programs_write_for_a_missing_value_is_no_trait_and_no_person_unsaid(tmp_path: Path) -> None:
    rows = [PAIR | {"user_id": "ann", "plan": plan} for plan in ("n/a", "Plus", "Basic")]
    path = written(tmp_path / "prefs.jsonl", [*rows, *[PAIR | {"user_id": "NULL", "plan": "nan"}] * 2])
    unnamed = written(
        tmp_path / "unnamed.jsonl", [PAIR | {"user_id": name} for name in ("ann", "[deleted]", "Anonymous")]
    )
    assert "(and 1 more): this looks like a missing value and counts as one person" in told(unnamed)
    spec = f"{path},demographics=plan"
    assert quietly(spec).users["ann"].demographics == {"plan": "Plus"}
    assert quietly(spec).users["NULL"].demographics == {}
    assert "field 'plan': 'ann': differs from an earlier row of the user, which is kept" in told(spec)
    assert "field 'user_id': 'NULL': this looks like a missing value and counts as one person" in told(spec)


def test_an_empty_date_is_called_empty(tmp_path: Path) -> None:
    path = written(tmp_path / "prefs.jsonl", [PAIR | {"user_id": "ann", "when": ""}])
    with pytest.raises(PalateError, match="field 'when': is empty; write 2023, 2023-05-14"):
        load_benchmark(f"{path},date=when")


def test_a_table_of_unknown_columns_is_told_every_way_to_name_them(tmp_path: Path) -> None:
    path = written(tmp_path / "prefs.jsonl", [{"Wer": "ann", "Frage": "Tee?", "Links": "Ja.", "Rechts": "Nein."}])
    with pytest.raises(PalateError, match=r"response_a=COLUMN,response_b=COLUMN with label=COLUMN or with score_a="):
        load_benchmark(path)
    with pytest.raises(PalateError, match="Did you mean 'user'"):
        load_benchmark(f"{path},usr=Wer")
    with pytest.raises(PalateError, match="no column 'Werr' for the user; cannot tell what this is"):
        load_benchmark(f"{path},user=Werr,prompt=Frage")
    (tmp_path / "head.csv").write_text("Wer;Frage\n")
    with pytest.raises(PalateError, match=r"head\.csv: holds no rows"):
        load_benchmark(tmp_path / "head.csv")


def test_what_was_left_out_names_the_table_and_not_its_whole_spec(tmp_path: Path) -> None:
    rows = [PAIR | {"user_id": "ann"}, PAIR | {"user_id": "bob"}, PAIR | {"user_id": None}]
    path = written(tmp_path / "prefs.jsonl", rows)
    assert f"{path}: rows that cannot be used, left out: 1" in told(f"{path},user=user_id,bad=skip")


def message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


ASK = [message("user", "Tea?")]
ANSWERS = [[message("assistant", text)] for text in ("Green.", "Black.")]
SHAPES: dict[str, dict[str, object]] = {
    "TRL, prompt apart": {"prompt": ASK, "chosen": ANSWERS[0], "rejected": ANSWERS[1]},
    "TRL, prompt within": {"chosen": ASK + ANSWERS[0], "rejected": ASK + ANSWERS[1]},
    "prompt apart and within": {"prompt": ASK, "chosen": ASK + ANSWERS[0], "rejected": ASK + ANSWERS[1]},
    "prompt as text and within": {"prompt": "Tea?", "chosen": ASK + ANSWERS[0], "rejected": ASK + ANSWERS[1]},
    "transcripts": {
        "chosen": "\n\nHuman: Tea?\n\nAssistant: Green.",
        "rejected": "\n\nHuman: Tea?\n\nAssistant: Black.",
    },
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["lists", "JSON", "Python"])
def test_messages_in_every_shape_are_the_same_texts(shape: str, kind: str, tmp_path: Path) -> None:
    write = {"lists": lambda value: value, "JSON": json.dumps, "Python": str}[kind]
    row = {name: value if isinstance(value, str) else write(value) for name, value in SHAPES[shape].items()}
    item = quietly(written(tmp_path / "prefs.jsonl", [{"user_id": "ann", **row}])).comparisons[0]
    assert (item.prompt, item.chosen, item.rejected) == ("Tea?", "Green.", ("Black.",))


def test_a_system_message_belongs_to_the_prompt(tmp_path: Path) -> None:
    begin = [message("system", "Be brief."), *ASK]
    row = {"user_id": "ann", "prompt": "Tea?", "chosen": begin + ANSWERS[0], "rejected": begin + ANSWERS[1]}
    item = quietly(written(tmp_path / "prefs.jsonl", [row])).comparisons[0]
    assert (item.prompt, item.chosen) == ("System: Be brief.\n\nUser: Tea?", "Green.")


def test_broken_messages_are_a_fault_and_no_text(tmp_path: Path) -> None:
    row = {"user_id": "ann", **PAIR, "chosen": '[{"role": "assistant", "content": "Gre'}
    with pytest.raises(PalateError, match="field 'chosen': looks like a list of messages"):
        load_benchmark(written(tmp_path / "prefs.jsonl", [row]))


def test_traits_categories_and_times(tmp_path: Path) -> None:
    facts = [("f", 31, "drink", "2024-01-02"), ("f", 32, "food", "2024-01-03"), ("", None, "food", "2024-01-01")]
    rows = [
        PAIR | {"user": user, "gender": gender, "age": age, "topic": topic, "date": day}
        for user, (gender, age, topic, day) in zip(("ann", "ann", "bob"), facts, strict=True)
    ]
    path = written(tmp_path / "prefs.jsonl", rows)
    assert not quietly(path).users["ann"].demographics
    for said in (
        "'date' as the time of each choice",
        "'gender' and 'age' look like traits: add demographics=gender+age",
        "'topic' could split the results: add category=topic",
    ):
        assert said in told(path)
    spec = f"{path},user=user,date=date,category=topic,demographics=gender+age"
    benchmark = quietly(spec)
    assert benchmark.users["ann"].demographics == {"gender": "f", "age": "31"}
    assert benchmark.users["bob"].demographics == {}
    assert [item.category for item in benchmark.comparisons] == ["drink", "food", "food"]
    assert "field 'age': 'ann': differs from an earlier row of the user" in told(spec)
    with pytest.raises(PalateError, match="demographics are of a user"):
        load_benchmark(f"{path},user=none,demographics=gender")


def test_every_kind_of_file_gives_the_same_comparisons(tmp_path: Path) -> None:
    rows = [SIDES | {"label": label, "response_b": 'Black; or "red",\twith milk.'} for label in ("A", "B")]
    written(tmp_path / "one.jsonl", rows)
    (tmp_path / "two.json").write_text(json.dumps(rows))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "three.parquet")
    for name, separator in (("four.csv", ","), ("five.csv", ";"), ("six.tsv", "\t"), ("seven.csv", "\t")):
        cells = [list(rows[0]), *(list(row.values()) for row in rows)]
        quoted = ("\ufeff" if separator == ";" else "") + "\n".join(
            separator.join('"' + str(cell).replace('"', '""') + '"' for cell in line) for line in cells
        )
        (tmp_path / name).write_text(quoted, encoding="utf-8")
    files = sorted(path for path in tmp_path.iterdir())
    assert len(files) == 7
    assert len({quietly(path).comparisons for path in files}) == 1
    (tmp_path / "five.csv").write_text("user;prompt;chosen;rejected\nann;Tea?;Green; hot;Black\n")
    with pytest.raises(PalateError, match=r"five.csv:2: expected 4 columns; quote texts that hold semicolons"):
        load_benchmark(tmp_path / "five.csv")


def test_check_prints_the_mapping_and_the_spec_that_repeats_it(tmp_path: Path) -> None:
    rows = [
        {"annotator": user, "question": "Tea?", "answer_1": "Green.", "answer_2": "Black.", "winner": n, "day": day}
        for user, n, day in (("ann", 1, "2024-01-02"), ("bob", 2, "2024-01-03"))
    ]
    path = written(tmp_path / "prefs.jsonl", rows)
    done = palate("data", "check", path)
    assert done.returncode == 0
    assert "user = annotator, prompt = question, response_a = answer_1" in done.stdout
    spec = next(line for line in done.stdout.splitlines() if line.startswith("The same in full: ")).split(": ", 1)[1]
    again = quietly(spec)
    assert again.comparisons == quietly(path).comparisons
    assert "taking" not in told(spec)
    assert "Read as" not in palate("data", "check", "mini").stdout
    json.loads(palate("data", "check", path, "--json").stdout)


def test_a_table_without_users_is_a_benchmark_that_shows_nothing_personal(tmp_path: Path) -> None:
    rows = [{"prompt": f"{n}?", "chosen": f"Good {n}", "rejected": f"Bad {n}"} for n in range(40)]
    path = written(tmp_path / "prefs.jsonl", rows)
    done = palate("eval", path, "--rm", "longest", "--out", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    assert "no column names the user" in done.stderr
    assert "intervals are about new items" in " ".join(done.stdout.split())
    named = [row | {"user": n % 20} for n, row in enumerate(rows)]
    other = palate("eval", written(tmp_path / "named.jsonl", named), "--rm", "longest", "--out", tmp_path / "runs")
    assert "intervals are about new items" not in " ".join(other.stdout.split())


def test_users_in_later_rows_are_not_overlooked(tmp_path: Path) -> None:
    path = written(tmp_path / "prefs.jsonl", [dict(PAIR), PAIR | {"user_id": "bob"}])
    with pytest.raises(PalateError, match=r"prefs.jsonl:1: field 'user_id'"):
        load_benchmark(path)


BAD = """annotator,question,answer_a,answer_b,preferred,submitted_at
ann,Tea?,"Green.
And hot.",Black.,answer_a,2026-03-02 10:00
bob,Tea?,Green.,Black.,,2026-03-02 10:01
,Tea?,Green.,Black.,answer_a,2026-03-02 10:02
bob,Cake?,Two!,One.,answer_b,2026-03-02 10:03
bob,Cake?,Two!,Two!,answer_b,2026-03-02 10:04
ann,Cake?,Two!,One.,tie,2026-03-02 10:05
ann,Soup?,Hot.,Cold.
ann,Bread?,Rye.,Wheat.,answer_a,2026-03-02 10:06
bob,Bread?,Rye.,Wheat.,answer_a,2026-03-02 10:07
"""


def test_bad_rows_are_refused_with_their_lines_or_skipped_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "prefs.csv"
    file.write_text(BAD, encoding="utf-8")
    errors = [fault for fault in inspect_benchmark(file).faults if fault.severity == "error"]
    assert [(fault.line, fault.field) for fault in errors] == [
        (4, "preferred"), (5, "annotator"), (7, "answer_b"), (9, None),
    ]  # fmt: skip
    with pytest.raises(PalateError, match=rf"3 more faults;(?s:.)*leave such rows out and count them: {file},bad=skip"):
        quietly(file)
    skipped = quietly(f"{file},bad=skip")
    assert [item.prompt for item in skipped.comparisons] == ["Tea?", "Cake?", "Bread?", "Bread?"]
    assert skipped.card.left_out == (
        "rows that cannot be used, left out: 4",
        "ties, which prefer neither response, left out: 1",
    )
    inspection = inspect_benchmark(f"{file},bad=skip")
    assert not [fault for fault in inspection.faults if fault.severity == "error"]
    assert {4, 5, 7, 9} <= {fault.line for fault in inspection.faults}
    assert quietly(inspection.spec or "").comparisons == skipped.comparisons


def test_a_table_of_which_most_rows_are_bad_is_refused_all_the_same(tmp_path: Path) -> None:
    rows = [PAIR | {"user_id": "ann"}, *[PAIR | {"user_id": None}] * 2]
    path = written(tmp_path / "prefs.jsonl", rows)
    with pytest.raises(PalateError, match="user_id"):
        quietly(f"{path},bad=skip")
    assert "would leave out 2 of 3 rows; look at the columns" in told(f"{path},bad=skip")
    with pytest.raises(PalateError, match="expected bad=skip"):
        quietly(f"{path},bad=leave")


def test_a_row_that_is_there_twice_is_skipped_only_where_its_time_tells_that_it_is_the_same(tmp_path: Path) -> None:
    at = [PAIR | {"user_id": "ann", "date": date} for date in ("2026-03-02", "2026-03-02", "2026-03-03")]
    path = written(tmp_path / "dated.jsonl", at)
    assert len(quietly(path).comparisons) == 3
    once = quietly(f"{path},bad=skip")
    assert len(once.comparisons) == 2
    assert once.card.left_out == ("rows that are there twice, with the same time, left out: 1",)
    undated = written(tmp_path / "undated.jsonl", [PAIR | {"user_id": "ann"}] * 2)
    assert len(quietly(f"{undated},bad=skip").comparisons) == 2


@pytest.mark.parametrize(("name", "taken"), [("submitted_at", True), ("answeredOn", True), ("updated_at", False)])
def test_the_time_of_a_choice_is_known_by_what_was_done_then(name: str, taken: bool, tmp_path: Path) -> None:
    path = written(tmp_path / "prefs.jsonl", [PAIR | {"user_id": user, name: "2026-03-02 10:00"} for user in "ab"])
    assert ("as the time of each choice" in told(path)) == taken


def test_a_misspelt_column_is_answered_with_the_one_that_was_meant(tmp_path: Path) -> None:
    path = written(tmp_path / "prefs.jsonl", [PAIR | {"annotator": "ann"}])
    with pytest.raises(PalateError, match=r"no column 'anotator' for the user\. Did you mean 'annotator'"):
        quietly(f"{path},user=anotator")


def test_first_is_what_a_table_lists_first(tmp_path: Path) -> None:
    rows = [SIDES | {"user_id": f"u{n % 4}", "prompt": f"Tea {n}?", "label": "A"} for n in range(12)]
    benchmark = quietly(written(tmp_path / "ab.jsonl", rows))
    assert {item.shown for item in benchmark.comparisons} == {(0, 1)}
    summary = evaluate(benchmark, ["first"], ["none"], out=tmp_path / "runs")
    ratings = (Path(summary.run) / "ratings.jsonl").read_text(encoding="utf-8")
    assert [json.loads(line)["rating"]["scores"] for line in ratings.splitlines()] == [[0, -1]] * 12


def test_a_column_has_one_role(tmp_path: Path) -> None:
    path = written(tmp_path / "ab.jsonl", [SIDES | {"label": "A"}])
    with pytest.raises(PalateError, match=r"'response_a' cannot be both prompt and response_a.*leave prompt= out"):
        quietly(f"{path},prompt=response_a,response_a=response_a")


@pytest.mark.parametrize("name", ["prefs.csv", "prefs.tsv", "prefs.parquet"])
def test_two_columns_of_one_name_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    head, row = ["user", "prompt", "chosen", "rejected", "chosen"], ["ann", "Tea?", "Green.", "Black.", "White."]
    if name.endswith(".parquet"):
        pyarrow.parquet.write_table(pyarrow.Table.from_arrays([[value] for value in row], names=head), path)
    else:
        mark = "\t" if name.endswith(".tsv") else ","
        path.write_text(f"{mark.join(head)}\n{mark.join(row)}\n")
    with pytest.raises(PalateError, match="more than one column is named 'chosen'"):
        load_benchmark(path)


def test_columns_that_differ_in_case_alone_are_refused_where_either_could_be_meant(tmp_path: Path) -> None:
    path = tmp_path / "prefs.csv"
    path.write_text("user,prompt,chosen,rejected,Chosen\nann,Tea?,Green.,Black.,White.\n")
    with pytest.raises(PalateError, match="'chosen' and 'Chosen' could each be the chosen"):
        load_benchmark(path)
    assert quietly(f"{path},chosen=chosen").comparisons[0].chosen == "Green."


def test_columns_without_a_name_may_be_there_more_than_once(tmp_path: Path) -> None:
    (tmp_path / "prefs.csv").write_text("user,prompt,chosen,rejected,,\nann,Tea?,Green.,Black.,,\n")
    assert len(quietly(tmp_path / "prefs.csv").comparisons) == 1


@pytest.mark.parametrize("other", ["ann ", "Ann", "ＡＮＮ", "a\u0301nn"])
def test_two_users_who_may_be_one_are_named(other: str, tmp_path: Path) -> None:
    first = "\u00e1nn" if other.startswith("a\u0301") else "ann"
    path = written(tmp_path / "prefs.jsonl", [PAIR | {"user_id": first}, PAIR | {"user_id": other}])
    assert f"{other!r}: as the id of another user" in told(path)
    with pytest.warns(UserWarning, match="as the id of another user"):
        load_benchmark(path)


def test_files_of_a_folder_are_read_in_the_order_in_which_people_count(tmp_path: Path) -> None:
    """Without dates a later row is a later choice, and `week-10` is not before `week-2`."""
    for week in (1, 2, 10):
        rows = f"user,prompt,chosen,rejected\nann,week {week}?,yes {week},no {week}\n"
        (tmp_path / f"week-{week}.csv").write_text(rows)
    made = load_benchmark(f"{tmp_path},user=user")
    assert [item.prompt for item in made.comparisons] == ["week 1?", "week 2?", "week 10?"]
