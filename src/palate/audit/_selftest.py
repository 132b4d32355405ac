"""Could this data have shown it? Tastes are planted in a benchmark's own rows, and taken away, and looked for.

The texts, the people, who judged what and when, the views, the strangers and the statistics are those of the real
measurement. Only the labels are made up: whoever reads the planted taste in a view should be found, about as far as
the view shows it, and whoever reads coins should not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.data import load_benchmark, text_key
from palate.evaluation import Ratings, default_views, gains, is_clear_gain, rated_item
from palate.records import Ask, Benchmark, Comparison, Judgement, PalateError, View
from palate.report import Document, Finding, Section, Table
from palate.rewards import Overlap
from palate.runs import Progress, ViewLine, sample_items
from palate.stats import Floats, Resamples
from palate.views import STRANGERS, History, ViewBuilder, ViewSpec, drawn, post_part, resolve_views

POINTS = (2.0, 5.0, 10.0, 20.0)
FOUND = 0.8
"""From this share of the tries on, an effect is one that the data would have shown."""
READER = "reader"

Taste = Literal["length", "topic", "group"]
Labels = Literal["planted", "coins", "strangers"]
Places = NDArray[np.intp]
"""For each item, the place of one of its responses; -1 for none."""
_TASTES: dict[Taste, str] = {
    "length": "half of the people like the longer response and half the shorter, and their past choices show it",
    "topic": "people like the response that shares most words with what they wrote before",
    "group": "half of the groups like the longer response and half the shorter",
}


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """How often a reader of the person was found, over tries with other labels."""

    labels: Labels
    """`planted`: people follow a taste of their own. `coins`: nobody has any. `strangers`: the real labels, with a
    stranger in the person's place."""
    points: float
    """What the planted taste is worth to a reader who knows it, over one who knows nobody."""
    tries: int
    over_none: float
    """What the view gained over no profile, in the mean of the tries, in points."""
    over_stranger: float
    """The same over strangers."""
    called: int
    """Tries in which the reader was said to use the person: clear of zero over no profile and over strangers."""


class SelfTest(msgspec.Struct, frozen=True, kw_only=True):
    """What a benchmark and settings could have shown."""

    benchmark: str
    items: int
    users: int
    view: str
    shown: int
    """Items whose view has something to show."""
    taste: Taste
    """What was planted: a love of longer or of shorter responses, of one's own topics, or one that a group shares."""
    strangers: int
    seed: int
    tried: list[Tried]

    @property
    def smallest_found(self) -> float | None:
        """The smallest planted effect that was found in most tries, in points."""
        return min((one.points for one in self.tried if one.points and one.called >= FOUND * one.tries), default=None)


