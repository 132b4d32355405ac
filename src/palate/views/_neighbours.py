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
"""How many of the newest posts, and of the newest judgements, are compared with those of the user."""


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

    The retriever compares single pieces with all of that, and nearest is who has the nearest piece; of equals, who has
    more to lend. Nobody is compared by history that the view of the item may not show. Never a neighbour: who is never
    a stranger, be it to the person or to the user whose item it is.
    """

    def __init__(self, users: Mapping[str, User], strangers: Strangers, history: History, retriever: Retriever) -> None:
        self._users, self._strangers, self._history, self._retriever = users, strangers, history, retriever

    def nearest(self, lacks: Sequence[Lack], most: int) -> list[list[User]]:
        """At most that many for each, the most similar first; nobody for somebody of whom nothing is known."""
        searches, owners = [], []
        for lack in lacks:
            known = "\n".join(_pieces(lack.user, lack.shown))
            pieces = self._others(lack) if known else []
            owners.append([user for user, _ in pieces])
            texts = [text for _, text in pieces]
            searches.append(Search(f"neighbours\x00{lack.item.id}\x00{lack.user.id}", known, texts))
        found = []
        for users, order in zip(owners, rank(self._retriever, searches), strict=True):
            nearest = {users[index].id: users[index] for index in order}  # in the order of their nearest pieces
            found.append(list(nearest.values())[:most])
        return found

    def _others(self, lack: Lack) -> list[tuple[User, str]]:
        """Pieces of whoever has something of what is lacking."""
        found: list[tuple[int, User, list[Post | Judgement]]] = []
        for user_id, _ in self._strangers.of(lack.item, to=lack.user.id):
            user = self._users[user_id]
            posts = self._history.posts(user, lack.item).events
            judgements = self._history.judgements(user, lack.item).events
            lends = len(posts) * ("posts" in lack.kinds) + len(judgements) * ("judgements" in lack.kinds)
            if lends:
                found.append((lends, user, [*posts[-COMPARED:], *judgements[-COMPARED:]]))
        found.sort(key=lambda one: one[0])  # of equal pieces a retriever takes the last
        return [(user, text) for _, user, events in found for text in _pieces(user, events)]


def _pieces(user: User, events: Sequence[Post | Judgement]) -> list[str]:
    traits = [part.words for part in (values_part(user), demographics_part(user)) if part]
    return [*traits, *map(_taste, events)]


def _taste(event: Post | Judgement) -> str:
    """What tells somebody's taste: a post, or what sets the chosen response apart, and the reason."""
    if isinstance(event, Post):
        return event.text
    passed_over = {word for response in event.rejected for word in text_key(response).split()}
    apart = [word for word in text_key(event.chosen).split() if word not in passed_over]
    return " ".join([*apart, event.reason or ""])
