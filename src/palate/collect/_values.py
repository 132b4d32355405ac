"""What matters to a person: the ten basic values of Schwartz, from 21 short portraits (PVQ-21).

The portraits are in our own words and name no gender. What is kept of the published questionnaire is its plan: which
portrait stands for which value, the scale of six steps, and the scoring (Schwartz 2003, chapter 7 of the questionnaire
development package of the European Social Survey). Norms of the published wording do not carry over to ours.

A value's score is the mean rating of its portraits, less the person's mean rating of all portraits: people differ in
how high they rate anything, and what counts is what matters more to somebody than the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import fmean

import msgspec

from palate.collect._records import Collected

LOWEST, HIGHEST = 1, 6
SCALE = ("nothing like me", "not like me", "a little like me", "partly like me", "like me", "very much like me")
"""What the ratings 1 to 6 are called."""
QUESTION = "How much is this person like you?"
WHY = (
    "People who want different things from an assistant often hold different values. These portraits ask which values "
    "matter more to you than others. There is no right answer. You can skip any of them, or all."
)
MOST_MISSING = 5
"""With more portraits skipped than this, a person's values are not scored."""
MOST_ALIKE = 16
"""Whoever gives one rating to more portraits than this does not tell them apart, and is not scored."""
STRONGEST = 3


class Portrait(msgspec.Struct, frozen=True):
    """A short description of somebody, to be compared with oneself."""

    number: int
    value: str
    text: str

    @property
    def id(self) -> str:
        """The id of its survey question."""
        return f"pvq-{self.number:02}"


_PORTRAITS = (
    ("self-direction", "This person comes up with ideas and finds a new way where others repeat the old one."),
    ("power", "This person wants plenty of money, and to own what not everybody can afford."),
    ("universalism", "This person thinks that nobody anywhere should be worse off because of who they are."),
    ("achievement", "This person likes others to see what they can do and to look up to them for it."),
    ("security", "This person stays away from anything that could be dangerous, above all at home."),
    ("stimulation", "This person enjoys what is unexpected and wants to have tried many things in life."),
    ("conformity", "This person does as they are asked and keeps to the rules when nobody is looking."),
    ("universalism", "This person listens to people who see things otherwise, and tries to see what they see."),
    ("tradition", "This person makes little of themselves and prefers to stay in the background."),
    ("hedonism", "This person enjoys life and is good to themselves."),
    ("self-direction", "This person decides alone what to do and does not like to depend on anybody."),
    ("benevolence", "This person notices how the people around them are doing and lends a hand."),
    ("achievement", "This person wants to get far, and hopes that what they achieve is noticed."),
    ("security", "This person wants the state to be strong enough to protect those who live in it."),
    ("stimulation", "This person is drawn to what is daring; a quiet life would bore them."),
    ("conformity", "This person minds their manners, so that nobody can find fault with their conduct."),
    ("power", "This person wants to be the one who decides, with others going along."),
    ("benevolence", "This person stands by their friends and gives a great deal for those they are close to."),
    ("universalism", "This person minds what is done to nature and wants it protected."),
    ("tradition", "This person holds on to what family or faith have handed down."),
    ("hedonism", "This person is happiest when something is fun, and makes room for it."),
)
PORTRAITS = tuple(Portrait(number, value, text) for number, (value, text) in enumerate(_PORTRAITS, start=1))
VALUES = tuple(sorted({portrait.value for portrait in PORTRAITS}))
_BY_ID = {portrait.id: portrait for portrait in PORTRAITS}


class ValueScores(msgspec.Struct, frozen=True, kw_only=True):
    """One person's values, or why they are not scored."""

    scores: dict[str, float]
    """By value, the mean rating of its portraits less the mean rating of all; above 0 matters more than the rest.
    Empty where not scored."""
    means: dict[str, float]
    """By value, the mean rating of its portraits, from 1 to 6, before centring."""
    answered: int
    unscored: str | None = None

    @property
    def strongest(self) -> tuple[str, ...]:
        """Up to three values that matter more to the person than the rest, the strongest first."""
        above = [value for value, score in self.scores.items() if score > 0]
        return tuple(sorted(above, key=lambda value: (-self.scores[value], value))[:STRONGEST])


def is_portrait(question: str) -> bool:
    """Whether a survey question is one of the portraits."""
    return question in _BY_ID


def score_values(ratings: Mapping[int, int]) -> ValueScores:
    """The scores from ratings of 1 to 6 by the number of the portrait; skipped ones are not there.

    >>> everything = {portrait.number: 2 + portrait.number % 3 for portrait in PORTRAITS}
    >>> fond_of_fun = score_values(everything | {10: 6, 21: 6})
    >>> fond_of_fun.means["hedonism"], round(fond_of_fun.scores["hedonism"], 2), fond_of_fun.strongest[0]
    (6.0, 2.67, 'hedonism')
    """
    wrong = {number: rating for number, rating in ratings.items() if not LOWEST <= rating <= HIGHEST}
    if wrong or not ratings.keys() <= {portrait.number for portrait in PORTRAITS}:
        raise ValueError(f"portraits are 1 to {len(PORTRAITS)} and ratings {LOWEST} to {HIGHEST}: {dict(ratings)}")
    by_value: dict[str, list[int]] = {}
    for portrait in PORTRAITS:
        if portrait.number in ratings:
            by_value.setdefault(portrait.value, []).append(ratings[portrait.number])
    means = {value: fmean(by_value[value]) for value in VALUES if value in by_value}
    skipped = len(PORTRAITS) - len(ratings)
    alike = max(Counter(ratings.values()).values(), default=0)
    unscored = None
    if skipped > MOST_MISSING:
        unscored = f"{skipped} of {len(PORTRAITS)} portraits were skipped; at most {MOST_MISSING} may be"
    elif alike > MOST_ALIKE:
        unscored = f"{alike} portraits have the same rating, which tells no values apart"
    centre = fmean(ratings.values()) if ratings else 0.0
    scores = {} if unscored else {value: mean - centre for value, mean in means.items()}
    return ValueScores(scores=scores, means=means, answered=len(ratings), unscored=unscored)


def values_of(collected: Collected) -> dict[str, ValueScores]:
    """The values of everybody who rated a portrait, by participant."""
    ratings: dict[str, dict[int, int]] = {}
    for answer in sorted(collected.survey, key=lambda answer: answer.date):
        portrait = _BY_ID.get(answer.question)
        if portrait is not None and isinstance(answer.value, int):
            ratings.setdefault(answer.participant, {})[portrait.number] = answer.value
    return {participant: score_values(given) for participant, given in ratings.items()}
