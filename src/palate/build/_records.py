"""What a build folder holds: lines of its ledgers, each of which says whose it is, so that a person can be erased.

items.jsonl        questions that were selected, with their real answers
posts.jsonl        earlier posts of the people who asked them
select.jsonl       how many posts and questions came in, and why others did not
personal.jsonl     whether an answer could depend on who asks, as a model says
rubrics.jsonl      aspects with evidence quoted from the person's own texts
candidates.jsonl   responses that a generator wrote
verdicts.jsonl     what the filters said of each pair
money.jsonl        what was spent, by stage
gate.jsonl         what the release gate said
validation.jsonl   what people said who graded the items
"""

from __future__ import annotations

from typing import Literal

import msgspec

from palate.build._gate import GateResult
from palate.build._plan import Plan
from palate.records import Aspect
from palate.runs import Ledger, Needs, RunSettings

KIND = "build"
SERVES = "serves"
"""What stands for the contrast of a response that serves the aspects."""


class BuildSettings(RunSettings, frozen=True, kw_only=True):
    """All that decides what is built. The content hash is the fingerprint of the source."""

    kind: Literal["build"] = "build"
    plan: Plan
    models: dict[str, str] = msgspec.field(default_factory=dict)
    """Fingerprints of the language models, by their part."""
    prompts: dict[str, str] = msgspec.field(default_factory=dict)
    """SHA-256 of each prompt, by its name."""
    stages: dict[str, str] = msgspec.field(default_factory=dict)
    """Where the code of stages comes from that replace the built-in ones."""


class OfferedAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A real answer to a question."""

    text: str
    score: int | None = None
    """Votes of the community."""
    accepted: bool = False
    author: str = ""
    """The public page of who wrote it, for the attribution."""


class SelectedItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question by one user."""

    id: str
    user_id: str
    prompt: str
    narrative: str | None = None
    category: str | None = None
    group: str | None = None
    date: str | None = None
    answers: tuple[OfferedAnswer, ...] = ()
    aspects: tuple[Aspect, ...] = ()
    """Where the source brings a rubric."""
    twin: str | None = None
    """The item of another user with the same question, whose response is this one's rejected one."""
    partner: bool = False
    """Whether this user did not ask the question, and stands beside the one who did."""
    page: str = ""
    """The public page of the question, for the attribution."""
    author: str = ""


class PostLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An earlier post of a user."""

    id: str
    user_id: str
    text: str
    date: str | None = None
    category: str | None = None


class SelectLine(msgspec.Struct, frozen=True, kw_only=True):
    """What the selection counted: people are in it as numbers only."""

    step: str
    came: int
    went: int
    why: dict[str, int]


class PersonalLine(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the best answer depends on who asks."""

    item: str
    kept: bool
    why: str
    raw: str


class RubricLine(msgspec.Struct, frozen=True, kw_only=True):
    """The rubric of one user for one question."""

    item: str
    aspects: list[Aspect]
    invented: int = 0
    """Aspects that were dropped, since their evidence is not in the user's texts."""
    why: str = ""
    """Why there is no rubric, where there is none."""
    raw: str = ""


class CandidateLine(msgspec.Struct, frozen=True, kw_only=True):
    """One response: told to serve the aspects, or in which way not to."""

    item: str
    contrast: str
    text: str
    why: str = ""
    """Why there is none."""


class VerdictLine(msgspec.Struct, frozen=True, kw_only=True):
    """What the filters said of one pair; the first that refuses it is the reason."""

    item: str
    contrast: str
    why: str
    """Empty where the pair is kept."""
    numbers: dict[str, float] = {}
    """Such as the grades of both responses."""


class MoneyLine(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of the command spent in one stage."""

    stage: str
    call: int
    prompt_tokens: int
    completion_tokens: int
    cost: float


class GateLine(msgspec.Struct, frozen=True, kw_only=True):
    """What the release gate said of a benchmark with this content."""

    content_hash: str
    result: GateResult


class ValidationLine(msgspec.Struct, frozen=True, kw_only=True):
    """What people said of a benchmark with this content."""

    content_hash: str
    passed: bool | None
    sentences: list[str]


ITEMS = Ledger("items.jsonl", SelectedItem, lambda line: line.id, about="items")
POSTS = Ledger("posts.jsonl", PostLine, lambda line: (line.user_id, line.id), about="items", label="posts")
SELECT = Ledger("select.jsonl", SelectLine, lambda line: line.step, about="nobody")
_OF_ITEM = Needs(ITEMS, lambda line: (line.item,))
PERSONAL = Ledger("personal.jsonl", PersonalLine, lambda line: line.item, _OF_ITEM)
RUBRICS = Ledger("rubrics.jsonl", RubricLine, lambda line: line.item, _OF_ITEM)
CANDIDATES = Ledger("candidates.jsonl", CandidateLine, lambda line: (line.item, line.contrast), _OF_ITEM)
VERDICTS = Ledger("verdicts.jsonl", VerdictLine, lambda line: (line.item, line.contrast), _OF_ITEM)
MONEY = Ledger("money.jsonl", MoneyLine, lambda line: (line.stage, line.call), about="nobody")
GATE = Ledger("gate.jsonl", GateLine, lambda line: line.content_hash, about="nobody")
VALIDATION = Ledger("validation.jsonl", ValidationLine, about="nobody")
LEDGERS = (ITEMS, POSTS, SELECT, PERSONAL, RUBRICS, CANDIDATES, VERDICTS, MONEY, GATE, VALIDATION)


class Yield(msgspec.Struct, frozen=True, kw_only=True):
    """How many came into a stage, went out of it, and why the others did not."""

    stage: str
    came: int
    went: int
    why: dict[str, int]
    of: str = "items"
    """What is counted."""
