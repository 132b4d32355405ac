"""Does a model that knows the person still know what everybody wants?

Every user is asked about pairs of a general benchmark, once with nobody's profile and once with their own. A gain on
personal data is worth little where this costs general quality. "No difference is seen" would be a weak answer, so the
test is one of equivalence: the whole interval of the change has to lie within a margin that is stated beforehand.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from palate.data import load_benchmark
from palate.evaluation import EVALUATION, Ratings, evaluate
from palate.records import Benchmark, Comparison, PalateError, RewardModel
from palate.report import ABSENT, Document, Finding, Note, Section, Table, percent, points, points_interval
from palate.runs import Progress, open_run, write_whole
from palate.stats import GAIN, Halves, Resamples, WorstTenth, paired_differences

MARGIN = 0.02
USERS = 60
PAIRS = 20
"""General pairs that each user is asked about."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What a profile does to the general quality of one model."""

    rm: str
    view: str
    before: float
    """Accuracy on the general pairs without a profile."""
    after: float
    """With each user's own."""
    low: float | None
    high: float | None
    """95% interval of the change, over users."""
    verdict: Literal["kept", "lost", "changed", "not known"]
    """`kept`: the interval lies within the margin. `lost`: it lies below zero and reaches beyond the margin, or lies
    beyond it. `changed`: the same above zero. `not known`: the interval holds zero and is wider than the margin."""
    better: int
    worse: int
    """Users whose own accuracy on the general pairs is higher, or lower, with their profile."""
    worst_before: WorstTenth | None
    worst_after: WorstTenth | None
    """The tenth of users served worst; null with fewer than 50 users."""


class GeneralQuality(msgspec.Struct, frozen=True, kw_only=True):
    """What everybody wants, asked with and without a profile."""

    general: str
    """The benchmark that the pairs are from."""
    margin: float
    pairs: int
    """Different pairs that were asked about."""
    users: int
    kept: list[Kept]


