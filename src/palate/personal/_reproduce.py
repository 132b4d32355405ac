"""Published figures, and ours beside them from one command.

The paper's figure is a mean over 32 folds of the mean over voters within a fold; ours elsewhere is the share of votes.
They differ by up to two points, so both are shown for every model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from palate.data import Vote, load_votes
from palate.evaluation import EVALUATION, RATINGS, Summary
from palate.personal._train import IMPERSONAL, train
from palate.personal._votes import LENGTH, OWN_PRECISIONS, Ballots, Floats, SideFolds
from palate.records import unknown_name
from palate.runs import Progress, open_run

MUCH = 50
"""Votes, ties too, of which more have to be known for a voter to be in the second column, as the paper has it."""
FEWEST = 2
"""Strict votes on a side that a voter needs to count there, as the paper has it."""
POWER = 2.8
"""Standard errors that a gain has to measure to be found four times in five, by a test at the 5% level."""


class Published(msgspec.Struct, frozen=True):
    """A figure from a paper: mean over folds of the mean over voters, all voters and those of whom much is known."""

    method: str
    everybody: float
    much_known: float


class Reproduction(msgspec.Struct, frozen=True):
    """An experiment of a paper: its data, its figures, and what we try."""

    title: str
    source: str
    benchmark: str
    all_votes: str
    """The benchmark that has every vote on the same pairs, to tell how far voters agree."""
    published: tuple[Published, ...]
    plain: str
    """Features of the kind that the paper used: an embedding of the text and linguistic traits."""
    features: tuple[str, ...]
    """To choose from within the training sides, for everybody's taste."""
    own_features: tuple[str, ...]
    """The same, for what a voter adds."""


REPRODUCTIONS = {
    "convarg": Reproduction(
        title="Which argument convinces this voter? UKPConvArgCrowdSample, one debate side left out at a time",
        source="Simpson and Gurevych (2020), Scalable Bayesian preference learning for crowds",
        benchmark="convarg-crowdsample",
        all_votes="convarg",
        published=(
            Published("GPPL", 0.71, 0.72),
            Published("crowdGPPL", 0.72, 0.74),
            Published("crowdBT-GP", 0.69, 0.71),
        ),
        plain="traits+minilm",
        features=("traits+minilm", "traits+minilm:all", "traits+minilm:all+smollm2:all"),
        own_features=(LENGTH, "traits", "minilm:all"),
    ),
}


class TwoWayEstimate(msgspec.Struct, frozen=True):
    """An accuracy or a gain, with its 95% interval over voters and sides."""

    value: float
    low: float
    high: float


class Figures(msgspec.Struct, frozen=True):
    """By both metrics, for all voters and for those of whom much is known."""

    by_fold: TwoWayEstimate
    """The paper's: the mean over sides of the mean over voters with two strict votes there and votes elsewhere."""
    by_fold_much: TwoWayEstimate
    by_vote: TwoWayEstimate
    """Each strict vote counts alike."""
    by_vote_much: TwoWayEstimate


class ModelAccuracy(msgspec.Struct, frozen=True):
    """A model and what it reached."""

    model: str
    accuracy: Figures


class ModelGain(msgspec.Struct, frozen=True):
    """What one model gains over another on the same votes."""

    what: str
    gain: Figures


class Headroom(msgspec.Struct, frozen=True):
    """How much taste this data could show at all."""

    majority: float
    """Share of strict votes that the others who voted on the same pair get right, where they have a majority."""
    longer: float
    """Share of strict votes for the longer argument."""
    longer_spread: float
    """Standard deviation between voters of that share, beyond chance, in voters with 20 strict votes or more."""
    longer_reliability: float
    """Correlation of a voter's share between two halves of the sides, stepped up to all sides (Spearman-Brown)."""
    ceiling: Figures
    """Accuracy with each voter's weight on length learned from the very votes asked about. No model; a bound."""
    smallest: tuple[float, float]
    """The personal gain that would be found four times in five, by fold and by vote."""


class Reproduced(msgspec.Struct, frozen=True):
    """Everything that the command shows."""

    rows: tuple[ModelAccuracy, ...]
    gains: tuple[ModelGain, ...]
    chosen: tuple[tuple[str, int], ...]
    """What was chosen within the training sides, and for how many of the held-out sides."""
    headroom: Headroom
    run: str


