"""Which column of a table is what: as an option says, or by its usual name where only one column has one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import msgspec

from palate.data._wire import DAY_FIRST, MONTH_FIRST
from palate.records import PalateError, did_you_mean

NO_USER = "none"
"""The user column of a table that names no people, and the id column of one whose ids are not to be used."""
_MADE = (
    "created submitted answered rated judged labelled labeled annotated voted responded chosen reviewed completed "
    "finished recorded logged"
).split()
"""What is done at the time of a choice. What happened at another time, such as `updated_at`, is no guide."""
TIMES = (
    *("date", "datetime", "timestamp", "time", "day", "createdutc"),
    *(f"{made}{when}" for made in _MADE for when in ("at", "", "on", "time", "date")),
)
"""Names of columns that are taken as the time of each choice where every value is a day or a moment."""
SKIP = "skip"
"""The option `bad` of a table whose bad rows are left out."""
_NOT_COLUMNS = ("labels", "days", "bad")
OPTIONS = (
    "user",
    "prompt",
    "chosen",
    "rejected",
    "response_a",
    "response_b",
    "label",
    "labels",
    "score_a",
    "score_b",
    "date",
    "days",
    "category",
    "group",
    "id",
    "demographics",
    "bad",
)
_USERS = (
    "user annotator worker rater judge evaluator participant labeler labeller person respondent subject reviewer "
    "crowdworker"
).split()
_USER_NAMES = {"uid", "username", "userhash", *_USERS, *(f"{name}id" for name in _USERS)} - {"person", "subject"}
_PROMPTS = {"prompt", "question", "instruction", "query", "input", "userprompt", "userquery"}
_CONVERSATIONS = {"conversation", "conversations", "dialogue", "dialog", "chat", "chathistory", "context"}
"""Names of prompts where no column has a name of `_PROMPTS`."""
TALKS = [
    f"{talk}{id}"
    for talk in "conversation conv convo dialogue dialog messagetree chat thread chatsession session".split()
    for id in ("id", "hash", "uuid", "")
    if id or talk in ("convo", "thread", "session")  # others may hold the talk itself
]
"""What a person chose earlier in a talk tells what the talk is about, so a talk is a group; the finest is first."""
_CHOICES = (
    ("chosen", "rejected"),
    ("chosenresponse", "rejectedresponse"),
    ("preferred", "rejected"),
    ("preferred", "dispreferred"),
    ("preferredresponse", "dispreferredresponse"),
    ("accepted", "rejected"),
    ("winner", "loser"),
    ("better", "worse"),
    ("positive", "negative"),
)
_SIDES = (("a", "b"), ("1", "2"), ("0", "1"), ("left", "right"))
_TEXTS = "response answer completion output option text candidate reply conversation summary generation".split()
_SCORES = "score rating reward grade".split()
_RESPONSES = tuple((f"{stem}{one}", f"{stem}{other}") for stem in _TEXTS for one, other in _SIDES)
_FORMS = ("{0}{1}", "{1}{0}", "{0}response{1}", "response{1}{0}", "model{1}{0}")
_SCORE_PAIRS = (
    ("winnermodela", "winnermodelb"),
    *(
        (form.format(stem, one), form.format(stem, other))
        for stem in _SCORES
        for form in _FORMS
        for one, other in _SIDES
    ),
)
_LABELS = set(
    "label winner preference preferred choice chosen vote verdict selected better chosenresponse preferredresponse "
    "betterresponse overallpreference humanpreference".split()
)
_TRAITS = set(
    "gender sex age agegroup agerange education educationlevel country region nationality ethnicity race religion "
    "politics political politicalaffiliation politicalorientation occupation profession job income employment "
    "maritalstatus language nativelanguage firstlanguage locale continent birthyear".split()
)
_CATEGORIES = {"category", "topic", "domain", "subset", "subject", "task"}
_OF_A_CHOICE = ("prompt", "chosen", "rejected", "response_a", "response_b", "label")
_CANONICAL = {"user": "user_id"} | {name: name for name in _OF_A_CHOICE}
"""Names that the documentation gives: taking these is no guess."""


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """What is read from which column."""

    user: str | None
    """None where the table names no people."""
    prompt: str | None
    """None where chosen and rejected hold it."""
    first: str
    """The chosen response, or the first of two of which a label says which was preferred."""
    second: str
    label: str | None = None
    labels: str | None = None
    """How the labels are spelt, where the option says so."""
    scores: tuple[str, str] | None = None
    date: str | None = None
    days: str | None = None
    """Whether the day or the month is first in dates with slashes."""
    category: str | None = None
    group: str | None = None
    id: str | None = None
    demographics: tuple[str, ...] = ()
    skips_bad: bool = False
    """Whether rows that cannot be used are left out and counted, in place of refusing the table."""

    @property
    def chosen_first(self) -> bool:
        """Whether the columns say which response was chosen, and no label does."""
        return self.label is None and self.scores is None

    @property
    def options(self) -> dict[str, str]:
        """The options that name every column."""
        one, other = ("chosen", "rejected") if self.chosen_first else ("response_a", "response_b")
        named = {
            "user": self.user or NO_USER,
            "prompt": self.prompt,
            one: self.first,
            other: self.second,
            "label": self.label,
            "labels": self.labels,
            "score_a": self.scores[0] if self.scores else None,
            "score_b": self.scores[1] if self.scores else None,
            "date": self.date,
            "days": self.days,
            "category": self.category,
            "group": self.group,
            "id": self.id,
            "demographics": "+".join(self.demographics),
            "bad": SKIP if self.skips_bad else None,
        }
        return {option: column for option, column in named.items() if column}

    def spec(self, path: str) -> str | None:
        """What reads the same again without a guess; None where a column's name cannot be written in it."""
        options = self.options
        plus = any("+" in name for name in self.demographics)
        if plus or any("," in column or column != column.strip() for column in options.values()):
            return None
        return ",".join([path, *(f"{option}={column}" for option, column in options.items())])


