"""The records as they stand in files, and their JSON Schemas. Field names here are the public format.

Each type knows how to become its record (`record()`), and raises FieldError when a value makes no sense.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from palate.data._draft import FieldError
from palate.records import Aspect, Card, Comparison, Completion, Judgement, PalateError, Post, Privileged, User

Count = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Id = str | Count
Date = str | Annotated[int, msgspec.Meta(ge=1, le=9999)] | None
Scalar = str | Count | float | bool
_SHAPE = re.compile(
    r"(\d{4})(?:-(\d{2})(?:-(\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)(Z|[+-]\d{2}:?\d{2})?)?)?)?", re.ASCII
)
DAY_FIRST, MONTH_FIRST = "day-first", "month-first"
_YEAR_LAST = re.compile(r"(\d{1,2})([./])(\d{1,2})\2(\d{4})(.*)", re.ASCII)
"""As in 14.5.2023, where the day is first, and 5/14/2023, where no single date tells."""
_CLOCK = re.compile(r"[ T](\d{1,2})(:.*?)(?: ?([ap])m)?", re.ASCII | re.IGNORECASE)
"""As in 9:05 and 9:05:33 PM."""
TWICE = "says another choice than responses and preferred; give the choice once"
Schema = dict[str, object]
_PROMPT: Schema = {"anyOf": [{"required": ["question"]}, {"required": ["prompt"]}]}
_CHOICE: Schema = {"anyOf": [{"required": ["chosen", "rejected"]}, {"required": ["responses", "preferred"]}]}
_PREFERENCES: Schema = {"required": ["preferences"], "properties": {"preferences": {"minItems": 1}}}


class Wire(msgspec.Struct, gc=False, kw_only=True, omit_defaults=True):
    """A record in a file; fields left at their default are not written."""


class WirePost(Wire):
    """A text that the user wrote before."""

    id: Id
    text: str
    date: Date = None
    sequence: Count | None = None
    category: str | None = None

    def record(self, field: str) -> Post:
        """The post, with its date in the one form."""
        return Post(
            id=identifier(self.id, f"{field}.id"),
            text=self.text,
            date=when(self.date, f"{field}.date"),
            sequence=self.sequence,
            category=self.category or None,
        )


class WirePreference(Wire):
    """A choice that the user made before: two responses A and B, or a list with the index preferred."""

    prompt: str
    response_A: str | None = None  # noqa: N815 - the exchange format's own name
    response_B: str | None = None  # noqa: N815
    chosen_response: Literal["response_A", "response_B", "A", "B"] | None = None
    responses: list[str] | None = None
    preferred: Count | None = None
    reason: str | None = None
    value_alignment: list[str] | str = []
    id: Id | None = None
    date: Date = None
    sequence: Count | None = None
    category: str | None = None

    def record(self, field: str) -> Judgement:
        """The judgement, whichever way the responses were written."""
        responses, preferred = self._choice(field)
        values = [self.value_alignment] if isinstance(self.value_alignment, str) else self.value_alignment
        return Judgement(
            prompt=self.prompt,
            responses=responses,
            preferred=preferred,
            reason=self.reason,
            values=tuple(values),
            id=None if self.id is None else identifier(self.id, f"{field}.id"),
            date=when(self.date, f"{field}.date"),
            sequence=self.sequence,
        )

    def _choice(self, field: str) -> tuple[tuple[str, ...], int]:
        if self.responses is not None:
            if self.preferred is None:
                raise FieldError(f"{field}.preferred", "is missing; give the index of the response preferred")
            if self.chosen_response is not None and not _alike((self.responses, self.preferred), self._of_two(field)):
                raise FieldError(f"{field}.chosen_response", TWICE)
            return tuple(self.responses), self.preferred
        return self._of_two(field)

    def _of_two(self, field: str) -> tuple[tuple[str, ...], int]:
        if self.response_A is None or self.response_B is None or self.chosen_response is None:
            raise FieldError(field, "needs response_A, response_B and chosen_response, or responses and preferred")
        return (self.response_A, self.response_B), 0 if self.chosen_response.endswith("A") else 1


class WireUser(Wire):
    """One line of users.jsonl: a person with what is known of them."""

    user_id: Id
    demographics: dict[str, Scalar | list[Scalar] | None] | None = None
    values: list[str] = []
    posts: list[WirePost] = []
    preferences: list[WirePreference] = []

    def record(self) -> User:
        """The user; numbers in the demographics become text, nulls and empty texts are left out."""
        demographics = self.demographics or {}
        return User(
            id=identifier(self.user_id, "user_id"),
            demographics={name: _as_text(value) for name, value in demographics.items() if value not in (None, "")},
            values=tuple(self.values),
            posts=tuple(post.record(f"posts[{number}]") for number, post in enumerate(self.posts)),
            judgements=tuple(
                preference.record(f"preferences[{number}]") for number, preference in enumerate(self.preferences)
            ),
        )


class WireAspect(Wire):
    """One line of the rubric."""

    aspect: str
    reason: str | None = None
    evidence: str | list[str] | None = None

    def record(self) -> Aspect:
        """The aspect; a list of pieces of evidence becomes one text."""
        evidence = "; ".join(self.evidence) if isinstance(self.evidence, list) else self.evidence
        return Aspect(aspect=self.aspect, reason=self.reason, evidence=evidence)


class WireItem(Wire):
    """What comparisons and completions have in common."""

    id: Id
    user_id: Id
    question: str | None = None
    prompt: str | None = None
    category: str | None = None
    group: str | UnsetType | None = UNSET
    date: Date = None
    sequence: Count | None = None
    narrative: str | None = None
    rubric_aspects: list[WireAspect | str] | None = None

    def _shared(self) -> dict[str, Any]:
        """The fields that comparisons and completions share, as their records take them."""
        prompt = self.question if self.question is not None else self.prompt
        if prompt is None:
            raise FieldError("question", "is missing; add it")
        if self.prompt is not None and self.prompt != prompt:
            raise FieldError("prompt", "says something else than question; give one of them")
        return {
            "id": identifier(self.id, "id"),
            "user_id": identifier(self.user_id, "user_id"),
            "prompt": prompt,
            "category": self.category or None,
            "date": when(self.date, "date"),
            "sequence": self.sequence,
            "privileged": privileged(self.narrative, self.rubric_aspects),
        }


class WireComparison(WireItem):
    """One line of comparisons.jsonl: chosen and rejected, or responses and preferred."""

    chosen: str | None = None
    rejected: str | list[str] | None = None
    responses: list[str] | None = None
    preferred: Count | None = None
    shown: list[Count] | None = None
    difficulty: str | None = None
    contrast: str | None = None
    twin: Id | None = None

    def record(self) -> Comparison:
        """The comparison; twins without a group get the one that both can work out."""
        shared = self._shared()
        twin = None if self.twin is None else str(self.twin)
        group = (self.group or None) if self.group is not UNSET else None if twin is None else min(shared["id"], twin)
        responses, preferred = self._choice()
        return Comparison(
            **shared,
            responses=responses,
            preferred=preferred,
            difficulty=self.difficulty,
            contrast=self.contrast,
            twin=twin,
            group=group,
            shown=None if self.shown is None else tuple(self.shown),
        )

    def _choice(self) -> tuple[tuple[str, ...], int]:
        if self.responses is not None:
            if self.preferred is None:
                raise FieldError("preferred", "is missing; give the index of the response preferred")
            if not self._says_the_same(self.responses, self.preferred):
                raise FieldError("rejected" if self.chosen is None else "chosen", TWICE)
            return tuple(self.responses), self.preferred
        return self._chosen_first()

    def _says_the_same(self, responses: Sequence[str], preferred: int) -> bool:
        """Whether chosen and rejected, as far as they are given, agree with an index that is right."""
        if not 0 <= preferred < len(responses) > 1:
            return True
        if self.chosen is not None and self.rejected is not None:
            return _alike((responses, preferred), self._chosen_first())
        others = [self.rejected] if isinstance(self.rejected, str) else self.rejected or []
        not_chosen = [*responses[:preferred], *responses[preferred + 1 :]]
        return self.chosen in (None, responses[preferred]) and set(others) <= set(not_chosen)

    def _chosen_first(self) -> tuple[tuple[str, ...], int]:
        if self.chosen is None:
            raise FieldError("chosen", "is missing; give chosen and rejected, or responses and preferred")
        if self.rejected is None:
            raise FieldError("rejected", "is missing; give the response, or the list of responses, not chosen")
        others = [self.rejected] if isinstance(self.rejected, str) else self.rejected
        return (self.chosen, *others), 0


def _alike(one: tuple[Sequence[str], int], other: tuple[Sequence[str], int]) -> bool:
    """Whether two ways to write a choice say the same, in whatever order; a wrong index is told elsewhere."""
    (responses, preferred), (others, chosen) = one, other
    if not 0 <= preferred < len(responses) > 1:
        return True
    return responses[preferred] == others[chosen] and sorted(responses) == sorted(others)


class WireCompletion(WireItem):
    """One line of completions.jsonl: what this user really wrote, or null where only a rubric tells."""

    text: str | None = None
    alternatives: list[str] = []

    def record(self) -> Completion:
        """The completion."""
        return Completion(
            **self._shared(),
            text=self.text,
            alternatives=tuple(self.alternatives),
            group=None if self.group is UNSET else self.group or None,
        )


def identifier(value: Id, field: str) -> str:
    """An id as text; an empty one is a fault."""
    if value == "":
        raise FieldError(field, "is empty; give every record an id")
    return str(value)


def when(value: Date, field: str) -> str | None:
    """A date in the one form; anything that is not ISO 8601 is a fault."""
    if value is None:
        return None
    try:
        return normalise_date(f"{value:04d}" if isinstance(value, int) else value)
    except (ValueError, OverflowError):
        message = f"{value!r} is not a date; write 2023, 2023-05-14 or 2023-05-14T20:11:00Z"
        raise FieldError(field, message) from None


def privileged(narrative: str | None, aspects: list[WireAspect | str] | None) -> Privileged:
    """The facts that only the oracle may see."""
    records = (Aspect(aspect=one) if isinstance(one, str) else one.record() for one in aspects or ())
    return Privileged(narrative=narrative, aspects=tuple(records))


def _as_text(value: Scalar | list[Scalar]) -> str | list[str]:
    if isinstance(value, list):
        return [one if isinstance(one, str) else msgspec.json.encode(one).decode() for one in value]
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


@lru_cache(maxsize=2**16)
def normalise_date(text: str) -> str:
    """An ISO 8601 date at the precision it came in, in UTC without a suffix; ValueError for anything else.

    >>> normalise_date("2023-05")
    '2023-05'
    >>> normalise_date("2023-05-14T20:11+02:00")
    '2023-05-14T18:11:00'
    """
    match = _SHAPE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a date")
    year, month, day, clock, offset = match.groups()
    date(int(year), int(month or 1), int(day or 1))
    if clock is None:
        return "-".join(part for part in (year, month, day) if part)
    moment = datetime.fromisoformat(f"{year}-{month}-{day}T{_six_digits(clock)}{offset or ''}")
    return write_moment(moment if moment.tzinfo is None else moment.astimezone(UTC))


def table_date(text: str, days: str | None = None) -> str:
    """A date of a table in the one form, also with dots and the day first; ValueError for anything else.

    With slashes, `days` says whether the day or the month is first.

    >>> table_date("14.5.2023 20:11"), table_date("5/14/2023 8:11 PM", "month-first")
    ('2023-05-14T20:11:00', '2023-05-14T20:11:00')
    """
    if parts := _YEAR_LAST.fullmatch(text.strip()):
        day, mark, month, year, clock = parts.groups()
        if mark == "/":
            if days is None:
                raise ValueError(f"{text!r} may have the day or the month first")
            day, month = (day, month) if days == DAY_FIRST else (month, day)
        if time := _CLOCK.fullmatch(clock):
            hour = int(time[1])
            if time[3] and not 1 <= hour <= 12:
                raise ValueError(f"{text!r} is not a date")
            clock = f" {hour % 12 + 12 * (time[3] in 'pP') if time[3] else hour:02}{time[2]}"
        text = f"{year}-{month:0>2}-{day:0>2}{clock}"
    return normalise_date(text)


class SlashedDays:
    """Whether the day or the month is first in dates such as 3/11/2025: one may not tell, but the whole column does."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, object]] = {}

    def see(self, value: object, place: object) -> None:
        """The next value of the column, and where it is."""
        if isinstance(value, str) and "/" in value and (parts := _YEAR_LAST.fullmatch(value.strip())):
            one, other = int(parts[1]), int(parts[3])
            if one <= 12 or other <= 12:
                first = DAY_FIRST if one > 12 else MONTH_FIRST if other > 12 else ""
                self._seen.setdefault(first, (value, place))

    def order(self, column: str, how_to_say: str) -> str | None:
        """What is first; None where no date has slashes. PalateError where the column does not tell."""
        if not self._seen:
            return None
        orders = [order for order in (DAY_FIRST, MONTH_FIRST) if order in self._seen]
        if len(orders) == 1:
            return orders[0]
        shown = [f"{value!r} ({place})" for value, place in (self._seen[order] for order in orders or [""])]
        if orders:
            raise PalateError(
                f"column {column!r} has the day first in {shown[0]} and the month first in {shown[1]}. Write all dates "
                "alike, such as 2025-11-03"
            )
        raise PalateError(
            f"column {column!r} holds {shown[0]}, and no row tells whether the day or the month is first, since no "
            f"number is above 12. Say which: {how_to_say}"
        )


def write_moment(moment: datetime) -> str:
    """One moment as text, no more precise than it is."""
    fraction = "microseconds" if moment.microsecond % 1000 else "milliseconds"
    precision = fraction if moment.microsecond else "seconds"
    return moment.replace(tzinfo=None).isoformat(timespec=precision)


def _six_digits(clock: str) -> str:
    seconds, dot, fraction = clock.partition(".")
    return f"{seconds}.{fraction[:6]:0<6}" if dot else seconds


def json_schemas() -> dict[str, Schema]:
    """The schema of one record of each kind: users, comparisons, completions, card and exchange.

    >>> sorted(json_schemas())
    ['card', 'comparisons', 'completions', 'exchange', 'users']
    """
    return {
        "users": _schema("users", WireUser),
        "comparisons": _schema("comparisons", WireComparison, _PROMPT, _CHOICE),
        "completions": _schema("completions", WireCompletion, _PROMPT),
        "card": _schema("card", Card),
        "exchange": _schema("exchange", WireUser, _PREFERENCES),
    }


def _schema(name: str, kind: type, *rules: Schema) -> Schema:
    schema: Schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"palate {name}",
        **msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(kind))),
    }
    return {**schema, "allOf": list(rules)} if rules else schema
