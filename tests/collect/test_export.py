"""What leaves a collection: a benchmark that the other commands take, the exchange record, and TRL's columns."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from simulated_collection import collect

from palate.collect._export import benchmark_of, export, export_exchange, export_records, export_trl
from palate.collect._records import Answer, Collected, Item, Participant, SurveyAnswer
from palate.collect._values import PORTRAITS
from palate.data import History, check_benchmark, load_benchmark
from palate.evaluation import evaluate
from palate.personal import train
from palate.records import PalateError


def answer(person: str, item: str, sequence: int, choice: int | None, **fields: object) -> Answer:
    return Answer(
        **{
            "id": f"{person}-{sequence}",
            "participant": person,
            "task": "compare",
            "item": item,
            "shown": (1, 0),
            "choice": choice,
            "date": f"2026-03-01T10:{sequence:02}:00Z",
            "sequence": sequence,
            **fields,
        }  # type: ignore[arg-type]
    )


def small(*answers: Answer, survey: tuple[SurveyAnswer, ...] = ()) -> Collected:
    return Collected(
        project="teas",
        title="Teas",
        version="2",
        licence="CC0-1.0",
        participants=(Participant(id="ann", strata={"region": "north"}), Participant(id="bob")),
        items=(
            Item(id="q1", prompt="Morning?", responses=("A pot of tea.", "A strong coffee."), category="drinks"),
            Item(id="q2", prompt="Evening?", responses=("A long bath.", "A short run.")),
            Item(id="check", prompt="Which is a colour?", responses=("Red.", "Seven."), check=0),
            Item(id="same", prompt="Which?", responses=("This.", "This.")),
        ),
        answers=answers,
        survey=survey,
    )


ANSWERS = (
    answer("ann", "q1", 0, 1, reason="I need to wake up.", values=("energy",)),
    answer("ann", "check", 1, 1),
    answer("ann", "q2", 2, None, tie=True),
    answer("ann", "q1", 3, 0, repeat=1),
    answer("ann", "same", 4, 0),
    answer("bob", "q1", 0, 0, edit="A pot of green tea."),
    answer("bob", "q2", 1, 1, shown=(0, 1)),
)


def test_a_choice_keeps_who_made_it_and_where_each_response_stood() -> None:
    benchmark = benchmark_of(small(*ANSWERS))
    first, second, third = benchmark.comparisons
    assert (first.user_id, first.prompt, first.chosen, first.shown) == ("ann", "Morning?", "A strong coffee.", (1, 0))
    assert (second.user_id, second.chosen, second.category) == ("bob", "A pot of tea.", "drinks")
    assert third.shown == (0, 1)
    assert first.group == second.group != third.group


def test_what_is_left_out_is_counted_and_said_on_the_card(tmp_path: Path) -> None:
    counts = export(small(*ANSWERS), tmp_path / "out")
    assert (counts.comparisons, counts.ties, counts.repeats, counts.same_texts) == (3, 1, 1, 1)
    assert (counts.checks, counts.checks_failed, counts.completions) == (1, 1, 1)
    card = load_benchmark(tmp_path / "out").card
    assert (card.licence, card.version) == ("CC0-1.0", "2")
    assert "stood first in 1 of 3 choices" in " ".join(card.notes)
    assert "1 tie, 1 planned repeat (the first answer counts), 1 attention check (1 failed)" in " ".join(card.notes)
    assert "Which is a colour?" not in (tmp_path / "out" / "comparisons.jsonl").read_text()
    assert "Which is a colour?" not in (tmp_path / "out" / "users.jsonl").read_text()


def test_an_edit_is_a_text_that_the_person_wrote() -> None:
    (completion,) = benchmark_of(small(*ANSWERS)).completions
    assert (completion.user_id, completion.text) == ("bob", "A pot of green tea.")
    assert completion.alternatives == ("A pot of tea.", "A strong coffee.")
    unchanged = small(answer("bob", "q1", 0, 0, edit="A pot of tea."))
    assert not benchmark_of(unchanged).completions


def test_the_history_of_an_item_ends_before_it() -> None:
    benchmark = benchmark_of(collect(people=4, items=10, checks=2))
    history = History(benchmark)
    for item in benchmark.comparisons:
        user = benchmark.users[item.user_id]
        seen = history.judgements(user, item).events
        assert item.id not in {one.id for one in seen}
        assert all((one.sequence or 0) < (item.sequence or 0) for one in seen)
    last = max(benchmark.comparisons, key=lambda item: item.sequence or 0)
    assert len(history.judgements(benchmark.users[last.user_id], last).events) == 9


def test_survey_answers_become_demographics_and_portraits_become_values() -> None:
    stated = [("age_group", "35-44"), ("interests", ["tea", "walks"]), ("years", 12), ("story", "I am Ann Other")]
    stated += [("finished", "yes")]  # what the page sends at the end is nothing that she said of herself
    stated += [(portrait.id, 6 if portrait.value == "hedonism" else 2 + portrait.number % 2) for portrait in PORTRAITS]
    survey = tuple(
        SurveyAnswer(id=question, participant="ann", task="s", question=question, value=value, date="2026-03-01")
        for question, value in stated
    )
    user = benchmark_of(small(*ANSWERS, survey=survey), without_questions=["story"]).users["ann"]
    assert user.demographics == {
        "region": "north",
        "age_group": "35-44",
        "interests": ["tea", "walks"],
        "years": "12",
    }
    assert user.values[0] == "hedonism"


def test_the_exchange_record_has_the_response_seen_first_as_a(tmp_path: Path) -> None:
    export_exchange(small(*ANSWERS), tmp_path / "people.jsonl")
    ann, bob = (json.loads(line) for line in (tmp_path / "people.jsonl").read_text().splitlines())
    (preference,) = ann["preferences"]
    assert preference == {
        "prompt": "Morning?",
        "response_A": "A strong coffee.",
        "response_B": "A pot of tea.",
        "chosen_response": "response_A",
        "reason": "I need to wake up.",
        "value_alignment": ["energy"],
        "id": "ann:q1",
    }
    assert [one["chosen_response"] for one in bob["preferences"]] == ["response_B", "response_B"]
    back = load_benchmark(tmp_path / "people.jsonl")
    whole = benchmark_of(small(*ANSWERS))
    assert [(item.id, item.chosen) for item in back.comparisons] == [(i.id, i.chosen) for i in whole.comparisons]
    assert check_benchmark(tmp_path / "people.jsonl") == []


def test_trl_rows_name_the_user(tmp_path: Path) -> None:
    three = msgspec.structs.replace(small(), items=(Item(id="q3", prompt="?", responses=("a", "b", "c")),))
    chosen = (answer("ann", "q3", 0, 1, shown=(2, 0, 1)), answer("bob", "q3", 0, 2, shown=(0, 1, 2)))
    export_trl(msgspec.structs.replace(three, answers=chosen), tmp_path / "rows.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert rows[0] == {"prompt": "?", "chosen": "b", "rejected": "a", "user": "ann"}
    assert [(row["user"], row["chosen"], row["rejected"]) for row in rows[1:]] == [
        ("ann", "b", "c"),
        ("bob", "c", "a"),
        ("bob", "c", "b"),
    ]
    export_trl(small(*ANSWERS), tmp_path / "pairs.jsonl")
    back = load_benchmark(f"{tmp_path / 'pairs.jsonl'},user=user")
    assert [item.chosen for item in back.comparisons] == ["A strong coffee.", "A pot of tea.", "A short run."]


def test_all_records_can_be_written_as_they_are(tmp_path: Path) -> None:
    collected = collect(people=2, items=5)
    export_records(collected, tmp_path / "all")
    lines = (tmp_path / "all" / "answers.jsonl").read_bytes().splitlines()
    assert tuple(msgspec.json.decode(line, type=Answer) for line in lines) == collected.answers
    assert json.loads((tmp_path / "all" / "collection.json").read_text())["licence"] == "CC-BY-4.0"


def test_nothing_to_export_is_an_error_that_says_so() -> None:
    with pytest.raises(PalateError, match="there is no choice to export yet"):
        benchmark_of(small(answer("ann", "q1", 0, None, tie=True)))


def test_the_card_warns_of_pairs_that_were_chosen_actively() -> None:
    assert not any("actively" in note for note in benchmark_of(small(*ANSWERS)).card.notes)
    drawn = tuple(msgspec.structs.replace(one, probability=0.2) for one in ANSWERS)
    assert benchmark_of(small(*drawn)).card.notes[0].startswith("3 of 3 choices are of pairs chosen actively")


def test_a_thumb_is_no_choice(tmp_path: Path) -> None:
    alone = Item(id="one", prompt="Tea?", responses=("A pot.",))
    collected = small(answer("ann", "one", 0, 0, shown=(0,)))
    counts = export_trl(msgspec.structs.replace(collected, items=(alone,)), tmp_path / "rows.jsonl")
    assert (counts.comparisons, counts.without_choice, counts.users) == (0, 1, 0)
    assert (tmp_path / "rows.jsonl").read_bytes() == b""


def test_a_folder_of_other_things_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("dear")
    with pytest.raises(PalateError, match="not empty and not a benchmark"):
        export(small(*ANSWERS), tmp_path)


def test_check_eval_and_train_take_the_folder_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    export(collect(people=8, items=24, noise=0.1), folder)
    assert [fault for fault in check_benchmark(folder) if fault.severity == "error"] == []
    run = evaluate(folder, ["sim", "random"], ["none", "judgements:8", "swapped"], strangers=1, out=tmp_path / "runs")
    accuracy = {(one.rm, one.view): one.accuracy for one in run.results}
    assert accuracy["sim", "judgements:8"] > 0.85
    assert accuracy["sim", "judgements:8"] > accuracy["sim", "swapped"] + 0.1
    trained = train(folder, ["per-user"], features="traits", folds=2, out=tmp_path / "runs", keep_models=False)
    assert {one.rm for one in trained.results} >= {"per-user", "bradley-terry"}


def test_the_card_says_that_a_survey_came_after_the_choices() -> None:
    for date, people in (("2025-01-01", 0), ("2027-01-01", 1)):
        told = SurveyAnswer(id="1", participant="ann", task="s", question="taste", value="short answers", date=date)
        notes = benchmark_of(small(*ANSWERS, survey=(told,))).card.notes
        assert sum("after their first choice" in note for note in notes) == people
