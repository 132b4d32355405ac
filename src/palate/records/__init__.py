"""The words of palate, as types. This floor knows no other."""

from palate.records._asks import Ask, Part, PartKind, Rating, RewardModel, View
from palate.records._benchmark import Aspect, Benchmark, Card, Comparison, Completion, Privileged
from palate.records._critic import Critic, Draft, Grade
from palate.records._errors import PalateError
from palate.records._order import Dated, came_before
from palate.records._people import Judgement, Post, User
from palate.records._spec import Spec, parse_spec, unknown_name

__all__ = [
    "Ask",
    "Aspect",
    "Benchmark",
    "Card",
    "Comparison",
    "Completion",
    "Critic",
    "Dated",
    "Draft",
    "Grade",
    "Judgement",
    "PalateError",
    "Part",
    "PartKind",
    "Post",
    "Privileged",
    "Rating",
    "RewardModel",
    "Spec",
    "User",
    "View",
    "came_before",
    "parse_spec",
    "unknown_name",
]
