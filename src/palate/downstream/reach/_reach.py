"""`palate reach`: could a policy follow this reward, and would that bring people what they want?

One small step along the policy gradient of each reward, taken from one half of the users and read on the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from palate.downstream._critics import as_critic
from palate.downstream._items import PromptItem, prompt_item
from palate.downstream._personal import own_view
from palate.downstream._policy import Drawing, open_policy, write_request
from palate.downstream._samples import SAMPLES, SampleSet, sample_settings
from palate.downstream.best_of_n._best_of_n import RatedSamples
from palate.downstream.best_of_n._run import GRADES, RATINGS
from palate.downstream.reach._arithmetic import advantages
from palate.downstream.reach._document import reach_document
from palate.downstream.reach._results import ReachSummary
from palate.downstream.reach._run import LEDGERS, SLOPES, ReachSettings, SlopeLine, halves
from palate.downstream.reach._summary import grade_rows, rating_rows, summarise_reach
from palate.engine import require
from palate.records import Benchmark, Critic, PalateError, RewardModel, View
from palate.report import Document
from palate.runs import (
    VIEWS,
    Experiment,
    Fingerprint,
    Item,
    Ledger,
    Progress,
    Reading,
    Run,
    RunWriter,
    Setup,
    as_benchmark,
    begin_run,
    cautioned,
    json_lines,
    keep_views,
    load_models,
    no_progress,
    prompts,
    sample_items,
    set_up,
)
from palate.runs._experiment import DEFAULT_READING
from palate.stats import Floats
from palate.views import ViewSpec, resolve_views

if TYPE_CHECKING:
    from palate.downstream.ppo._policy_model import PolicyModel
    from palate.downstream.reach._gradient import PolicyGradient, ReadText
    from palate.downstream.reach._sketch import SketchedGradient

DRAWING = Drawing(samples=8, top_p=1.0, tokens=128)
"""What is drawn unless told otherwise: the whole distribution, since its tail has a gradient, too."""
SMALLEST_SKETCH = 4


def reach(
    benchmark: str | Path | Benchmark,
    policy: str,
    reward_models: Sequence[str | RewardModel],
    critic: str | Critic,
    *,
    view: str | None = None,
    policy_view: str | None = None,
    drawing: Drawing | None = None,
    sketch: int | None = None,
    retriever: str = "bm25",
    writer: str = "smollm2",
    budget: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> ReachSummary:
    """Measure how far a policy could follow each reward, and what that would bring people who gave no gradient.

    The policy writes N texts for each prompt, once for all reward models; each model rates them seeing the user and
    seeing a stranger; the critic grades them. No policy is trained. Call it again to resume.

    With `sketch`, every text is read once instead of about five times for each model and view: gradients are compared
    by random projections of each of their matrices to this many rows and columns.
    """
    drawing = drawing or DRAWING
    check_drawing(drawing)
    check_sketch(sketch)
    require("torch", "local")
    from palate.downstream.ppo._policy_model import open_policy_model

    progress = progress or no_progress
    benchmark = as_benchmark(benchmark, data_dir)
    items = sample_items(prompts(benchmark), limit, seed)
    own, stranger = _views(view or own_view(benchmark))
    [shown] = resolve_views([policy_view or own.name], strangers=1)
    judge = as_critic(critic, benchmark)
    judge.require(items)
    setup = set_up(
        benchmark, items, [shown, own, stranger], retriever=retriever, writer=writer, budget=budget, limit=limit,
        seed=seed,
    )  # fmt: skip
    kept = [prompt_item(item) for item in items]
    half = halves(kept, seed)
    models = cautioned(load_models(reward_models), [own], benchmark, items)
    model = open_policy_model(policy)
    open_policy(model, drawing)
    settings = ReachSettings(
        **setup.settings,
        policy=Fingerprint(model.name, model.fingerprint),
        policy_view=shown,
        drawing=drawing,
        sketch=sketch,
        reward_models=[one.settings for one in models],
        view=own,
        stranger=stranger,
        critic=Fingerprint(judge.name, judge.fingerprint),
    )
    run = begin_run(Path(out), REACH, settings, {"items.jsonl": lambda: json_lines(kept)})
    samples = SampleSet(Path(out), sample_settings(settings, settings.policy, drawing, shown))
    directions = [(None, None), *((one.label, seen.name) for one in models for seen in (own, stranger))]
    slopes = len(directions) * len(items)
    with run.writing() as opened:
        keep_views(opened, setup.builder, (shown, own, stranger), items)
        work = RatedSamples(
            setup, (own, stranger), drawing, model, [samples], models, judge, opened,
            lambda what, done, total: progress(what, done + len(opened.keys(SLOPES)), total + slopes),
        )  # fmt: skip
        work.measure(items)
        work.tell("done")
        _Slopes(setup, settings, kept, half, model, opened, progress).measure(directions)
    return REACH.summarise(run)


def check_drawing(drawing: Drawing) -> None:
    """Refuse what has no gradient, before anything is loaded."""
    drawing.check()
    if drawing.samples < 2:
        raise PalateError(f"reach compares texts of one prompt: -n must be at least 2; {drawing.samples} was given")
    if drawing.temperature == 0:
        raise PalateError("--temperature 0 writes the same text every time, which has no gradient; use 1")


def check_sketch(sketch: int | None) -> None:
    """Refuse a size that could tell nothing."""
    if sketch is not None and sketch < SMALLEST_SKETCH:
        raise PalateError(f"--sketch must be at least {SMALLEST_SKETCH}; {sketch} was given. 32 is a good size.")


def _views(name: str) -> tuple[ViewSpec, ViewSpec]:
    """What reward models see of the user, and the same of a stranger."""
    [own] = resolve_views([name])
    if not own.is_profile:
        raise PalateError(
            f"--view {name}: reach compares the user's own view with a stranger's of the same kind, and {name} has "
            "none. Name one that shows a profile, such as judgements:4 or posts:5."
        )
    return own, resolve_views([f"swapped:{own.name}"], strangers=1)[0]


Source = tuple[str | None, str | None]
"""A reward model and what it sees; or nothing, for the critic."""


@dataclass(frozen=True)
class _Slopes:
    """A gradient for each reward, view and half of the users, and how fast the other half's texts rise along it."""

    setup: Setup[Item]
    settings: ReachSettings
    items: Sequence[PromptItem]
    half: NDArray[np.intp]
    policy: PolicyModel
    writer: RunWriter
    progress: Progress

    def measure(self, sources: Sequence[Source]) -> None:
        counted = self._counted()
        pending = [one for one in sources if self._missing(one, counted)]
        self._tell("done" if not pending else "reading the texts", 0, sources)
        if not pending or not counted:
            return
        texts, places = self._read(counted)
        gradient = self._gradient(texts)
        for source in pending:
            paid = advantages(self._scores(source, counted))
            for side in (0, 1):
                self._add(source, side, counted, gradient, places, paid, sources)
        self._tell("done", 0, sources)

    def _gradient(self, texts: Sequence[ReadText]) -> PolicyGradient | SketchedGradient:
        from palate.downstream.reach._gradient import PolicyGradient
        from palate.downstream.reach._sketch import SketchedGradient

        policy, temperature = self.policy.in_float32(), self.settings.drawing.temperature
        if self.settings.sketch is None:
            return PolicyGradient(policy, texts, temperature)
        return SketchedGradient(policy, texts, temperature, self.settings.sketch)

    def _tell(self, what: str, more: float, sources: Sequence[Source]) -> None:
        """All stages before this one are done."""
        rated = len(self.items) * (2 + 2 * len(self.settings.reward_models))
        done = sum(len(self.writer.keys(ledger)) for ledger in (SAMPLES, RATINGS, GRADES, SLOPES))
        self.progress(what, int(done + more), rated + len(sources) * len(self.items))

    def _counted(self) -> list[int]:
        """Items with samples, of whose user the own view shows something."""
        samples, views = self.writer.lines(SAMPLES), self.writer.lines(VIEWS)
        name, own = self.settings.policy_view.name, self.settings.view.name
        return [
            place
            for place, item in enumerate(self.items)
            if samples[name, item.id].failed is None and views[own, item.id, 0].shows
        ]

    def _missing(self, source: Source, counted: Sequence[int]) -> bool:
        return any((*source, self.items[place].id) not in self.writer.keys(SLOPES) for place in counted)

    def _read(self, counted: Sequence[int]) -> tuple[list[ReadText], dict[tuple[int, int], int]]:
        """The texts of these items as tokens, and where each item's own stand."""
        from palate.downstream.reach._gradient import ReadText

        spec, texts, places = self.settings.policy_view, list[ReadText](), dict[tuple[int, int], int]()
        own = [self.setup.items[place] for place in counted]
        for place, item, view in zip(counted, own, self.setup.builder.build(spec, own), strict=True):
            assert isinstance(view, View)  # what cannot be shown was not sampled
            line = self.writer.lines(SAMPLES)[spec.name, item.id]
            request, _, _ = write_request(self.policy, item, view, self.settings.drawing, self.settings.seed)
            group = self.policy.answers(request.turns, line.texts)
            for number, response in enumerate(group.continuations):
                cut = number in line.unfinished and response[-1:] == [self.policy.chat.end]
                tokens = list(response[:-1] if cut else response)
                if tokens:
                    places[place, number] = len(texts)
                    texts.append(ReadText(place, group.prefix, tokens))
        return texts, places

    def _scores(self, source: Source, counted: Sequence[int]) -> Floats:
        """(items, texts); nan where there is no score, and for items that do not count."""
        name, samples = self.settings.policy_view.name, self.settings.drawing.samples
        ids: list[str | None] = [None] * len(self.items)
        for place in counted:
            ids[place] = self.items[place].id
        rm, view = source
        if rm is None:
            return grade_rows(self.writer.lines(GRADES), name, ids, samples)
        return rating_rows(self.writer.lines(RATINGS), name, rm, view or "", ids, samples)

    def _add(
        self,
        source: Source,
        side: int,
        counted: Sequence[int],
        gradient: PolicyGradient | SketchedGradient,
        places: dict[tuple[int, int], int],
        paid: Floats,
        sources: Sequence[Source],
    ) -> None:
        """The gradient of the other half, read on this one; all of its lines at once."""
        mine = [item for item in counted if self.half[item] == side]
        if all((*source, self.items[item].id) in self.writer.keys(SLOPES) for item in mine):
            return
        rm, view = source
        who = "the critic's gradient" if rm is None else f"the gradient of {rm}, seeing {view}"
        known = len([item for item in mine if (*source, self.items[item].id) in self.writer.keys(SLOPES)])

        def tell(part: float) -> None:
            self._tell(who, part * (len(mine) - known), sources)

        tell(0.0)
        from_texts = [key for key in places if self.half[key[0]] != side and not np.isnan(paid[key])]
        on_texts = [key for key in places if self.half[key[0]] == side]
        found = gradient.slopes(
            [places[key] for key in from_texts],
            np.array([paid[key] for key in from_texts]),
            [places[key] for key in on_texts],
            tell,
        )
        slopes = dict(zip(on_texts, found.tolist(), strict=True))
        self.writer.add(
            SLOPES,
            [
                SlopeLine(
                    policy_view=self.settings.policy_view.name,
                    item=self.items[item].id,
                    half=side,
                    slopes=tuple(slopes.get((item, number)) for number in range(self.settings.drawing.samples)),
                    rm=rm,
                    view=view,
                )
                for item in mine
            ],
        )


LEFT = (
    "the slopes of other people in {path} are along gradients that this user's ratings were part of; they hold no "
    "text, score or id of theirs. Delete the folder to be sure."
)


class Reach(Experiment[ReachSettings, ReachSummary]):
    """How far a policy could follow each reward, and what that would bring people who gave none of the gradient."""

    kind = "reach"
    command = "palate reach"
    settings = ReachSettings

    def ledgers(self, settings: ReachSettings) -> Sequence[Ledger[Any]]:
        """Prompts, what was shown of their users, samples, ratings, grades and slopes."""
        return LEDGERS

    def summarise(self, run: Run[ReachSettings], reading: Reading = DEFAULT_READING) -> ReachSummary:
        """Every number from the raw ratings, grades and slopes."""
        return summarise_reach(run)

    def document(self, run: Run[ReachSettings], summary: ReachSummary, *, users: bool = True) -> Document:
        """Reach and what it is made of, and every prompt with its samples."""
        return reach_document(run, summary, users=users)

    def left_after_forgetting(self, run: Run[ReachSettings]) -> list[str]:
        """Gradients are sums over people."""
        return [LEFT.format(path=run.folder)]


REACH = Reach()
