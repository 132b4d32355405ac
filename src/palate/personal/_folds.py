"""Protocols: who is trained on and who is asked.

What a fold *trains on* has nothing to do with what it asks: no text, group or twin of a test item, none of its
private narrative, and under `seen` nothing that its user did at the same moment or later. Choices that share a text,
a group or a twin are one unit, which no split tears apart. What a test item is *shown with* is another thing, and is
decided for each item when its view is built: an unseen user's earlier judgements may be shown and adapted to, and
are never trained on.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from palate.data import (
    Digests,
    OnDisk,
    SameTexts,
    at_places,
    digest_of,
    holds,
    is_short,
    questions,
    text_key,
)
from palate.personal._pairs import Choice
from palate.records import Benchmark, Comparison, Judgement, PalateError, User, came_before

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]
LATER = 0.3
"""The part of each user's items, the latest, on which seen users are asked."""
PROTOCOLS = "seen, unseen, leave-out:category or leave-out:FIELD"


class Links:
    """Everything that ties one choice to others: texts that count as the same, its group, its twin and itself.

    A question alone ties nothing, since many tables ask one question in every row; short answers to the same
    question do.
    """

    def __init__(self, choices: Iterable[Choice]) -> None:
        self._texts = SameTexts(text for choice in choices for text in choice.responses)

    def of(self, choice: Choice) -> frozenset[str]:
        """Names; two choices that have one in common must not be torn apart."""
        long = (text for text in choice.responses if not is_short(text_key(text)))
        texts = (f"text\x00{number}" for text in long for number in self._texts.like(text))
        return frozenset((*texts, *_short_answers(choice), *_names(choice)))


def _short_answers(choice: Choice) -> Iterator[str]:
    """Each short response with each form of the question."""
    for key in map(text_key, choice.responses):
        if is_short(key):
            yield from (f"answer\x00{question}\x00{key}" for question in questions(choice.prompt, choice.responses))


def _names(choice: Choice) -> Iterator[str]:
    """A comparison itself, its twin and its group."""
    if isinstance(choice, Comparison):
        yield from (f"item\x00{name}" for name in (choice.id, choice.twin) if name)
        if choice.group:
            yield f"group\x00{choice.group}"


def units(choices: Sequence[Choice]) -> NDArray[np.intp]:
    """A code for each choice; two choices that share a text, group or twin, or are tied by others, have one code.

    The texts of a debate are compared with one another, so a debate is one unit; a question with its answers
    is another. Training on one pair of a unit tells about the texts of its other pairs.
    """
    texts = SameTexts(text for choice in choices for text in choice.responses)
    holders = np.repeat(
        np.arange(len(choices)), np.fromiter((len(choice.responses) for choice in choices), np.int32, len(choices))
    )
    long = ~texts.short[texts.given]
    names = Digests()
    places, linked = array("I"), array("I")
    named = ((place, _names(choice)) for place, choice in enumerate(choices))
    answers = ((place, _short_answers(choices[place])) for place in np.unique(holders[~long]).tolist())
    for place, links in chain(named, answers):
        for link in links:
            places.append(place)
            linked.append(names.add(digest_of(link)))
    # The choices come first, then all texts, then what else ties choices, as far as several hold it.
    first, second = len(choices), len(choices) + len(texts.short)
    one, other = texts.pairs()
    given, also = texts.given[long], np.array(linked, np.int64)
    like = np.bincount(np.concatenate([given, one, other]), minlength=len(texts.short))[given] > 1
    several = np.bincount(also, minlength=len(names))[also] > 1
    component = _components(
        np.concatenate([holders[long][like], first + one, np.array(places, np.int64)[several]]),
        np.concatenate([first + given[like], first + other, second + also[several]]),
        second + len(names),
    )
    return np.unique(component[: len(choices)], return_inverse=True)[1]


def _components(ones: NDArray[np.integer[Any]], others: NDArray[np.integer[Any]], size: int) -> NDArray[np.intp]:
    """For each of the nodes 0 to `size` - 1 a code; the first of the ones and the first of the others have one code,
    and so on, and those that are tied through others."""
    graph = coo_array((np.ones(len(ones), np.int8), (ones, others)), shape=(size, size))
    return connected_components(graph, directed=False)[1].astype(np.intp)


def spread(codes: NDArray[np.intp], parts: int, seed: int) -> NDArray[np.intp]:
    """For each unit a part, so that the parts hold like numbers of choices: largest first, to the emptiest."""
    sizes = np.bincount(codes)
    order = np.random.default_rng(seed).permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    room = np.zeros(parts)
    part_of = np.zeros(len(sizes), np.intp)
    for unit in order:
        part_of[unit] = room.argmin()
        room[part_of[unit]] += sizes[unit]
    return part_of


