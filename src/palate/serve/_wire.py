"""What goes over the wire: palate's own protocol, and that of OpenRLHF's remote reward URL.

msgspec reads it: it stops at the first fault and makes nothing of what it was not asked for, so that no body takes
much more time or memory than its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec
from pydantic import BaseModel

from palate.records import Ask, PalateError, Part, Rating, View
from palate.serve._profiles import trainer_ask

END_MARKS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<end_of_turn>", "</s>")
"""How chat models end an answer. OpenRLHF leaves the mark in the text that it sends."""
LONGEST_LIST = 65_536
"""The most entries of any list in a request; `--max-responses` is checked as well."""
LONGEST_TEXT = 1_000_000
"""Characters of one text, or of all parts of a view: a model may read a text in one go, and nothing else runs then."""
FAULTS_TOLD = 5
LARGEST_SEARCHED = 2**20
"""In a larger body only the first fault is looked for."""

_HALF = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")

Listed = msgspec.Meta(max_length=LONGEST_LIST)
NotEmpty = msgspec.Meta(min_length=1, max_length=LONGEST_LIST)
Described = msgspec.Meta
Text = Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)]


class UnreadableError(Exception):
    """A body that cannot be used: where and why, without what was sent, which may be long, and about a person."""

    def __init__(self, faults: list[dict[str, object]]) -> None:
        super().__init__(str(faults))
        self.faults = faults


class AskLine(msgspec.Struct, frozen=True, kw_only=True):
    """One view, one prompt, some responses."""

    id: Text
    prompt: Text
    responses: Annotated[list[Text], NotEmpty]
    view: Annotated[Text | None, Described(description="What is known of the user, as text.")] = None
    view_name: Text | None = None
    user_id: Annotated[
        Text | None, Described(description="Whose view it is. Without a view, the server looks the user up.")
    ] = None
    by_name: Annotated[
        bool, Described(description="Whether a model may call up what it learned of this user in training.")
    ] = False
    parts: Annotated[list[Part], Listed] | None = None
    """The pieces of the view, in place of its text."""
    shown: Annotated[list[int], Listed] | None = None
    """Where the person saw each response."""

    def __post_init__(self) -> None:
        if self.parts is not None and self.view:
            raise ValueError("give the view as text or in parts, not both")
        if self.shown is not None and not len(self.shown) == len(set(self.shown)) == len(self.responses):
            raise ValueError("shown has one place for each response, and each its own")
        if sum(max(len(part.text), len(part.content or "")) for part in self.parts or ()) > LONGEST_TEXT:
            raise ValueError(f"the parts of a view have at most {LONGEST_TEXT:,} characters together")
        for judgement in (part.judgement for part in self.parts or () if part.judgement is not None):
            if not 0 <= judgement.preferred < len(judgement.responses):
                count = len(judgement.responses)
                raise ValueError(f"preferred is {judgement.preferred}, and there are {count} responses")

    def ask(self) -> Ask:
        """As palate knows it."""
        told = trainer_ask(self.id, self.prompt, self.responses, user_id=self.user_id, view=self.view)
        parts = told.view.parts if self.parts is None else tuple(self.parts)
        name = self.view_name or ("given" if parts else told.view.name)
        by_name = self.by_name or name == "user"
        view = View(name=name, parts=parts, user_id=self.user_id, by_name=by_name)
        return msgspec.structs.replace(told, view=view, shown=tuple(self.shown) if self.shown is not None else None)


class AskRequest(msgspec.Struct, frozen=True):
    """Up to as many asks as the server takes at a time, each with an id of its own."""

    asks: Annotated[list[AskLine], NotEmpty]

    def __post_init__(self) -> None:
        if len({ask.id for ask in self.asks}) < len(self.asks):
            raise ValueError("two asks have the same id")

    def to_asks(self) -> list[Ask]:
        """As palate knows them."""
        return [line.ask() for line in self.asks]


class RatingModel(BaseModel):
    """Scores, one for each response, or the reason why there are none."""

    id: str
    scores: list[float] | None = None
    unscored: str | None = None
    probabilities: list[float] | None = None
    raw: str | None = None
    note: str | None = None
    verdicts: list[str] | None = None


class RatingAnswer(BaseModel):
    """One rating for each ask, with the ask's id."""

    ratings: list[RatingModel]


def ratings_body(asks: Sequence[Ask], ratings: Sequence[Rating]) -> bytes:
    """A `RatingAnswer`, as it is sent."""
    lines = [{"id": ask.id} | msgspec.to_builtins(rating) for ask, rating in zip(asks, ratings, strict=True)]
    return msgspec.json.encode({"ratings": lines})


class PromptLabel(msgspec.Struct, frozen=True):
    """What a trainer's data set can say of each prompt."""

    question: Text | None = None
    user_id: Text | None = None
    view: Text | None = None


