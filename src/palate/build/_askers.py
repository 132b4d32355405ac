"""Who asked: rows that name nobody are one person's where their histories share a post.

Intervals resample users. Two rows of one person that count as two people make them too narrow.
"""

from __future__ import annotations

from collections.abc import Iterable

from palate.data import is_short, text_key
from palate.records import User


def recover_askers(users: Iterable[User]) -> tuple[dict[str, str], int]:
    """For each row's user the name of the person, and how many rows were joined to another.

    Two rows are joined by a post with the same id and text, or with the same text where it is no short phrase.
    """
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        while parents[name] != name:
            parents[name] = parents[parents[name]]
            name = parents[name]
        return name

    owner: dict[str, str] = {}
    for user in sorted(users, key=lambda user: user.id):
        parents[user.id] = user.id
        for post in user.posts:
            key = text_key(post.text)
            known = f"{post.id}\0{key}" if is_short(key) else key
            first, other = root(owner.setdefault(known, user.id)), root(user.id)
            if first != other:
                parents[max(first, other)] = min(first, other)
    found = {name: root(name) for name in parents}
    return found, len(found) - len(set(found.values()))
