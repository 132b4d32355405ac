"""A document of any kind of run, in each of its forms."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence

import pytest
from rich.console import Console

from palate.report import (
    IN_PERCENT,
    SCORES,
    Across,
    Chart,
    Document,
    Dot,
    Finding,
    ItemCard,
    ItemRating,
    ItemText,
    Note,
    Section,
    Step,
    Table,
    document_csv,
    document_markdown,
    document_page,
    draw_curves,
    draw_dots,
    print_document,
)
from palate.report._plots import BOTTOM, HEIGHT, LINE_HEIGHT, LONGEST_LINE, TOP


def curves(values: dict[str, list[float]], across: Sequence[Across] = (Across("alone", 0.3),)) -> Chart:
    steps = {name: [Step(2**place, value) for place, value in enumerate(own)] for name, own in values.items()}
    chart = draw_curves(steps, SCORES, title="Scores", axis="k", step="{} samples", across=across)
    assert chart is not None
    return chart


def sampled() -> Document:
    """Best of two: samples with a critic's grades, two reward models, and nothing that is right or wrong."""
    table = Table(
        titles=("chosen by", "k = 1", "over\nrandom"),
        words=1,
        rows=[("embedding", "0.300\n0.280 to 0.320", "+0.112*"), ("=longest", "0.310", "+0.001")],
    )
    texts = [
        ItemText(label="Sample 1", text="Tea.", tags=["chosen by embedding"], numbers={"critic": 0.25, "tokens": 31}),
        ItemText(label="Sample 2", text="More tea."),
    ]
    return Document(
        name="Best of 2",
        title="Tea",
        size="1 prompt, 1 user, seed 0",
        lead="smollm2 writes 2 samples.",
        facts={"Policy": "smollm2"},
        unfinished="Not everything is sampled yet.",
        findings=[Finding("warning", "two prompts failed"), Finding("good", "it works", "by 3 points", "embedding")],
        sections=[
            Section(title="Scores", blocks=[curves({"a": [0.1, 0.2]}), table, Note("A note.")], terminal=True),
            Section(title="Details", lead="More.", blocks=[Note("On the page.")], small_print=["Small."]),
        ],
        items=[
            ItemCard(
                id="i-1", user="u", prompt="Tea?", texts=texts,
                ratings=[ItemRating(by="embedding", scores=[0.9, float("nan")])],
            )
        ],
        left_out=4,
    )  # fmt: skip


def test_a_terminal_shows_the_essential_sections_and_then_what_they_say() -> None:
    console = Console(width=80, file=io.StringIO(), record=True)
    print_document(sampled(), console)
    text = console.export_text()
    places = [text.index(part) for part in ("Tea", "Scores", "0.280 to 0.320", "A note.", "Not everything", "By 3")]
    assert places == sorted(places)
    assert "On the page." not in text
    assert "embedding: it works. By 3 points." in " ".join(text.split())


def test_markdown_has_every_section() -> None:
    text = document_markdown(sampled())
    assert text.startswith("# Best of 2: Tea\n")
    assert "| embedding | 0.300 (0.280 to 0.320) | +0.112\\* |" in text
    for part in ("## Details", "More.", "On the page.", "Small.", "> **Warning:** Not everything", "policy smollm2"):
        assert part in text


def test_without_columns_the_csv_holds_the_first_section() -> None:
    rows = list(csv.reader(io.StringIO(document_csv(sampled()))))
    assert rows[0] == ["table", "chosen by", "k = 1", "over random"]
    assert rows[1][1:] == ["embedding", "0.300 (0.280 to 0.320)", "+0.112*"]
    assert rows[2][1] == "'=longest"


def test_the_page_has_items_that_nobody_judged_right_or_wrong() -> None:
    page = document_page(sampled())
    found = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    [item] = json.loads(found[1])["items"]
    assert item["texts"][0]["numbers"] == {"critic": "0.250", "tokens": "31"}
    assert item["ratings"] == [{"by": "embedding", "view": "", "scores": [0.9, None]}]
    assert "4 more are in" in page and 'href="#section-2"' in page and "Not everything is sampled yet." in page


def test_curves_that_coincide_are_one_line_with_one_label() -> None:
    chart = curves({"longest": [0.1, 0.2], "embedding": [0.1, 0.4], "shortest": [0.1, 0.2]})
    assert len(chart.lines) == 2
    assert "longest and shortest (the same)" in [label.name for label in chart.labels]
    assert "longest and shortest (the same): 1 samples: 0.100" in chart.description


def test_labels_keep_apart_inside_the_plot_and_break_between_words() -> None:
    names = [f"best of 16 by model {place}, policy seeing judgements:8" for place in range(6)]
    chart = curves({name: [0.5, 0.5 + place / 1000] for place, name in enumerate(names)})
    ends = [label.top + LINE_HEIGHT * len(label.lines) for label in chart.labels]
    assert all(end <= label.top for end, label in zip(ends, chart.labels[1:], strict=False))
    assert ends[-1] <= HEIGHT - BOTTOM + 8 + LINE_HEIGHT
    for label in chart.labels:
        assert " ".join(label.lines) == label.name
        assert max(map(len, label.lines)) <= LONGEST_LINE


def test_dots_stand_at_their_values() -> None:
    chart = draw_dots(
        [Dot(name="guided", across=0.6, up=0.7), Dot(name="chosen", across=0.5, up=0.5, shape="square")],
        IN_PERCENT, IN_PERCENT, title="Both", axis="reward accuracy", side="policy accuracy",
        levels=[Across("alone", 0.5)],
    )  # fmt: skip
    assert chart is not None
    guided, chosen = chart.spots
    assert guided.x > chosen.x and guided.y < chosen.y
    assert chosen.y == chart.levels[0].y
    assert "guided: reward accuracy 60.0%, policy accuracy 70.0%" in chart.description
    assert draw_dots([], IN_PERCENT, IN_PERCENT, title="", axis="", side="") is None


@pytest.mark.parametrize("value", [0.0, 4.0, -3.62811, 1e-13, 1e12, 0.7781234567])
def test_a_chart_of_one_value_has_ticks_that_differ(value: float) -> None:
    chart = curves({"a": [value]}, across=[])
    texts = [text for _, text in chart.y_ticks]
    assert len(set(texts)) == len(texts) > 1
    assert TOP < chart.spots[0].y < HEIGHT - BOTTOM