class Found(msgspec.Struct, frozen=True):
    """The columns of a table, and what was not said by an option."""

    columns: Columns
    guessed: tuple[str, ...]
    """Each as `'annotator' as the user`."""
    hints: tuple[str, ...]
    """What could be used, with the option that would."""
    free: tuple[str, ...]
    """Columns that have no role."""


def plain(name: str) -> str:
    """A column's name without case, spaces and underscores.

    >>> plain("Annotator_ID"), plain("response A")
    ('annotatorid', 'responsea')
    """
    return re.sub(r"[\W_]+", "", name.casefold())


def is_user_column(name: str) -> bool:
    """Whether a column of this name is taken as the person who chose.

    >>> is_user_column("Annotator_ID"), is_user_column("question")
    (True, False)
    """
    return plain(name) in _USER_NAMES


def is_table(fields: Collection[str], options: Mapping[str, str]) -> bool:
    """Whether these are the fields of a preference table: a pair of responses by name, or an option that names one."""
    if {"chosen", "rejected", "response_a", "response_b", "label"} & set(options):
        return True
    return bool(_pairs(_CHOICES, fields) or _pairs(_RESPONSES, fields))


def find_columns(fields: Sequence[str], options: Mapping[str, str], path: str, source: str) -> Found:
    """The columns of each role. PalateError where a named one is missing, or where two could have one role."""
    search = _Search(fields, options, path, source)
    search.check_options()
    responses = search.responses()
    found = Columns(
        user=search.user(),
        prompt=search.single("prompt", _PROMPTS) or search.single("prompt", _CONVERSATIONS),
        **responses,
        labels=options.get("labels"),
        date=options.get("date"),
        days=options.get("days"),
        category=options.get("category"),
        group=search.group(),
        id=search.id(),
        demographics=search.demographics(),
        skips_bad="bad" in options,
    )
    search.refuse_ambiguous()
    return Found(found, tuple(search.guessed), tuple(search.hints(found)), tuple(search.free(found)))


