"""Best-of-N, and the in-context baseline: sample once, choose by reward, let a critic say what the choice is worth."""

from palate.downstream._best_of_n._best_of_n import best_of_n
from palate.downstream._best_of_n._files import write_best_of_n
from palate.downstream._best_of_n._markdown import best_of_n_markdown
from palate.downstream._best_of_n._page import best_of_n_page
from palate.downstream._best_of_n._results import BonSummary
from palate.downstream._best_of_n._run import BonRun
from palate.downstream._best_of_n._summary import summarise_best_of_n
from palate.downstream._best_of_n._terminal import print_best_of_n

__all__ = [
    "BonRun",
    "BonSummary",
    "best_of_n",
    "best_of_n_markdown",
    "best_of_n_page",
    "print_best_of_n",
    "summarise_best_of_n",
    "write_best_of_n",
]
