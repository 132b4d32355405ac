"""What of a person's history may be shown for an item: nothing later, and nothing that gives the answer away."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Generic, TypeVar

import msgspec

from palate.data._same_text import HELD, SameTexts, holds, is_short, text_key
from palate.records import Benchmark, Comparison, Completion, Judgement, Post, User, came_before

Item = Comparison | Completion
Event = TypeVar("Event", Post, Judgement)


MOST_KEPT = 20_000
"""Items whose texts are kept in mind: a server may be asked about any number."""


class Visible(msgspec.Struct, Generic[Event], frozen=True):
    """Pieces of history, oldest first, and how many more there would be did they not hold a text of the item."""

    events: list[Event]
    withheld: int


class _Judged(msgspec.Struct, frozen=True):
    """A judgement with what it is recognised by."""

    judgement: Judgement
    prompt: str
    groups: frozenset[int]
    short: frozenset[str]
    around: str
    """The words of the prompt and of the reason: a later turn of a conversation holds the answer of an earlier one."""


class _Offered(msgspec.Struct, frozen=True):
    """What an item must not be shown with."""

    prompt: str
    groups: frozenset[int]
    short: frozenset[str]
    long: tuple[str, ...]
    narrative: str


class History:
    """The histories of a benchmark's users, as far as they may be shown.

    A piece of history is withheld where it holds one of the item's responses (or, for a post, the item's private
    narrative): the same words, or nearly so, as `palate.data.SameTexts` has it. Of other people's histories nothing
    is compared in time but dates: a place in one person's sequence says nothing about another's.
    """

    def __init__(self, benchmark: Benchmark) -> None:
        self._benchmark = benchmark
        self._judged: dict[str, tuple[User, list[_Judged]]] = {}
        self._offers: dict[str, tuple[Item, _Offered]] = {}

    @cached_property
    def texts(self) -> SameTexts:
        """All responses of the benchmark, grouped by what counts as the same."""
        held = self._benchmark
        choices: list[Comparison | Judgement] = [*held.comparisons]
        choices += [one for user in held.users.values() for one in user.judgements]
        responses = [text for choice in choices for text in choice.responses]
        return SameTexts([*responses, *(text for item in held.completions for text in responses_of(item))])

    def posts(self, user: User, item: Item) -> Visible[Post]:
        """The user's posts that may be shown for the item."""
        earlier = [post for post in user.posts if _before(post, item, user)]
        if not earlier:
            return Visible([], 0)
        offered = self._offered(item)
        kept = [post for post in earlier if not _tells(text_key(post.text), offered)]
        return Visible(_oldest_first(kept), len(earlier) - len(kept))

    def judgements(self, user: User, item: Item) -> Visible[Judgement]:
        """The user's judgements that may be shown for the item."""
        earlier = [one for one in self._known(user) if _before(one.judgement, item, user)]
        if not earlier:
            return Visible([], 0)
        offered = self._offered(item)
        kept = [one.judgement for one in earlier if not _shares(one, offered)]
        return Visible(_oldest_first(kept), len(earlier) - len(kept))

    def wrote(self, user: User, item: Item) -> bool:
        """Whether the user is the author of one of the item's responses."""
        long = self._offered(item).long
        return any(holds(text_key(post.text), text) for post in user.posts for text in long)

    def _known(self, user: User) -> list[_Judged]:
        held, known = self._judged.get(user.id, (None, []))
        if held is not user:
            known = [self._recognised(one) for one in user.judgements]
            self._judged[user.id] = user, known
        return known

    def _recognised(self, judgement: Judgement) -> _Judged:
        groups, short, _ = self._split(judgement.responses)
        prompt = text_key(judgement.prompt)
        around = f" {prompt} {text_key(judgement.reason)} " if judgement.reason else f" {prompt} "
        return _Judged(judgement, prompt, groups, short, around)

    def _offered(self, item: Item) -> _Offered:
        held, offered = self._offers.get(item.id, (None, None))
        if offered is None or held is not item:
            groups, short, long = self._split(responses_of(item))
            narrative = text_key(item.privileged.narrative or "")
            offered = _Offered(text_key(item.prompt), groups, short, long, narrative)
            if len(self._offers) >= MOST_KEPT:
                self._offers.clear()
            self._offers[item.id] = item, offered
        return offered

    def _split(self, texts: Iterable[str]) -> tuple[frozenset[int], frozenset[str], tuple[str, ...]]:
        keys = {text: text_key(text) for text in texts}
        long = [text for text, key in keys.items() if not is_short(key)]
        groups = frozenset(group for text in long for group in self.texts.groups(text))
        short = frozenset(key for key in keys.values() if is_short(key))
        return groups, short, tuple(keys[text] for text in long)


def responses_of(item: Item) -> tuple[str, ...]:
    """The texts among which an item's answer is."""
    if isinstance(item, Comparison):
        return item.responses
    return tuple(text for text in (item.text, *item.alternatives) if text)


def _shares(one: _Judged, offered: _Offered) -> bool:
    if not one.groups.isdisjoint(offered.groups):
        return True
    if one.prompt == offered.prompt and not one.short.isdisjoint(offered.short):
        return True
    return any(len(text) >= HELD and f" {text} " in one.around for text in offered.long)


def _tells(post: str, offered: _Offered) -> bool:
    if any(holds(post, text) for text in offered.long):
        return True
    return bool(offered.narrative) and (holds(post, offered.narrative) or holds(offered.narrative, post))


def _before(event: Post | Judgement, item: Item, user: User) -> bool:
    if user.id == item.user_id:
        return came_before(event, item)
    if event.date is None or item.date is None:
        return True
    shared = min(len(event.date), len(item.date))
    return event.date[:shared] < item.date[:shared]


def _oldest_first(events: list[Event]) -> list[Event]:
    """By date, then by sequence, then as listed; a benchmark without either lists the oldest first."""
    return sorted(events, key=lambda event: (event.date or "", event.sequence or 0))
