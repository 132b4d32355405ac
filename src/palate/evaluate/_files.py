"""The files of a report, and the items that its page lets one browse."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from palate.evaluate._ratings import Ratings
from palate.evaluate._report import BrowsedItem, ItemRating, render_csv, render_markdown, render_page
from palate.evaluate._results import Summary
from palate.evaluate._run import Run
from palate.evaluate._run_folder import write_whole
from palate.evaluate._statistics import credit
from palate.records import PalateError
from palate.views import NO_FURTHER_STRANGER

MOST_BROWSED = 500
LONGEST_TEXT = 20_000
"""Characters of one text that the page shows; the run folder holds the whole."""


def without_users(summary: Summary) -> Summary:
    """The summary with nothing about any single user."""
    return msgspec.structs.replace(summary, user_accuracies=[])


def write_reports(run: Run, summary: Summary, *, users: bool = True) -> Path:
    """Write report.html, report.md, results.csv and summary.json into the run folder; the page's path.

    Without `users`, none of them holds an item, a profile, an id or a number of a single user.
    """
    items = browsed_items(run) if users else []
    summary = summary if users else without_users(summary)
    page = run.folder / "report.html"
    left_out = max(0, summary.items - len(items))
    try:
        write_whole(page, render_page(summary, items, left_out=left_out).encode("utf-8", "replace"))
        write_whole(run.folder / "report.md", render_markdown(summary).encode("utf-8", "replace"))
        write_whole(run.folder / "results.csv", render_csv(summary).encode("utf-8", "replace"))
        encoded = msgspec.json.format(msgspec.json.encode(summary), indent=1)
        write_whole(run.folder / "summary.json", encoded + b"\n")
    except OSError as error:
        raise PalateError(f"cannot write the report to {run.folder}: {error.strerror or error}") from error
    return page


def browsed_items(run: Run, most: int = MOST_BROWSED) -> list[BrowsedItem]:
    """The items of the page: all of them, or as many as a page can hold, drawn by their ids."""
    ratings = Ratings.of(run)
    drawn = sorted(ratings.items, key=lambda item: hashlib.sha256((item.group or item.id).encode()).digest())[:most]
    kept = {item.id for item in drawn}
    parts = run.parts()
    draws = {view.name: view.draws for view in run.settings.views}
    profiles: dict[str, dict[str, str]] = {}
    for line in run.views():
        if line.item in kept:
            text = "\n\n".join(parts.get(key, "") for key in line.parts)
            profiles.setdefault(line.item, {})[_label(line.view, line.draw)] = _cut(text)
    return [
        BrowsedItem(
            id=item.id,
            user_id=item.user_id,
            prompt=_cut(item.prompt),
            responses=[_cut(response) for response in item.responses],
            preferred=item.preferred,
            category=item.category,
            difficulty=item.difficulty,
            profiles=profiles.get(item.id, {}),
            ratings=[
                ItemRating(
                    rm=rm,
                    view=_label(view, draw),
                    scores=list(rating.scores) if rating.scores is not None else None,
                    unscored=rating.unscored,
                    note=rating.note,
                    raw=_cut(rating.raw) if rating.raw else None,
                    credit=credit(rating.scores, item.preferred) if rating.scores is not None else None,
                )
                for rm, view in ratings.credits
                for draw in range(draws[view])
                if (rating := ratings.rated(rm, view).get((item.id, draw))) is not None
                and rating.unscored != NO_FURTHER_STRANGER
            ],
        )
        for item in ratings.items
        if item.id in kept
    ]


def _label(view: str, draw: int) -> str:
    """The name of a view, with a number for its second stranger and those that follow."""
    return f"{view} ({draw + 1})" if draw else view


def _cut(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}\n[{len(text) - LONGEST_TEXT:,} more characters are in the run folder]"
