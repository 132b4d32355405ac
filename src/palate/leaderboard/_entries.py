"""One run as a board needs it: what each model earned on each item under each view, and what identifies it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.evaluation import (
    COSTS,
    EVALUATION,
    Calibration,
    Cost,
    RatedItem,
    Ratings,
    Settings,
    calibration_of,
    is_control,
)
from palate.leaderboard._chain import Chain, chain_of
from palate.records import PalateError, Rating
from palate.rewards import REWARD_MODELS
from palate.runs import ModelSettings, Run, kind_of, open_run
from palate.stats import Floats
from palate.views import ViewSpec

IMPORTED = "imported"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One model under one view, as its run has it."""

    credits: Floats
    """By item, in the order of the board: 1 right, 0 wrong, a share when tied, nan when unscored."""
    unscored: int
    calibration: Calibration | None


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A model of a run."""

    id: str
    label: str
    kind: str
    """`control`, `imported`, or the kind of reward model that its name begins with."""
    identity: dict[str, str]
    results: dict[str, Result]
    """By view."""
    cost: Cost | None

    @property
    def is_control(self) -> bool:
        """Whether it understands nothing, and only shows what is free."""
        return self.kind == "control"


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """How a run was made."""

    run: str
    benchmark: str
    version: str
    hash: str
    palate: str
    seed: int
    retriever: str
    retriever_fingerprint: str
    writer: str | None
    budget: str | None
    limit: int | None
    split: str | None
    environment: dict[str, str]


class BoardRun(NamedTuple):
    """What a board keeps of a run."""

    folder: Path
    facts: Facts
    views: list[ViewSpec]
    entries: list[Entry]
    empty: dict[str, NDArray[np.bool_]]
    """By view, the items that had nothing to show."""
    chain: Chain


class _Environment(msgspec.Struct):
    environment: dict[str, str]


def find_runs(folders: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """The evaluations among these folders and in them; and in words, what else was there and is left out."""
    found: list[Path] = []
    left_out: list[str] = []
    for folder in folders:
        if not folder.is_dir():
            raise PalateError(f"{folder} is not a folder. Give run folders, or folders that hold them, such as runs/")
        here = folder if (folder / "settings.json").is_file() else None
        inside = [here] if here else sorted(file.parent for file in folder.glob("*/settings.json"))
        if not inside:
            raise PalateError(f"{folder} holds no run: no folder in it has a settings.json")
        for run in inside:
            kind = kind_of(run)
            if kind == EVALUATION.kind:
                found.append(run)
            elif here:
                raise PalateError(
                    f"{run} is a run of another kind ({kind}); a board ranks runs of palate eval and train"
                )
            else:
                left_out.append(f"{run.name}: a run of another kind ({kind})")
    unique = list(dict.fromkeys(run.resolve() for run in found))
    if not unique:
        raise PalateError("there is no run of palate eval or palate train among these folders")
    return unique, left_out


def board_items(items: Iterable[RatedItem]) -> list[RatedItem]:
    """The items of a run in the order of a board, whatever could be learned of their users."""
    found = (item if item.known is None else msgspec.structs.replace(item, known=None) for item in items)
    return sorted(found, key=lambda item: item.id)


def items_digest(items: Sequence[RatedItem]) -> str:
    """The same for runs that rated the same items."""
    digest = hashlib.sha256()
    for item in items:
        digest.update(msgspec.json.encode(item, order="deterministic") + b"\n")
    return digest.hexdigest()


def read_entries(folder: Path) -> tuple[BoardRun, Ratings, list[RatedItem]]:
    """Read a run, checked line by line. Refused where it is not complete."""
    run = open_run(folder, EVALUATION)
    ratings = Ratings.of(run, whole=True)
    if ratings.missing:
        raise PalateError(
            f"{folder} is not complete: {ratings.missing:,} ratings are missing. Run the command that made it again, "
            "or leave it out"
        )
    items = board_items(ratings.items)
    place = {item.id: index for index, item in enumerate(items)}
    order = np.argsort([place[item.id] for item in ratings.items])
    costs = {cost.rm: cost for cost in run.read(COSTS)}
    names = [view.name for view in run.settings.views]
    entries = [
        Entry(
            id=_entry_id(run.settings.content_hash, model),
            label=model.label,
            kind=model_kind(model),
            identity=model.identity,
            results={name: _result(ratings, model.label, name, order) for name in names},
            cost=costs.get(model.label),
        )
        for model in run.settings.models
    ]
    empty = {name: ratings.empty(name)[order] for name in names}
    return BoardRun(folder, _facts(run), run.settings.views, entries, empty, chain_of(run)), ratings, items


def _result(ratings: Ratings, rm: str, view: str, order: NDArray[np.intp]) -> Result:
    credits = ratings.credits[rm, view][order]
    return Result(
        credits=credits,
        unscored=int(np.isnan(credits).sum()),
        calibration=calibration_of(ratings.tally(rm, view)),
    )


def rating_of(ratings: Ratings, rm: str, view: str, item: str, draw: int) -> Rating | None:
    """What a model said of an item."""
    return ratings.browsed[rm, view].get((item, draw))


def model_kind(model: ModelSettings) -> str:
    """What kind of reward model it is, by its name and by what identifies it.

    >>> model_kind(ModelSettings(label="overlap", identity={"spec": "overlap"}))
    'control'
    >>> model_kind(ModelSettings(label="strict", identity={"spec": "judge:smollm2,strict=yes"}))
    'judge'
    >>> model_kind(ModelSettings(label="mine", identity={"class": "mine.Mine"}))
    'other'
    """
    spec = model.identity.get("spec", "")
    head = spec.split(",")[0].split(":")[0].strip()
    if IMPORTED in model.identity:
        return IMPORTED
    if is_control(spec) or model.identity.get("class", "").startswith("palate.rewards._controls."):
        return "control"
    if head == "hf":
        return "classifier"
    return head if head in REWARD_MODELS else "other"


def _entry_id(content_hash: str, model: ModelSettings) -> str:
    """The same for the same model on the same benchmark, in whichever run."""
    text = msgspec.json.encode([content_hash, model.label, model.identity], order="deterministic")
    return hashlib.sha256(text).hexdigest()[:12]


def _facts(run: Run[Settings]) -> Facts:
    settings = run.settings
    settled: Any = msgspec.json.decode((run.folder / "settings.json").read_bytes(), type=_Environment)
    budget = settings.budget
    return Facts(
        run=run.folder.name,
        benchmark=settings.benchmark.name,
        version=settings.benchmark.version,
        hash=settings.hash,
        palate=settings.palate,
        seed=settings.seed,
        retriever=settings.retriever,
        retriever_fingerprint=settings.retriever_fingerprint,
        writer=settings.writer,
        budget=None if budget is None else msgspec.json.encode(budget).decode(),
        limit=settings.limit,
        split=settings.split,
        environment=settled.environment,
    )
