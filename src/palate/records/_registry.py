"""Everything that has a name: built in, brought by an installed package, or in a file of one's own."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from palate import __version__
from palate.records._errors import PalateError, describe_error
from palate.records._spec import Spec, did_you_mean, parse_spec, unknown_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

T = TypeVar("T")
Made = TypeVar("Made")
BUILT_IN = f"palate {__version__}"


@dataclass(frozen=True)
class Found(Generic[T]):
    """What a name stands for, where it comes from, and what is left of the spec to call it with."""

    target: T
    source: str
    """A package with its version, or the hash of a file: changes with the code."""
    spec: Spec


class Registry(Generic[T]):
    """The things of one kind by name. A target is the thing itself, or `module:attribute`, imported when first used.

    A name is looked for among the built-in ones, then in the entry point group, then as `./file.py:Name`.

    >>> numbers = Registry("number", "palate.numbers", {"fraction": ("One over another.", "fractions:Fraction")})
    >>> numbers.make("fraction:3/4")
    Fraction(3, 4)
    """

    def __init__(
        self,
        kind: str,
        group: str,
        entries: Mapping[str, tuple[str, T | str]] | None = None,
        *,
        needs: tuple[str, ...] = (),
        hint: str = "A file of your own works too: ./mine.py:Name",
    ) -> None:
        self.kind = kind
        self.group = group
        self._entries: dict[str, tuple[str, T | str]] = dict(entries or {})
        self._needs = needs
        """What `make` must find on the thing it made: a name, and methods."""
        self._hint = hint

    def register(self, name: str) -> Callable[[T], T]:
        """Give a function or class a name; the first line of its docstring describes it."""

        def register(target: T) -> T:
            about = inspect.getdoc(target) or f"From {getattr(target, '__module__', 'elsewhere')}."
            self._entries[name] = (about.partition("\n")[0], target)
            return target

        return register

    def items(self) -> Iterator[tuple[str, str]]:
        """Every name with its description: the built-in ones in their order, then those of installed packages."""
        for name, (about, _) in self._entries.items():
            yield name, about
        for point in sorted(_points(self.group)):
            if point.name not in self._entries:
                yield point.name, f"From {_source(point)}."

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.items())

    def __contains__(self, name: object) -> bool:
        return name in set(self)

    def is_built_in(self, text: str) -> bool:
        """Whether a spec names what comes with palate; nothing is imported."""
        return parse_spec(text).name in self._entries

    @staticmethod
    def is_file(text: str) -> bool:
        """Whether a spec names a file of code; it is not opened."""
        name = parse_spec(text).name
        return name.endswith(".py") or "/" in name

    def find(self, text: str) -> Found[T]:
        """What `name`, `name:argument,key=value` or `./file.py:Name,key=value` stands for; it is not called."""
        spec = parse_spec(text)
        if spec.name in self._entries:
            target = self._entries[spec.name][1]
            return Found(_imported(target) if isinstance(target, str) else target, BUILT_IN, spec)
        if self.is_file(text):
            return self._in_file(spec)
        for point in _points(self.group).select(name=spec.name):
            try:
                return Found(point.load(), _source(point), spec)
            except Exception as error:
                raise PalateError(
                    f"the {self.kind} {spec.name!r} of {_source(point)} cannot be imported: {error}"
                ) from error
        raise unknown_name(self.kind, spec.name, self, hint=self._hint)

    def make(self: Registry[Callable[..., Made]], text: str, **context: object) -> Made:
        """Call what the spec stands for with its argument and options.

        `context` is what the caller knows, such as the seed: a target gets what its signature names of it.
        """
        return self.load(text, **context)[0]

    def load(self: Registry[Callable[..., Made]], text: str, **context: object) -> tuple[Made, str]:
        """The same with the source of the code."""
        found = self.find(text)
        parameters = inspect.signature(found.target).parameters
        factory = partial(found.target, **{name: value for name, value in context.items() if name in parameters})
        arguments = () if found.spec.argument is None else (found.spec.argument,)
        _check_options(factory, found.spec, text, context)
        try:
            made = factory(*arguments, **found.spec.options)
        except PalateError:
            raise
        except Exception as error:
            raise PalateError(f"{text!r} could not be made: {describe_error(error)}") from error
        for name in self._needs:
            value = getattr(made, name, None)
            if not (isinstance(value, str) if name == "name" else callable(value)):
                needed = ", ".join(self._needs)
                raise PalateError(
                    f"{text} made a {type(made).__name__}, which has no {name}; a {self.kind} needs {needed}"
                )
        return made, found.source

    def make_sourced(self: Registry[Callable[..., Made]], text: str, **context: object) -> Made:
        """Like `make`, but the fingerprint of a plug-in changes with its source and options too."""
        made, source = self.load(text, **context)
        return made if self.is_built_in(text) else cast(Made, _PlugIn(made, f"{text} {source}"))

    def _in_file(self, spec: Spec) -> Found[T]:
        file = Path(spec.name).expanduser()
        if not file.is_file():
            raise PalateError(f"no such file: {file}. A {self.kind} of your own is named ./file.py:Name")
        if not spec.argument:
            raise PalateError(f"say which class or function of {file} to use: {file}:Name")
        module, digest = _import_file(file)
        if not hasattr(module, spec.argument):
            own = (name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)
            raise unknown_name(f"name in {file}", spec.argument, own)
        return Found(getattr(module, spec.argument), f"sha256:{digest}", Spec(spec.name, None, spec.options))


class _PlugIn:
    """Somebody else's object, with a fingerprint that its author cannot forget."""

    def __init__(self, made: object, source: str) -> None:
        self._made = made
        self._source = source

    @property
    def fingerprint(self) -> str:
        return " ".join(filter(None, (self._source, getattr(self._made, "fingerprint", None))))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)


