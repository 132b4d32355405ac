"""From conversations to token ids, once and only once through the model's own chat template."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

from jinja2 import TemplateError

from palate.engine._language import Conversation, Turn
from palate.engine._packing import Group
from palate.records import PalateError

PROBE = "Some words\nbefore"


class Chat:
    """A tokenizer with its chat template; without one, turns are written as `User:` and `Assistant:`.

    A template that refuses or leaves out system turns gets their text at the head of the first user turn.
    Templates write the beginning-of-text token themselves, so tokenizing never adds another. A text that
    holds a special token, such as the `</s>` of a web page, is kept from ending a turn or beginning another:
    it is taken apart by a space.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.templated = bool(getattr(tokenizer, "chat_template", None))
        self._head_ids = lru_cache(maxsize=256)(self.ids)  # guided texts begin with the same words at every step

    def prompt(self, turns: Conversation, opening: str = "") -> str:
        """The text after which the model answers."""
        if not self.templated:
            return self._plain(turns) + "Assistant:" + (f" {opening}" if opening else "")
        return self._render(turns, add_generation_prompt=True) + opening

    def answered(self, turns: Conversation, answer: str) -> str:
        """The whole text of a conversation that has been answered."""
        if not self.templated:
            return self._plain(turns) + f"Assistant: {self._harmless(answer)}"
        return self._render((*turns, Turn("assistant", answer)), add_generation_prompt=False)

    def shows_answers(self) -> bool:
        """Whether an answer is part of the text of an answered conversation; some templates leave it out."""
        return PROBE in self.answered((Turn("user", "hello"),), PROBE)

    def takes_system_turns(self) -> bool:
        """Whether the template has a place for a system turn: some refuse it, some leave it out in silence."""
        return self._takes_system

    @cached_property
    def _takes_system(self) -> bool:
        if not self.templated:
            return True
        try:
            shown = self._apply([Turn("system", PROBE), Turn("user", "hello")], add_generation_prompt=True)
        except TemplateError:
            return False
        return PROBE in shown

    @cached_property
    def end(self) -> int | None:
        """The token after a whole answer: the template's own, which need not be the tokenizer's end of text."""
        if self.templated:
            text = self.answered((Turn("user", "hello"),), PROBE)
            after = self.ids(text[text.rfind(PROBE) + len(PROBE) :])
            found = next((token for token in after if token in self._reserved), None)
            if found is not None:
                return found
        end: int | None = self.tokenizer.eos_token_id
        return end

    def ids(self, text: str) -> list[int]:
        """Token ids of a rendered text."""
        found: list[int] = self.tokenizer(text, add_special_tokens=not self.templated, verbose=False)["input_ids"]
        return found

    def pair_ids(self, one: str, other: str) -> list[int]:
        """Token ids of two texts as encoders are given them, with what stands between and around them."""
        words = (self._harmless(one), self._harmless(other))
        found: list[int] = self.tokenizer(*words, verbose=False)["input_ids"]
        return found

    def group(self, texts: Sequence[str], *, keep: int = 1) -> Group:
        """The ids of texts with a common beginning, split where they part; each keeps at least so many."""
        rows = self._many_ids(texts)
        shared = min(common(rows), min(map(len, rows)) - keep)
        return Group(rows[0][:shared], [row[shared:] for row in rows])

    def _many_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The long beginning that all texts share is tokenized once, where the tokenizer allows it."""
        head = self._splittable_head(texts)
        tails = [text[len(head) :] for text in texts]
        found: list[list[int]] = self.tokenizer(tails, add_special_tokens=not self.templated, verbose=False)[
            "input_ids"
        ]
        return [self._head_ids(head) + ids for ids in found] if head else found

    def _splittable_head(self, texts: Sequence[str]) -> str:
        if not (self.templated and self._splits_at_special_tokens):
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
            for head in (PROBE, f"{PROBE} ", f"{PROBE}\n"):
                if self.ids(head + tail) != self.ids(head) + self.ids(tail):
                    return False
        return bool(self._specials)

    @cached_property
    def _reserved(self) -> dict[int, str]:
        """Every token that has a meaning of its own, also those that no role is named after."""
        added = getattr(self.tokenizer, "added_tokens_decoder", {})
        found = {index: str(token) for index, token in added.items() if getattr(token, "special", False)}
        return found | dict(zip(self.tokenizer.all_special_ids, self._specials, strict=False))

    @cached_property
    def _forbidden(self) -> re.Pattern[str] | None:
        words = sorted((word for word in self._reserved.values() if len(word) > 1), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, words))) if words else None

    def _harmless(self, text: str) -> str:
        """A text that is only a text: without half characters, and without tokens that are the template's to write."""
        text = text.encode("utf-8", "replace").decode()
        if self._forbidden is None:
            return text
        return self._forbidden.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)

    def _plain(self, turns: Sequence[Turn]) -> str:
        names = {"system": "", "user": "User: ", "assistant": "Assistant: "}
        return "".join(f"{names[turn.role]}{self._harmless(turn.content)}\n\n" for turn in turns)

    def _render(self, turns: Sequence[Turn], *, add_generation_prompt: bool) -> str:
        given = turns if self._takes_system else _without_system(turns)
        try:
            return self._apply(given, add_generation_prompt=add_generation_prompt)
        except TemplateError as error:
            raise PalateError(f"the model's chat template refuses this conversation: {error}") from error

    def _apply(self, turns: Sequence[Turn], *, add_generation_prompt: bool) -> str:
        messages = [{"role": turn.role, "content": self._harmless(turn.content)} for turn in turns]
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


def common(rows: Sequence[list[int]]) -> int:
    """How many ids all rows begin with."""
    low, high = min(rows), max(rows)  # what the first and the last in order share, all share
    return next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
