"""A trained model on the disk, `model.json` and `model.safetensors` and no pickle; how users are taken out of it.

Nobody has to load a model's encoder to say what it holds of a user, to erase them, or to strip it for others.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from palate import __version__
from palate.data import is_short, text_key
from palate.personal._lora_classifier import ADAPTER
from palate.personal._private import Spent
from palate.records import Ask, Benchmark, Comparison, Completion, Judgement, PalateError, Post, came_before
from palate.report import Finding, count
from palate.runs import write_whole

if TYPE_CHECKING:
    import torch


FORMAT = 1
MOST_PAIRED = 32
"""Responses of a choice of which every two are known again; of more, only all together."""


class TrainedOn(msgspec.Struct, frozen=True):
    """Data from which a model knows its users by name."""

    name: str
    content_hash: str
    """Empty where the model is private: it would tell whoever has all of the data but one user who that was."""
    until: str | None
    """The date of the latest choice."""


class ModelFile(msgspec.Struct, frozen=True, kw_only=True):
    """`model.json`."""

    method: str
    settings: dict[str, object]
    features: str
    features_fingerprint: str
    users: list[str]
    """Whom the model knows by name, in the order of the states."""
    about: dict[str, object]
    seed: int
    chosen_by: float | None
    trained_on: list[TrainedOn] = []
    palate: str = __version__
    format: int = FORMAT


class _Format(msgspec.Struct):
    format: int
    palate: str = "an unknown version"


@dataclass(frozen=True, eq=False)
class ModelTensors:
    """`model.safetensors`, taken apart."""

    shared: dict[str, torch.Tensor]
    features: dict[str, np.ndarray]
    states: list[torch.Tensor]
    trained: list[int]


def write_model(folder: Path, kept: ModelFile, numbers: ModelTensors) -> Path:
    """Write both files; the JSON last, so that a folder with it is complete."""
    import torch
    from safetensors.torch import save

    tensors = {f"shared.{name}": tensor.contiguous() for name, tensor in numbers.shared.items()}
    tensors.update({name: torch.from_numpy(np.ascontiguousarray(rows)) for name, rows in numbers.features.items()})
    if numbers.states:
        tensors["users.states"] = torch.cat(numbers.states).contiguous()
        tensors["users.lengths"] = torch.tensor([len(state) for state in numbers.states])
    tensors["trained"] = torch.tensor(numbers.trained, dtype=torch.int64)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "model.safetensors", save(tensors))
        write_whole(folder / "model.json", msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")
    except OSError as error:
        raise PalateError(f"cannot write the model to {folder}: {error.strerror or error}") from error
    return folder


def read_model(folder: Path) -> tuple[ModelFile, ModelTensors]:
    """Read both files, or say what is wrong with them."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load

    description = folder / "model.json"
    if not description.is_file():
        raise PalateError(f"{folder} holds no trained model: it has no model.json. palate train makes one.")
    try:
        raw = description.read_bytes()
        found = msgspec.json.decode(raw, type=_Format)
        if found.format != FORMAT:
            raise PalateError(
                f"{description} has format {found.format}, made by palate {found.palate}; this palate "
                f"({__version__}) reads format {FORMAT}. Train the model again, or use the version that made it."
            )
        kept = msgspec.json.decode(raw, type=ModelFile)
        tensors = load((folder / "model.safetensors").read_bytes())
    except (msgspec.DecodeError, OSError, RecursionError, SafetensorError) as error:
        raise PalateError(f"the model in {folder} cannot be read: {error}") from error
    states: list[torch.Tensor] = []
    try:
        if "users.states" in tensors:
            states = list(torch.split(tensors["users.states"], tensors["users.lengths"].tolist()))
        trained: list[int] = tensors["trained"].tolist()
    except (LookupError, RuntimeError, TypeError) as error:
        raise PalateError(f"the model in {folder} is damaged ({error}). Copy it again, or train it again") from error
    if len(set(kept.users)) != len(kept.users):
        raise PalateError(f"the model in {folder} is damaged: it names a user twice. Copy it again, or train it again")
    if len(states) != len(kept.users):
        raise PalateError(f"the model in {folder} is damaged: {len(kept.users)} users, {len(states)} states")
    return kept, ModelTensors(
        shared={name.removeprefix("shared."): one for name, one in tensors.items() if name.startswith("shared.")},
        features={name: one.numpy() for name, one in tensors.items() if name.startswith("features.")},
        states=states,
        trained=trained,
    )


