"""Guided texts: written, rated by who guided them, and marked by the critic. Every stage goes on where it stopped."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from palate.downstream._critics import judged
from palate.downstream._policy import Drawing, item_seed, write_request
from palate.downstream.guide._measure import Measurement, chunks, side_by_side
from palate.downstream.guide._run import ALONE, GeneratedLine, GuideMarkLine, GuideWriter, OutcomeLine, written_key
from palate.downstream.guide._write import Guided, Job, write_guided
from palate.records import Ask, Critic, Draft, View
from palate.runs import Item, LoadedModel, ratings_of
from palate.views import Missing, ViewSpec

MARKED_AT_ONCE = 64


def measure_texts(given: Measurement, writer: GuideWriter, critic: Critic) -> None:
    """The policy alone first, then under every reward model, view and weight."""
    guided = [weight for weight in given.settings.weights if weight > 0]
    for shown in given.settings.policy_views:
        _write(given, writer, shown, None, None, [0.0])
        for model, spec in given.rewards():
            _write(given, writer, shown, model, spec, guided)
    _rate(given, writer)
    _mark(given, writer, critic)


def _write(
    given: Measurement,
    writer: GuideWriter,
    shown: ViewSpec,
    model: LoadedModel | None,
    spec: ViewSpec | None,
    weights: Sequence[float],
) -> None:
    rm, view = (model.settings.label if model else ALONE), (spec.name if spec else ALONE)
    wanted = [(item, weight) for weight in weights for item in given.items]
    missing = [
        (item, weight)
        for item, weight in wanted
        if (shown.name, rm, view, weight, item.id) not in writer.generations.lines
    ]

    def write(some: Sequence[tuple[Item, float]]) -> list[GeneratedLine]:
        by = f", guided by {rm}, weight {some[0][1]:g}{model.status}" if model else ""
        given.tell(f"{given.policy.name} writes, seeing {shown.name}{by}", writer)
        return _written(given, shown, model, spec, some)

    for lines in side_by_side(missing, given.lanes, write):
        writer.generations.add(lines)


def _written(
    given: Measurement,
    shown: ViewSpec,
    model: LoadedModel | None,
    spec: ViewSpec | None,
    wanted: Sequence[tuple[Item, float]],
) -> list[GeneratedLine]:
    guiding, seed, items = given.settings.guiding, given.settings.seed, [item for item, _ in wanted]
    shows = given.builder.build(shown, items)
    sees = given.builder.build(spec, items) if spec else [View(name="none")] * len(items)
    jobs: list[Job] = []
    lines: list[GeneratedLine] = []
    for (item, weight), one, other in zip(wanted, shows, sees, strict=True):
        line = GeneratedLine(
            policy_view=shown.name,
            rm=model.settings.label if model else ALONE,
            view=spec.name if spec else ALONE,
            weight=weight,
            item=item.id,
        )
        if isinstance(one, Missing) or isinstance(other, Missing):
            reasons = [view.reason for view in (one, other) if isinstance(view, Missing)]
            lines.append(msgspec.structs.replace(line, failed=reasons[0]))
            continue
        request, parts, note = write_request(given.policy, item, one, Drawing(samples=1, tokens=guiding.tokens), seed)
        ask = Ask(id=item.id, prompt=item.prompt, responses=(), view=other)
        jobs.append(Job(turns=request.turns, ask=ask, weight=weight, seed=item_seed(item, seed)))
        lines.append(msgspec.structs.replace(line, parts=parts, note=note))
    found = iter(write_guided(given.policy, model.model if model else None, jobs, guiding) if jobs else [])
    return [line if line.failed is not None else _filled(line, next(found)) for line in lines]


def _filled(line: GeneratedLine, written: Guided) -> GeneratedLine:
    if written.failed is not None:
        return msgspec.structs.replace(line, failed=written.failed)
    return msgspec.structs.replace(
        line,
        text=written.text,
        tokens=len(written.ids),
        finished=written.finished,
        log_probability=round(written.log_probability, 6),
    )


def _rate(given: Measurement, writer: GuideWriter) -> None:
    """What each reward model says of the texts of all weights, in one ask an item."""
    weights = given.settings.weights
    for shown in (view.name for view in given.settings.policy_views):
        for model, spec in given.rewards():
            rm = model.settings.label
            missing = [item for item in given.items if (shown, rm, spec.name, item.id) not in writer.outcomes.lines]
            for some in chunks(missing, max(1, 2 * model.batch_size // len(weights))):
                given.tell(f"{rm} rates what was written, seeing {spec.name}{model.status}", writer)
                asks: list[Ask | Missing] = []
                for item, view in zip(some, given.builder.build(spec, some), strict=True):
                    keys = [written_key(shown, rm, spec.name, weight, item.id) for weight in weights]
                    texts = [writer.generations.lines[key] for key in keys]
                    asks.append(_ask(item, view, texts))
                writer.outcomes.add(
                    [
                        OutcomeLine(policy_view=shown, rm=rm, view=spec.name, item=item.id, rating=rating)
                        for item, rating in zip(some, ratings_of(model, asks), strict=True)
                    ]
                )


def _ask(item: Item, view: View | Missing, texts: Sequence[GeneratedLine]) -> Ask | Missing:
    if isinstance(view, Missing):
        return view
    failed = next((line.failed for line in texts if line.failed is not None), None)
    if failed is not None:
        return Missing(failed)
    return Ask(id=item.id, prompt=item.prompt, responses=tuple(line.text for line in texts), view=view)


def _mark(given: Measurement, writer: GuideWriter, critic: Critic) -> None:
    items = {item.id: item for item in given.items}
    lines = writer.generations.lines.items()
    missing = [line for key, line in lines if line.failed is None and key not in writer.marks.lines]
    for some in chunks(missing, MARKED_AT_ONCE):
        given.tell(f"{critic.name} marks what was written", writer)
        marks = judged(critic, [Draft(item=items[line.item], text=line.text) for line in some])
        writer.marks.add(
            [
                GuideMarkLine(
                    policy_view=line.policy_view,
                    rm=line.rm,
                    view=line.view,
                    weight=line.weight,
                    item=line.item,
                    mark=mark,
                )
                for line, mark in zip(some, marks, strict=True)
            ]
        )
