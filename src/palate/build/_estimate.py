"""What a build will cost before it starts: calls, tokens, money and minutes, each at most."""

from __future__ import annotations

from pathlib import Path

import msgspec

from palate.build._build import prepare
from palate.build._generate import StageContext
from palate.build._plan import Plan, read_plan
from palate.build._prompts import read_prompts
from palate.build._records import ITEMS, POSTS
from palate.build._rubric import rubric_prompt
from palate.build._select import posts_by_user
from palate.runs import Progress, no_progress

CHARACTERS = 4
"""Of a token, roughly, in English."""
ASPECT_TOKENS = 40
PROMPT_TOKENS = 100
"""The words around what is filled in."""
SECONDS, AT_ONCE = 3.0, 32
"""A call to a server, and how many wait at a time."""
READ, WRITTEN = 500, 60
"""Tokens a second of a small model on a processor."""


class StageCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one stage asks for, at most."""

    stage: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    """None where the model's prices are not known."""
    minutes: float


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """What a build would cost."""

    questions: int
    users: int
    stages: list[StageCost]
    folder: str
    """Where the selection lies already."""


def estimate(
    file: Path, *, out: Path = Path("runs"), data_dir: Path | None = None, progress: Progress = no_progress
) -> Estimate:
    """Select, which costs nothing, and count what the other stages would ask if nothing were left out on the way."""
    plan = read_plan(file)
    run, writers = prepare(file, plan, out=out, data_dir=data_dir, progress=progress)
    items = list(run.read(ITEMS))
    context = StageContext(
        plan, read_prompts(plan, file.parent), writers, run.lines(ITEMS), posts_by_user(run.read(POSTS))
    )
    return Estimate(
        questions=len(items),
        users=len({item.user_id for item in items}),
        stages=_stages(plan, context) if plan.asks_models else [],
        folder=str(run.folder),
    )


def _stages(plan: Plan, context: StageContext) -> list[StageCost]:
    items = list(context.items.values())
    question = sum(len(item.prompt) for item in items) // CHARACTERS
    stages = []
    if plan.select.personal:
        stages.append(
            _cost(plan, "personal", "judge", len(items), question + PROMPT_TOKENS * len(items), 2 * len(items))
        )
    if not plan.generated:
        return stages
    asked = [item for item in items if not item.aspects]
    shown = sum(len(rubric_prompt(context, item)) for item in asked) // CHARACTERS
    stages.append(_cost(plan, "rubrics", "generator", len(asked), shown, len(asked) * plan.rubric.tokens))
    own = sum(not item.partner for item in items)
    contrasts = sum(name != "twins" for name in plan.candidates.contrasts)
    written = len(items) + own * contrasts
    pairs = own * contrasts + sum(item.twin is not None for item in items if "twins" in plan.candidates.contrasts)
    each = question // max(1, len(items)) + PROMPT_TOKENS
    aspects = ASPECT_TOKENS * plan.rubric.aspects
    answer = plan.candidates.words * 3 // 2
    tokens = min(plan.candidates.tokens, 2 * answer)
    stages.append(_cost(plan, "candidates", "generator", written, written * (each + aspects), written * tokens))
    if plan.filter.grade:
        stages.append(_cost(plan, "grades", "grader", 2 * pairs, 2 * pairs * (each + 2 * answer), 2 * pairs * 10))
    if plan.filter.judge:
        calls = 4 * pairs
        stages.append(_cost(plan, "judges", "judge", calls, calls * (each + 2 * answer + aspects // 2), calls * 2))
    return stages


def _cost(plan: Plan, stage: str, part: str, calls: int, prompt: int, completion: int) -> StageCost:
    spec = plan.models.get(part) or plan.models.get("generator") or plan.models.get("judge", "")
    options = dict(piece.partition("=")[::2] for piece in spec.split(",")[1:])
    cost = None
    if "prices" in options:
        into, out = (float(price) for price in options["prices"].split("/"))
        cost = (prompt * into + completion * out) / 1_000_000
    elif "url" not in options:
        cost = 0.0
    seconds = calls * SECONDS / AT_ONCE if "url" in options else prompt / READ + completion / WRITTEN
    return StageCost(
        stage=stage,
        calls=calls,
        prompt_tokens=prompt,
        completion_tokens=completion,
        cost=cost,
        minutes=round(seconds / 60, 1),
    )
