"""Train personal models and measure them honestly: fit on one side of every split, rate the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from palate import __version__
from palate.engine import at_work
from palate.evaluation import (
    COSTS,
    EVALUATION,
    RATINGS,
    RatedItem,
    Settings,
    Summary,
    rate_comparisons,
    rated_item,
)
from palate.personal._costs import measure_cost
from palate.personal._files import source_of
from palate.personal._folds import LATER, Fold, make_folds
from palate.personal._method import MethodSettings
from palate.personal._pairs import labelled
from palate.personal._recipe import Recipe, load_personal, parse_method
from palate.records import Benchmark, Comparison, PalateError, RewardModel, User, View
from palate.runs import (
    Build,
    Keys,
    LoadedModel,
    ModelSettings,
    Progress,
    Run,
    as_benchmark,
    begin_run,
    cautioned,
    json_lines,
    load_models,
    no_progress,
    ranks,
    seeded,
)
from palate.views import STRANGERS, History, Missing, ViewBuilder, ViewSpec, drawn, make_retriever, resolve_views

MOST_CHOICES = 5
"""How often settings are chosen for a method in one run."""
IMPERSONAL = "bradley-terry"
"""Stands first in every table: a personal model that is worse is a bad model, whatever knowing the person adds."""


class Trainee(NamedTuple):
    """One model to train in every fold."""

    settings: ModelSettings
    method: str
    users: int | None
    """How many of a fold's users it is trained on; None is all."""


def train(
    benchmark: str | Path | Benchmark,
    methods: Sequence[str] = ("per-user",),
    *,
    reward_models: Sequence[str | RewardModel] = (),
    features: str = "minilm+traits",
    base: str = "smollm2",
    protocol: str = "seen",
    views: Sequence[str] | None = None,
    cold_start: Sequence[int] | None = None,
    users_curve: Sequence[int] = (),
    folds: int = 5,
    retriever: str = "random",
    strangers: int = STRANGERS,
    seed: int = 0,
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    progress: Progress | None = None,
    keep_models: bool = True,
) -> Summary:
    """Measure personal models on users or items that they were not trained on, then train each on everything.

    The run folder is like that of `evaluate`, with the finished models in `models/`. The impersonal model is
    always there. Reward models of other kinds are rated on the same items under the same views. With `users_curve`,
    every method is also trained on only that many of the users, and asked about the same others. Call it again to
    resume.
    """
    benchmark = as_benchmark(benchmark, data_dir)
    if (cold_start is not None or users_curve) and protocol == "seen":
        protocol = "unseen"  # both curves are about users the model has never met
    methods = list(dict.fromkeys([IMPERSONAL, *methods]))
    if len({Path(name).name for name in methods}) < len(methods):
        raise PalateError(f"two methods would be kept under one name: {', '.join(methods)}")
    private = [name for name in methods if parse_method(name)[1]]
    split = make_folds(benchmark, protocol, folds=folds, seed=seed)
    history = History(benchmark)
    if cold_start:
        enough = (_with_enough(fold, benchmark.users, max(cold_start), history) for fold in split)
        split = [fold for fold in enough if fold.test]
        if not split:
            raise PalateError(
                f"no item of {benchmark.card.name} has {max(cold_start)} judgements of its user to show, made before "
                "it and sharing no text with it; ask for fewer"
            )
    _check_curve(users_curve, protocol, min(len(_drawn_users(fold, seed)) for fold in split))
    specs = resolve_views(views or _views(benchmark, protocol, cold_start), strangers=strangers)
    others = cautioned(load_models(reward_models) if reward_models else [], specs, benchmark, _asked(split))
    recipe = Recipe(features=features, base=base, seed=seed)
    how = {"protocol": protocol, "folds": str(folds), "source": f"palate {__version__}"}
    trainees = _trainees(methods, users_curve, recipe, how)
    settings = Settings(
        benchmark=benchmark.card,
        content_hash=benchmark.content_hash,
        models=[*(one.settings for one in trainees), *(other.settings for other in others)],
        views=specs,
        retriever=retriever,
        retriever_fingerprint=make_retriever(retriever, seed=seed).fingerprint if any(map(ranks, specs)) else "",
        writer=None,
        budget=None,
        limit=None,
        seed=seed,
        baseline=IMPERSONAL,
        split=_described(benchmark, split, protocol, cold_start),
    )
    run = begin_run(
        Path(out),
        EVALUATION,
        settings,
        {"items.jsonl": lambda: json_lines(item for fold in split for item in _items(fold, benchmark, history))},
    )
    report = progress or no_progress
    total = len(settings.models) * len(drawn(specs)) * sum(len(fold.test) for fold in split)
    with run.writing() as writer:
        done = writer.keys(RATINGS)
        for group in _groups(split):
            chosen: dict[str, MethodSettings | None] = {}
            for fold in group:
                build = _fold_views(fold, benchmark, retriever, seed)
                tell = partial(_tell, report, f"fold {fold.name}", done, total)
                rate = partial(
                    rate_comparisons, writer, views=specs, items=fold.test, build=build, seed=seed, tell=tell
                )
                for trainee in trainees:
                    label = trainee.settings.label
                    if not _is_pending(label, specs, fold, done):
                        continue
                    if label not in chosen:
                        report(f"choosing settings of {label}", len(done), total)
                        with at_work("training", label):
                            chosen[label] = recipe.choose(
                                trainee.method, [_part(one, trainee.users, seed) for one in group]
                            )
                    tell(f"training {label}")
                    part = _part(fold, trainee.users, seed)
                    # The view `user` may be asked for. This model is not kept, and so what it remembers is not either.
                    with at_work("training", label):
                        model = recipe.fit(
                            trainee.method, part.train, part.trained_users, chosen[label], remember=True, report=tell
                        )
                    rate(models=[LoadedModel(trainee.settings, model)])
                for other in others:
                    rate(models=[other])
    if keep_models:
        # Where privacy was asked for, no other model is left lying about.
        _keep_models(run, private or methods, recipe, benchmark, lambda what: report(what, total, total))
    report("done", total, total)
    return EVALUATION.summarise(run)


