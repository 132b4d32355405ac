"""The audit of a run, put into words."""

from __future__ import annotations

from collections.abc import Iterator

from palate.audit._run_results import CellGain, Gap, RunAudit
from palate.report import (
    CLEAR,
    Document,
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
)

MOST_ROWS = 12
"""Rows of a table in a terminal; the Markdown file and `--json` have all."""
_FOOTNOTE = (
    "Intervals are 95% and resample users (couples of twins together) and, where users judge the same items, items. "
    "q holds the false discovery rate over the whole "
    "table, with all fields, models and views."
)


def run_document(audit: RunAudit, *, whole: bool = False) -> Document:
    """What the audit found; `whole` leaves nothing out."""
    return Document(
        name="Fairness audit",
        title=audit.benchmark_title,
        size=f"{count(audit.items, 'item')}, {count(audit.users, 'user')}, groups of {audit.least} users or more",
        findings=audit.findings,
        sections=[
            *_gaps(audit, whole=whole),
            *_cells(audit, whole=whole),
            *_harm(audit),
            *_gains(audit, whole=whole),
            *_harmed(audit),
        ],
    )


def _gaps(audit: RunAudit, *, whole: bool) -> Iterator[Section]:
    shown = audit.gaps if whole else audit.gaps[:MOST_ROWS]
    titles = ("field", "best served", "worst served", "gap", "95%", "q")
    tables = [
        Table(
            title=f"{rm}, {view}",
            titles=titles,
            words=3,
            rows=[_gap_row(gap) for gap in shown if (gap.rm, gap.view) == (rm, view)],
        )
        for rm, view in dict.fromkeys((gap.rm, gap.view) for gap in shown)
    ]
    notes = [
        f"{_field(one.by)}: {count(one.cells, 'group')} with {count(one.users, 'user')} {one.reason}."
        for one in audit.hidden
    ]
    if len(shown) < len(audit.gaps):
        notes.append(f"{len(audit.gaps) - len(shown)} more gaps, none of them clearer: --out writes them all.")
    if tables or notes:
        yield Section(
            title="Gaps between the best and the worst served",
            name="Gaps",
            blocks=[*tables, *map(Note, notes)],
            small_print=[_FOOTNOTE],
            terminal=True,
        )


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


def _cells(audit: RunAudit, *, whole: bool) -> Iterator[Section]:
    """In a terminal, the groups behind the clear gaps, or behind the first one where none is clear."""
    gaps = audit.gaps if whole else [gap for gap in audit.gaps if gap.q < CLEAR][:3] or audit.gaps[:1]
    wanted = {(gap.by, gap.rm, gap.view) for gap in gaps}
    tables = []
    for by, rm, view in dict.fromkeys((cell.by, cell.rm, cell.view) for cell in audit.cells):
        if not whole and (by, rm, view) not in wanted:
            continue
        cells = {cell.value: cell for cell in audit.cells if (cell.by, cell.rm, cell.view) == (by, rm, view)}
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
    ordered = sorted(audit.gains, key=lambda one: one.gain)
    shown = ordered if whole else ordered[:MOST_ROWS]
    if not shown:
        return
    titles = ("field", "group", "gain", "95%", "q", "users")
    tables = [
        Table(
            title=f"{rm}, {view}",
            titles=titles,
            words=2,
            rows=[_gain_row(one) for one in shown if (one.rm, one.view) == (rm, view)],
        )
        for rm, view in dict.fromkeys((one.rm, one.view) for one in shown)
    ]
    more = len(ordered) - len(shown)
    notes = (
        [Note(f"{count(more, 'more group gains', 'more groups gain')} more: --out writes them all.")] if more else []
    )
    yield Section(
        title="What the profile adds by group, smallest gain first",
        name="Gains",
        blocks=[*tables, *notes],
        terminal=True,
    )


def _gain_row(one: CellGain) -> tuple[str, ...]:
    interval = points_interval(one.low, one.high)
    return (_field(one.by), one.value, points(one.gain), interval, chance_of_error(one.q), f"{one.users:,}")


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
