"""Where the numbers of a run go beside its folder: Weights & Biases, MLflow, TensorBoard, or a logger of one's own.

Nothing about a single user is logged: no item, no profile, no id.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import msgspec

from palate.records import PalateError, Registry, describe_error
from palate.report import Columns
from palate.runs._experiment import RunSummary
from palate.runs._run import Run
from palate.runs._settings import settings_for_others

PROJECT = "palate"
_UNUSUAL = re.compile(r"[^\w .:/-]+")


class Logged(msgspec.Struct, frozen=True, kw_only=True):
    """What a logger is given of a run."""

    name: str
    """The folder's name, which is made of the settings: the same run is logged to the same place."""
    folder: Path
    settings: Mapping[str, Any]
    """As in settings.json, but for folders of this machine, of which the last part stays."""
    facts: Mapping[str, str]
    """The few settings by which runs are told apart."""
    numbers: Mapping[str, float]
    """By `model/view/column`, as in results.csv."""


class Logger(Protocol):
    """Made before the run starts, so that a missing package is said then; used when it has ended."""

    def log(self, logged: Logged) -> str:
        """Log the numbers of a run; where they are now, in words."""


def log_run(run: Run[Any], summary: RunSummary, loggers: Mapping[str, Logger]) -> list[str]:
    """Log the numbers of a run without its users; where each logger put them."""
    logged = Logged(
        name=run.folder.resolve().name,
        folder=run.folder,
        settings=settings_for_others(msgspec.to_builtins(run.settings)),
        facts={
            "kind": summary.kind,
            "benchmark": summary.benchmark,
            "benchmark_hash": summary.benchmark_hash,
            "items": str(summary.items),
            "users": str(summary.users),
            "seed": str(summary.seed),
        },
        numbers=named_numbers(run.experiment.without_users(summary).columns()),
    )
    places = []
    for name, logger in loggers.items():
        try:
            places.append(logger.log(logged))
        except PalateError:
            raise
        except Exception as error:
            raise PalateError(
                f"{name} took nothing: {describe_error(error)}. The run is kept in {run.folder}; "
                "run the same command again to log it."
            ) from error
    return places


def named_numbers(columns: Columns) -> dict[str, float]:
    """Each number of a table under the words that its row begins with.

    >>> named_numbers(Columns(names=["rm", "view", "n", "low"], rows=[("overlap", "posts:5", 40, None)]))
    {'overlap/posts:5/n': 40.0}
    """
    numeric = [any(isinstance(row[place], int | float) for row in columns.rows) for place in range(len(columns.names))]
    words = numeric.index(True) if True in numeric else len(numeric)
    numbers: dict[str, float] = {}
    for row in columns.rows:
        label = "/".join(_plain(str(cell)) for cell in row[:words] if cell is not None)
        for name, cell in zip(columns.names[words:], row[words:], strict=True):
            if isinstance(cell, int | float):
                numbers[f"{label}/{_plain(name)}"] = float(cell)
    return numbers


def _plain(text: str) -> str:
    """A name that every one of them takes; a slash would be taken for a level."""
    return _UNUSUAL.sub("_", text.replace("/", "_")) or "_"


def _require(package: str, name: str) -> None:
    """A folder of that name in the working directory is no package."""
    found = find_spec(package)
    if found is None or found.origin is None:
        raise PalateError(f"--log {name} needs {package}: pip install 'palate[{name}]'")


class WandbLogger:
    """Weights & Biases: one run with the settings as its configuration. WANDB_MODE=offline needs no network."""

    def __init__(self) -> None:
        _require("wandb", "wandb")

    def log(self, logged: Logged) -> str:
        """Log to the project that WANDB_PROJECT names, else to `palate`."""
        import wandb

        run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=logged.name.replace(":", "-")[-64:],
            name=logged.name,
            resume="allow",
            config={**logged.settings, **logged.facts},
            settings=wandb.Settings(silent=True, disable_git=True, save_code=False),
        )
        run.summary.update(dict(logged.numbers))
        place = run.url or run.dir
        run.finish()
        return f"Weights & Biases: {place}"


class MlflowLogger:
    """MLflow: one run with facts as parameters and the settings as an artefact."""

    def __init__(self) -> None:
        _require("mlflow", "mlflow")

    def log(self, logged: Logged) -> str:
        """Log to MLFLOW_TRACKING_URI and to MLFLOW_EXPERIMENT_NAME, else to `palate`."""
        import mlflow

        logging.getLogger("mlflow").setLevel(logging.WARNING)
        experiment = mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT))
        known = mlflow.MlflowClient().search_runs([experiment.experiment_id], f"tags.palate_run = '{logged.name}'")
        chosen = {"run_id": known[0].info.run_id} if known else {"run_name": logged.name}
        with mlflow.start_run(**chosen) as run:
            mlflow.set_tag("palate_run", logged.name)
            mlflow.log_params(dict(logged.facts))
            mlflow.log_metrics(dict(logged.numbers))
            mlflow.log_dict(dict(logged.settings), "settings.json")
        return f"MLflow: run {run.info.run_id} of {mlflow.get_tracking_uri()}"


class TensorboardLogger:
    """TensorBoard: an event file in the run folder. See it with `tensorboard --logdir runs`."""

    def __init__(self) -> None:
        _require("tensorboard", "tensorboard")

    def log(self, logged: Logged) -> str:
        """Replace the event file of the run."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        folder = logged.folder / "tensorboard"
        for old in folder.glob("events.out.tfevents.*"):
            old.unlink()
        writer = EventFileWriter(str(folder))
        values = [Summary.Value(tag=name, simple_value=number) for name, number in logged.numbers.items()]
        writer.add_event(Event(wall_time=time.time(), step=0, summary=Summary(value=values)))
        writer.close()
        return f"TensorBoard: {folder}"


LOGGERS: Registry[Callable[..., Logger]] = Registry(
    "logger",
    "palate.loggers",
    {
        "wandb": ("Weights & Biases.", WandbLogger),
        "mlflow": ("MLflow.", MlflowLogger),
        "tensorboard": ("TensorBoard event files in the run folder.", TensorboardLogger),
    },
    needs=("log",),
)


def make_loggers(names: Sequence[str]) -> dict[str, Logger]:
    """The loggers by name; one whose package is missing is refused."""
    return {name: LOGGERS.make(name) for name in names}
