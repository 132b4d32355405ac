"""Can a benchmark see personalisation, and whom does a model serve worse?"""

from palate.audit._audit import audit, audit_document, write_audit
from palate.audit._benchmark import audit_benchmark
from palate.audit._benchmark_results import BenchmarkAudit
from palate.audit._run import audit_run
from palate.audit._run_results import RunAudit
from palate.audit._selftest import SelfTest, selftest, selftest_document

__all__ = [
    "BenchmarkAudit",
    "RunAudit",
    "SelfTest",
    "audit",
    "audit_benchmark",
    "audit_document",
    "audit_run",
    "selftest",
    "selftest_document",
    "write_audit",
]
