"""From a benchmark's users to what a model may see of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from sys import intern

import msgspec

from palate.data import Digests, History, Item, Lines, digest_of, is_long, text_key
from palate.engine import Failure
from palate.records import Benchmark, Comparison, Judgement, PalateError, Part, Post, User, View
from palate.views._neighbours import Lack, Neighbours
from palate.views._render import (
    Budget,
    aspect_part,
    counter,
    demographics_part,
    fit,
    judgement_part,
    post_part,
    values_part,
)
from palate.views._retrievers import Retriever, Search, make_retriever, rank
from palate.views._spec import HISTORY, WRITTEN, Piece, ViewSpec
from palate.views._strangers import Closeness, Strangers
from palate.views._written import Writer

READ_BY_WRITER = (Piece("judgements", 4), Piece("posts", 8))
"""The history from which a language model writes a persona or a plan."""


NO_STRANGER = "nobody else has as much of such a profile from before this item"
NO_FURTHER_STRANGER = "no further stranger could be found"
"""Of an item that has fewer strangers than the view draws; what the others come to is its score."""
_MOST_SEEN = 2_048
"""Histories as items see them that are kept in mind."""
_MOST_MATCHES = 2**23
"""Bytes from which the strangers that were drawn are kept in a file."""
_MOST_TOPICS = 2**26
"""Characters of prompts whose topics are kept in mind."""
NEARLY = 0.1
"""By how much two shares of choices about a category may differ beyond twofold: of few choices they are rough."""


class Missing(msgspec.Struct, frozen=True):
    """Why an item cannot have this view."""

    reason: str


class _Subject(msgspec.Struct, frozen=True):
    """Whose history a view shows, and at most how much of each kind."""

    user: User
    amounts: dict[str, int]
    closeness: Closeness | None = None
    near: dict[str, Counter[int]] = {}
    """For a stranger, how many pieces of each kind should be how near to the item, as the user's own are."""


class _Match(msgspec.Struct, frozen=True, array_like=True):
    """A stranger's `_Subject` as it is written down."""

    user: str
    amounts: dict[str, int]
    closeness: Closeness | None
    near: dict[str, dict[int, int]]


_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(list[_Match])


class _History(msgspec.Struct):
    """What of somebody's history one item is shown with."""

    parts: list[list[Part]] = []
    """For each piece of the view that is history, its parts in order of relevance."""
    events: list[Post | Judgement] = []
    """What those parts show, as far as it is the person's own."""
    withheld: int = 0
    neighbours: set[str] = set()
    """Whose history fills up these parts, or what a writer read."""


