"""How what is known of a user is put into words."""

from __future__ import annotations

from palate.records import Aspect, Judgement, Part, Post, User


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


def post_part(post: Post) -> Part:
    """A post as it was written, with its date."""
    dated = f" ({post.date})" if post.date else ""
    return Part(kind="post", id=post.id, text=f"This user wrote{dated}:\n{post.text}", content=post.text)


def judgement_part(judgement: Judgement) -> Part:
    """What was asked, what the user took over what, and why."""
    lines = [f"This user was asked or asked: {judgement.prompt}", f"They preferred: {judgement.chosen}"]
    lines += [f"They did not prefer: {response}" for response in judgement.rejected]
    if judgement.reason:
        lines.append(f"Their reason: {judgement.reason}")
    return Part(kind="judgement", id=judgement.id, text="\n".join(lines), judgement=judgement)


def aspect_part(aspect: Aspect) -> Part:
    """One line of the true rubric."""
    reason = f" ({aspect.reason})" if aspect.reason else ""
    return Part(kind="aspect", text=f"This user looks for: {aspect.aspect}{reason}", content=aspect.aspect)
