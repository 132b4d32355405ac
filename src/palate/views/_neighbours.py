"""Who is most like a user, so that a view can borrow history from them where the user has little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from palate.data import History, Item, text_key
from palate.records import Judgement, Post, User
from palate.views._render import demographics_part, values_part
from palate.views._retrievers import Retriever, Search, rank
from palate.views._strangers import Strangers

COMPARED = 20
"""The newest posts and judgements, so many of each, by which somebody is compared with the user."""


class Lack(msgspec.Struct, frozen=True):
    """Somebody of whom a view has less to show than it could, at one item."""

    item: Item
    user: User
    shown: Sequence[Post | Judgement]
    """What the view does show of them."""
    kinds: Sequence[str]
    """What there is too little of."""


class Neighbours:
    """Finds the users who are most like somebody, by what a view shows of that one, demographics and values.

    The retriever compares them. Nobody is compared by history that the view of the item may not show. Never a
    neighbour: who is never a stranger, be it to the person or to the user whose item it is.
    """

    def __init__(self, users: Mapping[str, User], strangers: Strangers, history: History, retriever: Retriever) -> None:
        self._users, self._strangers, self._history, self._retriever = users, strangers, history, retriever

    def nearest(self, lacks: Sequence[Lack], most: int) -> list[list[User]]:
        """At most so many for each, the most similar first; nobody for somebody of whom nothing is known."""
        searches, found = [], []
        for lack in lacks:
            known = _profile(lack.user, lack.shown)
            users, profiles = self._candidates(lack) if known else ([], [])
            found.append(users)
            searches.append(Search(f"neighbours\x00{lack.item.id}\x00{lack.user.id}", known, profiles))
        orders = rank(self._retriever, searches)
        return [[users[index] for index in order[:most]] for users, order in zip(found, orders, strict=True)]

    def _candidates(self, lack: Lack) -> tuple[list[User], list[str]]:
        """Whoever has something of what is lacking, and what they are compared by."""
        users, profiles = [], []
        for user_id, _ in self._strangers.of(lack.item, to=lack.user.id):
            user = self._users[user_id]
            posts = self._history.posts(user, lack.item).events
            judgements = self._history.judgements(user, lack.item).events
            if (posts and "posts" in lack.kinds) or (judgements and "judgements" in lack.kinds):
                users.append(user)
                profiles.append(_profile(user, [*judgements[: -COMPARED - 1 : -1], *posts[: -COMPARED - 1 : -1]]))
        return users, profiles


def _profile(user: User, shown: Sequence[Post | Judgement]) -> str:
    traits = [part.words for part in (values_part(user), demographics_part(user)) if part]
    return "\n".join([*traits, *map(_taste, shown)])


def _taste(event: Post | Judgement) -> str:
    """What tells somebody's taste: a post, or what sets the chosen response apart, and the reason."""
    if isinstance(event, Post):
        return event.text
    passed_over = {word for response in event.rejected for word in text_key(response).split()}
    apart = [word for word in text_key(event.chosen).split() if word not in passed_over]
    return " ".join([*apart, event.reason or ""])
