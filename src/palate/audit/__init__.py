"""Can a benchmark see personalisation, and whom does a model serve worse?"""

from palate.audit._audit import audit, render_audit_markdown, render_audit_terminal, write_audit
from palate.audit._benchmark import audit_benchmark
from palate.audit._results import (
    Amounts,
    BenchmarkAudit,
    CellSize,
    Conflicts,
    Field,
    Finding,
    Habit,
    Leaks,
    Lengths,
    Positions,
    Power,
    Reach,
    SelfAgreement,
    Spread,
)
from palate.audit._run import audit_run
from palate.audit._run_results import Cell, CellGain, Gap, Harm, HarmedUser, Hidden, RunAudit
from palate.audit._selftest import SelfTest, Tried, selftest
from palate.audit._selftest_page import render_selftest

__all__ = [
    "Amounts",
    "BenchmarkAudit",
    "Cell",
    "CellGain",
    "CellSize",
    "Conflicts",
    "Field",
    "Finding",
    "Gap",
    "Habit",
    "Harm",
    "HarmedUser",
    "Hidden",
    "Leaks",
    "Lengths",
    "Positions",
    "Power",
    "Reach",
    "RunAudit",
    "SelfAgreement",
    "SelfTest",
    "Spread",
    "Tried",
    "audit",
    "audit_benchmark",
    "audit_run",
    "render_audit_markdown",
    "render_audit_terminal",
    "render_selftest",
    "selftest",
    "write_audit",
]
