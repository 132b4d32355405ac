"""A model does not rate what it was trained on or taught, however that is written: it would remember."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from palate.personal import PersonalModel, load_personal
from palate.personal._files import MOST_PAIRED, erase_users, marks
from palate.records import Ask, Comparison, Judgement, User, View

LONG = ("Put the dough beside the kettle, and boil it now and then.", "Take the early train into town, and eat there.")
MORE = "Ask somebody who has done it before, and write it all down."
SHORT = ("Yes.", "No.")
NOBODY = View(name="none")


def ask(prompt: str, responses: Sequence[str], view: View = NOBODY) -> Ask:
    return Ask(id="new", prompt=prompt, responses=tuple(responses), view=view)


def comparisons() -> list[Comparison]:
    """Two people with opposite tastes, and a choice each of short, of long and of three responses."""
    offered = {"short": SHORT, "long": LONG, "three": (*(f"{text} Today." for text in LONG), MORE)}
    return [
        Comparison(
            id=f"{user}-{kind}", user_id=user, prompt=f"What about {kind} {user}?", responses=some, preferred=mine
        )
        for mine, user in enumerate(("ann", "bob"))
        for kind, some in offered.items()
    ]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> PersonalModel:
    users = {name: User(id=name) for name in ("ann", "bob")}
    fitted = PersonalModel("per-user", features="traits").fit(comparisons(), users)
    return PersonalModel.load(fitted.save(tmp_path_factory.mktemp("model")))


@pytest.mark.parametrize(
    ("prompt", "responses"),
    [
        ("What about short ann?", SHORT),
        ("what about  SHORT ann ", SHORT[::-1]),
        ("What about short ann?", ("yes", "no!")),
        ("What about long ann?", LONG),
        ("Something else", LONG),
        ("What about long ann?", [f" {text.upper()}\n" for text in LONG]),
        ("What about long ann?", [text.replace(",", " -") for text in LONG[::-1]]),
        ("any two of three", (MORE, f"{LONG[0]} Today.")),
        ("three of which two were two of three", (LONG[0], f"{LONG[1]} Today.", MORE)),
    ],
)
def test_what_it_was_trained_on_is_known_again(model: PersonalModel, prompt: str, responses: Sequence[str]) -> None:
    [rating] = model.rate([ask(prompt, responses)])
    assert rating.scores is None and "trained on this very choice" in (rating.unscored or "")


@pytest.mark.parametrize(
    ("prompt", "responses"),
    [("Another question", SHORT), ("What about long ann?", (LONG[0], "Nothing at all of what was said until now."))],
)
def test_what_is_new_is_rated(model: PersonalModel, prompt: str, responses: Sequence[str]) -> None:
    assert model.rate([ask(prompt, responses)])[0].scores is not None


def test_what_it_was_taught_of_a_user_is_not_rated_for_them_by_name(tmp_path: Path, model: PersonalModel) -> None:
    taught = Judgement(prompt="Which?", responses=(f"{LONG[0]} At noon.", f"{LONG[1]} At noon."), preferred=0)
    known = PersonalModel.load(model.save(tmp_path / "model")).adapt("cat", [taught])
    by_name = {name: View(name="user", user_id=name, by_name=True) for name in ("cat", "ann")}
    folder = known.save(tmp_path / "taught")

    def scored(view: View) -> bool:
        return load_personal(folder).rate([ask(taught.prompt, taught.responses, view)])[0].scores is not None

    assert not scored(by_name["cat"])
    shared = ask("Another?", (taught.responses[0], "Something that was never offered to anybody."), by_name["cat"])
    assert known.rate([shared])[0].scores is None  # a view of judgements would leave out what was taught
    assert scored(by_name["ann"]) and scored(NOBODY)
    erased = erase_users(folder, ["cat"], [(taught.prompt, taught.responses)])
    assert (erased.states, erased.marks) == (1, 2)


def test_marks_of_many_responses_are_few() -> None:
    """Every two of thousands would keep a server busy for minutes."""
    texts = [f"Response {number} of a very long list of them." for number in range(5_000)]
    assert len(marks("Which?", texts)) == 1
    assert len(marks("Which?", texts[:MOST_PAIRED])) == 1 + MOST_PAIRED * (MOST_PAIRED - 1) // 2


def test_models_of_older_versions_still_know_what_they_were_trained_on(model: PersonalModel, tmp_path: Path) -> None:
    import hashlib

    written = "\x00".join(["An old question?", *sorted(LONG)]).encode()
    older = PersonalModel.load(model.save(tmp_path / "older"))
    older._trained = {int.from_bytes(hashlib.sha256(written).digest()[:8], "big", signed=True)}
    assert older.rate([ask("An old question?", LONG)])[0].scores is None