class Fold(msgspec.Struct, frozen=True, kw_only=True):
    """One split of a benchmark."""

    name: str
    train: Sequence[Comparison]
    trained_users: dict[str, User]
    """Those whose choices train the model, each with the history that may be learned from."""
    test: Sequence[Comparison]


def make_folds(benchmark: Benchmark, protocol: str = "seen", *, folds: int = 5, seed: int = 0) -> list[Fold]:
    """Split a benchmark by protocol.

    `seen`: users of the training data, on their later items. `unseen`: users never trained on.
    `leave-out:category`: each category in turn, its users seen elsewhere. `leave-out:FIELD`: each demographic
    group in turn, none of its users trained on.
    """
    if not benchmark.comparisons:
        raise PalateError(f"{benchmark.card.name} has no comparisons to train on")
    if len({item.user_id for item in benchmark.comparisons}) < 2:
        raise PalateError(
            f"{benchmark.card.name} has comparisons of one user only: nothing can be learned of how users differ. "
            "Use palate eval with a view of that user's history instead."
        )
    if folds < 2:
        raise PalateError(f"folds are counted from 2; {folds} was given")
    kind, _, field = protocol.partition(":")
    if kind == "seen" and not field:
        found = _seen(benchmark, folds, seed)
    elif kind == "unseen" and not field:
        parts = _user_folds(benchmark, folds, seed)
        if len(parts) == 1:
            raise PalateError(
                f"{benchmark.card.name} cannot be split by 'unseen': users who share a twin stay together, and twins "
                f"tie all {len(parts['1']):,} users to one another, so nobody is left to train on. The protocol seen "
                "can split it"
            )
        found = _unseen(benchmark, parts, folds, seed)
    elif protocol == "leave-out:category":
        found = _leave_out_category(benchmark)
    elif kind == "leave-out" and field:
        found = _unseen(benchmark, _groups(benchmark, field), folds, seed)
    else:
        raise PalateError(f"there is no protocol {protocol!r}; there are {PROTOCOLS}")
    found = [fold for fold in found if fold.test and fold.train]
    if not found:
        linked = int(np.bincount(units(benchmark.comparisons)).max())
        raise PalateError(
            f"{benchmark.card.name} cannot be split by {protocol!r}: nothing is left to train on once everything "
            "that shares a text, group or twin with a test item is taken away. Through texts that are the same or "
            f"nearly, groups and twins, {linked:,} of {len(benchmark.comparisons):,} choices hang together. Train "
            "with choices between other texts as well; where fixed phrases make texts alike, `palate data check` "
            "names them"
        )
    return found


def _seen(benchmark: Benchmark, folds: int, seed: int) -> list[Fold]:
    items = benchmark.comparisons
    later: dict[str, list[Comparison]] = {}
    earlier: set[str] = set()
    for user, own_items in _in_order(items).items():
        count = max(1, round(LATER * len(own_items))) if len(own_items) > 1 else 0
        later[user] = own_items[len(own_items) - count :]
        # Where all are told apart by the same fields, what is before the first is before the others.
        alike = len({(len(item.date or ""), item.sequence is None) for item in own_items}) == 1
        ahead = later[user][:1] if alike else later[user]
        earlier |= {
            item.id for item in own_items[: len(own_items) - count] if all(_is_before(item, other) for other in ahead)
        }
    asked = {item.id for own_items in later.values() for item in own_items}
    unit = units(items)
    part = spread(unit, min(folds, int(unit.max()) + 1), seed)[unit]
    tested, trained = (
        np.fromiter((item.id in chosen for item in items), np.bool_, len(items)) for chosen in (asked, earlier)
    )
    histories = _Histories(benchmark)
    found = []
    for number in range(int(part.max()) + 1):
        held = part == number
        found.append(histories.fold(f"{number + 1}", trained & ~held, tested & held, held, benchmark.users, later))
    return found


def _in_order(items: Sequence[Comparison]) -> dict[str, list[Comparison]]:
    """Each user's items, the oldest first; without dates or sequence, the file's order is the order."""
    found: dict[str, list[Comparison]] = {}
    for item in sorted(items, key=lambda item: (item.date or "", item.sequence or 0)):
        found.setdefault(item.user_id, []).append(item)
    return found


