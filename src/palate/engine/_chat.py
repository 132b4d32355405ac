"""From conversations to token ids, once and only once through the model's own chat template."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from jinja2 import TemplateError

from palate.engine._language import Conversation, Turn
from palate.engine._scorer import Group
from palate.records import PalateError

PROBE = "Some words\nbefore"


class Chat:
    """A tokenizer with its chat template; without one, turns are written as `User:` and `Assistant:`.

    A template that refuses system turns gets their text at the head of the first user turn. Templates
    write the beginning-of-text token themselves, so tokenizing never adds another.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._templated = bool(getattr(tokenizer, "chat_template", None))

    def prompt(self, turns: Conversation, opening: str = "") -> str:
        """The text after which the model answers."""
        if not self._templated:
            return _plain(turns) + "Assistant:" + (f" {opening}" if opening else "")
        return self._render(turns, add_generation_prompt=True) + opening

    def answered(self, turns: Conversation, answer: str) -> str:
        """The whole text of a conversation that has been answered."""
        if not self._templated:
            return _plain(turns) + f"Assistant: {answer}"
        return self._render((*turns, Turn("assistant", answer)), add_generation_prompt=False)

    def takes_system_turns(self) -> bool:
        """Whether the template has a place for a system turn."""
        try:
            self._apply([Turn("system", "be brief"), Turn("user", "hello")], add_generation_prompt=True)
        except TemplateError:
            return False
        return True

    def ids(self, text: str) -> list[int]:
        """Token ids of a rendered text."""
        found: list[int] = self.tokenizer(text, add_special_tokens=not self._templated, verbose=False)["input_ids"]
        return found

    def group(self, texts: Sequence[str], *, keep: int = 1) -> Group:
        """The ids of texts with a common beginning, split where they part; each keeps at least so many."""
        rows = self._many_ids(texts)
        shared = min(_common(rows), min(map(len, rows)) - keep)
        return Group(rows[0][:shared], [row[shared:] for row in rows])

    def _many_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The long beginning that all texts share is tokenized once, where the tokenizer allows it."""
        head = self._splittable_head(texts)
        if not head:
            return [self.ids(text) for text in texts]
        first = self.ids(head)
        return [first + self.ids(text[len(head) :]) for text in texts]

    def _splittable_head(self, texts: Sequence[str]) -> str:
        if not (self._templated and self._splits_at_special_tokens):
            return ""
        shortest, longest = min(texts), max(texts)
        same = next((i for i, (a, b) in enumerate(zip(shortest, longest, strict=False)) if a != b), len(shortest))
        cut = max((shortest.rfind(token, 0, same) for token in self._specials), default=-1)
        return shortest[:cut] if cut > 0 else ""

    @cached_property
    def _specials(self) -> list[str]:
        return [str(token) for token in self.tokenizer.all_special_tokens]

    @cached_property
    def _splits_at_special_tokens(self) -> bool:
        """Whether tokenizing the two sides of a special token apart gives the same as together."""
        for token in self._specials:
            tail = f"{token}user\n\nWhat now?{token}"
            if self.ids(PROBE + tail) != self.ids(PROBE) + self.ids(tail):
                return False
        return bool(self._specials)

    def _render(self, turns: Sequence[Turn], *, add_generation_prompt: bool) -> str:
        try:
            return self._apply(turns, add_generation_prompt=add_generation_prompt)
        except TemplateError as error:
            folded = _without_system(turns)
            if len(folded) == len(turns):
                raise PalateError(f"the model's chat template refuses this conversation: {error}") from error
            return self._apply(folded, add_generation_prompt=add_generation_prompt)

    def _apply(self, turns: Sequence[Turn], *, add_generation_prompt: bool) -> str:
        messages = [{"role": turn.role, "content": turn.content} for turn in turns]
        text: str = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=add_generation_prompt
        )
        return text


def _without_system(turns: Sequence[Turn]) -> list[Turn]:
    system = "\n\n".join(turn.content for turn in turns if turn.role == "system")
    others = [turn for turn in turns if turn.role != "system"]
    if system and others and others[0].role == "user":
        others[0] = Turn("user", f"{system}\n\n{others[0].content}")
    return others


def _plain(turns: Sequence[Turn]) -> str:
    names = {"system": "", "user": "User: ", "assistant": "Assistant: "}
    return "".join(f"{names[turn.role]}{turn.content}\n\n" for turn in turns)


def _common(rows: Sequence[list[int]]) -> int:
    """How many ids all rows begin with."""
    low, high = min(rows), max(rows)  # what the first and the last in order share, all share
    return next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
