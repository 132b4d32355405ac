"""Guided decoding: a reward model steers what a policy writes, and policy accuracy says whether it can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from palate.downstream._critics import as_critic, judged
from palate.downstream._items import ITEMS, prompt_item
from palate.downstream._personal import personal_views
from palate.downstream._policy import Drawing, item_seed, open_policy, write_request
from palate.downstream.guide._document import guide_document
from palate.downstream.guide._guiding import Guided, Guiding, Job, checked_weights, write_guided
from palate.downstream.guide._results import GuideSummary
from palate.downstream.guide._run import (
    ALONE,
    GENERATIONS,
    GRADES,
    LIKELIHOODS,
    MEASURED,
    RATINGS,
    TOKEN_REWARDS,
    GeneratedLine,
    GuideSettings,
    LikelihoodLine,
    OutcomeLine,
    PairRatingLine,
    TextGradeLine,
    TokenRewardLine,
    ledgers,
    outcomes,
    written_key,
)
from palate.downstream.guide._summary import summarise_guide
from palate.downstream.guide._token_rewards import policy_likelihoods, token_rewards
from palate.engine import LanguageModel, LocalModel, at_work, in_halves, in_process
from palate.evaluation import in_benchmark_order, make_ask
from palate.records import Ask, Benchmark, Comparison, Critic, Draft, PalateError, Rating, RewardModel, View
from palate.report import Document
from palate.rewards import REWARD_MODEL, follow
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
from palate.views import Missing, ViewSpec, drawn, resolve_views

GRADED_AT_ONCE = 64
"""Texts put to the critic before its grades are on the disk."""
Asked = TypeVar("Asked", bound=Item)


def guide(
    benchmark: str | Path | Benchmark,
    policy: str | LanguageModel,
    reward_models: Sequence[str | RewardModel],
    critic: str | Critic | None = None,
    *,
    views: Sequence[str] | None = None,
    policy_views: Sequence[str] = ("none",),
    guiding: Guiding | None = None,
    weights: Sequence[float] | None = None,
    accuracy: bool = True,
    retriever: str = "bm25",
    writer: str = "smollm2",
    budget: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    shard: str | None = None,
    progress: Progress | None = None,
) -> GuideSummary:
    """Measure what reward models are worth when they steer a policy while it writes.

    On comparisons: does the steered policy give more probability to what the user preferred (policy accuracy)? With a
    critic: is what it writes, at each weight of the reward, worth more than what it writes alone? With `accuracy=False`
    comparisons serve as prompts only. By default reward models see nothing of the user, the richest profile there is,
    and one stranger's profile of the same kind. Call it again to resume. `shard`, such as "3/8", measures the items
    of some users only; `merge_runs` joins the shards.
    """
    share = parse_shard(shard)
    guiding = guiding or Guiding()
    guiding.check()
    steps = checked_weights(weights)
    benchmark = as_benchmark(benchmark, data_dir)
    items = sample_items(prompts(benchmark), limit, seed)
    if critic is None:
        _require_accuracy(benchmark, items, asked=accuracy)
    accuracy = accuracy and any(isinstance(item, Comparison) for item in items)
    # A text is written for each stranger, so that there is one for each item.
    shown, seen = (resolve_views(names, strangers=1) for names in (policy_views, views or personal_views(benchmark)))
    judge = None if critic is None else as_critic(critic, benchmark)
    if judge is not None:
        judge.require(items)
    setup = set_up(
        benchmark, items, [*shown, *seen], retriever=retriever, writer=writer, budget=budget, limit=limit, seed=seed
    )
    model = _guidable(policy, guiding)
    models = cautioned(load_models(reward_models), seen, benchmark, items)
    for loaded in models:
        follow(loaded.model, [])  # what cannot guide is refused now, and not after an hour
    settings = GuideSettings(
        **setup.settings,
        policy=Fingerprint(model.name, model.fingerprint),
        policy_views=shown,
        guiding=guiding,
        weights=steps,
        reward_models=[loaded.settings for loaded in models],
        views=seen,
        critic=None if judge is None else Fingerprint(judge.name, judge.fingerprint),
        accuracy=accuracy,
    )
    own = shard_items(items, share)
    run = begin_run(
        shard_parent(out, share), GUIDE, settings, {"items.jsonl": lambda: json_lines(map(prompt_item, items))}
    )
    with run.writing() as opened, finishing_shard(run, share, models):
        for some in run.two_passes(own, items):
            keep_views(opened, setup.builder, (*shown, *seen), some)
            now = replace(setup, items=some)
            Measurement(now, own, settings, model, models, judge, opened, progress or no_progress).measure()
    return GUIDE.summarise(run)


def _require_accuracy(benchmark: Benchmark, items: Sequence[Item], *, asked: bool) -> None:
    """Without a critic there has to be policy accuracy to measure."""
    if not asked:
        raise PalateError(
            "with --no-accuracy and without a critic there is nothing to measure; name one with --critic, such as "
            "reference"
        )
    if not any(isinstance(item, Comparison) for item in items):
        raise PalateError(
            f"{benchmark.card.name} has no comparisons on which to measure policy accuracy, and without a critic "
            "nobody says what a text is worth; name one with --critic, such as reference"
        )


def _guidable(policy: str | LanguageModel, guiding: Guiding) -> LocalModel:
    """The policy itself: guiding takes the probabilities of all its next tokens, which servers do not tell."""
    model = open_policy(policy, Drawing(samples=1, tokens=guiding.tokens))
    inner = in_process(model)
    if inner is None:
        raise PalateError(
            f"the policy {model.name} runs behind a server, which does not tell how likely every next token is; "
            "guided decoding needs it in this process, without url="
        )
    inner.steps([])
    return inner


@dataclass(frozen=True)
class Measurement:
    """First policy accuracy on the comparisons, then texts; stage by stage, so that every file grows in one order
    however often the process is stopped."""

    setup: Setup[Item]
    """With the items that are measured now."""
    every: Sequence[Item]
    settings: GuideSettings
    policy: LocalModel
    models: Sequence[LoadedModel]
    critic: Critic | None
    writer: RunWriter
    progress: Progress

    def measure(self) -> None:
        """Measure what is still missing."""
        if self.settings.accuracy:
            self._read_pairs()
            self._follow_pairs()
            self._rate_pairs()
        if self.critic is not None:
            self._write_texts()
            self._rate_texts()
            self._grade_texts(self.critic)
        self._tell("done")

    @property
    def batch_size(self) -> int:
        """Texts that are processed together; one at a time on a CPU, where no number then depends on another text."""
        return 128 if self.policy.device.startswith("cuda") else 1

    @property
    def _pairs(self) -> list[Comparison]:
        return [item for item in self.setup.items if isinstance(item, Comparison)]

    def _guides(self) -> Iterator[tuple[LoadedModel, ViewSpec]]:
        """Every reward model under every view."""
        for model in self.models:
            for spec in self.settings.views:
                yield model, spec

    def _tell(self, what: str, more: float = 0.0, /) -> None:
        settings = self.settings
        pairs = sum(isinstance(item, Comparison) for item in self.every)
        policy_views, guides = len(settings.policy_views), len(self.models) * len(settings.views)
        total = pairs * (policy_views + policy_views * guides + guides) if settings.accuracy else 0
        if self.critic is not None:
            texts = 1 + guides * (len(settings.weights) - 1)
            total += len(self.every) * policy_views * (2 * texts + guides)
        done = sum(len(self.writer.keys(ledger)) for ledger in (*MEASURED, outcomes(settings)))
        self.progress(what, min(done + more, total), total)

    def _seen(self, spec: ViewSpec, items: Sequence[Asked]) -> tuple[list[tuple[Asked, View]], dict[str, str]]:
        """What is seen of the users of some items; by item, why nothing is."""
        built = list(zip(items, self.setup.builder.build(spec, items), strict=True))
        seen = [(item, view) for item, view in built if isinstance(view, View)]
        return seen, {item.id: view.reason for item, view in built if isinstance(view, Missing)}

    # Policy accuracy: the responses of comparisons token by token, and as a whole

    def _read_pairs(self) -> None:
        """The policy's log-probabilities of the responses' tokens."""
        for spec in self.settings.policy_views:

            def read(batch: Sequence[Comparison], spec: ViewSpec = spec) -> list[LikelihoodLine]:
                self._tell(f"{self.policy.name} reads pairs, seeing {spec.name}")
                seen, unseen = self._seen(spec, batch)
                with at_work("policy", self.policy.name, len(seen)):
                    likelihoods = policy_likelihoods(self.policy, spec.name, seen, self.settings.guiding.top_k)
                lines = {line.item: line for line in likelihoods}
                for item, reason in unseen.items():
                    lines[item] = LikelihoodLine(policy_view=spec.name, item=item, failed=reason)
                return [lines[item.id] for item in batch]

            done = self.writer.keys(LIKELIHOODS)
            missing = [item for item in self._pairs if (spec.name, item.id) not in done]
            for lines in in_halves(missing, self.batch_size, read):
                self.writer.add(LIKELIHOODS, lines)

    def _follow_pairs(self) -> None:
        """Every reward model's rewards of the same tokens: an item's views in turn, since their texts are the same."""
        likelihoods = self.writer.lines(LIKELIHOODS)
        views = self.settings.views
        for policy_view in (view.name for view in self.settings.policy_views):
            read = [item for item in self._pairs if likelihoods[policy_view, item.id].failed is None]
            for model in self.models:
                done = self.writer.keys(TOKEN_REWARDS)
                missing = [
                    item
                    for item in read
                    if any((policy_view, model.label, spec.name, item.id) not in done for spec in views)
                ]

                def rewards(
                    batch: Sequence[Comparison], policy_view: str = policy_view, model: LoadedModel = model
                ) -> list[TokenRewardLine]:
                    lines: list[dict[str, TokenRewardLine]] = []
                    for before, spec in enumerate(views):

                        def tell(what: str, more: float = 0.0, /, before: int = before) -> None:
                            self._tell(what, before * len(batch) + more)

                        what = f"{model.label} follows pairs, seeing {spec.name}{model.status}"
                        with told_within(tell, what, len(batch)), at_work(REWARD_MODEL, model.label):
                            lines.append(self._followed(batch, policy_view, model, spec))
                    return [own[item.id] for item in batch for own in lines]

                for found in in_halves(missing, max(1, self.batch_size // len(views)), rewards):
                    self.writer.add(TOKEN_REWARDS, found)

    def _followed(
        self, batch: Sequence[Comparison], policy_view: str, model: LoadedModel, spec: ViewSpec
    ) -> dict[str, TokenRewardLine]:
        likelihoods = self.writer.lines(LIKELIHOODS)
        seen, unseen = self._seen(spec, batch)
        known = [likelihoods[policy_view, item.id] for item, _ in seen]
        followed = token_rewards(self.policy, model.model, (model.label, spec.name), seen, known)
        lines = {line.item: line for line in followed}
        for item, reason in unseen.items():
            lines[item] = TokenRewardLine(
                policy_view=policy_view, rm=model.label, view=spec.name, item=item, unscored=reason
            )
        return lines

    def _rate_pairs(self) -> None:
        """Every reward model's scores of the whole responses."""
        seed = self.settings.seed
        rate_missing(
            self.writer,
            RATINGS,
            self.models,
            self.settings.views,
            self._pairs,
            self.setup.builder.build,
            line=lambda rm, view, item, draw, rating: PairRatingLine(rm=rm, view=view, item=item, rating=rating),
            ask=lambda item, view: make_ask(item, view, seed),
            tell=self._tell,
            finish=lambda rating, item: in_benchmark_order(rating, item, seed),
        )

    # Texts: written, rated by the reward models that guided them, and graded by the critic

    def _write_texts(self) -> None:
        """The policy alone first, then under every reward model, view and weight."""
        weights = [weight for weight in self.settings.weights if weight > 0]
        for policy_view in self.settings.policy_views:
            self._write(policy_view, None, None, [0.0])
            for model, spec in self._guides():
                self._write(policy_view, model, spec, weights)

    def _write(
        self, policy_view: ViewSpec, model: LoadedModel | None, spec: ViewSpec | None, weights: Sequence[float]
    ) -> None:
        rm, view = (model.label if model else ALONE), (spec.name if spec else ALONE)
        done = self.writer.keys(GENERATIONS)
        missing = [
            (item, weight)
            for weight in weights
            for item in self.setup.items
            if (policy_view.name, rm, view, weight, item.id) not in done
        ]

        def write(batch: Sequence[tuple[Item, float]]) -> list[GeneratedLine]:
            def what() -> str:
                by = f", guided by {rm}, weight {batch[0][1]:g}{model.status}" if model else ""
                return f"{self.policy.name} writes, seeing {policy_view.name}{by}"

            with told_within(self._tell, what, len(batch)), at_work("policy", self.policy.name):
                return self._written(policy_view, model, spec, batch)

        for lines in in_halves(missing, self.batch_size, write):
            self.writer.add(GENERATIONS, lines)

    def _written(
        self,
        policy_view: ViewSpec,
        model: LoadedModel | None,
        spec: ViewSpec | None,
        wanted: Sequence[tuple[Item, float]],
    ) -> list[GeneratedLine]:
        guiding, seed, items = self.settings.guiding, self.settings.seed, [item for item, _ in wanted]
        by_policy = self.setup.builder.build(policy_view, items)
        by_model = self.setup.builder.build(spec, items) if spec else [View(name="none")] * len(items)
        jobs: list[Job] = []
        lines: list[GeneratedLine] = []
        for (item, weight), shown, seen in zip(wanted, by_policy, by_model, strict=True):
            line = GeneratedLine(
                policy_view=policy_view.name,
                rm=model.label if model else ALONE,
                view=spec.name if spec else ALONE,
                weight=weight,
                item=item.id,
            )
            if isinstance(shown, Missing) or isinstance(seen, Missing):
                reasons = [view.reason for view in (shown, seen) if isinstance(view, Missing)]
                lines.append(msgspec.structs.replace(line, failed=reasons[0]))
                continue
            drawing = Drawing(samples=1, tokens=guiding.tokens)
            request, parts, note = write_request(self.policy, item, shown, drawing, seed)
            ask = Ask(id=item.id, prompt=item.prompt, responses=(), view=seen)
            jobs.append(Job(turns=request.turns, ask=ask, weight=weight, seed=item_seed(item, seed)))
            lines.append(msgspec.structs.replace(line, parts=parts, note=note))
        texts = iter(write_guided(self.policy, model.model if model else None, jobs, guiding) if jobs else [])
        return [line if line.failed is not None else _with_text(line, next(texts)) for line in lines]

    def _rate_texts(self) -> None:
        """Every reward model's scores of the texts of all weights, in one ask for each item."""
        weights = self.settings.weights
        generations = self.writer.lines(GENERATIONS)
        for policy_view in (view.name for view in self.settings.policy_views):
            for model in self.models:

                def line(
                    rm: str, view: str, item: str, draw: int, rating: Rating, policy_view: str = policy_view
                ) -> OutcomeLine:
                    return OutcomeLine(policy_view=policy_view, rm=rm, view=view, item=item, rating=rating)

                def ask(item: Item, view: View, policy_view: str = policy_view, rm: str = model.label) -> Ask | Missing:
                    keys = [written_key(policy_view, rm, view.name, weight, item.id) for weight in weights]
                    texts = [generations[key] for key in keys]
                    failed = next((text.failed for text in texts if text.failed is not None), None)
                    if failed is not None:
                        return Missing(failed)
                    return Ask(id=item.id, prompt=item.prompt, responses=tuple(text.text for text in texts), view=view)

                rate_missing(
                    self.writer,
                    outcomes(self.settings),
                    [model],  # each is asked about the texts that it guided
                    self.settings.views,
                    self.setup.items,
                    self.setup.builder.build,
                    line=line,
                    ask=ask,
                    tell=self._tell,
                    responses=len(weights),
                )

    def _grade_texts(self, critic: Critic) -> None:
        items = {item.id: item for item in self.setup.items}
        graded = self.writer.keys(GRADES)
        written = self.writer.lines(GENERATIONS).items()
        missing = [line for key, line in written if line.item in items and line.failed is None and key not in graded]
        for batch in chunks(missing, GRADED_AT_ONCE):
            with told_within(self._tell, f"{critic.name} grades what was written", len(batch)):
                grades = judged(critic, [Draft(item=items[line.item], text=line.text) for line in batch])
            self.writer.add(
                GRADES,
                [
                    TextGradeLine(
                        policy_view=line.policy_view,
                        rm=line.rm,
                        view=line.view,
                        weight=line.weight,
                        item=line.item,
                        grade=grade,
                    )
                    for line, grade in zip(batch, grades, strict=True)
                ],
            )


