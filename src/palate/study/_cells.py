"""The cells of a plan: each is one run that another command could have made, or one model that is trained."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from palate.data import load_benchmark, pairs_from_completions
from palate.downstream import BEST_OF_N, GUIDE, PPO, REACH, best_of_n, check_sketch, guide, make_critic, ppo, reach
from palate.engine import in_process, open_by_spec
from palate.evaluation import EVALUATION, evaluate
from palate.personal import Recipe, describe_model, parse_method, personal_spec
from palate.records import Benchmark, PalateError
from palate.rewards import load_reward_model
from palate.runs import Experiment, Progress, file_name, prompts, remove_drafts, sample_items, set_up
from palate.study._plan import (
    IN_CONTEXT,
    TRAIN,
    BestOfN,
    Entry,
    Guide,
    Measure,
    Models,
    Plan,
    Ppo,
    Predictor,
    Reach,
    Trained,
)
from palate.views import parse_view

TRAINED_BYTES = 20
"""For each parameter that is trained: itself, its reference, its gradient and Adam's two moments, in float32."""
MODELS = "models"
"""The folder of a study in which trained models lie."""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to run."""

    measure: str
    """The measure that it is part of; empty for a model that is trained."""
    model: str
    view: str = ""
    """Empty where one run has all views of the model."""
    seed: int | None = None

    @property
    def name(self) -> str:
        """As ledgers and messages call it."""
        seed = "" if self.seed is None else f"seed {self.seed}"
        return " | ".join(filter(None, (self.measure or TRAIN, self.model, self.view, seed)))


def cells_of(plan: Plan) -> list[Cell]:
    """All of them; models are trained before anything that needs them, and samples are drawn by the first that does."""
    cells = [Cell(measure="", model=model.name) for model in plan.train]
    for measure in plan.measures:
        if isinstance(measure, BestOfN) and measure.in_context:
            cells.append(Cell(measure=measure.name, model=IN_CONTEXT))
        if isinstance(measure, Ppo):
            # Seed by seed, so that whatever is there when time runs out compares all rewards.
            cells += [
                Cell(measure=measure.name, model=model.label, view=view, seed=seed)
                for seed in measure.seeds
                for model in plan.models_of(measure)
                for view in model.views
            ]
            continue
        for model in plan.models_of(measure):
            if isinstance(measure, Reach):
                profiles = [view for view in model.views if parse_view(view).is_profile]
                cells += [Cell(measure=measure.name, model=model.label, view=view) for view in profiles]
            else:
                cells.append(Cell(measure=measure.name, model=model.label))
    return cells


def shown_on(measure: Measure, view: str) -> str:
    """What stands for an entry's view on this measure: the benchmark's own profile, where it names one."""
    spec = parse_view(view)
    if not isinstance(measure, Predictor) or measure.view is None or not spec.pieces or spec.shows("oracle"):
        return view
    return measure.view if spec.whose == "own" else f"{spec.whose}:{measure.view}"


def views_of(measure: Measure, model: Models | Trained) -> list[str]:
    """The views of a model's run: its own and, on a benchmark, what tells whether they are personal."""
    own = [shown_on(measure, view) for view in model.views]
    if isinstance(measure, Predictor):
        profiles = [view for view in own if parse_view(view).is_profile]
        own = ["none", *own, *(f"swapped:{view}" for view in profiles)]
    return list(dict.fromkeys(own))


class Benchmarks:
    """The benchmarks of a plan, each read once."""

    def __init__(self, data: Path | None) -> None:
        self._data = data
        self._read: dict[tuple[str, bool], Benchmark] = {}

    def named(self, name: str) -> Benchmark:
        """By name or path."""
        if (name, False) not in self._read:
            self._read[name, False] = load_benchmark(name, data_dir=self._data)
        return self._read[name, False]

    def of(self, measure: Measure) -> Benchmark:
        """That of a measure. Reward models are scored on comparisons: where there is only what users wrote, on that
        beside what others wrote for the same prompt."""
        benchmark = self.named(measure.benchmark)
        if benchmark.comparisons or not isinstance(measure, Predictor):
            return benchmark
        if (measure.benchmark, True) not in self._read:
            self._read[measure.benchmark, True] = pairs_from_completions(benchmark)
        return self._read[measure.benchmark, True]

    def learned_from(self, model: Trained) -> Benchmark:
        """What a model is trained on: all users, or the first ones by name."""
        benchmark = self.named(model.data)
        if not benchmark.comparisons:
            raise PalateError(f"{model.data} has no comparisons to learn from")
        if model.users is None:
            return benchmark
        if not 1 <= model.users <= len(benchmark.users):
            raise PalateError(
                f"users is a number from 1 to the {len(benchmark.users)} that {model.data} has; {model.users} was given"
            )
        names = sorted(benchmark.users)[: model.users]
        return msgspec.structs.replace(
            benchmark,
            comparisons=tuple(item for item in benchmark.comparisons if item.user_id in names),
            completions=tuple(item for item in benchmark.completions if item.user_id in names),
            users={user: benchmark.users[user] for user in names},
        )


