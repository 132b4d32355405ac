"""The verdict on a benchmark: each finding is a sentence, how much it matters, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from palate.audit._artefacts import Artefacts
from palate.audit._benchmark_results import BenchmarkAudit, Habit, Reach
from palate.audit._controls import PROMPT_OVERLAP
from palate.evaluation import MOST_GROUPS
from palate.report import CLEAR, Finding, chance_of_error, count, percent, percent_interval, points, warnings_first

RARE_CONFLICTS = 0.05
FEWEST_SHARED = 30
"""Shared pairs from which a share of conflicts means anything."""
LARGE_SHORTCUT = 0.05
"""Points over guessing from which a control is a warning and not a note."""
LARGE_GAIN, SMALL_GAIN = 0.05, 0.03
"""Gains of personal models over impersonal ones are seldom larger than the first."""
NOTICEABLE_LUCK = 0.01
RARE_LEAKS = 0.02
MOST_TELLING = 3
"""Features of an artefact that a finding names; the table has them all."""
MANY = 0.2
ALIKE = 0.05
"""Correlation of one user's items from which more users are worth much more than more items."""
_SHORTCUTS = {
    "random": "Tossing a coin",
    "longest": "Taking the longest response",
    "shortest": "Taking the shortest response",
    "first": "Taking what people saw first",
    "overlap": "Taking the response that shares most words with the user's history",
    PROMPT_OVERLAP: "Taking the response that shares most words with the prompt",
}


def findings(audit: BenchmarkAudit) -> list[Finding]:
    """Everything worth saying: what survives of a claim, then warnings, then the rest."""
    rules = _RULES if audit.people else _RULES_WITHOUT_PEOPLE
    return [
        *_claims(audit),
        *_nobody(audit),
        *warnings_first(finding for rule in rules for finding in rule(audit)),
    ]


def _nobody(audit: BenchmarkAudit) -> Iterator[Finding]:
    """What a table that names no people cannot see, and how far its labels could hold for different people."""
    if audit.people:
        return
    yield Finding(
        "warning",
        "The data names no people. No accuracy on it shows that a model knows anybody: the same response is right for "
        "everybody, a model that serves one person well looks like one that serves another, and who is served worse "
        "cannot be seen.",
        "Add the column of the person who chose: FILE,user=COLUMN. Which values its prompts touch: add --values.",
    )
    found = audit.conflicts
    if found.shared:
        share = found.agreement.value if found.agreement else None
        yield Finding(
            "note",
            f"{found.shared:,} of {found.pairs:,} pairs were labelled more than once, and two labels of one pair agree "
            f"{percent(share)} of the time. Whether they differ by taste or by mistake is not known.",
        )
    else:
        yield Finding(
            "warning",
            "Every pair was labelled once, so how far the labels would hold for other people is not known.",
            "Let several people label a sample of the pairs.",
        )


def _values(audit: BenchmarkAudit) -> Iterator[Finding]:
    """Which values the prompts touch, and which a model could lack without anybody seeing it here."""
    found = audit.values
    if found is None:
        return
    by = {
        verdict: [f"{one.value} ({percent(one.share)})" for one in found.values if one.verdict == verdict]
        for verdict in ("touched", "thin")
    }
    absent = [f"{one.value} (at most {percent(one.high)})" for one in found.values if one.verdict == "not seen"]
    said = [
        f"{what}: {', '.join(names)}."
        for what, names in (("Prompts touch", by["touched"]), ("Thin", by["thin"]), ("Not seen", absent))
        if names
    ]
    yield Finding(
        "note",
        " ".join([*said, f"The encoder reads {percent(found.right)} of its anchors right when they are held out."]),
        "What a model makes of values that are thin or not seen cannot be told from these data."
        if by["thin"] or absent
        else "",
    )


