"""What a collection holds: items to show, people who answer, and the answers that stand after edits and undos."""

from __future__ import annotations

import msgspec


class Item(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing to judge: a prompt and its responses, in the order of the file, which is never the order shown."""

    id: str
    prompt: str
    responses: tuple[str, ...]
    category: str | None = None
    group: str | None = None
    """Items of one group (one question, one pair of texts) belong together when data are split."""
    check: int | None = None
    """For an attention check, the response that anybody who reads would choose. Checks are never exported as data."""
    user_id: str | None = None
    """For validation, whose item this is."""
    profile: tuple[str, ...] = ()
    """For validation, what is shown of that user, and only for the question of personal fit."""
    preferred: int | None = None
    """For validation, the response that is claimed to be preferred. It is never sent to a browser."""
    participant: str | None = None
    """Where the prompt is a participant's own: theirs alone, erased with them, never shown to others."""
    models: tuple[str, ...] = ()
    """Which model wrote each response, where one did. It is never sent to a browser before the answer."""
    source: str | None = None


class Participant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody who was invited. The id is a pseudonym; no name, address or crowd-platform id is kept."""

    id: str
    strata: dict[str, str] = {}
    """The groups that assignment is balanced over, such as `region`."""
    consent: str | None = None
    """Version of the consent text that was agreed to."""
    invited: str | None = None
    started: str | None = None
    completed: str | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one participant says of one item. Earlier versions stay in the event log and are not here."""

    id: str
    """The event's id, made by the client, so that a retry is the same answer."""
    participant: str
    task: str
    item: str
    repeat: int = 0
    """0 the first time; 1 and more where the item was planned to come again."""
    shown: tuple[int, ...]
    """For each response of the item, the position (from 0) at which this person saw it this time."""
    choice: int | None = None
    """Index into the item's responses; `None` for a tie or where nothing was chosen."""
    tie: bool = False
    strength: int | None = None
    """From 1 (slightly better) to 3 (much better)."""
    satisfaction: int | None = None
    """How satisfied with the better one, from 1 to 5."""
    reason: str | None = None
    values: tuple[str, ...] = ()
    ratings: dict[str, tuple[int | None, ...]] = {}
    """For validation, from dimension to a grade of 1 to 5 for each response, in the order of the item."""
    edit: str | None = None
    """What the participant made of the response, where they could edit it."""
    thumb: bool | None = None
    """Thumb up or down, where a single response was shown."""
    seconds: float | None = None
    """Time the item was on screen, as the browser measured it."""
    pasted: bool = False
    """Whether the reason was pasted rather than typed."""
    probability: float | None = None
    """How likely this item was to be the next one, where the next is chosen actively."""
    date: str
    """ISO 8601, UTC, when the server received it."""
    sequence: int
    """Place in this participant's own order of answers."""


class SurveyAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer to one question of a survey. A question that was skipped has none."""

    id: str
    participant: str
    task: str
    question: str
    value: str | int | list[str]
    free: bool = False
    """Whether it is a text in the person's own words, which may name somebody."""
    date: str


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that stands in a collection, without people who withdrew."""

    project: str
    title: str
    version: str
    licence: str
    participants: tuple[Participant, ...]
    items: tuple[Item, ...]
    answers: tuple[Answer, ...]
    survey: tuple[SurveyAnswer, ...] = ()
