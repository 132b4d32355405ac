"""The words of palate, as types. This floor knows no other."""

from palate.records._asks import Ask, Part, PartKind, Rating, RewardModel, View
from palate.records._benchmark import Aspect, Benchmark, Card, Comparison, Completion, Privileged
from palate.records._cache import cache_folder, unfinished_erasures
from palate.records._command import command_line, current_command, running_command
from palate.records._critic import Critic, Draft, Grade
from palate.records._errors import PalateError, describe_error
from palate.records._new_file import new_file
from palate.records._order import Dated, came_before
from palate.records._people import Judgement, Post, User
from palate.records._printable import escaped_json, printable, without_folders
from palate.records._registry import Found, Registry
from palate.records._spec import Spec, did_you_mean, parse_spec, unknown_name

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
    "Found",
    "Grade",
    "Judgement",
    "PalateError",
    "Part",
    "PartKind",
    "Post",
    "Privileged",
    "Rating",
    "Registry",
    "RewardModel",
    "Spec",
    "User",
    "View",
    "cache_folder",
    "came_before",
    "command_line",
    "current_command",
    "describe_error",
    "did_you_mean",
    "escaped_json",
    "new_file",
    "parse_spec",
    "printable",
    "running_command",
    "unfinished_erasures",
    "unknown_name",
    "without_folders",
]