def _claims(audit: BenchmarkAudit) -> Iterator[Finding]:
    """The one claim that matters most; the table has the others."""
    for claim in audit.claims[:1]:
        who = f"{claim.rm} with {claim.view}" if claim.rm else "The claim"
        accuracy = f"{who} is right {percent(claim.accuracy)} of the time, where guessing gets {percent(claim.chance)}"
        if claim.survives is None:
            yield Finding("warning", f"{accuracy}: nothing is claimed over guessing.")
            continue
        share = claim.survives
        interval = f"95% {percent(share.low)} to {percent(share.high)}"
        best = (
            "nothing that ignores the person does better than guessing"
            if claim.best == "guessing"
            else f"{claim.best} reads nothing of the person and gets {percent(claim.best_accuracy)}"
        )
        strangers = f" With a stranger's profile it gets {percent(claim.stranger)}." if claim.stranger else ""
        others = audit.conflicts.left_out_majority
        known = claim.rm is None and others is not None and others.value > claim.best_accuracy
        if known and others is not None and 2 * audit.conflicts.judgements >= audit.items:
            left = max(0.0, (claim.accuracy - others.value) / (claim.accuracy - claim.chance))
            strangers = (
                f" But on pairs that others judged too, their majority gets {percent(others.value)}: if the model has "
                f"learned from others' choices of these pairs, {percent(left)} survives."
            )
        yield Finding(
            "good" if share.low > 0.5 and not strangers.startswith(" But") else "warning",
            f"{percent(max(0.0, share.value))} of the claimed gain survives ({interval}). {accuracy}, and {best}."
            f"{strangers}",
            ""
            if share.low > 0
            else "The gain shows no personalisation: something that ignores the person may have it all.",
        )


def _artefacts(audit: BenchmarkAudit) -> Iterator[Finding]:
    found = audit.artefacts
    if found is None:
        yield Finding("note", f"Artefacts were not looked for: {audit.without_artefacts}.")
        return
    gets = (
        f"A model that reads the responses and nothing else gets {percent(found.accuracy)} "
        f"({percent_interval(found.low, found.high)}) on people and prompts that it has not seen, where guessing gets "
        f"{percent(found.chance)}"
    )
    if found.told_the_wrong_way and found.chance - found.accuracy >= LARGE_SHORTCUT:
        yield Finding(
            "warning" if found.high is not None and found.high < found.chance else "note",
            f"{gets}: less than guessing (p {chance_of_error(found.p_below)}). What tells the choices that it learned "
            "from tells against those that it is tested on.",
            "So it is where each person chooses their own texts, and others' choices show these as rejected: whoever "
            "knows whose texts are whose can tell the choice. Where the interval holds guessing, a few people with "
            "opposite tastes look the same. Whether the responses hold artefacts besides, this test cannot say.",
        )
        return
    by = _most_telling(found)
    if not found.told:
        missed = (found.high or 1.0) - found.chance
        unsure = f", but one worth up to {_size(missed)} points may be missed" if missed >= LARGE_SHORTCUT else ""
        yield Finding(
            "note" if unsure else "good", f"{gets}: no artefact is seen (p {chance_of_error(found.p)}){unsure}."
        )
        return
    if not found.told_of_others:
        yield Finding(
            "note",
            f"{gets} (p {chance_of_error(found.p)}). It tells the choices of these people; whether it tells those of "
            f"others is open, as the interval holds guessing.{by}",
            "A few people with tastes of their own, such as for long responses, look the same. Add people.",
        )
        return
    large = found.accuracy - found.chance >= LARGE_SHORTCUT
    yield Finding(
        "warning" if large else "note",
        f"{gets} (p {chance_of_error(found.p)}).{by}",
        "Good answers can look alike too: read the examples, and report this accuracy beside every model.",
    )


def _most_telling(found: Artefacts) -> str:
    """The features by which a choice can be told, where there are any."""
    by = [f"{one.feature} ({percent(one.chosen)} of {one.differ:,})" for one in found.telling[:MOST_TELLING]]
    return f" Most telling: {'; '.join(by)}." if by else " No single feature stands out."


def _headroom(audit: BenchmarkAudit) -> Iterator[Finding]:
    found = audit.headroom
    gain = found.attainable
    if gain is not None and found.ceiling is not None and found.impersonal_ceiling is not None:
        yield Finding(
            "note" if gain.low > 0 else "warning",
            f"A model that knew everybody's taste would get {percent(found.impersonal_ceiling.value)}, and one that "
            f"knew each person's {percent(found.ceiling.value)}: {_size(gain.value)} points to gain "
            f"(95% {_size(gain.low)} to {_size(gain.high)}).",
            "" if gain.low > 0 else "There may be nothing personal to find here.",
        )
    elif found.impersonal_ceiling is not None:
        ceiling = found.impersonal_ceiling
        yield Finding(
            "note",
            f"A model that knew everybody's taste and nobody's own would get {percent(ceiling.value)} (95% "
            f"{percent(ceiling.low)} to {percent(ceiling.high)}).",
        )
    for text in found.unknown:
        sentence, _, advice = text.partition(". ")
        yield Finding("note", f"{sentence.removesuffix('.')}.", advice)


