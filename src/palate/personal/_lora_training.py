"""How a language model is tuned: Bradley-Terry over responses that are read after what stands for their user.

Each choice is a lesson. For `lora` it is read after a view of its user that never shows the choice itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from palate.data import holds, text_key
from palate.personal._folds import Links, spread, units
from palate.personal._lora_classifier import Adapter, LoraSettings, TunedClassifier, TunedSettings
from palate.personal._method import Validate
from palate.personal._pairs import Choice
from palate.personal._tune import FEWEST_VALIDATING, MOST_VALIDATING, SHARE
from palate.records import Ask, Comparison, Judgement, PalateError, Part, Post, User, View, came_before
from palate.rewards import fit_view
from palate.views import demographics_part, judgement_part, post_part, values_part

if TYPE_CHECKING:
    import torch

Event = TypeVar("Event", Judgement, Post)
Report = Callable[[str], None]
NOBODY = View(name="none")


@dataclass(frozen=True)
class Lesson:
    """One choice to learn from: what is asked, which response was taken, and by whom."""

    choice: Choice
    user: str
    number: int
    """Its place among all choices; decides, with the seed, which views are drawn for it."""

    @property
    def preferred(self) -> int:
        """The place of the response that was taken."""
        return self.choice.preferred


class Histories:
    """What is known of each user, and what of it may be shown beside one of their choices.

    Nothing is shown that shares a text, a group or a twin with the choice, that did not come before it, or that holds
    one of the offered responses or the item's private narrative.
    """

    def __init__(self, choices: Mapping[str, Sequence[Choice]], users: Mapping[str, User]) -> None:
        self._links = Links(choice for own in choices.values() for choice in own)
        self._judgements = {
            user: [(_judgement(one), self._links.of(one)) for one in own] for user, own in choices.items()
        }
        self._users = users

    def drawn(self, lesson: Lesson, settings: LoraSettings, epoch: int) -> Ask:
        """With some of the history at random, another sample in each epoch; now and then with none."""
        draw = random.Random(f"{settings.seed} {epoch} {lesson.number}")
        if draw.random() < settings.impersonal:
            return ask_of(lesson.choice)
        judgements, posts = self._visible(lesson)
        judgements = _sample(draw, judgements, draw.randint(1, settings.most_judgements))
        posts = _sample(draw, posts, draw.randint(0, settings.most_posts))
        fixed = [part for part in _fixed(self._users.get(lesson.user)) if draw.random() < 0.5]
        return ask_of(lesson.choice, _view(fixed, judgements, posts))

    def whole(self, lesson: Lesson, settings: LoraSettings) -> Ask:
        """With as much of the history as a view may hold; always the same."""
        draw = random.Random(f"{settings.seed} {lesson.number}")
        judgements, posts = self._visible(lesson)
        judgements = _sample(draw, judgements, settings.most_judgements)
        posts = _sample(draw, posts, settings.most_posts)
        return ask_of(lesson.choice, _view(_fixed(self._users.get(lesson.user)), judgements, posts))

    def _visible(self, lesson: Lesson) -> tuple[list[Judgement], list[Post]]:
        own = self._links.of(lesson.choice)
        user = self._users.get(lesson.user)
        judgements = [
            one
            for one, links in self._judgements[lesson.user]
            if links.isdisjoint(own) and came_before(one, lesson.choice)
        ]
        posts = [
            post
            for post in (user.posts if user else ())
            if came_before(post, lesson.choice) and not _tells(post, lesson.choice)
        ]
        return judgements, posts


def _sample(draw: random.Random, events: Sequence[Event], most: int) -> list[Event]:
    return draw.sample(events, min(len(events), most))


def _tells(post: Post, choice: Choice) -> bool:
    """Whether a post holds one of the offered responses, or anything of the private narrative."""
    words = text_key(post.text)
    if any(holds(words, text_key(text)) for text in choice.responses):
        return True
    narrative = text_key(choice.privileged.narrative or "") if isinstance(choice, Comparison) else ""
    return bool(narrative) and (holds(words, narrative) or holds(narrative, words))


def remembered(user: User, choices: Sequence[Choice], settings: LoraSettings) -> tuple[Part, ...]:
    """What is kept of a user: the latest choices and posts, and what they say of themselves, in rendered words."""
    judgements = _latest([_judgement(one) for one in choices])[: settings.most_judgements]
    posts = _latest(user.posts)[: settings.most_posts]
    parts = _view(_fixed(user), judgements, posts).parts
    return tuple(Part(kind=part.kind, text=part.text.encode("utf-8", "replace").decode()) for part in parts)


def _latest(events: Sequence[Event]) -> list[Event]:
    """The most recent first; what has no date stands in the order of its listing, the last being the latest."""
    return sorted(events, key=lambda event: (event.date or "", event.sequence or 0))[::-1]


def _view(fixed: Sequence[Part], judgements: Sequence[Judgement], posts: Sequence[Post]) -> View:
    parts = (*fixed, *map(judgement_part, judgements), *map(post_part, posts))
    return View(name="history", parts=parts)


def _fixed(user: User | None) -> list[Part]:
    found = [demographics_part(user), values_part(user)] if user else []
    return [part for part in found if part is not None]


def ask_of(choice: Choice, view: View = NOBODY) -> Ask:
    return Ask(id=choice.id or "", prompt=choice.prompt, responses=choice.responses, view=view)


def _judgement(choice: Choice) -> Judgement:
    if not isinstance(choice, Comparison):
        return choice
    shared = ("id", "prompt", "responses", "preferred", "date", "sequence")
    return Judgement(**{field: getattr(choice, field) for field in shared})


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


class Split(NamedTuple):
    """Lessons to train on; of held-out users what may be known, and what they then choose about held-out units."""

    train: list[Lesson]
    told: list[Lesson]
    asked: list[Lesson]


def inner_split(lessons: Sequence[Lesson], seed: int) -> Split | None:
    """Some users and units held out; None where too few are left to validate on."""
    unit = units([lesson.choice for lesson in lessons])
    held_unit = (spread(unit, SHARE, seed)[unit] == 0).tolist()
    users = sorted({lesson.user for lesson in lessons})
    order = np.random.default_rng(seed).permutation(len(users))
    held_users = {users[place] for place in order[: len(users) // SHARE].tolist()}
    split = Split([], [], [])
    for one, held in zip(lessons, held_unit, strict=True):
        if one.user not in held_users:
            split.train.extend([] if held else [one])
        else:
            (split.asked if held else split.told).append(one)
    if len({one.user for one in split.asked}) < FEWEST_VALIDATING or not split.train:
        return None
    return split._replace(asked=split.asked[:MOST_VALIDATING])


def learn(
    adapter: Adapter,
    lessons: Sequence[Lesson],
    settings: TunedSettings,
    read: Callable[[Lesson, int], Read | None],
    loss: Callable[[Sequence[Read]], torch.Tensor],
    *,
    validate: Validate | None = None,
    report: Report | None = None,
) -> tuple[int, float | None]:
    """Learn from the lessons; the number of epochs that were worth it, and what `validate` then scored.

    A lesson is read again in each epoch, and `loss` gives one number for each choice that was read. With `validate`,
    the adapter is put back to where that was highest.
    """
    import torch

    say = report or (lambda what: None)
    descents = adapter.optimisers(settings)
    warm = [
        torch.optim.lr_scheduler.LambdaLR(one, lambda step: min(1.0, (step + 1) / max(1, settings.warm_up)))
        for one in descents
    ]
    best, best_epoch, kept = -float("inf"), 0, adapter.weights()
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        for epoch in range(1, settings.epochs + 1):
            adapter.train(True)
            learned = 0
            for done, step in _steps(lessons, settings, epoch):
                say(f"epoch {epoch} of at most {settings.epochs}, {done:,} of {len(lessons):,} choices")
                reads = [one for lesson in step if (one := read(lesson, epoch))]
                if reads:
                    _descend(adapter, reads, loss, descents, settings)
                    for rise in warm:
                        rise.step()
                    learned += len(reads)
            if not learned:
                raise PalateError(f"no choice fits {settings.most_tokens} tokens, so there is nothing to learn from")
            adapter.train(False)
            if validate is None:
                continue
            score = validate()
            if score > best:
                best, best_epoch, kept = score, epoch, adapter.weights()
            elif epoch - best_epoch >= settings.patience:
                break
    if validate is None:
        return settings.epochs, None
    adapter.put(kept)
    return max(1, best_epoch), best


def _steps(lessons: Sequence[Lesson], settings: TunedSettings, epoch: int) -> Iterator[tuple[int, list[Lesson]]]:
    """The lessons in this epoch's own order, a step at a time, with how many came before."""
    order = np.random.default_rng([settings.seed, epoch]).permutation(len(lessons)).tolist()
    for start in range(0, len(order), settings.choices_per_step):
        yield start, [lessons[place] for place in order[start : start + settings.choices_per_step]]


