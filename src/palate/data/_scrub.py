"""Direct identifiers in texts: e-mail addresses, links to people's pages, handles, telephone numbers."""

from __future__ import annotations

import re
from collections import Counter

import msgspec

from palate.data._rewrite import Rewriter
from palate.records import Benchmark

_PEOPLE = r"u|user|users|profile|profiles|people|person|in|member|members|author|authors|channel|c"
_NETWORKS = r"twitter|x|facebook|instagram|github|gitlab|linkedin|tiktok|threads|medium|bsky|reddit|t"
_LINK_TO_A_PERSON = re.compile(
    rf"(?:https?://|www\.)(?:[^\s/@]+@[^\s]+"
    rf"|[^\s/]+/(?:[^\s]*/)?(?:(?:{_PEOPLE})/|[@~])[^\s/]+[^\s]*"
    rf"|(?:www\.)?(?:{_NETWORKS})\.(?:com|me|app|org|net|social)/[^\s/]+[^\s]*"
    r"|[^\s]*[?&](?:user|username|user_id|uid|author)=[^\s]*)",
    re.IGNORECASE,
)
_EMAIL = re.compile(r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+")
_HANDLE = re.compile(r"(?<![\w@./])@[A-Za-z_][\w.]{1,30}(?<!\.)")
_TELEPHONE = re.compile(r"(?<![\w.,-])(?:\+|\(?0|\(\d|\d{2,4}[\s.-])[\d\s().-]{6,18}\d(?![\w-]|[.,]\d)")
_DATE = re.compile(r"(?:1[5-9]|20)\d\d-\d\d-\d\d")
FEWEST_DIGITS, MOST_DIGITS = 9, 15
"""Of a telephone number with its area; shorter ones look like years, prices and measures."""


def scrub(benchmark: Benchmark) -> Benchmark:
    """The benchmark with placeholders for direct identifiers in its texts; the card's notes count them.

    The same text becomes the same text everywhere. What people are called and where they live is not found.
    """
    counts: Counter[str] = Counter()
    written: dict[str, str] = {}

    def text(one: str) -> str:
        if one not in written:
            written[one] = scrub_text(one, counts)
        return written[one]

    new = Rewriter(text).benchmark(benchmark)
    found = ", ".join(f"{counts[kind]} {kind}" for kind in ("email", "link", "handle", "telephone"))
    note = f"direct identifiers in distinct texts, replaced by placeholders: {found}"
    card = msgspec.structs.replace(benchmark.card, notes=(*benchmark.card.notes, note))
    return msgspec.structs.replace(new, card=card)


def scrub_text(text: str, counts: Counter[str] | None = None) -> str:
    """One text without its direct identifiers.

    >>> scrub_text("Mail ann@example.org or call +44 20 7946 0958; I am @ann_of_kent.")
    'Mail [email] or call [telephone]; I am [handle].'
    >>> scrub_text("From 2019-05-14 to 2020, 1,000,000 people read https://example.org/news")
    'From 2019-05-14 to 2020, 1,000,000 people read https://example.org/news'
    """
    counts = Counter() if counts is None else counts

    def put(kind: str, pattern: re.Pattern[str], text: str) -> str:
        def placeholder(match: re.Match[str]) -> str:
            if kind == "telephone" and not _is_telephone(match.group()):
                return match.group()
            counts[kind] += 1
            return f"[{kind}]"

        return pattern.sub(placeholder, text)

    patterns = {"link": _LINK_TO_A_PERSON, "email": _EMAIL, "handle": _HANDLE, "telephone": _TELEPHONE}
    for kind, pattern in patterns.items():
        text = put(kind, pattern, text)
    return text


def _is_telephone(match: str) -> bool:
    digits = sum(one.isdigit() for one in match)
    return FEWEST_DIGITS <= digits <= MOST_DIGITS and not _DATE.search(match)
