"""The measurement itself: sample once, rate with every model, mark once; every step goes on where it stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from palate.downstream._best_of_n._run import BonWriter, MarkLine, RewardLine
from palate.downstream._best_of_n._settings import BonSettings
from palate.downstream._critics import judged
from palate.downstream._samples import SampleSet
from palate.engine import LanguageModel
from palate.records import Ask, Rating, View
from palate.records._critic import Critic, Draft
from palate.rewards import rate
from palate.runs import Item, LoadedModel, Report
from palate.views import Missing, ViewBuilder, ViewSpec

MARKED_AT_ONCE = 256
"""Texts put to the critic before its marks are on the disk."""


@dataclass(frozen=True)
class Measurement:
    """All that is needed to go through a run from its first sample to its last mark."""

    settings: BonSettings
    items: Sequence[Item]
    policy: LanguageModel
    sets: Sequence[SampleSet]
    builder: ViewBuilder
    models: Sequence[LoadedModel]
    critic: Critic
    report: Report

    def run(self, writer: BonWriter) -> None:
        """Stage by stage, so that every file grows in one order however often the process is stopped."""
        self._sample(writer)
        self._rate(writer)
        self._mark(writer)
        self._tell("done", writer)

    def _tell(self, what: str, writer: BonWriter) -> None:
        each = 2 + len(self.models) * sum(spec.draws for spec in self.settings.views)
        self.report(what, writer.done, len(self.sets) * len(self.items) * each)

    def _sample(self, writer: BonWriter) -> None:
        for one in self.sets:
            name = one.settings.view.name
            pending = [item for item in self.items if (name, item.id) not in writer.samples]
            if not pending:
                continue
            what = f"{self.policy.name} writes, seeing {name}"
            self._tell(what, writer)
            for lines in one.draw(self.policy, self.builder, pending):
                writer.add_samples(lines)
                spent = self.policy.status()
                self._tell(f"{what} ({spent})" if spent else what, writer)

    def _rate(self, writer: BonWriter) -> None:
        for one in self.sets:
            for spec in self.settings.views:
                for draw in range(spec.draws):
                    for some in self._chunks(writer, one):
                        self._rate_chunk(writer, one.settings.view.name, spec, draw, some)

    def _batch(self, model: LoadedModel) -> int:
        """A model's batch is meant for pairs; here an ask holds N responses."""
        return max(1, 2 * model.batch_size // self.settings.drawing.samples)

    def _chunks(self, writer: BonWriter, one: SampleSet) -> Iterator[Sequence[Item]]:
        step = max(self._batch(model) for model in self.models)
        sampled = self._sampled(writer, one.settings.view.name)
        for start in range(0, len(sampled), step):
            yield sampled[start : start + step]

    def _sampled(self, writer: BonWriter, policy_view: str) -> list[Item]:
        return [item for item in self.items if writer.samples[policy_view, item.id].failed is None]

    def _rate_chunk(self, writer: BonWriter, policy_view: str, spec: ViewSpec, draw: int, some: Sequence[Item]) -> None:
        waiting = {
            model.settings.label: [
                item
                for item in some
                if (policy_view, model.settings.label, spec.name, item.id, draw) not in writer.rated
            ]
            for model in self.models
        }
        if not any(waiting.values()):
            return
        views = dict(zip((item.id for item in some), self.builder.build(spec, some, draw=draw), strict=True))
        for model in self.models:
            pending, step = waiting[model.settings.label], self._batch(model)
            for first in range(0, len(pending), step):
                self._tell(f"{model.settings.label} rates, seeing {spec.name}{model.status}", writer)
                batch = pending[first : first + step]
                asks = [(item, self._ask(writer, policy_view, item, views[item.id])) for item in batch]
                writer.add_ratings(
                    [
                        RewardLine(
                            policy_view=policy_view,
                            rm=model.settings.label,
                            view=spec.name,
                            item=item.id,
                            draw=draw,
                            rating=rating,
                        )
                        for (item, _), rating in zip(asks, ratings_of(model, [ask for _, ask in asks]), strict=True)
                    ]
                )

    @staticmethod
    def _ask(writer: BonWriter, policy_view: str, item: Item, view: View | Missing) -> Ask | Missing:
        """All samples of an item are one ask, so that a long profile is read once."""
        if isinstance(view, Missing):
            return view
        texts = writer.samples[policy_view, item.id].texts
        return Ask(id=item.id, prompt=item.prompt, responses=texts, view=view)

    def _mark(self, writer: BonWriter) -> None:
        step = max(1, MARKED_AT_ONCE // self.settings.drawing.samples)
        for one in self.sets:
            name = one.settings.view.name
            pending = [item for item in self._sampled(writer, name) if (name, item.id) not in writer.marked]
            for start in range(0, len(pending), step):
                self._tell(f"{self.critic.name} marks what was written seeing {name}", writer)
                some = pending[start : start + step]
                drafts = [Draft(item=item, text=text) for item in some for text in writer.samples[name, item.id].texts]
                marks = iter(judged(self.critic, drafts))
                writer.add_marks(
                    [
                        MarkLine(
                            policy_view=name,
                            item=item.id,
                            marks=tuple(next(marks) for _ in writer.samples[name, item.id].texts),
                        )
                        for item in some
                    ]
                )


def ratings_of(model: LoadedModel, asks: Sequence[Ask | Missing]) -> list[Rating]:
    """A rating for each ask; unscored where there is nothing to ask."""
    sound = [ask for ask in asks if isinstance(ask, Ask)]
    rated = iter(rate(model.model, sound) if sound else [])
    return [next(rated) if isinstance(ask, Ask) else Rating(unscored=ask.reason) for ask in asks]
