"""Topics that a text may dwell on, told by word lists: no model and no download, and any writer can vary them.

The lists are English, and short: they are there to tell topics apart, not to be complete.
"""

from __future__ import annotations

import re
from functools import lru_cache

_WORD = re.compile(r"[^\W\d_]+")

TOPICS: dict[str, frozenset[str]] = {
    "food": frozenset(
        "food cook cooks cooked cooking kitchen bread dough flour cake soup meal meals dinner supper lunch breakfast "
        "recipe recipes dish dishes oven fridge salt pepper sauce spice spices beans rice cheese fish meat vegetables "
        "fruit taste tastes flavour plate menu restaurant coffee tea beer wine drink drinks brew brewed brewing roast "
        "espresso kettle".split()
    ),
    "music": frozenset(
        "music musician musicians song songs sing sings singing singer choir tune tunes melody rhythm guitar piano "
        "violin drum drums band orchestra concert concerts album albums chord chords radio listen listens listening "
        "recording recordings beat beats stage jazz opera dance dances dancing".split()
    ),
    "books": frozenset(
        "book books novel novels page pages chapter chapters story stories read reads reader readers reading library "
        "author authors writer writers poem poems poetry print printed paragraph paragraphs fiction edition notebook "
        "diary tale tales literature text texts".split()
    ),
    "travel": frozenset(
        "travel travels travelled travelling trip trips journey journeys train trains station bus boat ferry flight "
        "ticket tickets hotel hostel map maps road roads route routes city cities town towns village abroad country "
        "countries border luggage suitcase timetable guide museum tour tours visit visits".split()
    ),
    "family": frozenset(
        "family families mother father mum dad parents parent brother sister son daughter child children kids wife "
        "husband aunt uncle cousin cousins grandmother grandfather grandparents baby relatives wedding birthday "
        "marriage home".split()
    ),
    "nature": frozenset(
        "nature garden gardens tree trees forest wood woods river lake sea beach mountain mountains hill hills field "
        "fields bird birds animal animals dog dogs cat cats flower flowers plant plants leaf leaves weather rain snow "
        "wind sun winter spring summer autumn sky stars walk walks walking".split()
    ),
}
"""The words of each topic."""


@lru_cache(maxsize=2**14)
def topic_share(text: str, topic: str) -> float:
    """Which share of the words of a text belongs to a topic.

    >>> topic_share("My mother cooks soup.", "food")
    0.5
    """
    words = _WORD.findall(text.lower())
    return sum(word in TOPICS[topic] for word in words) / max(1, len(words))
