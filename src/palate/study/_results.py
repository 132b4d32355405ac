"""What a study says, as typed objects. Every key of `palate study --json` is documented here. Intervals are 95%."""

from __future__ import annotations

import msgspec

from palate.runs import RunSummary
from palate.stats import Agreement, Coefficient, FamilyAgreement, Figure, PredictorTest


class EntryResult(msgspec.Struct, frozen=True, kw_only=True):
    """A reward model that sees one view of the user."""

    entry: str
    model: str
    view: str
    family: str
    numbers: dict[str, Figure | None]
    """By the number's name; null where it could not be had."""


class NumberInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One number that is known of every entry."""

    name: str
    measure: str
    what: str
    predicts: bool
    """Whether it is known before anything is written or trained with the reward model."""
    happens: bool
    """Whether it says what happened downstream."""
    share: bool
    """Whether it lies between 0 and 1."""
    models: int
    """Entries that have it."""


class NewFamilies(msgspec.Struct, frozen=True, kw_only=True):
    """The rank correlation of the primary predictor with what happened, for entries of other families than these."""

    outcome: str
    families: int
    spearman: Coefficient | None
    """Interval and p draw families whole: entries of one family are not independent."""


class Unprofiled(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy gains by being shown something, without any reward model: in-context learning."""

    measure: str
    view: str
    gain: Figure | None
    best: str | None
    """The entry that gained most by the same measure."""
    best_gain: Figure | None
    over_best: Figure | None
    """Its gain minus that entry's, over the same people. The entry was picked after looking, which favours it."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What a measure cost, over all of its cells."""

    measure: str
    cells: int
    seconds: float
    """On the clock, as long as each cell ran; cells that run side by side count each."""
    device: str
    tokens: int
    """Written by policies."""
    items: int
    """Asks to reward models for each view, comparisons or prompts."""
    validity: Coefficient | None
    """The rank correlation of its first number with the last use in the plan, where it can stand as predictor."""


class CellState(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that is not finished."""

    cell: str
    reason: str
    """Why it failed; empty where it has not been run yet."""


class StudySummary(RunSummary, frozen=True, kw_only=True):
    """Everything that a study says."""

    title: str
    entries: list[EntryResult]
    numbers: list[NumberInfo]
    primary: str | None
    """The number that the others are compared with: accuracy on the first benchmark of the plan."""
    agreements: list[Agreement]
    """Of every predictor with everything that happened."""
    predictors: list[PredictorTest]
    """Every other predictor against the primary one, by how well they agree with what happened."""
    families: list[FamilyAgreement]
    """The primary predictor within and between families, for everything that happened."""
    new_families: list[NewFamilies]
    in_context: list[Unprofiled]
    costs: list[Cost]
    cells: int
    """How many there are."""
    unfinished: list[CellState]
