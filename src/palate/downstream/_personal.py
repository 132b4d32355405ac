"""What is personal in what happens downstream: the user's own view against no view and against a stranger's.

A gain over `none` alone may come from any profile, and items whose own view shows nothing can have none at all. So
every table of this floor compares the own view with both, on the items where it shows something.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.evaluation import default_views
from palate.records import Benchmark
from palate.report import (
    CLEAR,
    Finding,
    Section,
    Table,
    chance_of_error,
    figure,
    figure_interval,
    named_chance,
    points,
    points_interval,
)
from palate.stats import GAIN, Floats, PairedTest
from palate.views import ViewSpec, resolve_views

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


class PersonalGain(PairedTest, frozen=True, kw_only=True):
    """What the user's own view brought over no view or a stranger's, on the items where it shows something.

    The false discovery rate is held over all differences that are printed with it.
    """

    who: str
    """Who chose, guided or wrote, such as `best of 8 by embedding`."""
    measure: str
    view: str
    """The user's own view."""
    over: str
    """What it is compared with: `none`, or the view of the same kind of somebody else."""
    left_out: int
    """Items left out because the own view shows nothing."""


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
        """As `paired_tests` takes it."""
        return self.values, GAIN if self.measure in SHARES else ANYWHERE

    def gain(self, found: PairedTest) -> PersonalGain:
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

    `columns` holds a value an item for each view, nan where it is missing; `shows` which items a view shows
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


def personal_gains(asked: Sequence[Against], found: Sequence[PairedTest | None]) -> list[PersonalGain]:
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
                    f"{_other(gain)} ({_interval(gain)}, {named_chance('q', gain.q)})",
                )
        elif len(clear) == len(some) > 1:
            said = " and ".join(f"{_amount(gain)} over {_other(gain)}" for gain in some)
            yield Finding("good", f"{who}: seeing the user's own {view} gives a personal gain in {measure}: {said}")
        else:
            said = ", ".join(
                f"{_amount(gain)} over {_other(gain)}{'' if gain in clear else ', not established'}" for gain in some
            )
            if all(gain.over == "none" for gain in some):
                said += "; there is no stranger's view to compare it with"
            yield Finding(
                "note", f"{who}: the gain in {measure} from the user's own {view} is not shown to be personal: {said}"
            )
    for measure, names in unclear.items():
        yield Finding("note", f"No measurable personal gain in {measure}: {'; '.join(names)}")


def table_section(name: str, table: Table | None, *, terminal: bool = False) -> Section | None:
    """A section of one table, where there is one."""
    return None if table is None else Section(title=table.title, name=name, blocks=[table], terminal=terminal)


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


def _other(gain: PersonalGain) -> str:
    return "no profile" if gain.over == "none" else f"a stranger's view ({gain.over})"


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
