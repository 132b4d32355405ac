"""Training choices as asks: each with a view of its user that never shows the choice itself."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from palate.data import holds, text_key
from palate.personal._lora_settings import LoraSettings
from palate.personal._pairs import Choice
from palate.personal._units import Links
from palate.records import Ask, Comparison, Judgement, Part, Post, User, View, came_before
from palate.views import demographics_part, judgement_part, post_part, values_part

Event = TypeVar("Event", Judgement, Post)


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
            return _ask(lesson.choice, View(name="none"))
        judgements, posts = self._visible(lesson)
        judgements = draw.sample(judgements, min(len(judgements), draw.randint(1, settings.most_judgements)))
        posts = draw.sample(posts, min(len(posts), draw.randint(0, settings.most_posts)))
        fixed = [part for part in _fixed(self._users.get(lesson.user)) if draw.random() < 0.5]
        return _ask(lesson.choice, _view(fixed, judgements, posts))

    def whole(self, lesson: Lesson, settings: LoraSettings) -> Ask:
        """With as much of the history as a view may hold; always the same."""
        draw = random.Random(f"{settings.seed} {lesson.number}")
        judgements, posts = self._visible(lesson)
        judgements = draw.sample(judgements, min(len(judgements), settings.most_judgements))
        posts = draw.sample(posts, min(len(posts), settings.most_posts))
        return _ask(lesson.choice, _view(_fixed(self._users.get(lesson.user)), judgements, posts))

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


def _ask(choice: Choice, view: View) -> Ask:
    return Ask(id=choice.id or "", prompt=choice.prompt, responses=choice.responses, view=view)


def _judgement(choice: Choice) -> Judgement:
    if not isinstance(choice, Comparison):
        return choice
    return Judgement(
        id=choice.id,
        prompt=choice.prompt,
        responses=choice.responses,
        preferred=choice.preferred,
        date=choice.date,
        sequence=choice.sequence,
    )
