"""Samples of a policy, drawn once and shared by every reward model, critic and run that asks for the same.

samples/<policy>-<hash>/settings.json    all that decides what is drawn
samples/<policy>-<hash>/samples.jsonl    one line for each item, append-only
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from palate.downstream._policy import Drawing, write_request
from palate.engine import Failure, LanguageModel, Written, at_work, portion
from palate.records import PalateError, View, running_command
from palate.report import Document
from palate.runs import (
    Experiment,
    Fingerprint,
    Item,
    Ledger,
    Reading,
    Run,
    RunSettings,
    RunSummary,
    ViewedSettings,
    begin_run,
    file_name,
    is_written,
    ranks,
    write_whole,
)
from palate.runs._experiment import DEFAULT_READING
from palate.storage import hold
from palate.views import Budget, Missing, ViewBuilder, ViewSpec

FEWEST_TEXTS, MOST_TEXTS = 64, 1024
"""Texts drawn before they are put on the disk: few at first, more where they come quickly."""
QUICK = 5.0
"""Seconds within which a batch may be followed by one of twice its size."""


class SampleSettings(RunSettings, frozen=True, kw_only=True):
    """All that decides what is drawn for an item; two sets with the same hash hold the same texts."""

    kind: Literal["samples"] = "samples"
    policy: str
    policy_fingerprint: str
    view: ViewSpec
    """What the policy sees of the user."""
    retriever: str = ""
    """Empty where the view picks nothing from a history."""
    writer: str | None = None
    budget: Budget | None = None
    drawing: Drawing

    @property
    def folder_name(self) -> str:
        """A name that any file system takes, with ten digits that change with any of the settings."""
        return f"{file_name(self.policy)}-{self.hash}"


def sample_settings(settings: ViewedSettings, policy: Fingerprint, drawing: Drawing, spec: ViewSpec) -> SampleSettings:
    """What decides the samples of a run under one policy view, and nothing that does not."""
    return SampleSettings(
        benchmark=settings.benchmark,
        content_hash=settings.content_hash,
        policy=policy.name,
        policy_fingerprint=policy.fingerprint,
        view=spec,
        retriever=f"{settings.retriever} {settings.retriever_fingerprint}" if ranks(spec) else "",
        writer=settings.writer if is_written(spec) else None,
        budget=settings.budget if spec.pieces else None,
        drawing=drawing,
        seed=settings.seed,
    )


class SampleLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was drawn for one item, or why nothing was. Empty texts are kept: a policy may choose to say nothing."""

    policy_view: str
    item: str
    texts: tuple[str, ...] = ()
    tokens: tuple[int, ...] = ()
    unfinished: tuple[int, ...] = ()
    """Which of the texts were cut off at the token limit."""
    parts: int = 0
    """How many pieces of the view the policy saw."""
    stranger: str | None = None
    """Whose view it was, where it was not the user's own."""
    neighbours: tuple[str, ...] = ()
    """Similar users from whose history the view was filled up."""
    note: str | None = None
    failed: str | None = None


SAMPLES = Ledger("samples.jsonl", SampleLine, lambda line: (line.policy_view, line.item))


class SharedSamples(Experiment[SampleSettings, RunSummary]):
    """Samples of a policy, which runs share. They have no report of their own."""

    kind = "samples"
    command = "palate bon"
    settings = SampleSettings
    has_report = False

    def ledgers(self, settings: SampleSettings) -> Sequence[Ledger[Any]]:
        """The samples alone; whose they are is told by the runs that use them."""
        return (SAMPLES,)

    def summarise(self, run: Run[SampleSettings], reading: Reading = DEFAULT_READING) -> RunSummary:
        """Refused: a report is about a run that used the samples."""
        raise _no_report(run)

    def document(self, run: Run[SampleSettings], summary: RunSummary, *, users: bool = True) -> Document:
        """Refused, for the same reason."""
        raise _no_report(run)


def _no_report(run: Run[SampleSettings]) -> PalateError:
    return PalateError(f"{run.folder} holds samples that runs share, and has no report: name a run that used them")


SHARED_SAMPLES = SharedSamples()