def _imported(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _points(group: str) -> EntryPoints:
    from importlib.metadata import entry_points  # 20 ms that `palate --help` can do without

    return entry_points(group=group)


def _source(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


_FILES: dict[tuple[Path, str], ModuleType] = {}


def _import_file(file: Path) -> tuple[ModuleType, str]:
    """Run exactly the bytes whose hash is returned; the same bytes are run once."""
    source = file.read_bytes()
    digest = hashlib.sha256(source).hexdigest()
    key = (file.resolve(), digest)
    if key not in _FILES:
        module = ModuleType(f"palate_plugin_{hashlib.sha256(str(key).encode()).hexdigest()[:12]}")
        module.__file__ = str(file)
        sys.modules[module.__name__] = module  # dataclasses and others look their own module up while it loads
        try:
            exec(compile(source, file, "exec"), vars(module))
        except (Exception, SystemExit) as error:
            del sys.modules[module.__name__]
            raise PalateError(f"{file} cannot be imported: {describe_error(error, file)}") from error
        _FILES[key] = module
    return _FILES[key], digest


def _check_options(factory: Callable[..., object], spec: Spec, text: str, context: Mapping[str, object]) -> None:
    """Refuse what the factory would not take, before it is called, and say what it would."""
    signature = inspect.signature(factory)
    parameters = [one for one in signature.parameters.values() if one.name not in context]
    known = [one.name for one in parameters if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
    unknown = [option for option in spec.options if option in context or not (takes_any or option in known)]
    wrong = ""
    if unknown:
        wrong = f"unknown option {unknown[0]!r}.{did_you_mean(unknown[0], known)}"
    elif spec.argument and all(one.kind in (one.KEYWORD_ONLY, one.VAR_KEYWORD) for one in parameters):
        wrong = "it takes no argument."
    elif known and not spec.argument and known[0] not in spec.options and _required(parameters[0]):
        wrong = f"write {spec.name}:{known[0].upper()}."
    else:
        try:
            signature.bind(*([spec.argument] if spec.argument else []), **spec.options)
        except TypeError as error:
            wrong = f"{error}."
    if wrong:
        options = ", ".join(f"{name}=..." for name in known) or "none"
        raise PalateError(f"cannot make {text!r}: {wrong} Its options: {options}")


def _required(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
