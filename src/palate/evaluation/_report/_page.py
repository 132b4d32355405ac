"""The report as one self-contained web page, which asks nothing of the network."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import PurePath

import msgspec
from markupsafe import Markup

from palate.evaluation._report._cold_start import cold_start_plot
from palate.evaluation._report._forest import (
    OVER_NONE,
    OVER_STRANGER,
    accuracy_plot,
    baseline_plot,
    difference_plot,
    gain_plot,
    marks,
)
from palate.evaluation._report._groups import groups, is_control
from palate.evaluation._report._people import people
from palate.evaluation._report._reading import NO_PERSONAL_GAIN, readings
from palate.evaluation._report._slices import first_choice, slice_tables
from palate.evaluation._results import Summary
from palate.report import content_policy, page_asset, page_environment


class ItemRating(msgspec.Struct, frozen=True, kw_only=True):
    """What one reward model said of one item under one view."""

    rm: str
    view: str
    scores: list[float] | None = None
    unscored: str | None = None
    note: str | None = None
    raw: str | None = None
    credit: float | None = None
    """1 when right, 0 when wrong, between them when tied; nothing when unscored."""


class BrowsedItem(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison with all that was shown and said, for the page's browser of items."""

    id: str
    user_id: str
    prompt: str
    responses: list[str]
    preferred: int
    category: str | None = None
    difficulty: str | None = None
    profiles: dict[str, str] = {}
    """For each view, the text that was shown of the person; empty under `none`."""
    ratings: list[ItemRating] = []


def render_page(summary: Summary, items: Sequence[BrowsedItem], *, left_out: int = 0) -> str:
    """The page as text; `left_out` items of the run are not among `items`, and the page says so."""
    style, theme, script = page_asset("page.css"), page_asset("theme.js"), page_asset("page.js")
    tables, found = slice_tables(summary), groups(summary)
    page = (
        page_environment()
        .get_template("page.html.j2")
        .render(
            summary=summary,
            readings=readings(summary),
            groups=found,
            models=sum(not group.control for group in found),
            run_name=PurePath(summary.run).name,
            marks=marks(summary),
            over_marks={"over no profile": OVER_NONE, "over somebody else's profile": OVER_STRANGER},
            accuracy=accuracy_plot(summary),
            gains=gain_plot(summary),
            differences=difference_plot(summary),
            baseline=baseline_plot(summary),
            no_personal_gain=NO_PERSONAL_GAIN,
            curve=cold_start_plot(summary),
            people=people(summary),
            slice_tables=tables,
            first_slice=first_choice(tables),
            item_count=len(items),
            left_out=left_out,
            policy=content_policy(style, theme, script),
            style=Markup(style),
            theme=Markup(theme),
            script=Markup(script),
            data=Markup(embedded_json(items)),
        )
    )
    # A lone surrogate cannot be written to a file; it becomes a question mark here.
    return page.encode("utf-8", "replace").decode("utf-8")


def embedded_json(items: Sequence[BrowsedItem]) -> str:
    """The items as JSON that is safe inside a script element; each text is kept once.

    >>> embedded_json([])
    '{"texts":[],"items":[]}'
    """
    texts: dict[str, int] = {}

    def kept(text: str) -> int:
        return texts.setdefault(text, len(texts))

    packed = [
        {
            "id": item.id,
            "user": item.user_id,
            "category": item.category,
            "difficulty": item.difficulty,
            "prompt": kept(item.prompt),
            "responses": [kept(response) for response in item.responses],
            "preferred": item.preferred,
            "profiles": {view: kept(text) for view, text in item.profiles.items()},
            "ratings": [_packed(rating) for rating in sorted(item.ratings, key=_place)],
        }
        for item in items
    ]
    text = json.dumps({"texts": list(texts), "items": packed}, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _place(rating: ItemRating) -> bool:
    """Controls come after the models, as everywhere in the report."""
    return is_control(rating.rm)


def _packed(rating: ItemRating) -> dict[str, object]:
    """A rating without its empty fields; a score that is no finite number becomes null."""
    scores = None
    if rating.scores is not None:
        scores = [score if math.isfinite(score) else None for score in rating.scores]
    fields = {
        "rm": rating.rm,
        "view": rating.view,
        "outcome": _outcome(rating),
        "scores": scores,
        "unscored": rating.unscored,
        "note": rating.note,
        "raw": rating.raw,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _outcome(rating: ItemRating) -> str:
    if rating.scores is None or rating.credit is None or not math.isfinite(rating.credit):
        return "unscored"
    if rating.credit >= 1:
        return "right"
    return "wrong" if rating.credit <= 0 else "tied"
