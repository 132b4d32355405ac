"""The descent of `lora`: Bradley-Terry over responses that are read after a view."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from palate.personal._lora_classifier import Adapter, TunedClassifier
from palate.personal._lora_settings import LoraSettings
from palate.personal._lora_views import Histories, Lesson
from palate.personal._tune import FEWEST_VALIDATING, MOST_VALIDATING, SHARE
from palate.personal._units import spread, units
from palate.records import Ask, PalateError
from palate.rewards import fit_view

Report = Callable[[str], None]


@dataclass(frozen=True)
class Read:
    """One choice in tokens."""

    rows: list[list[int]]
    """For each response the whole conversation."""
    preferred: int

    @property
    def longest(self) -> int:
        """The length of the longest response's conversation."""
        return max(map(len, self.rows))


def inner_split(lessons: Sequence[Lesson], seed: int) -> tuple[list[Lesson], list[Lesson]] | None:
    """Lessons to train on, and others of held-out users about held-out units; None where those are too few."""
    unit = units([lesson.choice for lesson in lessons])
    held_unit = spread(unit, SHARE, seed)[unit] == 0
    users = sorted({lesson.user for lesson in lessons})
    order = np.random.default_rng(seed).permutation(len(users))
    held_users = {users[place] for place in order[: len(users) // SHARE].tolist()}
    train = [one for one, held in zip(lessons, held_unit, strict=True) if one.user not in held_users and not held]
    validate = [one for one, held in zip(lessons, held_unit, strict=True) if one.user in held_users and held]
    if len({one.user for one in validate}) < FEWEST_VALIDATING or not train:
        return None
    return train, validate[:MOST_VALIDATING]


def learn(
    classifier: TunedClassifier,
    adapter: Adapter,
    lessons: Sequence[Lesson],
    histories: Histories,
    settings: LoraSettings,
    validate: Sequence[Lesson] = (),
    report: Report | None = None,
) -> tuple[int, float | None]:
    """Learn from the lessons; the number of epochs that were worth it, and what `validate` then scored.

    With `validate`, the adapter is put back to where its users' choices were foretold best.
    """
    say = report or (lambda what: None)
    asked = [
        one for lesson in validate if (one := _read(classifier, histories.whole(lesson, settings), lesson, settings))
    ]
    descent = torch.optim.AdamW(adapter.parameters, lr=settings.learning_rate, weight_decay=0.0)
    warm = torch.optim.lr_scheduler.LambdaLR(descent, lambda step: min(1.0, (step + 1) / max(1, settings.warm_up)))
    best, best_epoch, kept = -float("inf"), 0, adapter.weights()
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        for epoch in range(1, settings.epochs + 1):
            adapter.train(True)
            learned = 0
            for done, step in _steps(lessons, settings, epoch):
                say(f"lora: epoch {epoch} of at most {settings.epochs}, {done:,} of {len(lessons):,} choices")
                asks = ((lesson, histories.drawn(lesson, settings, epoch)) for lesson in step)
                reads = [one for lesson, ask in asks if (one := _read(classifier, ask, lesson, settings))]
                if reads:
                    _descend(classifier, adapter, reads, descent, settings)
                    warm.step()
                    learned += len(reads)
            if not learned:
                raise PalateError(f"no choice fits {settings.most_tokens} tokens, so there is nothing to learn from")
            adapter.train(False)
            if not asked:
                continue
            score = foretold(classifier, asked, settings)
            if score > best:
                best, best_epoch, kept = score, epoch, adapter.weights()
            elif epoch - best_epoch >= settings.patience:
                break
    if not asked:
        return settings.epochs, None
    adapter.put(kept)
    return max(1, best_epoch), best


def _steps(lessons: Sequence[Lesson], settings: LoraSettings, epoch: int) -> Iterator[tuple[int, list[Lesson]]]:
    """The lessons in an order of this epoch's own, so many at a time, with how many came before."""
    order = np.random.default_rng([settings.seed, epoch]).permutation(len(lessons)).tolist()
    for start in range(0, len(order), settings.choices_per_step):
        yield start, [lessons[place] for place in order[start : start + settings.choices_per_step]]


def _descend(
    classifier: TunedClassifier,
    adapter: Adapter,
    reads: Sequence[Read],
    descent: torch.optim.Optimizer,
    settings: LoraSettings,
) -> None:
    """One step: the mean loss of these choices, read as many at a time as there is room for."""
    descent.zero_grad()
    for some in batches(reads, settings.batch_tokens):
        (losses(classifier, some).sum() / len(reads)).backward()  # type: ignore[no-untyped-call]
    norm = torch.nn.utils.clip_grad_norm_(adapter.parameters, 1.0)
    if not torch.isfinite(norm):
        raise PalateError("training went astray: gradients are not finite numbers. Set a lower learning rate.")
    descent.step()


def foretold(classifier: TunedClassifier, reads: Sequence[Read], settings: LoraSettings) -> float:
    """The mean log-likelihood of choices."""
    with torch.no_grad():
        found = [losses(classifier, some) for some in batches(reads, settings.batch_tokens)]
    return -float(torch.cat(found).mean())


def losses(classifier: TunedClassifier, reads: Sequence[Read]) -> Tensor:
    """(choices,): minus the log-probability of what was taken, a softmax over all that was offered."""
    rewards = classifier.rewards([row for read in reads for row in read.rows])
    own = torch.split(rewards, [len(read.rows) for read in reads])
    return torch.stack([-one.log_softmax(0)[read.preferred] for one, read in zip(own, reads, strict=True)])


def batches(reads: Sequence[Read], tokens: int) -> Iterator[list[Read]]:
    """Choices of like length together, each whole, so that with their filling they stay within a number of tokens."""
    some: list[Read] = []
    rows = 0
    for read in sorted(reads, key=lambda read: -read.longest):
        if some and (rows + len(read.rows)) * some[0].longest > tokens:
            yield some
            some, rows = [], 0
        some.append(read)
        rows += len(read.rows)
    if some:
        yield some


def _read(classifier: TunedClassifier, ask: Ask, lesson: Lesson, settings: LoraSettings) -> Read | None:
    """The choice in tokens, its view cut to what fits; None where it does not fit without one."""
    most = min(settings.most_tokens, classifier.context or settings.most_tokens)
    fitted, _ = fit_view(ask, lambda one: classifier.count_tokens(classifier.request(one)), most)
    read = Read(classifier.rows(fitted), lesson.preferred)
    return read if read.longest <= most else None
