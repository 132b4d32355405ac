"""What of a person's history may be shown for an item: nothing later, and nothing that gives the answer away."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from sys import intern
from typing import Generic, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from palate.data._digests import Digests, digest_of
from palate.data._on_disk import Lines, OnDisk
from palate.data._same_text import HELD, SameTexts, holds, is_short, questions, text_key
from palate.records import Benchmark, Comparison, Completion, Dated, Judgement, Post, User, came_before

Item = Comparison | Completion
Event = TypeVar("Event", Post, Judgement)
AnyItem = TypeVar("AnyItem", bound=Item)


TRAITS = ("demographics", "values")
MOST_KEPT = 20_000
"""Items whose texts are kept in mind: a server may be asked about any number."""
LONGEST_KEPT = 50_000
"""Characters of an item, beyond which it is the only one kept in mind: a request may hold many millions."""
ENOUGH_PEOPLE = 5
"""In a group of so many there are three strangers for each, besides a twin."""
_RUN = 8
"""Words by which an answer is looked up in a prompt."""
_PLACES = 32
"""Bits for the place of a judgement in its user's history."""
_PLACE = 2**_PLACES - 1


class Visible(msgspec.Struct, Generic[Event], frozen=True):
    """Pieces of history, oldest first, and how many more there would be did they not hold a text of the item."""

    events: list[Event]
    withheld: int


class _Past:
    """One user's judgements, and what each of them is recognised by."""

    def __init__(self, user: User, split: Callable[[Iterable[str]], _Texts], lines: Lines | None) -> None:
        self.user = user
        judgements = tuple(user.judgements)
        moments = [(one.date or "", one.sequence or 0) for one in judgements]
        self.oldest_first = array("I", sorted(range(len(judgements)), key=moments.__getitem__))
        """The places of the judgements by date, then by sequence, then as listed."""
        dates = [intern(judgements[place].date or "") for place in self.oldest_first]
        alike = len(set(map(len, dates))) == 1 and all(one.sequence is None for one in judgements)
        self._dates = dates if alike else []
        """Where all are told apart by dates alone, as precise as each other: those dates, in order."""
        sequences = [judgements[place].sequence for place in self.oldest_first]
        self._moments = [] if alike else list(map(_Moment, dates, sequences))
        """Elsewhere when each judgement was made, in order."""
        self._by_short: dict[tuple[str, str], list[int]] = {}
        by_text: list[int] = []
        by_turn: list[int] = []
        around: list[str] = []
        for place, judgement in enumerate(judgements):
            texts, prompt = split(judgement.responses), text_key(judgement.prompt)
            by_text += [number << _PLACES | place for number in texts.numbers]
            by_turn += [run << _PLACES | place for _, run in _turns(judgement)]
            for known in _short_answers(texts, judgement.prompt, judgement.responses):
                self._by_short.setdefault(known, []).append(place)
            reason = f"{text_key(judgement.reason)} " if judgement.reason else ""
            around.append(f" {prompt} {reason}")
        self._by_text = array("Q", sorted(by_text))
        """The numbers of long texts, each with the place of a judgement that holds it; there are many of these."""
        self._by_turn = array("Q", sorted(by_turn))
        """Eight words of what a later prompt of the talk quotes, each with the place of its judgement."""
        self._lines, self._line = lines, 0 if lines is None else len(lines)
        self._held = "\n".join(around)
        if lines is not None:
            lines.append(self._held.encode("utf-8", "surrogatepass"))
            self._held = ""

    @property
    def _around(self) -> str:
        """The words of the prompt and of the reason: a later turn of a conversation holds the answer of an earlier.

        Of judgements that stay on the disk they do, too.
        """
        return self._held if self._lines is None else self._lines.read(self._line)[0].decode("utf-8", "surrogatepass")

    def earlier(self, item: Item) -> Sequence[int]:
        """The places of the judgements from before the item, the oldest first."""
        if self._dates and item.date and len(item.date) == len(self._dates[0]):
            return self.oldest_first[: bisect_left(self._dates, item.date)]
        moments = self._moments or (_Moment(date, None) for date in self._dates)
        return [place for place, made in zip(self.oldest_first, moments, strict=True) if _before(made, item, self.user)]

    def talked_on(self, item: Item) -> set[int]:
        """The places of the judgements that the item's prompt quotes a response of: it goes on with their talk."""
        likely = {place for run in _runs_of(item.prompt) for place in _places(self._by_turn, run)}
        prompt = f" {text_key(item.prompt)} " if likely else ""
        judgements = self.user.judgements
        return {place for place in likely if any(f" {turn} " in prompt for turn, _ in _turns(judgements[place]))}

    def telling(self, offered: _Offered) -> set[int]:
        """The places of the judgements that hold a text of the item."""
        found: set[int] = set()
        for number in offered.like:
            found.update(_places(self._by_text, number))
        for known in offered.short:
            found.update(self._by_short.get(known, ()))
        words = self._around if offered.quoted else ""
        for text in offered.quoted:
            if text in words:
                found.update(place for place, around in enumerate(words.split("\n")) if text in around)
        return found


