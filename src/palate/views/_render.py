"""How what is known of a user is put into words, and how much of it fits: the least relevant history goes first."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from palate.records import Aspect, Judgement, PalateError, Part, Post, User


def demographics_part(user: User) -> Part | None:
    """Every field in one line."""
    if not user.demographics:
        return None
    fields = "; ".join(
        f"{name.replace('_', ' ')}: {value if isinstance(value, str) else ', '.join(value)}"
        for name, value in user.demographics.items()
    )
    return Part(kind="demographics", text=f"About this user: {fields}", content=fields, fields=user.demographics)


def values_part(user: User) -> Part | None:
    """What the user says matters to them."""
    if not user.values:
        return None
    values = ", ".join(user.values)
    return Part(kind="values", text=f"This user values: {values}", content=values, fields={"values": list(user.values)})


def post_part(post: Post, *, borrowed: bool = False) -> Part:
    """A post as it was written, with its date."""
    dated = f" ({post.date})" if post.date else ""
    text = f"{_who(borrowed)} wrote{dated}:\n{post.text}"
    return Part(kind="post", id=post.id, text=text, content=post.text, borrowed=borrowed)


def judgement_part(judgement: Judgement, *, borrowed: bool = False) -> Part:
    """What was asked, what the user took over what, and why."""
    lines = [f"{_who(borrowed)} was asked or asked: {judgement.prompt}", f"They preferred: {judgement.chosen}"]
    lines += [f"They did not prefer: {response}" for response in judgement.rejected]
    if judgement.reason:
        lines.append(f"Their reason: {judgement.reason}")
    text = "\n".join(lines)
    return Part(kind="judgement", id=judgement.id, text=text, judgement=judgement, borrowed=borrowed)


def _who(borrowed: bool) -> str:
    return "Somebody with similar taste" if borrowed else "This user"


def aspect_part(aspect: Aspect) -> Part:
    """One line of the true rubric."""
    reason = f" ({aspect.reason})" if aspect.reason else ""
    return Part(kind="aspect", text=f"This user looks for: {aspect.aspect}{reason}", content=aspect.aspect)


class Budget(msgspec.Struct, frozen=True):
    """The most words or tokens of profile. The prompt and the responses are never cut.

    >>> parse_budget("words:300")
    Budget(amount=300, unit='words')
    """

    amount: int
    unit: str = "words"


def parse_budget(text: str) -> Budget:
    """Read `300`, `words:300` or `tokens:300`."""
    unit, _, number = text.rpartition(":")
    unit = unit or "words"
    if unit not in ("words", "tokens") or not (number.isascii() and number.isdigit()) or int(number) < 1:
        raise PalateError(f"cannot read the budget {text!r}: write words:300 or tokens:300")
    return Budget(int(number), unit)


def counter(unit: str) -> Callable[[str], int]:
    """What measures a text: white-space words, or the tokens of the built-in encoder."""
    if unit == "words":
        return lambda text: len(text.split())
    from palate.engine import token_counter

    return token_counter("minilm")


def fit(fixed: list[Part], history: list[list[Part]], most: int, count: Callable[[str], int]) -> list[Part]:
    """Everything that is fixed, then of each ranked history as much as fits, taken rank by rank.

    A piece that does not fit ends its own list, so that what is kept is always the most relevant.
    """
    room = most - sum(count(part.text) for part in fixed)
    kept: list[list[Part]] = [[] for _ in history]
    open_lists = set(range(len(history)))
    for rank in range(max((len(parts) for parts in history), default=0)):
        for index in sorted(open_lists):
            if rank >= len(history[index]):
                continue
            cost = count(history[index][rank].text)
            if cost <= room:
                kept[index].append(history[index][rank])
                room -= cost
            else:
                open_lists.discard(index)
    return [*fixed, *(part for parts in kept for part in parts)]