def reproduce(
    name: str,
    *,
    seed: int = 0,
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> Reproduced:
    """Train and measure every model of an experiment."""
    if name not in REPRODUCTIONS:
        raise unknown_name("experiment", name, list(REPRODUCTIONS))
    wanted = REPRODUCTIONS[name]
    folder = Path(data_dir) if data_dir else None
    report = progress or (lambda what, done, total: None)
    summary = train(
        wanted.benchmark,
        ["gppl", "crowd-gppl"],
        reward_models=["longest"],
        features=wanted.plain,
        protocol="leave-out:category",
        views=["none", "user"],
        seed=seed,
        out=out,
        data_dir=data_dir,
        progress=progress,
        keep_models=False,
    )
    ballots = Ballots.of(load_votes(wanted.benchmark, data_dir=folder))
    tried = {
        "longest": _rated(summary, ballots, "longest", "none"),
        f"{IMPERSONAL}, {wanted.plain}": _rated(summary, ballots, IMPERSONAL, "none"),
        f"gppl, {wanted.plain}": _rated(summary, ballots, "gppl", "none"),
        f"crowd-gppl, {wanted.plain}": _rated(summary, ballots, "crowd-gppl", "user"),
    }
    report("choosing features within the training sides", 0, 1)
    folds = SideFolds(ballots, wanted.features, wanted.own_features, seed)
    for features in wanted.features:
        tried[f"everybody's taste, {features}"] = folds.shared_margins([features])[0][None]
    shared, rewards, chosen = folds.shared_margins(wanted.features)
    report("choosing what a voter adds", 0, 1)
    own_chosen = folds.choose_own(chosen)
    tried[_EVERYBODY] = shared[None]
    tried[_OWN] = shared + folds.own_margins(rewards, own_chosen)
    tried[_STRANGER] = shared + folds.own_margins(rewards, own_chosen, "stranger")
    oracle = [(LENGTH, OWN_PRECISIONS[0])] * ballots.sides
    ceiling = shared + folds.own_margins(rewards, oracle, "ceiling")
    measure = Measure(ballots)
    credits = {model: measure.credits(margins) for model, margins in tried.items()}
    gains = tuple(
        ModelGain(f"{better} over {other}", measure.figures(credits[better] - credits[other]))
        for better, other in (
            (_OWN, _EVERYBODY),
            (_OWN, _STRANGER),
            (f"crowd-gppl, {wanted.plain}", f"gppl, {wanted.plain}"),
        )
    )
    report("done", 1, 1)
    both = [*(_told("everybody's taste", one) for one in chosen), *(_told("own weights", one) for one in own_chosen)]
    return Reproduced(
        rows=tuple(ModelAccuracy(model, measure.figures(own)) for model, own in credits.items()),
        gains=gains,
        chosen=tuple((what, both.count(what)) for what in dict.fromkeys(both)),
        headroom=headroom(
            load_votes(wanted.all_votes, data_dir=folder),
            measure.figures(measure.credits(ceiling)),
            gains[0].gain,
        ),
        run=summary.run,
    )


_EVERYBODY, _OWN, _STRANGER = (
    "everybody's taste, features chosen within",
    "with the voter's own weights",
    "with a stranger's weights",
)


def _told(what: str, choice: tuple[str, float]) -> str:
    return f"{what}: {choice[0]}, precision {choice[1]:g}"


def _rated(summary: Summary, ballots: Ballots, rm: str, view: str) -> Floats:
    """(1, votes): margins from a run; ties were not rated and are 0."""
    found = {
        line.item: line.rating.scores[0] - line.rating.scores[1]
        for line in open_run(Path(summary.run), EVALUATION).read(RATINGS)
        if (line.rm, line.view) == (rm, view) and line.rating.scores
    }
    return np.array([[found.get(one, 0.0) for one in ballots.ids]])


class Measure:
    """Both metrics, with intervals for new voters and new sides.

    Variances are those of Cameron, Gelbach and Miller (2011): by voters plus by sides less by voters within sides,
    each from the influence of a cell on the figure.
    """

    def __init__(self, ballots: Ballots) -> None:
        self._ballots = ballots
        shape = int(ballots.voter.max()) + 1, ballots.sides
        cast = np.zeros(shape)
        np.add.at(cast, (ballots.voter, ballots.side), 1)
        self._known = cast.sum(axis=1, keepdims=True) - cast
        self._strict = np.zeros(shape)
        np.add.at(self._strict, (ballots.voter[ballots.strict], ballots.side[ballots.strict]), 1)

    def credits(self, margins: Floats) -> Floats:
        """(voters, sides): strict votes that were right, from margins (draws, votes); a draw is half right."""
        strict = self._ballots.strict
        right = (np.sign(margins[:, strict]) * self._ballots.choice[strict] + 1) / 2
        found = np.zeros_like(self._strict)
        np.add.at(found, (self._ballots.voter[strict], self._ballots.side[strict]), right.mean(axis=0))
        return found

    def figures(self, credits: Floats) -> Figures:
        """Of the cells of one model, or of the difference between two."""
        much = self._known > MUCH
        return Figures(
            by_fold=self._by_fold(credits, self._known > 0),
            by_fold_much=self._by_fold(credits, much),
            by_vote=self._by_vote(credits, self._strict > 0),
            by_vote_much=self._by_vote(credits, much),
        )

    def _by_vote(self, credits: Floats, among: NDArray[np.bool_]) -> TwoWayEstimate:
        credits, votes = np.where(among, credits, 0), np.where(among, self._strict, 0)
        value = credits.sum() / votes.sum()
        influence = (credits - value * votes) / votes.sum()
        return _figure(value, influence, influence.sum(axis=0))

    def _by_fold(self, credits: Floats, among: NDArray[np.bool_]) -> TwoWayEstimate:
        counted = among & (self._strict >= FEWEST)
        kept = counted.any(axis=0)
        counted, credits, votes = counted[:, kept], credits[:, kept], self._strict[:, kept]
        voters = counted.sum(axis=0)
        accuracy = np.divide(credits, votes, out=np.zeros_like(credits), where=counted)
        of_side = accuracy.sum(axis=0) / voters
        influence = np.where(counted, accuracy - of_side, 0) / (voters * len(of_side))
        return _figure(of_side.mean(), influence, (of_side - of_side.mean()) / len(of_side))


def _figure(value: float, influence: Floats, by_side: Floats) -> TwoWayEstimate:
    voters, sides, cells = (_variance(one) for one in (influence.sum(axis=1), by_side, influence[influence != 0]))
    error = max(voters + sides - cells, voters, sides) ** 0.5
    reach = float(student.ppf(0.975, np.count_nonzero(by_side) - 1)) * error
    return TwoWayEstimate(float(value), float(value - reach), float(value + reach))


def _variance(influence: Floats) -> float:
    count = int(np.count_nonzero(influence))
    return float(np.square(influence).sum()) * count / max(1, count - 1)


def headroom(votes: Sequence[Vote], ceiling: Figures, gain: Figures, habitual: int = 20) -> Headroom:
    """What all votes on the pairs tell about how far voters agree and differ."""
    ballots = Ballots.of(votes)
    pair = np.unique(np.sort([ballots.first, ballots.second], axis=0), axis=1, return_inverse=True)[1].ravel()
    turned = np.where(ballots.first < ballots.second, ballots.choice, -ballots.choice)
    others = np.bincount(pair, turned)[pair] - turned
    strict = ballots.strict
    agree = (others * turned)[strict & (others != 0)] > 0
    length = np.array([len(text) for text in ballots.texts], float)
    longer = ((np.sign(ballots.margins(length, strict)) * ballots.choice[strict]) + 1) / 2
    voter, half = ballots.voter[strict], ballots.side[strict] % 2
    count = np.bincount(voter)
    often = count >= habitual
    share = (np.bincount(voter, longer) / np.maximum(count, 1))[often]
    chance = share * (1 - share) / (count[often] - 1)
    halves = [np.bincount(voter[half == one], longer[half == one], len(count)) for one in (0, 1)]
    counts = [np.bincount(voter[half == one], minlength=len(count)) for one in (0, 1)]
    split = (counts[0] >= habitual / 2) & (counts[1] >= habitual / 2)
    shares = [own[split] / of[split] for own, of in zip(halves, counts, strict=True)]
    together = float(np.corrcoef(shares[0], shares[1])[0, 1])
    return Headroom(
        majority=float(agree.mean()),
        longer=float(longer.mean()),
        longer_spread=float(max(0.0, share.var(ddof=1) - chance.mean()) ** 0.5),
        longer_reliability=2 * together / (1 + together),
        ceiling=ceiling,
        smallest=(_smallest(gain.by_fold), _smallest(gain.by_vote)),
    )


def _smallest(figure: TwoWayEstimate) -> float:
    return POWER * (figure.high - figure.low) / 2 / 1.96


def accuracy_lines(wanted: Reproduction, reached: Reproduced) -> list[list[str]]:
    """Published figures first, then ours; a paper gives its own metric only."""
    published = [
        (f"{one.method}, published", f"{one.everybody:.2f}", f"{one.much_known:.2f}") for one in wanted.published
    ]
    ours = [(row.model, row.accuracy) for row in reached.rows]
    ours.append(("a ceiling: own weight on length, answers seen", reached.headroom.ceiling))
    return [
        *([*one, "", ""] for one in published),
        *([model, *(_written(one) for one in msgspec.structs.astuple(figures))] for model, figures in ours),
    ]


def gain_lines(reached: Reproduced) -> list[list[str]]:
    """Gains in points."""
    return [[one.what, *(_points(figure) for figure in msgspec.structs.astuple(one.gain))] for one in reached.gains]


def headroom_lines(room: Headroom) -> list[str]:
    """How much there is to find, in sentences."""
    return [
        f"The majority of the other voters on the same pair is right about {room.majority:.1%} of strict votes.",
        f"The longer argument gets {room.longer:.1%} of strict votes. Voters' shares have a standard deviation of "
        f"{100 * room.longer_spread:.1f} points beyond chance; reliability {room.longer_reliability:.2f}.",
        f"A personal gain under {100 * room.smallest[0]:.1f} points (the paper's metric) or "
        f"{100 * room.smallest[1]:.1f} (votes) would probably not be found.",
    ]


def _written(figure: TwoWayEstimate) -> str:
    return f"{figure.value:.3f} ± {(figure.high - figure.low) / 2:.3f}"


def _points(gain: TwoWayEstimate) -> str:
    return f"{100 * gain.value:+.1f} ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"
