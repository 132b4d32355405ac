"""Held-out users while a policy is trained: the same prompts are answered at each state, as a best-of-N run.

So every state of the policy has a run folder with its texts, rewards and grades, which `palate report` reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from palate.data import KnownPrompts, at_start_of_group, text_key
from palate.downstream._critics import as_critic
from palate.downstream._policy import Drawing
from palate.downstream.best_of_n import BEST_OF_N, best_of_n
from palate.downstream.best_of_n._expectations import Chooser, Expectations
from palate.engine import LanguageModel
from palate.records import Benchmark, Critic, PalateError, RewardModel
from palate.report import count
from palate.runs import Run, as_benchmark, open_run, prompts
from palate.stats import ANYWHERE, SHARE, Figure, Floats, PairedTest, Resamples, figures, paired_tests

NO_REWARD = "random"
"""Rates the texts where nobody asked for a reward model, since a best-of-N run has one."""


class HeldOutScore(msgspec.Struct, frozen=True, kw_only=True):
    """What one state of the policy is worth to held-out users, with 95% intervals over users."""

    step: int
    run: str
    items: int
    users: int
    score: Figure | None
    """The mean grade of its texts; None where the critic graded none."""
    change: PairedTest | None = None
    """Against the first state, on the same prompts; None for that state."""
    agreement: Figure | None = None
    """Of pairs of its texts that the critic tells apart, how many the reward model orders so, too."""


class HeldOutUsers:
    """Prompts of users whom nobody trains on, and who says what a text is worth to them."""

    def __init__(
        self,
        benchmark: str | Path | Benchmark,
        critic: str | Critic,
        *,
        users: Collection[str] | None = None,
        trained_users: Collection[str] = (),
        trained_prompts: Iterable[str] = (),
        reward_model: str | RewardModel | None = None,
        view: str = "none",
        policy_view: str = "none",
        drawing: Drawing | None = None,
        limit: int | None = None,
        seed: int = 0,
        data_dir: str | Path | None = None,
    ) -> None:
        whole = as_benchmark(benchmark, data_dir)
        self._benchmark = _part(whole, users, set(trained_users), trained_prompts)
        self._critic = as_critic(critic, self._benchmark)
        self._model, self._view = reward_model, view
        self._policy_view, self._limit, self._seed = policy_view, limit, seed
        self._drawing = drawing or Drawing(samples=4)
        self._drawing.check()

    def measure(self, policy: LanguageModel, step: int, out: Path, first: Path | None) -> HeldOutScore:
        """Write, rate and grade; what is in the folder already is not done again. `first` is the run compared with."""
        summary = best_of_n(
            self._benchmark,
            policy,
            [NO_REWARD if self._model is None else self._model],
            self._critic,
            views=[self._view],
            policy_views=[self._policy_view],
            drawing=self._drawing,
            limit=self._limit,
            seed=self._seed,
            out=out,
        )
        run = open_run(Path(summary.run), BEST_OF_N)
        expectations = Expectations(run)
        scores = _scores(expectations)
        columns = [(scores, ANYWHERE)]
        if self._model is not None:
            columns.append((_agreement(run), SHARE))
        resamples = Resamples(expectations.n_clusters, self._seed)
        found = figures(columns, expectations.clusters, resamples)
        change = None
        if first is not None:
            before = _by_item(Expectations(open_run(first, BEST_OF_N)))
            gone = np.array([before.get(item.id, np.nan) for item in expectations.items])
            [change] = paired_tests([(scores - gone, ANYWHERE)], expectations.clusters, expectations.users, resamples)
        return HeldOutScore(
            step=step,
            run=summary.run,
            items=len(expectations.items),
            users=expectations.count_users(),
            score=found[0],
            change=change,
            agreement=found[1] if self._model is not None else None,
        )


def _part(
    benchmark: Benchmark, users: Collection[str] | None, trained: set[str], trained_prompts: Iterable[str]
) -> Benchmark:
    """The benchmark with the items of held-out users alone, none of whose prompts is trained on."""
    if users is not None:
        if unknown := sorted(set(users) - benchmark.users.keys()):
            raise PalateError(f"{benchmark.card.name} has no user {unknown[0]!r} to hold out; ids are matched exactly")
        if both := set(users) & trained:
            raise PalateError(
                f"{count(len(both), 'user')} of those to hold out are in the column user_id of the training data"
            )
    elif not trained:
        raise PalateError(
            "the training data has no column user_id, so it is not known who is held out: name them, users=[...]"
        )
    wanted = (set(users) if users is not None else set(benchmark.users)) - trained
    own = [item for item in prompts(benchmark) if item.user_id in wanted]
    known = KnownPrompts(item.prompt for item in own)
    closed = {key for prompt in trained_prompts for key in known.within(prompt)}
    kept = {item.id for item in own if text_key(item.prompt) not in closed}
    if not kept:
        raise PalateError(
            f"no prompt of {benchmark.card.name} is left to test on: {count(len(wanted), 'user')} are held out, with "
            f"{count(len(own), 'prompt')}, all of which are trained on as somebody else's"
        )
    return Benchmark(
        card=benchmark.card,
        users={id: user for id, user in benchmark.users.items() if id in wanted},
        comparisons=_kept(benchmark.comparisons, kept),
        completions=_kept(at_start_of_group(benchmark.completions), kept),
    )


def _kept(items: Iterable[Any], ids: set[str]) -> tuple[Any, ...]:
    return tuple(item for item in items if item.id in ids)


def _scores(expectations: Expectations) -> Floats:
    """For each item the mean grade of the policy's texts."""
    view = expectations.settings.policy_views[0].name
    return expectations.choosers[Chooser(policy_view=view, kind="random", name="random")].scores[1]


def _by_item(expectations: Expectations) -> dict[str, float]:
    return dict(zip((item.id for item in expectations.items), _scores(expectations).tolist(), strict=True))


def _agreement(run: Run[Any]) -> Floats:
    from palate.downstream._numbers import AGREEMENT, run_numbers

    [number] = [one for one in run_numbers(run).numbers if one.name == AGREEMENT]
    return np.where(number.columns[:, 1] > 0, number.columns[:, 0], np.nan)
