"""People whose ids begin alike and who were asked the same, so that whoever mixes them up is found out."""

from __future__ import annotations

from palate.records import Benchmark, Card, Comparison, Post, User

CARD = Card(name="people", title="People", version="1", licence="none", source="made for the tests")
NAMES = ("ann", "ann-1", "ann-10", "an", "bo", "bo-1", "cy", "cy-1")
LOVES = ("quinces", "zinnias", "oboes", "trams", "chess", "lichen", "kites", "brine")


def people() -> Benchmark:
    """Everybody answers two common questions and one of their own; the item `ann-1` is of the user `ann`."""
    users, items = {}, []
    for name, love in zip(NAMES, LOVES, strict=True):
        texts = [f"I have always been fond of {love}, number {place}, and shall be." for place in range(2)]
        posts = tuple(Post(id=f"{name}/{place}", text=text, sequence=place) for place, text in enumerate(texts))
        users[name] = User(id=name, posts=posts, values=(love,))
        for place, prompt in enumerate(("What do you like?", "What else?", f"Why {love}?"), start=1):
            responses = (f"It is {love} that I like, {place}.", f"Nothing but {love} at all, {place}.")
            items.append(
                Comparison(id=f"{name}-{place}", user_id=name, prompt=prompt, responses=responses, preferred=0)
            )
    return Benchmark(card=CARD, users=users, comparisons=tuple(items))
