"""Data sets that others published, each on a stand-in with exactly the upstream fields."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hub_server import COMMIT, serving
from palate.audit import audit_benchmark
from palate.data import is_nobody, load_benchmark
from palate.records import Benchmark, PalateError

Rows = list[dict[str, object]]


def said(role: str, content: object) -> dict[str, object]:
    return {"role": role, "content": content}


COMMUNITY: Rows = [
    {
        "conversation_id": 5001,
        "annotator_id": "ann-1",
        "first_turn_prompt": "Plan a trip.",
        **{f"first_turn_response_{letter}": f"Go {letter}." for letter in "abcd"},
        "first_turn_preferred_response": "response_c",
        "first_turn_feedback": "It is short.",
        "second_turn_prompt": "Cheaper?",
        **{f"second_turn_response_{letter}": f"Stay {letter}." for letter in "abcd"},
        "second_turn_preferred_response": "response_a",
        "second_turn_feedback": None,
        "third_turn_prompt": None,
        "annotator_age": "25-34",
        "annotator_gender": "woman",
        "annotator_education_level": "college",
        "annotator_political": "centre",
        "annotator_ethnicity": "other",
        "annotator_country": "India",
        "assigned_lang": "en",
    }
]
PRISM: dict[str, Rows] = {
    "survey.jsonl": [
        {
            "user_id": "user0",
            "self_description": "I like plain words.",
            "stated_prefs": {
                "values": 100,
                "creativity": 12,
                "fluency": 50,
                "factuality": 71,
                "other": None,
                "other_text": None,
            },
            "order_stated_prefs": {"values": 3, "creativity": 1, "fluency": 4, "factuality": 2, "other": 5},
            "age": "35-44 years old",
            "location": {"reside_country": "Chile"},
        }
    ],
    "conversations.jsonl": [
        {"user_id": "user0", "conversation_id": "c0", "generated_datetime": "2023-11-24 10:00:00"},
        {"user_id": "user0", "conversation_id": "c1", "generated_datetime": "2023-11-22 10:00:00"},
    ],
    "utterances.jsonl": [
        {
            "user_id": "user0",
            "conversation_id": talk,
            "interaction_id": f"int{number}{turn}",
            "turn": turn,
            "user_prompt": f"Question {number}{turn}?",
            "model_response": f"Response {number}{turn}{letter}.",
            "score": score,
            "if_chosen": score == 90,
        }
        for number, talk in enumerate(("c0", "c1"))
        for turn in (0, 1)
        for letter, score in (("a", 10), ("b", 90))
    ],
}
COLLECTIVE: Rows = [
    {
        "prompt": {"messages": [said("user", "Should I?")]},
        "responses": [
            {"response_index": letter, "messages": [said("assistant", f"Answer {letter}.")]} for letter in "ABCD"
        ],
        "metadata": {
            "assessments": [
                {
                    "annotator_id": "p1",
                    "ranking_blocks": {
                        "personal": [{"ranking": "B>A=C=D", "rationale": "It is kind."}],
                        "world": [{"ranking": "D>A=B=C", "rationale": "It is fair."}],
                    },
                },
                {"annotator_id": "p2", "ranking_blocks": {"personal": [{"ranking": "A=B>C=D"}], "world": []}},
            ]
        },
    }
]
MULTIPREF: Rows = [
    {
        "comparison_id": "c7",
        "text": "Explain tides.",
        "category": "Open QA",
        "completion_a": "The moon.",
        "completion_b": "The wind.",
        "normal_worker_annotations": [
            {"evaluator": "w1", "overall_pref": "A-is-clearly-better", "time_spent": 40},
            {"evaluator": "w2", "overall_pref": "Tie", "time_spent": 4},
        ],
        "expert_worker_annotations": [{"evaluator": "e1", "overall_pref": "B-is-slightly-better", "time_spent": 90}],
    }
]
SUMMARIES: Rows = [
    {
        "worker": "w9",
        "info": {"post": "A long post.", "subreddit": "advice"},
        "summaries": [{"text": " One.", "policy": "sup"}, {"text": " Two.", "policy": "ref"}],
        "choice": 1,
        "extra": {"confidence": 7},
    }
]
LONGER = (("user", "Hi?"), ("assistant", "No."), ("user", "Why?"), ("assistant", "So."))
ARENA: Rows = [
    {
        "question_id": "q1",
        "judge": "arena_user_1",
        "conversation_a": [said("user", "Hi?"), said("assistant", "Yes.")],
        "conversation_b": [
            said("user", "Hi?"),
            said("assistant", "No."),
            said("user", "Why?"),
            said("assistant", "So."),
        ],
        "winner": "model_b",
        "language": "English",
    },
    {"judge": "arena_user_1", "conversation_a": [], "conversation_b": [], "winner": "tie (bothbad)"},
]
ARENA_140K: Rows = [
    {
        "id": "r1",
        "evaluation_session_id": "s1",
        "evaluation_order": 2,
        "conversation_a": [said("user", [{"type": "text", "text": "Hi?"}]), said("assistant", [{"text": "Yes."}])],
        "conversation_b": [said("user", [{"type": "text", "text": "Hi?"}]), said("assistant", [{"text": "No."}])],
        "winner": "model_a",
    }
]
PERSONALIZED: Rows = [
    {
        "user_id": "u1",
        "split": "train",
        "context": [said("user", "Hey?"), said("assistant", "Yes?"), said("user", "Hi?")],
        "chosen": said("assistant", "Yes."),
        "rejected": said("assistant", "No."),
    }
]
PERSONAL_LLM: Rows = [
    {
        "prompt": "Hi?",
        "subset": "HelpSteer",
        "prompt_id": 3,
        **{f"response_{number}_model": f"model-{number}" for number in range(1, 9)},
        **{f"response_{number}": f"Response {number}." for number in range(1, 9)},
        **{f"response_{number}_gemma_2b": float(number) for number in range(1, 9)},
        **{f"response_{number}_oasst": float(-number) for number in range(1, 9)},
    }
]
PSOUPS: Rows = [{"prompt": "Hi?", "chosen": "Yes.", "rejected": "No.", "uid": 3}]
ALIGN_X: Rows = [
    {
        "prompt": "Hi?",
        "chosen": "Yes.",
        "rejected": "No.",
        "User-Generated Content": [{"prompt": "Before?", "comment": "I wrote this."}],
        "Pair-wise Comparative Feedback": [{"prompt": "Old?", "chosen": "Old yes.", "rejected": "Old no."}],
        "Preference Direction": [0.5] * 90,
        "Demographic Information": "A retired teacher.",
    }
]
PERSONA_MEM: Rows = [
    {
        "persona_id": 12,
        "user_query": "{'role': 'user', 'content': \"What's good to eat?\"}",
        "correct_answer": "Soup.",
        "incorrect_answers": '["Cake.", "Rice."]',
        "updated": True,
        "prev_pref": "cake",
    }
]
REWARD_BENCH: Rows = [{"id": 1, "prompt": "Hi?", "chosen": "Yes.", "rejected": "No.", "subset": "alpacaeval-easy"}]
REWARD_BENCH_2: Rows = [
    {"id": "7", "prompt": "Hi?", "chosen": ["Yes."], "rejected": ["No.", "Perhaps.", "Never."], "subset": "Factuality"}
]
TALK = "User: Hey?\n\nAssistant: Yes?\n\nUser: Hi?"
FILES: dict[str, dict[str, Rows]] = {
    "community-alignment": {
        "data/full_community_alignment.jsonl": COMMUNITY,
        "data/filtered_community_alignment.jsonl": COMMUNITY,
    },
    "prism": PRISM,
    "collective-alignment": {
        "comparisons.jsonl": COLLECTIVE,
        "annotators.jsonl": [{"annotator_id": "p1"}],
        "merged_comparisons_annotators.jsonl": [{"annotator_id": "p1", "prompt_id": "x"}],
    },
    "multipref": {"data/train-00000.jsonl": MULTIPREF},
    "summarize-from-feedback": {"comparisons/batch3.json": SUMMARIES, "axis/batch.json": [{"no": "choice"}]},
    "chatbot-arena": {"data/train-00000.jsonl": ARENA},
    "arena-140k": {"data/train-00000.jsonl": ARENA_140K},
    "prism-personalized": {"data/train-00000.jsonl": PERSONALIZED},
    "chatbot-arena-personalized": {"data/train-00000.jsonl": PERSONALIZED},
    "personal-llm": {"data/train-00000.jsonl": PERSONAL_LLM, "data/test-00000.jsonl": PERSONAL_LLM},
    "psoups": {"data/train-00000.jsonl": PSOUPS},
    "align-x": {"data.jsonl": ALIGN_X},
    "persona-mem": {
        f"benchmark/{kind}/{split}.jsonl": PERSONA_MEM
        for kind in ("text", "multimodal")
        for split in ("benchmark", "train", "val")
    },
    "reward-bench": {"data/filtered-00000.jsonl": REWARD_BENCH, "data/raw-00000.jsonl": REWARD_BENCH},
    "reward-bench-2": {"data/test-00000.jsonl": REWARD_BENCH_2},
}


def written(files: dict[str, Rows], folder: Path) -> Path:
    for name, rows in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(rows) if name.endswith(".json") else "\n".join(map(json.dumps, rows))
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def loaded(name: str, tmp_path: Path, options: str = "") -> Benchmark:
    written(FILES[name], tmp_path / name)
    return load_benchmark(f"{name}{options}", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("name", "user", "prompt", "chosen", "responses", "items"),
    [
        ("community-alignment", "ann-1", "Plan a trip.", "Go c.", 4, 2),
        ("prism", "user0", "Question 10?", "Response 10b.", 2, 4),
        ("collective-alignment", "p1", "Should I?", "Answer B.", 4, 1),
        ("multipref", "w1", "Explain tides.", "The moon.", 2, 2),
        ("summarize-from-feedback", "w9", "A long post.", "Two.", 2, 1),
        ("chatbot-arena", "arena_user_1", "Hi?", "Assistant: No.\n\nUser: Why?\n\nAssistant: So.", 2, 1),
        ("arena-140k", "s1", "Hi?", "Yes.", 2, 1),
        ("prism-personalized", "u1", TALK, "Yes.", 2, 1),
        ("chatbot-arena-personalized", "u1", TALK, "Yes.", 2, 1),
        ("personal-llm", "gemma_2b", "Hi?", "Response 8.", 8, 2),
        ("psoups", "3", "Hi?", "Yes.", 2, 1),
        ("persona-mem", "persona-12", "What's good to eat?", "Soup.", 3, 1),
        ("reward-bench", "nobody-0", "Hi?", "Yes.", 2, 1),
        ("reward-bench-2", "nobody-0", "Hi?", "Yes.", 4, 1),
    ],
)
def test_a_stand_in_with_the_upstream_fields(
    name: str, user: str, prompt: str, chosen: str, responses: int, items: int, tmp_path: Path
) -> None:
    benchmark = loaded(name, tmp_path)
    first = benchmark.comparisons[0]
    assert (first.user_id, first.prompt, first.chosen, len(first.responses)) == (user, prompt, chosen, responses)
    assert len(benchmark.comparisons) == items
    assert benchmark.card.version == "local" and benchmark.card.source.startswith("https://")
    assert is_nobody(benchmark.users) == name.startswith("reward-bench")


def test_later_turns_are_asked_after_what_was_chosen_before(tmp_path: Path) -> None:
    later = "User: Plan a trip.\n\nAssistant: Go c.\n\nUser: Cheaper?"
    assert loaded("community-alignment", tmp_path).comparisons[1].prompt == later
    second = loaded("prism", tmp_path).comparisons[1]
    assert second.prompt == "User: Question 10?\n\nAssistant: Response 10b.\n\nUser: Question 11?"
    assert {item.group for item in loaded("community-alignment", tmp_path).comparisons} == {"5001"}


def test_talks_come_one_after_the_other_as_they_were_held(tmp_path: Path) -> None:
    """The second talk of the file was held first, and no talk begins before the one before it has ended."""
    items = loaded("prism", tmp_path).comparisons
    assert [(item.group, item.sequence) for item in items] == [("c1", 1), ("c1", 2), ("c0", 3), ("c0", 4)]


def test_what_wrote_the_responses_does_not_judge_them(tmp_path: Path) -> None:
    """Columns such as response_1_model stand beside the scores."""
    benchmark = loaded("personal-llm", tmp_path)
    assert set(benchmark.users) == {"gemma_2b", "oasst"}
    assert not [note for note in benchmark.card.notes if "left out" in note]


def test_other_splits_of_persona_mem_are_read_from_the_texts_only(tmp_path: Path) -> None:
    assert len(loaded("persona-mem", tmp_path, ",split=val").comparisons) == 1


def test_people_come_with_what_is_known_of_them(tmp_path: Path) -> None:
    user = loaded("prism", tmp_path).users["user0"]
    assert user.posts[0].text == "I like plain words." and user.values == ("values", "factuality")
    assert user.demographics == {"age": "35-44 years old", "location.reside_country": "Chile"}
    assert loaded("community-alignment", tmp_path).users["ann-1"].demographics["annotator_country"] == "India"
    [row] = loaded("align-x", tmp_path).users.values()
    assert row.posts[0].text == "I wrote this." and row.judgements[0].responses == ("Old yes.", "Old no.")
    assert row.demographics == {"Demographic Information": "A retired teacher."}


def test_the_same_person_for_themself_and_for_the_world(tmp_path: Path) -> None:
    assert loaded("collective-alignment", tmp_path, ",block=world").comparisons[0].chosen == "Answer D."
    both = loaded("collective-alignment", tmp_path, ",block=both").comparisons
    assert [(item.user_id, item.category, item.chosen) for item in both] == [
        ("p1", "personal", "Answer B."),
        ("p1", "world", "Answer D."),
    ]
    with pytest.raises(PalateError, match="expected personal, world or both"):
        loaded("collective-alignment", tmp_path, ",block=heaven")
    with pytest.raises(PalateError, match="takes no option 'block'"):
        loaded("psoups", tmp_path, ",block=world")


def test_what_is_left_out_is_counted_on_the_card(tmp_path: Path) -> None:
    assert "ties, left out: 1" in loaded("multipref", tmp_path).card.notes
    assert "ties in which both are bad, left out: 1" in loaded("chatbot-arena", tmp_path).card.notes


def test_a_row_without_a_field_is_named_with_file_and_line(tmp_path: Path) -> None:
    broken = [{**MULTIPREF[0], "completion_b": None}]
    written({"data/train-00000.jsonl": broken}, tmp_path / "multipref")
    with pytest.raises(PalateError, match=r"train-00000.jsonl:1: field 'completion_b': is missing"):
        load_benchmark("multipref", data_dir=tmp_path)


PREF_EVAL: Rows = [
    {
        "preference": "I avoid flying.",
        "question": f"How do I get to city {number}?",
        "explanation": "Most would fly.",
        "classification_task_options": ["By train.", "By air.", "By jet.", "By plane."],
    }
    for number in range(40)
]


def test_options_whose_right_one_comes_first_are_shuffled(tmp_path: Path) -> None:
    folder = written(
        {"mcq_options/travel.json": PREF_EVAL, "explicit_preference/travel.json": []}, tmp_path / "pref-eval"
    )
    for benchmark in (
        load_benchmark("pref-eval", data_dir=tmp_path),
        load_benchmark(folder / "mcq_options/travel.json"),
    ):
        assert {item.chosen for item in benchmark.comparisons} == {"By train."}
        assert {item.preferred for item in benchmark.comparisons} == {0, 1, 2, 3}
        [user] = benchmark.users.values()
        assert user.posts[0].text == "I avoid flying."


QUESTION = "Write a headline for: Rain fell."
PROFILE = [{"id": "210", "title": "Sun again", "text": "It shone."}]


def test_lamp_finds_outputs_by_id(tmp_path: Path) -> None:
    questions: Rows = [{"id": id, "input": QUESTION, "profile": PROFILE} for id in ("41", "42")]
    outputs: Rows = [{"task": "LaMP_4", "golds": [{"id": "41", "output": "Wet at last"}]}]
    files = {
        "LaMP_4/dev/dev_questions.json": questions,
        "LaMP_4/train/train_questions.json": questions * 2,
        "LaMP_7/dev/dev_questions.json": [{"id": "9", "input": "x", "profile": [], "output": "y"}],
    }
    folder = written(files, tmp_path / "lamp")
    (folder / "LaMP_4/dev/dev_outputs.json").write_text(json.dumps(outputs[0]), encoding="utf-8")
    benchmark = load_benchmark("lamp", data_dir=tmp_path)
    [item] = benchmark.completions
    assert (item.prompt, item.text) == (QUESTION, "Wet at last")
    assert benchmark.users[item.user_id].posts[0].text == "Sun again\nIt shone."
    assert "questions without an output, left out: 1" in benchmark.card.notes
    assert load_benchmark("lamp,task=LaMP_7", data_dir=tmp_path).completions[0].text == "y"
    with pytest.raises(PalateError, match=r"no data file of split 'dev' and task 'LaMP_5'.*task=NAME"):
        load_benchmark("lamp,task=LaMP_5", data_dir=tmp_path)


def test_longlamp_has_outputs_in_its_rows(tmp_path: Path) -> None:
    rows: Rows = [
        {
            "reviewerId": "A1",
            "input": "Review it.",
            "output": f"Long text {number}.",
            "profile": [{"reviewText": "Good."}],
        }
        for number in range(2)
    ]
    written(
        {"product_review_user/test-00000.jsonl": rows, "product_review_user/val-00000.jsonl": rows},
        tmp_path / "longlamp",
    )
    benchmark = load_benchmark("longlamp,task=product_review_user", data_dir=tmp_path)
    assert [item.text for item in benchmark.completions] == ["Long text 0.", "Long text 1."]
    assert len(benchmark.users) == 2 and benchmark.card.licence


def test_from_the_hub_pinned_to_a_revision(tmp_path: Path) -> None:
    files = {"README.md": b"# data", "data/train-00000.jsonl": json.dumps(PSOUPS[0]).encode()}
    program = (
        "from palate.data import load_benchmark; b = load_benchmark('psoups'); print(b.card.version, len(b.users))"
    )
    with serving({"datasets/RiverDong/psoups": files}) as address:
        settings = {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1", "PALATE_DATA": ""}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | settings,
            capture_output=True,
            text=True,
            timeout=900,
            check=True,
        )
    assert done.stdout.split() == [COMMIT, "1"]


def test_a_table_without_people_is_audited_and_said_to_show_nothing_personal(tmp_path: Path) -> None:
    rows: Rows = [
        {"prompt": f"Question {number}?", "chosen": f"A good answer, {number}.", "rejected": f"A bad one, {number}."}
        for number in range(60)
    ]
    written({"table.jsonl": rows}, tmp_path)
    with pytest.warns(UserWarning, match=r"no column names the user.*user=COLUMN.*user=none"):
        load_benchmark(tmp_path / "table.jsonl")
    found = audit_benchmark(f"{tmp_path / 'table.jsonl'},user=none", impersonal=False)
    assert not found.people
    assert "names no people" in found.findings[0].text
    assert found.artefacts is not None and found.artefacts.accuracy > 0.95
