"""Pref-LaMP's question in one call: what is the user's own text likest to, and what do reward models add to it?"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from palate.data import pairs_from_completions
from palate.downstream._critics import make_critic
from palate.downstream._personal import own_view, personal_views
from palate.downstream._policy import Drawing, open_policy
from palate.downstream._reference import ReferenceCritic
from palate.downstream.best_of_n import best_of_n
from palate.downstream.guide import Guiding, guide
from palate.downstream.steer._document import steer_document
from palate.downstream.steer._results import SteerSummary
from palate.downstream.steer._run import InContext, SteerSettings, part_folder
from palate.downstream.steer._summary import summarise_steer
from palate.engine import LanguageModel
from palate.evaluation import evaluate
from palate.records import Benchmark, Critic, PalateError
from palate.report import Document
from palate.runs import (
    Experiment,
    Ledger,
    Progress,
    Reading,
    Run,
    as_benchmark,
    begin_run,
    finishing_shard,
    no_progress,
    parse_shard,
    ranks,
    run_parts,
    shard_parent,
)
from palate.runs._experiment import DEFAULT_READING
from palate.views import RETRIEVERS, resolve_views


def steer(
    benchmark: str | Path | Benchmark,
    policy: str,
    reward_models: Sequence[str],
    *,
    views: Sequence[str] | None = None,
    in_context: Sequence[str] | None = None,
    critic: str = "reference",
    drawing: Drawing | None = None,
    weight: float = 5.0,
    top_k: int = 10,
    retriever: str = "bm25",
    writer: str = "smollm2",
    budget: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    shard: str | None = None,
    progress: Progress | None = None,
) -> SteerSummary:
    """Set every way of steering a policy beside what the user really wrote: alone, in context, chosen, guided.

    By default reward models choose and guide seeing nothing of the user, the richest profile there is, and strangers'
    profiles of the same kind; and the policy is shown that profile and a stranger's. Completions become pairs of
    matched length first. Each part is a run of its own, which `palate eval`, `palate bon`
    and `palate guide` would make alike, so call it again to resume. `shard`, such as "3/8", measures the items of some
    users only; `merge_runs` joins the shards.
    """
    share = parse_shard(shard)
    benchmark = as_benchmark(benchmark, data_dir)
    pairs = as_pairs(benchmark)
    drawing = drawing or Drawing()
    drawing.check()
    if not 0 < weight < math.inf:
        raise PalateError(f"--weight is more than 0, since 0 is the policy alone, and finite; {weight:g} was given")
    judge = _reference(critic, pairs)
    seen = list(views or personal_views(pairs))
    specs = resolve_views(seen)
    shown = [_in_context(text, retriever) for text in in_context or _in_context_views(pairs)]
    if repeated := {name for name in shown if shown.count(name) > 1}:
        raise PalateError(f"--in-context {min(repeated)[0]} is given twice")
    model: LanguageModel = open_policy(policy, drawing)
    given = _Given(
        pairs=pairs, policy=policy, model=model, critic=judge, writer=writer, budget=budget, limit=limit, seed=seed,
        out=Path(out), report=progress or no_progress, retriever=retriever, shard=shard,
    )  # fmt: skip
    parts = 4 + 3 * len(shown)
    guiding = Guiding(top_k=top_k, tokens=drawing.tokens)
    greedy = msgspec.structs.replace(drawing, samples=1, temperature=0.0)
    work: list[Callable[[], str]] = [
        partial(given.rate, reward_models, seen, retriever, f"1/{parts}"),
        partial(given.rate, [f"likelihood:{policy}"], ["none"], retriever, f"2/{parts}"),
        partial(given.draw, reward_models, seen, "none", drawing, retriever, f"3/{parts}"),
        partial(given.guide, reward_models, seen, guiding, weight, f"4/{parts}"),
    ]
    for place, (name, picker) in enumerate(shown):
        how = [f"{5 + 3 * place + step}/{parts}" for step in range(3)]
        work += [
            partial(given.draw, ["random"], ["none"], name, drawing, picker, how[0]),
            partial(given.draw, ["random"], ["none"], name, greedy, picker, how[1]),
            partial(given.rate, [f"likelihood:{policy}"], [name], picker, how[2]),
        ]
    reward, likelihood, chosen, guided, *rest = run_parts(work)
    contexts = []
    for place, (name, picker) in enumerate(shown):
        [one] = resolve_views([name])
        contexts.append(
            InContext(
                spec=one,
                retriever=picker if ranks(one) else "",
                sampled=rest[3 * place],
                greedy=rest[3 * place + 1],
                likelihood=rest[3 * place + 2],
            )
        )
    settings = SteerSettings(
        benchmark=pairs.card,
        content_hash=pairs.content_hash,
        policy=model.name,
        views=specs,
        weight=weight,
        seed=seed,
        reward=reward,
        likelihood=likelihood,
        best_of_n=chosen,
        guided=guided,
        in_context=contexts,
    )
    run = begin_run(shard_parent(out, share), STEER, settings)
    with finishing_shard(run, share):
        return STEER.summarise(run)


class _Given(msgspec.Struct, frozen=True, kw_only=True):
    """What all parts share; each method makes one and says the name of its folder."""

    pairs: Benchmark
    policy: str
    model: LanguageModel
    critic: Critic
    retriever: str
    writer: str
    budget: str | None
    limit: int | None
    seed: int
    out: Path
    shard: str | None
    report: Progress

    def rate(self, models: Sequence[str], views: Sequence[str], retriever: str, part: str) -> str:
        """Reward models on the pairs."""
        made = evaluate(
            self.pairs, models, views, retriever=retriever, writer=self.writer, budget=self.budget,
            limit=self.limit, seed=self.seed, out=self.out, shard=self.shard, progress=self._told(part),
        )  # fmt: skip
        return Path(made.run).name

    def draw(
        self,
        models: Sequence[str],
        views: Sequence[str],
        policy_view: str,
        drawing: Drawing,
        retriever: str,
        part: str,
    ) -> str:
        """Samples of the policy, rated and marked."""
        made = best_of_n(
            self.pairs, self.model, models, self.critic, views=views, policy_views=[policy_view], drawing=drawing,
            steps=[1, drawing.samples], retriever=retriever, writer=self.writer, budget=self.budget, limit=self.limit,
            seed=self.seed, out=self.out, shard=self.shard, progress=self._told(part),
        )  # fmt: skip
        return Path(made.run).name

    def guide(self, models: Sequence[str], views: Sequence[str], guiding: Guiding, weight: float, part: str) -> str:
        """Guided texts and policy accuracy."""
        made = guide(
            self.pairs, self.model, models, self.critic, views=views, guiding=guiding, weights=[weight],
            retriever=self.retriever, writer=self.writer, budget=self.budget, limit=self.limit, seed=self.seed,
            out=self.out, shard=self.shard, progress=self._told(part),
        )  # fmt: skip
        return Path(made.run).name

    def _told(self, part: str) -> Progress:
        return lambda what, done, total: self.report(f"{part} {what}", done, total)


def as_pairs(benchmark: Benchmark) -> Benchmark:
    """The comparisons alone; made from the completions where there are none."""
    if benchmark.comparisons:
        return msgspec.structs.replace(benchmark, completions=())
    return pairs_from_completions(benchmark)


def _reference(critic: str, pairs: Benchmark) -> Critic:
    judge = make_critic(critic, pairs)
    if not isinstance(judge, ReferenceCritic):
        raise PalateError(f"the table measures likeness to what the user wrote: --critic reference, not {critic}")
    return judge


def _in_context_views(pairs: Benchmark) -> list[str]:
    """The richest profile there is, and a stranger's."""
    own = own_view(pairs)
    return [own, f"swapped:{own}"] if len(pairs.users) > 1 else [own]


