"""What is personal in what happens downstream: the user's own view against no view and against a stranger's.

A gain over `none` alone may come from any profile, and items whose own view shows nothing can have none at all. So
every table of this floor compares the own view with both, on the items where it shows something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.downstream._policy import Item
from palate.evaluate import (
    CLEAR,
    GAIN,
    Appender,
    Finding,
    Floats,
    Ledger,
    Quantity,
    Resamples,
    Table,
    chance_of_error,
    cluster_totals,
    default_views,
    figure,
    figure_interval,
    paired_differences,
    points,
    points_interval,
    ratio,
    view_warnings,
)
from palate.records import Benchmark, View
from palate.views import ViewBuilder, ViewSpec, drawn, resolve_views

MANY_EMPTY = 0.1
"""A larger part of texts or views that are empty is warned of."""
MANY_SHARED = 0.1
"""From this part of the items on, prompts that several users have are told of."""
SCORE = "the critic's score"
AGREEMENT = "agreement with the critic"
SHARES = ("reward accuracy", "policy accuracy", AGREEMENT)
"""Measures whose gains are told in points."""
ANYWHERE = (-np.inf, np.inf)
Range = tuple[float, float]


def personal_views(benchmark: Benchmark) -> list[str]:
    """What a downstream table shows unless told otherwise: no profile, the richest there is, and a stranger's."""
    return [name for name in default_views(benchmark) if name != "oracle"]


def controls(view: ViewSpec, *, strangers: int) -> list[ViewSpec]:
    """What a view of the user is compared with: nothing, and a stranger's view of the same kind where there is one."""
    if view.whose != "own" or not view.pieces:
        return []
    beside = [f"swapped:{view.name}"] if view.is_profile else []
    return resolve_views(["none", *beside], strangers=strangers)


def own_view(benchmark: Benchmark) -> str:
    """The richest profile there is, or `none`."""
    return personal_views(benchmark)[:2][-1]


class Prompted(Protocol):
    """An item with a prompt of its own or of several users."""

    @property
    def prompt(self) -> str: ...


def shared_prompts(items: Sequence[Prompted], clusters: NDArray[np.intp]) -> list[Finding]:
    """That users share prompts, where they do: users alone are resampled, and say nothing about new prompts."""
    asked: dict[str, set[int]] = {}
    for item, cluster in zip(items, clusters.tolist(), strict=True):
        asked.setdefault(item.prompt, set()).add(cluster)
    shared = sum(len(asked[item.prompt]) > 1 for item in items)
    if shared < MANY_SHARED * len(items) or not shared:
        return []
    text = f"users share prompts ({shared:,} of {len(items):,} items): intervals are for new users and these prompts"
    return [Finding("note", text)]


class SeenLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `views.jsonl`: whose profile an item was shown with, and how many pieces of it."""

    view: str
    item: str
    draw: int = 0
    user_id: str | None = None
    kinds: dict[str, int] = {}
    """How many parts of each kind it shows."""
    by_name: bool = False
    withheld: int = 0
    """Pieces of history that hold a text of the item, and so are not among the parts."""
    closeness: str | None = None
    """What a stranger has in common with the user."""
    missing: str | None = None
    """Why the item has no such view."""

    @property
    def shows(self) -> bool:
        """Whether a model can tell anything of the user by it."""
        return self.missing is None and (bool(self.kinds) or self.by_name)


VIEWS = Ledger("views.jsonl", SeenLine, lambda line: (line.view, line.item, line.draw))


def keep_views(folder: Path, builder: ViewBuilder, views: Iterable[ViewSpec], items: Sequence[Item]) -> None:
    """Write down what each view shows of each item; only what is missing is added."""
    known = {(line.view, line.item, line.draw) for line in VIEWS.read(folder)}
    specs: dict[str, ViewSpec] = {}
    for view in views:  # one that is both the policy's and a reward model's has the larger number of strangers
        if view.pieces and (view.name not in specs or specs[view.name].draws < view.draws):
            specs[view.name] = view
    wanted = [
        (view, draw, some)
        for view, draw in drawn(specs.values())
        if (some := [item for item in items if (view.name, item.id, draw) not in known])
    ]
    if not wanted:
        return
    with closing(Appender(folder / VIEWS.name)) as appender:
        for view, draw, some in wanted:
            built = zip(some, builder.build(view, some, draw=draw), strict=True)
            appender.append([_seen(view.name, item.id, draw, found) for item, found in built])


def _seen(name: str, item: str, draw: int, found: object) -> SeenLine:
    if not isinstance(found, View):
        return SeenLine(view=name, item=item, draw=draw, missing=str(getattr(found, "reason", "no such view")))
    return SeenLine(
        view=name,
        item=item,
        draw=draw,
        user_id=found.user_id,
        kinds=dict(Counter(part.kind for part in found.parts)),
        by_name=found.by_name,
        withheld=found.withheld,
        closeness=found.closeness,
    )


class ViewShown(msgspec.Struct, frozen=True, kw_only=True):
    """What one view showed over all items of a run."""

    view: str
    items: int
    empty: int
    """Items for which it shows nothing."""
    missing: int
    """Items that cannot have it, such as those without a stranger."""
    strangers: int
    """How many different people stand in for each user, at most; 0 for a user's own view."""
    pieces: float
    """The mean number of pieces that it shows, where it shows any."""
    withheld: int
    """Pieces of history that hold a text of their item, and so were left out."""


