"""A plan: where histories come from, who is selected, how pairs are made, checked, split and released. In TOML.

The whole file is checked before anything runs, and all faults are told together.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import msgspec

from palate.records import PalateError, unknown_name

CONTRASTS = ("violates", "ignores", "avoid", "twins")
PROMPTS = ("personal", "rubric", "serves", "violates", "ignores", "avoid", "grade", "judge", "judge-with-rubric")
PARTS = ("generator", "grader", "judge")
STAGES = ("rubric", "candidates", "filter")


class StackExchangeSource(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="stackexchange"):
    """A data dump of one site: a folder, `Posts.xml`, `Posts.xml.gz` or a 7z archive."""

    path: str
    site: str = ""
    """Such as `coffee.stackexchange.com`; by default the name of the archive or of the folder."""
    licence: str = "CC BY-SA 4.0"
    max_gigabytes: float = 250
    """A file that unpacks to more is refused."""
    keep_damaged: bool = False
    """Build from what stands before the damage, where a file is damaged."""


class TableSource(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="table"):
    """A CSV or JSON Lines file with a row for each answer that a user was offered."""

    path: str
    columns: dict[str, str] = {}
    """From palate's name of a column to yours."""
    days: Literal["day-first", "month-first"] | None = None
    """How to read dates such as 3/11/2025 where no number of the column is above 12."""
    licence: str = "not for release"


class ForumSource(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="forum"):
    """A JSON Lines or CSV file with a row for each message of a forum or chat."""

    path: str
    columns: dict[str, str] = {}
    days: Literal["day-first", "month-first"] | None = None
    licence: str = "not for release"


class LampQaSource(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="lamp-qa"):
    """LaMP-QA, Personalized RewardBench, or another benchmark of that shape, by name or path."""

    benchmark: str = "lamp-qa"


Source = StackExchangeSource | TableSource | ForumSource | LampQaSource


class Select(msgspec.Struct, frozen=True, kw_only=True):
    """Which users and questions."""

    earlier_posts: int = 1
    """Posts that the asker must have written before the question."""
    most_posts: int = 50
    """Earlier posts that are kept for a question, the latest ones."""
    items: int = 5_000
    """The most questions, drawn by the seed. Memory grows with this number, and not with the source."""
    items_per_user: int | None = None
    personal: bool = False
    """Whether the judge is asked if the best answer depends on who asks."""


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """Where the chosen and the rejected responses come from."""

    kind: Literal["accepted", "divergent", "generated"] = "accepted"
    others: Literal["closest", "all"] = "closest"
    """Of real answers: the one that is closest to the accepted one in length, or all."""
    balance: bool = True
    """Of real pairs: drop as many as it takes for the longer response to be chosen half of the time."""
    shortest: int = 5
    """Words of a real answer, at least."""
    longest: int = 1_000
    """Words of a real answer, at most."""
    contrasts: list[str] = msgspec.field(default_factory=lambda: ["violates", "ignores", "avoid"])
    """Of generated pairs."""
    words: int = 100
    """The most words of a generated response; every prompt says the same number."""
    tokens: int = 256
    temperature: float = 0.7
    top_p: float = 0.95


