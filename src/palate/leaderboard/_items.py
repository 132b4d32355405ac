"""The files of a site that hold items: what they ask, what models saw, and what they said. Each loads on demand.

A page that was opened from a disk may not fetch files, but it may load scripts. So each file is a script that hands
one value to the page.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from palate.evaluation import RatedItem, Ratings, Settings
from palate.leaderboard._entries import BoardRun, rating_of
from palate.records import Rating
from palate.runs import PARTS, VIEWS, Run, view_label
from palate.stats import Floats
from palate.views import NO_FURTHER_STRANGER

CHUNK = 250
"""Items in one file."""
LONGEST_TEXT = 20_000
"""Characters of one text that the site shows; the run folder holds the whole."""
UNSCORED = "~"
_STEPS = 60
"""A credit is written as a character: halves, thirds, quarters and fifths are exact."""
_FIRST = 40


def write_script(file: Path, key: str, value: object) -> None:
    """A script that hands over a value under a key."""
    try:
        text = msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # a lone surrogate cannot be written to a file; it becomes a question mark
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":"))
    for character in "<\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    script = f"palate.got({json.dumps(key)},{text});\n"
    file.write_bytes(script.encode("utf-8", "replace"))


def outcomes(credits: Floats) -> str:
    """A character for each item.

    >>> outcomes(np.array([0.0, 0.5, 1.0, np.nan]))
    '(Fd~'
    """
    steps = np.where(np.isnan(credits), ord(UNSCORED) - _FIRST, np.round(np.nan_to_num(credits) * _STEPS))
    return (steps.astype(np.uint8) + _FIRST).tobytes().decode("ascii")


def write_items(folder: Path, benchmark: int, items: Sequence[RatedItem]) -> None:
    """Prompts, responses and which one was preferred; nothing that says whose the item is."""
    for start in range(0, len(items), CHUNK):
        key = f"items-{benchmark}-{start // CHUNK}"
        write_script(folder / f"{key}.js", key, [_item(item) for item in items[start : start + CHUNK]])


def _item(item: RatedItem) -> dict[str, object]:
    facts = {"category": item.category, "difficulty": item.difficulty}
    return {
        "prompt": _cut(item.prompt),
        "responses": [_cut(text) for text in item.responses],
        "preferred": item.preferred,
        "facts": {name: fact for name, fact in facts.items() if fact},
    }


def write_ratings(folder: Path, run: BoardRun, ratings: Ratings, items: Sequence[RatedItem]) -> None:
    """What every model of a run said of every item, by the board's name of the view."""
    for entry in run.entries:
        for start in range(0, len(items), CHUNK):
            chunk = items[start : start + CHUNK]
            said = {
                view_label(view.name, draw): [
                    _said(rating_of(ratings, entry.label, view.name, item.id, draw)) for item in chunk
                ]
                for view in run.views
                for draw in range(view.draws)
            }
            key = f"said-{entry.id}-{run.facts.hash}-{start // CHUNK}"
            write_script(folder / f"{key}.js", key, said)


def _said(rating: Rating | None) -> object:
    """Scores alone where there is nothing else to say; null where nobody was asked."""
    if rating is None or rating.unscored == NO_FURTHER_STRANGER:
        return None
    scores = None if rating.scores is None else [_rounded(score) for score in rating.scores]
    note = rating.unscored or rating.note
    if scores is not None and note is None and not rating.raw:
        return scores
    return {"scores": scores, "note": note, "raw": _cut(rating.raw) if rating.raw else None}


def _rounded(score: float) -> float | None:
    return float(f"{score:.6g}") if np.isfinite(score) else None


def write_seen(folder: Path, run: Run[Settings], items: Sequence[RatedItem]) -> list[str]:
    """What was shown of the person with every item. Runs that showed the same share the files, by their content."""
    parts = {line.key: line.text for line in run.read(PARTS)}
    shown: dict[str, dict[str, tuple[str, ...]]] = {}
    for line in run.read(VIEWS):
        if line.missing is None:
            shown.setdefault(line.item, {})[view_label(line.view, line.draw)] = line.parts
    keys = []
    for start in range(0, len(items), CHUNK):
        texts: dict[str, int] = {}
        views = [
            {
                view: [texts.setdefault(_cut(parts[key]), len(texts)) for key in keys_of if key in parts]
                for view, keys_of in shown.get(item.id, {}).items()
            }
            for item in items[start : start + CHUNK]
        ]
        content = {"texts": list(texts), "views": views}
        key = "seen-" + hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
        file = folder / f"{key}.js"
        if not file.exists():
            draft = file.with_suffix(f".{run.settings.hash}")
            write_script(draft, key, content)
            draft.replace(file)
        keys.append(key)
    return keys


def _cut(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}\n[{len(text) - LONGEST_TEXT:,} more characters are in the run folder]"
