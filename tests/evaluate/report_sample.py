"""A small run with all that a report can show, made up but consistent: numbers come from the same credits."""

from __future__ import annotations

import functools
import itertools

import msgspec
import numpy as np

from palate.evaluation import evaluation_document, is_control
from palate.evaluation._results import Calibration, Difference, Gain, Result, Slice, Summary, UserAccuracy
from palate.report import Document, ItemCard, ItemRating, ItemText
from palate.stats import Estimate

USERS, EACH = 60, 5
VIEWS = {"none": None, "posts:5": None, "judgements:4": None, "swapped": "posts:5", "oracle": None}
TRUTH = {
    "random": (0.5, 0.5, 0.5, 0.5, 0.5),
    "longest": (0.5, 0.5, 0.5, 0.5, 0.5),
    "overlap": (0.5, 0.66, 0.76, 0.46, 0.72),
    "embedding": (0.5, 0.72, 0.87, 0.47, 0.82),
    "judge:small": (0.52, 0.54, 0.56, 0.53, 0.78),
}
CATEGORIES = ("Art_and_Entertainment", "Lifestyle_and_Personal_Development", "Society_and_Culture")
REGIONS = ("Africa", "Asia", "Europe", "Oceania", "South America")
Credits = dict[tuple[str, str], np.ndarray]


def credits_of(seed: int = 0) -> Credits:
    """For each model and view, what each item earned, users by items; unscored is not a number."""
    generator = np.random.default_rng(seed)
    found: Credits = {}
    for rm, shares in TRUTH.items():
        for view, share in zip(VIEWS, shares, strict=True):
            skill = np.clip(generator.normal(share, 0.08 if share != 0.5 else 0.0, size=(USERS, 1)), 0, 1)
            credit = (generator.random((USERS, EACH)) < skill).astype(float)
            if rm == "overlap" and view != "none":
                credit[generator.random((USERS, EACH)) < 0.03] = 0.5
            if rm == "overlap" and view == "none":
                credit[:] = 0.5
            if rm == "judge:small":
                credit[generator.random((USERS, EACH)) < 0.02] = np.nan
            found[rm, view] = found[rm, "none"] if rm in ("random", "longest") and view != "none" else credit
    return found


def interval(credit: np.ndarray) -> tuple[float, float, float]:
    picks = np.random.default_rng(1).integers(0, len(credit), size=(400, len(credit)))
    means = np.nanmean(credit[picks], axis=(1, 2))
    return float(np.nanmean(credit)), float(np.percentile(means, 2.5)), float(np.percentile(means, 97.5))


def result_of(found: Credits, rm: str, view: str) -> Result:
    credit = found[rm, view]
    value, low, high = interval(credit)
    none, oracle = float(np.nanmean(found[rm, "none"])), float(np.nanmean(found[rm, "oracle"]))
    closed = (value - none) / (oracle - none) if oracle - none > 0.1 and view not in ("none", "oracle") else None
    return Result(
        rm=rm, view=view, of=VIEWS[view], n=int(np.isfinite(credit).sum()), users=USERS, accuracy=value, low=low,
        high=high, macro=value, worst_tenth=None, chance=0.5, ties=int((credit == 0.5).sum()),
        unscored=int(np.isnan(credit).sum()), empty=0, notes=0, orders=None,
        length_controlled=Estimate(value, low, high),
        twin_consistency=None, oracle_gap_closed=Estimate(closed, closed - 0.1, closed + 0.1) if closed else None,
        calibration=Calibration(n=300, brier=0.21, ece=0.04) if rm == "judge:small" else None,
    )  # fmt: skip


def gain_of(found: Credits, rm: str, view: str, over: str) -> Gain:
    value, low, high = interval(found[rm, view] - found[rm, over])
    p = 0.0004 if low > 0 or high < 0 else 0.4
    return Gain(rm=rm, view=view, over=over, n=300, users=USERS, difference=value, low=low, high=high, p=p, q=p * 1.5)


def difference_of(found: Credits, view: str, rm: str, than: str) -> Difference:
    value, low, high = interval(found[rm, view] - found[than, view])
    p = 0.0004 if low > 0 or high < 0 else 0.4
    return Difference(
        view=view, rm=rm, than=than, n=300, users=USERS, difference=value, low=low, high=high, p=p, q=p * 1.5
    )


