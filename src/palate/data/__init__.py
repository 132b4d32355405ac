"""Benchmarks in and out of files and hubs."""

from palate.data._cards import Listing
from palate.data._check import check_benchmark
from palate.data._faults import Fault
from palate.data._folder import is_folder_format, write_benchmark
from palate.data._leaks import private_sentences
from palate.data._load import list_benchmarks, load_benchmark
from palate.data._pairs import pairs_from_completions
from palate.data._pseudonyms import Pseudonyms, pseudonym_key, pseudonymise
from palate.data._schemas import json_schemas
from palate.data._scrub import scrub
from palate.data._summary import Summary, summarise

__all__ = [
    "Fault",
    "Listing",
    "Pseudonyms",
    "Summary",
    "check_benchmark",
    "is_folder_format",
    "json_schemas",
    "list_benchmarks",
    "load_benchmark",
    "pairs_from_completions",
    "private_sentences",
    "pseudonym_key",
    "pseudonymise",
    "scrub",
    "summarise",
    "write_benchmark",
]
