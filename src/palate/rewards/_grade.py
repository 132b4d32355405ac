"""What grade did a generative judge give one response? Read it, or say that it cannot be read.

The rules go from the most to the least explicit, as for verdicts, and the first that finds anything decides.
A grade brings its own scale (`4 out of 5`, `85%`) or is meant on the scale that was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from palate.rewards._judge_text import Statement, clean, settle

_WORDS = {word: str(n) for n, word in enumerate("zero one two three four five six seven eight nine ten".split())}
_NUMBER = rf"(?:\d{{1,4}}(?:\.\d{{1,6}}|,\d{{1,2}})?|{'|'.join(_WORDS)})(?!\w)"
_SCALE = rf"(?: ?/ ?| ?\(?out of (?:a possible )?)({_NUMBER})\)?"
_RANGE = rf"(?!,? ?(?:-|~|to|or|and)(?: perhaps| maybe| even)? ?{_NUMBER}|[.,]?\d| and a half)"
_GRADE = rf"({_NUMBER})(?:{_SCALE}| ?(%))?{_RANGE}"
_STOP = r"(?= ?(?:points?\b|stars?\b|because\b|since\b|as\b|for\b|[.,;:!?)\]}\"'\n-]|$))"

_ALONE = re.compile(rf"[\s\"'(\[]{{0,3}}{_GRADE}{_STOP}", re.I)
_DIGIT = re.compile(r"[\s\"'(\[]{0,3}-?\d")
_PARENTHESIS = r"(?: ?\((?:[^()\n]{0,20}?out of (\d{1,4})|[^()\n]{0,40})\))?"
_IS = rf"{_PARENTHESIS}[\"']?(?: ?[:=] ?| (?:is|of|would be):? | - |\n)(?=([^\n]{{1,80}}))"
_SCORE = "(?:score|rating|grade|mark|points|note|punktzahl|puntuación|nota|voto|оценка|评分|得分|分数|評価|점수)"
_OVERALL = re.compile(rf"\b(?:overall|final|total)(?:[ _](?:{_SCORE}|assessment|answer|verdict))?{_IS}", re.I)
_LABEL = re.compile(rf"(?<!\w){_SCORE}{_IS}|\[()RESULT\] ?(?=([^\n]{{1,80}}))", re.I)
_MARK = re.compile(r"\[\[()(?=([^\[\]\n]{1,40})\]\])")
_GIVEN = re.compile(
    r"\bI(?:'d| would| will|'ll)? (?:give|rate|score|grade|say)"
    r"(?: (?:it|this|that|the|response|answer|reply|text))*(?: as)?(?: an?)? (?=([^\n]{1,80}))",
    re.I,
)
_FRACTION = re.compile(rf"(?<![\w.,/-])({_NUMBER})(?: ?/ ?(10|5|100)| out of ({_NUMBER}))(?!\w| of\b)", re.I)
_LINE_END = re.compile(r" ?(?:[.!?]*$|,? (?:because|since|as|for)\b| - |,)")


def read_grade(text: str, top: float) -> float | None:
    r"""The grade in a judge's text, on a scale from 0 to `top`; None where a careful reader would not know.

    >>> read_grade("3 good reasons, in 2024. Score: 7/10", top=10)
    7.0
    >>> read_grade("I would say **4 out of 5**.", top=10)
    8.0
    >>> read_grade("<think>9?</think> Tone: 7/10. Accuracy: 9/10. Overall: 8/10", top=10)
    8.0
    >>> read_grade("7-8", top=10) is None
    True
    >>> read_grade("Score: 12", top=10) is None
    True
    """
    cleaned = clean(text)
    for rule in (_overall, _labelled, _first_and_last_line, _given, _fractions):
        statements = sorted(rule(cleaned, top), key=lambda statement: statement.start)
        if statements:
            return settle(statements, cleaned)
    return None


def _overall(text: str, top: float) -> Iterator[Statement[float | None]]:
    """`Overall: 8`, `Final score: 8`, `"overall": 8`: it stands above the grades of single points."""
    return _after([_OVERALL], text, top)


def _labelled(text: str, top: float) -> Iterator[Statement[float | None]]:
    r"""`Score: 8`, `{"score": 8}`, `[[8]]`, `\boxed{8}`, `[RESULT] 8`."""
    return _after([_LABEL, _MARK], text, top)


def _first_and_last_line(text: str, top: float) -> Iterator[Statement[float | None]]:
    """A line that holds the grade alone, or the grade and then the reason; `1. ...` is the number of a point."""
    last = text.rfind("\n") + 1
    for start, line in {0: text.split("\n", 1)[0], last: text[last:]}.items():
        match = _ALONE.match(line)
        if match and _LINE_END.match(line.rstrip(" \"')]"), match.end()):
            yield Statement(start, start + len(line), _value(match, None, top))


def _given(text: str, top: float) -> Iterator[Statement[float | None]]:
    """`I'd give it an 8`."""
    for match in _GIVEN.finditer(text):
        grade = _ALONE.match(match[1])
        if grade:
            yield Statement(match.start(), match.end(), _value(grade, None, top))


def _fractions(text: str, top: float) -> Iterator[Statement[float | None]]:
    """`a solid eight out of ten`: a grade with its scale, anywhere, if it is the only one."""
    for match in _FRACTION.finditer(text):
        yield Statement(match.start(), match.end(), _rescaled(match[1], match[2] or match[3], top))


def _after(labels: list[re.Pattern[str]], text: str, top: float) -> Iterator[Statement[float | None]]:
    """What stands after a label; a label with a number that is no grade (a range, -2) reads as None."""
    for match in (match for label in labels for match in label.finditer(text)):
        last = match.lastindex or 0
        grade = _ALONE.match(match[last])
        if grade or _DIGIT.match(match[last]):
            yield Statement(match.start(), match.end(), _value(grade, match[last - 1], top) if grade else None)


def _value(match: re.Match[str], scale: str | None, top: float) -> float | None:
    return _rescaled(match[1], "100" if match[3] else match[2] or scale or None, top)


def _rescaled(grade: str, scale: str | None, top: float) -> float | None:
    value = _number(grade)
    size = _number(scale) if scale else top
    if size <= 0 or not 0 <= value <= size:
        return None
    return value if size == top else value * top / size


def _number(digits: str) -> float:
    return float(_WORDS.get(digits.lower(), digits).replace(",", "."))
