"""Verdicts and grades are kept as the model wrote them, and can be read again without asking again."""

from __future__ import annotations

import msgspec

from palate.records import Rating
from palate.rewards._grader import read_grader_again
from palate.rewards._judge import read_judge_again


def read_again(rating: Rating) -> Rating:
    """The rating that today's readers give to a rating's raw text; others come back as they are."""
    if rating.raw is None:
        return rating
    try:
        raw = msgspec.json.decode(rating.raw)
    except msgspec.DecodeError:
        return rating
    if isinstance(raw, dict) and "judge" in raw:
        return read_judge_again(raw, rating)
    if isinstance(raw, dict) and "grader" in raw:
        return read_grader_again(raw, rating)
    return rating
