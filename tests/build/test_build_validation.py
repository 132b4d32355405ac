"""People validate the items: they are exported for a collection, and its answers come back into the card."""

from __future__ import annotations

from pathlib import Path

import msgspec

from command import palate
from palate.collect._export import export_records
from palate.collect._records import Answer, Collected, Item, Participant
from palate.collect._validation import DIMENSIONS

RATERS = tuple(Participant(id=f"r{number}") for number in range(4))


def answers(items: list[Item]) -> tuple[Answer, ...]:
    """Everybody finds both responses equally good, and the preferred one to fit the person better."""
    found = []
    for rater in RATERS:
        for sequence, item in enumerate(items):
            grades = [4, 4]
            fit = [2, 2]
            fit[item.preferred or 0] = 5
            ratings = {name: tuple(fit if name == "personal fit" else grades) for name in DIMENSIONS}
            found.append(
                Answer(
                    id=f"{rater.id}-{item.id}",
                    participant=rater.id,
                    task="validate",
                    item=item.id,
                    shown=(0, 1),
                    ratings=ratings,
                    date="2024-01-01T00:00:00",
                    sequence=sequence,
                )
            )
    return tuple(found)


def test_items_go_out_and_answers_come_back_into_the_card(built: Path) -> None:
    command = ("build", "plan.toml", "--to", "coffee")
    assert palate(*command, "--items", "items.jsonl", cwd=built).returncode == 0
    items = [msgspec.json.decode(line, type=Item) for line in (built / "items.jsonl").read_bytes().splitlines()]
    assert items
    assert all(item.profile and item.preferred is not None and item.user_id for item in items)
    collected = Collected(
        project="p",
        title="P",
        version="1",
        licence="none",
        participants=RATERS,
        items=tuple(items),
        answers=answers(items),
    )
    export_records(collected, built / "export" / "records")
    done = palate(*command, "--answers", "export", cwd=built)
    assert done.returncode == 0, done.stderr
    card = (built / "coffee" / "CARD.md").read_text()
    assert "## Validation by people" in card
    for dimension in DIMENSIONS:
        assert dimension in card.lower()
    assert palate(*command, cwd=built).returncode == 0
    assert (built / "coffee" / "CARD.md").read_text() == card  # it is kept


def test_an_export_of_other_items_is_refused(built: Path) -> None:
    other = Item(id="x", prompt="?", responses=("a", "b"), preferred=0, profile=("p",), user_id="u")
    collected = Collected(
        project="p",
        title="P",
        version="1",
        licence="none",
        participants=RATERS,
        items=(other,),
        answers=answers([other]),
    )
    export_records(collected, built / "export")
    done = palate("build", "plan.toml", "--to", "coffee", "--answers", "export", cwd=built)
    assert done.returncode == 2
    assert "none of its 1 items is in coffee as it is now" in done.stderr
    done = palate("build", "plan.toml", "--to", "coffee", "--answers", "coffee", cwd=built)
    assert "is no export of palate collect" in done.stderr
