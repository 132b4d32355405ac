"""A small Stack Exchange dump, and a company's table, written by the tests themselves."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from xml.sax.saxutils import quoteattr

WORDS = (
    "grind water filter press kettle cup beans roast espresso milk foam scale timer bloom crema steam paper basket "
    "pour cold brew sour bitter sweet fresh dark light fine coarse slow fast clean rinse heat cool weigh taste"
).split()


def sentence(random: random.Random, words: int) -> str:
    return " ".join(random.choice(WORDS) for _ in range(words)).capitalize() + "."


def row(**attributes: object) -> str:
    named = " ".join(f"{name}={quoteattr(str(value))}" for name, value in attributes.items() if value is not None)
    return f"  <row {named} />\n"


def posts_xml(users: int = 12, questions: int = 5, seed: int = 0, extra: str = "") -> str:
    """Every user asks some questions; each has an accepted answer and two others, by other users."""
    drawn = random.Random(seed)
    rows, id = [], 0
    for number in range(questions):
        for user in range(1, users + 1):
            id += 1
            question, date = id, f"2020-{number + 1:02d}-{user:02d}T10:00:00.000"
            title = f"Question {number} of {user}: {sentence(drawn, 5)}"
            body = f"<p>I own a {drawn.choice(WORDS)} and a {drawn.choice(WORDS)}. {sentence(drawn, 8)}</p>"
            rows.append(
                row(Id=question, PostTypeId=1, AcceptedAnswerId=question + 1, CreationDate=date, Score=3, Body=body,
                    OwnerUserId=user, Title=title)
            )  # fmt: skip
            for place, score in enumerate((drawn.randint(0, 9), drawn.randint(0, 9), drawn.randint(0, 9))):
                id += 1
                text = f"<p>{sentence(drawn, drawn.randint(12, 30))}</p>"
                rows.append(
                    row(Id=id, PostTypeId=2, ParentId=question, CreationDate=date.replace("T10", f"T1{place + 1}"),
                        Score=score, Body=text, OwnerUserId=1 + (user + place) % users)
                )  # fmt: skip
    return f'<?xml version="1.0" encoding="utf-8"?>\n<posts>\n{"".join(rows)}{extra}</posts>\n'


def write_dump(folder: Path, **options: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "Posts.xml"
    file.write_text(posts_xml(**options), encoding="utf-8")  # type: ignore[arg-type]
    return file


def write_plan(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    return file


def accepted_plan(folder: Path, **candidates: object) -> Path:
    """A plan for the dump in a folder; the gate asks no encoder, so that it needs no weights."""
    lines = "\n".join(f"{name} = {value}" for name, value in candidates.items())
    return write_plan(
        folder / "plan.toml",
        f"""
name = "coffee"
[source]
kind = "stackexchange"
path = "Posts.xml"
site = "coffee"
[candidates]
{lines}
[gate]
models = []
""",
    )


def write_support(file: Path, customers: int = 8) -> Path:
    """Everybody asks the same questions and is offered the same answers; half of the customers take the short one."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["customer", "asked_at", "question", "answer", "helped"])
        for number in range(4):
            question = f"How do I set up feature {number}?"
            short = f"Open the settings, choose feature {number}, and save."
            long = (
                f"Feature {number} has three parts. First open the settings. Then read each of them. Save at the end."
            )
            for customer in range(customers):
                date = f"2024-0{number + 1}-{customer + 1:02d}"
                likes_short = customer % 2 == 0
                writer.writerow([f"c{customer}", date, question, short, likes_short])
                writer.writerow([f"c{customer}", date, question, long, not likes_short])
    return file
