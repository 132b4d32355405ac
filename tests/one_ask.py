"""One ask of one user, for tests that need no more, and what they say of its ratings."""

from __future__ import annotations

import msgspec

from palate.records import Ask, Part, Rating, View

TEA = View(name="posts:1", parts=(Part(kind="post", id="p", text="I gave up coffee."),), user_id="ann")
ASK = Ask(id="q", prompt="What should I drink?", responses=("Green tea.", "A double espresso on the run."), view=TEA)
WANTED = (Part(kind="aspect", text="Wants tea", content="tea"), Part(kind="aspect", text="Wants calm", content="calm"))
ASPECTS = View(name="oracle", parts=WANTED)
NOTHING_KNOWN = View(name="none")


def with_view(ask: Ask, view: View) -> Ask:
    return msgspec.structs.replace(ask, view=view)


def scores(rating: Rating) -> list[float]:
    assert rating.scores is not None, rating.unscored
    return list(rating.scores)
