"""Prompts that are known again inside longer ones, as a trainer sends them: in the marks of a chat template, after a
system prompt or a profile."""

from __future__ import annotations

import re
from collections.abc import Iterable

from palate.data._same_text import is_short, text_key

_FIRST = 3
"""Words by which a prompt is looked for. One of fewer is known again only where it stands alone between marks."""
_MARKS = re.compile(r"[\n:]|<[^<>\n]{1,40}>|\[/?INST\]")
"""What a chat template puts around a prompt."""


class KnownPrompts:
    """Prompts to look for.

    >>> known = KnownPrompts(["How do I make tea?", "Tea?"])
    >>> known.within("<|im_start|>user\\nHow do I make tea?<|im_end|>"), known.within("User: Tea?")
    (['how do i make tea'], ['tea'])
    >>> known.within("My tea")
    []
    """

    def __init__(self, prompts: Iterable[str]) -> None:
        self._keys = frozenset(map(text_key, prompts))
        self._beginning: dict[str, list[str]] = {}
        for key in self._keys:
            if not is_short(key):
                self._beginning.setdefault(" ".join(key.split(" ", _FIRST)[:_FIRST]), []).append(key)

    def within(self, prompt: str) -> list[str]:
        """The keys of those that a prompt is or holds, as `text_key` makes them; the last one in it comes last."""
        whole = text_key(prompt)
        if whole in self._keys:
            return [whole]
        held = {part for part in map(text_key, _MARKS.split(prompt)) if is_short(part) and part in self._keys}
        words, padded = whole.split(" "), f" {whole} "
        for run in set(map(" ".join, zip(*(words[place:] for place in range(_FIRST)), strict=False))):
            held.update(key for key in self._beginning.get(run, ()) if f" {key} " in padded)
        return sorted(held, key=lambda key: (padded.rfind(f" {key} ") + len(key), len(key)))
