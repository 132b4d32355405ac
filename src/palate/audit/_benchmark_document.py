"""The audit of a benchmark, put into words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from palate.audit._artefacts import Artefacts
from palate.audit._benchmark_results import BenchmarkAudit, Field, Habit, Reach, Spread
from palate.evaluation import MOST_GROUPS
from palate.report import (
    ABSENT,
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
from palate.stats import Estimate

MOST_LISTED = 8
"""Groups of one field that are listed by name; `--json` has them all."""
MOST_FAULTS = 6
_FOOTNOTE = (
    "Intervals are 95% and resample users (couples of twins together) and, where users judge the same items, items. "
    "q holds the false discovery rate over the first "
    "table; it tests against guessing, from either side. The smallest gain is a normal approximation."
)


def benchmark_document(audit: BenchmarkAudit) -> Document:
    """Every number of the audit, in sections."""
    return Document(
        name="Audit",
        title=audit.benchmark_title,
        size=f"{count(audit.items, 'comparison')}, {count(audit.users, 'user')}, seed {audit.seed}",
        findings=audit.findings,
        sections=[
            *_claims(audit),
            _reach(audit),
            *_artefacts(audit),
            _headroom(audit),
            _conflicts(audit),
            *_values(audit),
            _habits(audit),
            _amounts(audit),
            _leaks(audit),
            *_fields(audit),
        ],
    )


def _reach(audit: BenchmarkAudit) -> Section:
    rows = [_reach_row(one) for one in audit.controls]
    if audit.impersonal:
        rows.append(_reach_row(audit.impersonal))
    if audit.artefacts:
        rows.append(_artefacts_row(audit.artefacts))
    titles = ("model", "view", "accuracy", "95%", "over\nguessing", "q", "n", "users")
    notes = []
    if audit.luck:
        notes.append(
            f"Coins that give every text one score are within {points(1.96 * audit.luck).removeprefix('+')} points of "
            "guessing 95% of the time."
        )
    if any(one.n < audit.items for one in audit.controls if one.view != "swapped"):
        notes.append("The control that reads profiles was given a sample of the comparisons.")
    if audit.impersonal:
        notes.append(
            "bradley-terry is trained on what everybody chose, and asked about users and pairs that it has not seen."
        )
    else:
        notes.append(f"There is no impersonal model: {audit.without_impersonal}.")
    if audit.artefacts:
        notes.append(
            "artefacts reads the form, words and characters of the responses. Its q is the p-value of its own test, by "
            f"{audit.artefacts.permutations:,} permutations."
        )
    table = Table(titles=titles, words=2, rows=rows)
    section = _section("How far one gets without knowing the user", "Without the user", table, notes)
    return msgspec.structs.replace(section, small_print=[_FOOTNOTE])


def _claims(audit: BenchmarkAudit) -> Iterator[Section]:
    if not audit.claims:
        return
    titles = ("model", "view", "accuracy", "a\nstranger's", "best\nimpersonal", "accuracy", "survives", "95%")
    rows = [
        (
            claim.rm or "as claimed",
            claim.view or ABSENT,
            percent(claim.accuracy),
            percent(claim.stranger),
            claim.best,
            percent(claim.best_accuracy),
            percent(claim.survives.value) if claim.survives else ABSENT,
            percent_interval(claim.survives.low, claim.survives.high) if claim.survives else ABSENT,
        )
        for claim in audit.claims
    ]
    notes = [
        "What survives is the part of the gain over guessing that is also a gain over the best that reads nothing of "
        "the person. The interval draws users again, and with them which impersonal model is best."
    ]
    if any(claim.rm is None for claim in audit.claims):
        notes.append("An accuracy that is given as a number is taken as exact.")
    section = _section("What survives of the claim", "Claim", Table(titles=titles, words=2, rows=rows), notes)
    verdict = Note(audit.findings[0].text)  # the first line of the audit, in a terminal too
    yield msgspec.structs.replace(section, blocks=[verdict, *section.blocks])


def _artefacts_row(found: Artefacts) -> tuple[str, ...]:
    return (
        "artefacts",
        "none",
        percent(found.accuracy),
        percent_interval(found.low, found.high),
        points(found.accuracy - found.chance),
        chance_of_error(found.p),
        f"{found.n:,}",
        f"{found.users:,}",
    )


def _artefacts(audit: BenchmarkAudit) -> Iterator[Section]:
    found = audit.artefacts
    if found is None or not found.telling:
        return
    rows = [
        (
            one.feature,
            one.example,
            "chosen" if one.example_chosen else "rejected",
            f"{one.weight:+.2f}",
            percent(one.chosen),
            f"{one.differ:,}",
        )
        for one in found.telling
    ]
    titles = ("a response that", "for example", "which was", "weight", "is chosen", "of")
    place = {"shown": "Places are those on the screen.", "file": "Places are those in the file."}
    yield _section(
        "What gives the choice away",
        "Artefacts",
        Table(titles=titles, words=3, rows=rows),
        [
            f"Held out: {found.held_out}. {place.get(found.position, f'Places were {found.position}.')}",
            "weight is the correlation with what the features above leave unexplained. That a response is longer or "
            "better written may be why people chose it; that it has brackets is not.",
        ],
    )


def _headroom(audit: BenchmarkAudit) -> Section:
    found = audit.headroom
    rows = [
        ("another person chose the same", _estimate(found.with_others)),
        ("the same person chose the same again", _estimate(found.with_self)),
        ("shared taste, part of the variance", _estimate(found.shared)),
        ("personal taste", _estimate(found.personal)),
        ("self-contradiction", _estimate(found.noise)),
        ("ceiling of a model that ignores the person", _estimate(found.impersonal_ceiling)),
        ("ceiling of any model", _estimate(found.ceiling)),
        ("personal gain to be had", _estimate(found.attainable)),
    ]
    rows = [row for row in rows if row[1] != ABSENT]
    rows += [
        (f"{one.rm}, as a part of that gain", f"{percent(one.accuracy)} is {_estimate(one.share)}")
        for one in found.scores
    ]
    notes = list(found.unknown)
    if found.ceiling_at_least is not None:
        notes.append(
            f"Whatever tastes are like, the ceiling of any model lies between {percent(found.ceiling_at_least)} and "
            f"{percent(found.ceiling_at_most)}, if people agree with themselves as often as here ({found.repeats:,} "
            "repeats) and did not remember what they had said."
        )
    return _facts("How much there is to gain by knowing the person", "Headroom", rows, notes)


def _reach_row(one: Reach) -> tuple[str, ...]:
    return (
        one.rm,
        one.view,
        percent(one.accuracy),
        percent_interval(one.low, one.high),
        points(one.accuracy - one.chance),
        chance_of_error(one.q),
        f"{one.n:,}",
        f"{one.users:,}",
    )


def _conflicts(audit: BenchmarkAudit) -> Section:
    found = audit.conflicts
    rows = [
        ("pairs judged by two users or more", f"{found.shared:,} of {found.pairs:,}"),
        ("of these with opposite labels", _with_share(found.conflicting, found.shared)),
        ("another user chose the same", _estimate(found.agreement)),
        ("most that an impersonal model can get on them", percent(found.majority)),
        ("the majority of the other users gets", _estimate(found.left_out_majority)),
        ("most that an impersonal model can get on all", percent(found.ceiling)),
        ("pairs that one user judged again", f"{found.repeated:,}"),
        ("of these with another choice", _with_share(found.contradicted, found.repeated)),
    ]
    if not found.shared:
        rows = [rows[0], *rows[6:]]
    if not found.repeated:
        rows.pop()
    if found.error_rate is not None:
        rows.append(("as much as judges would who want the same and err", percent(found.error_rate)))
    own = found.self_agreement
    if own:
        more = f"({points_interval(own.low, own.high)}, q {chance_of_error(own.q)})"
        rows += [
            (f"users agree with themselves, on {own.n:,} pairs that they judged again", percent(own.own)),
            ("users agree with others, on the same pairs", percent(own.others)),
            ("the difference", f"{points(own.own - own.others)} {more}"),
        ]
    return _facts("Do users want different things of the same pair?", "Conflicts", rows)


def _values(audit: BenchmarkAudit) -> Iterator[Section]:
    found = audit.values
    if found is None:
        return
    titles = ("value", "prompts", "95%", "", "called\nso", "known when\nheld out", "false\nalarms")
    rows = [
        (
            one.value,
            percent(one.share),
            percent_interval(one.low, one.high),
            one.verdict,
            percent(one.seen),
            percent(one.recall),
            percent(one.false_alarms),
        )
        for one in found.values
    ]
    notes = [
        f"Schwartz's ten values in {found.prompts:,} of {found.of:,} different prompts, by {found.encoder}: a prompt "
        "has the value whose anchors are nearest, or none. prompts is corrected by how often a value is known and "
        f"falsely seen in {found.anchors:,} anchors, each held out ({percent(found.right)} of them are read right).",
        "The rule was chosen on the same anchors, so its error is a little too good. They are English and were written "
        "for palate. A prompt that touches several values counts for one, "
        "and prompts unlike all anchors can be misread more often than the anchors.",
    ]
    yield _section("Which values the prompts touch", "Values", Table(titles=titles, words=1, rows=rows), notes)


def _habits(audit: BenchmarkAudit) -> Section:
    rows = [
        ("the chosen response is the longest", percent(audit.lengths.longest)),
        ("the chosen response is the shortest", percent(audit.lengths.shortest)),
    ]
    found = audit.positions
    if found:
        rows += [
            ("chosen by position on the screen", ", ".join(percent(share) for share in found.chosen)),
            ("the first, if position did not matter", percent(found.chance)),
        ]
    rows += _habit("the longest", audit.lengths.habit)
    rows += _habit("the first", found.habit if found else None)
    if found and found.over_time:
        quarters = ", ".join(map(percent, found.over_time))
        rows.append(
            ("the first, from the oldest quarter to the newest", f"{quarters} (q {chance_of_error(found.over_time_q)})")
        )
    notes = [] if found else ["Where people saw each response was not recorded."]
    return _facts("Length and position", "Habits", rows, notes)


def _habit(what: str, habit: Habit | None) -> list[tuple[str, str]]:
    if habit is None:
        return []
    spread = f"{points(habit.spread).removeprefix('+')} ({percent_interval(habit.low, habit.high)})"
    return [
        (f"users differ in taking {what} by, in points beyond noise", f"{spread}, q {chance_of_error(habit.q)}"),
        (f"choices compared within a pair, of {habit.n:,} that {habit.users:,} users made", f"{habit.within_pairs:,}"),
    ]


def _amounts(audit: BenchmarkAudit) -> Section:
    amounts, power = audit.amounts, audit.power
    smallest = points(power.smallest_gain).removeprefix("+")
    titles = ("a user has", "fewest", "lower\nquarter", "median", "upper\nquarter", "most")
    spreads = {"comparisons": amounts.items, "posts": amounts.posts, "judgements": amounts.judgements}
    return _section(
        "How much there is of each user, and what it can show",
        "Amounts",
        Table(titles=titles, words=1, rows=[(name, *_spread(one)) for name, one in spreads.items()]),
        [
            f"{amounts.users_with_enough:,} of {audit.users:,} users have {amounts.enough} comparisons or more, enough "
            "for an interval of their own.",
            f"Smallest gain found with 80% power: about {smallest} points, if two models differ on "
            f"{percent(power.differ)} of the items; {power.clusters:,} independent users or couples, whose items are "
            f"alike by {power.correlation:.3f}, worth {power.effective_items:,.0f} independent items.",
        ],
    )


def _spread(one: Spread) -> tuple[str, ...]:
    return tuple(f"{amount:,.6g}" for amount in (one.fewest, one.lower, one.median, one.upper, one.most))


def _leaks(audit: BenchmarkAudit) -> Section:
    leaks = audit.leaks
    rows = [
        ("the history holds the same choice", leaks.own_choice),
        ("an earlier judgement holds a response, or nearly", leaks.response_in_judgements),
        ("an earlier post holds a response or the narrative", leaks.response_in_posts),
        ("demographics or values hold a response", leaks.response_in_traits),
        ("the history repeats a private sentence", leaks.privileged_in_history),
        ("the same text was chosen among other responses", leaks.chosen_elsewhere),
        ("some history is of the same date or later", leaks.later_history),
    ]
    faults = [f"data check: {fault}" for fault in audit.faults[:MOST_FAULTS]]
    if len(audit.faults) > MOST_FAULTS:
        faults.append(f"... and {len(audit.faults) - MOST_FAULTS} more that palate data check lists")
    shares = [(what, _with_share(n, audit.items)) for what, n in rows]
    return _facts("Comparisons whose answer leaks", "Leaks", shares, faults)


def _fields(audit: BenchmarkAudit) -> Iterator[Section]:
    if not audit.fields:
        return
    rows = [row for field in audit.fields for row in _field_rows(field)]
    yield _section(
        "Groups",
        "Groups",
        Table(titles=("field", "group", "users", "comparisons"), words=2, rows=rows),
        [_field_note(field, audit.least) for field in audit.fields if field.thin or field.without],
    )


def _field_rows(field: Field) -> Iterator[tuple[str, ...]]:
    cells = {cell.value: cell for cell in field.listed[:MOST_LISTED]}
    for position, cell in enumerate(map(cells.__getitem__, natural_order(cells) or cells)):
        yield (field.by if position == 0 else "", cell.value, f"{cell.users:,}", f"{cell.items:,}")
    more = field.cells - min(len(field.listed), MOST_LISTED)
    if more:
        yield ("" if field.listed else field.by, f"({more:,} {'more' if field.listed else 'not named'})", "", "")


def _field_note(field: Field, least: int) -> str:
    if field.cells > MOST_GROUPS:
        return f"{field.by}: {field.cells:,} values, nearly an id and not a group."
    without = f"; {count(field.without, 'user')} without it" if field.without else ""
    return f"{field.by}: {field.thin:,} of {count(field.cells, 'group')} with fewer than {least} users{without}."


def _facts(title: str, name: str, rows: list[tuple[str, str]], notes: Sequence[str] = ()) -> Section:
    return _section(title, name, Table(titles=("", ""), words=1, rows=list(rows)), notes)


def _section(title: str, name: str, table: Table, notes: Sequence[str]) -> Section:
    return Section(title=title, name=name, blocks=[table, *map(Note, notes)], terminal=True)


def _with_share(part: int, whole: int) -> str:
    return f"{part:,} ({percent(part / whole)})" if whole else f"{part:,}"


def _estimate(estimate: Estimate | None) -> str:
    return (
        ABSENT if estimate is None else f"{percent(estimate.value)} ({percent_interval(estimate.low, estimate.high)})"
    )
