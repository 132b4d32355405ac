"""What every stage of a guided measurement needs, and the order of the stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from palate.downstream.guide._run import GuideWriter
from palate.downstream.guide._settings import GuideSettings
from palate.engine import LocalModel
from palate.records import Comparison, Critic, PalateError, View
from palate.runs import Item, LoadedModel, Progress
from palate.views import Missing, ViewBuilder, ViewSpec

Some = TypeVar("Some")
Line = TypeVar("Line")
Asked = TypeVar("Asked", bound=Item)


@dataclass(frozen=True)
class Measurement:
    """All that is needed to go through a run."""

    settings: GuideSettings
    items: Sequence[Item]
    policy: LocalModel
    builder: ViewBuilder
    models: Sequence[LoadedModel]
    critic: Critic | None
    report: Progress

    @property
    def lanes(self) -> int:
        """How many texts go on side by side; alone on a CPU, a text's numbers cannot hang on another's."""
        return 128 if self.policy.device.startswith("cuda") else 1

    @property
    def pairs(self) -> list[Comparison]:
        """The items with responses to tell apart."""
        return [item for item in self.items if isinstance(item, Comparison)]

    def rewards(self) -> Iterator[tuple[LoadedModel, ViewSpec]]:
        """Every reward model under every view."""
        for model in self.models:
            for spec in self.settings.views:
                yield model, spec

    def views(self, spec: ViewSpec, items: Sequence[Asked]) -> tuple[list[tuple[Asked, View]], dict[str, str]]:
        """What is seen of the users of some items; by item, why nothing is."""
        built = list(zip(items, self.builder.build(spec, items), strict=True))
        seen = [(item, view) for item, view in built if isinstance(view, View)]
        return seen, {item.id: view.reason for item, view in built if isinstance(view, Missing)}

    def tell(self, what: str, writer: GuideWriter) -> None:
        """How far the run is."""
        settings = self.settings
        shown, seen = len(settings.policy_views), len(self.models) * len(settings.views)
        total = len(self.pairs) * (shown + shown * seen + seen) if settings.accuracy else 0
        if self.critic is not None:
            texts = 1 + seen * (len(settings.weights) - 1)
            total += len(self.items) * shown * (2 * texts + seen)
        self.report(what, min(writer.done, total), total)


def chunks(items: Sequence[Some], step: int) -> Iterator[Sequence[Some]]:
    """A few at a time."""
    for start in range(0, len(items), step):
        yield items[start : start + step]


def side_by_side(
    items: Sequence[Some], lanes: int, work: Callable[[Sequence[Some]], list[Line]]
) -> Iterator[list[Line]]:
    """What comes of so many items at a time; where memory is too small for that, of half as many from then on."""
    start = 0
    while start < len(items):
        some = items[start : start + lanes]
        found: list[Line] | None = None
        try:
            found = work(some)
        except (RuntimeError, PalateError) as error:
            if len(some) == 1 or not _out_of_memory(error):
                raise
        if found is None:  # out here, since an error in hand keeps alive what filled the memory
            lanes = len(some) // 2
            continue
        yield found
        start += len(some)


def _out_of_memory(error: Exception) -> bool:
    """Also where a reward model's error has become one that names it."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or isinstance(error.__cause__, torch.OutOfMemoryError)