def is_stranger(one: Reach) -> bool:
    """Whether a control was shown a stranger's profile."""
    return one.view.startswith("swapped")


def _size(difference: float) -> str:
    """Points without a sign."""
    return points(difference).removeprefix("+")


def _conflicts(audit: BenchmarkAudit) -> Iterator[Finding]:
    found = audit.conflicts
    if found.conflict_share is None:
        yield Finding(
            "warning",
            "No pair has been judged by two users: conflicts cannot be seen, and a high accuracy may come from knowing "
            "what most people like.",
            "Let two or more users judge the same pairs; until then, read gains over none and over swapped only.",
        )
        return
    shared = count(found.shared, "shared pair")
    if found.shared < FEWEST_SHARED:
        yield Finding(
            "warning",
            f"Two users or more judged {found.shared:,} of {found.pairs:,} pairs; with fewer than {FEWEST_SHARED} "
            "such pairs, conflicts can hardly be seen.",
            "Add pairs that two or more users judge.",
        )
    elif found.conflict_share < RARE_CONFLICTS:
        yield Finding(
            "warning",
            f"Users hardly ever disagree: {percent(found.conflict_share)} of {shared} have opposite labels.",
            "Choose pairs on which taste decides, or add twins.",
        )
    else:
        yield _noise_or_taste(audit, f"{percent(found.conflict_share)} of {shared} have opposite labels")
    if FEWEST_SHARED <= found.shared < MANY * found.pairs:
        yield Finding(
            "note", f"Only {found.shared:,} of {found.pairs:,} pairs are shared; the rest say nothing about conflicts."
        )


def _noise_or_taste(audit: BenchmarkAudit, disagree: str) -> Finding:
    """Disagreement alone is no taste: only what carries over from one judgement of a person to another is."""
    found, own = audit.conflicts, audit.conflicts.self_agreement
    at_most = f"a model that ignores the user gets at most {percent(found.majority)} on them"
    if found.twins > found.shared / 2:
        return Finding(
            "good",
            f"{disagree}, and {at_most}. {found.twins:,} are twins, which have opposite labels by construction.",
            "Whether the labels follow taste or noise shows in the gain over swapped.",
        )
    if own is not None and own.q < CLEAR and own.own < 1:
        return Finding(
            "good",
            f"Users want different things: {disagree}, and {at_most}. They agree with themselves {percent(own.own)} of "
            f"the time and with others {percent(own.others)}, on {count(own.n, 'pair')} judged again.",
        )
    habits = [(what, habit) for what, habit in _habits(audit) if habit.q < CLEAR and _is_shared(habit)]
    if habits:
        return Finding(
            "good",
            f"{disagree}, and part of that is personal: on pairs that they share, users differ in how often they take "
            f"{' and '.join(what for what, _ in habits)}, by more than noise gives.",
            "How much of the rest is noise is not known: ask some users the same pairs again.",
        )
    if own is not None and own.q < CLEAR and own.own == 1:
        again = count(own.n, "pair")
        return Finding(
            "warning",
            f"{disagree}, but whether that is taste is open: {again} judged again got the same answer every time, "
            "which rows that an export repeats would give as well.",
            "Look whether these people were asked twice (palate data check says where), and take copies out.",
        )
    noise = (
        f"judges who all want the same and err {percent(found.error_rate)} of the time would disagree as much"
        if found.error_rate is not None
        else "pairs that were picked because two careless judges differed would look the same"
    )
    if own is None:
        return Finding(
            "warning",
            f"{disagree}, but noise and taste cannot be told apart: {noise}, and no pair was judged twice by one user.",
            "Ask some users the same pairs again, and read gains over swapped only.",
        )
    return Finding(
        "warning",
        f"{disagree}, but that may be noise: users agree with themselves {percent(own.own)} of the time and with "
        f"others {percent(own.others)}, on {count(own.n, 'pair')} judged again (q {chance_of_error(own.q)}), and "
        f"{noise}.",
        "Ask more users the same pairs again, and read gains over swapped only.",
    )


