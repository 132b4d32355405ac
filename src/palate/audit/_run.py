"""Whom does a run's model serve worse than others, and whom does it serve worse for knowing them?"""

from __future__ import annotations

from pathlib import Path

import msgspec

from palate.audit._benchmark import check_least
from palate.audit._fairness import Key, measure_gains, measure_groups
from palate.audit._harm import harmed_users, measure_harm
from palate.audit._run_document import run_findings
from palate.audit._run_results import Hidden, RunAudit
from palate.audit._stability import measure_stability
from palate.evaluation import (
    EVALUATION,
    MOST_GROUPS,
    SMALLEST_GROUP,
    Grouping,
    Ratings,
    Settings,
    groupings,
    shown_groups,
)
from palate.records import PalateError
from palate.rewards import CONTROLS
from palate.runs import Progress, Run, open_run


def audit_run(
    run: str | Path,
    *,
    least: int = SMALLEST_GROUP,
    users: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> RunAudit:
    """Accuracy by group, gaps between groups, and who is served worse with the profile; no model is needed.

    With `users`, those who are clearly served worse are named.
    """
    check_least(least)
    opened = open_run(Path(run), EVALUATION)
    ratings = Ratings.of(opened)
    if not ratings.items:
        raise PalateError(f"{run} holds no items: its items.jsonl is missing or empty. Run palate eval again.")
    models, views = _looked_at(opened)
    keys: list[Key] = [(rm, view) for rm in models for view in views]
    pairs = [((rm, view), (rm, "none")) for rm, view in keys if view != "none" and "none" in views]
    fields = groupings(ratings)
    shown = [shown_groups(ratings, field, least) for field in fields if not field.is_nearly_id]
    slices, gaps = measure_groups(ratings, keys, shown, least, seed, progress)
    hidden = [_hidden(ratings, field, least) for field in fields]
    audit = RunAudit(
        run=str(opened.folder),
        benchmark=opened.settings.benchmark.name,
        benchmark_title=opened.settings.benchmark.title,
        seed=seed,
        least=least,
        items=len(ratings.items),
        users=len({item.user_id for item in ratings.items}),
        complete=ratings.missing == 0,
        models=models,
        views=views,
        findings=[],
        gaps=sorted(gaps, key=lambda gap: (gap.q, -gap.gap)),
        slices=slices,
        hidden=[one for one in hidden if one is not None],
        harms=measure_harm(ratings, pairs, seed, progress),
        gains=measure_gains(ratings, pairs, shown, least, seed),
        stability=measure_stability(ratings, [(rm, view) for rm in _ordered(opened) for view in views], seed),
        harmed_users=harmed_users(ratings, pairs) if users else None,
    )
    return msgspec.structs.replace(audit, findings=run_findings(audit))


def _ordered(run: Run[Settings]) -> list[str]:
    """All models, the controls too, but not the coin: it has no place of its own."""
    return [model.label for model in run.settings.models if model.label != "random"]


def _hidden(ratings: Ratings, field: Grouping, least: int) -> Hidden | None:
    """What is not shown by itself of a field, in numbers that point at nobody."""
    if field.is_nearly_id:
        reason = f"left out, since more than {MOST_GROUPS} values are nearly an id"
        return Hidden(by=field.by, cells=len(field.values), users=ratings.count_users(field.codes >= 0), reason=reason)
    shown = shown_groups(ratings, field, least)
    merged = [name for name in shown.values if name not in field.values]
    if not merged:
        return None
    cells = len(field.values) - len(shown.values) + 1
    users = ratings.count_users(shown.codes == shown.values.index(merged[0]))
    reason = f"counted as {merged[0]}, since some have fewer than {least} users"
    if len(shown.values) == 1:
        reason = f"left out, since there are no two groups of {least} users"
    return Hidden(by=field.by, cells=cells, users=users, reason=reason)


def _looked_at(run: Run[Settings]) -> tuple[list[str], list[str]]:
    """Controls serve nobody, and nobody is served with a stranger's profile: tests of them would only cost power."""
    labels = [model.label for model in run.settings.models]
    views = [view.name for view in run.settings.views if view.name == "none" or view.is_profile]
    return [label for label in labels if label not in CONTROLS] or labels, views