class ErasedFromModel(msgspec.Struct, frozen=True, kw_only=True):
    """What of a user a model held."""

    states: int
    marks: int
    method: str
    features: str


def erase_users(
    folder: Path, users: Collection[str], choices: Iterable[tuple[str, Sequence[str]]], *, write: bool = True
) -> ErasedFromModel:
    """Take out the users' names and states, and the marks of these choices of theirs. The shared part stays.

    A choice is a prompt and what was offered. Without `write`, only say what would be taken out.
    """
    if (broken := _broken_off(folder, users)) is not None:
        left, erased_before = broken
        if not write:
            return ErasedFromModel(states=erased_before, marks=0, method=left.method, features=left.features)
        write_whole(folder / "model.json", msgspec.json.format(msgspec.json.encode(left), indent=2) + b"\n")
    kept, tensors = read_model(folder)
    gone = {
        one
        for prompt, responses in choices
        for one in (
            _as_written(prompt, responses),
            *(m for user in ("", *users) for m in marks(prompt, responses, user)),
        )
    }
    trained = [one for one in tensors.trained if one not in gone]
    staying = [place for place, name in enumerate(kept.users) if name not in users]
    erased = ErasedFromModel(
        states=len(kept.users) - len(staying),
        marks=len(tensors.trained) - len(trained),
        method=kept.method,
        features=kept.features,
    )
    if write and (erased.states or erased.marks):
        left = msgspec.structs.replace(kept, users=[kept.users[place] for place in staying])
        states = [tensors.states[place] for place in staying]
        write_model(folder, left, replace(tensors, states=states, trained=trained))
    return erased


def describe_model(folder: Path) -> ModelFile:
    """`model.json`, or what is wrong with it."""
    try:
        return msgspec.json.decode((folder / "model.json").read_bytes(), type=ModelFile)
    except (OSError, msgspec.DecodeError, RecursionError):
        return read_model(folder)[0]


def spent_by_models(folder: Path) -> dict[str, Spent]:
    """What each private model of a run has spent, by its name."""
    found: dict[str, Spent] = {}
    for file in sorted(folder.glob("*/model.json")):
        told = describe_model(file.parent).about.get("privacy")
        if told is not None:
            found[file.parent.name] = msgspec.convert(told, Spent)
    return found


def findings_on_models(folder: Path) -> list[Finding]:
    """What the models of a run have to say of themselves, such as that one has collapsed."""
    return [
        msgspec.structs.replace(one, about=file.parent.name)
        for file in sorted(folder.glob("*/model.json"))
        for one in msgspec.convert(describe_model(file.parent).about.get("findings", []), list[Finding])
    ]


def count_marks(folder: Path) -> int:
    """How many choices the file says that it was trained on."""
    return len(read_model(folder)[1].trained)


def state_of(folder: Path, user: str) -> list[list[float]] | None:
    """The numbers that a model keeps of one user; None where it does not know them."""
    kept, tensors = read_model(folder)
    if user not in kept.users:
        return None
    state: list[list[float]] = tensors.states[kept.users.index(user)].tolist()
    return state


def count_points(folder: Path) -> int:
    """How many points the shared part has that are features of a training text, or the mean of those of a few."""
    from safetensors import SafetensorError, safe_open

    try:  # also where an erasure broke off between the two files
        with safe_open(str(folder / "model.safetensors"), "pt") as tensors:
            names = [name for name in tensors.keys() if name.split(".")[-1] == "points"]  # noqa: SIM118 - it is no dict
            return sum(int(tensors.get_slice(name).get_shape()[0]) for name in names)
    except (OSError, SafetensorError) as error:
        raise PalateError(f"the model in {folder} cannot be read: {error}") from error


def strip_model(folder: Path, out: Path) -> Path:
    """A copy to hand on: the shared part only, with no name, no state and no mark of what it was trained on."""
    if (out / "model.json").exists():
        raise PalateError(f"{out} holds a model already; name another folder")
    kept, tensors = read_model(folder)
    if (folder / ADAPTER).is_dir():
        shutil.copytree(folder / ADAPTER, out / ADAPTER, dirs_exist_ok=True)
    return write_model(
        out, msgspec.structs.replace(kept, users=[], trained_on=[]), replace(tensors, states=[], trained=[])
    )


