"""What goes over the wire: palate's own protocol, and that of OpenRLHF's remote reward URL."""

from __future__ import annotations

import json
from typing import Annotated, Self

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from palate.records import Ask, PalateError, Part, PartKind, Rating, View
from palate.serve._profiles import trainer_ask

END_MARKS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<end_of_turn>", "</s>")
"""How chat models end an answer. OpenRLHF leaves the mark in the text that it sends."""


def _whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"half a character at {error.start}: texts are whole characters") from None
    return text


Text = Annotated[str, AfterValidator(_whole)]


class JudgementLine(BaseModel):
    """One choice that the user made before."""

    prompt: Text
    responses: list[Text]
    preferred: Annotated[int, Field(ge=0)]
    reason: Text | None = None
    values: list[Text] = []
    id: Text | None = None
    date: Text | None = None
    sequence: int | None = None

    @model_validator(mode="after")
    def _preferred_exists(self) -> Self:
        if self.preferred >= len(self.responses):
            raise ValueError(f"preferred is {self.preferred}, and there are {len(self.responses)} responses")
        return self


class PartModel(BaseModel):
    """One piece of a view, for models that want more than its text."""

    kind: PartKind
    text: Text
    content: Text | None = None
    id: Text | None = None
    judgement: JudgementLine | None = None
    fields: dict[Text, Text | list[Text]] | None = None


class AskLine(BaseModel):
    """One view, one prompt, some responses."""

    id: Text
    prompt: Text
    responses: Annotated[list[Text], Field(min_length=1)]
    view: Text | None = Field(None, description="What is known of the user, as text.")
    view_name: Text | None = None
    user_id: Text | None = Field(None, description="Whose view it is. Without a view, the server looks the user up.")
    by_name: bool = Field(False, description="Whether a model may call up what it learned of this user in training.")
    parts: list[PartModel] | None = Field(None, description="The pieces of the view, in place of its text.")
    shown: list[int] | None = Field(None, description="Where the person saw each response.")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.parts is not None and self.view:
            raise ValueError("give the view as text or in parts, not both")
        if self.shown is not None and len(self.shown) != len(self.responses):
            raise ValueError("shown has one place for each response")
        return self

    def ask(self) -> Ask:
        """As palate knows it."""
        told = trainer_ask(self.id, self.prompt, self.responses, user_id=self.user_id, view=self.view)
        parts = told.view.parts
        if self.parts is not None:
            parts = tuple(msgspec.convert(part.model_dump(exclude_none=True), Part) for part in self.parts)
        name = self.view_name or ("given" if parts else told.view.name)
        by_name = self.by_name or name == "user"
        view = View(name=name, parts=parts, user_id=self.user_id, by_name=by_name)
        return msgspec.structs.replace(told, view=view, shown=tuple(self.shown) if self.shown is not None else None)


class AskRequest(BaseModel):
    """Up to as many asks as the server takes at a time, each with an id of its own."""

    asks: Annotated[list[AskLine], Field(min_length=1)]

    @model_validator(mode="after")
    def _ids_differ(self) -> Self:
        if len({ask.id for ask in self.asks}) < len(self.asks):
            raise ValueError("two asks have the same id")
        return self


class RatingModel(BaseModel):
    """Scores, one for each response, or the reason why there are none."""

    id: str
    scores: list[float] | None = None
    unscored: str | None = None
    probabilities: list[float] | None = None
    raw: str | None = None
    note: str | None = None
    verdicts: list[str] | None = None

    @classmethod
    def of(cls, id: str, rating: Rating) -> Self:
        """A rating as it is sent."""
        return cls(id=id, **msgspec.to_builtins(rating))


class RatingAnswer(BaseModel):
    """One rating for each ask, with the ask's id."""

    ratings: list[RatingModel]


class PromptLabel(BaseModel):
    """What a trainer's data set can say of each prompt."""

    model_config = ConfigDict(extra="ignore")
    question: Text | None = None
    user_id: Text | None = None
    view: Text | None = None


class RewardRequest(BaseModel):
    """OpenRLHF's form: for each query, the prompt it begins with, and the label of its row in the data set."""

    query: Annotated[list[Text], Field(min_length=1)]
    prompts: list[Text]
    labels: list[Text | PromptLabel | None] | None = Field(
        None, description='For each query a user id, or {"user_id": ..., "question": ..., "view": ...}, also as text.'
    )

    @model_validator(mode="after")
    def _lengths_agree(self) -> Self:
        labels = self.query if self.labels is None else self.labels
        if not len(self.query) == len(self.prompts) == len(labels):
            raise ValueError(f"{len(self.query)} queries, {len(self.prompts)} prompts and {len(labels)} labels")
        for index, (query, prompt) in enumerate(zip(self.query, self.prompts, strict=True)):
            if not query.startswith(prompt):
                raise ValueError(f"query {index} does not begin with its prompt, so its response cannot be told")
        return self

    def asks(self) -> list[Ask]:
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
        return PromptLabel.model_validate(json.loads(label))
    except ValueError as error:
        raise PalateError(f"a label begins like a JSON object and cannot be read as one: {error}") from error


def _without_end(response: str) -> str:
    """The response without the mark that ends it, and without what is between the two."""
    for mark in END_MARKS:
        if response.rstrip().endswith(mark):
            return response.rstrip().removesuffix(mark)
    return response