class Workplace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a study runs."""

    folder: Path
    """The study's own."""
    out: Path
    data: Path | None = None


def run_cell(plan: Plan, cell: Cell, place: Workplace, benchmarks: Benchmarks, progress: Progress) -> str:
    """Make the cell's run, or go on with it; the name of its folder comes back."""
    if not cell.measure:
        return _train(plan, cell.model, place, benchmarks, progress)
    measure = next(one for one in plan.measures if one.name == cell.measure)
    benchmark = benchmarks.of(measure)
    common: dict[str, Any] = {
        "retriever": plan.retriever,
        "writer": plan.writer,
        "limit": measure.limit,
        "seed": plan.seed if cell.seed is None else cell.seed,
        "out": place.out,
        "progress": progress,
    }
    if cell.model == IN_CONTEXT and isinstance(measure, BestOfN):
        shown = [measure.policy_view, *measure.in_context]
        made: Any = best_of_n(
            benchmark, measure.policy, ["random"], measure.critic, views=["none"], policy_views=shown,
            drawing=measure.drawing, **common,
        )  # fmt: skip
        return Path(made.run).name
    model = next(one for one in plan.zoo if one.label == cell.model)
    rm = model.rm if isinstance(model, Models) else personal_spec(model_folder(place, model.name), model.method)
    views = views_of(measure, model)
    if isinstance(measure, Predictor):
        made = evaluate(benchmark, [rm], views, **common)
    elif isinstance(measure, BestOfN):
        made = best_of_n(
            benchmark, measure.policy, [rm], measure.critic, views=views, policy_views=[measure.policy_view],
            drawing=measure.drawing, **common,
        )  # fmt: skip
    elif isinstance(measure, Guide):
        made = guide(
            benchmark, measure.policy, [rm], measure.critic, views=views, policy_views=[measure.policy_view],
            guiding=measure.guiding, weights=[measure.weight], **common,
        )  # fmt: skip
    elif isinstance(measure, Reach):
        made = reach(
            benchmark, measure.policy, [rm], measure.critic, view=cell.view, policy_view=measure.policy_view,
            drawing=measure.drawing, sketch=measure.sketch, **common,
        )  # fmt: skip
    else:
        made = ppo(
            benchmark, measure.policy, rm, measure.critic, view=cell.view, policy_view=measure.policy_view,
            training=measure.options, keep_policy=measure.keep_policies, **common,
        )  # fmt: skip
    return Path(made.run).name


def model_folder(place: Workplace, name: str) -> Path:
    """Where a trained model of the study lies."""
    return place.folder / MODELS / file_name(name)


EXPERIMENT_OF: dict[type[Measure], Experiment[Any, Any]] = {
    Predictor: EVALUATION,
    BestOfN: BEST_OF_N,
    Guide: GUIDE,
    Ppo: PPO,
    Reach: REACH,
}


def _train(plan: Plan, name: str, place: Workplace, benchmarks: Benchmarks, progress: Progress) -> str:
    model = next(one for one in plan.train if one.name == name)
    folder = model_folder(place, name)
    if not (folder / "model.json").exists():
        progress(f"training {name}", 0, 1)
        remove_drafts(folder)
        data = benchmarks.learned_from(model)
        recipe = Recipe(features=model.features, base=model.base, seed=plan.seed)
        recipe.fit(model.method, data.comparisons, data.users).save(folder)
    describe_model(folder)
    return folder.relative_to(place.folder.parent).as_posix()


