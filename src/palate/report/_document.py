"""What every kind of run has to say, before it takes a form: terminal, Markdown, CSV or a web page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import PurePath
from typing import Literal, Protocol, TypeVar, overload

import msgspec

from palate.report._matrix import Matrix
from palate.report._plots import Chart, Histograms, IntervalPlot
from palate.report._scatter import Scatter
from palate.report._slopes import Slopes
from palate.report._table import Table

Severity = Literal["warning", "note", "good"]
SEVERITIES: tuple[Severity, ...] = ("warning", "note", "good")
Outcome = Literal["right", "wrong", "tied", "unscored"]
Cell = str | int | float | None


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a reader should know, in words."""

    severity: Severity
    """`warning`: would mislead. `note`: worth knowing. `good`: nothing wrong here."""
    text: str
    detail: str = ""
    """The numbers behind it, or what to do about it."""
    about: str = ""
    """The reward model that it is about; those of one model stand together."""

    @property
    def sentence(self) -> str:
        """All of it on one line.

        >>> Finding("good", "it uses the person's own profile", "+3.0 points over no profile", "embedding").sentence
        "embedding: it uses the person's own profile. +3.0 points over no profile."
        """
        text = self.text if self.text[-1:] in ".?!" else f"{self.text}."
        whole = f"{text} {as_sentence(self.detail)}" if self.detail else text
        return f"{self.about}: {whole}" if self.about else whole


def as_sentence(text: str) -> str:
    """With a capital letter, unless it begins with the name of a view or model, and a full stop.

    >>> as_sentence("seeing posts:5 adds nothing"), as_sentence("Why?"), as_sentence("posts:5: nothing to show")
    ('Seeing posts:5 adds nothing.', 'Why?', 'posts:5: nothing to show.')
    """
    first = text.partition(" ")[0].rstrip(":")
    named = not first.isalpha() or text.startswith(f"{first}:")
    return (text if named else text[:1].upper() + text[1:]) + ("" if text[-1:] in ".?!" else ".")


FindingType = TypeVar("FindingType", bound=Finding)


def warnings_first(findings: Iterable[FindingType]) -> list[FindingType]:
    """Then notes, then what is good, each in the order given."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


class Note(msgspec.Struct, frozen=True):
    """A sentence or two between other blocks."""

    text: str


class TableChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Tables of which a page shows one at a time, by their titles; the other forms leave them out."""

    label: str
    """Of the menu, such as `Reward model and view`."""
    tables: Sequence[Table]
    first: int = 0
    """Which one a page opens with."""


Block = Table | Chart | IntervalPlot | Histograms | Scatter | Slopes | Matrix | Note | TableChoice
"""Tables and notes appear in every form; the others on the page only."""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One question and its answer."""

    title: str
    name: str = ""
    """What the page's navigation calls it, where the title is too long."""
    lead: str = ""
    """What is shown and how to read it; a terminal leaves it out."""
    blocks: Sequence[Block]
    small_print: Sequence[str] = ()
    terminal: bool = False
    """Whether a terminal shows it too: the essential ones."""
    side_by_side: bool = False
    """Whether a wide page sets the charts in two columns."""


class ItemText(msgspec.Struct, frozen=True, kw_only=True):
    """One text of an item: a response, a sample, what was written at a weight, before or after training."""

    label: str
    text: str
    tags: Sequence[str] = ()
    """Such as `preferred by this user`, `chosen by embedding`, `the critic's best`."""
    highlighted: bool = False
    """Whether a frame sets it apart."""
    numbers: Mapping[str, float] = {}
    """By name, such as the critic's score."""


class ItemRating(msgspec.Struct, frozen=True, kw_only=True):
    """What one reward model said of the texts under one view."""

    by: str
    control: bool = False
    """Whether it understands nothing: the page counts it apart, and shows its same scores under several views once."""
    view: str = ""
    outcome: Outcome | None = None
    """Absent where nothing is right or wrong."""
    scores: Sequence[float | None] | None = None
    """One for each text; the highest is what the model picks."""
    note: str | None = None
    """A remark, or why there is no score."""
    raw: str | None = None
    """The model's own words."""


class ItemCard(msgspec.Struct, frozen=True, kw_only=True):
    """One item in the page's browser."""

    id: str
    user: str
    prompt: str
    texts: Sequence[ItemText]
    facts: Mapping[str, str] = {}
    """Such as its category and its difficulty."""
    profiles: Mapping[str, str] = {}
    """For each view, what was shown of the person; empty where it shows nobody."""
    ratings: Sequence[ItemRating] = ()


class ItemsWhenRead(Sequence[ItemCard]):
    """Items that are made when the first is asked for: a terminal shows none, and need not wait for them."""

    def __init__(self, make: Callable[[], Sequence[ItemCard]]) -> None:
        self._make = cache(make)

    @overload
    def __getitem__(self, index: int) -> ItemCard: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ItemCard]: ...
    def __getitem__(self, index: int | slice) -> ItemCard | Sequence[ItemCard]:
        return self._make()[index]

    def __len__(self) -> int:
        return len(self._make())


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """The main numbers of a run with full precision, for results.csv and data frames."""

    names: Sequence[str]
    rows: Sequence[tuple[Cell, ...]]


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of a run, in the order in which it is read."""

    name: str
    """Of the kind of run, such as `Best of 4`."""
    title: str
    """What it was measured on."""
    size: str
    """Such as `300 items, 60 users, seed 7`."""
    lead: str = ""
    """Who did what, in a sentence."""
    facts: Mapping[str, str] = {}
    """What the page sets below it: models, benchmark, hash, licence, run."""
    unfinished: str = ""
    """What to say while a run is not complete; empty when it is."""
    findings: Sequence[Finding] = ()
    sections: Sequence[Section] = ()
    items: Sequence[ItemCard] = ()
    left_out: int = 0
    """Items of the run that are not among `items`."""
    columns: Columns | None = None
    """Without them, results.csv holds the tables of the first section."""


class Summarised(Protocol):
    """What the summaries of all kinds of runs have."""

    @property
    def run(self) -> str: ...
    @property
    def benchmark(self) -> str: ...
    @property
    def benchmark_title(self) -> str: ...
    @property
    def benchmark_hash(self) -> str: ...
    @property
    def licence(self) -> str: ...
    @property
    def complete(self) -> bool: ...


def document_of(
    summary: Summarised,
    *,
    name: str,
    size: str,
    lead: str,
    facts: Mapping[str, str],
    unfinished: str,
    findings: Sequence[Finding],
    sections: Sequence[Section | None],
    items: Sequence[ItemCard] = (),
    left_out: int = 0,
    columns: Columns | None = None,
) -> Document:
    """The document of a run on a benchmark; sections that are None have nothing to show."""
    return Document(
        name=name,
        title=summary.benchmark_title,
        size=size,
        lead=lead,
        facts={
            **facts,
            "Benchmark": summary.benchmark,
            "Hash": summary.benchmark_hash,
            "Licence": summary.licence,
            "Run": PurePath(summary.run).name,
        },
        unfinished="" if summary.complete else unfinished,
        findings=findings,
        sections=[section for section in sections if section is not None],
        items=items,
        left_out=left_out,
        columns=columns,
    )
