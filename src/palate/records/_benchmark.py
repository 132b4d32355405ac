"""What a benchmark holds: comparisons, completions, and the card that says where they come from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby

import msgspec

from palate.records._people import User


class Aspect(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the rubric that this user would judge an answer by."""

    aspect: str
    reason: str | None = None
    evidence: str | None = None


class Privileged(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """Facts that never reach a reward model, except through the view named `oracle`."""

    narrative: str | None = None
    aspects: tuple[Aspect, ...] = ()


_NOTHING = Privileged()


def _share_nothing(item: Comparison | Completion) -> None:
    """Keep one empty `Privileged`, which the encoder leaves out by identity: equal items then hash the same."""
    if item.privileged is not _NOTHING and item.privileged == _NOTHING:
        msgspec.structs.force_setattr(item, "privileged", _NOTHING)


class Comparison(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """One user, one prompt, two or more responses, and the index that this user preferred."""

    id: str
    user_id: str
    prompt: str
    responses: tuple[str, ...]
    preferred: int
    category: str | None = None
    difficulty: str | None = None
    contrast: str | None = None
    """How the rejected response was made to differ, such as `violates`, `ignores`, `avoid` or `twins`."""
    twin: str | None = None
    """Id of the comparison with the same responses and the opposite label."""
    group: str | None = None
    """Items of one group (one question, one pair of texts) must not be split between train and test."""
    date: str | None = None
    sequence: int | None = None
    shown: tuple[int, ...] | None = None
    """For each response, the position (from 0) at which the person saw it, where that was recorded."""
    privileged: Privileged = _NOTHING

    def __post_init__(self) -> None:
        _share_nothing(self)

    @property
    def chosen(self) -> str:
        """The response that the user preferred."""
        return self.responses[self.preferred]

    @property
    def rejected(self) -> tuple[str, ...]:
        """The other responses."""
        return self.responses[: self.preferred] + self.responses[self.preferred + 1 :]


class Completion(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """One user, one prompt, and the text that this user really wrote."""

    id: str
    user_id: str
    prompt: str
    text: str | None = None
    """Ground truth; `None` where only a rubric tells what the user wanted."""
    alternatives: tuple[str, ...] = ()
    """What other people wrote for the same prompt."""
    category: str | None = None
    group: str | None = None
    date: str | None = None
    sequence: int | None = None
    privileged: Privileged = _NOTHING

    def __post_init__(self) -> None:
        _share_nothing(self)


class Card(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a benchmark comes from and under which terms."""

    name: str
    title: str
    version: str
    licence: str
    source: str
    description: str = ""
    notes: tuple[str, ...] = ()
    """What the loader left out or changed, with counts."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """The notes that count what of the data is not there to be measured.

        >>> notes = ("ties, left out: 12", "every row is a user")
        >>> Card(name="prefs", title="", version="", licence="", source="", notes=notes).left_out
        ('ties, left out: 12',)
        """
        return tuple(note for note in self.notes if re.search(r"left out: [\d,]*[1-9]", note))


class Benchmark(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A card with users, comparisons and completions."""

    card: Card
    users: dict[str, User]
    comparisons: Sequence[Comparison] = ()
    completions: tuple[Completion, ...] = ()

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over every user, comparison and completion, whatever their order in the files."""
        return _content_hash([*self.users.values()], self.comparisons, self.completions)


_TELLING = 48
"""Bytes that mostly tell two records apart: they begin with their ids."""


def _content_hash(*collections: Sequence[User | Comparison | Completion]) -> str:
    """Of every record as JSON, in the order of those texts. They are sorted by their beginnings, and made again to be
    hashed, so that a large benchmark is not held in memory twice."""
    import numpy as np  # not at the top: `palate --help` does without

    encoder = msgspec.json.Encoder(order="deterministic", enc_hook=list)
    digest = hashlib.sha256()
    for collection in collections:
        begins = np.fromiter((encoder.encode(record)[:_TELLING] for record in collection), f"S{_TELLING}")
        order = np.argsort(begins, kind="stable")
        for _, alike in groupby(order.tolist(), key=lambda place: bytes(begins[place])):
            for record in sorted(encoder.encode(collection[place]) for place in alike):
                digest.update(record)
                digest.update(b"\n")
        digest.update(b"\x00")
    return digest.hexdigest()
