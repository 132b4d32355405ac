"""What an audit of a benchmark says, as typed objects. Every key of `palate audit BENCHMARK --json` is here.

Numbers are shares from 0 to 1. Intervals are 95% and resample users; an absent one (null) could not be had.
"""

from __future__ import annotations

import msgspec

from palate.audit._artefacts import Artefacts
from palate.audit._claims import Claim
from palate.audit._values import Coverage
from palate.report import Finding
from palate.stats import Estimate


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """How far a model gets that does not know the user."""

    rm: str
    view: str
    n: int
    """Items that it rated."""
    users: int
    accuracy: float
    low: float | None
    high: float | None
    chance: float
    """What guessing gets on the same items."""
    p: float
    """Two-sided test that it does as well as guessing, no better and no worse: over users and, for a model that
    ignores the user, over coins as well (see `luck`); the larger of the two."""
    q: float
    """The same with the false discovery rate held over all rows."""


class SelfAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """Whether people agree with themselves more than with others, on pairs that somebody judged again."""

    n: int
    """Cases of one user who judged a pair more than once that others judged too."""
    users: int
    own: float
    """How often two judgements of the same user agree."""
    others: float
    """How often a judgement of this user agrees with another user's of the same pair."""
    low: float | None
    high: float | None
    """Of the difference."""
    p: float
    """How often `own` is as far above `others` when judgements of a pair change owners."""
    q: float
    """The same with the false discovery rate held over what tells people apart: this, the habits and `over_time`."""


class Conflicts(msgspec.Struct, frozen=True, kw_only=True):
    """How often people want different things of the same pair: same prompt, same responses, any order."""

    pairs: int
    """Distinct pairs; twins are one pair."""
    shared: int
    """Pairs that two users or more judged."""
    judgements: int
    """Comparisons on shared pairs."""
    conflicting: int
    """Shared pairs on which two users chose differently."""
    conflict_share: float | None
    """Conflicting over shared pairs."""
    agreement: Estimate | None
    """How often another user who judged the same pair chose the same."""
    majority: float | None
    """On shared pairs, what a model gets that always gives the most frequent choice: no impersonal model gets more."""
    left_out_majority: Estimate | None
    """The same when the majority is that of the other users, ties as their fair share."""
    ceiling: float
    """The most that an impersonal model could get on the whole benchmark, if it knew all other pairs."""
    repeated: int
    """Cases of one user who judged the same pair more than once."""
    contradicted: int
    """Those in which the user did not choose the same each time."""
    twins: int
    """Shared pairs that have opposite labels because they are twins."""
    error_rate: float | None
    """How often judges would have to err who all want the same of a pair, to disagree as much; null where no such
    judges would."""
    self_agreement: SelfAgreement | None
    """Null where no pair was judged twice by one user and also by another."""


class Habit(msgspec.Struct, frozen=True, kw_only=True):
    """How much people differ in what they lean to, beyond what noise and the items make."""

    n: int
    """Judgements, each user's on each pair once."""
    users: int
    share: float
    """How often it is taken (the longest, or the first)."""
    within_pairs: int
    """Judgements that are compared with other users' of the same pair; the rest with all others."""
    spread: float
    """Standard deviation between people of the share of times that they take it; 0 where they differ no more than
    independent choices would."""
    low: float | None
    high: float | None
    p: float
    """How often people differ as much when judgements of a pair change owners."""
    q: float
    """The same with the false discovery rate held over what tells people apart."""


class Lengths(msgspec.Struct, frozen=True, kw_only=True):
    """Whether length tells the choice."""

    longest: float
    """Share of comparisons in which the chosen response is longer than every other."""
    shortest: float
    """Share in which it is shorter than every other."""
    habit: Habit | None
    """How much people differ in taking the longest."""


class PositionHabits(msgspec.Struct, frozen=True, kw_only=True):
    """Habits of position, where the benchmark recorded what people saw where."""

    n: int
    """Comparisons with recorded positions."""
    chosen: list[float]
    """Share chosen at the first position, at the second, and so on."""
    chance: float
    """What the first position would get if position did not matter."""
    habit: Habit | None
    """How much people differ in taking the first."""
    over_time: list[float] | None
    """Share of the first in each quarter of the record, the oldest first; nothing where dates are missing."""
    over_time_p: float
    """How often the quarters differ as much when each user's judgements change places in time."""
    over_time_q: float
    """The same with the false discovery rate held over what tells people apart."""


class CellSize(msgspec.Struct, frozen=True, kw_only=True):
    """One group of a field."""

    value: str
    users: int
    items: int


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """How well a field divides the users into groups that can be told apart."""

    by: str
    """`category`, `values` or `demographics.FIELD`."""
    cells: int
    """How many values there are."""
    thin: int
    """Values with fewer users than the least number."""
    listed: list[CellSize]
    """Values by name, most users first; not those of fewer than five users, nor of a field that is nearly an id."""
    without: int
    """Users, of those with comparisons, for whom the field is not known."""