def faults(plan: Plan, benchmarks: Benchmarks) -> Iterator[str]:
    """Everything that would stop a cell and can be known before: names, files, views, critics, completions, memory."""
    for model in plan.models:
        if told := _fault(load_reward_model, model.rm):
            yield f"models ({model.label}): {told}"
        yield from (f"models ({model.label}): {told}" for told in _wrong_views(model.views))
    for trained in plan.train:
        recipe = Recipe(features=trained.features, base=trained.base, seed=plan.seed)
        wrong = _fault(parse_method, trained.method)
        found = (
            wrong or _fault(recipe.identity, trained.method.partition(",")[0]),
            *_wrong_views(trained.views),
            _fault(benchmarks.learned_from, trained),
        )
        yield from (f"train ({trained.name}): {told}" for told in found if told)
    for measure in plan.measures:
        if told := _fault(benchmarks.of, measure):
            yield f"{measure.name}: {told}"
            continue
        yield from (f"{measure.name}: {told}" for told in _faults_of(plan, measure, benchmarks.of(measure)))


def _faults_of(plan: Plan, measure: Measure, benchmark: Benchmark) -> Iterator[str]:
    of_measure = [measure.view] if isinstance(measure, Predictor) else [measure.policy_view]
    of_measure += measure.in_context if isinstance(measure, BestOfN) else []
    own = [view for view in of_measure if view is not None]
    yield from (wrong := _wrong_views(own))
    if not (isinstance(measure, Predictor) and wrong):
        models = [model for model in plan.models_of(measure) if not _wrong_views(model.views)]
        own += [view for model in models for view in views_of(measure, model)]
    sound = [view for view in dict.fromkeys(own) if not _wrong_views([view])]
    given: dict[str, Any] = {"retriever": plan.retriever, "writer": plan.writer, "seed": plan.seed}
    yield from filter(
        None,
        (_fault(set_up, benchmark, [], [parse_view(v)], budget=None, limit=None, **given) for v in sound),
    )
    if told := _fault(_items, measure, benchmark, plan.seed):
        yield told
    if isinstance(measure, Predictor):
        return
    if measure.critic is not None and (told := _fault(make_critic, measure.critic, benchmark)):
        yield told
    if isinstance(measure, Guide) and measure.critic is None and not benchmark.comparisons:
        yield f"{benchmark.card.name} has no comparisons for policy accuracy, and there is no critic"
    if isinstance(measure, Reach) and not any(
        parse_view(view).is_profile
        for model in plan.models_of(measure)
        for view in model.views
        if not _wrong_views([view])
    ):
        yield "no model sees a profile, without which there is no reach"
    if (told := _fault(_settings_of, measure)) or (told := _fault(_policy_fits, measure)):
        yield told


def _items(measure: Measure, benchmark: Benchmark, seed: int) -> None:
    """There are some, and the limit is one."""
    sample_items(benchmark.comparisons if isinstance(measure, Predictor) else prompts(benchmark), measure.limit, seed)


def _settings_of(measure: BestOfN | Guide | Ppo | Reach) -> None:
    """How the policy writes or learns is possible."""
    if isinstance(measure, Ppo):
        measure.options.check()
    elif isinstance(measure, Guide):
        measure.guiding.check()
        if not (measure.weight > 0 and math.isfinite(measure.weight)):
            raise PalateError(f"weight is a number above 0; {measure.weight:g} was given")
    else:
        measure.drawing.check()
    if isinstance(measure, Reach):
        check_sketch(measure.sketch)


def _policy_fits(measure: BestOfN | Guide | Ppo | Reach) -> None:
    """The policy is there, and so is the memory that it needs."""
    model = in_process(open_by_spec(measure.policy))
    if model is not None:
        trains = isinstance(measure, Ppo) and not measure.options.lora
        model.check_room(TRAINED_BYTES if trains else None)
    elif not isinstance(measure, BestOfN):
        raise PalateError(
            f"the policy {measure.policy} is behind a server, which tells neither all next tokens nor weights"
        )


def _wrong_views(views: Sequence[str]) -> list[str]:
    return [told for told in (_fault(parse_view, view) for view in views) if told]


def _fault(check: Any, *args: Any, **options: Any) -> str | None:
    """What is wrong, in words; nothing where the check passes."""
    try:
        check(*args, **options)
    except PalateError as error:
        return str(error)
    return None


def entries_of(plan: Plan, measure: Measure) -> list[Entry]:
    """The entries of a plan that a measure is about."""
    models = {model.label for model in plan.models_of(measure)}
    return [entry for entry in plan.entries if entry.model in models]
