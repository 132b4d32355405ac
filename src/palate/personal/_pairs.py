"""Choices as tensors: what was taken over what, by whom; and what is known of one user, as a method sees it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from palate.personal._features import Features
from palate.records import Ask, Comparison, Judgement, User, View

if TYPE_CHECKING:
    import torch


Choice = Comparison | Judgement
"""Both are one prompt, what was offered, and what was taken."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of texts of which somebody preferred the first.

    A choice among N counts as N - 1 pairs, each of weight 1 / (N - 1), so that every choice weighs the same.
    """

    rows: torch.Tensor
    """(texts, features): every distinct text once."""
    better: torch.Tensor
    """(pairs,) rows of the texts that were taken."""
    worse: torch.Tensor
    """(pairs,) rows of the texts that were left."""
    user: torch.Tensor
    """(pairs,) places in `users`."""
    weight: torch.Tensor
    """(pairs,)"""
    choice: torch.Tensor
    """(pairs,) which choice each pair comes from, counted from 0."""
    users: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.better)

    @property
    def differences(self) -> torch.Tensor:
        """(pairs, features): what was taken minus what was left."""
        return self.margins(self.rows)

    def margins(self, values: torch.Tensor) -> torch.Tensor:
        """(pairs, ...): by how much what was taken exceeds what was left, in values of texts."""
        return values[self.better] - values[self.worse]

    def log_likelihood(self, margins: torch.Tensor) -> torch.Tensor:
        """Of the choices, where the reward of what was taken exceeds the other by these margins."""
        import torch

        return (self.weight * torch.nn.functional.logsigmoid(margins)).sum()

    def only(self, where: torch.Tensor) -> Pairs:
        """Some of the pairs, of the same users and texts."""
        return replace(
            self,
            better=self.better[where],
            worse=self.worse[where],
            user=self.user[where],
            weight=self.weight[where],
            choice=self.choice[where],
        )

    def by_user(self) -> list[torch.Tensor]:
        """For each user, the places of their pairs."""
        import torch

        order = torch.argsort(self.user, stable=True)
        counts = torch.bincount(self.user, minlength=len(self.users))
        return list(torch.split(order, counts.tolist()))


def offered(choices: Sequence[Choice | Ask]) -> tuple[list[str], list[str], list[int | None]]:
    """Every response with its prompt and, where it was recorded, the place at which it was shown."""
    prompts = [choice.prompt for choice in choices for _ in choice.responses]
    responses = [response for choice in choices for response in choice.responses]
    places: list[int | None] = []
    for choice in choices:
        shown = getattr(choice, "shown", None)
        places += shown or [None] * len(choice.responses)
    return prompts, responses, places


def make_pairs(choices: Mapping[str, Sequence[Choice]], features: Features) -> Pairs:
    """The choices of each user as pairs of rows of features."""
    import torch

    users = tuple(choices)
    flat = [choice for user in users for choice in choices[user]]
    owners = [place for place, user in enumerate(users) for _ in choices[user]]
    keys = list(zip(*offered(flat), strict=True))
    index = {key: row for row, key in enumerate(dict.fromkeys(keys))}
    rows = features.rows(*([list(column) for column in zip(*index, strict=True)] if index else [[], [], []]))
    found: list[tuple[int, int, int, int, float]] = []
    start = 0
    for number, (choice, owner) in enumerate(zip(flat, owners, strict=True)):
        places = [index[key] for key in keys[start : start + len(choice.responses)]]
        start += len(choice.responses)
        taken = places[choice.preferred]
        found += [
            (taken, left, owner, number, 1 / (len(places) - 1))
            for place, left in enumerate(places)
            if place != choice.preferred
        ]
    table = np.array(found, dtype=np.float64).reshape(-1, 5)
    better, worse, user, numbers = (torch.from_numpy(table[:, column].astype(np.int64)) for column in range(4))
    weight = torch.from_numpy(table[:, 4].astype(np.float32))
    return Pairs(torch.from_numpy(rows), better, worse, user, weight, numbers, users)


def labelled(comparisons: Sequence[Comparison], users: Mapping[str, User]) -> dict[str, list[Choice]]:
    """Every choice of each user that may be learned from, once: comparisons, and judgements in the history."""
    found: dict[str, list[Choice]] = {}
    for comparison in comparisons:
        found.setdefault(comparison.user_id, []).append(comparison)
    for user in users.values():
        own = found.setdefault(user.id, [])
        known = {(choice.prompt, choice.responses) for choice in own}
        own += [one for one in user.judgements if (one.prompt, one.responses) not in known]
    return dict(sorted(found.items()))


Fields = Mapping[str, "str | list[str]"]


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of one user. Everything may be empty; all empty is nobody."""

    better: torch.Tensor
    """(judgements, features) of what the user took."""
    worse: torch.Tensor
    """(judgements, features) of what the user left."""
    weight: torch.Tensor
    """(judgements,)"""
    posts: torch.Tensor
    """(posts, features) of what the user wrote."""
    groups: tuple[str, ...] = ()
    """`field=value` of everything demographic, and of values the user holds."""

    @property
    def differences(self) -> torch.Tensor:
        """(judgements, features): what was taken minus what was left."""
        return self.better - self.worse

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to go by."""
        return not (len(self.better) or len(self.posts) or self.groups)


def groups_of(fields: Fields) -> tuple[str, ...]:
    """Fields as names of groups.

    >>> groups_of({"region": "Europe", "interests": ["history", "travel"]})
    ('region=Europe', 'interests=history', 'interests=travel')
    """
    return tuple(
        f"{name}={one}" for name, value in fields.items() for one in ([value] if isinstance(value, str) else value)
    )


def fields_of(user: User) -> Fields:
    """The user's demographics, and their values as one more field."""
    return {**user.demographics, **({"values": list(user.values)} if user.values else {})}