class Rubric(msgspec.Struct, frozen=True, kw_only=True):
    """How aspects are found."""

    aspects: int = 4
    """The most aspects."""
    posts: int = 10
    """The most posts that are shown, the latest first."""
    characters: int = 8_000
    """The most characters of posts that are shown."""
    tokens: int = 800


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which generated pairs stay."""

    length_ratio: float = 1.25
    """How much longer one response may be than the other, in words."""
    leaked_words: int = 4
    """Words in a row from the rubric that no response may repeat, unless the question has them."""
    quality: float = 1.0
    """How far apart the blind grades of both responses may be, of 10."""
    grade: bool = True
    judge: bool = True


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """What a finished benchmark is tested for."""

    within: float = 0.02
    """How far from chance a measure may be."""
    models: list[str] = msgspec.field(default_factory=lambda: ["embedding", "bradley-terry"])
    """Reward models that do not see the user: `bradley-terry` is trained on the other users first."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole build."""

    name: str
    title: str = ""
    version: str = "1.0"
    seed: int = 0
    pseudonyms: bool = True
    """Whether ids of users and posts are replaced by keyed hashes."""
    source: Source
    select: Select = Select()
    candidates: Candidates = Candidates()
    rubric: Rubric = Rubric()
    filter: Filter = Filter()
    models: dict[str, str] = {}
    """Language models by their part: `generator`, `grader` and `judge`."""
    prompts: dict[str, str] = {}
    """Files that replace built-in prompts, by name."""
    stages: dict[str, str] = {}
    """Functions that replace built-in stages: `./file.py:name`."""
    split: dict[str, float] = {}
    """Names of the parts with their shares, such as `train = 0.8`; one benchmark where absent."""
    gate: Gate = Gate()
    on_failure: Literal["stop", "skip"] = "stop"
    """What to do about items on which a language model fails for good: stop and try again later, or leave them out."""

    @property
    def generated(self) -> bool:
        """Whether a generator writes the responses."""
        return self.candidates.kind == "generated"

    @property
    def asks_models(self) -> bool:
        """Whether any language model is needed."""
        return self.generated or self.select.personal


_TABLES: dict[str, Any] = {
    "select": Select,
    "candidates": Candidates,
    "rubric": Rubric,
    "filter": Filter,
    "gate": Gate,
}
_SOURCES: dict[str, Any] = {
    "stackexchange": StackExchangeSource,
    "table": TableSource,
    "forum": ForumSource,
    "lamp-qa": LampQaSource,
}


class BuildPlanError(PalateError):
    """All faults of a plan, one on a line."""

    def __init__(self, where: object, faults: Sequence[str]) -> None:
        listed = "".join(f"\n  - {fault}" for fault in faults)
        super().__init__(f"{where} cannot be built; nothing was started.{listed}")
        self.faults = list(faults)


def example_plans() -> list[str]:
    """The names of the plans that come with palate."""
    folder = resources.files("palate.build").joinpath("plans")
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


def example_plan(name: str) -> str:
    """The text of a plan that comes with palate."""
    if name not in example_plans():
        raise unknown_name("example", name, example_plans())
    return resources.files("palate.build").joinpath("plans").joinpath(f"{name}.toml").read_text(encoding="utf-8")


