"""Take one user, or all of them, out of a trained model's files, without loading its encoder."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from palate.personal._files import ModelFile, read_model, write_model
from palate.personal._lora_files import FOLDER as ADAPTER
from palate.personal._model import mark
from palate.personal._private import Spent
from palate.records import PalateError
from palate.runs import write_whole

if TYPE_CHECKING:
    from palate.personal._files import ModelTensors

Choice = tuple[str, Sequence[str]]
"""A prompt and what was offered."""


class ErasedFromModel(msgspec.Struct, frozen=True, kw_only=True):
    """What of a user a model held."""

    states: int
    marks: int
    method: str
    features: str


def erase_user(folder: Path, user: str, choices: Iterable[Choice], *, write: bool = True) -> ErasedFromModel:
    """Take out the user's name and state, and the marks of these choices of theirs. The shared part stays.

    Without `write`, only say what would be taken out.
    """
    _finish_what_broke_off(folder, user, write=write)
    kept, tensors = read_model(folder)
    gone = {mark(prompt, responses) for prompt, responses in choices}
    trained = [one for one in tensors.trained if one not in gone]
    staying = [place for place, name in enumerate(kept.users) if name != user]
    erased = ErasedFromModel(
        states=len(kept.users) - len(staying),
        marks=len(tensors.trained) - len(trained),
        method=kept.method,
        features=kept.features,
    )
    if write and (erased.states or erased.marks):
        users = [kept.users[place] for place in staying]
        _write(folder, msgspec.structs.replace(kept, users=users), tensors, staying, trained)
    return erased


def describe_model(folder: Path) -> ModelFile:
    """`model.json`, or what is wrong with it."""
    try:
        return msgspec.json.decode((folder / "model.json").read_bytes(), type=ModelFile)
    except (OSError, msgspec.DecodeError):
        return read_model(folder)[0]


def spent_by_models(folder: Path) -> dict[str, Spent]:
    """What each private model of a run has spent, by its name."""
    found: dict[str, Spent] = {}
    for file in sorted(folder.glob("*/model.json")):
        told = describe_model(file.parent).about.get("privacy")
        if told is not None:
            found[file.parent.name] = msgspec.convert(told, Spent)
    return found


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


def strip_model(folder: Path, out: Path) -> Path:
    """A copy to hand on: the shared part only, with no name, no state and no mark of what it was trained on."""
    if (out / "model.json").exists():
        raise PalateError(f"{out} holds a model already; name another folder")
    kept, tensors = read_model(folder)
    if (folder / ADAPTER).is_dir():
        shutil.copytree(folder / ADAPTER, out / ADAPTER, dirs_exist_ok=True)
    return _write(out, msgspec.structs.replace(kept, users=[]), tensors, [], [])


def _write(folder: Path, kept: ModelFile, tensors: ModelTensors, staying: list[int], trained: list[int]) -> Path:
    return write_model(
        folder,
        kept,
        shared=tensors.shared,
        features=tensors.features,
        states=[tensors.states[place] for place in staying],
        trained=trained,
    )


def _finish_what_broke_off(folder: Path, user: str, *, write: bool) -> None:
    """The two files are replaced one after the other; a crash in between leaves a name without its state."""
    from safetensors import safe_open

    description, numbers = folder / "model.json", folder / "model.safetensors"
    if not (write and description.is_file() and numbers.is_file()):
        return
    try:
        kept = msgspec.json.decode(description.read_bytes(), type=ModelFile)
        with safe_open(str(numbers), "pt") as tensors:
            found = "users.lengths" in tensors.keys()  # noqa: SIM118 - it is no dict
            states = tensors.get_slice("users.lengths").get_shape()[0] if found else 0
    except (msgspec.DecodeError, OSError):
        return  # reading the model says what is wrong with it
    if user in kept.users and states == len(kept.users) - 1:
        kept = msgspec.structs.replace(kept, users=[name for name in kept.users if name != user])
        write_whole(description, msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")
