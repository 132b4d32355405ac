"""`check` finds what would mislead, and says where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palate.data import Fault, check_benchmark

Row = dict[str, object]


def user(id: str, **more: object) -> Row:
    return {"user_id": id, "posts": [{"id": f"{id}-p", "text": "Hello.", "date": "2023"}], **more}


def row(number: int, **more: object) -> Row:
    texts = {"chosen": f"yes {number}", "rejected": f"nay {number}"}
    return {"id": f"q{number}", "user_id": "ann", "question": f"Question {number}?", **texts, **more}


def check(folder: Path, users: list[Row], comparisons: list[Row]) -> list[Fault]:
    for name, rows in (("users", users), ("comparisons", comparisons)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    return check_benchmark(folder)


def said(folder: Path, comparisons: list[Row], users: list[Row] | None = None) -> str:
    people = users if users is not None else [user("ann"), user("bob")]
    spare = {"id": "spare", "user_id": people[-1]["user_id"], "question": "?", "chosen": "aye", "rejected": "nay"}
    faults = check(folder, people, [*comparisons, spare])
    return (
        "\n".join(f"{fault.severity} {fault}" for fault in faults).replace(f"{folder}/", "").replace(str(folder), ".")
    )


def test_sound_data_has_no_faults(tmp_path: Path) -> None:
    assert said(tmp_path, [row(1), row(2)]) == ""
    assert check_benchmark("mini") == []


def test_every_error_is_listed_with_its_line(tmp_path: Path) -> None:
    found = said(tmp_path, [row(1), row(1), row(2, question=3), row(4, responses=["a", "b"], preferred=9)])
    assert "error comparisons.jsonl:2: field 'id': 'q1' is already used in line 1" in found
    assert "error comparisons.jsonl:3: field 'question': expected a string" in found
    assert "error comparisons.jsonl:4: field 'preferred': 9 is out of range" in found


def test_a_chosen_response_that_is_also_rejected_is_an_error(tmp_path: Path) -> None:
    assert "error comparisons.jsonl:1: field 'chosen': 'q1': chosen is also" in said(
        tmp_path, [row(1, rejected="yes 1")]
    )


def test_users_who_do_not_help(tmp_path: Path) -> None:
    found = said(tmp_path, [row(1)], [user("ann"), {"user_id": "cat"}, user("dan"), user("bob")])
    assert "warning users.jsonl:2: 'cat': user without history" in found
    assert "warning users.jsonl:2: 'cat' (and 1 more): user without a comparison" in found
    assert "users.jsonl:1: there is only one user" in said(tmp_path, [row(1)], [user("ann")])


def test_private_text_in_a_response(tmp_path: Path) -> None:
    secret = "Never ever wake me before the sun is up"
    leak = row(1, narrative=f"I am tired. {secret}.", chosen=f"Well: {secret.lower()}, then.")
    assert "comparisons.jsonl:1: 'q1': a response repeats a private fact: 'never ever" in said(tmp_path, [leak])
    assert said(tmp_path, [row(1, narrative="I am tired.", chosen="I am tired too")]) == ""


def test_a_position_that_is_always_or_too_often_chosen(tmp_path: Path) -> None:
    def rows(*preferred: int) -> list[Row]:
        no_other = {"chosen": None, "rejected": None}
        return [
            row(n, responses=[f"aye {n}", f"nay {n}"], preferred=index, **no_other) for n, index in enumerate(preferred)
        ]

    assert "the second response is chosen in all 9 rows" in said(tmp_path, rows(*[1] * 9))
    assert "the first response is chosen in 80% of 50 rows, where chance gives 50%" in said(
        tmp_path, rows(*[0] * 40, *[1] * 10)
    )
    assert said(tmp_path, rows(*[0] * 27, *[1] * 23)) == ""


def test_chosen_responses_that_are_longer(tmp_path: Path) -> None:
    longer = [row(n, chosen=f"yes indeed {n}") for n in range(30)]
    assert "the chosen response is the longer one in 100% of 30 rows" in said(tmp_path, longer)


def test_history_that_is_not_history(tmp_path: Path) -> None:
    found = said(tmp_path, [row(1, date="2023-04-01"), row(2, date="2024")])
    assert "comparisons.jsonl:1: field 'date': 'q1': has history of the same date or later" in found


def test_history_that_holds_a_response_or_the_narrative(tmp_path: Path) -> None:
    text = "Put the dough beside the kettle, and boil it now and then."
    again = {"prompt": "Else?", "responses": [text.upper(), "Buy a machine that bakes."], "preferred": 0}
    found = said(tmp_path, [row(1, chosen=text), row(2)], [user("ann", preferences=[again]), user("bob")])
    assert "comparisons.jsonl:1: 'q1': an earlier judgement of the user holds one of its responses" in found
    assert "(1 of 3 items); views leave it out" in found
    posts = [{"id": "p", "text": f"I wrote: {text}"}]
    found = said(tmp_path, [row(1, narrative=text), row(2)], [user("ann", posts=posts), user("bob")])
    assert "comparisons.jsonl:1: 'q1': an earlier post of the user holds one of its responses or its private" in found


def test_twins_that_do_not_mirror(tmp_path: Path) -> None:
    assert "field 'twin': 'q1': names a comparison that does not exist" in said(tmp_path, [row(1, twin="q9")])
    pair = [row(1, twin="q2"), row(2, twin="q1")]
    assert "field 'twin': 'q1' (and 1 more): its twin is not its mirror" in said(tmp_path, pair)
    mirrored = [row(1, twin="q2"), row(2, twin="q1", chosen="nay 1", rejected="yes 1", user_id="bob")]
    assert said(tmp_path, mirrored) == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rejected": "  "}, "'q1': empty response"),
        ({"rejected": "x" * 1_000_001}, "field 'responses': 1,000,001 characters in one response"),
        ({"colour": "red"}, "field 'colour': palate does not know this field"),
    ],
)
def test_odd_rows(change: Row, message: str, tmp_path: Path) -> None:
    assert message in said(tmp_path, [row(1, **change)])


def test_a_choice_counted_twice(tmp_path: Path) -> None:
    assert "comparisons.jsonl:2: 'q2': repeats a choice" in said(tmp_path, [row(1), row(1) | {"id": "q2"}])


def test_an_unknown_field_is_told_once(tmp_path: Path) -> None:
    assert said(tmp_path, [row(n, colour="red") for n in range(5)]).count("colour") == 1


def test_a_fixed_closing_that_makes_answers_alike_is_named(tmp_path: Path) -> None:
    """Each answer is its own, but the closing is most of it."""
    closing = "Thank you for writing to us, and do not hesitate to ask again at any time."
    rows = ["user_id,prompt,chosen,rejected"]
    rows += [f'ann,{n}?,"Take w{n} x{n} y{n}. {closing}","Leave v{n} u{n} t{n}. {closing}"' for n in range(12)]
    path = tmp_path / "prefs.csv"
    path.write_text("\n".join(rows), encoding="utf-8")
    assert [fault for fault in check_benchmark(path) if "24 of 24 different responses hold 'thank you" in fault.message]
    path.write_text("\n".join(rows).replace(closing, ""), encoding="utf-8")
    assert not [fault for fault in check_benchmark(path) if "different responses hold" in fault.message]


def test_users_who_are_copies_of_others_are_named(tmp_path: Path) -> None:
    def wrote(*numbers: int) -> list[Row]:
        return [
            {"id": f"p{n}", "text": f"Text {n} of a person with quite a lot to say.", "date": "2023"} for n in numbers
        ]

    people = [user("ann", posts=wrote(1, 2)), user("bob", posts=wrote(3, 4)), user("cem", posts=wrote(4, 5, 6))]
    items = [row(1), row(2, user_id="bob"), row(3, user_id="cem")]
    assert said(tmp_path, items, people) == ""
    copies = [
        user("dee", posts=wrote(2, 1)),
        user("eva", posts=wrote(1, 2, 7, 8)),
        user("hal", posts=wrote(2)),
        user("fay"),
        user("gil"),
    ]
    items += [row(4 + place, user_id=one["user_id"]) for place, one in enumerate(copies)]
    found = said(tmp_path, items, [*people, *copies])
    assert "'dee' (and 1 more): wrote half or more" in found and found.count("warning") == 1