def _is_before(item: Comparison, later: Comparison) -> bool:
    """Whether an item is older than one that stands after it in order; not where only one of them says when it was."""
    dated = item.date is not None and later.date is not None
    in_sequence = item.sequence is not None and later.sequence is not None
    told = any(when is not None for one in (item, later) for when in (one.date, one.sequence))
    return came_before(item, later) and (dated or in_sequence or not told)


def _unseen(benchmark: Benchmark, parts: dict[str, set[str]], folds: int, seed: int) -> list[Fold]:
    """Each part of the users in turn; of units that others share, each part is asked about a share only."""
    items = benchmark.comparisons
    unit = units(items)
    sizes = np.bincount(unit)
    unit_part = spread(unit, min(folds, len(sizes)), seed)
    shares = int(unit_part.max()) + 1
    owner, names = _owners(items)
    histories = _Histories(benchmark)
    found = []
    for number, (name, users) in enumerate(parts.items()):
        theirs = np.array([user in users for user in names])[owner]
        owned = np.bincount(unit[theirs], minlength=len(sizes))
        asked = (owned == sizes) | ((owned > 0) & (unit_part == number % shares))
        held = asked[unit]
        found.append(histories.fold(name, ~theirs & ~held, theirs & held, held, set(benchmark.users) - users))
    return found


def _owners(items: Sequence[Comparison]) -> tuple[NDArray[np.int32], list[str]]:
    """For each item the place of its user in a list of all that have any, in order."""
    names = sorted({item.user_id for item in items})
    places = {name: place for place, name in enumerate(names)}
    return np.fromiter((places[item.user_id] for item in items), np.int32, len(items)), names


def _user_folds(benchmark: Benchmark, folds: int, seed: int) -> dict[str, set[str]]:
    """Users in parts of like numbers of items; users who share a twin stay together."""
    owner, users = _owners(benchmark.comparisons)
    twins = {item.twin for item in benchmark.comparisons if item.twin}
    places = {item.id: place for place, item in enumerate(benchmark.comparisons) if item.id in twins}
    tied = [(place, places[item.twin]) for place, item in enumerate(benchmark.comparisons) if item.twin in places]
    cluster = _components(owner[[one for one, _ in tied]], owner[[other for _, other in tied]], len(users))
    codes = cluster[owner]
    part = spread(codes, min(folds, int(codes.max()) + 1), seed)
    parts: dict[str, set[str]] = {}
    for place, user in enumerate(users):
        parts.setdefault(f"{part[cluster[place]] + 1}", set()).add(user)
    return dict(sorted(parts.items()))


def _groups(benchmark: Benchmark, field: str) -> dict[str, set[str]]:
    parts: dict[str, set[str]] = {}
    for user in benchmark.users.values():
        value = user.demographics.get(field)
        if isinstance(value, str):
            parts.setdefault(value, set()).add(user.id)
    if len(parts) < 2:
        fields = sorted({name for user in benchmark.users.values() for name in user.demographics})
        raise PalateError(
            f"leave-out:{field} needs a field with two groups or more; {benchmark.card.name} has "
            f"{', '.join(fields) or 'no demographics'}"
        )
    return dict(sorted(parts.items()))


def _leave_out_category(benchmark: Benchmark) -> list[Fold]:
    categories = sorted({item.category for item in benchmark.comparisons if item.category})
    if len(categories) < 2:
        raise PalateError(f"leave-out:category needs two categories or more; {benchmark.card.name} has fewer")
    unit = units(benchmark.comparisons)
    histories = _Histories(benchmark)
    found = []
    for category in categories:
        test = np.fromiter((item.category == category for item in benchmark.comparisons), np.bool_, len(unit))
        held = np.isin(unit, unit[test])
        found.append(histories.fold(category, ~held, test, held, benchmark.users))
    return found