def _broken_off(folder: Path, users: Collection[str]) -> tuple[ModelFile, int] | None:
    """What `model.json` should say, and how many states are gone, where an erasure broke off between the two files."""
    from safetensors import SafetensorError, safe_open

    description, numbers = folder / "model.json", folder / "model.safetensors"
    if not (description.is_file() and numbers.is_file()):
        return None
    try:
        kept = msgspec.json.decode(description.read_bytes(), type=ModelFile)
        with safe_open(str(numbers), "pt") as tensors:
            found = "users.lengths" in tensors.keys()  # noqa: SIM118 - it is no dict
            states = tensors.get_slice("users.lengths").get_shape()[0] if found else 0
    except (msgspec.DecodeError, OSError, RecursionError, SafetensorError):
        return None  # reading the model says what is wrong with it
    staying = [name for name in kept.users if name not in users]
    if not states == len(staying) < len(kept.users):
        return None
    return msgspec.structs.replace(kept, users=staying), len(kept.users) - len(staying)


def marks(prompt: str, responses: Sequence[str], user: str = "") -> set[int]:
    """Numbers by which a choice is known again: of its responses together, and of every two of them.

    They are the same whatever the order, spacing, case and punctuation. What was asked counts only where a response is
    short: whoever has learned which of two long texts is taken knows it whatever was asked. With `user`, the numbers
    are of what was learned of that user alone, one for each response: views leave out past choices that share one.
    """
    keys = sorted({text_key(response) for response in responses})
    asked = text_key(prompt) if any(map(is_short, keys)) else ""
    if user:
        return {_number(user, asked, key) for key in keys}
    few = keys if len(keys) <= MOST_PAIRED else []
    return {_number(user, asked, *some) for some in (keys, *combinations(few, 2))}


def source_of(benchmark: Benchmark, *, private: bool = False) -> TrainedOn:
    """What a model keeps of the data that it was trained on or taught from."""
    if private:
        return TrainedOn(benchmark.card.name, "", None)
    judged = (judgement for user in benchmark.users.values() for judgement in user.judgements)
    dates = (choice.date for choice in chain[Comparison | Judgement](benchmark.comparisons, judged) if choice.date)
    return TrainedOn(benchmark.card.name, benchmark.content_hash, max(dates, default=None))


def caution(
    model: str, trained_on: Sequence[TrainedOn], benchmark: Benchmark, items: Sequence[Comparison | Completion]
) -> str | None:
    """What to know where a model that calls up users by their ids is asked about these items; None where nothing."""
    if not trained_on:
        return None
    last = trained_on[-1]  # whoever it was taught last took the place of whoever had the same id before
    if (last.content_hash or last.name) in (benchmark.content_hash, benchmark.card.name):
        return None
    names = " and ".join(dict.fromkeys(one.name for one in trained_on))
    told = (
        f"{model}, user: the model was trained on other data ({names}), and takes every user for whoever had the same "
        "id there. If these are other people, its numbers say nothing."
    )
    until = max((one.until for one in trained_on if one.until), default=None)
    earlier = sum(not came_before(Post(id="", text="", date=until), item) for item in items if until and item.date)
    if earlier:
        told += (
            f" It has learned from choices up to {until}, and {count(earlier, 'item is', 'items are')} not later, so "
            "it may know what came afterwards."
        )
    return told


def is_trained_on(ask: Ask, trained: Collection[int]) -> bool:
    """Whether a model with these marks has learned from the choice that it is asked about."""
    found = marks(ask.prompt, ask.responses) | {_as_written(ask.prompt, ask.responses)}
    if ask.view.by_name and ask.view.user_id:
        found |= marks(ask.prompt, ask.responses, ask.view.user_id)
    return not found.isdisjoint(trained)


def _as_written(prompt: str, responses: Sequence[str]) -> int:
    """What models of older versions keep of a choice."""
    return _number(prompt, *sorted(responses))


def _number(*words: str) -> int:
    digest = hashlib.sha256("\x00".join(words).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
