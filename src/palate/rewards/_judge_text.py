"""What a judge wrote: its text as it is read, with one spelling for what looks alike, and what of it stands.

Texts of any length are read whole, since a verdict may stand at either end and what contradicts it anywhere. So
every pass, here and in the rules for verdicts and grades, takes time in proportion to the text and no more.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

Value = TypeVar("Value")


class Statement(NamedTuple, Generic[Value]):
    """A verdict or a grade, and where in the cleaned text it stands."""

    start: int
    end: int
    value: Value


_ANSWER = "(?:answer|verdict|choice|winner|preference|decision|final|result|score|grade|rating)"
_THINK = re.compile(r"[<\[](/?)(?:think|(?:thinking|thought|reasoning|analysis|scratchpad)(?=>))[>\]]", re.I)
_PIECE = re.compile("[\x00-\x7f]*[^\x00-\x7f]{0,1000}")  # an ASCII character never joins what stands before it
_SAME = str.maketrans("‐‑‒–—―−“”„«»‘’‚【】「」〔〕、。", '-------"""""\'\'\'[][][],.')
_MARKUP = [
    (re.compile("[\u200b-\u200f\u2060\ufe0f\ufeff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"), ""),
    (re.compile(r"\\(?:text|math)[a-z]*\{([^{}]*)\}|\\[;,!]|\\quad"), r"\1"),
    (re.compile(r"\\boxed ?\{([^{}]*)\}"), r"[[\1]]"),
    (re.compile(r"\\succ"), ">"),
    (re.compile(r"\\prec"), "<"),
    (re.compile(r"\\[\[\]()]|\$"), " "),
    (re.compile(f"<{_ANSWER}>", re.I), "[["),
    (re.compile(f"</{_ANSWER}>", re.I), "]]"),
    (re.compile(r"</?(?:br|p|div|li|ul|ol|tr|h\d)\b[^<>]{0,99}>", re.I), "\n"),
    (re.compile(r"</?[a-z][^<>\n]{0,99}>|<\|[^<>|\n]{0,40}\|>", re.I), ""),
    (re.compile(r"```(?:[a-z]+(?=\s))?", re.I), "\n"),
    (re.compile(r"[*`]|(?<![^\W_])_+|_+(?![^\W_])"), ""),
    (re.compile(r"[^\S\n]+"), " "),
    (re.compile(r" ?\n[ \n]*"), "\n"),
    (re.compile(r"^ ?#+ ?([^\n]+)", re.M), r"\1:"),  # a heading announces what comes next
]
_BULLET = re.compile(r"^ ?(?:[-•>] )+", re.M)


def clean(text: str) -> str:
    """The text without its reasoning and markup; a boxed or tagged answer becomes `[[answer]]`.

    Reasoning that never ends hides all that follows it; an end without a beginning, all before.

    >>> clean("<think>A?</think>## Verdict\\n<answer>Ｂ</answer>")
    'Verdict:\\n[[B]]'
    """
    kept: list[str] = []
    thinking = False
    pieces = _THINK.split(text)
    for spoken, closing in zip(pieces[::2], [None, *pieces[1::2]], strict=True):
        if closing and not thinking:
            kept.clear()
        thinking = closing == ""
        if not thinking:
            kept.append(spoken)
    cleaned = _one_spelling(_ECHO.sub(" ", " ".join(kept)).translate(_SAME)).replace("\r", "\n")
    for pattern, plain in _MARKUP:
        cleaned = pattern.sub(plain, cleaned)
    return _BULLET.sub("", own_words(cleaned.strip())).strip()


_ECHO = re.compile(r"<<([0-9a-f]{12})\b.*?(?:\b\1>>|\Z)", re.S | re.I)
# On one line between any two marks; over several where they stand as an opening and a closing one do.
_QUOTED = re.compile(r'"([^"\n]*)"|(?<![\w"])"(?=\S)[^"]*(?<=\S)"(?!\w)|^ ?>[^\n]*$', re.M)
_LONGEST_NAME = 3
"""Words: `"Response A"` names a side. More than this in quotation marks, or a label, is what somebody else said."""


def own_words(text: str) -> str:
    """A cleaned text without what it quotes, which is not the judge's own verdict; all of it, if that is a quotation.

    >>> own_words('It says "I am best, so [[A]] it is". I say "[[B]]".')
    'It says  . I say "[[B]]".'
    """
    if _QUOTED.fullmatch(text) or text.startswith("{"):  # an answer in quotation marks, or as JSON
        return text
    return _QUOTED.sub(lambda quote: quote[0] if _is_name(quote[1] or "") else " ", text)


def _is_name(words: str) -> bool:
    return 0 < len(words.split()) <= _LONGEST_NAME and ":" not in words


def _one_spelling(text: str) -> str:
    """NFKC, piece by piece: the time to sort a run of accents grows with the square of its length."""
    return "".join(unicodedata.normalize("NFKC", piece) for piece in _PIECE.findall(text))


_CORRECTION = re.compile(
    r"\b(?:actually|correction|on reflection|on second thoughts?|wait|mixed up|changed my mind"
    r"|reconsider\w*|scratch that|was wrong)\b",
    re.I,
)


def settle(statements: list[Statement[Value]], text: str) -> Value | None:
    """What stands after corrections; None for a contradiction."""
    value: Value | None = statements[0].value
    for earlier, later in pairwise(statements):
        if _CORRECTION.search(text, earlier.end, later.end):
            value = later.value
        elif later.value != value:
            value = None
    return value