def _trainees(
    methods: Sequence[str], users_curve: Sequence[int], recipe: Recipe, how: Mapping[str, str]
) -> list[Trainee]:
    """Every method on all users, and on as many as each point of the curve has."""
    return [
        Trainee(
            ModelSettings(
                label=name if users is None else f"{name},users={users}",
                identity={**recipe.identity(name), **how, **({} if users is None else {"users": str(users)})},
            ),
            name,
            users,
        )
        for name in methods
        for users in (None, *sorted(set(users_curve)))
    ]


def _keep_models(
    run: Run[Settings], methods: Sequence[str], recipe: Recipe, benchmark: Benchmark, tell: Callable[[str], None]
) -> None:
    """Train each method on everything, keep the model, and measure what a user costs it."""
    for name in methods:
        finished = run.folder / "models" / Path(name).name
        if not (finished / "model.json").exists():
            tell(f"training {name} on everything")
            model = recipe.fit(
                name, benchmark.comparisons, benchmark.users, report=lambda what: tell(f"{what}, everything")
            )
            model.trained_on = [source_of(benchmark, private=parse_method(name)[1] is not None)]
            model.save(finished)
        with run.writing() as writer:
            if name not in writer.keys(COSTS):
                tell(f"measuring what a user costs {name}")
                writer.add(
                    COSTS, [measure_cost(name, load_personal(finished, method=parse_method(name)[0]), benchmark)]
                )


def _check_curve(users_curve: Sequence[int], protocol: str, most: int) -> None:
    """Refuse numbers of users that no fold has, and a protocol that asks about users it was trained on."""
    if users_curve and protocol == "leave-out:category":
        raise PalateError(
            "a curve over users is about users never trained on, and leave-out:category trains on those it asks; "
            "use unseen or leave-out:FIELD"
        )
    if wrong := [count for count in users_curve if not 2 <= count <= most]:
        raise PalateError(
            f"a curve over users is a list of numbers from 2 to {most}, the users that every fold has to train on; "
            f"{wrong[0]} was given"
        )


def _drawn_users(fold: Fold, seed: int) -> list[str]:
    """The users who train a fold, in an order by seed in which two users stand alike in every fold."""
    own = [user for user, choices in labelled(fold.train, fold.trained_users).items() if choices]
    return sorted(own, key=lambda user: (seeded(seed, user), user))


def _part(fold: Fold, users: int | None, seed: int) -> Fold:
    """The fold with only that many of its users to train on, nested in larger numbers; all of them without a number."""
    if users is None:
        return fold
    kept = set(_drawn_users(fold, seed)[:users])
    return msgspec.structs.replace(
        fold,
        train=tuple(item for item in fold.train if item.user_id in kept),
        trained_users={name: user for name, user in fold.trained_users.items() if name in kept},
    )


