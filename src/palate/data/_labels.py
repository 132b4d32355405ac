"""Which of two responses a label means: A/B/tie, 0/1, 1/2, model_a/model_b, a pair of scores."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable

import msgspec

from palate.data._draft import FieldError
from palate.records import PalateError

TIE = -1
"""What a label means that prefers neither."""
Reading = Callable[[object], int]
"""From a cell to 0, 1 or `TIE`; FieldError where it says none of these."""

_FIRST, _SECOND = ("a", "first", "left", "1st"), ("b", "second", "right", "2nd")
_TIES = frozenset(
    "tie tied ties equal equally_good equally_bad both both_good both_bad bothbad tie_bothbad tie_both_bad neither "
    "same about_the_same draw no_preference".split()
)
_BEFORE = re.compile(
    r"^(?:(?:i_)?(?:prefer|preferred|prefers|chose|choose)_)?"
    r"(?:(?:the_)?(?:model|response|answer|option|completion|output|candidate|text|assistant|system|reply)_?)?"
)
_AFTER = re.compile(r"_(?:is_better|better|wins|won|preferred|is_preferred|response|answer|one)$")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3},\d{3}")
_LISTED = 8
"""Values of a column that a message names."""
_SHOWN = 40
"""Characters of each."""
_USUAL = "use A, B or tie, or say what the labels are: labels=A+B+tie"
_SEVERAL = "labels=FIRST|FIRST+SECOND|SECOND+TIE"
"""How labels are named of which several mean the same response, as on a scale from much better to much worse."""


class UnknownLabelError(FieldError):
    """A label that means neither response and no tie, as far as palate knows."""

    def __init__(self, field: str, label: str, advice: str) -> None:
        super().__init__(field, f"{label!r} is not a label that palate knows; {advice}")
        self.label = label


def number_of(value: object, field: str) -> float:
    """A score, also as a text with a decimal comma; a thousands separator would be a guess and is refused.

    >>> number_of("3,5", "score_a"), number_of(2, "score_a")
    (3.5, 2.0)
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    text = value.strip() if isinstance(value, str) else ""
    if _THOUSANDS.fullmatch(text):
        raise FieldError(field, f"{value!r} could be a fraction or thousands; write a decimal point")
    if not _NUMBER.fullmatch(text) or not math.isfinite(number := float(text.replace(",", "."))):
        raise FieldError(field, "is empty; give a number" if value in (None, "") else f"{value!r} is not a number")
    return number


def compare_scores(one: object, other: object, fields: tuple[str, str]) -> int:
    """The response with the higher score, or a tie."""
    first, second = number_of(one, fields[0]), number_of(other, fields[1])
    return TIE if first == second else int(second > first)


def label_reading(
    values: Iterable[object], responses: tuple[str, str], field: str, given: str | None = None
) -> tuple[Reading, str]:
    """How the labels of a column are read, and that in words. `given` is the option `labels`, such as `A+B+tie`, or
    `1|2+4|5+3` where several labels mean the same.

    All values of the column decide: 1 alone does not tell whether labels count from 0 or from 1. PalateError, with the
    option that settles it, where numbers could mean either.

    >>> read, said = label_reading(["A", "b", "tie"], ("response_a", "response_b"), "label")
    >>> [read(label) for label in ("A", " model_B ", "Tie")], said
    ([0, 1, -1], '')
    """
    if given is not None:
        known = _given(given)
        tie = "" if TIE in known.values() else f"; if it is a tie, name it last: labels={given}+TIE"
        return _reader(known, field, f"labels={given} says which are{tie}"), ""
    words = _words(responses)
    keys, held = set[str](), Counter[str]()
    for value in values:
        if key := _key(value):
            keys.add(key)
            held[str(value).strip()] += 1
    numbers = sorted((key for key in keys if _is_number(key)), key=float)
    if not numbers or any(words.get(key, TIE) != TIE for key in keys - set(numbers)):
        return _reader(words, field, _how_to_say(held, known=keys & words.keys())), ""
    known = _numbers(numbers, responses, field)
    said = ", ".join(f"{key} is {responses[place]!r}" for key, place in known.items())
    return _reader(words | known, field, _USUAL), f"in {field!r} {said}"


def _given(option: str) -> dict[str, int]:
    meanings = [[_key(label) for label in part.split("|")] for part in option.split("+")]
    keys = [key for labels in meanings for key in labels]
    if not 2 <= len(meanings) <= 3 or "" in keys or len(set(keys)) < len(keys):
        raise PalateError(
            f"option labels={option}: give the label of the first response, that of the second, and that of a tie "
            f"where there is one, such as labels=A+B+tie or labels=1+0. Where several mean the same: {_SEVERAL}"
        )
    return {key: place for labels, place in zip(meanings, (0, 1, TIE), strict=False) for key in labels}