class SampleSet:
    """The samples of one policy under one view, on disk. Only what is missing is drawn."""

    def __init__(self, parent: Path, settings: SampleSettings) -> None:
        self.settings = settings
        self._parent = parent / "samples"
        self.folder = self._parent / settings.folder_name

    def known(self) -> dict[str, SampleLine]:
        """What was drawn already, by item."""
        return {line.item: line for line in SAMPLES.read(self.folder)}

    def draw(self, policy: LanguageModel, builder: ViewBuilder, items: Sequence[Item]) -> Iterator[list[SampleLine]]:
        """A few items at a time, in their order.

        What could not be drawn is told but not kept here, so that another run tries again.
        """
        known = self.known()
        if all(item.id in known for item in items):
            yield [known[item.id] for item in items]
            return
        texts, waiting = FEWEST_TEXTS, list(items)
        with _begin(self._parent, self.settings).writing() as writer:
            known = self.known()  # another process may have drawn some before the file was locked
            while waiting:
                step = max(1, texts // self.settings.drawing.samples)
                some, waiting = waiting[:step], waiting[step:]
                missing = [item for item in some if item.id not in known]
                begun, before = time.monotonic(), len(items) - len(waiting) - len(some)
                with portion(before / len(items), len(some) / len(items)):
                    drawn = dict(zip((item.id for item in missing), self._draw(policy, builder, missing), strict=True))
                writer.add(SAMPLES, [line for line in drawn.values() if line.failed is None])
                if time.monotonic() - begun < QUICK:
                    texts = min(2 * texts, MOST_TEXTS)
                yield [drawn.get(item.id) or known[item.id] for item in some]

    def _draw(self, policy: LanguageModel, builder: ViewBuilder, items: Sequence[Item]) -> list[SampleLine]:
        if not items:
            return []
        views = builder.build(self.settings.view, items)
        seen = [(item, view) for item, view in zip(items, views, strict=True) if isinstance(view, View)]
        asked = [write_request(policy, item, view, self.settings.drawing, self.settings.seed) for item, view in seen]
        with at_work("policy", policy.name):
            answers = policy.write([request for request, _, _ in asked])
        lines = {
            item.id: self._line(item, answer, parts, note, view)
            for (item, view), (_, parts, note), answer in zip(seen, asked, answers, strict=True)
        }
        for item, view in zip(items, views, strict=True):
            if isinstance(view, Missing):
                lines[item.id] = SampleLine(policy_view=self.settings.view.name, item=item.id, failed=view.reason)
        return [lines[item.id] for item in items]

    def _line(
        self, item: Item, answer: list[Written] | Failure, parts: int, note: str | None, view: View
    ) -> SampleLine:
        name = self.settings.view.name
        if isinstance(answer, Failure):
            return SampleLine(policy_view=name, item=item.id, failed=_encodable(answer.reason))
        if len(answer) != self.settings.drawing.samples:
            wanted = self.settings.drawing.samples
            return SampleLine(policy_view=name, item=item.id, failed=f"{len(answer)} texts came back, not {wanted}")
        return SampleLine(
            policy_view=name,
            item=item.id,
            texts=tuple(_encodable(written.text) for written in answer),
            tokens=tuple(written.tokens for written in answer),
            unfinished=tuple(index for index, written in enumerate(answer) if not written.finished),
            parts=parts,
            note=note,
            stranger=None if view.user_id in (None, item.user_id) else view.user_id,
            neighbours=view.neighbours,
        )


def keep_samples(run: Run[Any], settings: SampleSettings, shard: Path) -> None:
    """Share the samples of a merged run under one policy view; `shard` is the run folder of its first shard."""
    shared = SampleSet(run.folder.parent, settings)
    told, own = (place / "settings.json" for place in (SampleSet(shard.parent, settings).folder, shared.folder))
    hold(shared.folder)
    if told.is_file() and not own.is_file():  # with the versions that the samples were drawn with
        shared.folder.mkdir(parents=True, exist_ok=True)
        write_whole(own, told.read_bytes())
    with _begin(shared.folder.parent, settings).writing() as writer:
        lines = (line for line in run.read(SAMPLES) if line.policy_view == settings.view.name)
        writer.add(SAMPLES, [line for line in lines if line.failed is None])


def _begin(parent: Path, settings: SampleSettings) -> Run[SampleSettings]:
    """Without the command line: many commands share the samples."""
    with running_command(""):
        return begin_run(parent, SHARED_SAMPLES, settings)


def _encodable(text: str) -> str:
    """A server's words may hold half a character; a file of UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode()
