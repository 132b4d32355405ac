"""Validation by people: items go to a `palate collect` project, and what the raters say comes back into the card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from palate.build._records import ValidationLine
from palate.collect import Answer, Collected, Item, Participant, SurveyAnswer, items_to_validate, validate
from palate.records import Benchmark, PalateError
from palate.runs import json_lines, write_whole


def write_items(benchmark: Benchmark, file: Path) -> int:
    """The items of a project of kind `validate`, with a profile and the preferred response; how many there are."""
    items = items_to_validate(benchmark).items
    write_whole(file, json_lines(items))
    return len(items)


def read_validation(folder: Path, benchmark: Benchmark) -> ValidationLine:
    """What the raters of an export say of this benchmark; items that are no longer in it are left out."""
    collected = read_records(folder)
    known = {item.id: (item.responses, item.preferred) for item in benchmark.comparisons}
    items = tuple(one for one in collected.items if known.get(one.id) == (one.responses, one.preferred))
    if not items:
        raise PalateError(
            f"{folder}: none of its {len(collected.items):,} items is in {benchmark.card.name} as it is now"
        )
    found = validate(msgspec.structs.replace(collected, items=items))
    sentences = [found.sentence, *(one.sentence for one in found.dimensions)]
    sentences.append(f"{len(items):,} of {len(known):,} items; items to look at: {len(found.review):,}.")
    return ValidationLine(content_hash=benchmark.content_hash, passed=found.passed, sentences=sentences)


def read_records(folder: Path) -> Collected:
    """The records of an export of `palate collect`, from its folder or from `records` in it."""
    place = folder / "records" if (folder / "records").is_dir() else folder
    kinds: dict[str, Any] = {"participants": Participant, "items": Item, "answers": Answer, "survey": SurveyAnswer}
    try:
        about = msgspec.json.decode((place / "collection.json").read_bytes(), type=dict[str, str])
        lines = {
            name: tuple(msgspec.json.decode(line, type=kind) for line in (place / f"{name}.jsonl").open("rb"))
            for name, kind in kinds.items()
        }
        return Collected(**about, **lines)  # type: ignore[arg-type]
    except (OSError, msgspec.DecodeError, TypeError) as error:
        raise PalateError(f"{folder} is no export of palate collect: {error}") from error