def _in_context(text: str, retriever: str) -> tuple[str, str]:
    """A view, and how its history is picked: `posts:5` or `posts:5@recent`."""
    view, at, picker = text.partition("@")
    if at:
        RETRIEVERS.find(picker)
    [spec] = resolve_views([view])
    if not spec.pieces:
        raise PalateError("--in-context none shows the policy nothing, which is what it is compared with")
    return view, picker if at else retriever


class Steer(Experiment[SteerSettings, SteerSummary]):
    """Every way of steering a policy beside what the user really wrote: alone, in context, chosen, guided."""

    kind = "steer"
    command = "palate steer"
    settings = SteerSettings

    def ledgers(self, settings: SteerSettings) -> Sequence[Ledger[Any]]:
        """None of its own: everything is in its parts."""
        return ()

    def summarise(self, run: Run[SteerSettings], reading: Reading = DEFAULT_READING) -> SteerSummary:
        """Every number from the runs beside the table."""
        return summarise_steer(run)

    def document(self, run: Run[SteerSettings], summary: SteerSummary, *, users: bool = True) -> Document:
        """The table, what is personal in it, and the samples."""
        return steer_document(run, summary, users=users)

    def parts(self, run: Run[SteerSettings]) -> list[Path]:
        """The runs of the table, each once."""
        return [part_folder(run, name) for name in dict.fromkeys(run.settings.parts.values())]


STEER = Steer()