def selftest(
    benchmark: str | Path | Benchmark,
    view: str | None = None,
    *,
    points: Sequence[float] = POINTS,
    tries: int = 50,
    retriever: str = "bm25",
    strangers: int = STRANGERS,
    limit: int | None = None,
    seed: int = 0,
    data_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> SelfTest:
    """Plant effects of known size in a benchmark's own rows, and tell which of them this measurement finds."""
    _check(points, tries)
    if not isinstance(benchmark, Benchmark):
        benchmark = load_benchmark(benchmark, data_dir=Path(data_dir) if data_dir else None)
    items = sample_items(benchmark.comparisons, limit, seed)
    if not items:
        raise PalateError(f"{benchmark.card.name} has no comparisons, so no label could be planted")
    report = progress or (lambda what, done, total: None)
    views = resolve_views(["none", view or _profile(benchmark), "swapped"], strangers=strangers)
    if views[1].neighbours:
        raise PalateError("a taste is planted in single people, so the view of a self-test cannot show neighbours")
    measurement = _Measurement(benchmark, items, views, retriever, seed, report)
    wanted: list[tuple[Labels, float]] = [("coins", 0.0), *(("planted", one) for one in points)]
    if measurement.strangers > 1 and measurement.reader.taste != "group":
        wanted.insert(1, ("strangers", 0.0))
    tried = []
    for number, (labels, size) in enumerate(wanted):
        found = []
        for one in range(tries):
            report(f"{labels} {size:g} points" if size else labels, number * tries + one, len(wanted) * tries)
            found.append(measurement.tried(labels, size / 100, np.random.default_rng([seed, number, one])))
        tried.append(
            Tried(
                labels=labels,
                points=size,
                tries=tries,
                over_none=100 * float(np.mean([none for none, _, _ in found])),
                over_stranger=100 * float(np.mean([stranger for _, stranger, _ in found])),
                called=sum(called for _, _, called in found),
            )
        )
    report("done", len(wanted) * tries, len(wanted) * tries)
    return SelfTest(
        benchmark=benchmark.card.name,
        items=len(items),
        users=len({item.user_id for item in items}),
        view=views[1].name,
        shown=measurement.shown,
        taste=measurement.reader.taste,
        strangers=strangers,
        seed=seed,
        tried=tried,
    )


def _check(points: Sequence[float], tries: int) -> None:
    if not points or not all(0 < one <= 50 for one in points):
        raise PalateError(f"points are above 0 and at most 50, such as 2,5,10; {list(points)} was given")
    if tries < 1:
        raise PalateError(f"tries are counted from 1; {tries} was given")


def _profile(benchmark: Benchmark) -> str:
    found = [name for name in default_views(benchmark) if name not in ("none", "swapped", "oracle")]
    if not found or len(benchmark.users) < 2:
        raise PalateError(
            f"{benchmark.card.name} knows nothing of its users that could be shown, so no model could use the person"
        )
    return found[0]


class _Reader(Protocol):
    """Plants a taste, and reads it in what the views show."""

    taste: Taste

    def plant(self, share: float, draw: np.random.Generator) -> tuple[Places, list[Places]]:
        """What people choose when they follow their taste in this share of choices and toss a coin in the others,
        and what the reader expects them to choose: seeing their own profile, and each of the strangers'."""
        ...

    def real(self) -> list[Places]:
        """What the reader expects by the real labels."""
        ...


class _Measurement:
    """A measurement with everything in it but the labels."""

    def __init__(
        self,
        benchmark: Benchmark,
        items: Sequence[Comparison],
        views: list[ViewSpec],
        retriever: str,
        seed: int,
        report: Progress,
    ) -> None:
        builder = ViewBuilder(benchmark, retriever=retriever, seed=seed)
        for spec in views:
            builder.require(spec)
        shown: list[list[View | None]] = []
        lines: list[ViewLine] = []
        for spec, number in drawn(views[1:]):
            report(f"building {spec.name}", 0, 1)
            built = [view if isinstance(view, View) else None for view in builder.build(spec, items, number)]
            shown.append(built)
            lines += [
                ViewLine(view=spec.name, item=item.id, draw=number, parts=tuple(part.text for part in view.parts))
                for item, view in zip(items, built, strict=True)
                if view is not None
            ]
        self._views, self._seed = views, seed
        self._options = np.array([len(item.responses) for item in items])
        self._preferred = np.array([item.preferred for item in items])
        self._there = [np.array([view is not None for view in built]) for built in shown]
        self.strangers = sum(bool(there.any()) for there in self._there[1:])
        self._ratings = Ratings([rated_item(item, benchmark) for item in items], {}, lines, views)
        self.shown = int((~self._ratings.empty(views[1].name)).sum())
        if views[1].shows("judgements"):
            self.reader: _Reader = _Lengths(items, shown)
        elif views[1].shows("posts"):
            self.reader = _Topics(benchmark, items, shown)
        else:
            self.reader = _Groups(benchmark, items, shown)

    def tried(self, labels: Labels, gain: float, draw: np.random.Generator) -> tuple[float, float, bool]:
        """The gains over no profile and over strangers, and whether both are clear."""
        if labels == "strangers":
            taken, expected = self._preferred, self.reader.real()
            own = draw.integers(1, len(expected), len(taken))  # which stranger takes the person's place
        else:
            share = min(1.0, gain / float(np.mean(1 - 1 / self._options)))
            taken, expected = self.reader.plant(share, draw)
            own = np.zeros(len(taken), np.intp)
        credits = np.array(
            [
                np.where(there, self._credit(taken, one), np.nan)
                for there, one in zip(self._there, expected, strict=True)
            ]
        )
        items = np.arange(len(taken))
        person = credits[own, items]
        credits[own, items] = np.nan
        credits[0] = np.nan
        counts = (~np.isnan(credits)).sum(axis=0)
        with np.errstate(invalid="ignore"):
            strangers = np.nansum(credits, axis=0) / counts
        none, profile, swapped = (view.name for view in self._views)
        self._ratings.credits = {
            (READER, none): 1 / self._options,
            (READER, profile): person,
            (READER, swapped): strangers,
        }
        found = {
            (one.view, one.over): one
            for one in gains(self._ratings, [READER], self._views, Resamples(self._ratings.n_clusters, self._seed))
        }
        over = [found.get((profile, none)), found.get((profile, swapped))]
        sizes = [one.difference if one else 0.0 for one in over]
        return sizes[0], sizes[1], all(one is not None and is_clear_gain(one) for one in over)

    def _credit(self, taken: Places, expected: Places) -> Floats:
        return np.where(expected < 0, 1 / self._options, (taken == expected).astype(float))


class _ByLength:
    """Which of the responses of each choice is the longest, and which the shortest."""

    def __init__(self, choices: Sequence[Comparison | Judgement]) -> None:
        lengths = [[len(text) for text in choice.responses] for choice in choices]
        self._options = np.array([len(one) for one in lengths])
        self._longest = np.array([int(np.argmax(one)) for one in lengths])
        self._shortest = np.array([int(np.argmin(one)) for one in lengths])

    def _chosen(self, wanted: Places, share: float, draw: np.random.Generator) -> Places:
        """What is wanted in this share of the choices, and a coin's choice in the others."""
        return np.where(draw.random(len(wanted)) < share, wanted, draw.integers(self._options))


class _Lengths(_ByLength):
    """Some people love the longer response and some the shorter; their past choices tell which."""

    taste: Taste = "length"

    def __init__(self, items: Sequence[Comparison], shown: Sequence[Sequence[View | None]]) -> None:
        places: dict[object, int] = {}
        choices: list[Comparison | Judgement] = []
        owners: list[str] = []

        def place(user: str, choice: Comparison | Judgement) -> int:
            key = user, text_key(choice.prompt), frozenset(choice.responses)
            if key not in places:
                places[key] = len(choices)
                choices.append(choice)
                owners.append(user)
            return places[key]

        self._asked = np.array([place(item.user_id, item) for item in items])
        self._shown = [
            [
                [place(view.user_id or "", one.judgement) for one in view.parts if one.judgement] if view else []
                for view in built
            ]
            for built in shown
        ]
        self._owner = np.unique(owners, return_inverse=True)[1]
        super().__init__(choices)
        self._real = np.array([choice.preferred for choice in choices])

    def plant(self, share: float, draw: np.random.Generator) -> tuple[Places, list[Places]]:
        tastes = draw.permutation(np.resize([True, False], int(self._owner.max()) + 1))
        wanted = np.where(tastes[self._owner], self._longest, self._shortest)
        taken = self._chosen(wanted, share, draw)
        return taken[self._asked], self._read(taken)

    def real(self) -> list[Places]:
        return self._read(self._real)

    def _read(self, taken: Places) -> list[Places]:
        signs = (taken == self._longest).astype(int) - (taken == self._shortest)
        found = []
        for built in self._shown:
            habit = np.array([signs[places].sum() for places in built])
            longest, shortest = self._longest[self._asked], self._shortest[self._asked]
            found.append(np.where(habit > 0, longest, np.where(habit < 0, shortest, -1)))
        return found


class _Topics:
    """People choose what shares most words with what they wrote; the reader sees as much of it as the view shows."""

    taste: Taste = "topic"

    def __init__(
        self, benchmark: Benchmark, items: Sequence[Comparison], shown: Sequence[Sequence[View | None]]
    ) -> None:
        history = History(benchmark)
        self._options = np.array([len(item.responses) for item in items])
        whole = []
        for item in items:
            posts = history.posts(benchmark.users[item.user_id], item).events
            whole.append(View(name="whole", parts=tuple(post_part(post) for post in posts)))
        self._wanted = _most_words(items, whole)
        self._expected = [_most_words(items, built) for built in shown]

    def plant(self, share: float, draw: np.random.Generator) -> tuple[Places, list[Places]]:
        follows = (draw.random(len(self._wanted)) < share) & (self._wanted >= 0)
        return np.where(follows, self._wanted, draw.integers(self._options)), self._expected

    def real(self) -> list[Places]:
        return self._expected


class _Groups(_ByLength):
    """Every group loves the longer or the shorter response, and the reader knows which."""

    taste: Taste = "group"

    def __init__(
        self, benchmark: Benchmark, items: Sequence[Comparison], shown: Sequence[Sequence[View | None]]
    ) -> None:
        fields = {user.id: repr((sorted(user.demographics.items()), user.values)) for user in benchmark.users.values()}
        codes = {group: code for code, group in enumerate(sorted(set(fields.values())))}
        group_of = {user: codes[group] for user, group in fields.items()}
        self._own = np.array([group_of[item.user_id] for item in items])
        self._shown = [
            np.array([group_of.get(view.user_id or "", 0) if view and view.parts else -1 for view in built])
            for built in shown
        ]
        self._groups = len(codes)
        super().__init__(items)

    def plant(self, share: float, draw: np.random.Generator) -> tuple[Places, list[Places]]:
        tastes = draw.permutation(np.resize([True, False], self._groups))
        wanted = self._wanted(tastes, self._own)
        return self._chosen(wanted, share, draw), [self._wanted(tastes, groups) for groups in self._shown]

    def real(self) -> list[Places]:
        raise AssertionError("what groups love is not known from the labels alone")

    def _wanted(self, tastes: NDArray[np.bool_], groups: Places) -> Places:
        return np.where(groups < 0, -1, np.where(tastes[groups], self._longest, self._shortest))


def _most_words(items: Sequence[Comparison], views: Sequence[View | None]) -> Places:
    """The response that shares most words with a view; none where two do."""
    asks = [
        Ask(id=item.id, prompt=item.prompt, responses=item.responses, view=view or View(name="none"))
        for item, view in zip(items, views, strict=True)
    ]
    found = []
    for rating in Overlap().rate(asks):
        scores = list(rating.scores or ())
        best = max(scores)
        found.append(scores.index(best) if scores.count(best) == 1 else -1)
    return np.array(found)


def selftest_document(found: SelfTest) -> Document:
    """The table of tries, and what follows from it."""
    rows = [
        (
            _labels(one),
            f"{one.points:+.1f}" if one.points else "nothing",
            f"{one.over_none:+.1f}",
            f"{one.over_stranger:+.1f}",
            f"{one.called} of {one.tries}",
        )
        for one in found.tried
    ]
    titles = ("labels", "worth", "over none", "over strangers", "said to use the person")
    return Document(
        name="Self-test",
        title=found.benchmark,
        size=f"{found.items:,} items, {found.users:,} users, {found.view}, seed {found.seed}",
        lead=f"Planted: {_TASTES[found.taste]}.",
        findings=list(conclusions(found)),
        sections=[Section(title="Tries", blocks=[Table(titles=titles, words=1, rows=rows)], terminal=True)],
    )


def _labels(one: Tried) -> str:
    names = {"planted": "planted taste", "coins": "coins", "strangers": "real, strangers shown"}
    return names[one.labels]


def conclusions(found: SelfTest) -> Iterator[Finding]:
    """What the tries say of the measurement, in plain words."""
    nulls = [one for one in found.tried if not one.points]
    alarms, tries = sum(one.called for one in nulls), sum(one.tries for one in nulls)
    if alarms > max(2, 0.1 * tries):
        yield Finding(
            "warning", f"False alarms: {alarms} of {tries}. This is too many: do not trust a gain that this data shows."
        )
    else:
        yield Finding("good", f"False alarms: {alarms} of {tries}.")
    smallest = found.smallest_found
    largest = max(one.points for one in found.tried)
    if smallest is None:
        yield Finding(
            "warning",
            f"This measurement would not show an effect of {largest:g} points: it was found in fewer than {FOUND:.0%} "
            "of the tries. If a run on this data shows no gain, that says little. More users or items, or a view that "
            "shows more, would help.",
        )
    else:
        yield Finding(
            "good",
            f"This measurement would show a taste that is worth {smallest:g} points to whoever knows it. If a run on "
            "this data shows no gain, a model that reads people as well as this reader would have found a taste of "
            "that size.",
        )
    if found.shown < 0.9 * found.items:
        yield Finding(
            "note", f"Only {found.shown:,} of {found.items:,} items have anything to show; the others tell nothing."
        )
