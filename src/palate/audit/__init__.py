"""Can a benchmark see personalisation, and whom does a model serve worse?"""

from palate.audit._audit import audit, audit_document, write_audit
from palate.audit._benchmark import audit_benchmark
from palate.audit._benchmark_results import (
    Amounts,
    BenchmarkAudit,
    CellSize,
    Conflicts,
    Field,
    Habit,
    Leaks,
    Lengths,
    PositionHabits,
    Power,
    Reach,
    SelfAgreement,
    Spread,
)
from palate.audit._run import audit_run
from palate.audit._run_results import Gap, Harm, HarmedUser, Hidden, RunAudit, SliceGain
from palate.audit._selftest import SelfTest, Tried, selftest, selftest_document

__all__ = [
    "Amounts",
    "BenchmarkAudit",
    "CellSize",
    "Conflicts",
    "Field",
    "Gap",
    "Habit",
    "Harm",
    "HarmedUser",
    "Hidden",
    "Leaks",
    "Lengths",
    "PositionHabits",
    "Power",
    "Reach",
    "RunAudit",
    "SelfAgreement",
    "SelfTest",
    "SliceGain",
    "Spread",
    "Tried",
    "audit",
    "audit_benchmark",
    "audit_document",
    "audit_run",
    "selftest",
    "selftest_document",
    "write_audit",
]
