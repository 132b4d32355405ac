"""A plan: which reward models, seeing what, on which benchmarks, put to which uses. A TOML file says it all.

Every table of the file is read and checked before anything runs, and all faults are told together.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from palate.downstream import Drawing, Guiding, Training
from palate.records import PalateError, unknown_name
from palate.runs import file_name


class Models(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reward model and what it sees: with each view, an entry of the zoo."""

    rm: str
    views: list[str] = msgspec.field(default_factory=lambda: ["none"])
    family: str = ""
    """Which kind of model it is; correlations are told within and between families."""
    name: str = ""
    """How tables call it; the reward model's own name where empty."""

    @property
    def label(self) -> str:
        """How tables call it."""
        return self.name or self.rm


class Trained(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A personal model that is trained first, on people who are in none of the benchmarks."""

    name: str
    method: str
    data: str
    """The benchmark that it learns from."""
    features: str = "minilm+traits"
    base: str = "smollm2"
    users: int | None = None
    """How many of its users it learns from, the first ones by name; all where absent."""
    views: list[str]
    family: str = "personal"

    @property
    def label(self) -> str:
        """How tables call it."""
        return self.name


class Predictor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A benchmark on which the zoo is scored."""

    name: str
    benchmark: str
    view: str | None = None
    """What entries that see a profile are shown here, where this benchmark knows other things of its users."""
    limit: int | None = None
    models: list[str] = []
    """Which of the models; all where absent."""


class _Use(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all uses have."""

    name: str
    benchmark: str
    policy: str = "smollm2"
    limit: int | None = None
    models: list[str] = []
    """Which of the models; all where absent."""


class _Sampled(_Use, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A use of texts that the policy draws."""

    critic: str
    policy_view: str = "none"
    samples: int = 16
    temperature: float = 1.0
    top_p: float = 0.9
    tokens: int = 256

    @property
    def drawing(self) -> Drawing:
        """How the policy's texts are drawn."""
        return Drawing(samples=self.samples, temperature=self.temperature, top_p=self.top_p, tokens=self.tokens)


class BestOfN(_Sampled, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="best-of-n"):
    """Reward models choose among a policy's texts."""

    in_context: list[str] = []
    """Views that the policy is shown instead, without any choosing: the in-context baseline."""


class Reach(_Sampled, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="reach"):
    """How far each reward would move the policy, before any training: a predictor of what training brings."""

    top_p: float = 1.0
    sketch: int | None = None


class Guide(_Use, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="guide"):
    """Reward models guide a policy token by token: policy accuracy and, with a critic, what it writes."""

    critic: str | None = None
    policy_view: str = "none"
    weight: float = 5.0
    top_k: int = 10
    tokens: int = 64

    @property
    def guiding(self) -> Guiding:
        """How the policy is guided."""
        return Guiding(top_k=self.top_k, tokens=self.tokens)


class Ppo(_Use, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="ppo"):
    """Reward models train a policy."""

    critic: str
    policy_view: str | None = None
    seeds: list[int] = msgspec.field(default_factory=lambda: [0])
    training: dict[str, int | float | str | bool] = {}
    """Options of `palate ppo`, such as `algorithm`, `steps` and `learning_rate`."""
    keep_policies: bool = False
    """Whether the trained weights stay on the disk once a run has been tested."""

    @property
    def options(self) -> Training:
        """How the policy is trained."""
        for name in self.training:
            if name not in Training.__dataclass_fields__:
                raise unknown_name("option of training", name, list(Training.__dataclass_fields__))
        try:
            options: Training = msgspec.convert(dict(self.training), Training)
        except msgspec.ValidationError as error:
            raise PalateError(f"training: {error}") from None
        return options


Use = BestOfN | Guide | Ppo | Reach
Measure = Predictor | Use
USES: dict[str, type[Use]] = {"best-of-n": BestOfN, "guide": Guide, "ppo": Ppo, "reach": Reach}


SMALL = "small"
"""The plan that is built in."""
TABLES = ("models", "train", "predictors", "downstream")
LONGEST_NAME = 80
IN_CONTEXT = "in context"
"""What stands for the model in the cell of the in-context baseline."""
TRAIN = "train"
"""What stands for the measure in the cell of a model that is trained."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole study."""

    title: str
    seed: int = 0
    retriever: str = "bm25"
    writer: str = "smollm2"
    models: list[Models] = []
    train: list[Trained] = []
    predictors: list[Predictor] = []
    downstream: list[Use] = []

    @property
    def zoo(self) -> list[Models | Trained]:
        """All reward models, trained ones last."""
        return [*self.models, *self.train]

    @property
    def measures(self) -> list[Measure]:
        """Benchmarks first, then what happens downstream."""
        return [*self.predictors, *self.downstream]

    @property
    def entries(self) -> list[Entry]:
        """Every model under every view."""
        return [
            Entry(name=entry_name(model.label, view), model=model.label, view=view, family=model.family or "other")
            for model in self.zoo
            for view in model.views
        ]

    def models_of(self, measure: Measure) -> list[Models | Trained]:
        """Those that a measure is about."""
        return [model for model in self.zoo if not measure.models or model.label in measure.models]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A reward model that sees one view of the user: one point of every plot."""

    name: str
    model: str
    view: str
    family: str


def entry_name(label: str, view: str) -> str:
    """A model that sees nothing is called by its name alone."""
    return label if view == "none" else f"{label}, {view}"


class PlanError(PalateError):
    """All faults of a plan, one on a line."""

    def __init__(self, where: object, faults: Sequence[str]) -> None:
        listed = "".join(f"\n  - {fault}" for fault in faults)
        super().__init__(f"{where} cannot be run; nothing was started.{listed}")
        self.faults = list(faults)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise tomllib.TOMLDecodeError(f"{text} is no number that a setting can have")
    return number


def read_plan(file: Path) -> Plan:
    """The plan in a file, with everything in it checked that can be checked without loading anything."""
    try:
        raw = tomllib.loads(_text(file), parse_float=_finite)
    except FileNotFoundError:
        raise PalateError(f"there is no plan {file}. Try the one that is built in: palate study {SMALL}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise PalateError(f"{file} cannot be read as TOML: {error}") from error
    faults: list[str] = []
    known = [*Plan.__struct_fields__]
    for key in raw:
        if key not in known:
            faults.append(str(unknown_name("key", key, known)))
    fields: dict[str, Any] = {}
    for name in TABLES:
        tables = raw.pop(name, [])
        if not isinstance(tables, list):
            faults.append(f"{name}: write each one as [[{name}]]")
            continue
        fields[name] = [
            one for number, table in enumerate(tables, 1) for one in _table(name, number, table, faults) if one
        ]
    try:
        rest = {key: value for key, value in raw.items() if key in known}
        plan = msgspec.structs.replace(msgspec.convert({"title": file.stem} | rest, Plan), **fields)
    except msgspec.ValidationError as error:
        raise PlanError(file, [*faults, str(error)]) from None
    if faults := [*faults, *_inconsistent(plan)]:
        raise PlanError(file, faults)
    return plan


def _text(file: Path) -> str:
    """Of a file, or of the plan that is built in."""
    if str(file) == SMALL and not file.exists():
        return resources.files("palate.study").joinpath(f"{SMALL}.toml").read_text(encoding="utf-8")
    return file.read_text(encoding="utf-8")


def _table(name: str, number: int, table: Any, faults: list[str]) -> Iterator[Any]:
    """One table as a struct; what is wrong with it goes to the faults."""
    where = f"{name} {number}"
    if not isinstance(table, dict):
        faults.append(f"{where}: write it as [[{name}]]")
        return
    where += f" ({shown(table['name'])})" if isinstance(table.get("name"), str) else ""
    kind: Any = {"models": Models, "train": Trained, "predictors": Predictor}.get(name)
    given = dict(table)
    if kind is None:
        kind = USES.get(str(given.get("kind")))
        if kind is None:
            faults.append(f"{where}: {unknown_name('kind of use', str(given.get('kind')), list(USES))}")
            return
    fields = list(kind.__struct_fields__) + (["kind"] if name == "downstream" else [])
    for key in [key for key in given if key not in fields]:
        faults.append(f"{where}: {unknown_name('key', key, fields)}")
        del given[key]
    try:
        yield msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        faults.append(f"{where}: {error}")


def _inconsistent(plan: Plan) -> Iterator[str]:
    """What can be told from the plan alone."""
    if not plan.zoo:
        yield "there is no reward model: add [[models]]"
    if not plan.measures:
        yield "nothing is measured: add [[predictors]] and [[downstream]]"
    if plan.seed < 0:
        yield f"seed is a number from 0; {plan.seed} was given"
    measures = [measure.name for measure in plan.measures]
    for what, names in (
        ("title", [plan.title]),
        ("models", [model.label for model in plan.zoo]),
        ("models, family", [model.family for model in plan.zoo if model.family]),
        ("predictors and downstream", measures),
    ):
        yield from (f"{what}: {told}" for told in map(_wrong_name, dict.fromkeys(names)) if told)
    for what, names in (
        ("models", [model.label for model in plan.zoo]),
        ("predictors and downstream", measures),
        ("entries", [entry.name for entry in plan.entries]),
    ):
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"{what}: {shown(name)!r} is there twice; give one of them another name, or leave it out"
    for what, names, taken in (
        ("models", [model.label for model in plan.zoo], IN_CONTEXT),
        ("predictors and downstream", measures, TRAIN),
    ):
        if taken in names:
            yield f"{what}: {taken!r} means something else in the names of cells; choose another name"
    folders = [file_name(model.name).lower() for model in plan.train]  # some file systems do not tell cases apart
    for trained, folder in zip(plan.train, folders, strict=True):
        if folders.count(folder) > 1:
            yield f"train: {shown(trained.name)!r} would share the folder {folder!r} with another; rename it"
    same: dict[tuple[str, str], str] = {}
    for model in plan.models:
        for view in model.views:
            first = same.setdefault((model.rm, view), model.label)
            if first != model.label:
                yield f"models: {shown(model.label)!r} and {first!r} are the same: {model.rm} seeing {view}"
    yield from (f"models: {shown(model.label)!r} sees nothing: views is empty" for model in plan.zoo if not model.views)
    settings: dict[bytes, str] = {}
    for measure in plan.measures:
        key = type(measure).__name__.encode() + msgspec.json.encode(msgspec.structs.replace(measure, name=""))
        first = settings.setdefault(key, measure.name)
        if first != measure.name:
            yield f"{measure.name!r} and {first!r} measure the same"
        known = [model.label for model in plan.zoo]
        for name in measure.models:
            if name not in known:
                yield f"{measure.name}: {unknown_name('model', name, known)}"
        if isinstance(measure, Ppo):
            if not measure.seeds or min(measure.seeds) < 0:
                yield f"{measure.name}: seeds are one or more numbers from 0; {measure.seeds} was given"
            if len(set(measure.seeds)) < len(measure.seeds):
                yield f"{measure.name}: a seed is there twice"


def shown(name: str) -> str:
    """A name as a message can tell it: in one line, and not for ever."""
    text = name if name.isprintable() else ascii(name)[1:-1]
    return text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…"


def _wrong_name(name: str) -> str | None:
    if not name.strip():
        return "a name is empty"
    if not name.isprintable():
        return f"{shown(name)!r} holds characters that cannot be printed"
    if len(name) > LONGEST_NAME:
        return f"{shown(name)!r} is longer than {LONGEST_NAME} characters; give it a shorter name"
    if " | " in name:
        return f"{shown(name)!r} holds ' | ', which stands between the parts of a cell's name"
    return None
