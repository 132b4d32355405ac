"""Run folders: settings that name them, lines that survive a crash, and what every run begins with."""

from palate.runs._folder import LOST, RunFolder, json_lines, write_document, write_report, write_whole
from palate.runs._ledger import Appender, Ledger, Needs, bad_line, fault_of
from palate.runs._models import LoadedModel, Report, load_models
from palate.runs._repair import Dropped, repair_ledgers
from palate.runs._settings import HashedSettings, ModelSettings, environment, file_name
from palate.runs._setup import Item, Named, as_benchmark, is_written, prompts, ranks, sample_items, seeded, writer_of

__all__ = [
    "LOST",
    "Appender",
    "Dropped",
    "HashedSettings",
    "Item",
    "Ledger",
    "LoadedModel",
    "ModelSettings",
    "Named",
    "Needs",
    "Report",
    "RunFolder",
    "as_benchmark",
    "bad_line",
    "environment",
    "fault_of",
    "file_name",
    "is_written",
    "json_lines",
    "load_models",
    "prompts",
    "ranks",
    "repair_ledgers",
    "sample_items",
    "seeded",
    "write_document",
    "write_report",
    "write_whole",
    "writer_of",
]
