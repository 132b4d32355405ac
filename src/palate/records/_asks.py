"""What a reward model is asked and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

from palate.records._people import Judgement

PartKind = Literal["demographics", "values", "post", "judgement", "aspect", "persona", "plan"]


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One piece of a view: a post, a judgement, an aspect; rendered, with its own id."""

    kind: PartKind
    text: str
    """As a prompt shows it."""
    content: str | None = None
    """The bare words, without the frame that the rendering puts around them."""
    id: str | None = None
    judgement: Judgement | None = None
    """The judgement itself, when the part is one: some models want its pieces, not its rendering."""
    fields: dict[str, str | list[str]] | None = None
    """Demographics and values field by field, for models that know groups."""
    borrowed: bool = False
    """Whether it is a similar user's, shown because little is known of this one."""

    @property
    def words(self) -> str:
        """The bare words where they are known, else the text."""
        return self.text if self.content is None else self.content


class View(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What of the user a model may see in one ask."""

    name: str
    parts: tuple[Part, ...] = ()
    user_id: str | None = None
    """Whose view this is: nobody's under `none`, the stranger's under `swapped`."""
    by_name: bool = False
    """Whether a model that was trained on this user may call up what it learned: the view `user`. A view that shows
    nothing and is not by name is of a user of whom nothing may be known."""
    dropped: int = 0
    """How many pieces of history the budget left out."""
    withheld: int = 0
    """How many pieces of history were left out because they hold a text of the item."""
    closeness: str | None = None
    """What a stranger has in common with the user, in a view of somebody else."""
    neighbours: tuple[str, ...] = ()
    """Similar users whose history fills up what is shown, or what the writer of the view read."""

    @property
    def text(self) -> str:
        """All parts, rendered for a prompt; empty when the view shows nothing."""
        return "\n\n".join(part.text for part in self.parts)

    def of_kind(self, kind: PartKind) -> tuple[Part, ...]:
        """The parts of one kind, most relevant first."""
        return tuple(part for part in self.parts if part.kind == kind)


class Ask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The unit of scoring: one view, one prompt, N candidate responses."""

    id: str
    prompt: str
    responses: tuple[str, ...]
    view: View = View(name="none")
    shown: tuple[int, ...] | None = None
    """Where the person saw each response, for benchmarks that recorded it."""


class Rating(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to an ask: a score for each response, or *unscored* with the reason.

    >>> Rating(scores=[0.2, 0.9])
    Rating(scores=(0.2, 0.9), unscored=None, probabilities=None, raw=None, note=None, verdicts=None)
    >>> Rating(unscored="the judge refused").unscored
    'the judge refused'
    """

    scores: Sequence[float] | None = None
    """Higher is better; only their order within one ask means anything."""
    unscored: str | None = None
    """Why there are no scores. Never silently a win, a loss or a half."""
    probabilities: Sequence[float] | None = None
    """For each response, the probability that this user prefers it, where the model claims one."""
    raw: str | None = None
    """The model's own words, so that they can be read again without asking again."""
    note: str | None = None
    """What a reader of the score should know, such as a fall-back to an impersonal score."""
    verdicts: tuple[str, ...] | None = None
    """A judge's verdicts: for each pair two, `A`, `B` or `tie`, first in one order and then in the other."""

    def __post_init__(self) -> None:
        if (self.scores is None) == (self.unscored is None):
            raise ValueError("a Rating has either scores or a reason why it is unscored, and not both")
        if self.scores is not None:
            msgspec.structs.force_setattr(self, "scores", tuple(map(float, self.scores)))
        if self.probabilities is not None:
            msgspec.structs.force_setattr(self, "probabilities", tuple(map(float, self.probabilities)))
        if self.verdicts is not None and (len(self.verdicts) % 2 or not {"A", "B", "tie"}.issuperset(self.verdicts)):
            raise ValueError("verdicts are A, B or tie, two for each pair")


@runtime_checkable
class RewardModel(Protocol):
    """Anything that rates asks."""

    name: str

    def rate(self, asks: Sequence[Ask]) -> Sequence[Rating]:
        """One rating for each ask, in the same order."""
        ...
