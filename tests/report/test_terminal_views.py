"""Names of views in a terminal that is too narrow for them."""

from __future__ import annotations

import io

from rich.console import Console

from palate.report import Document, Section, Table, print_document


def test_a_view_of_several_parts_breaks_after_a_plus_sign() -> None:
    rows = [("per-user", "judgements:16+demographics", "71.4%", "63.7–78.0", "+15.9", "+16.7", "12,345")]
    titles = ("model", "view", "accuracy", "95%", "over none", "over strangers", "n")
    table = Table(titles=titles, words=2, rows=rows, headings=True)
    section = Section(title="Accuracy", blocks=[table], terminal=True)
    out = io.StringIO()
    print_document(Document(name="", title="", size="", sections=[section]), Console(file=out, width=72))
    lines = [line.split()[0] for line in out.getvalue().splitlines() if line.split()]
    assert lines[lines.index("judgements:16+") + 1] == "demographics"