class Seen:
    """What every view of a run showed, in the order of its items."""

    def __init__(self, folder: Path, items: Sequence[str]) -> None:
        self._places = {item: place for place, item in enumerate(items)}
        self._lines: dict[str, list[SeenLine]] = {}
        for line in VIEWS.read(folder):
            if line.item in self._places:
                self._lines.setdefault(line.view, []).append(line)

    def shows(self, view: str) -> NDArray[np.bool_]:
        """Which items it shows something for."""
        found = np.zeros(len(self._places), dtype=np.bool_)
        for line in self._lines.get(view, ()):
            found[self._places[line.item]] |= line.shows
        return found

    def warnings(self, views: Sequence[ViewSpec]) -> list[Finding]:
        """What the views could not show, how well strangers match, and which controls are not there."""
        items = len(self._places)
        found = [
            Finding("warning", text)
            for view in views
            for text in view_warnings(
                view, [line for line in self._lines.get(view.name, ()) if not line.missing], items
            )
        ]
        return [*found, *_without_controls(views)]

    def summary(self, views: Iterable[ViewSpec]) -> list[ViewShown]:
        """What each view that shows anything at all showed."""
        return [self._summary(view) for view in views if view.pieces]

    def _summary(self, view: ViewSpec) -> ViewShown:
        lines = self._lines.get(view.name, [])
        there = {line.item for line in lines if line.missing is None}
        parts = [sum(line.kinds.values()) for line in lines if line.shows]
        return ViewShown(
            view=view.name,
            items=len(self._places),
            empty=len(there) - int(self.shows(view.name).sum()),
            missing=len({line.item for line in lines} - there),
            strangers=0 if view.whose == "own" else view.draws,
            pieces=float(np.mean(parts)) if parts else 0.0,
            withheld=sum(line.withheld for line in lines),
        )