def _groups(split: Sequence[Fold]) -> list[Sequence[Fold]]:
    """Folds that share one choice of settings: each its own where they are few, since choosing costs most of the time.

    What is chosen for a group is chosen on what none of its folds holds out, so no test item has a say in it.
    """
    size = -(-len(split) // MOST_CHOICES)
    return [split[start : start + size] for start in range(0, len(split), size)]


def _tell(report: Progress, where: str, done: Keys, total: int, what: str, more: float = 0.0) -> None:
    """Report what is being done and where, with how much is rated."""
    report(f"{what}, {where}", len(done) + more, total)


def _is_pending(label: str, specs: Sequence[ViewSpec], fold: Fold, done: Keys) -> bool:
    """Whether a model has anything left to rate in a fold."""
    return any((label, spec.name, item.id, draw) not in done for spec, draw in drawn(specs) for item in fold.test)


def _fold_views(fold: Fold, benchmark: Benchmark, retriever: str, seed: int) -> Build[Comparison]:
    """Builds the views of a fold's test items, once for all models."""
    test = tuple(fold.test)
    held = msgspec.structs.replace(benchmark, comparisons=test, completions=())
    known = {user: len(own) for user, own in labelled(fold.train, fold.trained_users).items()}
    builder = ViewBuilder(held, retriever=retriever, seed=seed, whole=benchmark, known=known)
    views: dict[tuple[str, int], dict[str, View | Missing]] = {}

    def build(spec: ViewSpec, items: Sequence[Comparison], draw: int = 0) -> list[View | Missing]:
        if (spec.name, draw) not in views:
            built = builder.build(spec, test, draw)
            views[spec.name, draw] = dict(zip((item.id for item in test), built, strict=True))
        return [views[spec.name, draw][item.id] for item in items]

    return build


def _items(fold: Fold, benchmark: Benchmark, history: History) -> list[RatedItem]:
    choices = labelled(fold.train, fold.trained_users)

    def known(item: Comparison) -> int:
        if item.user_id in fold.trained_users:
            return len(choices[item.user_id])
        return len(history.judgements(benchmark.users[item.user_id], item).events)

    return [msgspec.structs.replace(rated_item(item, benchmark), known=known(item)) for item in fold.test]


def _with_enough(fold: Fold, users: Mapping[str, User], most: int, history: History) -> Fold:
    """The items before which their user made as many judgements as the curve shows at its end.

    Every step of the curve is then about the same items.
    """
    test = (item for item in fold.test if len(history.judgements(users[item.user_id], item).events) >= most)
    return msgspec.structs.replace(fold, test=tuple(test))


def _asked(split: Sequence[Fold]) -> list[Comparison]:
    return [item for fold in split for item in fold.test]


def _described(benchmark: Benchmark, split: Sequence[Fold], protocol: str, cold_start: Sequence[int] | None) -> str:
    """How many choices there were, how many are asked about and trained on, and why not all."""
    rows, asked = len(benchmark.comparisons), sum(len(fold.test) for fold in split)
    every = sum(map(len, labelled(benchmark.comparisons, benchmark.users).values()))
    trained = [sum(map(len, labelled(fold.train, fold.trained_users).values())) for fold in split]
    low, high = min(trained), max(trained)
    who = {
        "seen": f"the latest {LATER:.0%} of each user's, where a fold has something to train on",
        "leave-out:category": "of categories that the fold was not trained on",
    }.get(protocol, "of users that the fold was not trained on")
    if cold_start:
        who += f", with {max(cold_start)} earlier judgements to show"
    elif protocol not in ("seen", "leave-out:category") and asked < rows:
        who += "; of what several users judged, each fold asks a share"
    not_on = "share a text, group or twin with what it asks"
    not_on += ", or did not come before all of it from the same user" if protocol == "seen" else ""
    return (
        f"Of {rows:,} items of {len(benchmark.users):,} users"
        + (f" with {every - rows:,} more choices in their histories" if every > rows else "")
        + f", {asked:,} are asked about: {who}. Each of {len(split)} folds trains on "
        + (f"{low:,}" if low == high else f"{low:,} to {high:,}")
        + f" choices, and on none that {not_on}."
    )


def _views(benchmark: Benchmark, protocol: str, cold_start: Sequence[int] | None) -> list[str]:
    """What a personal model is measured with: nobody known, the user, and a stranger in the user's place."""
    if cold_start is not None:
        counts = sorted(set(cold_start) - {0})
        if not counts or min(cold_start) < 0:
            raise PalateError(
                f"a cold start is a list of numbers of judgements, such as 0,1,2,4,8; {cold_start} was given"
            )
        return ["none", *(f"judgements:{count}" for count in counts), f"swapped:judgements:{counts[-1]}"]
    if protocol in ("seen", "leave-out:category"):
        return ["none", "user", "swapped"]
    users = benchmark.users.values()
    history = ["judgements:16"] if any(user.judgements for user in users) else []
    history += ["posts:8"] if any(user.posts for user in users) else []
    history += ["demographics"] if any(user.demographics for user in users) else []
    return ["none", "+".join(history), "swapped"] if history else ["none"]
