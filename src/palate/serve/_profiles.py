"""From a user's id to what a reward model may see of them, for trainers that only know the id."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import msgspec

from palate.data import load_benchmark
from palate.records import Ask, Benchmark, Completion, PalateError, Part, Rating, View
from palate.views import WRITTEN, Missing, ViewBuilder, parse_budget, parse_view

UNNAMED = View(name="unnamed")
"""Of an ask that says neither who it is about nor that it is about nobody, as where a column has another name."""
VIEWS_KEPT = 1024
"""Rollouts of one prompt come together: their view is built once."""
LONGEST_KEPT = 20_000
"""Characters of a prompt whose view is kept: a request may hold prompts of a million."""


class Profiles:
    """The users of a benchmark, and the view that is built of each for a prompt.

    >>> profiles = Profiles("mini", "posts:2")
    >>> user = sorted(profiles.users)[0]
    >>> [ask] = profiles.fill([trainer_ask("1", "What shall I read?", ["A poem."], user_id=user)])
    >>> ask.view.name, len(ask.view.parts)
    ('posts:2', 2)
    """

    def __init__(
        self,
        benchmark: str | Path,
        view: str | None = None,
        *,
        retriever: str = "bm25",
        budget: str | None = None,
        data_dir: Path | None = None,
    ) -> None:
        loaded = load_benchmark(benchmark, data_dir=data_dir)
        self.spec = parse_view(view or _richest(loaded))
        if not self.spec.is_profile or self.spec.neighbours or any(self.spec.shows(kind) for kind in WRITTEN):
            raise PalateError(
                f"the view {self.spec.name!r} cannot be built for a request: take posts, judgements, demographics, "
                "values or user, or some of them with + between"
            )
        allowance = parse_budget(budget) if budget else None
        self._builder = ViewBuilder(loaded, retriever=retriever, budget=allowance)
        self._builder.require(self.spec)
        self.users = frozenset(loaded.users)
        self.benchmark = loaded.card.name
        known = (loaded.content_hash, self.spec.name, retriever, self._builder.retriever.fingerprint, budget or "")
        self.fingerprint = hashlib.sha256("\x00".join(known).encode()).hexdigest()
        self._view = lru_cache(VIEWS_KEPT)(self._build)

    def fill(self, asks: Sequence[Ask]) -> list[Ask | Rating]:
        """The asks with their views built where only the user was named, or *unscored* where that fails."""
        return [self._filled(ask) if names_user_only(ask) or ask.view == UNNAMED else ask for ask in asks]

    def _filled(self, ask: Ask) -> Ask | Rating:
        if ask.view == UNNAMED:
            return Rating(
                unscored=f"no user is named, though {self.benchmark} has users: give user_id or view, or in an ask the "
                "view_name none where nobody is meant"
            )
        user_id = ask.view.user_id or ""
        if user_id not in self.users:
            return Rating(unscored=f"{self.benchmark} has no user {user_id!r}")
        view = (self._view if len(ask.prompt) <= LONGEST_KEPT else self._build)(user_id, ask.prompt)
        item = _item(user_id, ask.prompt, ask.responses)
        if self._builder.withholds(self.spec, item):
            [view] = self._builder.build(self.spec, [item])
        if isinstance(view, Missing):
            return Rating(unscored=view.reason)
        return msgspec.structs.replace(ask, view=view)

    def _build(self, user_id: str, prompt: str) -> View | Missing:
        return self._builder.build(self.spec, [_item(user_id, prompt)])[0]


def _item(user_id: str, prompt: str, responses: Sequence[str] = ()) -> Completion:
    """The id is made of what the view depends on, so that every rollout of a prompt gets the same view."""
    return Completion(id=f"{user_id}\x00{prompt}", user_id=user_id, prompt=prompt, alternatives=tuple(responses))


def _richest(benchmark: Benchmark) -> str:
    from palate.evaluation import default_views  # takes a second, and most servers do without

    shown = [name for name in default_views(benchmark) if name not in ("none", "swapped", "oracle")]
    if not shown:
        raise PalateError(f"{benchmark.card.name} knows nothing of its users that could be shown")
    return shown[0]


def names_user_only(ask: Ask) -> bool:
    """Whether an ask says who it is about and shows nothing: the view named `user`."""
    return ask.view.name == "user" and ask.view.user_id is not None and not ask.view.parts


def trainer_ask(
    id: str, question: str, responses: Sequence[str], *, user_id: str | None = None, view: str | None = None
) -> Ask:
    """An ask from what trainers can carry along: a ready-made view as text, or the user's id, or neither."""
    if view:
        seen = View(name="given", parts=(Part(kind="post", text=view),), user_id=user_id)
    elif user_id is not None:
        seen = View(name="user", user_id=user_id, by_name=True)
    else:
        seen = UNNAMED
    return Ask(id=id, prompt=question, responses=tuple(responses), view=seen)
