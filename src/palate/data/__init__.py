"""Benchmarks in and out of files and hubs."""

from palate.data._cards import Listing
from palate.data._check import Inspection, check_benchmark, inspect_benchmark, private_sentences
from palate.data._columns import is_user_column
from palate.data._convarg import Vote
from palate.data._deidentify import (
    Pseudonyms,
    direct_identifiers,
    is_pseudonym,
    pseudonym_key,
    pseudonymise,
    scrub,
)
from palate.data._digests import Digests, digest_of
from palate.data._draft import Fault, Location, not_utf8
from palate.data._files import SEPARATORS, Row, read_rows, refuse_repeated, separator
from palate.data._folder import is_folder_format, write_benchmark
from palate.data._history import History, Item, Visible, at_start_of_group, is_long, responses_of
from palate.data._hub import CARD, HUB, HubRefusalError, Repository, look_up, mark_of, upload
from palate.data._known_prompts import KnownPrompts
from palate.data._load import LOADERS, list_benchmarks, load_benchmark, load_named, load_votes
from palate.data._on_disk import Lines, OnDisk, at_places, picked
from palate.data._pairs import pairs_from_completions
from palate.data._published import is_nobody
from palate.data._same_text import HELD, SameTexts, holds, is_short, questions, text_key
from palate.data._summary import BenchmarkSummary, summarise
from palate.data._unpack import too_large, unpack, unpacked_limit
from palate.data._wire import DAY_FIRST, MONTH_FIRST, SlashedDays, json_schemas, normalise_date, table_date

__all__ = [
    "CARD",
    "DAY_FIRST",
    "HELD",
    "HUB",
    "LOADERS",
    "MONTH_FIRST",
    "SEPARATORS",
    "BenchmarkSummary",
    "Digests",
    "Fault",
    "History",
    "HubRefusalError",
    "Inspection",
    "Item",
    "KnownPrompts",
    "Lines",
    "Listing",
    "Location",
    "OnDisk",
    "Pseudonyms",
    "Repository",
    "Row",
    "SameTexts",
    "SlashedDays",
    "Visible",
    "Vote",
    "at_places",
    "at_start_of_group",
    "check_benchmark",
    "digest_of",
    "direct_identifiers",
    "holds",
    "inspect_benchmark",
    "is_folder_format",
    "is_long",
    "is_nobody",
    "is_pseudonym",
    "is_short",
    "is_user_column",
    "json_schemas",
    "list_benchmarks",
    "load_benchmark",
    "load_named",
    "load_votes",
    "look_up",
    "mark_of",
    "normalise_date",
    "not_utf8",
    "pairs_from_completions",
    "picked",
    "private_sentences",
    "pseudonym_key",
    "pseudonymise",
    "questions",
    "read_rows",
    "refuse_repeated",
    "responses_of",
    "scrub",
    "separator",
    "summarise",
    "table_date",
    "text_key",
    "too_large",
    "unpack",
    "unpacked_limit",
    "upload",
    "write_benchmark",
]