def _habits(audit: BenchmarkAudit) -> list[tuple[str, Habit]]:
    found = [("the longest response", audit.lengths.habit)]
    found.append(("the first response", audit.positions.habit if audit.positions else None))
    return [(what, habit) for what, habit in found if habit is not None]


def _is_shared(habit: Habit) -> bool:
    """Whether most of it was seen among people who judged the same pairs."""
    return habit.within_pairs > habit.n / 2


def _contradictions(audit: BenchmarkAudit) -> Iterator[Finding]:
    found = audit.conflicts
    if found.contradicted:
        yield Finding(
            "note",
            f"Users contradicted themselves in {found.contradicted:,} of {found.repeated:,} repeated judgements; no "
            "model can be right on both.",
        )


def _controls(audit: BenchmarkAudit) -> Iterator[Finding]:
    clear = [one for one in audit.controls if one.q < CLEAR and not is_stranger(one)]
    above = sorted((one for one in clear if one.accuracy > one.chance), key=lambda one: one.chance - one.accuracy)
    for one in above:
        large = one.accuracy - one.chance >= LARGE_SHORTCUT
        yield Finding(
            "warning" if large else "note",
            f"{_SHORTCUTS[one.rm]} gets {percent(one.accuracy)}, where guessing gets {percent(one.chance)}: nothing "
            "has to be understood for that.",
            "Report it beside every model; what does not beat it has shown nothing." if large else "",
        )
    if 1.96 * audit.luck > NOTICEABLE_LUCK and audit.luck > 2 * audit.luck_unshared:
        yield Finding(
            "note",
            f"Many users judge the same texts, so a model that ignores the user may be {_size(1.96 * audit.luck)} "
            "points off guessing by luck alone; its interval over users does not show that.",
            "Do not make much of small differences between models that ignore the user.",
        )
    if not above and not (audit.artefacts and audit.artefacts.told):
        yield Finding("good", "No control that understands nothing does clearly better than guessing.")


def _impersonal(audit: BenchmarkAudit) -> Iterator[Finding]:
    one = audit.impersonal
    if one is None:
        return
    gets = f"A model of what everybody likes gets {percent(one.accuracy)} on users it has not seen"
    if one.low is not None and one.low > one.chance:
        yield Finding(
            "note",
            f"{gets}, where guessing gets {percent(one.chance)}.",
            "A personal model counts by its gain over this, not over guessing.",
        )
    else:
        yield Finding(
            "note",
            f"{gets}, no more than guessing: either taste decides here, or noise does.",
            "A gain over swapped tells which.",
        )


def _differing_habits(audit: BenchmarkAudit) -> Iterator[Finding]:
    advice = {
        "the longest response": "Show the length-controlled accuracy and `longest` beside every personal model.",
        "the first response": "Shuffle what people are shown, or keep positions from the model.",
    }
    for what, habit in _habits(audit):
        if habit.q < CLEAR:
            unshared = "" if _is_shared(habit) else " They judged different pairs, so the pairs may be what differs."
            yield Finding(
                "note",
                f"Users differ in how often they take {what}: {percent(habit.share)} on average, with a standard "
                f"deviation between people of {_size(habit.spread)} points beyond noise "
                f"({percent_interval(habit.low, habit.high)}).{unshared} A model may learn the habit and nothing else.",
                advice[what],
            )


def _positions_over_time(audit: BenchmarkAudit) -> Iterator[Finding]:
    positions = audit.positions
    found = positions.over_time if positions and positions.over_time_q < CLEAR else None
    if found and max(found) - min(found) > MANY:
        yield Finding(
            "warning",
            f"The first is chosen {percent(found[0])} of the time in the oldest quarter of the record and "
            f"{percent(found[-1])} in the newest, by the same people too. People do not change so much: the way of "
            "recording may have.",
            "Look at the shares by day, and take only what was recorded in one way.",
        )


