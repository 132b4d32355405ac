"""`palate train`: from choices of real people to reward models that know them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts.types import NonNegativeInt

from palate.cli._options import GeneralOptions, LoggedRunOptions, Many
from palate.records import printable

if TYPE_CHECKING:
    from palate.evaluation import Summary
    from palate.personal import CurvePoint

RUN, GENERAL = LoggedRunOptions(), GeneralOptions()


def train(
    benchmark: str,
    /,
    *,
    method: Many = None,
    features: str = "minilm+traits",
    base: str = "smollm2",
    protocol: str = "seen",
    cold_start: str | None = None,
    users_curve: str | None = None,
    view: Many = None,
    rm: Many = None,
    retriever: str = "random",
    folds: int = 5,
    epsilon: str | None = None,
    delta: float = 1e-5,
    noise_seed: NonNegativeInt | None = None,
    general: GeneralOptions = GENERAL,
    run: LoggedRunOptions = RUN,
) -> None:
    """Train reward models that know the user, and measure them on what they were not trained on.

    Every model is trained on one side of each split and rates the other. A personal model counts by what knowing
    the person adds: over the same model without the person, and over the same model with strangers. The impersonal
    model stands first, to show whether it is a good model at all. Then each is trained on everything and kept in the
    run folder, under `models`: use it as `--rm personal:FOLDER`. Run the same command again to resume.

    Parameters
    ----------
    benchmark
        A name that `palate data list` shows, or the path of a folder or file of your own.
    method
        How a model knows the user, such as `per-user` or `history-attention`; may be repeated. `all` is every one
        but `lora` and `user-tokens`, which tune a language model.
    features
        What a model reads of a response: `minilm`, `traits`, `smollm2`, any encoder or causal language model,
        `position`, joined by `+`.
    base
        The language model that `lora` and `user-tokens` tune: `smollm2`, a name on the hub or a folder.
    protocol
        `seen` (users of the training data, later items), `unseen` (users never trained on),
        `leave-out:category` or `leave-out:FIELD` (each value of a demographic field in turn).
    cold_start
        Measure accuracy after a new user has made this many judgements, such as `0,1,2,4,8,16`.
    users_curve
        Train also on this many users only, such as `10,20,40`, and measure on the same held-out users.
    view
        What a model may see of the test users; may be repeated [default: what the protocol calls for].
    rm
        Any other reward model to rate the same items; may be repeated.
    retriever
        Which judgements to show when a view shows only some: `random`, `recent`, `bm25`, `minilm`.
    folds
        Number of folds that users and items are split into.
    epsilon
        Train the shared part with user-level differential privacy at this epsilon, such as `3`; several, such as
        `0.5,1,2,4,8,inf`, show what privacy costs. For `bradley-terry` and `per-user` only; then only private models
        are kept.
    delta
        The probability that epsilon may be exceeded; must be below 1 / number of users.
    noise_seed
        Draw the noise from a seed, so that a figure can be reproduced. Such models are not private.
    """
    from palate.cli._show import measure_and_show, show_general
    from palate.personal import (
        METHODS,
        TUNED,
        epsilons,
        findings_on_models,
        personal_spec,
        privacy_curve,
        private_specs,
    )
    from palate.personal import train as measure

    methods = method or ["per-user"]
    asked = epsilons(epsilon) if epsilon else []
    named = [name for name in METHODS if name not in TUNED] if "all" in methods else methods
    summary = measure_and_show(
        run,
        measure,
        benchmark,
        private_specs(named, asked, delta, noise_seed) if asked else named,
        reward_models=rm or (),
        features=features,
        base=base,
        protocol=protocol,
        views=view,
        cold_start=numbers("--cold-start", cold_start) if cold_start else None,
        users_curve=numbers("--users-curve", users_curve) if users_curve else (),
        folds=folds,
        retriever=retriever,
    )
    assert summary is not None  # training has no dry run
    if asked:
        _curve(summary, privacy_curve(summary, named, asked, delta, noise_seed), show=not run.json)
    models = Path(summary.run) / "models"
    trained_with = {Path(name).name: name for name in named}
    kept = [
        personal_spec(folder, trained_with.get(folder.name, folder.name))
        for folder in sorted(models.iterdir())
        if (folder / "model.json").is_file()
    ]
    show_general(general, run, summary.run, benchmark, kept)
    if not run.json:
        for finding in findings_on_models(models):
            print(printable(f"{finding.severity}: {finding.sentence}"))  # noqa: T201
        print(printable(f"Models: {models}"))  # noqa: T201


def numbers(option: str, text: str) -> list[int]:
    """Whole numbers with commas between them."""
    from palate.records import PalateError

    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise PalateError(f"{option} takes whole numbers such as 0,1,2,4,8; {text!r} was given")
    return [int(part) for part in parts]


def _curve(summary: Summary, points: list[CurvePoint], *, show: bool) -> None:
    """The table of what privacy costs, and its picture in the run folder."""
    from rich.table import Table

    from palate.personal import curve_svg, spent_by_models
    from palate.report import make_console, percent, percent_interval

    picture = Path(summary.run) / "privacy-curve.svg"
    picture.write_text(curve_svg(points, f"Accuracy against epsilon on {summary.benchmark}"), encoding="utf-8")
    if not show:
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("method", "view", "epsilon", "accuracy", "95% interval over users"):
        table.add_column(column, justify="right" if column in ("epsilon", "accuracy") else "left")
    for point in points:
        epsilon = "no privacy" if point.epsilon == float("inf") else f"{point.epsilon:g}"
        table.add_row(
            point.method, point.view, epsilon, percent(point.accuracy), percent_interval(point.low, point.high)
        )
    console = make_console()
    console.print()
    console.print(table)
    console.print(f"Picture: {picture}", markup=False, soft_wrap=True)
    for name, spent in spent_by_models(Path(summary.run) / "models").items():
        secret = "" if spent.private else "; its noise came from a seed, so it is not private"
        console.print(f"{name}: spent epsilon {spent.epsilon:.3f} at delta {spent.delta:g}{secret}", markup=False)