def _places(sorted_by: array[int], number: int) -> Iterator[int]:
    first, end = (bisect_left(sorted_by, one << _PLACES) for one in (number, number + 1))
    return (sorted_by[entry] & _PLACE for entry in range(first, end))


def _turns(judgement: Judgement) -> Iterator[tuple[str, int]]:
    """What a later prompt of the same talk quotes, with the number by which it is looked up there.

    That is a response, or a short one with what was asked, as anybody says it.
    """
    for key in map(text_key, judgement.responses):
        if len(key) >= HELD:
            yield key, _run(key.split(" ", _RUN)[:_RUN])
        else:  # the end, as many prompts begin alike
            turn = f"{text_key(judgement.prompt)} assistant {key}"
            yield turn, _run(turn.rsplit(" ", _RUN)[-_RUN:])


def _run(words: Sequence[str]) -> int:
    """Eight words as a number of 32 bits; of fewer the first one."""
    return int(hash(tuple(words if len(words) == _RUN else words[:1])) & _PLACE)


@lru_cache(maxsize=16)
def _runs_of(prompt: str) -> frozenset[int]:
    words = text_key(prompt).split(" ")
    runs = zip(*(words[first:] for first in range(_RUN)), strict=False)
    return frozenset(map(_run, (*runs, *((word,) for word in words))))


class _Texts(msgspec.Struct, frozen=True):
    """Some responses: the numbers of the long ones, the short ones themselves, and the long ones by their keys."""

    numbers: frozenset[int]
    short: frozenset[str]
    long: tuple[str, ...]
    strange: tuple[str, ...]
    """Those long ones that are not of this benchmark, as they are written."""


class _Offered(msgspec.Struct, frozen=True):
    """What an item must not be shown with."""

    texts: _Texts
    short: frozenset[tuple[str, str]]
    """The short responses, each with what was asked."""
    like: frozenset[int]
    """The numbers of all texts that count as the same as one of the responses."""
    quoted: tuple[str, ...]
    """Those that would not stand in another text by chance, as they would stand there."""
    narrative: str