class _Histories:
    """What of everybody's history a fold may train on. Made once for all folds of a split."""

    def __init__(self, benchmark: Benchmark) -> None:
        self._users, self._items = benchmark.users, benchmark.comparisons
        items, users = self._items, benchmark.users.values()
        others = [user for user in users if not (isinstance(items, OnDisk) and items.holds(user.judgements))]
        self._own: dict[str, dict[object, str]] = {user.id: {} for user in others if user.judgements}
        """Of users whose judgements are not lines of the table, by what such a line is known."""
        for item in items if self._own else ():
            if (own := self._own.get(item.user_id)) is not None:
                own[item.id] = own[item.prompt, item.responses] = item.id
        judged = [(user.id, judgement) for user in others for judgement in user.judgements]
        # Where every judgement is an item of the table, nothing else needs to be tied to what is held out.
        tied = any(self._item(judgement, user) is None for user, judgement in judged)
        self._links = Links([*benchmark.comparisons, *(judgement for _, judgement in judged)]) if tied else None
        self._telling = _telling_posts(benchmark)

    def fold(
        self,
        name: str,
        train: Mask,
        test: Mask,
        held: Mask,
        trained: Iterable[str],
        later: Mapping[str, Sequence[Comparison]] = MappingProxyType({}),
    ) -> Fold:
        """One split. `held` are all items of the units that are held out.

        `later` are those items of each user after which nothing of theirs may be learned from. Without it choices
        of any time are learned from, and posts from before the user's test items.
        """
        trained_on, tested = (at_places(self._items, np.flatnonzero(mask).data) for mask in (train, test))
        closed: set[str] = set()
        if self._links:
            closed.update(link for place in np.flatnonzero(held).data for link in self._links.of(self._items[place]))
        open_items = {item.id for item in trained_on} if self._own else set()
        telling = {post for item in tested for post in self._telling.get(item.id, ())} if self._telling else set()
        asked: dict[str, list[Comparison]] = {}
        for item in tested if any(user.posts for user in self._users.values()) else ():
            asked.setdefault(item.user_id, []).append(item)
        users = {}
        for user in (self._users[name] for name in sorted(trained)):
            ahead = later.get(user.id, ())
            judgements: Sequence[Judgement]
            if isinstance(user.judgements, OnDisk) and user.id not in self._own:
                lines = user.judgements.lines
                judgements = user.judgements.at(place for place, line in enumerate(lines) if train[line])
            else:
                judgements = tuple(
                    one for one in user.judgements if self._may_train(one, user.id, closed, open_items, ahead)
                )
            ahead = ahead or asked.get(user.id, ())
            posts = [
                post
                for place, post in enumerate(user.posts)
                if (user.id, place) not in telling and all(came_before(post, item) for item in ahead)
            ]
            users[user.id] = msgspec.structs.replace(user, judgements=judgements, posts=tuple(posts))
        return Fold(name=name, train=trained_on, trained_users=users, test=tested)

    def _may_train(
        self, judgement: Judgement, user: str, closed: set[str], open_items: set[str], ahead: Sequence[Comparison]
    ) -> bool:
        item = self._item(judgement, user)
        if item is not None:
            return item in open_items
        assert self._links is not None
        return closed.isdisjoint(self._links.of(judgement)) and all(came_before(judgement, other) for other in ahead)

    def _item(self, judgement: Judgement, user: str) -> str | None:
        """The item of the table that is the same choice as a judgement, which is trained on where that item is."""
        own = self._own.get(user, {})
        return own.get(judgement.id) or own.get((judgement.prompt, judgement.responses))


def _telling_posts(benchmark: Benchmark) -> dict[str, set[tuple[str, int]]]:
    """For each item the posts, by user and place, that hold one of its responses or its private narrative."""
    posts = [(user.id, place) for user in benchmark.users.values() for place in range(len(user.posts))]
    words = [text_key(post.text) for user in benchmark.users.values() for post in user.posts]
    found: dict[str, set[tuple[str, int]]] = {}
    if not posts:
        return found
    items = benchmark.comparisons
    narratives = [(item.id, text_key(item.privileged.narrative)) for item in items if item.privileged.narrative]
    parts = [(item.id, text_key(text)) for item in items for text in item.responses] + narratives
    for post, part in _held(words, [text for _, text in parts]):
        found.setdefault(parts[part][0], set()).add(posts[post])
    for narrative, post in _held([text for _, text in narratives], words):
        found.setdefault(narratives[narrative][0], set()).add(posts[post])
    return found


def _held(texts: Sequence[str], parts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The places of every text and part of which `holds` is true; all given by their keys.

    A text that holds a part has most of its trigrams, and so one of any few more than it may miss: only those pairs
    are compared that have one of the part's rarest in common.
    """
    trigrams = [_trigrams(part) for part in parts]
    counts = Counter(trigram for own in trigrams for trigram in own)
    places: dict[str, list[int]] = {}
    few = []
    for place, own in enumerate(trigrams):
        rarest = sorted(own, key=lambda trigram: (counts[trigram], trigram))
        for trigram in rarest[: len(own) // 5 + 1]:
            places.setdefault(trigram, []).append(place)
        few += [] if own else [place]
    for number, text in enumerate(texts):
        met = {place for trigram in _trigrams(text) for place in places.get(trigram, ())}
        yield from ((number, place) for place in sorted(met.union(few)) if holds(text, parts[place]))


def _trigrams(key: str) -> set[str]:
    words = key.split(" ")
    return {" ".join(words[start : start + 3]) for start in range(len(words) - 2)}
