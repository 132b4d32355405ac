"""What is known of one user, as a method sees it: choices, posts and groups, in numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palate.personal._features import Features
from palate.personal._pairs import Choice, Pairs, make_pairs
from palate.records import User, View

if TYPE_CHECKING:
    import torch

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