class Tested(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of paired differences, with its interval and its test."""

    n: int
    users: int
    difference: float
    low: float | None
    high: float | None
    p: float
    q: float
    carried_by: int | None = None
    """Without so many users, those who pull furthest, the interval would hold zero; null where it does anyway."""


def mean_totals(values: Floats, clusters: NDArray[np.intp], n_clusters: int) -> Floats:
    """By cluster: the sum of the values that are there, and how many they are."""
    has = ~np.isnan(values)
    return cluster_totals(np.stack([np.where(has, values, 0.0), has.astype(float)], axis=1), clusters, n_clusters)


def tested(
    columns: Sequence[tuple[Floats, Range]],
    clusters: NDArray[np.intp],
    users: NDArray[np.str_],
    resamples: Resamples,
) -> list[Tested | None]:
    """Differences, an item each and nan where it does not count, with the range of what is possible.

    The false discovery rate is held over all that are given, so give all that are printed. None where no item counts.
    """
    there = [index for index, (values, _) in enumerate(columns) if not np.isnan(values).all()]
    means = [
        Quantity(mean_totals(values, clusters, resamples.n_clusters), ratio, within)
        for values, within in (columns[index] for index in there)
    ]
    found: list[Tested | None] = [None] * len(columns)
    for index, difference in zip(there, paired_differences(means, resamples), strict=True):
        has = ~np.isnan(columns[index][0])
        found[index] = Tested(
            n=int(has.sum()),
            users=len(set(users[has].tolist())),
            difference=difference.value,
            low=difference.low,
            high=difference.high,
            p=difference.p,
            q=difference.q,
            carried_by=difference.carried_by,
        )
    return found


class PersonalGain(msgspec.Struct, frozen=True, kw_only=True):
    """What the user's own view brought over no view or a stranger's, on the items where it shows something."""

    who: str
    """Who chose, guided or wrote, such as `best of 8 by embedding`."""
    measure: str
    view: str
    """The user's own view."""
    over: str
    """What it is compared with: `none`, or the view of the same kind of somebody else."""
    left_out: int
    """Items left out because the own view shows nothing."""
    n: int
    users: int
    difference: float
    low: float | None
    high: float | None
    p: float
    q: float
    """The false discovery rate over all differences that are printed with it."""
    carried_by: int | None = None
    """Without so many users, those who pull furthest, the interval would hold zero; null where it does anyway."""


class Against(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One gain before it is tested."""

    who: str
    measure: str
    view: str
    over: str
    left_out: int
    values: Floats
    """An item each; nan where it does not count."""

    @property
    def column(self) -> tuple[Floats, Range]:
        """As `tested` takes it."""
        return self.values, GAIN if self.measure in SHARES else ANYWHERE

    def gain(self, found: Tested) -> PersonalGain:
        """With what the test says."""
        return PersonalGain(
            who=self.who,
            measure=self.measure,
            view=self.view,
            over=self.over,
            left_out=self.left_out,
            **msgspec.structs.asdict(found),
        )


def against(
    who: str,
    measure: str,
    columns: Mapping[str, Floats],
    views: Sequence[ViewSpec],
    shows: Mapping[str, NDArray[np.bool_]],
) -> Iterator[Against]:
    """Own over none and own over stranger, on the items where the own view shows something.

    `columns` holds a value an item for each view, nan where there is none; `shows` which items a view shows
    something for.
    """
    for own in views:
        for other in views:
            stands_for = other.name == "none" or (other.whose != "own" and other.of == own.name)
            of_user = own.whose == "own" and own.pieces
            if not (of_user and stands_for and {own.name, other.name} <= columns.keys()):
                continue
            differences = columns[own.name] - columns[other.name]
            kept = np.where(shows[own.name], differences, np.nan)
            left_out = int((~np.isnan(differences)).sum() - (~np.isnan(kept)).sum())
            yield Against(who=who, measure=measure, view=own.name, over=other.name, left_out=left_out, values=kept)


def personal_gains(asked: Sequence[Against], found: Sequence[Tested | None]) -> list[PersonalGain]:
    """Those that have an item at all."""
    return [one.gain(test) for one, test in zip(asked, found, strict=True) if test is not None]


def personal_findings(gains: Sequence[PersonalGain]) -> Iterator[Finding]:
    """What is clear gets a sentence of its own; what is not, one for each measure."""
    together: dict[tuple[str, str, str], list[PersonalGain]] = {}
    for gain in gains:
        together.setdefault((gain.who, gain.measure, gain.view), []).append(gain)
    unclear: dict[str, list[str]] = {}
    for (who, measure, view), some in together.items():
        clear = [gain for gain in some if gain.q < CLEAR]
        if not clear:
            said = ", ".join(f"{_amount(gain)} over {_other(gain)}" for gain in some)
            unclear.setdefault(measure, []).append(f"{who} seeing the user's own {view}: {said}")
        elif any(gain.difference < 0 for gain in clear):
            for gain in (one for one in clear if one.difference < 0):
                yield Finding(
                    "warning",
                    f"{who}: seeing the user's own {view} costs {_size(gain)} in {measure} against seeing "
                    f"{_other(gain)} ({_interval(gain)}, q = {chance_of_error(gain.q)})",
                )
        elif len(clear) == len(some) > 1:
            said = " and ".join(f"{_amount(gain)} over {_other(gain)}" for gain in some)
            yield Finding("good", f"{who}: seeing the user's own {view} is a personal gain in {measure}: {said}")
        else:
            said = ", ".join(
                f"{_amount(gain)} over {_other(gain)}{'' if gain in clear else ', not established'}" for gain in some
            )
            if all(gain.over == "none" for gain in some):
                said += "; there is no stranger's to compare with"
            yield Finding(
                "note", f"{who}: seeing the user's own {view} is not shown to be personal in {measure}: {said}"
            )
    for measure, names in unclear.items():
        yield Finding("note", f"No measurable personal gain in {measure}. {'; '.join(names)}")


def _without_controls(views: Sequence[ViewSpec]) -> Iterator[Finding]:
    """Views of the user that stand alone."""
    for view in (view for view in views if view.is_profile):
        lacking = [] if any(other.name == "none" for other in views) else ["none"]
        if not any(other.whose != "own" and other.of == view.name for other in views):
            lacking.append("swapped")
        if lacking:
            yield Finding(
                "warning",
                f"{view.name} stands without {' and '.join(lacking)} beside it, so whether what it brings is personal "
                f"cannot be told: add {' '.join(f'--view {name}' for name in lacking)}",
            )


def personal_table(gains: Sequence[PersonalGain]) -> Table | None:
    """Every gain, the same for terminal, Markdown and page; what all have in common stands in the title."""
    if not gains:
        return None
    views, measures = ({gain.view for gain in gains}, {gain.measure for gain in gains})
    seeing = f", seeing {gains[0].view}" if len(views) == 1 else ""
    by = f", by {gains[0].measure}" if len(measures) == 1 else ""
    words = ("who", *([] if by else ["by"]), "over")
    return Table(
        title=f"What the user's own view brings{seeing}{by}, where it shows something",
        titles=(*words, "gain", "95%", "q", "users", "n"),
        words=len(words),
        headings=True,
        rows=[
            (
                gain.who if seeing else f"{gain.who}, seeing {gain.view}",
                *([] if by else [gain.measure]),
                gain.over.partition(":")[0],  # whose it is; the rest is the user's own view
                _amount_alone(gain) + ("*" if gain.q < CLEAR else " "),
                _limits(gain),
                chance_of_error(gain.q),
                f"{gain.users:,}",
                f"{gain.n:,}",
            )
            for gain in gains
        ],
    )


def view_table(shown: Sequence[ViewShown]) -> Table | None:
    """What each view showed."""
    if not shown:
        return None
    return Table(
        title="What the views show",
        titles=("view", "items", "nothing to show", "cannot be had", "strangers", "pieces", "withheld"),
        words=1,
        rows=[
            (
                one.view,
                f"{one.items:,}",
                f"{one.empty:,}",
                f"{one.missing:,}",
                str(one.strangers or ""),
                f"{one.pieces:.1f}",
                f"{one.withheld:,}",
            )
            for one in shown
        ],
    )


def _other(gain: PersonalGain) -> str:
    return "nothing of the user" if gain.over == "none" else f"a stranger's ({gain.over})"


def _amount(gain: PersonalGain) -> str:
    return f"{_amount_alone(gain)} ({_interval(gain)})"


def _amount_alone(gain: PersonalGain) -> str:
    return points(gain.difference) if gain.measure in SHARES else figure(gain.difference, sign=True)


def _size(gain: PersonalGain) -> str:
    """Without its sign."""
    size = abs(gain.difference)
    return f"{points(size).lstrip('+')} points" if gain.measure in SHARES else figure(size)


def _limits(gain: PersonalGain) -> str:
    if gain.measure in SHARES:
        return points_interval(gain.low, gain.high)
    return figure_interval(gain.low, gain.high, sign=True)


def _interval(gain: PersonalGain) -> str:
    return "no interval" if gain.low is None else f"95% {_limits(gain)}"
