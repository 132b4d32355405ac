"""Benchmarks in and out of files and hubs."""

from palate.data._cards import Listing
from palate.data._check import Inspection, check_benchmark, inspect_benchmark, private_sentences
from palate.data._convarg import Vote
from palate.data._deidentify import Pseudonyms, pseudonym_key, pseudonymise, scrub
from palate.data._draft import Fault, Location
from palate.data._files import Row, read_rows
from palate.data._folder import is_folder_format, write_benchmark
from palate.data._history import History, Item, Visible, responses_of
from palate.data._load import LOADERS, list_benchmarks, load_benchmark, load_named, load_votes
from palate.data._pairs import pairs_from_completions
from palate.data._published import is_nobody
from palate.data._same_text import HELD, SameTexts, holds, is_short, questions, text_key
from palate.data._summary import BenchmarkSummary, summarise
from palate.data._unpack import unpack
from palate.data._wire import json_schemas, normalise_date

__all__ = [
    "HELD",
    "LOADERS",
    "BenchmarkSummary",
    "Fault",
    "History",
    "Inspection",
    "Item",
    "Listing",
    "Location",
    "Pseudonyms",
    "Row",
    "SameTexts",
    "Visible",
    "Vote",
    "check_benchmark",
    "holds",
    "inspect_benchmark",
    "is_folder_format",
    "is_nobody",
    "is_short",
    "json_schemas",
    "list_benchmarks",
    "load_benchmark",
    "load_named",
    "load_votes",
    "normalise_date",
    "pairs_from_completions",
    "private_sentences",
    "pseudonym_key",
    "pseudonymise",
    "questions",
    "read_rows",
    "responses_of",
    "scrub",
    "summarise",
    "text_key",
    "unpack",
    "write_benchmark",
]
