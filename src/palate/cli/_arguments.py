"""What every command takes beside its own options: a file of options, where models run, and how much is said."""

from __future__ import annotations

import logging
import os
import sys
import tomllib
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from palate.records import PalateError

CONFIG = "--config"
SHORT = {"samples": "-n"}
"""Options that have a short name."""
FLAGS = ("--quiet", "--verbose", "--traceback")
PLACES = {"--device": "PALATE_DEVICE", "--dtype": "PALATE_DTYPE"}
"""Options for every model that runs on this machine, and the variables that say the same."""
SAYS = {"progress": True}
"""What commands say beside results and errors; `--quiet` takes it away."""


@dataclass(frozen=True)
class Verbosity:
    """How much a command says of itself."""

    quiet: bool = False
    verbose: bool = False
    traceback: bool = False

    @classmethod
    def of(cls, words: Sequence[str]) -> Verbosity:
        """As the flags on a command line say."""
        own = _before_dashes(words)
        return cls(quiet="--quiet" in own, verbose="--verbose" in own, traceback="--traceback" in own)

    def apply(self) -> None:
        """Silence progress and warnings, or let libraries speak."""
        if self.quiet and self.verbose:
            raise PalateError("--quiet and --verbose contradict each other; give one of them")
        SAYS["progress"] = not self.quiet
        if self.quiet:
            warnings.simplefilter("ignore")
        if self.verbose:
            logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s", stream=sys.stderr)

    def trace(self) -> None:
        """Where the error that is being handled arose, if that was asked for."""
        if self.traceback:
            traceback.print_exc()


def read_arguments(words: Sequence[str]) -> list[str]:
    """A command line without the flags of every command, and with the options of its file.

    Options on the command line win over those of the file.
    """
    own = _before_dashes(words)
    rest = list(words[len(own) :])
    kept, files = _without_files(own)
    if len(files) > 1:
        raise PalateError(f"{CONFIG} takes one file; {len(files)} were given")
    kept = [word for word in kept if word not in FLAGS]
    return (_with_file(kept, files[0]) if files else kept) + rest


def config_file(words: Sequence[str]) -> str:
    """The file of options that a command line names; an empty text where it names none."""
    return next(iter(_without_files(_before_dashes(words))[1]), "")


def _without_files(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words that are not about a file of options, and the files."""
    kept: list[str] = []
    files: list[str] = []
    waiting = iter(words)
    for word in waiting:
        if word == CONFIG:
            files.append(next(waiting, ""))
        elif word.startswith(f"{CONFIG}="):
            files.append(word.partition("=")[2])
        else:
            kept.append(word)
    return kept, files


@contextmanager
def models_run(words: Sequence[str]) -> Iterator[list[str]]:
    """The command line without `--device` and `--dtype`, while they are what every model takes by default.

    They go through the environment, so that the processes which a command starts take them, too.
    """
    own = _before_dashes(words)
    kept: list[str] = []
    wanted: dict[str, str] = {}
    waiting = iter(own)
    for word in waiting:
        name, is_set, value = word.partition("=")
        if name not in PLACES:
            kept.append(word)
            continue
        wanted[PLACES[name]] = value if is_set else next(waiting, "")
        if not wanted[PLACES[name]] or wanted[PLACES[name]].startswith("-"):
            example = "cpu or cuda:1" if name == "--device" else "float32 or bfloat16"
            raise PalateError(f"{name} needs a value, such as {example}")
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield kept + list(words[len(own) :])
    finally:
        for name, value_before in before.items():
            if value_before is None:
                del os.environ[name]
            else:
                os.environ[name] = value_before


def _with_file(words: list[str], file: str) -> list[str]:
    """The command, then what the file says, then the options that were given."""
    if not file:
        raise PalateError(f"{CONFIG} needs a file, such as {CONFIG} eval.toml")
    try:
        options = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PalateError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from None
    except (ValueError, RecursionError) as error:  # a number too long and tables too deep are no TOMLDecodeError
        raise PalateError(f"{file} is not a TOML file: {error}") from None
    length = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
    if not length:
        raise PalateError(f"name the command before {CONFIG}: palate eval {CONFIG} {file}")
    command = _command_of(words, options)
    options = {
        **{name: value for name, value in options.items() if not isinstance(value, dict)},
        **_table(options, command),
    }
    benchmark = options.pop("benchmark", None)
    size = len(command.split())
    named = [] if benchmark is None or length > size else [str(benchmark)]
    given = words[size:]
    read = [word for name, value in options.items() if not _is_given(name, given) for word in _words(file, name, value)]
    return [*words[:size], *named, *words[size:length], *read, *words[length:]]


def _command_of(words: Sequence[str], options: dict[str, object]) -> str:
    """`data check` where the file has such a table or the first word has commands of its own, else the first word."""
    from palate.cli._examples import EXAMPLES

    two = " ".join(words[:2])
    return two if two in EXAMPLES and len(words) > 1 else words[0]


def _table(options: dict[str, object], command: str) -> dict[str, object]:
    """The options of one command, under its name; tables of other commands are for them."""
    found: object = options
    for word in command.split():
        found = found.get(word, {}) if isinstance(found, dict) else {}
    return (
        {name: value for name, value in found.items() if not isinstance(value, dict)} if isinstance(found, dict) else {}
    )


def _is_given(name: str, words: Sequence[str]) -> bool:
    option = name.replace("_", "-")
    forms = {f"--{option}", f"--no-{option}", SHORT.get(option, f"--{option}")}
    return any(word.partition("=")[0] in forms for word in words)


def _words(file: str, name: str, value: object) -> list[str]:
    option = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return [option if value else f"--no-{option[2:]}"]
    if isinstance(value, list):
        return [word for one in value for word in _words(file, name, one)]
    if isinstance(value, str | int | float):
        return [f"{option}={value}"]
    raise PalateError(f"{file}: {name} is a text, a number, true, false or a list of them; {value!r} was given")


def _before_dashes(words: Sequence[str]) -> list[str]:
    return list(words[: words.index("--")] if "--" in words else words)