def _descend(
    adapter: Adapter,
    reads: Sequence[Read],
    loss: Callable[[Sequence[Read]], torch.Tensor],
    descents: Sequence[torch.optim.Optimizer],
    settings: TunedSettings,
) -> None:
    """One step: the mean loss of these choices, read as many at a time as there is room for."""
    import torch

    for descent in descents:
        descent.zero_grad()
    for some in batches(reads, settings.batch_tokens):
        (loss(some).sum() / len(reads)).backward()  # type: ignore[no-untyped-call]
    norm = torch.nn.utils.clip_grad_norm_(adapter.parameters, 1.0)
    if not torch.isfinite(norm):
        raise PalateError("training diverged: gradients are not finite numbers. Set a lower learning rate.")
    for descent in descents:
        descent.step()


def log_likelihood(classifier: TunedClassifier, reads: Sequence[Read], settings: TunedSettings) -> float:
    """The mean log-likelihood of choices."""
    import torch

    with torch.no_grad():
        found = [losses(classifier, some) for some in batches(reads, settings.batch_tokens)]
    return -float(torch.cat(found).mean())


def losses(classifier: TunedClassifier, reads: Sequence[Read]) -> torch.Tensor:
    """(choices,): minus the log-probability of what was taken, a softmax over all that was offered."""
    import torch

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


def read_choice(
    classifier: TunedClassifier, ask: Ask, preferred: int, settings: TunedSettings, before: Sequence[int] = ()
) -> Read | None:
    """The choice in tokens after those `before`, its view cut to what fits; None where it does not fit without one."""
    most = min(settings.most_tokens, classifier.context or settings.most_tokens) - len(before)
    fitted, _ = fit_view(ask, lambda one: classifier.count_tokens(classifier.request(one)), most)
    read = Read([[*before, *row] for row in classifier.rows(fitted)], preferred)
    return read if read.longest <= most + len(before) else None
