"""How far models get that do not know the user, measured like any other model, and how far by luck."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from scipy.special import ndtr

from palate.audit._benchmark_results import Reach
from palate.evaluation import EVALUATION, Ratings, default_views, evaluate
from palate.personal import IMPERSONAL, train
from palate.records import Ask, Benchmark, Part, Rating, RewardModel, View
from palate.rewards import make_reward_model
from palate.runs import Progress, open_run
from palate.stats import GAIN, Floats, Resamples, false_discovery, intervals, paired_differences

MOST_READ = 1_500
"""Items for the control that reads profiles: finding the posts that suit each question takes time."""
PROMPT_OVERLAP = "prompt-overlap"
COINS = 200


class PromptOverlap:
    """Share of a response's words that the prompt holds too: the control `overlap`, with the prompt for a profile."""

    name = PROMPT_OVERLAP
    fingerprint = "overlap with the prompt"

    def __init__(self) -> None:
        self._overlap = make_reward_model("overlap")

    def rate(self, asks: Sequence[Ask]) -> Sequence[Rating]:
        """From 0, no word in common, to 1."""
        return self._overlap.rate([self._with_prompt(ask) for ask in asks])

    @staticmethod
    def _with_prompt(ask: Ask) -> Ask:
        view = View(name="prompt", parts=(Part(kind="post", text=ask.prompt),))
        return msgspec.structs.replace(ask, view=view)


class Measured(msgspec.Struct, frozen=True):
    """One model under one view: what each item earned, and whose the items are."""

    rm: str
    view: str
    ratings: Ratings

    @property
    def credits(self) -> Floats:
        """1 right, 0 wrong, a share when tied, nan when unscored."""
        return self.ratings.credits[self.rm, self.view]

    @property
    def chances(self) -> Floats:
        """What guessing gets on each item."""
        return np.array([1 / len(item.responses) for item in self.ratings.items])


def measure_controls(benchmark: Benchmark, runs: Path, seed: int, progress: Progress | None) -> list[Measured]:
    """Every control that could tell something here: `first` needs recorded positions, `overlap` a profile."""
    blind = ["random", "longest"]
    if any(len(item.responses) > 2 for item in benchmark.comparisons):
        blind.append("shortest")  # for pairs it is the mirror of `longest`, and no test of its own
    if any(item.shown for item in benchmark.comparisons):
        blind.append("first")
    models: list[str | RewardModel] = [*blind, PromptOverlap()]
    summary = evaluate(benchmark, models, ["none"], seed=seed, out=runs, progress=progress)
    ratings = Ratings.of(open_run(Path(summary.run), EVALUATION))
    found = [Measured(rm, "none", ratings) for rm in (*blind, PROMPT_OVERLAP)]
    profiles = [view for view in default_views(benchmark) if view not in ("none", "oracle")]
    if any(view != "swapped" for view in profiles):
        summary = evaluate(benchmark, ["overlap"], profiles, seed=seed, limit=MOST_READ, out=runs, progress=progress)
        run = open_run(Path(summary.run), EVALUATION)
        ratings = Ratings.of(run)
        found += [Measured("overlap", view.name, ratings) for view in run.settings.views]
    return found


def measure_impersonal(benchmark: Benchmark, runs: Path, seed: int, progress: Progress | None) -> Measured:
    """What a trained model gets that knows everybody's taste and nobody's own, on users it was not trained on."""
    summary = train(benchmark, [IMPERSONAL], protocol="unseen", views=["none"], seed=seed, out=runs, progress=progress)
    return Measured(IMPERSONAL, "none", Ratings.of(open_run(Path(summary.run), EVALUATION)))


def reaches(measured: Sequence[Measured], seed: int) -> list[Reach]:
    """Accuracy with its interval, and the test against guessing, with the false discovery rate held over all.

    Users who judge the same texts are not independent of each other for a model that ignores them, so that such a
    model has to be further from guessing than coins are.
    """
    measured = [one for one in measured if not np.isnan(one.credits).all()]
    sheets = {id(one.ratings): one.ratings for one in measured if one.view == "none"}
    coins = {key: luck(ratings, seed) for key, ratings in sheets.items()}
    p_values = [_p_value(one, coins.get(id(one.ratings), 0.0), seed) for one in measured]
    tested = [place for place, one in enumerate(measured) if one.rm != "random"]  # which cannot but guess
    q_of = dict(zip(tested, false_discovery([p_values[place] for place in tested]), strict=True))
    return [
        _reach(one, p, q_of.get(place, 1.0), seed)
        for place, (one, p) in enumerate(zip(measured, p_values, strict=True))
    ]


def _p_value(one: Measured, spread: float, seed: int) -> float:
    over_chance = one.ratings.mean(one.credits - one.chances, within=GAIN)
    [found] = paired_differences([over_chance], Resamples(one.ratings.n_clusters, seed=seed))
    if spread == 0.0:
        return found.p
    return max(found.p, float(2 * ndtr(-abs(found.difference) / spread)))


def _reach(one: Measured, p: float, q: float, seed: int) -> Reach:
    scored = ~np.isnan(one.credits)
    estimate = intervals([one.ratings.mean(one.credits)], Resamples(one.ratings.n_clusters, seed=seed))[0]
    return Reach(
        rm=one.rm,
        view=one.view,
        n=int(scored.sum()),
        users=one.ratings.count_users(scored),
        accuracy=float(one.credits[scored].mean()),
        low=estimate.low if estimate else None,
        high=estimate.high if estimate else None,
        chance=float(one.chances[scored].mean()),
        p=p,
        q=q,
    )


def luck_of_strangers(ratings: Ratings) -> float:
    """The same if no text were judged twice: plain guessing, item by item."""
    chances = np.array([1 / len(item.responses) for item in ratings.items])
    return float(np.sqrt(np.sum(chances * (1 - chances))) / len(chances))


def luck(ratings: Ratings, seed: int) -> float:
    """The standard deviation of the accuracy of coins that give every text one score, whoever asks.

    A model that ignores the user is right or wrong about a text for everybody at once. Where a thousand texts are
    judged by thousands of users, it may be some points off guessing without knowing anything, and resampling users
    does not show it.
    """
    codes: dict[tuple[str, str], int] = {}
    most = max(len(item.responses) for item in ratings.items)
    places = np.zeros((len(ratings.items), most), dtype=np.intp)
    for row, item in enumerate(ratings.items):
        found = [codes.setdefault((item.prompt, text), len(codes) + 1) for text in item.responses]
        places[row, : len(found)] = found
    preferred = np.array([item.preferred for item in ratings.items])
    random = np.random.default_rng(seed)
    accuracies = []
    for _ in range(COINS):
        scores = random.random(len(codes) + 1)
        scores[0] = -1.0  # stands where an item has fewer responses than the longest
        accuracies.append(float(np.mean(scores[places].argmax(axis=1) == preferred)))
    return float(np.std(accuracies))
