"""Many runs, one page: who leads, whether that is real, and for whom; and what may stand there."""

from palate.leaderboard._exports import BoardRow, BoardSummary, ServedWorse, TableSummary
from palate.leaderboard._import import import_results
from palate.leaderboard._runs import ListedRun, list_runs
from palate.leaderboard._side_by_side import Compared, SideBySide, beside_document, compare_runs
from palate.leaderboard._site import Site, leaderboard
from palate.leaderboard._submission import Checked, Clause, check_submission

__all__ = [
    "BoardRow",
    "BoardSummary",
    "Checked",
    "Clause",
    "Compared",
    "ListedRun",
    "ServedWorse",
    "SideBySide",
    "Site",
    "TableSummary",
    "beside_document",
    "check_submission",
    "compare_runs",
    "import_results",
    "leaderboard",
    "list_runs",
]
