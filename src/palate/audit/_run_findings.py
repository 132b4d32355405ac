"""The verdict on a run: who is served worse than others, and who by being known."""

from __future__ import annotations

from collections.abc import Iterator

from palate.audit._run_results import RunAudit
from palate.report import CLEAR, Finding, chance_of_error, count, percent, points, warnings_first

MOST_NAMED = 5


def run_findings(audit: RunAudit) -> list[Finding]:
    """Everything worth saying, warnings first."""
    found = [*_state(audit), *_gaps(audit), *_gains(audit), *_harm(audit)]
    return warnings_first(found)


def _state(audit: RunAudit) -> Iterator[Finding]:
    if not audit.complete:
        yield Finding("warning", "Not every item is rated yet; the numbers will change.", "Finish the run first.")
    if not (audit.cells or audit.hidden):
        yield Finding(
            "note",
            "The run has no groups: its items carry no category and its users no demographics.",
            "Add traits or categories to the benchmark and run again.",
        )
    elif not audit.cells:
        yield Finding(
            "note",
            f"No group can be shown: no field has two groups of {audit.least} users or more.",
            "Use broader groups, or more users.",
        )


def _gaps(audit: RunAudit) -> Iterator[Finding]:
    clear = sorted((gap for gap in audit.gaps if gap.q < CLEAR), key=lambda gap: -gap.gap)
    for gap in clear[:MOST_NAMED]:
        yield Finding(
            "warning",
            f"{gap.rm}, {gap.view}: by {gap.by}, {gap.worst} is served {points(-gap.gap)} points worse than {gap.best} "
            f"(q {chance_of_error(gap.q)}).".replace("−", ""),
            "Look at the items of the worst served before using the model for them.",
        )
    if len(clear) > MOST_NAMED:
        yield Finding("warning", f"{len(clear) - MOST_NAMED} more gaps are clear; the table has them.")
    if audit.gaps and not clear:
        yield Finding("good", f"Of {count(len(audit.gaps), 'gap')} tested, none is more than chance would give.")
    tested = {gap.by for gap in audit.gaps}
    if tested and (untested := [one.by for one in audit.hidden if one.by not in tested]):
        yield Finding("note", f"Not tested, because the groups are too small or too many: {', '.join(untested)}.")


def _gains(audit: RunAudit) -> Iterator[Finding]:
    worse = sorted((one for one in audit.gains if one.gain < 0 and one.q < CLEAR), key=lambda one: one.gain)
    for one in worse[:MOST_NAMED]:
        yield Finding(
            "warning",
            f"{one.rm}, {one.view}: the profile makes it worse for {one.value} ({one.by}), by "
            f"{points(-one.gain).removeprefix('+')} points.",
            "Leave the profile out for this group, or find out what it says of them.",
        )
    if audit.gains and not worse:
        yield Finding("good", "No group that is shown is clearly served worse with the profile than without.")


def _harm(audit: RunAudit) -> Iterator[Finding]:
    if not audit.harms:
        yield Finding(
            "note",
            "The run has no profile view beside `none`: who is served worse by being known cannot be told.",
            "Run with --view none and a profile view.",
        )
    for harm in audit.harms:
        if harm.q < CLEAR and harm.clearly_worse > harm.clearly_worse_by_chance:
            yield Finding(
                "warning",
                f"{harm.rm}, {harm.view}: {harm.clearly_worse} of {count(harm.users, 'user')} are clearly served worse "
                f"with the profile ({percent(harm.clearly_worse / harm.users)}), where chance gives "
                f"{harm.clearly_worse_by_chance:.1f}.",
                "--users names them.",
            )
    if audit.harms and not any(harm.q < CLEAR for harm in audit.harms):
        yield Finding("good", "No more users are clearly served worse with the profile than chance would give.")
