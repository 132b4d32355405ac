"""Whom does a run's model serve worse than others, and whom does it serve worse for knowing them?"""

from __future__ import annotations

from pathlib import Path

import msgspec

from palate.audit._benchmark import LEAST, check_least
from palate.audit._fairness import Key, measure_gains, measure_groups
from palate.audit._groups import groupings, hidden_of, is_nearly_id, shown_codes
from palate.audit._harm import harmed_users, measure_harm
from palate.audit._run_findings import run_findings
from palate.audit._run_results import RunAudit
from palate.evaluate import Ratings, Report, Run
from palate.records import PalateError
from palate.rewards import CONTROLS


def audit_run(
    run: str | Path, *, least: int = LEAST, users: bool = False, seed: int = 0, progress: Report | None = None
) -> RunAudit:
    """Accuracy by group, gaps between groups, and who is served worse with the profile; no model is needed.

    With `users`, those who are clearly served worse are named.
    """
    check_least(least)
    opened = Run.open(Path(run))
    ratings = Ratings.of(opened)
    if not ratings.items:
        raise PalateError(f"{run} holds no items: its items.jsonl is missing or empty. Run palate eval again.")
    models, views = _looked_at(opened)
    keys: list[Key] = [(rm, view) for rm in models for view in views]
    pairs = [((rm, view), (rm, "none")) for rm, view in keys if view != "none" and "none" in views]
    fields = [
        (grouping, [] if is_nearly_id(grouping) else shown_codes(ratings, grouping, least))
        for grouping in groupings(ratings)
    ]
    shown = [(grouping, codes) for grouping, codes in fields if codes]
    cells, gaps = measure_groups(ratings, keys, shown, least, seed, progress)
    hidden = [hidden_of(ratings, grouping, codes, least) for grouping, codes in fields]
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
        cells=cells,
        hidden=[one for one in hidden if one is not None],
        harms=measure_harm(ratings, pairs, seed, progress),
        gains=measure_gains(ratings, pairs, shown, least, seed),
        harmed_users=harmed_users(ratings, pairs) if users else None,
    )
    return msgspec.structs.replace(audit, findings=run_findings(audit))


def _looked_at(run: Run) -> tuple[list[str], list[str]]:
    """Controls serve nobody, and nobody is served with a stranger's profile: tests of them would only cost power."""
    labels = [model.label for model in run.settings.models]
    views = [view.name for view in run.settings.views if view.name == "none" or view.is_profile]
    return [label for label in labels if label not in CONTROLS] or labels, views