def _with_text(line: GeneratedLine, written: Guided) -> GeneratedLine:
    if written.failed is not None:
        return msgspec.structs.replace(line, failed=written.failed)
    return msgspec.structs.replace(
        line,
        text=written.text,
        tokens=len(written.ids),
        finished=written.finished,
        log_probability=round(written.log_probability, 6),
    )


class Guide(Experiment[GuideSettings, GuideSummary]):
    """Reward models steer a policy while it writes: policy accuracy, and what a critic says of the texts."""

    kind = "guide"
    command = "palate guide"
    settings = GuideSettings

    def ledgers(self, settings: GuideSettings) -> Sequence[Ledger[Any]]:
        """Prompts, what was shown of their users, tokens with their rewards, texts, ratings and grades."""
        return ledgers(settings)

    def summarise(self, run: Run[GuideSettings], reading: Reading = DEFAULT_READING) -> GuideSummary:
        """Every number from the raw log-probabilities, rewards, ratings, texts and grades."""
        return summarise_guide(run)

    def document(self, run: Run[GuideSettings], summary: GuideSummary, *, users: bool = True) -> Document:
        """Policy accuracy and the critic's scores against the weight, and every prompt with what was written."""
        return guide_document(run, summary, users=users)

    def place(self, run: Run[GuideSettings], ledger: Ledger[Any], batch: int) -> Place:
        """Policy view by policy view, then reward model, view and weight; whole pairs as every run rates them."""
        settings = run.settings
        prompts = list(run.read(ITEMS))
        ids = [item.id for item in prompts]
        items = places(ids)
        if ledger.name == VIEWS.name:
            shown = drawn_places(kept_views((*settings.policy_views, *settings.views)))
            return lambda line: (shown[line.view, line.draw], items[line.item])
        models = places([model.label for model in settings.reward_models])
        if ledger.name == RATINGS.name:
            pairs = [item.id for item in prompts if item.preferred is not None]
            return rating_place(drawn_places(drawn(settings.views)), models, pairs, batch, run)
        policy_views = places([spec.name for spec in settings.policy_views])
        if ledger.name == LIKELIHOODS.name:
            return lambda line: (policy_views[line.policy_view], items[line.item])
        if ledger.name == TOKEN_REWARDS.name:
            seen = places([spec.name for spec in settings.views])
            return lambda line: (policy_views[line.policy_view], models[line.rm], items[line.item], seen[line.view])
        guides = places([(ALONE, ALONE), *((model, spec.name) for model in models for spec in settings.views)])
        if ledger.name in (GENERATIONS.name, GRADES.name):
            weights = places(settings.weights)
            return lambda line: (
                policy_views[line.policy_view],
                guides[line.rm, line.view],
                weights[line.weight],
                items[line.item],
            )
        return lambda line: (policy_views[line.policy_view], guides[line.rm, line.view], items[line.item])


GUIDE = Guide()
