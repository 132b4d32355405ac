"""What a reader should know, in words and by how much it matters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeVar

import msgspec

Severity = Literal["warning", "note", "good"]
SEVERITIES: tuple[Severity, ...] = ("warning", "note", "good")


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a reader should know, in words."""

    severity: Severity
    """`warning`: would mislead. `note`: worth knowing. `good`: nothing wrong here."""
    text: str
    detail: str = ""
    """The numbers behind it, or what to do about it."""
    about: str = ""
    """The reward model that it is about; those of one model stand together."""

    @property
    def sentence(self) -> str:
        """All of it on one line.

        >>> Finding("good", "it uses the person", "+3.0 points over no profile", "embedding").sentence
        'embedding: it uses the person. +3.0 points over no profile.'
        """
        text = self.text if self.text[-1:] in ".?!" else f"{self.text}."
        whole = f"{text} {as_sentence(self.detail)}" if self.detail else text
        return f"{self.about}: {whole}" if self.about else whole


def as_sentence(text: str) -> str:
    """With a capital letter and a full stop.

    >>> as_sentence("seeing posts:5 adds nothing"), as_sentence("Why?")
    ('Seeing posts:5 adds nothing.', 'Why?')
    """
    return text[:1].upper() + text[1:] + ("" if text[-1:] in ".?!" else ".")


FindingType = TypeVar("FindingType", bound=Finding)


def warnings_first(findings: Iterable[FindingType]) -> list[FindingType]:
    """Then notes, then what is good, each in the order given."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