def _leaks(audit: BenchmarkAudit) -> Iterator[Finding]:
    leaks, share = audit.leaks, f"of {audit.items:,} comparisons"
    if leaks.privileged_in_history:
        yield Finding(
            "warning" if leaks.privileged_in_history > RARE_LEAKS * audit.items else "note",
            f"In {leaks.privileged_in_history:,} {share} the earlier history repeats a private sentence of the item.",
            "Harmless where the private text quotes the history; otherwise take these texts out of the history.",
        )
    for number, what in (
        (leaks.response_in_judgements, "an earlier judgement of the user holds one of the responses"),
        (leaks.response_in_posts, "an earlier post of the user holds one of the responses or the private narrative"),
        (leaks.response_in_traits, "what is known of the user, demographics or values, holds one of the responses"),
    ):
        if number:
            yield Finding(
                "warning" if number > RARE_LEAKS * audit.items else "note",
                f"In {number:,} {share} {what}, or nearly: whoever is shown it is told the answer.",
                "palate's views leave it out; other tools may not. Build the history from other texts.",
            )
    if leaks.chosen_elsewhere:
        yield Finding(
            "note",
            f"In {leaks.chosen_elsewhere:,} {share} the user chose the same text among other responses too: a model "
            "can remember it instead of knowing the user.",
            "Split by text, not by row, when training.",
        )
    if leaks.later_history:
        yield Finding(
            "note",
            f"In {leaks.later_history:,} {share} some of the user's history is of the same date or later. palate's "
            "views leave it out; other tools may not.",
        )
    if audit.faults:
        said = count(len(audit.faults), "warning")
        yield Finding("note", f"{said} of palate data check, listed under the answers that leak.")


def _history(audit: BenchmarkAudit) -> Iterator[Finding]:
    without = audit.amounts.without_history
    if without:
        yield Finding(
            "warning" if without > MANY * audit.users else "note",
            f"{without:,} of {audit.users:,} users have no history, so nothing to be personal with.",
            "Collect posts or past choices of these users, or leave them out.",
        )


def _power(audit: BenchmarkAudit) -> Iterator[Finding]:
    gain, clusters = audit.power.smallest_gain, audit.power.clusters
    independent = count(clusters, "user") if clusters == audit.users else f"{clusters:,} independent users or couples"
    found = f"The smallest gain likely to be found is about {_size(gain)} points ({independent})."
    if gain > LARGE_GAIN:
        help_little = " More items a user help little." if audit.power.correlation > ALIKE else ""
        yield Finding("warning", found, f"Add users: four times as many halve it.{help_little}")
    else:
        yield Finding("good" if gain <= SMALL_GAIN else "note", found)


def _amounts(audit: BenchmarkAudit) -> Iterator[Finding]:
    enough = audit.amounts.users_with_enough
    if enough < audit.users / 2:
        yield Finding(
            "note",
            f"{enough:,} of {audit.users:,} users have {audit.amounts.enough} comparisons or more; do not read "
            "accuracies of single users for the others.",
        )


def _groups(audit: BenchmarkAudit) -> Iterator[Finding]:
    if not audit.fields:
        yield Finding(
            "note",
            "There are no demographics, values or categories: whether some groups are served worse cannot be audited.",
            "Ask users for a few broad traits, with their consent.",
        )
    thin = [field for field in audit.fields if field.thin and field.cells <= MOST_GROUPS]
    if thin:
        cells = sum(field.thin for field in thin)
        yield Finding(
            "note",
            f"{count(cells, 'group')} in {', '.join(field.by for field in thin)} "
            f"{'has' if cells == 1 else 'have'} fewer than {audit.least} users: nothing can be said of them.",
            "Collect more of these users, or use broader groups.",
        )


_RULES: tuple[Callable[[BenchmarkAudit], Iterator[Finding]], ...] = (
    _values,
    _conflicts,
    _artefacts,
    _controls,
    _impersonal,
    _headroom,
    _power,
    _leaks,
    _history,
    _differing_habits,
    _positions_over_time,
    _contradictions,
    _amounts,
    _groups,
)
_RULES_WITHOUT_PEOPLE: tuple[Callable[[BenchmarkAudit], Iterator[Finding]], ...] = (
    _values,
    _artefacts,
    _controls,
)
