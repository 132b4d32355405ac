"""The stages that ask language models: what can be personal, rubrics, candidates, filters.

Each works through what its ledger lacks, a batch at a time; a batch is on the disk before the next begins. A plan can
replace a stage by a function of its own, which gets the same context and gives the same lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from palate.build._candidates import write_candidates
from palate.build._filter import filter_pairs
from palate.build._plan import PARTS, Plan
from palate.build._prompts import fill, read_prompts, request
from palate.build._records import (
    CANDIDATES,
    ITEMS,
    MONEY,
    PERSONAL,
    POSTS,
    RUBRICS,
    SERVES,
    VERDICTS,
    BuildSettings,
    CandidateLine,
    MoneyLine,
    PersonalLine,
    PostLine,
    RubricLine,
    SelectedItem,
)
from palate.build._rubric import write_rubrics
from palate.build._select import earlier_posts, posts_by_user
from palate.engine import CachedLanguageModel, Failure, LanguageModel, Sampling, WriteRequest, open_by_spec
from palate.records import PalateError, Registry
from palate.runs import Ledger, Progress, Run, RunWriter, chunks

BATCH = 16
"""Items that are asked about together; what a kill can cost is in the cache of answers."""
SHORT_ANSWER = Sampling(most_tokens=64)
Task = tuple[SelectedItem, str]
"""An item and the contrast that is asked for."""

BUILD_STAGES: Registry[Callable[..., Sequence[Any]]] = Registry(
    "build stage",
    "palate.build_stages",
    {
        "rubric": ("Aspects with evidence from the user's own texts.", write_rubrics),
        "candidates": ("Responses that serve, violate, ignore or avoid the aspects.", write_candidates),
        "filter": ("Checks of length, leaks, quality and judges.", filter_pairs),
    },
)


class UnansweredError(PalateError):
    """A model failed for good on some requests."""


class Writers:
    """The language models of a plan, opened when first asked."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._models: dict[str, LanguageModel] = {}

    def model(self, part: str) -> LanguageModel:
        """The one for a part; the generator where the plan names none."""
        spec = self._plan.models.get(part) or self._plan.models.get("generator") or self._plan.models["judge"]
        if spec not in self._models:
            self._models[spec] = open_by_spec(spec)
        return self._models[spec]

    def fingerprint(self, part: str) -> str:
        """Changes with the model."""
        return self.model(part).fingerprint

    def usage(self) -> tuple[int, int, float]:
        """Tokens in, tokens out and money so far; a model in this process costs nothing."""
        inner = (one.model if isinstance(one, CachedLanguageModel) else one for one in self._models.values())
        used = [usage for model in inner if (usage := getattr(model, "usage", None)) is not None]
        return (
            sum(one.prompt_tokens for one in used),
            sum(one.completion_tokens for one in used),
            sum(one.cost for one in used),
        )

    def status(self) -> str:
        """For a progress bar."""
        return "; ".join(filter(None, (model.status() for model in self._models.values())))


@dataclass
class StageContext:
    """What a stage may use: the plan, the prompts, what earlier stages wrote, and the models."""

    plan: Plan
    prompts: dict[str, str]
    writers: Writers
    items: dict[str, SelectedItem]
    posts: dict[str, list[PostLine]]
    rubrics: dict[str, RubricLine] = field(default_factory=dict)
    candidates: dict[tuple[str, str], CandidateLine] = field(default_factory=dict)

    def posts_of(self, item: SelectedItem) -> list[PostLine]:
        """What the user wrote before the question, oldest first."""
        return earlier_posts(item, self.posts.get(item.user_id, ()))

    def prompt(self, name: str, **words: str) -> str:
        """A prompt of the plan, filled in."""
        return fill(self.prompts[name], **words)

    def ask(self, part: str, texts: Sequence[str], sampling: Sampling | Sequence[Sampling]) -> list[Reply]:
        """What a model answers to each text; raises where a request failed and the plan does not skip failures."""
        samplings = [sampling] * len(texts) if isinstance(sampling, Sampling) else list(sampling)
        requests: list[WriteRequest] = [request(text, one) for text, one in zip(texts, samplings, strict=True)]
        answers = self.writers.model(part).write(requests) if requests else []
        failures = [answer.reason for answer in answers if isinstance(answer, Failure)]
        if failures and self.plan.on_failure == "stop":
            raise UnansweredError(
                f"the {part} failed on {len(failures)} of {len(requests)} requests: {failures[0]}. What was answered "
                'is kept. Run the same command again to resume, or write on_failure = "skip" in the plan to leave such '
                "items out."
            )
        return [
            Reply("", False, answer.reason)
            if isinstance(answer, Failure)
            else Reply(answer[0].text.strip(), answer[0].finished, "")
            for answer in answers
        ]


class Reply(msgspec.Struct, frozen=True):
    """A model's answer, whether it came to its end, and why there is none."""

    text: str
    finished: bool
    failed: str


def needed_parts(plan: Plan) -> list[str]:
    """The models that a plan asks."""
    if not plan.asks_models:
        return []
    if not plan.generated:
        return ["judge"]
    return list(PARTS)


def needed_prompts(plan: Plan) -> list[str]:
    """The prompts that decide what a plan builds."""
    personal = ["personal"] if plan.select.personal else []
    if not plan.generated:
        return personal
    contrasts = [name for name in plan.candidates.contrasts if name != "twins"]
    checks = [*(["grade"] if plan.filter.grade else []), *(["judge", "judge-with-rubric"] if plan.filter.judge else [])]
    return [*personal, "rubric", SERVES, *contrasts, *checks]


