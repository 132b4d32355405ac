"""What did a generative judge of two responses decide? Read it, or say that it cannot be read.

The rules go from the most to the least explicit, and the first that finds anything decides. A judge may
correct itself in words ("actually", "wait", "on reflection"): then the later verdict counts. Two different
verdicts with no such word between them are a contradiction, which nobody can read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal

from palate.rewards._judge_text import Statement, clean, settle

Verdict = Literal["A", "B", "tie"]


def read_verdict(text: str) -> Verdict | None:
    r"""The verdict of a judge of responses A and B; None where a careful reader would not know.

    >>> read_verdict(r"<think>A is better?</think> Both are fine. \boxed{\text{Response B}}")
    'B'
    >>> read_verdict("A is better on tone, however the dates are wrong. Final verdict: B")
    'B'
    >>> read_verdict("Verdict: A ... Verdict: B") is None
    True
    >>> read_verdict("Verdict: A ... Actually, on reflection: B")
    'B'
    >>> read_verdict("A good response would name the price.") is None
    True
    """
    cleaned = clean(text)
    for rule in (_explicit, _scores, _first_and_last_line, _prose):
        statements = sorted(rule(cleaned), key=lambda statement: statement.start)
        if statements:
            return settle(statements, cleaned)
    return None


# The two sides and the tie, by all their names.

_NOUN = r"(?:response|answer|assistant|option|candidate|output|model|completion|reply|text|message)"
_NAMED = (
    rf"(?:\b(?:the )?{_NOUN}[ _-]?[\"'(\[#]?(?:[ab12]|one|two)(?![\w'])[\"')\]]{{0,2}}"
    rf"|\b(?:the )?(?:first|second)[ _](?:{_NOUN}|one)\b(?!'))"
)
_LETTER = r"(?-i:(?<![\w'])[AB](?![\w']))"
_SIDE = rf"(?:{_NAMED}|[\"(\[]{{0,2}}{_LETTER}[\")\]]{{0,2}})"
_EQUAL = r"(?:equal|equally (?:good|bad|strong|helpful|well|matched|useful)|the same|tied|on a par|comparable)"
_BOTH = rf"(?:(?:they|both|the two)(?: are| {_NOUN}s(?: are)?)?|{_SIDE} and {_SIDE} are)"
_DRAWN = (
    rf"(?:(?:it(?:'s| is)|this is|call (?:it|this)) (?:an? )?(?:tie|draw)"
    rf"(?: between (?:{_SIDE} and {_SIDE}|the two|them))?|{_BOTH} (?:about |roughly )?{_EQUAL}"
    rf"|neither(?: {_NOUN}| one| of them)? is (?:clearly )?better(?: than the other)?)"
)
_TIE = rf"(?:(?:I(?:'d| would) )?{_DRAWN}|(?:an? )?(?:tie|draw)|equal)"
_WHOLE_SIDE = re.compile(rf"(?:the )?(?:{_NOUN}[ _-]?[\"'(\[#]{{0,2}})?(?:[ab12]|first|second)|{_NAMED}", re.I)
_WHOLE_TIE = re.compile(_TIE, re.I)
_SIGN = re.compile(rf"({_SIDE}) ?([<>]{{1,3}}|={{1,2}}) ?({_SIDE})", re.I)
_SECOND = re.compile(r"(?:[b2]|two)\W*$|\bsecond", re.I)
_CYRILLIC = {"А": "A", "В": "B", "Б": "B"}
_OTHER: dict[Verdict, Verdict] = {"A": "B", "B": "A"}


def _side(name: str) -> Verdict:
    return "B" if _SECOND.search(name) else "A"


def _choice(words: str) -> Verdict | None:
    """The verdict of words that say nothing else."""
    words = words.strip(" \n\"'.,:;!?()[]{}-")
    words = _CYRILLIC.get(words, words)
    if _WHOLE_SIDE.fullmatch(words):
        return _side(words)
    if _WHOLE_TIE.fullmatch(words):
        return "tie"
    signed = _SIGN.fullmatch(words)
    if not signed or _side(signed[1]) == _side(signed[3]):
        return None
    return "tie" if signed[2][0] == "=" else _side(signed[1 if signed[2][0] == ">" else 3])


# Explicit: marked [[B]], labelled "Verdict: B", or a field of an object {"verdict": "B"}.

_MARK = re.compile(r"(?<!or )\[\[([^\[\]]{1,60})\]\](?! ?(?:if|when|for|or)\b)")
_PREFERRED = (
    rf"(?:(?:preferred|better|best|chosen|winning|stronger) (?:{_NOUN}|one|choice)"
    rf"|(?:{_NOUN}|one) that (?:(?:better|best|more closely) \w+|(?:this|the) (?:user|person) would"
    r"(?: most likely)? (?:prefer|like|choose|pick))(?: \w+){0,4}(?= is\b))"
)
_OTHERS = "initial first second other rejected worse worst past previous not"
_NOT_ITS_OWN = "".join(rf"(?<!{word} )" for word in _OTHERS.split())
_LABEL = re.compile(
    rf"{_NOT_ITS_OWN}(?<!'s )(?<!said: )(?<!says: )\b"
    rf"(?:verdict|winner|(?:my|final|best|overall) (?:answer|choice|pick)"
    rf"|choice|decision|judge?ment|preference|preferred|prefers?(?=:)|{_PREFERRED})"
    r"(?: ?[:=-]{1,2}|\] ?| (?:is|goes to|would be)\b(?: that\b| for\b)?:?|\n)\s?(?=([^\n]{1,200}))",
    re.I,
)
_FOREIGN = (
    "Antwort|Urteil|Réponse|Respuesta|Risposta|Resposta|Antwoord|Svar|Odpowiedź|Cevap|Ответ|Вердикт|Відповідь"
    "|Câu trả lời|Jawaban|答案|答え|回答|判断|結論|结论|정답|답변|जवाब|उत्तर|الجواب|الإجابة"
)
_WEAK_LABEL = re.compile(
    r"(?:^(?:(?:so|therefore|thus|the|correct),? ){0,3}(?:answer|result|output|conclusion)(?: ?[:=-]| is\b:?)"
    r"|\[RESULT\]|(?:^given|on reflection|on second thoughts?|correction|actually)[^:\n]{0,40}:"
    rf"|^[^\n:=.]{{0,20}}(?:{_FOREIGN}) ?[:=]) ?\n?(?=([^\n]{{1,200}}))",
    re.I | re.M,
)
_FIELD = re.compile(
    r"[\"'](?:final_)?(?:verdict|winner|choice|chosen|preferred|preference|better|best|answer|decision|judge?ment"
    r"|result|selected)(?:_(?:response|answer|option))?[\"'] ?: ?([^,}\n]{1,80})",
    re.I,
)
_CLAUSE_END = re.compile(
    rf",(?! ?{_SIDE})|[;!\n]|\.(?!\w)|(?<=\S) ?\(| - | (?:because|since|as|due to|based on|with|by)\b", re.I
)


def _explicit(text: str) -> Iterator[Statement[Verdict]]:
    for match in _MARK.finditer(text):
        verdict: Verdict | None = "tie" if match[1].strip() == "C" else _choice(match[1])
        if verdict:
            yield Statement(match.start(), match.end(), verdict)
    for pattern in (_LABEL, _WEAK_LABEL, _FIELD):
        for match in pattern.finditer(text):
            verdict = _choice(_CLAUSE_END.split(match[1], maxsplit=1)[0]) or _opinion(match[1][:100])
            if verdict:
                yield Statement(match.start(), match.end(), verdict)


# Scores: exactly one for each side, on one scale. Bare numbers may count mistakes or words, unless called scores.

_SCORE = re.compile(
    rf"({_SIDE})(?: ?\"? ?[:=]| gets| scores)? ?(\d{{1,4}}(?:[.,]\d{{1,3}})?)(?: ?/ ?(\d{{1,4}}))?(?!\d| ?[a-z%])",
    re.I,
)
_CALLED_SCORES = re.compile(r"\b(?:scor|rating|rated|grade|points)", re.I)


def _scores(text: str) -> Iterator[Statement[Verdict]]:
    found = list(_SCORE.finditer(text))
    if [_side(match[1]) for match in found] not in (["A", "B"], ["B", "A"]) or found[0][3] != found[1][3]:
        return
    start, end = found[0].start(), found[1].end()
    alone = end - start >= len(text.strip("{}. "))
    if found[0][3] or alone or _CALLED_SCORES.search(text):
        left, right = (float(match[2].replace(",", ".")) for match in found)
        yield Statement(start, end, "tie" if left == right else _side(found[left < right][1]))


# The first line may be a verdict with its explanation, the last line a verdict alone.

_OPENING = re.compile(
    rf"({_SIDE}|{_TIE})(?:[.!]|,? (?=because|since|as )|: ?(?=it |because|since)| - (?!{_LETTER})"
    r"|(?<=[)\]]) (?-i:(?=[A-Z]))(?!.*[(\[][AB][)\]]))",
    re.I,
)
_LINE = re.compile(rf"^[\"']?({_SIDE})[\"']?(?:[.:]+ |[.:]*$)", re.I | re.M)


def _first_and_last_line(text: str) -> Iterator[Statement[Verdict]]:
    first, last = text.split("\n", 1)[0], text.rfind("\n") + 1
    opening = _OPENING.match(first)
    verdict = _choice(opening[1]) if opening else None if first.endswith(":") else _choice(first)
    if verdict and (opening or last) and not _outlined(text, opening[1] if opening else first):
        yield Statement(0, len(first), verdict)
    heading = last and text.endswith((":", "\n1.", "\n2."))
    if not heading and (verdict := _choice(text[last:])):
        yield Statement(last, len(text), verdict)


def _outlined(text: str, first: str) -> bool:
    """Whether the lines that begin like the first one go through both sides in turn, one heading each."""
    last = text.rfind("\n") + 1
    end = last if _choice(text[last:]) else len(text)
    short = len(first) < 5
    return len({_side(match[1]) for match in _LINE.finditer(text, 0, end) if (len(match[1]) < 5) == short}) > 1


# Prose: a sentence that prefers one side as a whole, not on some point and not under a condition.

_WHOLLY = (
    rf"(?: (?:overall|here|{_NOUN}|one|choice|fit|match|option|of the two))?"
    rf"(?: (?:than|over|to) (?:{_SIDE}|the other(?: one)?))?(?: overall)?"
)
_FOR_USER = r"(?: (?:with|for|to|by) (?:this|the|that) (?:user|person|reader)(?:'s)?(?: \w+){0,3})?"
_TAIL = rf"{_FOR_USER}{_WHOLLY}{_FOR_USER}(?!, I )(?= ?(?:[,:;.!)]|$|-)| (?:because|since|as|due to|and)\b)"
_BEFORE_LETTER = r"(?:(?<=^)|(?<=that )|(?<=think )|(?<=believe )|(?<=say )|(?<=, ))"
_SUBJECT = rf"(?:{_NAMED}|{_BEFORE_LETTER}[\"(\[]{{0,2}}{_LETTER}[\")\]]{{0,2}})"
_DEGREE = r"(?: (?:a|the|clearly|slightly|much|far|overall|simply|significantly|marginally)){0,2}"
_IS = rf" (?:is|was|seems|feels|looks|would be){_DEGREE}"
_GOOD = (
    r"(?:better|best|stronger|superior|preferred|preferable|winner"
    r"|(?:more|better|closely) (?:aligned|suited|suitable|in line))"
)
_LIKED = r"(?:the one )?(?:that )?(?:I|this|the)(?: \w+)? would (?:pick|choose|prefer|like)"
_OPINION = re.compile(
    rf"(?P<good>{_SUBJECT})(?:{_IS} {_GOOD}| wins| it is| is {_LIKED}){_TAIL}"
    rf"|(?P<bad>{_SUBJECT}){_IS} (?:worse|worst|weaker|inferior){_TAIL}"
    rf"|\b(?:prefers?|choose|pick|favou?rs?|select|go with|opt for|lean towards?) (?P<liked>{_SIDE}){_TAIL}"
    rf"|(?P<tie>\b{_DRAWN}){_TAIL}",
    re.I,
)
_CLAUSE = re.compile(r"(?<=[.!?;])\s+|\n|,? \b(?:but|however|while|whereas|although|though|yet)\b,? ", re.I)
_CONTRAST = re.compile(r"\b(?:but|however|yet|though|if I had to)\b", re.I)
_CONCLUSION = re.compile(
    r"^(?:overall|in (?:conclusion|summary|short)|therefore|thus|so|hence|on (?:balance|the whole))\b[,:]? ",
    re.I,
)
_HARMLESS = re.compile(
    r"^(?:if I had to (?:choose|pick)|in my (?:view|opinion)|for (?:this|the) user"
    r"|on (?:closer (?:reading|inspection)|reflection)),? ",
    re.I,
)
_GUARD = re.compile(
    r"\b(?:if|whether|unless|not|never|cannot|hardly|nor|or|which|some|others|might|may|could|hard|difficult"
    r"|initially|at first|asked|told)\b|n't\b|^(?:for|on|in|when|regarding) |^[\w .]{1,30}: |\?",
    re.I,
)


def _opinion(clause: str, *, to_the_end: bool = False) -> Verdict | None:
    clause = _HARMLESS.sub("", _CONCLUSION.sub("", clause))
    match = _OPINION.search(clause)
    if not match or _GUARD.search(clause, 0, match.end() + 1) or (to_the_end and match.end() < len(clause)):
        return None
    if match["tie"]:
        return "tie"
    return _OTHER[_side(match["bad"])] if match["bad"] else _side(match["good"] or match["liked"])


def _prose(text: str) -> list[Statement[Verdict]]:
    """The clauses that conclude, or else all with an opinion; where the text breaks off, only a whole last one."""
    if text.startswith("{"):  # the fields of an object explain, they do not decide
        return []
    broken_off = not text.endswith((".", "!", '"', ")", "]"))
    opinions, conclusions = [], []
    ends = [*(match.end() for match in _CLAUSE.finditer(text)), len(text)]
    for start, end in pairwise([0, *ends]):
        clause = text[start:end].strip()
        verdict = _opinion(clause, to_the_end=broken_off) if end == len(text) or not broken_off else None
        if verdict and not (verdict == "tie" and _CONTRAST.search(text, start, end + 10)):
            opinions.append(Statement(start, end, verdict))
            if _CONCLUSION.match(clause) or clause.rstrip(".!").endswith("overall"):
                conclusions.append(opinions[-1])
    return conclusions or opinions
