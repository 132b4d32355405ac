"""From a benchmark's users to what a model may see of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import msgspec

from palate.engine import Failure
from palate.records import Benchmark, Judgement, PalateError, Part, Post, User, View
from palate.views._budget import Budget, counter, fit
from palate.views._history import Item, visible_judgements, visible_posts
from palate.views._render import aspect_part, demographics_part, judgement_part, post_part, values_part
from palate.views._retrievers import Retriever, Search, make_retriever
from palate.views._spec import WRITTEN, Piece, ViewSpec
from palate.views._strangers import Strangers
from palate.views._written import Writer

STRANGERS_TRIED = 200
READ_BY_WRITER = (Piece("judgements", 4), Piece("posts", 8))
"""The history from which a language model writes a persona or a plan."""


class Missing(msgspec.Struct, frozen=True):
    """Why an item cannot have this view."""

    reason: str


class ViewBuilder:
    """Builds any view of any item of one benchmark; the same item always gets the same view."""

    def __init__(
        self,
        benchmark: Benchmark,
        *,
        retriever: str = "bm25",
        budget: Budget | None = None,
        seed: int = 0,
        writer: Writer | None = None,
    ) -> None:
        self._benchmark = benchmark
        self._items: dict[str, Item] = {item.id: item for item in benchmark.completions}
        self._items.update((item.id, item) for item in benchmark.comparisons)
        self.retriever: Retriever = make_retriever(retriever, seed=seed)
        self._budget = budget
        self._writer = writer
        self._count = counter(budget.unit) if budget else None
        self._strangers = Strangers(benchmark, seed=seed)

    def require(self, spec: ViewSpec) -> None:
        """Refuse a view that this benchmark cannot give to anybody."""
        users = self._benchmark.users.values()
        name = self._benchmark.card.name
        if spec.whose == "swapped" and len(users) < 2:
            raise PalateError(f"the view {spec.name!r} needs a stranger, and {name} has one user only")
        if spec.whose == "twin" and not any(item.twin for item in self._benchmark.comparisons):
            raise PalateError(f"the view {spec.name!r} needs twins, and {name} has none; use swapped instead")
        if spec.shows("oracle") and not any(item.privileged.aspects for item in self._items.values()):
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

    def build(self, spec: ViewSpec, items: Sequence[Item]) -> list[View | Missing]:
        """The view of each item. Retrieval happens for all of them at once."""
        whose = [self._whose(spec, item) for item in items]
        ranked = self._ranked_histories(spec.pieces, items, whose)
        written = self._written(spec, items, whose)
        return [
            user if isinstance(user, Missing) else self._view(spec, item, user, histories, words)
            for item, user, histories, words in zip(items, whose, ranked, written, strict=True)
        ]

    def _written(
        self, spec: ViewSpec, items: Sequence[Item], whose: Sequence[User | Missing]
    ) -> list[dict[str, list[Part] | Failure]]:
        """What a language model wrote for each item, by kind. A persona is the same for all of a user's items
        that see the same history; a plan is made for the question."""
        found: list[dict[str, list[Part] | Failure]] = [{} for _ in items]
        kinds = [kind for kind in WRITTEN if spec.shows(kind)]
        if not kinds or self._writer is None:
            return found
        if "plan" in kinds:
            read = self._ranked_histories(READ_BY_WRITER, items, whose)
            plans = self._writer.plans([_flat(parts) for parts in read], [item.prompt for item in items])
            for one, parts in zip(found, plans, strict=True):
                one["plan"] = parts
        if "persona" in kinds:
            recent = self._ranked_histories(READ_BY_WRITER, items, whose, make_retriever("recent"))
            for one, parts in zip(found, self._writer.personas([_flat(p) for p in recent]), strict=True):
                one["persona"] = parts
        return found

    def _whose(self, spec: ViewSpec, item: Item) -> User | Missing:
        if spec.whose == "own":
            return self._benchmark.users[item.user_id]
        if spec.whose == "twin":
            twin = self._items.get(getattr(item, "twin", None) or "")
            return self._benchmark.users[twin.user_id] if twin else Missing("this item has no twin")
        for user_id in islice(self._strangers.of(item), STRANGERS_TRIED):
            user = self._benchmark.users[user_id]
            if any(self._has(user, piece, item) for piece in spec.pieces):
                return user
        return Missing("nobody else has a profile of this kind from before this item")

    @staticmethod
    def _has(user: User, piece: Piece, item: Item) -> bool:
        if piece.kind == "posts":
            return bool(visible_posts(user, item))
        if piece.kind == "judgements":
            return bool(visible_judgements(user, item))
        if piece.kind in WRITTEN:
            return bool(visible_posts(user, item) or visible_judgements(user, item))
        if piece.kind == "user":
            return True
        return bool(getattr(user, piece.kind))

    def _ranked_histories(
        self,
        pieces: Sequence[Piece],
        items: Sequence[Item],
        whose: Sequence[User | Missing],
        retriever: Retriever | None = None,
    ) -> list[list[list[Part]]]:
        """For each item, for each history piece of the view, its parts in order of relevance."""
        ranked: list[list[list[Part]]] = [[] for _ in items]
        for piece in pieces:
            if piece.kind not in ("posts", "judgements"):
                continue
            events = [
                [] if isinstance(user, Missing) else _history(user, piece.kind, item)
                for item, user in zip(items, whose, strict=True)
            ]
            searches = [
                Search(f"{piece.kind}\x00{item.id}", item.prompt, [_searched(event) for event in history])
                for item, history in zip(items, events, strict=True)
            ]
            orders = (retriever or self.retriever).rank(searches)
            for parts, history, order in zip(ranked, events, orders, strict=True):
                parts.append([_part(history[index]) for index in order[: piece.most]])
        return ranked

    def _view(
        self,
        spec: ViewSpec,
        item: Item,
        user: User,
        histories: list[list[Part]],
        written: dict[str, list[Part] | Failure],
    ) -> View | Missing:
        fixed: list[Part | None] = []
        for piece in spec.pieces:
            if piece.kind == "demographics":
                fixed.append(demographics_part(user))
            elif piece.kind == "values":
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
        wanted = len(shown) + sum(map(len, histories))
        if self._budget and self._count:
            shown = fit(shown, histories, self._budget.amount, self._count)
        else:
            shown += [part for parts in histories for part in parts]
        return View(
            name=spec.name,
            parts=tuple(shown),
            user_id=user.id if spec.pieces else None,
            dropped=wanted - len(shown),
        )


def _flat(parts: Sequence[Sequence[Part]]) -> list[Part]:
    return [part for some in parts for part in some]


def _history(user: User, kind: str, item: Item) -> list[Post] | list[Judgement]:
    return visible_posts(user, item) if kind == "posts" else visible_judgements(user, item)


def _searched(event: Post | Judgement) -> str:
    """A post is found by its text, a judgement by what was asked."""
    return event.text if isinstance(event, Post) else event.prompt


def _part(event: Post | Judgement) -> Part:
    return post_part(event) if isinstance(event, Post) else judgement_part(event)