def read_plan(file: Path) -> Plan:
    """The plan in a file, with everything in it checked that can be checked without reading the source."""
    try:
        raw = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = f"Begin with an example: palate build {file.name} --example stackexchange"
        raise PalateError(f"there is no plan {file}. {hint}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise PalateError(f"{file} cannot be read as TOML: {error}") from error
    faults: list[str] = []
    plan = parse_plan({"name": file.stem} | raw, faults)
    if plan is not None:
        faults += _inconsistent(plan, file.parent)
    if faults or plan is None:
        raise BuildPlanError(file, faults)
    return plan


def parse_plan(raw: dict[str, Any], faults: list[str]) -> Plan | None:
    """The plan of a table; what is wrong goes to the faults."""
    raw = dict(raw)
    known = list(Plan.__struct_fields__)
    for key in [key for key in raw if key not in known]:
        faults.append(str(unknown_name("key", key, known)))
        del raw[key]
    for name, kind in _TABLES.items():
        if name in raw:
            raw[name] = _without_unknown(name, raw[name], kind, faults)
    source = raw.get("source")
    if not isinstance(source, dict):
        faults.append("there is no source: add [source] with a kind and a path")
        return None
    kind = _SOURCES.get(str(source.get("kind")))
    if kind is None:
        faults.append(f"source: {unknown_name('kind', str(source.get('kind')), list(_SOURCES))}")
        return None
    raw["source"] = _without_unknown("source", source, kind, faults, extra=("kind",))
    for name, value in [(name, raw[name]) for name in (*_TABLES, "source") if name in raw]:
        target = kind if name == "source" else _TABLES[name]
        try:
            msgspec.convert(value, target)
        except msgspec.ValidationError as error:
            faults.append(f"{name}: {error}")
            raw.pop(name)
    if "source" not in raw:
        return None
    try:
        return msgspec.convert(raw, Plan)
    except msgspec.ValidationError as error:
        faults.append(str(error))
        return None


def _without_unknown(name: str, table: Any, kind: Any, faults: list[str], extra: tuple[str, ...] = ()) -> Any:
    if not isinstance(table, dict):
        return table
    fields = [*kind.__struct_fields__, *extra]
    for key in [key for key in table if key not in fields]:
        faults.append(f"{name}: {unknown_name('key', key, fields)}")
    return {key: value for key, value in table.items() if key in fields}


def _inconsistent(plan: Plan, folder: Path) -> Iterator[str]:
    """What can be told from the plan and the files that it names."""
    if not plan.name.strip(" .") or not plan.name.isprintable() or {"/", "\\"} & set(plan.name):
        yield "name is the name of a folder: give it letters, digits or hyphens"
    if plan.seed < 0:
        yield f"seed is a number from 0; {plan.seed} was given"
    for what, names, known in (
        ("part of [models]", plan.models, PARTS),
        ("prompt", plan.prompts, PROMPTS),
        ("stage", plan.stages, STAGES),
        ("contrast", plan.candidates.contrasts, CONTRASTS),
    ):
        for name in names:
            if name not in known:
                yield str(unknown_name(what, name, known))
    for name, prompt in plan.prompts.items():
        if not (folder / prompt).is_file():
            yield f"prompts: {name}: no such file {folder / prompt}"
    path = getattr(plan.source, "path", None)
    if path is not None and not (folder / path).exists():
        yield f"source: no such file or folder {folder / path}"
    if plan.asks_models and "generator" not in plan.models and not (plan.models.keys() & {"judge"}):
        yield 'a language model is needed: add [models] with generator = "NAME" or "NAME,url=..."'
    if plan.generated and "generator" not in plan.models:
        yield 'candidates: kind = "generated" needs a generator under [models]'
    if plan.generated and not plan.candidates.contrasts:
        yield "candidates: name at least one contrast"
    if isinstance(plan.source, LampQaSource) and not plan.generated:
        yield 'source: lamp-qa has no real answers to choose from; write kind = "generated" under [candidates]'
    yield from _bounds(plan)


def _bounds(plan: Plan) -> Iterator[str]:
    select, candidates, rubric, checks = plan.select, plan.candidates, plan.rubric, plan.filter
    for what, value, least in (
        ("select: earlier_posts", select.earlier_posts, 0),
        ("select: most_posts", select.most_posts, 1),
        ("select: items", select.items, 1),
        ("select: items_per_user", select.items_per_user or 1, 1),
        ("candidates: shortest", candidates.shortest, 1),
        ("candidates: longest", candidates.longest, candidates.shortest),
        ("candidates: words", candidates.words, 5),
        ("candidates: tokens", candidates.tokens, 8),
        ("candidates: temperature", candidates.temperature, 0),
        ("rubric: aspects", rubric.aspects, 1),
        ("rubric: posts", rubric.posts, 1),
        ("rubric: characters", rubric.characters, 100),
        ("rubric: tokens", rubric.tokens, 8),
        ("filter: length_ratio", checks.length_ratio, 1),
        ("filter: leaked_words", checks.leaked_words, 2),
        ("filter: quality", checks.quality, 0),
        ("gate: within", plan.gate.within, 0),
    ):
        if value < least:
            yield f"{what} is {value:g}; it has to be {least:g} or more"
    if plan.split and (any(share <= 0 for share in plan.split.values()) or abs(sum(plan.split.values()) - 1) > 1e-6):
        yield f"split: shares are above 0 and add up to 1; these add up to {sum(plan.split.values()):g}"
    for name in plan.split:
        if not name.replace("-", "").isalnum():
            yield f"split: {name!r} is no name for a folder; use letters, digits and hyphens"