def slices_of(found: Credits) -> list[Slice]:
    fields = {
        "category": (CATEGORIES, np.arange(USERS) % 3),
        "difficulty": (("explicit", "implicit"), np.arange(USERS) % 2),
        "demographics.region": (REGIONS, np.arange(USERS) % 5),
    }
    made = []
    for (rm, view), (by, (values, which)) in itertools.product(found, fields.items()):
        for position, value in enumerate(values):
            part = found[rm, view][which == position]
            accuracy, low, high = interval(part)
            made.append(
                Slice(
                    rm=rm,
                    view=view,
                    by=by,
                    value=value,
                    n=part.size,
                    users=len(part),
                    accuracy=accuracy,
                    low=low,
                    high=high,
                )
            )
    return made


def sample_summary(**changed: object) -> Summary:
    return msgspec.structs.replace(_summary(), **changed)


@functools.cache
def _summary() -> Summary:
    found = credits_of()
    names = [(rm, view) for rm in TRUTH for view in VIEWS]
    profiles = ("posts:5", "judgements:4")
    fields: dict[str, object] = {
        "kind": "eval",
        "version": "1",
        "findings": [],
        "run": "runs/mini-embedding",
        "benchmark": "mini",
        "benchmark_title": "mini: thirty couples who want opposite things",
        "benchmark_hash": "sha256:4f1d2c9a7be0c35518a2",
        "licence": "Apache-2.0",
        "seed": 7,
        "items": USERS * EACH,
        "users": USERS,
        "split": None,
        "complete": True,
        "warnings": ["judge:small left 29 of 1,500 asks unscored (1.9%)"],
        "strangers": ["swapped: 3.0 strangers an item, 60 people; topic and batch 100%."],
        "results": [result_of(found, rm, view) for rm, view in names],
        "gains": [
            gain_of(found, rm, view, over)
            for rm in ("overlap", "embedding", "judge:small")
            for view in profiles
            for over in ("none", "swapped")
            if over == "none" or VIEWS[over] == view
        ],
        "differences": [
            difference_of(found, view, rm, than)
            for view in profiles
            for rm, than in (("embedding", "overlap"), ("embedding", "judge:small"), ("judge:small", "overlap"))
        ],
        "over_baseline": [],
        "slices": slices_of(found),
        "costs": [],
        "user_accuracies": [
            UserAccuracy(rm=rm, view=view, user_id=f"user-{user}", n=EACH, accuracy=float(np.nanmean(row)))
            for rm, view in names
            for user, row in enumerate(found[rm, view])
        ],
    }
    return Summary(**fields)  # type: ignore[arg-type]


def ratings_of(found: Credits, user: int, item: int) -> list[ItemRating]:
    made = []
    for (rm, view), credit in found.items():
        value = float(credit[user, item])
        if np.isnan(value):
            made.append(
                ItemRating(
                    by=rm,
                    control=is_control(rm),
                    view=view,
                    outcome="unscored",
                    note="no verdict in the answer",
                    raw="I cannot choose between them.",
                )
            )
        else:
            raw = "The first one. [[A]]" if rm == "judge:small" else None
            outcome = "right" if value == 1 else "wrong" if value == 0 else "tied"
            scores = [value, 1.0 - value]
            made.append(
                ItemRating(by=rm, control=is_control(rm), view=view, outcome=outcome, scores=scores, raw=raw)  # type: ignore[arg-type]
            )
    return made


def sample_items(users: int = USERS) -> list[ItemCard]:
    found = credits_of()
    return [
        ItemCard(
            id=f"item-{user:03}-{item}", user=f"user-{user}",
            prompt=f"Question {item} of user {user}: how should I spend a free evening?",
            texts=[
                ItemText(
                    label="Response 1", text=f"Write it on paper, alone. ({user}-{item})",
                    tags=["preferred by this user"], highlighted=True,
                ),
                ItemText(label="Response 2", text=f"Record it for a friend. ({user}-{item})"),
            ],
            facts={"category": CATEGORIES[user % 3], "difficulty": ("explicit", "implicit")[user % 2]},
            profiles={
                "none": "", "posts:5": f"Posts of user {user}", "judgements:4": f"Judgements of user {user}",
                "swapped": f"Posts of user {(user + 1) % USERS}", "oracle": "Paper, not devices",
            },
            ratings=ratings_of(found, user % USERS, item),
        )
        for user in range(users)
        for item in range(EACH)
    ]  # fmt: skip


def sample_document(users: int = USERS) -> Document:
    return evaluation_document(sample_summary(), sample_items(users))
