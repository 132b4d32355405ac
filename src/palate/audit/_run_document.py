"""The audit of a run, put into words: who is served worse than others, and who by being known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palate.audit._run_results import Gap, RunAudit, SliceGain
from palate.report import (
    CLEAR,
    Document,
    Finding,
    Note,
    Section,
    Table,
    chance_of_error,
    count,
    natural_order,
    percent,
    percent_interval,
    points,
    points_interval,
    warnings_first,
)

MOST_NAMED = 5
MOST_ROWS = 12
"""Rows of a table in a terminal; the Markdown file and `--json` have all."""
_FOOTNOTE = (
    "Intervals are 95% and resample users (couples of twins together) and, where users judge the same items, items. "
    "q holds the false discovery rate over the whole "
    "table, with all fields, models and views."
)


def run_findings(audit: RunAudit) -> list[Finding]:
    """Everything worth saying, warnings first."""
    found = [*_state_findings(audit), *_gaps_findings(audit), *_gains_findings(audit), *_harm_findings(audit)]
    return warnings_first(found)


def _state_findings(audit: RunAudit) -> Iterator[Finding]:
    if not audit.complete:
        yield Finding("warning", "Not every item is rated yet; the numbers will change.", "Finish the run first.")
    if not (audit.slices or audit.hidden):
        yield Finding(
            "note",
            "The run has no groups: its items carry no category and its users no demographics.",
            "Add traits or categories to the benchmark and run again.",
        )
    elif not audit.slices:
        yield Finding(
            "note",
            f"No group can be shown: no field has two groups of {audit.least} users or more.",
            "Use broader groups, or more users.",
        )


NARROW = 0.1
"""Where no gap can be wider than this, it is good news that none was found."""
_NAMES = {"known": "the number of judgements known of the user"}
"""Fields whose own names say too little in a sentence."""


def _gaps_findings(audit: RunAudit) -> Iterator[Finding]:
    clear = sorted((gap for gap in audit.gaps if gap.q < CLEAR), key=lambda gap: -gap.gap)
    for gap in clear[:MOST_NAMED]:
        yield Finding(
            "warning",
            f"{gap.rm}, {gap.view}: by {_NAMES.get(gap.by, gap.by)}, {gap.worst} is served {points(-gap.gap)} points "
            f"worse than {gap.best} (q {chance_of_error(gap.q)}).".replace("−", ""),
            "Look at the items of the worst served before using the model for them.",
        )
    if len(clear) > MOST_NAMED:
        yield Finding("warning", f"{len(clear) - MOST_NAMED} more gaps are clear; the table has them.")
    if audit.gaps and not clear:
        yield _no_gap(audit.gaps)
    tested = {gap.by for gap in audit.gaps}
    if tested and (untested := [one.by for one in audit.hidden if one.by not in tested]):
        yield Finding("note", f"Not tested, because the groups are too small or too many: {', '.join(untested)}.")


def _no_gap(gaps: Sequence[Gap]) -> Finding:
    """That nothing was found is good news only where something would have been."""
    said = f"Of {count(len(gaps), 'gap')} tested, none is more than chance would give."
    unknown = any(gap.high is None for gap in gaps)
    widest = max((gap.high for gap in gaps if gap.high is not None), default=1.0)
    if not unknown and widest < NARROW:
        return Finding("good", said)
    how_wide = "any size" if unknown else f"up to {points(widest).removeprefix('+')} points"
    return Finding("note", f"{said} But so few users leave room for gaps of {how_wide}.", "Ask more users.")


def _gains_findings(audit: RunAudit) -> Iterator[Finding]:
    worse = sorted((one for one in audit.gains if one.difference < 0 and one.q < CLEAR), key=lambda one: one.difference)
    for one in worse[:MOST_NAMED]:
        yield Finding(
            "warning",
            f"{one.rm}, {one.view}: the profile makes it worse for {one.value} ({one.by}), by "
            f"{points(-one.difference).removeprefix('+')} points.",
            "Leave the profile out for this group, or find out what it says of them.",
        )
    if audit.gains and not worse:
        yield Finding("good", "No group that is shown is clearly served worse with the profile than without.")


def _harm_findings(audit: RunAudit) -> Iterator[Finding]:
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


def run_document(audit: RunAudit, *, whole: bool = False) -> Document:
    """What the audit found; `whole` leaves nothing out."""
    return Document(
        name="Fairness audit",
        title=audit.benchmark_title,
        size=f"{count(audit.items, 'item')}, {count(audit.users, 'user')}, groups of {audit.least} users or more",
        findings=audit.findings,
        sections=[
            *_gaps(audit, whole=whole),
            *_slices(audit, whole=whole),
            *_harm(audit),
            *_gains(audit, whole=whole),
            *_harmed(audit),
            *_stability(audit),
        ],
    )


def _gaps(audit: RunAudit, *, whole: bool) -> Iterator[Section]:
    shown = audit.gaps if whole else audit.gaps[:MOST_ROWS]
    titles = ("field", "best served", "worst served", "gap", "95%", "q")
    tables = _by_model([((gap.rm, gap.view), _gap_row(gap)) for gap in shown], titles, words=3)
    notes = [
        f"{_field(one.by)}: {count(one.cells, 'group')} with {count(one.users, 'user')} {one.reason}."
        for one in audit.hidden
    ]
    if len(shown) < len(audit.gaps):
        notes.append(f"{len(audit.gaps) - len(shown)} more gaps, none of them clearer: --output writes them all.")
    if tables or notes:
        yield Section(
            title="Gaps between the best and the worst served",
            name="Gaps",
            blocks=[*tables, *map(Note, notes)],
            small_print=[_FOOTNOTE],
            terminal=True,
        )


def _by_model(
    rows: Sequence[tuple[tuple[str, str], tuple[str, ...]]], titles: tuple[str, ...], words: int
) -> list[Table]:
    """A table for each model and view, in the order of their first rows."""
    return [
        Table(title=", ".join(key), titles=titles, words=words, rows=[row for own, row in rows if own == key])
        for key in dict.fromkeys(own for own, _ in rows)
    ]


def _gap_row(gap: Gap) -> tuple[str, ...]:
    return (
        _field(gap.by),
        gap.best,
        gap.worst,
        points(gap.gap),
        points_interval(gap.low, gap.high),
        chance_of_error(gap.q),
    )


def _field(by: str) -> str:
    """Short enough for a table."""
    return by.removeprefix("demographics.")


def _slices(audit: RunAudit, *, whole: bool) -> Iterator[Section]:
    """In a terminal, the groups behind the clear gaps, or behind the first one where none is clear."""
    gaps = audit.gaps if whole else [gap for gap in audit.gaps if gap.q < CLEAR][:3] or audit.gaps[:1]
    wanted = {(gap.by, gap.rm, gap.view) for gap in gaps}
    tables = []
    for by, rm, view in dict.fromkeys((cell.by, cell.rm, cell.view) for cell in audit.slices):
        if not whole and (by, rm, view) not in wanted:
            continue
        cells = {cell.value: cell for cell in audit.slices if (cell.by, cell.rm, cell.view) == (by, rm, view)}
        order = natural_order(cells) or sorted(cells, key=lambda value: -cells[value].accuracy)
        rows = [
            (
                cell.value,
                percent(cell.accuracy),
                percent_interval(cell.low, cell.high),
                f"{cell.users:,}",
                f"{cell.n:,}",
            )
            for cell in map(cells.__getitem__, order)
        ]
        titles = ("group", "accuracy", "95%", "users", "items")
        tables.append(Table(title=f"By {_field(by)}: {rm}, {view}", titles=titles, words=1, rows=rows))
    if tables:
        yield Section(title="Accuracy by group", name="Groups", blocks=tables, terminal=True)


def _harm(audit: RunAudit) -> Iterator[Section]:
    if not audit.harms:
        return
    titles = ("model", "view", "worse", "by\nchance", "clearly\nworse", "by\nchance", "q", "users")
    rows = [
        (
            harm.rm,
            harm.view,
            f"{harm.worse:,}",
            f"{harm.worse_by_chance:,.1f}",
            f"{harm.clearly_worse:,}",
            f"{harm.clearly_worse_by_chance:,.1f}",
            chance_of_error(harm.q),
            f"{harm.users:,}",
        )
        for harm in audit.harms
    ]
    note = "By chance: what it would be if every change that the profile makes were as likely a gain as a loss."
    yield Section(
        title="Users served worse with the profile than with none",
        name="Harm",
        blocks=[Table(titles=titles, words=2, rows=rows), Note(note)],
        terminal=True,
    )


def _gains(audit: RunAudit, *, whole: bool) -> Iterator[Section]:
    ordered = sorted(audit.gains, key=lambda one: one.difference)
    shown = ordered if whole else ordered[:MOST_ROWS]
    if not shown:
        return
    titles = ("field", "group", "gain", "95%", "q", "users")
    tables = _by_model([((one.rm, one.view), _gain_row(one)) for one in shown], titles, words=2)
    more = len(ordered) - len(shown)
    notes = (
        [Note(f"{count(more, 'more group gains', 'more groups gain')} more: --output writes them all.")] if more else []
    )
    yield Section(
        title="What the profile adds by group, smallest gain first",
        name="Gains",
        blocks=[*tables, *notes],
        terminal=True,
    )


def _gain_row(one: SliceGain) -> tuple[str, ...]:
    interval = points_interval(one.low, one.high)
    return (_field(one.by), one.value, points(one.difference), interval, chance_of_error(one.q), f"{one.users:,}")


def _harmed(audit: RunAudit) -> Iterator[Section]:
    if not audit.harmed_users:
        return
    rows = [(one.user_id, one.rm, one.view, points(one.gain), f"{one.n:,}") for one in audit.harmed_users]
    yield Section(
        title="Users clearly served worse with the profile",
        name="Users",
        blocks=[
            Table(titles=("user", "model", "view", "gain", "items"), words=3, rows=rows),
            Note("Some of them are here by chance: compare the table above."),
        ],
        terminal=True,
    )


def _stability(audit: RunAudit) -> Iterator[Section]:
    found = audit.stability
    if found is None:
        return
    rows = [(one.over, f"{one.halves:,}", percent(one.kept), percent(one.best_kept)) for one in found.splits]
    needed = [
        f"{one.users:,} for {points(one.difference).removeprefix('+').removesuffix('.0')}" for one in found.needed
    ]
    yield Section(
        title="Would another half give the same order?",
        name="Stability",
        blocks=[
            Table(titles=("halves of", "each", "two models\nin one order", "the same\nis best"), words=1, rows=rows),
            Note(
                f"{found.models} models and views, put into order by one half and by the other, 500 times. Users "
                f"needed for the right order of two models 95% of the time, by the points that they differ by: "
                f"{', '.join(needed)}."
            ),
        ],
        terminal=True,
    )
