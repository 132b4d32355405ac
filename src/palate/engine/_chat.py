"""From conversations to token ids, once and only once through the model's own chat template."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from palate.engine._kv_cache import common_prefix
from palate.engine._language import Conversation, Turn
from palate.engine._packing import Group
from palate.engine._torch import require
from palate.engine._weights import brief
from palate.records import PalateError

PROBE = "Some words\nbefore"
FEWEST_TOKENS = 10
"""A tokenizer with fewer tokens is broken."""
LONGEST_KEPT = 65_536
"""Characters of a piece of text whose ids are kept."""


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
        self._kept_ids = lru_cache(maxsize=256)(self.ids)

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

    @cached_property
    def takes_system_turns(self) -> bool:
        """Whether the template has a place for a system turn: some refuse it, some leave it out in silence."""
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

    def answers(self, turns: Conversation, answers: Sequence[str]) -> Group:
        """The ids of a conversation with each of its answers, split where these part; each keeps at least one."""
        *texts, other = (self.answered(turns, answer) for answer in (*answers, PROBE))
        head = self._splittable_head((*texts, other))  # what a single answer shares with those that are yet to come
        [found] = self._groups([(texts, head)], keep=1)
        return found

    def groups(self, many: Sequence[Sequence[str]], *, keep: int = 1) -> list[Group]:
        """The ids of texts with a common beginning, split where they part; each keeps at least `keep`.

        All are tokenized in one call, which takes all cores.
        """
        return self._groups([(texts, self._splittable_head(texts)) for texts in many], keep=keep)

    def continuations(self, many: Sequence[Sequence[str]], *, whole: bool = True) -> list[Group]:
        """The first of some texts is the prompt, which the others continue; whole answers stop at their end token."""
        groups = []
        for group in self.groups(many, keep=0):
            if not group.prefix:
                raise PalateError(f"{self.tokenizer.name_or_path}: its chat template writes nothing before the answer")
            answers = [list(tokens) for tokens in group.continuations[1:]]
            groups.append(Group(group.prefix, [self._ended(tokens) for tokens in answers] if whole else answers))
        return groups

    def whole_answers(self, turns: Conversation, texts: Sequence[str]) -> Group:
        """The tokens of whole answers, their end included, after those of the conversation."""
        [group] = self.continuations([[self.prompt(turns), *(self.answered(turns, text) for text in texts)]])
        return group

    def _ended(self, tokens: list[int]) -> list[int]:
        """With one end token, and nothing of what templates write after it; no end where the template has none."""
        if self.end in tokens:
            return tokens[: len(tokens) - tokens[::-1].index(self.end)]
        return tokens if self.end is None or self.templated else [*tokens, self.end]

    def _groups(self, many: Sequence[tuple[Sequence[str], str]], *, keep: int) -> list[Group]:
        """Texts with the long beginning that they share, which is tokenized once."""
        if not many:
            return []
        ends = [text[len(head) :] for texts, head in many for text in texts]
        ids = iter(self.tokenizer(ends, add_special_tokens=not self.templated, verbose=False)["input_ids"])
        groups = []
        for texts, head in many:
            begin = [token for piece in self._pieces(head) for token in self._piece_ids(piece)]
            tails: list[list[int]] = list(islice(ids, len(texts)))
            # What the first and the last in order share, all share.
            shared = min(common_prefix(min(tails), max(tails)), min(map(len, tails)) - keep)
            groups.append(Group(begin + tails[0][:shared], [tail[shared:] for tail in tails]))
        return groups

    def _pieces(self, head: str) -> list[str]:
        """A beginning cut before every special token: turns that many conversations have in common."""
        return [piece for piece in self._before_specials.split(head) if piece]

    def _piece_ids(self, piece: str) -> list[int]:
        """Kept, since profiles, prompts of many rollouts and the first words of guided texts come again and again."""
        return self._kept_ids(piece) if len(piece) <= LONGEST_KEPT else self.ids(piece)

    def _splittable_head(self, texts: Sequence[str]) -> str:
        """What all texts begin with, up to a special token, where the tokenizer allows to split there."""
        if not (self.templated and self._splits_at_special_tokens):
            return ""
        shortest = min(texts)
        shared = common_prefix(shortest, max(texts))
        cut = max((shortest.rfind(token, 0, shared) for token in self._specials), default=-1)
        return shortest[:cut] if cut > 0 else ""

    @cached_property
    def _specials(self) -> list[str]:
        return [str(token) for token in self.tokenizer.all_special_tokens]

    @cached_property
    def _before_specials(self) -> re.Pattern[str]:
        return re.compile(f"(?={'|'.join(map(re.escape, self._specials))})")

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
        given = turns if self.takes_system_turns else _without_system(turns)
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


def load_chat(name: str, folder: Path, *, trust_remote_code: bool = False) -> Chat:
    """The tokenizer of a folder with its template."""
    transformers = require("transformers", "local")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, trust_remote_code=trust_remote_code, local_files_only=True
        )
        if len(tokenizer) < FEWEST_TOKENS:  # early versions of transformers 5 make one up from nothing
            raise ValueError(f"it would have {len(tokenizer)} tokens")
    except Exception as error:
        raise PalateError(
            f"{name}: no tokenizer can be loaded from {folder} ({brief(error)}). "
            "A model folder needs its tokenizer files beside its weights."
        ) from error
    return Chat(tokenizer)


def _without_system(turns: Sequence[Turn]) -> list[Turn]:
    system = "\n\n".join(turn.content for turn in turns if turn.role == "system")
    others = [turn for turn in turns if turn.role != "system"]
    if system and others and others[0].role == "user":
        others[0] = Turn("user", f"{system}\n\n{others[0].content}")
    return others