class ViewBuilder:
    """Builds any view of any item of one benchmark; the same item always gets the same view.

    `whole` is the benchmark that this one is a part of, as in a fold: it tells who is whose twin. `known` tells of
    how many choices a trained model knows each user, so that the view `user` of a stranger is matched in that.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        *,
        retriever: str = "bm25",
        budget: Budget | None = None,
        seed: int = 0,
        writer: Writer | None = None,
        whole: Benchmark | None = None,
        known: Mapping[str, int] | None = None,
    ) -> None:
        self._benchmark = benchmark
        self.retriever: Retriever = make_retriever(retriever, seed=seed)
        self._budget = budget
        self._writer = writer
        self._count = counter(budget.unit) if budget else None
        self.history = History(whole or benchmark)
        self._strangers = Strangers(whole or benchmark, set(benchmark.users), self.history, seed=seed)
        self._neighbours = Neighbours(benchmark.users, self._strangers, self.history, self.retriever)
        self._matched, self._matches = Digests(), Lines(held=_MOST_MATCHES)
        """The views and items for which strangers were drawn, and who: each draw asks again, after all items."""
        self._seen: dict[tuple[str, str, str], tuple[User, Item, list[Post] | list[Judgement], int]] = {}
        self._category_of = _Categories(whole or benchmark)
        self._topics: dict[str, tuple[str, str | None]] = {}
        self._topic_characters = 0
        self._whole = whole or benchmark
        self._asked_of: dict[str, Counter[str]] = {}
        self._known = known if known is not None else _choices(whole or benchmark)

    def require(self, spec: ViewSpec) -> None:
        """Refuse a view that this benchmark cannot give to anybody."""
        users = self._benchmark.users.values()
        name = self._benchmark.card.name
        if spec.whose == "swapped" and len(users) < 2:
            raise PalateError(f"the view {spec.name!r} needs a stranger, and {name} has one user only")
        if spec.neighbours and len(users) < 2:
            raise PalateError(f"the view {spec.name!r} needs similar users, and {name} has one user only")
        if spec.neighbours and self.retriever.name == "recent":
            raise PalateError("the retriever 'recent' cannot tell which users are similar; use bm25 or minilm")
        if spec.whose == "twin" and not any(item.twin for item in self._benchmark.comparisons):
            raise PalateError(f"the view {spec.name!r} needs twins, and {name} has none; use swapped instead")
        if spec.whose == "co-annotator" and not self._strangers.share_pairs(self._benchmark.comparisons):
            raise PalateError(
                f"the view {spec.name!r} needs pairs that several users judged, twins apart, and {name} has none; "
                "use swapped"
            )
        items = chain[Item](self._benchmark.comparisons, self._benchmark.completions)
        if spec.shows("oracle") and not any(item.privileged.aspects for item in items):
            raise PalateError(f"the view 'oracle' needs rubric aspects, and {name} has none")
        if any(spec.shows(kind) for kind in WRITTEN):
            if self._writer is None:
                raise PalateError(f"the view {spec.name!r} is written by a language model; name one: --writer smollm2")
            if not any(user.posts or user.judgements for user in users):
                raise PalateError(f"the view {spec.name!r} is written from history, and no user of {name} has any")
        for kind in ("posts", "judgements", "demographics", "values"):
            if spec.shows(kind) and not any(getattr(user, kind) for user in users):
                raise PalateError(
                    f"the view {spec.name!r} shows {kind}, and no user of {name} has any; "
                    f"there is: {', '.join(self.kinds()) or 'nothing'}"
                )

    def kinds(self) -> list[str]:
        """What this benchmark knows of at least one user."""
        users = self._benchmark.users.values()
        kinds = ("posts", "judgements", "demographics", "values")
        return [kind for kind in kinds if any(getattr(user, kind) for user in users)]

    def build(self, spec: ViewSpec, items: Sequence[Item], draw: int = 0) -> list[View | Missing]:
        """The view of each item, in a view of strangers with the one of this draw.

        Retrieval happens for all items at once.
        """
        whose = [self._whose(spec, item, draw) for item in items]
        shown = self._histories(spec.pieces, items, whose, neighbours=spec.neighbours)
        written = self._written(spec, items, whose, shown)
        return [
            subject if isinstance(subject, Missing) else self._view(spec, item, subject, history, words)
            for item, subject, history, words in zip(items, whose, shown, written, strict=True)
        ]

    @cached_property
    def _owners_of_twins(self) -> dict[str, str]:
        """Whose each item is that is another's twin."""
        twins = {item.twin for item in self._benchmark.comparisons if item.twin}
        items = chain[Item](self._benchmark.completions, self._benchmark.comparisons)
        return {item.id: item.user_id for item in items if item.id in twins}

    @cached_property
    def _items_of(self) -> dict[str, list[Comparison]]:
        """Everybody's items; only views that call a user by name ask."""
        found: dict[str, list[Comparison]] = {}
        for item in self._whole.comparisons:
            found.setdefault(item.user_id, []).append(item)
        return found

    def _written(
        self,
        spec: ViewSpec,
        items: Sequence[Item],
        whose: Sequence[_Subject | Missing],
        shown: Sequence[_History],
    ) -> list[dict[str, list[Part] | Failure]]:
        """What a language model wrote for each item, by kind. A persona is the same for all of a user's items
        that see the same history; a plan is made for the question. The neighbours of whom the writer read are added
        to those who are shown."""
        found: list[dict[str, list[Part] | Failure]] = [{} for _ in items]
        kinds = [kind for kind in WRITTEN if spec.shows(kind)]
        if not kinds or self._writer is None:
            return found
        if "plan" in kinds:
            read = self._read_by_writer(spec, items, whose, shown, self.retriever)
            for one, parts in zip(found, self._writer.plans(read, [item.prompt for item in items]), strict=True):
                one["plan"] = parts
        if "persona" in kinds:
            read = self._read_by_writer(spec, items, whose, shown, make_retriever("recent"))
            for one, parts in zip(found, self._writer.personas(read), strict=True):
                one["persona"] = parts
        return found

    def _read_by_writer(
        self,
        spec: ViewSpec,
        items: Sequence[Item],
        whose: Sequence[_Subject | Missing],
        shown: Sequence[_History],
        retriever: Retriever,
    ) -> list[list[Part]]:
        """The person's own parts before those of others, which give way first where room is short."""
        read = self._histories(READ_BY_WRITER, items, whose, retriever, neighbours=spec.neighbours)
        for beside, history in zip(shown, read, strict=True):
            beside.neighbours |= history.neighbours
        return [sorted((part for some in one.parts for part in some), key=lambda part: part.borrowed) for one in read]

    def _whose(self, spec: ViewSpec, item: Item, draw: int) -> _Subject | Missing:
        own = self._benchmark.users[item.user_id]
        if spec.whose == "own":
            return _Subject(own, self._amounts(spec, own, item))
        if spec.whose == "twin":
            twin = self._owners_of_twins.get(getattr(item, "twin", None) or "")
            if twin is None:
                return Missing("this item has no twin")
            user = self._benchmark.users[twin]
            return _Subject(user, self._amounts(spec, user, item))
        found = self._matching(spec, item)
        if not found:
            return Missing("nobody else judged this pair" if spec.whose == "co-annotator" else NO_STRANGER)
        return found[draw] if draw < len(found) else Missing(NO_FURTHER_STRANGER)

    def _matching(self, spec: ViewSpec, item: Item) -> list[_Subject]:
        """As many strangers as the view wants who can show what the user shows: as many pieces of each kind, as many
        of them about the item's own question, and as many about its category.

        Where they are too few, those who come nearest and can show at least half as many. What a trained model knows
        of somebody cannot be cut to a number, so there a stranger is known by half to twice as many choices, and half
        to twice as large a share of them is about the item's category.
        """
        key = digest_of(f"{spec.name}\x00{spec.draws}\x00{item.id}")
        if spec.draws > 1 and (number := self._matched.number(key)) is not None:
            return [
                _Subject(
                    self._benchmark.users[one.user],
                    one.amounts,
                    one.closeness,
                    {kind: Counter(near) for kind, near in one.near.items()},
                )
                for one in _DECODER.decode(self._matches.read(number)[0])
            ]
        own = self._benchmark.users[item.user_id]
        needed = self._amounts(spec, own, item)
        near = {kind: self._nearness(own, kind, item, needed[kind]) for kind in HISTORY if needed.get(kind)}
        share = self._share_near(own, item) if spec.shows("user") else 0.0
        enough: list[_Subject] = []
        half: list[tuple[int, _Subject]] = []
        for user_id, closeness in self._strangers.of(item, co_annotators=spec.whose == "co-annotator"):
            user = self._benchmark.users[user_id]
            there = self._amounts(spec, user, item)
            if not needed.get("user", 0) <= 2 * there.get("user", 0) <= 4 * needed.get("user", 0):
                continue
            if spec.shows("user") and not share / 2 - NEARLY <= self._share_near(user, item) <= 2 * share + NEARLY:
                continue
            shown = {kind: min(there[kind], count) for kind, count in needed.items() if kind != "user"}
            subject = _Subject(user, shown, closeness, near)
            lacking = sum(needed[kind] - count for kind, count in shown.items())
            if lacking > sum(shown.values()):
                continue
            lacking += sum((wanted - self._nearness(user, kind, item)).total() for kind, wanted in near.items())
            if lacking:
                half.append((lacking, subject))
            else:
                enough.append(subject)
            if len(enough) == spec.draws:
                break
        half.sort(key=lambda one: one[0])
        found = (enough + [subject for _, subject in half])[: spec.draws]
        if spec.draws > 1:
            self._matched.add(key)
            matches = [_Match(one.user.id, one.amounts, one.closeness, dict(one.near)) for one in found]
            self._matches.append(_ENCODER.encode(matches))
        return found

    def _nearness(self, user: User, kind: str, item: Item, most: int | None = None) -> Counter[int]:
        """How many pieces of this kind are how near to the item: of all, or of the most relevant."""
        history = self._visible(user, kind, item)[0]
        if most is not None and most < len(history):
            [order] = rank(self.retriever, [_search(kind, item, history)])
            return Counter(self._near([history[index] for index in order[:most]], item))
        return Counter(self._near(history, item))

    def _share_near(self, user: User, item: Item) -> float:
        """The share of a user's other choices that are about the item's category, or else its question."""
        if user.id not in self._asked_of:
            choices = [*user.judgements, *self._items_of.get(user.id, ())]
            prompts = {(text_key(one.prompt), one.responses): text_key(one.prompt) for one in choices}.values()
            self._asked_of[user.id] = Counter(self._category_of.get(prompt) or prompt for prompt in prompts)
        counts = self._asked_of[user.id]
        itself = int(user.id == item.user_id)
        return max(0, counts[item.category or text_key(item.prompt)] - itself) / max(1, counts.total() - itself)

    def _near(self, events: Sequence[Post | Judgement], item: Item) -> list[int]:
        """Of each 2 where it is about the item's own question, 1 where it is about its category, else 0."""
        asked, found = text_key(item.prompt), []
        for event in events:
            if isinstance(event, Post):
                prompt, category = None, event.category
            else:
                prompt, category = self._topics.get(event.prompt) or self._topic(event.prompt)
            found.append(2 if prompt == asked else int(category is not None and category == item.category))
        return found

    def _topic(self, prompt: str) -> tuple[str, str | None]:
        """A prompt as it is compared, and the category of the items that ask it."""
        self._topic_characters += len(prompt)
        if self._topic_characters > _MOST_TOPICS:
            self._topics, self._topic_characters = {}, len(prompt)
        key = text_key(prompt)
        return self._topics.setdefault(prompt, (key, self._category_of.get(key)))

    def _amounts(self, spec: ViewSpec, user: User, item: Item) -> dict[str, int]:
        """How many pieces of each kind this user's view of the item shows."""
        pieces = list(spec.pieces)
        if any(piece.kind in WRITTEN for piece in pieces):
            pieces += READ_BY_WRITER
        if spec.neighbours:  # neighbours are found by these too
            pieces += (Piece("demographics"), Piece("values"))
        amounts: dict[str, int] = {}
        for piece in pieces:
            if piece.kind in ("posts", "judgements"):
                there = len(self._visible(user, piece.kind, item)[0])
                most = there if piece.most is None else min(there, piece.most)
                amounts[piece.kind] = max(amounts.get(piece.kind, 0), most)
            elif piece.kind == "user":
                amounts["user"] = self._known.get(user.id, 0)
            elif piece.kind in ("demographics", "values"):
                amounts[piece.kind] = int(bool(getattr(user, piece.kind)))
        return amounts

    def withheld(self, spec: ViewSpec, item: Item) -> int:
        """How much of the user's own history the view leaves out since it holds a text of the item."""
        user = self._benchmark.users[item.user_id]
        return sum(self._visible(user, piece.kind, item)[1] for piece in spec.pieces if piece.kind in HISTORY)

    def _visible(self, user: User, kind: str, item: Item) -> tuple[list[Post] | list[Judgement], int]:
        """What of a user may be shown for an item; a view asks several times in a row."""
        key = user.id, kind, item.id
        held = self._seen.get(key)
        if held is None or held[0] is not user or held[1] is not item:
            visible = (self.history.posts if kind == "posts" else self.history.judgements)(user, item)
            if len(self._seen) >= _MOST_SEEN or is_long(item):
                self._seen.clear()
            held = self._seen[key] = user, item, visible.events, visible.withheld
        return held[2], held[3]

    def _histories(
        self,
        pieces: Sequence[Piece],
        items: Sequence[Item],
        whose: Sequence[_Subject | Missing],
        retriever: Retriever | None = None,
        *,
        neighbours: int = 0,
    ) -> list[_History]:
        """What each item is shown of the history, filled up from that many neighbours where it is less than it might
        be."""
        retriever, pieces = retriever or self.retriever, [piece for piece in pieces if piece.kind in HISTORY]
        found = [_History() for _ in items]
        for piece in pieces:
            events: list[list[Post] | list[Judgement]] = []
            for one, item, subject in zip(found, items, whose, strict=True):
                shown, held_back = (
                    ([], 0) if isinstance(subject, Missing) else self._visible(subject.user, piece.kind, item)
                )
                events.append(shown)
                one.withheld += held_back
            searches = [_search(piece.kind, item, history) for item, history in zip(items, events, strict=True)]
            orders = rank(retriever, searches)
            for one, item, history, order, subject in zip(found, items, events, orders, whose, strict=True):
                most = 0 if isinstance(subject, Missing) else subject.amounts[piece.kind]
                most = most if piece.most is None else min(most, piece.most)
                shown_first = [history[index] for index in order]
                if not isinstance(subject, Missing) and piece.kind in subject.near:
                    shown_first = self._alike(shown_first, item, subject.near[piece.kind])
                one.events += shown_first[:most]
                one.parts.append([_part(event) for event in shown_first[:most]])
        if neighbours:
            self._fill_up(found, pieces, items, whose, retriever, neighbours)
        return found

    def _fill_up(
        self,
        found: Sequence[_History],
        pieces: Sequence[Piece],
        items: Sequence[Item],
        whose: Sequence[_Subject | Missing],
        retriever: Retriever,
        neighbours: int,
    ) -> None:
        """Add to each history what it is short of, from the most similar users: of all that these have, what fits the
        question best."""
        short: list[tuple[_History, Lack]] = []
        for one, item, subject in zip(found, items, whose, strict=True):
            kinds = [piece.kind for piece, own in zip(pieces, one.parts, strict=True) if len(own) < (piece.most or 0)]
            if kinds and not isinstance(subject, Missing):
                short.append((one, Lack(item, subject.user, one.events, kinds)))
        nearest = self._neighbours.nearest([lack for _, lack in short], neighbours)
        for place, piece in enumerate(pieces):
            lenders: list[list[tuple[str, Post | Judgement]]] = []
            for (one, lack), users in zip(short, nearest, strict=True):
                lent: list[tuple[str, Post | Judgement]] = []
                for user in users[::-1] if piece.kind in lack.kinds else ():  # of equals the last, the most similar
                    events, held_back = self._visible(user, piece.kind, lack.item)
                    lent += [(user.id, event) for event in events]
                    one.withheld += held_back
                lenders.append(lent)
            searches = [
                _search(piece.kind, lack.item, [event for _, event in lent])
                for (_, lack), lent in zip(short, lenders, strict=True)
            ]
            for (one, _), lent, order in zip(short, lenders, rank(retriever, searches), strict=True):
                for index in order[: (piece.most or 0) - len(one.parts[place])]:
                    lender, event = lent[index]
                    one.parts[place].append(_part(event, borrowed=True))
                    one.neighbours.add(lender)

    def _alike(self, history: Sequence[Post | Judgement], item: Item, near: Counter[int]) -> list[Post | Judgement]:
        """A stranger's history with as many near and far pieces in front as the user's own view shows."""
        left = Counter(near)
        front: list[Post | Judgement] = []
        rest: list[Post | Judgement] = []
        for event, nearness in zip(history, self._near(history, item), strict=True):
            (front if left[nearness] > 0 else rest).append(event)
            left[nearness] -= 1
        return front + rest

    def _view(
        self,
        spec: ViewSpec,
        item: Item,
        subject: _Subject,
        history: _History,
        written: dict[str, list[Part] | Failure],
    ) -> View | Missing:
        user = subject.user
        fixed: list[Part | None] = []
        for piece in spec.pieces:
            if piece.kind == "demographics" and subject.amounts[piece.kind]:
                fixed.append(demographics_part(user))
            elif piece.kind == "values" and subject.amounts[piece.kind]:
                fixed.append(values_part(user))
            elif piece.kind in WRITTEN:
                parts = written.get(piece.kind, [])
                if isinstance(parts, Failure):  # an empty view would say that nothing is known of this user
                    return Missing(parts.reason)
                fixed.extend(parts)
            elif piece.kind == "oracle":
                if not item.privileged.aspects:
                    return Missing("this item has no rubric aspects")
                fixed.extend(aspect_part(aspect) for aspect in item.privileged.aspects)
        shown = [part for part in fixed if part is not None]
        wanted = len(shown) + sum(map(len, history.parts))
        if self._budget and self._count:
            shown = fit(shown, history.parts, self._budget.amount, self._count)
        else:
            shown += [part for parts in history.parts for part in parts]
        return View(
            name=spec.name,
            parts=tuple(shown),
            user_id=user.id if spec.pieces else None,
            by_name=spec.shows("user"),
            dropped=wanted - len(shown),
            withheld=history.withheld,
            closeness=subject.closeness,
            neighbours=tuple(sorted(history.neighbours)),
        )