def stage_sources(plan: Plan, folder: Path) -> dict[str, str]:
    """Where the code of replaced stages comes from; changes with the code."""
    return {name: BUILD_STAGES.find(_spec(text, folder)).source for name, text in plan.stages.items()}


def _spec(text: str, folder: Path) -> str:
    """Files are named relative to the plan."""
    return str(folder / text) if text.startswith("./") else text


def generate(run: Run[BuildSettings], writers: Writers, folder: Path, progress: Progress) -> None:
    """Do what is missing, stage by stage."""
    plan = run.settings.plan
    items = run.lines(ITEMS)
    context = StageContext(plan, read_prompts(plan, folder), writers, items, posts_by_user(run.read(POSTS)))
    stage = {
        name: BUILD_STAGES.find(_spec(plan.stages.get(name, name), folder)).target
        for name in ("rubric", "candidates", "filter")
    }
    with run.writing() as writer:
        work = _Work(writer, writers, progress)
        usable = list(items.values())
        if plan.select.personal:
            work.through(
                "asking what can be personal", PERSONAL, usable, lambda item: item.id, lambda b: _personal(context, b)
            )
            kept = writer.lines(PERSONAL)
            usable = [item for item in usable if kept[item.id].kept]
        if not plan.generated:
            return
        work.through("writing rubrics", RUBRICS, usable, lambda item: item.id, lambda b: stage["rubric"](context, b))
        context.rubrics = writer.lines(RUBRICS)
        tasks = list(candidate_tasks(plan, usable, context.rubrics))
        work.through("writing candidates", CANDIDATES, tasks, _key, lambda b: stage["candidates"](context, b))
        context.candidates = writer.lines(CANDIDATES)
        pairs = list(pair_tasks(plan, context.items, tasks, context.candidates))
        work.through("filtering", VERDICTS, pairs, _key, lambda b: stage["filter"](context, b))


def _key(task: Task) -> tuple[str, str]:
    return task[0].id, task[1]


def candidate_tasks(plan: Plan, items: Iterable[SelectedItem], rubrics: dict[str, RubricLine]) -> Iterable[Task]:
    """Which responses are to be written: one that serves the aspects, and one for each contrast of the asker's own."""
    for item in items:
        if item.id in rubrics and rubrics[item.id].aspects:
            yield item, SERVES
            if not item.partner:
                yield from ((item, contrast) for contrast in plan.candidates.contrasts if contrast != "twins")


def pair_tasks(
    plan: Plan,
    items: dict[str, SelectedItem],
    tasks: Iterable[Task],
    candidates: dict[tuple[str, str], CandidateLine],
) -> Iterable[Task]:
    """Which pairs have both responses."""

    def there(item: str, contrast: str) -> bool:
        line = candidates.get((item, contrast))
        return line is not None and not line.why

    for item, contrast in tasks:
        if not there(item.id, SERVES):
            continue
        if contrast != SERVES and there(item.id, contrast):
            yield item, contrast
        if contrast == SERVES and "twins" in plan.candidates.contrasts and item.twin and there(item.twin, SERVES):
            yield item, "twins"


class _Work:
    """Works through what a ledger lacks, and counts what that costs."""

    def __init__(self, writer: RunWriter, writers: Writers, progress: Progress) -> None:
        self._writer, self._writers, self._progress = writer, writers, progress

    def through(
        self,
        what: str,
        ledger: Ledger[Any],
        tasks: Sequence[Any],
        key: Callable[[Any], Any],
        stage: Callable[[Sequence[Any]], Sequence[Any]],
    ) -> None:
        done = self._writer.keys(ledger)
        pending = [task for task in tasks if key(task) not in done]
        finished = len(tasks) - len(pending)
        for batch in chunks(pending, BATCH):
            status = self._writers.status()
            self._progress(f"{what}{f' ({status})' if status else ''}", finished, len(tasks))
            before = self._writers.usage()
            lines = stage(batch)
            if len(lines) != len(batch):
                raise PalateError(
                    f"{what}: the stage gave {len(lines)} lines for {len(batch)}; it has to give one each"
                )
            self._writer.add(ledger, lines)
            self._pay(ledger.label, before)
            finished += len(batch)

    def _pay(self, stage: str, before: tuple[int, int, float]) -> None:
        now = self._writers.usage()
        if now != before:
            line = MoneyLine(
                stage=stage,
                call=len(self._writer.keys(MONEY)),
                prompt_tokens=now[0] - before[0],
                completion_tokens=now[1] - before[1],
                cost=now[2] - before[2],
            )
            self._writer.add(MONEY, [line])


def _personal(context: StageContext, items: Sequence[SelectedItem]) -> list[PersonalLine]:
    """Yes or no; what is neither is no."""
    texts = [context.prompt("personal", question=item.prompt) for item in items]
    lines = []
    for item, reply in zip(items, context.ask("judge", texts, SHORT_ANSWER), strict=True):
        word = reply.text.lower().lstrip("\"'*( ")
        why = "" if word.startswith("yes") else "one answer is best for everybody"
        if reply.failed:
            why = "the model failed"
        elif not word.startswith(("yes", "no")):
            why = "neither yes nor no"
        lines.append(PersonalLine(item=item.id, kept=not why, why=why, raw=reply.text[:500]))
    return lines