class History:
    """The histories of a benchmark's users, as far as they may be shown.

    A piece of history is withheld where it holds one of the item's responses (or, for a post, the item's private
    narrative): the same words, or nearly so, as `palate.data.SameTexts` has it. Of other people's histories nothing
    is compared in time but dates: a place in one person's sequence says nothing about another's. Nor is anything shown
    that its author wrote or chose after the first item of the group that the item is of: on the same matter, it would
    tell by its content what no stranger's history tells. Comparisons of a group that is a category of several people
    keep what came before them, as strangers are drawn from it and can show as much. Where a prompt quotes a response
    of an earlier choice, as the later turns of a talk do, that choice is not shown, whatever the group.
    """

    def __init__(self, benchmark: Benchmark) -> None:
        self._benchmark = benchmark
        self._pasts: dict[str, _Past] = {}
        self._offers: dict[str, tuple[Item, _Offered]] = {}

    @cached_property
    def texts(self) -> SameTexts:
        """All responses of the benchmark, grouped by what counts as the same."""
        held = self._benchmark
        items = held.comparisons
        past = (user.judgements for user in held.users.values())
        own = (text for item in held.completions for text in responses_of(item))
        if isinstance(items, OnDisk):
            others = chain.from_iterable(some for some in past if not items.holds(some))
            return SameTexts(chain((text for one in chain(items, others) for text in one.responses), own))
        choices: list[Comparison | Judgement] = [*items, *chain.from_iterable(past)]
        offered = {id(choice.responses): choice.responses for choice in choices}  # a judgement that is an item shares
        return SameTexts(chain(chain.from_iterable(offered.values()), own))

    @cached_property
    def _groups(self) -> dict[str, dict[str, _Start]]:
        """By group of several items, when each of its people was first asked in it."""
        items = (self._benchmark.completions, self._benchmark.comparisons)
        seen, several = Digests(), set[str]()
        for item in chain[Item](*items):
            if item.group and seen.number(digest := digest_of(item.group)) is not None:
                several.add(item.group)
            elif item.group:
                seen.add(digest)
        return _starts(item for item in chain[Item](*items) if item.group in several)

    @cached_property
    def _talks(self) -> set[tuple[str, str | None]]:
        """Whoever chose several times in a group, with the group."""
        times = Counter((one.user_id, one.group) for one in self._benchmark.comparisons if one.group in self._groups)
        return {one for one, often in times.items() if often > 1}

    @cached_property
    def _of_strangers(self) -> set[str]:
        """The groups of which strangers can show as much: they are drawn from the item's category first, so these are
        the groups that are a category, of enough people that a twin may be among them."""
        people: dict[str | None, set[str]] = {}
        categories: dict[str, set[str | None]] = {}
        for item in chain[Item](self._benchmark.completions, self._benchmark.comparisons):
            people.setdefault(item.category, set()).add(item.user_id)
            if item.group in self._groups:
                categories.setdefault(item.group, set()).add(item.category)
        return {
            group
            for group, within in categories.items()
            if len(self._groups[group]) >= ENOUGH_PEOPLE
            and within != {None}
            and all(people[category] <= self._groups[group].keys() for category in within)
        }

    def _begun(self, user: User, item: Item) -> Item:
        """The item as of the user's first one of its group, where the group tells a matter that only its people know.

        For choices, strangers of the group count like the user: what only some of them show would be no control.
        """
        own = user.id == item.user_id
        start = self._groups.get(item.group, {}).get(user.id) if item.group else None
        if not own and (user.id, item.group) not in self._talks:
            start = None
        if start is None or (isinstance(item, Comparison) and item.group in self._of_strangers):
            return item
        return _from_start(item if own else replace(item, user_id=user.id), start)

    def posts(self, user: User, item: Item) -> Visible[Post]:
        """The user's posts that may be shown for the item."""
        earlier = [post for post in user.posts if _before(post, item, user)]
        begins = self._begun(user, item) if earlier else item
        if begins is not item:
            earlier = [post for post in earlier if _before(post, begins, user)]
        if not earlier:
            return Visible([], 0)
        offered = self._offered(item)
        kept = [post for post in earlier if not _tells(text_key(post.text), offered.texts.long, offered.narrative)]
        oldest_first = sorted(kept, key=lambda post: (post.date or "", post.sequence or 0))
        return Visible(oldest_first, len(earlier) - len(kept))

    def judgements(self, user: User, item: Item) -> Visible[Judgement]:
        """The user's judgements that may be shown for the item."""
        if not user.judgements:
            return Visible([], 0)
        past = self._past(user)
        telling, earlier = past.telling(self._offered(item)), past.earlier(item)
        if earlier and (begins := self._begun(user, item)) is not item:
            before = set(past.earlier(begins))
            earlier = [place for place in earlier if place in before]
        if earlier and (talk := past.talked_on(item)):
            earlier = [place for place in earlier if place not in talk]
        kept = [user.judgements[place] for place in earlier if place not in telling]
        return Visible(kept, len(earlier) - len(kept))

    def traits(self, user: User, item: Item, kinds: Collection[str] = TRAITS) -> tuple[User, int]:
        """The user without those demographics and values that hold a text of the item, and how many these are."""
        values = [getattr(user, kind) for kind in TRAITS if kind in kinds]
        fields = [field for value in values for field in (value.values() if isinstance(value, dict) else [value])]
        if not any(fields):
            return user, 0
        # Not from what is kept of the item: for traits alone, the texts of the benchmark need not be compared.
        long = [key for key in map(text_key, responses_of(item)) if not is_short(key)]
        narrative = text_key(item.privileged.narrative or "")

        def telling(text: str) -> bool:
            return _tells(text_key(text), long, narrative)

        held: list[str] = []
        for value in fields:
            held += filter(telling, [value] if isinstance(value, str) else value)
        if not held:
            return user, 0
        kept = {
            name: value if isinstance(value, str) else [one for one in value if one not in held]
            for name, value in user.demographics.items()
            if value not in held
        }
        stated = tuple(one for one in user.values if one not in held)
        return replace(user, demographics={name: one for name, one in kept.items() if one}, values=stated), len(held)

    def withheld_judgements(self, user: User, item: Item) -> int:
        """How many of the user's earlier judgements hold a text of the item."""
        if not user.judgements:
            return 0
        past = self._past(user)
        return len(past.telling(self._offered(item)).intersection(past.earlier(item)))

    def wrote(self, user: User, item: Item) -> bool:
        """Whether the user is the author of one of the item's responses."""
        long = self._offered(item).texts.long
        return any(holds(text_key(post.text), text) for post in user.posts for text in long)

    @cached_property
    def _lines(self) -> Lines:
        """What the judgements of users ask, of those that stay on the disk."""
        return Lines()

    def _past(self, user: User) -> _Past:
        past = self._pasts.get(user.id)
        if past is None or past.user is not user:
            lines = self._lines if isinstance(user.judgements, OnDisk) else None
            past = self._pasts[user.id] = _Past(user, self._split, lines)
        return past

    def _offered(self, item: Item) -> _Offered:
        held, offered = self._offers.get(item.id, (None, None))
        if offered is None or (held is not item and held != item):  # what stays on the disk is another object each time
            texts = self._split(responses_of(item))
            narrative = text_key(item.privileged.narrative or "")
            quoted = tuple(f" {text} " for text in texts.long if len(text) >= HELD)
            like = frozenset(number for known in texts.numbers for number in self.texts.same(known))
            if texts.strange:
                like |= frozenset(number for text in texts.strange for number in self.texts.like(text))
            short = _short_answers(texts, item.prompt, responses_of(item))
            offered = _Offered(texts, short, like, quoted, narrative)
            if len(self._offers) >= MOST_KEPT or is_long(item):
                self._offers.clear()
            self._offers[item.id] = item, offered
        return offered

    def _split(self, texts: Iterable[str]) -> _Texts:
        keys = {text: text_key(text) for text in texts}
        long = {text: self.texts.number(text) for text, key in keys.items() if not is_short(key)}
        numbers = frozenset(number for number in long.values() if number is not None)
        short = frozenset(key for key in keys.values() if is_short(key))
        strange = tuple(text for text, number in long.items() if number is None)
        return _Texts(numbers, short, tuple(keys[text] for text in long), strange)


