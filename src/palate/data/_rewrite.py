"""Every text and every id of a benchmark, written anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from palate.records import Aspect, Benchmark, Comparison, Completion, Judgement, Post, Privileged, User

Item = TypeVar("Item", Comparison, Completion)
Write = Callable[[str], str]


def _same(text: str) -> str:
    return text


@dataclass(frozen=True)
class Rewriter:
    """How texts, ids of users and all other ids are written; what is not said stays as it is."""

    text: Write
    user_id: Write = _same
    item_id: Write = _same
    evidence: Write | None = None
    """Of an aspect: a text, or the ids of posts."""

    def benchmark(self, benchmark: Benchmark) -> Benchmark:
        """The whole benchmark; the card stays."""
        users = [self._user(user) for user in benchmark.users.values()]
        return Benchmark(
            card=benchmark.card,
            users={user.id: user for user in users},
            comparisons=tuple(self._comparison(item) for item in benchmark.comparisons),
            completions=tuple(self._completion(item) for item in benchmark.completions),
        )

    def _optional(self, text: str | None) -> str | None:
        return None if text is None else self.text(text)

    def _texts(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(self.text, texts))

    def _user(self, user: User) -> User:
        return User(
            id=self.user_id(user.id),
            demographics={
                name: self.text(value) if isinstance(value, str) else list(map(self.text, value))
                for name, value in user.demographics.items()
            },
            values=self._texts(user.values),
            posts=tuple(self._post(post) for post in user.posts),
            judgements=tuple(self._judgement(one) for one in user.judgements),
        )

    def _post(self, post: Post) -> Post:
        return msgspec.structs.replace(
            post, id=self.item_id(post.id), text=self.text(post.text), category=self._optional(post.category)
        )

    def _judgement(self, judgement: Judgement) -> Judgement:
        return msgspec.structs.replace(
            judgement,
            id=None if judgement.id is None else self.item_id(judgement.id),
            prompt=self.text(judgement.prompt),
            responses=self._texts(judgement.responses),
            reason=self._optional(judgement.reason),
            values=self._texts(judgement.values),
        )

    def _comparison(self, item: Comparison) -> Comparison:
        twin = None if item.twin is None else self.item_id(item.twin)
        return msgspec.structs.replace(
            self._item(item),
            responses=self._texts(item.responses),
            twin=twin,
            difficulty=self._optional(item.difficulty),
        )

    def _completion(self, item: Completion) -> Completion:
        return msgspec.structs.replace(
            self._item(item), text=self._optional(item.text), alternatives=self._texts(item.alternatives)
        )

    def _item(self, item: Item) -> Item:
        return msgspec.structs.replace(
            item,
            id=self.item_id(item.id),
            user_id=self.user_id(item.user_id),
            prompt=self.text(item.prompt),
            category=self._optional(item.category),
            group=None if item.group is None else self.item_id(item.group),
            privileged=self._privileged(item.privileged),
        )

    def _privileged(self, privileged: Privileged) -> Privileged:
        evidence = self.evidence or self.text
        aspects = tuple(
            Aspect(
                aspect=self.text(one.aspect),
                reason=self._optional(one.reason),
                evidence=None if one.evidence is None else evidence(one.evidence),
            )
            for one in privileged.aspects
        )
        return Privileged(narrative=self._optional(privileged.narrative), aspects=aspects)