def know(
    choices: Sequence[Choice], posts: Sequence[str], fields: Fields, features: Features, uses: Collection[str]
) -> Known:
    """Put into numbers what is known of one user, as far as a method `uses` it."""
    import torch

    pairs = make_pairs({"": choices if "judgements" in uses else []}, features)
    written = list(posts) if "posts" in uses else []
    return Known(
        pairs.rows[pairs.better],
        pairs.rows[pairs.worse],
        pairs.weight,
        torch.from_numpy(features.rows_of_posts(written)),
        groups_of(fields) if "groups" in uses else (),
    )


def know_view(view: View, features: Features, uses: Collection[str]) -> Known:
    """What a view shows, and no more."""
    choices = [part.judgement for part in view.of_kind("judgement") if part.judgement]
    posts = [part.words for part in view.of_kind("post")]
    fields: dict[str, str | list[str]] = {}
    for part in (*view.of_kind("demographics"), *view.of_kind("values")):
        fields.update(part.fields or {})
    return know(choices, posts, fields, features, uses)


def know_all(pairs: Pairs, users: Mapping[str, User], features: Features, uses: Collection[str]) -> list[Known]:
    """All that the training data tell of each of their users; every text is read once."""
    import torch

    posts = [[post.text for post in users[name].posts] if name in users else [] for name in pairs.users]
    flat = [text for own in posts for text in own] if "posts" in uses else []
    written = torch.from_numpy(features.rows_of_posts(flat))
    by_user = torch.split(written, [len(own) for own in posts]) if flat else [written] * len(posts)
    groups = [groups_of(fields_of(users[name])) if name in users else () for name in pairs.users]
    return [
        Known(pairs.rows[pairs.better[own]], pairs.rows[pairs.worse[own]], pairs.weight[own], texts, names)
        for own, texts, names in zip(
            pairs.by_user(), by_user, groups if "groups" in uses else [()] * len(groups), strict=True
        )
    ]


def choices_of(user: User, judgements: Sequence[Judgement] = ()) -> list[Choice]:
    """Every choice in a user's history, and these judgements beside it, each once."""
    own = labelled([], {user.id: user})[user.id]
    return own + [one for one in judgements if one not in own]
