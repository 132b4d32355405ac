"""From users to what a model may see of them: views, retrievers, budgets."""

from palate.data import History, Item, Visible, responses_of
from palate.views._build import NO_FURTHER_STRANGER, Missing, ViewBuilder
from palate.views._render import Budget, demographics_part, judgement_part, parse_budget, post_part, values_part
from palate.views._retrievers import RETRIEVERS, Retriever, Search, make_retriever
from palate.views._spec import OTHERS, STRANGERS, VIEWS, WRITTEN, Piece, ViewSpec, drawn, parse_view, resolve_views
from palate.views._written import Writer

__all__ = [
    "NO_FURTHER_STRANGER",
    "OTHERS",
    "RETRIEVERS",
    "STRANGERS",
    "VIEWS",
    "WRITTEN",
    "Budget",
    "History",
    "Item",
    "Missing",
    "Piece",
    "Retriever",
    "Search",
    "ViewBuilder",
    "ViewSpec",
    "Visible",
    "Writer",
    "demographics_part",
    "drawn",
    "judgement_part",
    "make_retriever",
    "parse_budget",
    "parse_view",
    "post_part",
    "resolve_views",
    "responses_of",
    "values_part",
]