def responses_of(item: Item) -> tuple[str, ...]:
    """The texts among which an item's answer is."""
    if isinstance(item, Comparison):
        return item.responses
    return tuple(text for text in (item.text, *item.alternatives) if text)


def is_long(item: Item) -> bool:
    """Whether an item holds so much text that it is not kept in mind together with others."""
    return len(item.prompt) + sum(map(len, responses_of(item))) > LONGEST_KEPT


def _short_answers(texts: _Texts, prompt: str, responses: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Each short text with each form of the question."""
    if not texts.short:
        return frozenset()
    return frozenset((question, short) for question in questions(prompt, responses) for short in texts.short)


def _tells(post: str, responses: Iterable[str], narrative: str) -> bool:
    if any(holds(post, text) for text in responses):
        return True
    return bool(narrative) and (holds(post, narrative) or holds(narrative, post))


class _Moment(NamedTuple):
    """When something was said, as far as it is known; a date that is not known is empty."""

    day: str
    sequence: int | None

    @property
    def date(self) -> str | None:
        return self.day or None


def at_start_of_group(items: Iterable[Completion]) -> Iterator[Completion]:
    """Each dated where its group begins: by the earliest date that is known there, and the first place in a sequence.

    What the user wrote on the same matter since then would tell their text by its content.
    """
    items = tuple(items)
    groups = _starts(items)
    for item in items:
        yield _from_start(item, groups[item.group][item.user_id]) if item.group else item


class _Start(NamedTuple):
    """The earliest date and the first place that are known of a user's items of one group."""

    date: str | None
    sequence: int | None


def _starts(items: Iterable[Item]) -> dict[str, dict[str, _Start]]:
    groups: dict[str, dict[str, _Start]] = {}
    for item in items:
        if item.group:
            of = groups.setdefault(item.group, {})
            start = of.get(item.user_id, _Start(None, None))
            dates = [date for date in (start.date, item.date) if date is not None]
            places = [place for place in (start.sequence, item.sequence) if place is not None]
            of[item.user_id] = _Start(min(dates, default=None), min(places, default=None))
    return groups


def _from_start(item: AnyItem, start: _Start) -> AnyItem:
    if start == (item.date, item.sequence):
        return item
    return replace(item, date=start.date, sequence=start.sequence)


def _before(event: Dated, item: Item, user: User) -> bool:
    if user.id == item.user_id:
        return came_before(event, item)
    if event.date is None or item.date is None:
        return True
    shared = min(len(event.date), len(item.date))
    return event.date[:shared] < item.date[:shared]