class Leaks(msgspec.Struct, frozen=True, kw_only=True):
    """Comparisons whose answer stands where a model may look."""

    own_choice: int
    """The history that counts as earlier holds a judgement of the very responses. palate's views leave it out."""
    response_in_judgements: int
    """An earlier judgement of the user holds one of the responses, or nearly: those of `own_choice`, and others."""
    response_in_posts: int
    """An earlier post of the user holds one of the responses or the private narrative, or nearly."""
    response_in_traits: int
    """Demographics or values of the user hold one of the responses or the private narrative, or nearly."""
    withheld: int
    """Judgements, posts, demographics and values that views leave out for that, counted again for every comparison."""
    privileged_in_history: int
    """What views show of the earlier history holds a sentence of the item's private narrative or rubric."""
    chosen_elsewhere: int
    """The same user chose the same text among other responses too, so that remembering it is enough."""
    later_history: int
    """The user has history of the same date or later, which is no item itself. palate's views leave it out."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How an amount is spread over users."""

    fewest: float
    lower: float
    """A quarter of the users have no more."""
    median: float
    upper: float
    """A quarter of the users have at least this."""
    most: float


class Amounts(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is of each user."""

    items: Spread
    """Comparisons a user."""
    posts: Spread
    judgements: Spread
    without_history: int
    """Users with neither posts nor judgements."""
    enough: int
    """Comparisons from which a user's own accuracy is known to about 20 points either way."""
    users_with_enough: int


class Power(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest gain of one model over another that this benchmark would probably show. Approximate."""

    smallest_gain: float
    """Found with a probability of 80% by a two-sided test at 5%."""
    differ: float
    """Assumed: the share of items on which one of the two models is right and the other wrong."""
    correlation: float
    """How alike the differences of one user are, the median over the controls (intraclass correlation)."""
    clusters: int
    """Independent users, or couples who share twins."""
    effective_items: float
    """So many independent items would be worth as much."""


class Attained(msgspec.Struct, frozen=True, kw_only=True):
    """A score as a part of the personal gain that could be had."""

    rm: str
    view: str
    accuracy: float
    share: Estimate | None
    """0 is the ceiling of an impersonal model, 1 that of any model; below 0, an impersonal model could do better."""


class Headroom(msgspec.Struct, frozen=True, kw_only=True):
    """What people chose, split into what all want, what each wants, and what changes from time to time."""

    shared_judgements: int
    """Judgements of pairs that somebody else judged too."""
    repeats: int
    """Cases of one person who judged the same pair more than once."""
    with_others: Estimate | None
    """How often another person who judged the same pair chose the same."""
    with_self: Estimate | None
    """How often a person chose the same again."""
    shared: Estimate | None
    """Part of the variance of what people want that all have in common."""
    personal: Estimate | None
    """Part that is the person's own and stays."""
    noise: Estimate | None
    """Part that changes when the same person is asked again."""
    impersonal_ceiling: Estimate | None
    """Accuracy of a model that knows what everybody wants, and nothing of the person."""
    ceiling: Estimate | None
    """Accuracy of a model that knows what the person wants."""
    ceiling_at_least: float | None
    ceiling_at_most: float | None
    """Of `ceiling`, whatever the parts are like: only how often people agree with themselves is used."""
    attainable: Estimate | None
    """The personal gain that could be had: `ceiling` less `impersonal_ceiling`."""
    scores: list[Attained]
    unknown: list[str]
    """What cannot be told from these data, and what would tell it."""


class BenchmarkAudit(msgspec.Struct, frozen=True, kw_only=True):
    """Is this benchmark able to see personalisation?"""

    benchmark: str
    benchmark_title: str
    benchmark_hash: str
    licence: str
    seed: int
    least: int
    """Groups of fewer users count as thin."""
    items: int
    """Comparisons."""
    users: int
    """Users with comparisons."""
    people: bool
    """False where the data name no people, so that nothing in them can be personal."""
    findings: list[Finding]
    """The verdict, warnings first."""
    controls: list[Reach]
    """Models that understand nothing. `overlap` reads the profile, `prompt-overlap` the prompt."""
    impersonal: Reach | None
    """A Bradley-Terry model of what everybody likes, on users it was not trained on."""
    without_impersonal: str | None
    """Why the impersonal model is missing; empty when it is there."""
    artefacts: Artefacts | None
    """A model that reads the responses and nothing else, on users and prompts it was not trained on."""
    without_artefacts: str | None
    """Why it is missing; empty when it is there."""
    claims: list[Claim]
    """What survives of the accuracy that was claimed, or of the models of the run; empty where nothing was given."""
    headroom: Headroom
    values: Coverage | None
    """Which values the prompts touch; empty where it was not asked for."""
    luck: float
    """Standard deviation of the accuracy of coins that give every text one score: how far from guessing a model that
    ignores the user gets by luck, because users judge the same texts."""
    luck_unshared: float
    """What it would be if no text were judged twice."""
    conflicts: Conflicts
    lengths: Lengths
    positions: PositionHabits | None
    fields: list[Field]
    leaks: Leaks
    faults: list[str]
    """What `palate data check` says."""
    amounts: Amounts
    power: Power