def measure_general(
    benchmark: str | Path | Benchmark,
    general: str | Path | Benchmark,
    models: Sequence[str | RewardModel],
    views: Sequence[str],
    *,
    margin: float = MARGIN,
    users: int = USERS,
    pairs: int = PAIRS,
    seed: int = 0,
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> GeneralQuality:
    """Ask each user's models about general pairs, with and without the profile; it resumes like an evaluation."""
    if not 0 < margin < 1:
        raise PalateError(f"a margin is a share between 0 and 1, such as 0.02 for 2 points; {margin:g} was given")
    if users < 1 or pairs < 1:
        raise PalateError(f"general quality needs at least one user and one pair; {users} and {pairs} were given")
    personal = [view for view in views if view != "none"]
    if not personal:
        raise PalateError("general quality is measured with and without a profile, and no view shows one")
    folder = Path(data_dir) if data_dir else None
    people, common = (
        one if isinstance(one, Benchmark) else load_benchmark(one, data_dir=folder) for one in (benchmark, general)
    )
    asked = ask_everybody(people, common, users, pairs, seed)
    summary = evaluate(asked, models, ["none", *personal], seed=seed, out=out, progress=progress)
    run = open_run(Path(summary.run), EVALUATION)
    ratings = Ratings.of(run)
    halves = Halves(ratings.users, [item.group or item.id for item in ratings.items], seed)
    labels = [model.label for model in run.settings.models]
    return GeneralQuality(
        general=common.card.name,
        margin=margin,
        pairs=len({item.group for item in ratings.items}),
        users=len({item.user_id for item in ratings.items}),
        kept=[_kept(ratings, halves, rm, view, margin, seed) for rm in labels for view in personal],
    )


def general_pairs(benchmark: Benchmark) -> list[Comparison]:
    """What most people chose of each pair: one comparison a pair, ties left out.

    Pairs that one person judged count as they are.
    """
    votes: dict[tuple[str, frozenset[str]], Counter[str]] = defaultdict(Counter)
    first: dict[tuple[str, frozenset[str]], Comparison] = {}
    for item in benchmark.comparisons:
        key = item.prompt, frozenset(item.responses)
        votes[key][item.chosen] += 1
        first.setdefault(key, item)
    found = []
    for key, item in first.items():
        ranked = votes[key].most_common(2)
        if len(ranked) == 1 or ranked[0][1] > ranked[1][1]:
            found.append(msgspec.structs.replace(item, preferred=item.responses.index(ranked[0][0])))
    return found


def ask_everybody(people: Benchmark, general: Benchmark, users: int, pairs: int, seed: int) -> Benchmark:
    """General pairs as comparisons of each of some users, who are all said to want what most people want."""
    common = general_pairs(general)
    if not common:
        raise PalateError(f"{general.card.name} has no pair on which most people agree, so it says nothing general")
    draw = np.random.default_rng([seed, 4])
    there = sorted({item.user_id for item in people.comparisons})
    chosen = sorted(draw.permutation(there)[:users].tolist())
    comparisons = []
    for user in chosen:
        for number in sorted(draw.permutation(len(common))[:pairs].tolist()):
            pair = common[number]
            comparisons.append(
                Comparison(
                    id=f"{user}:{pair.id}",
                    user_id=user,
                    prompt=pair.prompt,
                    responses=pair.responses,
                    preferred=pair.preferred,
                    group=pair.id,
                )
            )
    card = msgspec.structs.replace(
        people.card,
        name=f"{people.card.name}-on-{general.card.name}",
        title=f"General pairs of {general.card.name}, asked of the users of {people.card.name}",
    )
    return Benchmark(card=card, users=people.users, comparisons=tuple(comparisons))


def _kept(ratings: Ratings, halves: Halves, rm: str, view: str, margin: float, seed: int) -> Kept:
    before, after = ratings.credits[rm, "none"], ratings.credits[rm, view]
    both = ~np.isnan(before) & ~np.isnan(after)
    if not both.any():
        raise PalateError(f"{rm} scored no general pair both with {view} and without a profile")
    [change] = paired_differences(
        [ratings.mean(after - before, both, within=GAIN)], Resamples(ratings.n_clusters, seed=seed)
    )
    by_user = np.bincount(ratings.users[both], weights=(after - before)[both])
    return Kept(
        rm=rm,
        view=view,
        before=float(before[both].mean()),
        after=float(after[both].mean()),
        low=change.low,
        high=change.high,
        verdict=judge_change(change.low, change.high, margin),
        better=int((by_user > 0).sum()),
        worse=int((by_user < 0).sum()),
        worst_before=halves.worst_tenth(before),
        worst_after=halves.worst_tenth(after),
    )


def judge_change(
    low: float | None, high: float | None, margin: float
) -> Literal["kept", "lost", "changed", "not known"]:
    """What the interval of a change says, against a margin.

    >>> [judge_change(*limits, 0.02) for limits in ((-0.01, 0.01), (-0.05, -0.03), (-0.05, 0.01), (0.01, 0.05))]
    ['kept', 'lost', 'not known', 'changed']
    """
    if low is None or high is None:
        return "not known"
    if -margin < low and high < margin:
        return "kept"
    if high < 0:
        return "lost"
    return "changed" if low > 0 else "not known"


def general_document(found: GeneralQuality) -> Document:
    """One row for each model and view."""
    changes = Table(
        titles=("model", "view", "before", "after", "change", "95%", "verdict"),
        words=2,
        rows=[
            (
                _short(one.rm),
                one.view,
                percent(one.before),
                percent(one.after),
                points(one.after - one.before),
                points_interval(one.low, one.high),
                one.verdict,
            )
            for one in found.kept
        ],
    )
    users = Table(
        titles=("model", "view", "users\nup", "users\ndown", "no\nchange", "worst tenth\nbefore", "worst tenth\nafter"),
        words=2,
        rows=[
            (
                _short(one.rm),
                one.view,
                f"{one.better:,}",
                f"{one.worse:,}",
                f"{found.users - one.better - one.worse:,}",
                percent(one.worst_before.accuracy) if one.worst_before else ABSENT,
                percent(one.worst_after.accuracy) if one.worst_after else ABSENT,
            )
            for one in found.kept
        ],
    )
    margin = points(found.margin).removeprefix("+")
    lost = [f"{_short(one.rm)} with {one.view}" for one in found.kept if one.verdict == "lost"]
    unknown = [f"{_short(one.rm)} with {one.view}" for one in found.kept if one.verdict == "not known"]
    findings = []
    if lost:
        findings.append(Finding("warning", f"General quality is lost by {', '.join(lost)}."))
    if unknown:
        findings.append(
            Finding(
                "note",
                f"Not known to within {margin} points: {', '.join(unknown)}.",
                "Ask more users or pairs: --general-users, --general-pairs.",
            )
        )
    if not lost and not unknown:
        findings.append(Finding("good", f"General quality changes by less than {margin} points."))
    note = (
        f"Each user is asked about {found.general} with no profile and with their own. kept: the whole interval lies "
        f"within {margin} points of no change. up, down: users whose own accuracy rises or falls. worst tenth: the "
        "users served worst, picked on half of their pairs and measured on the other."
    )
    section = Section(
        title="Is what everybody wants still known?",
        name="General",
        blocks=[changes, users, Note(note)],
        terminal=True,
    )
    return Document(
        name="General quality",
        title=f"General quality on {found.general}",
        size=f"{found.pairs:,} pairs, {found.users:,} users",
        findings=findings,
        sections=[section],
    )


def _short(rm: str) -> str:
    """A trained model as the other tables of its run call it."""
    return rm.removeprefix("personal:")


def write_general(found: GeneralQuality, run: str | Path) -> Path:
    """Keep the result beside the run."""
    file = Path(run) / "general.json"
    write_whole(file, msgspec.json.format(msgspec.json.encode(found)))
    return file