def _words(responses: tuple[str, str]) -> dict[str, int]:
    words = {**dict.fromkeys(_FIRST, 0), **dict.fromkeys(_SECOND, 1), **dict.fromkeys(_TIES, TIE)}
    return words | {_key(name): place for place, name in enumerate(responses)}


def _numbers(found: list[str], responses: tuple[str, str], field: str) -> dict[str, int]:
    """What the numbers of a column mean: how the columns are numbered, or else a count from 0 or from 1."""
    ends = [match[0] if (match := re.search(r"\d$", name)) else "" for name in responses]
    numbered = [tuple(ends)] if all(ends) else [("0", "1"), ("1", "2")]
    fitting = [pair for pair in numbered if set(found) <= set(pair)]
    if len(fitting) == 1:
        return {key: place for place, key in enumerate(fitting[0])}
    shown = ", ".join(found[:_LISTED]) + (", ..." if len(found) > _LISTED else "")
    raise PalateError(
        f"column {field!r} holds {shown}, and palate cannot tell which number means {responses[0]!r}. Say the label of "
        f"{responses[0]!r}, that of {responses[1]!r} and that of a tie, if there is one: labels=0+1+2"
        f"{_or_several(len(found))}"
    )


def _reader(known: dict[str, int], field: str, advice: str) -> Reading:
    """Every spelling is read once and remembered. `advice` says what to do about one that is not known."""
    seen: dict[object, int] = {}

    def read(value: object) -> int:
        try:
            found = None if isinstance(value, bool) else seen.get(value)
        except TypeError:  # a list
            return _scores(value, field)
        if found is not None:
            return found
        key = _key(value)
        if key not in known:
            if isinstance(value, str) and value.lstrip().startswith("["):
                return _scores(value, field)
            if value is None or value == "":
                raise FieldError(field, f"is empty; {advice}")
            raise UnknownLabelError(field, str(value), advice)
        if isinstance(value, str):  # 1, 1.0 and True are one key of a dictionary
            seen[value] = known[key]
        return known[key]

    return read


def _how_to_say(held: Counter[str], known: Collection[str]) -> str:
    """What to do about a label that palate does not know: where it knows none of a column's, they are named."""
    usual = [label[:_SHOWN] for label in held if _key(label) in known]
    if usual and len(usual) <= _LISTED:
        named = ", ".join(map(repr, sorted(usual)))
        return f"other rows hold {named}. Correct it, or say what all labels are: labels=FIRST+SECOND+TIE"
    if known or not 2 <= len(held) <= _LISTED:
        return _USUAL
    which = "say which is the first response, the second and a tie: labels=FIRST+SECOND+TIE"
    return f"the column holds {counted(held)}; {which}{_or_several(len(held))}"


def counted(held: Counter[str]) -> str:
    """The labels of a column, each with how often it is there, the most frequent first.

    >>> counted(Counter(["left", "right", "left"]))
    "'left' (2), 'right' (1)"
    """
    shown = [f"{label[:_SHOWN]!r} ({number:,})" for label, number in held.most_common(_LISTED)]
    return ", ".join(shown) + (f" and {len(held) - _LISTED:,} more" if len(held) > _LISTED else "")


def _or_several(labels: int) -> str:
    """How to name more labels than there are meanings."""
    return f". Where several mean the same: {_SEVERAL}" if labels > 3 else ""


def _scores(value: object, field: str) -> int:
    """A label that is a pair of scores."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError:
            value = None
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise FieldError(field, "expected a label or a pair of scores, such as [4, 2]")
    return compare_scores(value[0], value[1], (field, field))


def _key(value: object) -> str:
    """One spelling for all that mean the same: small letters, without brackets and words around what counts."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    if not isinstance(value, str):
        return ""
    text = value.strip().lower()
    if _NUMBER.fullmatch(text) and math.isfinite(number := float(text.replace(",", "."))):
        return str(int(number)) if number.is_integer() else str(number)
    key = re.sub(r"[\W_]+", "_", text).strip("_")
    shorter = _AFTER.sub("", _BEFORE.sub("", key))
    return shorter if shorter in _FIRST or shorter in _SECOND or shorter in _TIES or shorter.isdigit() else key


def _is_number(key: str) -> bool:
    return bool(_NUMBER.fullmatch(key))
