"""From a user's id to what a reward model may see of them, for trainers that only know the id."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path

import msgspec

from palate.data import Item, KnownPrompts, load_benchmark, responses_of, text_key
from palate.records import Ask, Benchmark, Completion, Judgement, PalateError, Part, Privileged, Rating, View
from palate.views import WRITTEN, Missing, ViewBuilder, parse_budget, parse_view

UNNAMED = View(name="unnamed")
"""Of an ask that says neither who it is about nor that it is about nobody, as where a column has another name."""
VIEWS_KEPT = 1024
"""Rollouts of one prompt come together: their view is built once."""
LONGEST_KEPT = 20_000
"""Characters of a prompt whose view is kept: a request may hold prompts of a million."""
USERS_KEPT = 64
"""Whose items and judgements are kept by what they ask."""


class _Asked:
    """What a user was asked in the benchmark, or had been asked before, by the prompt.

    A trainer may send a prompt as its policy sees it, with the marks of a chat template, and this is the same prompt.
    """

    def __init__(self, items: Iterable[Item | Judgement]) -> None:
        self._by_prompt: dict[str, list[Item | Judgement]] = {}
        for one in items:
            self._by_prompt.setdefault(text_key(one.prompt), []).append(one)
        self._known = KnownPrompts(self._by_prompt)

    def within(self, prompt: str) -> list[list[Item | Judgement]]:
        """For each known prompt that a prompt is or holds, all that was asked with it; the last of them comes last."""
        return [self._by_prompt[key] for key in self._known.within(prompt)]


class _Id(msgspec.Struct):
    user_id: str | int


class Profiles:
    """The users of a benchmark, and the view that is built of each for a prompt.

    Where the user was asked that prompt in the benchmark, nothing is shown that `palate eval` would not show there:
    nothing from afterwards, and nothing that holds one of the texts among which the user's answer is. A policy would
    else be paid by somebody who had seen the answer.

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
        self._loaded = loaded
        self.users = frozenset(loaded.users)
        """Who was erased from the benchmark since is not among them any more."""
        self._file = Path(benchmark, "users.jsonl")  # where it is a folder in palate's own format
        self._read = _written(self._file)
        self.benchmark = loaded.card.name
        known = (loaded.content_hash, self.spec.name, retriever, self._builder.retriever.fingerprint, budget or "")
        self.fingerprint = hashlib.sha256("\x00".join(known).encode()).hexdigest()
        self._view = lru_cache(VIEWS_KEPT)(self._build)
        self._asked_of = lru_cache(USERS_KEPT)(self._by_prompt)

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
        if (written := _written(self._file)) != self._read:
            self._read, self.users = written, self.users & _ids(self._file)
            self._view.cache_clear()
        if user_id not in self.users:
            return Rating(unscored=f"{self.benchmark} has no user {user_id!r}")
        view = (self._view if len(ask.prompt) <= LONGEST_KEPT else self._build)(user_id, ask.prompt)
        item = self._item(user_id, ask.prompt, ask.responses)
        if not isinstance(view, Missing) and self._builder.withheld(self.spec, item) > view.withheld:
            [view] = self._builder.build(self.spec, [item])
        if isinstance(view, Missing):
            return Rating(unscored=view.reason)
        return msgspec.structs.replace(ask, view=view)

    def _build(self, user_id: str, prompt: str) -> View | Missing:
        return self._builder.build(self.spec, [self._item(user_id, prompt)])[0]

    def _item(self, user_id: str, prompt: str, responses: Sequence[str] = ()) -> Completion:
        """Of when the user was first asked this, with all texts that were to choose from then, and those of the ask.

        The id is made of what the view depends on, so that every rollout of a prompt gets the same view.
        """
        groups = self._asked_of(user_id).within(prompt)
        asked = list(chain.from_iterable(groups))
        items = [one for one in asked if not isinstance(one, Judgement)]
        known = chain.from_iterable(one.responses if isinstance(one, Judgement) else responses_of(one) for one in asked)
        return Completion(
            id=f"{user_id}\x00{prompt}",
            user_id=user_id,
            prompt=groups[-1][0].prompt if groups else prompt,
            alternatives=tuple(dict.fromkeys([*known, *responses])),
            date=min((item.date for item in items if item.date is not None), default=None),
            sequence=min((item.sequence for item in items if item.sequence is not None), default=None),
            group=next((item.group for item in items if item.group), None),
            privileged=next((item.privileged for item in items if item.privileged.narrative), Privileged()),
        )

    @cached_property
    def _places(self) -> dict[str, array[int]]:
        """Where each user's comparisons stand in the benchmark."""
        found: dict[str, array[int]] = {}
        for place, item in enumerate(self._loaded.comparisons):
            found.setdefault(item.user_id, array("I")).append(place)
        return found

    def _by_prompt(self, user_id: str) -> _Asked:
        compared = (self._loaded.comparisons[place] for place in self._places.get(user_id, ()))
        completed = (item for item in self._loaded.completions if item.user_id == user_id)
        return _Asked(chain[Item | Judgement](compared, completed, self._loaded.users[user_id].judgements))


def _written(file: Path) -> tuple[int, int] | None:
    """By what a file that was written again is told; None where there is none."""
    try:
        state = file.stat()
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns


def _ids(file: Path) -> set[str]:
    try:
        return {str(msgspec.json.decode(line, type=_Id).user_id) for line in file.read_bytes().splitlines() if line}
    except (OSError, msgspec.MsgspecError):  # nobody, rather than somebody who was erased
        return set()


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
