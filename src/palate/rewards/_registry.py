"""How a reward model is found by its name: built in, from an installed package, or from a file."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from palate import __version__
from palate.records import PalateError, RewardModel, Spec, parse_spec, unknown_name

Factory = Callable[..., RewardModel]
ENTRY_POINTS = "palate.reward_models"

_FACTORIES: dict[str, Factory] = {}


def reward_model(name: str) -> Callable[[Factory], Factory]:
    """Register a function that makes a reward model. Keep heavy imports inside the function."""

    def register(factory: Factory) -> Factory:
        _FACTORIES[name] = factory
        return factory

    return register


def reward_model_names() -> list[str]:
    """Every name that `--rm` knows here, built in and from installed packages."""
    return sorted({*_FACTORIES, *(point.name for point in entry_points(group=ENTRY_POINTS))})


def make_reward_model(spec: str) -> RewardModel:
    """Make a reward model from `name`, `name:argument,key=value` or `./file.py:Name,key=value`."""
    model, _ = load_reward_model(spec)
    return model


def load_reward_model(spec: str) -> tuple[RewardModel, dict[str, str]]:
    """A reward model with its identity: everything known that could change its scores."""
    parsed = parse_spec(spec)
    identity = {"spec": spec}
    if parsed.name.endswith(".py") or "/" in parsed.name:
        factory, identity["source"] = _from_file(parsed)
        parsed = Spec(parsed.name, None, parsed.options)
    elif parsed.name in _FACTORIES:
        factory, identity["source"] = _FACTORIES[parsed.name], f"palate {__version__}"
    else:
        factory, identity["source"] = _from_entry_point(parsed.name)
    model = _call(factory, parsed, spec)
    if not callable(getattr(model, "rate", None)):
        raise PalateError(f"{spec} made a {type(model).__name__}, which has no rate(asks) method")
    if not isinstance(getattr(model, "name", None), str):
        raise PalateError(f"{spec} made a {type(model).__name__}, which has no name; give it one: name = ...")
    fingerprint = getattr(model, "fingerprint", None)
    if fingerprint is not None:
        identity["fingerprint"] = str(fingerprint)
    return model, identity


def _from_entry_point(name: str) -> tuple[Factory, str]:
    for point in entry_points(group=ENTRY_POINTS, name=name):
        source = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
        try:
            return point.load(), source
        except Exception as error:
            raise PalateError(f"the reward model {name!r} of {source} cannot be imported: {error}") from error
    raise unknown_name(
        "reward model", name, reward_model_names(), hint="A file of your own works too: ./mine.py:MyReward"
    )


def _from_file(spec: Spec) -> tuple[Factory, str]:
    file = Path(spec.name).expanduser()
    if not file.is_file():
        raise PalateError(f"no such file: {file}. A reward model of your own is named ./file.py:ClassName")
    if not spec.argument:
        raise PalateError(f"say which class of {file} to use: {file}:ClassName")
    source = file.read_bytes()
    module = _import_file(file)
    factory = getattr(module, spec.argument, None)
    if factory is None:
        names = [name for name, value in vars(module).items() if inspect.isclass(value) and hasattr(value, "rate")]
        raise unknown_name(f"name in {file}", spec.argument, names)
    return factory, f"sha256:{hashlib.sha256(source).hexdigest()}"


def _import_file(file: Path) -> ModuleType:
    name = f"palate_plugin_{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]}"
    specification = importlib.util.spec_from_file_location(name, file)
    if specification is None or specification.loader is None:
        raise PalateError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses and others look their own module up while it loads
    try:
        specification.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise PalateError(f"{file} cannot be imported: {describe(error, file)}") from error
    return module


def _call(factory: Factory, spec: Spec, text: str) -> RewardModel:
    arguments = () if spec.argument is None else (spec.argument,)
    try:
        inspect.signature(factory).bind(*arguments, **spec.options)
    except TypeError as error:
        options = ", ".join(f"{name}=..." for name in inspect.signature(factory).parameters) or "none"
        raise PalateError(f"cannot make {text!r}: {error}. Its options: {options}") from error
    try:
        return factory(*arguments, **spec.options)
    except PalateError:
        raise
    except Exception as error:
        raise PalateError(f"{text!r} could not be made: {describe(error)}") from error


def describe(error: BaseException, file: Path | None = None) -> str:
    """An exception of somebody else's code in one line, with the place where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    if file is not None:
        frames = traceback.StackSummary.from_list([f for f in frames if Path(f.filename).name == file.name])
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    if isinstance(error, SyntaxError):
        where = f" ({Path(error.filename or '').name}, line {error.lineno})"
    return f"{type(error).__name__}: {error}{where}"