class RewardRequest(msgspec.Struct, frozen=True):
    """OpenRLHF's form: for each query, the prompt it begins with, and the label of its row in the data set."""

    query: Annotated[list[Text], NotEmpty]
    prompts: Annotated[list[Text], Listed]
    labels: Annotated[list[Text | PromptLabel | None], Listed] | None = None
    """For each query a user id, or `{"user_id": ..., "question": ..., "view": ...}`, also as text."""

    def __post_init__(self) -> None:
        labels = self.query if self.labels is None else self.labels
        if not len(self.query) == len(self.prompts) == len(labels):
            raise ValueError(f"{len(self.query)} queries, {len(self.prompts)} prompts and {len(labels)} labels")
        for index, (query, prompt) in enumerate(zip(self.query, self.prompts, strict=True)):
            if not query.startswith(prompt):
                raise ValueError(f"query {index} does not begin with its prompt, so its response cannot be told")

    def to_asks(self) -> list[Ask]:
        """One ask for each query."""
        labels = self.labels or [None] * len(self.query)
        rows = enumerate(zip(self.query, self.prompts, map(read_label, labels), strict=True))
        return [
            trainer_ask(
                str(index),
                prompt if label.question is None else label.question,
                [_without_end(query[len(prompt) :])],
                user_id=label.user_id,
                view=label.view,
            )
            for index, (query, prompt, label) in rows
        ]


class RewardAnswer(BaseModel):
    """One reward for each query."""

    rewards: list[float]


RequestType = TypeVar("RequestType", AskRequest, RewardRequest)


def read_asks(body: bytes, kind: type[RequestType]) -> list[Ask]:
    """The asks of a request; raises `UnreadableError` with the first few faults."""
    try:
        return msgspec.json.decode(body, type=kind).to_asks()
    except PalateError as error:
        raise UnreadableError([fault("labels", str(error))]) from None
    except RecursionError:
        raise UnreadableError([fault("", "JSON is nested too deeply")]) from None
    except msgspec.ValidationError as error:
        more = _other_faults(body) if kind is AskRequest and len(body) <= LARGEST_SEARCHED else []
        raise UnreadableError(more or [_told(error)]) from None
    except msgspec.DecodeError as error:
        why = "a text holds half a character (a lone surrogate)" if _HALF.search(body) else error
        raise UnreadableError([fault("", f"this is not JSON: {why}")]) from None


class _Lines(msgspec.Struct):
    asks: list[msgspec.Raw]


def _other_faults(body: bytes) -> list[dict[str, object]]:
    """The first fault of each of the first few asks that have one."""
    try:
        lines = msgspec.json.decode(body, type=_Lines).asks
    except (msgspec.MsgspecError, RecursionError):
        return []
    faults: list[dict[str, object]] = []
    for index, line in enumerate(lines):
        if len(faults) == FAULTS_TOLD:
            break
        try:
            msgspec.json.decode(line, type=AskLine)
        except RecursionError:
            faults.append(fault(f"asks[{index}]", "JSON is nested too deeply"))
        except msgspec.MsgspecError as error:
            faults.append(_told(error, f"asks[{index}]"))
    return faults


def fault(path: str, why: str) -> dict[str, object]:
    """In the form that FastAPI gives faults.

    >>> fault("asks[3].prompt", "Expected `str`, got `null`")["loc"]
    ['body', 'asks', 3, 'prompt']
    """
    place = [int(word) if word.isdigit() else word for word in re.findall(r"[^.\[\]]+", path)]
    return {"loc": ["body", *place], "msg": why, "type": "value_error"}


def _told(error: msgspec.MsgspecError, path: str = "") -> dict[str, object]:
    """Without the value that an error about a choice of words repeats."""
    why, _, place = str(error).partition(" - at `$")
    place = place.rstrip("`")
    return fault(
        f"{path}{place}", "Not one of the words that are known here" if why.startswith("Invalid enum") else why
    )


def read_label(label: str | PromptLabel | None) -> PromptLabel:
    """A user's id, or an object with fields, which data sets often hold as text.

    >>> read_label("ann").user_id, read_label('{"view": "Drinks tea."}').view, read_label("").user_id
    ('ann', 'Drinks tea.', None)
    """
    if isinstance(label, PromptLabel):
        return label
    if not label:
        return PromptLabel()
    if not label.lstrip().startswith("{"):
        return PromptLabel(user_id=label)
    try:
        return msgspec.json.decode(label, type=PromptLabel)
    except (msgspec.MsgspecError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else error
        raise PalateError(f"a label begins like a JSON object and cannot be read as one: {why}") from None


def _without_end(response: str) -> str:
    """The response without the mark that ends it, and without what is between the two."""
    for mark in END_MARKS:
        if response.rstrip().endswith(mark):
            return response.rstrip().removesuffix(mark)
    return response
