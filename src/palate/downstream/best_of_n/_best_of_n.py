"""Best-of-N: a policy writes, a reward model chooses, a critic says what the choice is worth to this user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from palate.downstream._choice import doubling
from palate.downstream._critics import as_critic, judged
from palate.downstream._items import ITEMS, prompt_item
from palate.downstream._personal import personal_views
from palate.downstream._policy import Drawing, open_policy
from palate.downstream._samples import SAMPLES, SampleSet, keep_samples, sample_settings
from palate.downstream.best_of_n._document import best_of_n_document
from palate.downstream.best_of_n._results import BestOfNSummary
from palate.downstream.best_of_n._run import (
    GRADES,
    LEDGERS,
    RATINGS,
    BestOfNSettings,
    SampleGradeLine,
    SampleRatingLine,
)
from palate.downstream.best_of_n._summary import summarise_best_of_n
from palate.engine import LanguageModel, telling
from palate.records import Ask, Benchmark, Critic, Draft, PalateError, Rating, RewardModel, View
from palate.report import Document
from palate.runs import (
    VIEWS,
    Experiment,
    Fingerprint,
    Item,
    Ledger,
    LoadedModel,
    Place,
    Progress,
    Reading,
    Run,
    RunWriter,
    Setup,
    as_benchmark,
    begin_run,
    cautioned,
    chunks,
    drawn_places,
    finishing_shard,
    json_lines,
    keep_views,
    kept_views,
    load_models,
    no_progress,
    parse_shard,
    places,
    prompts,
    rate_missing,
    rating_place,
    sample_items,
    set_up,
    shard_items,
    shard_parent,
    told_within,
)
from palate.runs._experiment import DEFAULT_READING
from palate.views import ViewSpec, drawn, resolve_views

GRADED_AT_ONCE = 256
"""Texts put to the critic before its grades are on the disk."""


def best_of_n(
    benchmark: str | Path | Benchmark,
    policy: str | LanguageModel,
    reward_models: Sequence[str | RewardModel],
    critic: str | Critic,
    *,
    views: Sequence[str] | None = None,
    policy_views: Sequence[str] = ("none",),
    drawing: Drawing | None = None,
    steps: Sequence[int] | None = None,
    retriever: str = "bm25",
    writer: str = "smollm2",
    budget: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    shard: str | None = None,
    progress: Progress | None = None,
) -> BestOfNSummary:
    """Measure what reward models are worth when they choose among a policy's own texts.

    The policy writes N texts for each prompt, once for all reward models; each model rates all of them under each
    view; the critic grades them. By default the models see nothing of the user, the richest profile there is, and
    strangers' profiles of the same kind. Call it again to resume. `shard`, such as "3/8", measures the items of some
    users only; `merge_runs` joins the shards.
    """
    share = parse_shard(shard)
    drawing = drawing or Drawing()
    drawing.check()
    ks = checked_steps(steps, drawing.samples)
    benchmark = as_benchmark(benchmark, data_dir)
    items = sample_items(prompts(benchmark), limit, seed)
    # A text is written for each stranger whom the policy sees, and only rated for each whom a reward model sees.
    shown, seen = resolve_views(policy_views, strangers=1), resolve_views(views or personal_views(benchmark))
    judge = as_critic(critic, benchmark)
    judge.require(items)
    setup = set_up(
        benchmark, items, [*shown, *seen], retriever=retriever, writer=writer, budget=budget, limit=limit, seed=seed
    )
    models = cautioned(load_models(reward_models), seen, benchmark, items)
    model = open_policy(policy, drawing)
    settings = BestOfNSettings(
        **setup.settings,
        policy=Fingerprint(model.name, model.fingerprint),
        policy_views=shown,
        drawing=drawing,
        steps=ks,
        reward_models=[one.settings for one in models],
        views=seen,
        critic=Fingerprint(judge.name, judge.fingerprint),
    )
    own, parent = shard_items(items, share), shard_parent(out, share)
    run = begin_run(parent, BEST_OF_N, settings, {"items.jsonl": lambda: json_lines(map(prompt_item, items))})
    sets = [SampleSet(parent, sample_settings(settings, settings.policy, drawing, spec)) for spec in shown]
    with run.writing() as opened, finishing_shard(run, share, models):
        setup = replace(setup, items=own)
        work = RatedSamples(setup, seen, drawing, model, sets, models, judge, opened, progress or no_progress)
        for some in run.two_passes(own, items):
            keep_views(opened, setup.builder, (*shown, *seen), some)
            work.measure(some)
        work.tell("done")
    return BEST_OF_N.summarise(run)


def checked_steps(steps: Sequence[int] | None, samples: int) -> list[int]:
    """The k of best-of-k in order, each once; by default 1, 2, 4 and so on up to N.

    1 and N are always among them: the one is the policy alone, the other what was paid for.
    """
    for k in steps or ():
        if k < 1:
            raise PalateError(f"--k is a number of samples to choose from, from 1; {k} was given")
        if k > samples:
            raise PalateError(
                f"--k {k} is more than the {samples} samples that are drawn (-n): the best of {k} cannot be known from "
                f"them; raise -n"
            )
    return sorted({1, *steps, samples}) if steps else doubling(samples)


@dataclass(frozen=True)
class RatedSamples:
    """Sample once, rate with every model, grade once.

    Stage by stage, so that every file grows in one order however often the process is stopped.
    """

    setup: Setup[Item]
    views: Sequence[ViewSpec]
    drawing: Drawing
    policy: LanguageModel
    sets: Sequence[SampleSet]
    models: Sequence[LoadedModel]
    critic: Critic
    writer: RunWriter
    progress: Progress

    def measure(self, items: Sequence[Item]) -> None:
        """What is missing of these items."""
        for one in self.sets:
            self._sample(one, items)
        for one in self.sets:
            self._rate(one.settings.view.name, items)
        for one in self.sets:
            self._grade(one.settings.view.name, items)

    def tell(self, what: str, more: float = 0.0, /) -> None:
        """Report what is being done, with how much is done of all items."""
        done = sum(len(self.writer.keys(ledger)) for ledger in (SAMPLES, RATINGS, GRADES))
        each = 2 + len(self.models) * sum(spec.draws for spec in self.views)
        self.progress(what, done + more, len(self.sets) * len(self.setup.items) * each)

    def _sample(self, samples: SampleSet, items: Sequence[Item]) -> None:
        name = samples.settings.view.name
        pending = [item for item in items if (name, item.id) not in self.writer.keys(SAMPLES)]
        if not pending:
            return

        def what() -> str:
            spent = self.policy.status()
            return f"{self.policy.name} writes, seeing {name}" + (f" ({spent})" if spent else "")

        drawn = 0
        self.tell(what())
        with telling(lambda share: self.tell(what(), max(0.0, share * len(pending) - drawn))):
            for lines in samples.draw(self.policy, self.setup.builder, pending):
                self.writer.add(SAMPLES, lines)
                drawn += len(lines)
                self.tell(what())

    def _texts(self, policy_view: str, item: Item) -> tuple[str, ...]:
        return self.writer.lines(SAMPLES)[policy_view, item.id].texts

    def _sampled(self, policy_view: str, items: Sequence[Item]) -> list[Item]:
        lines = self.writer.lines(SAMPLES)
        return [item for item in items if lines[policy_view, item.id].failed is None]

    def _rate(self, policy_view: str, items: Sequence[Item]) -> None:
        """All samples of an item are one ask, so that a long profile is read once."""

        def line(rm: str, view: str, item: str, draw: int, rating: Rating) -> SampleRatingLine:
            return SampleRatingLine(policy_view=policy_view, rm=rm, view=view, item=item, draw=draw, rating=rating)

        def ask(item: Item, view: View) -> Ask:
            return Ask(id=item.id, prompt=item.prompt, responses=self._texts(policy_view, item), view=view)

        rate_missing(
            self.writer,
            RATINGS,
            self.models,
            self.views,
            self._sampled(policy_view, items),
            self.setup.builder.build,
            line=line,
            ask=ask,
            tell=self.tell,
            responses=self.drawing.samples,
        )

    def _grade(self, policy_view: str, items: Sequence[Item]) -> None:
        graded = self.writer.keys(GRADES)
        pending = [item for item in self._sampled(policy_view, items) if (policy_view, item.id) not in graded]
        for some in chunks(pending, max(1, GRADED_AT_ONCE // self.drawing.samples)):
            drafts = [Draft(item=item, text=text) for item in some for text in self._texts(policy_view, item)]
            what = f"{self.critic.name} grades what was written seeing {policy_view}"
            with told_within(self.tell, what, len(some)):
                grades = iter(judged(self.critic, drafts))
            self.writer.add(
                GRADES,
                [
                    SampleGradeLine(
                        policy_view=policy_view,
                        item=item.id,
                        grades=tuple(next(grades) for _ in self._texts(policy_view, item)),
                    )
                    for item in some
                ],
            )


class BestOfN(Experiment[BestOfNSettings, BestOfNSummary]):
    """Reward models choose among a policy's own texts, and a critic says what the choice is worth."""

    kind = "best-of-n"
    command = "palate bon"
    settings = BestOfNSettings

    def ledgers(self, settings: BestOfNSettings) -> Sequence[Ledger[Any]]:
        """Prompts, what was shown of their users, samples, ratings and grades."""
        return LEDGERS

    def summarise(self, run: Run[BestOfNSettings], reading: Reading = DEFAULT_READING) -> BestOfNSummary:
        """Every number from the raw samples, ratings and grades."""
        return summarise_best_of_n(run)

    def document(self, run: Run[BestOfNSettings], summary: BestOfNSummary, *, users: bool = True) -> Document:
        """Scores and rewards against k, differences, and every prompt with its samples."""
        return best_of_n_document(run, summary, users=users)

    def place(self, run: Run[BestOfNSettings], ledger: Ledger[Any], batch: int) -> Place:
        """By policy view, stage by stage; of ratings, chunks of the items that have samples."""
        settings = run.settings
        ids = [item.id for item in run.read(ITEMS)]
        items = places(ids)
        if ledger.name == VIEWS.name:
            shown = drawn_places(kept_views((*settings.policy_views, *settings.views)))
            return lambda line: (shown[line.view, line.draw], items[line.item])
        policy_views = places([spec.name for spec in settings.policy_views])
        if ledger.name != RATINGS.name:
            return lambda line: (policy_views[line.policy_view], items[line.item])
        lines, views = run.lines(SAMPLES), drawn_places(drawn(settings.views))
        models, chunk = places([model.label for model in settings.reward_models]), ratings_at_once(settings, batch)
        within = {
            name: rating_place(views, models, [item for item in ids if lines[name, item].failed is None], chunk, run)
            for name in policy_views
        }
        return lambda line: (policy_views[line.policy_view], *within[line.policy_view](line))

    def merged(self, run: Run[BestOfNSettings], shard: Path) -> None:
        """Put the samples where other runs find them."""
        for spec in run.settings.policy_views:
            keep_samples(run, sample_settings(run.settings, run.settings.policy, run.settings.drawing, spec), shard)


def ratings_at_once(settings: BestOfNSettings, batch: int) -> int:
    """Items that are rated together, since a batch is meant for pairs."""
    return max(1, 2 * batch // settings.drawing.samples)


BEST_OF_N = BestOfN()
