"""Benchmarks in and out of files and hubs."""

from palate.data._cards import Listing
from palate.data._check import check_benchmark
from palate.data._faults import Fault
from palate.data._folder import write_benchmark
from palate.data._load import list_benchmarks, load_benchmark
from palate.data._schemas import json_schemas
from palate.data._summary import Summary, summarise

__all__ = [
    "Fault",
    "Listing",
    "Summary",
    "check_benchmark",
    "json_schemas",
    "list_benchmarks",
    "load_benchmark",
    "summarise",
    "write_benchmark",
]