class _Search:
    """Finds columns one role after another; a column has one role."""

    def __init__(self, fields: Sequence[str], options: Mapping[str, str], path: str, source: str) -> None:
        self.fields, self.options, self.path, self.source = fields, options, path, source
        self.taken = {column for option, column in options.items() if option not in (*_NOT_COLUMNS, "demographics")}
        self.guessed: list[str] = []
        self.ambiguous: dict[str, list[str]] = {}

    def check_options(self) -> None:
        """Refuse options that name a column that is not there."""
        for option, column in self.options.items():
            nothing = option in ("user", "id") and column == NO_USER
            if option == "bad" and column != SKIP:
                raise PalateError(f"{self.source}: option bad={column}: expected bad={SKIP}")
            if option == "days" and column not in (DAY_FIRST, MONTH_FIRST):
                raise PalateError(f"{self.source}: option days={column}: expected {DAY_FIRST} or {MONTH_FIRST}")
            if option in _NOT_COLUMNS or nothing:
                continue
            for name in column.split("+") if option == "demographics" else [column]:
                if name not in self.fields:
                    self.missing(option, name)
        texts = [(option, self.options[option]) for option in _OF_A_CHOICE if option in self.options]
        for (one, column), (other, again) in combinations(texts, 2):
            if column == again:
                raise PalateError(
                    f"{self.source}: column {column!r} cannot be both {one} and {other}. Where responses are whole "
                    "conversations, leave prompt= out: what both share is the prompt"
                )

    def missing(self, option: str, column: str) -> None:
        advice = f"say which column it is: {self.path},{option}=COLUMN"
        if option == "user":
            advice += f", or {option}={NO_USER} if the table names no people"
        found = ", ".join(sorted(self.fields))
        near = did_you_mean(column, self.fields)
        advice = f".{near} If not, {advice}" if near else f"; {advice}"
        raise PalateError(f"{self.source}: no column {column!r} for the {option}{advice}. Columns found: {found}")

    def single(self, role: str, names: Collection[str]) -> str | None:
        """The column of a role: as an option says, or the only one of a usual name."""
        if role in self.options:
            return self.options[role]
        found = [field for field in self.fields if field not in self.taken and plain(field) in names]
        if not found:
            return None
        if len(found) > 1:
            self.ambiguous[role] = found
        self._guess(role, found[0])
        return found[0]

    def _guess(self, role: str, column: str) -> None:
        self.taken.add(column)
        if _CANONICAL.get(role) != column:
            self.guessed.append(f"{column!r} as the {role}")

    def user(self) -> str | None:
        return None if self.options.get("user") == NO_USER else self.single("user", _USER_NAMES)

    def id(self) -> str | None:
        named = self.options.get("id", "id" if "id" in self.fields and "id" not in self.taken else NO_USER)
        return None if named == NO_USER else named

    def group(self) -> str | None:
        """What tells which choices belong together: an option, or the column of talks."""
        talks = [name for name in TALKS for field in self.fields if plain(field) == name and field not in self.taken]
        return self.single("group", talks[:1])

    def demographics(self) -> tuple[str, ...]:
        named = self.options.get("demographics")
        if named and self.options.get("user") == NO_USER:
            raise PalateError(f"{self.source}: demographics are of a user, and user=none says that there is none")
        return tuple(dict.fromkeys(named.split("+"))) if named else ()

    def responses(self) -> dict[str, Any]:
        """The two responses, and what says which was preferred."""
        by_choice = {"chosen", "rejected"} & set(self.options)
        by_label = {"response_a", "response_b", "label", "labels", "score_a", "score_b"} & set(self.options)
        if by_choice and by_label:
            raise PalateError(
                f"{self.source}: give either chosen and rejected, or response_a, response_b and a label; not both"
            )
        choices = [] if by_label else self._both("chosen", "rejected", _CHOICES)
        pairs = [] if by_choice else self._both("response_a", "response_b", _RESPONSES)
        used = {column for pair in choices for column in pair}
        labels = [field for field in self.fields if field not in {*self.taken, *used} and plain(field) in _LABELS]
        scores = self._both("score_a", "score_b", _SCORE_PAIRS)
        judged = "label" in self.options or bool(labels) or bool(scores)
        if choices and pairs:  # the former may hold texts, or say which of the latter was chosen: A, or a model
            one, other = choices[0], pairs[0]
            label = f"label={labels[0] if labels else one[0]}"
            if scores and not labels:
                label = f"score_a={scores[0][0]},score_b={scores[0][1]}"
            raise PalateError(
                f"{self.source}: the choice is there twice, as {one[0]!r} and {one[1]!r} and as {other[0]!r} and "
                f"{other[1]!r}{' with a label' if judged else ''}. Say which columns hold the texts: "
                f"{self.path},chosen={one[0]},rejected={one[1]} or "
                f"{self.path},response_a={other[0]},response_b={other[1]},{label}"
            )
        if choices:
            return self._taken_pair(("chosen", "rejected"), choices)
        if not pairs:
            missing = (
                "response_a=COLUMN,response_b=COLUMN,label=COLUMN" if by_label else "chosen=COLUMN,rejected=COLUMN"
            )
            raise PalateError(
                f"{self.source}: cannot tell which columns hold the two responses; say so: {self.path},{missing}. "
                f"Columns found: {', '.join(sorted(self.fields))}"
            )
        if not judged:
            raise PalateError(
                f"{self.source}: {pairs[0][0]!r} and {pairs[0][1]!r} hold two responses, and no column says which was "
                f"preferred; say which does: {self.path},label=COLUMN or {self.path},score_a=COLUMN,score_b=COLUMN. "
                f"Columns found: {', '.join(sorted(self.fields))}"
            )
        columns = self._taken_pair(("response_a", "response_b"), pairs)
        if "label" in self.options or (labels and not {"score_a", "score_b"} & set(self.options)):
            return {**columns, "label": self.single("label", _LABELS)}
        if len(scores) > 1:
            self.ambiguous["score_a"], self.ambiguous["score_b"] = ([pair[side] for pair in scores] for side in (0, 1))
        self.taken |= set(scores[0])
        if not {"score_a", "score_b"} <= set(self.options):
            self.guessed.append(f"the higher of {scores[0][0]!r} and {scores[0][1]!r} as the choice")
        return {**columns, "scores": scores[0]}

    def _both(self, one: str, other: str, known: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Pairs of columns by name, with what the options say of either."""
        first, second = self.options.get(one), self.options.get(other)
        if first and second:
            return [(first, second)]
        free = [field for field in self.fields if field not in self.taken or field in (first, second)]
        if first or second:
            side, names = (1, {names[1] for names in known}) if first else (0, {names[0] for names in known})
            partners = [field for field in free if plain(field) in names and field not in (first, second)]
            canonical = [field for field in partners if field == (other, one)[1 - side]]
            return [(first or name, second or name) for name in canonical or partners]
        return _pairs(known, free)

    def _taken_pair(self, roles: tuple[str, str], pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
        if len(pairs) > 1:
            for side, role in enumerate(roles):
                self.ambiguous[role] = list(dict.fromkeys(pair[side] for pair in pairs))
        for role, column in zip(roles, pairs[0], strict=True):
            if role not in self.options:
                said = {"response_a": "first response", "response_b": "second response"}
                self.taken.add(column)
                if _CANONICAL.get(role) != column:
                    self.guessed.append(f"{column!r} as the {said.get(role, f'{role} response')}")
        return {"first": pairs[0][0], "second": pairs[0][1]}

    def refuse_ambiguous(self) -> None:
        """One sentence for all roles that several columns could have."""
        if not self.ambiguous:
            return
        said = "; ".join(
            f"{' and '.join(map(repr, names))} could each be the {role}"
            for role, names in self.ambiguous.items()
            if len(names) > 1
        )
        options = {**self.options, **{role: names[0] for role, names in self.ambiguous.items()}}
        settled = ",".join([self.path, *(f"{option}={column}" for option, column in options.items())])
        raise PalateError(f"{self.source}: {said}. Say which, for example {settled}")

    def free(self, found: Columns) -> list[str]:
        return [field for field in self.fields if field not in {*self.taken, *found.demographics, found.id}]

    def hints(self, found: Columns) -> Iterable[str]:
        left = self.free(found)
        traits = [field for field in left if _is_trait(field)]
        if traits and found.user is not None:
            named = "+".join((*found.demographics, *traits))
            look = "looks like a trait" if len(traits) == 1 else "look like traits"
            yield f"{' and '.join(map(repr, traits))} {look}: add demographics={named} to use {_them(traits)}"
        categories = [field for field in left if plain(field) in _CATEGORIES]
        if categories and found.category is None:
            yield f"{categories[0]!r} could split the results: add category={categories[0]}"


def _is_trait(name: str) -> bool:
    """Whether a column sounds like a trait of a person, also as `rater age` or `user_country`."""
    said = plain(name)
    return said in _TRAITS or any(said.removeprefix(who) in _TRAITS for who in _USERS)


def _them(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _pairs(known: Iterable[tuple[str, str]], fields: Collection[str]) -> list[tuple[str, str]]:
    """Every pair of usual names that the fields hold; names may differ in case and spaces alone."""
    by_name: dict[str, list[str]] = {}
    for field in fields:
        by_name.setdefault(plain(field), []).append(field)
    return [pair for one, other in known for pair in product(by_name.get(one, ()), by_name.get(other, ()))]


def times(fields: Iterable[str], taken: Collection[str]) -> list[str]:
    """Columns that sound like a time, the likeliest first."""
    free = [field for field in fields if field not in taken]
    return [field for name in TIMES for field in free if plain(field) == name]