class _Categories:
    """The category of the items that ask a prompt, of the last where they differ. Prompts go by their keys."""

    def __init__(self, benchmark: Benchmark) -> None:
        self._prompts = Digests()
        self._categories: list[str] = []
        for item in chain[Item](benchmark.comparisons, benchmark.completions):
            if item.category:
                number = self._prompts.add(digest_of(text_key(item.prompt)))
                self._categories[number : number + 1] = [intern(item.category)]

    def get(self, prompt: str) -> str | None:
        number = self._prompts.number(digest_of(prompt))
        return None if number is None else self._categories[number]


def _choices(benchmark: Benchmark) -> Mapping[str, int]:
    """How many choices of each user a model could have been trained on."""
    counts = Counter(item.user_id for item in benchmark.comparisons)
    counts.update({user.id: len(user.judgements) for user in benchmark.users.values()})
    return counts


def _search(kind: str, item: Item, history: Sequence[Post | Judgement]) -> Search:
    return Search(f"{kind}\x00{item.id}", item.prompt, [_searched(event) for event in history])


def _searched(event: Post | Judgement) -> str:
    """A post is found by its text, a judgement by what was asked."""
    return event.text if isinstance(event, Post) else event.prompt


def _part(event: Post | Judgement, *, borrowed: bool = False) -> Part:
    if isinstance(event, Post):
        return post_part(event, borrowed=borrowed)
    return judgement_part(event, borrowed=borrowed)
