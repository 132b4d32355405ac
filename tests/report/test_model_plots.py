"""Plots of many models: scatter, two rankings, matrix of coefficients."""

from __future__ import annotations

import io
import math
import random
import re
import shutil
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path

import pytest
from rich.console import Console

from palate.report import (
    IN_PERCENT,
    IN_POINTS,
    Block,
    Document,
    Matrix,
    MatrixCell,
    Note,
    Scatter,
    ScatterPoint,
    Section,
    SlopeRow,
    Slopes,
    document_markdown,
    document_page,
    draw_matrix,
    draw_scatter,
    draw_slopes,
    print_document,
)
from palate.report._plots import COLOURS, SHAPES, group_marks
from palate.report._scatter import BOTTOM, LETTER, LETTERS_HIGH, NARROW, TOP, WIDE, PointLabel

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HOSTILE = '<script>alert("x")</script> & "quoted" \' </svg>'


def point(
    label: str, x: float | None, y: float | None, *, group: str = "llama", error: float | None = None
) -> ScatterPoint:
    limits = {} if error is None or x is None or y is None else {
        "x_low": x - error, "x_high": x + error, "y_low": y - error, "y_high": y + error,
    }  # fmt: skip
    return ScatterPoint(label=label, group=group, x=x, y=y, **limits)


def scatter(points: list[ScatterPoint], **more: dict[str, float] | list[str]) -> Scatter:
    drawn = draw_scatter(
        points, x_title="accuracy", y_title="gain", x_format=IN_PERCENT, y_format=IN_POINTS, **more
    )  # fmt: skip
    assert drawn is not None
    return drawn


def slopes(rows: list[tuple[str, float | None, float | None]], *, emphasised: int = 2) -> Slopes:
    drawn = draw_slopes(
        [SlopeRow(label=label, group="llama", left=left, right=right) for label, left, right in rows],
        left_title="accuracy", right_title="gain", emphasised=emphasised,
    )  # fmt: skip
    assert drawn is not None
    return drawn


def matrix(cells: dict[tuple[str, str], MatrixCell]) -> Matrix:
    drawn = draw_matrix(["accuracy", "length"], ["best of 16", "ppo"], cells, title="Correlations", corner="predictor")
    assert drawn is not None
    return drawn


def page_of(*blocks: Block) -> str:
    section = Section(title="Models", blocks=blocks, terminal=True)
    return document_page(Document(name="Study", title="Tea", size="3 models", sections=[section]))


def many(models: int = 36) -> list[ScatterPoint]:
    """A crowd in the middle and some models at the edges, in six families."""
    generator = random.Random(1)
    return [
        point(f"family-{place % 6}/reward-model-{place}", 0.6 + generator.gauss(0, 0.04), generator.gauss(0, 0.05),
              group=f"family {place % 6}", error=0.02)
        for place in range(models)
    ]  # fmt: skip


def room(label: PointLabel, width: float) -> tuple[float, float, float, float]:
    long = LETTER * len(label.text)
    start = label.x * width / 100 + label.shift - {"start": 0.0, "middle": long / 2, "end": long}[label.anchor]
    return start, label.y - LETTERS_HIGH, start + long, label.y


def test_points_stand_at_their_values_with_their_intervals() -> None:
    drawn = scatter([point("low", 0.5, 0.0, error=0.1), point("high", 0.6, 0.1, error=0.1)])
    high, low = drawn.points
    places = {text: x for x, text in drawn.x_ticks}
    heights = {text: y for y, text in drawn.y_ticks}
    assert (high.x, low.x) == (places["60%"], places["50%"])
    assert (high.y, low.y) == (heights["+10"], heights["0"])
    assert high.x_low == low.x and low.x_high == high.x and low.x_low == places["40%"]
    assert high.y_low == low.y and low.y_high == high.y and high.y_high == heights["+20"]
    assert high.text == "high (llama): accuracy 60.0% (50.0–70.0), gain +10.0 (0.0 to +20.0)"
    assert high.text in drawn.description and low.text in drawn.description


def test_points_are_numbered_from_the_top_down_in_a_key_by_group() -> None:
    drawn = scatter([point("b", 0.5, 0.1, group="qwen"), point("a", 0.6, 0.2), point("c", 0.7, 0.0)], groups=["llama"])
    assert [(entry.group, entry.points) for entry in drawn.key] == [
        ("llama", ((1, "a"), (3, "c"))),
        ("qwen", ((2, "b"),)),
    ]
    assert [drawn.points[number - 1].mark for entry in drawn.key for number, _ in entry.points] == [
        entry.mark for entry in drawn.key for _ in entry.points
    ]
    assert [label.text for label in drawn.wide_labels] == ["1 a", "2 b", "3 c"]
    assert [label.text for label in drawn.narrow_labels] == ["1", "2", "3"]


def test_a_group_looks_the_same_in_every_plot_that_is_told_all_groups() -> None:
    alone = scatter([point("b", 0.5, 0.1, group="qwen")], groups=["llama", "qwen"])
    assert alone.points[0].mark == group_marks(["llama", "qwen"])["qwen"]
    assert [entry.group for entry in alone.key] == ["qwen"]
    looks = group_marks(map(str, range(len(SHAPES) * len(COLOURS)))).values()
    assert len({(look.shape, look.colour) for look in looks}) == len(looks)


@pytest.mark.parametrize("models", [5, 36, 60])
def test_no_label_covers_another_or_leaves_the_plot(models: int) -> None:
    drawn = scatter(many(models), x_references={"chance": 0.5}, y_references={"no gain": 0.0})
    for labels, width in ((drawn.wide_labels, WIDE), (drawn.narrow_labels, NARROW)):
        rooms = [room(label, width) for label in labels]
        for one, other in combinations(rooms, 2):
            apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
            assert apart, (one, other)
        assert min(left for left, *_ in rooms) >= 0 and max(right for _, _, right, _ in rooms) <= width
    if models == 36:
        assert len(drawn.wide_labels) == 36
        named = {label.text.split()[0] for label in drawn.wide_labels if " " in label.text}
        assert {"1", "36"} <= named and len(named) >= 10  # the best and the worst have their names


def test_points_without_a_value_are_named_and_limits_may_be_absent() -> None:
    drawn = scatter([
        point("whole", 0.6, 0.1), point("no outcome", 0.6, None), point("no number", math.nan, 0.1),
        ScatterPoint(label="half", group="llama", x=0.5, x_low=0.4, x_high=None, y=0.0, y_low=-math.inf, y_high=0.1),
    ])  # fmt: skip
    assert [entry.points for entry in drawn.key] == [((1, "whole"), (2, "half"))]
    assert drawn.left_out == ("no outcome", "no number")
    assert drawn.points[0].x_low is None and drawn.points[1].x_high is None and drawn.points[1].y_low is None
    page = page_of(drawn)
    assert page.count('<g class="whiskers') == 2 and not re.search(r"None|nan|inf%", page.partition("<main")[2])
    assert "a value is missing: no outcome, no number." in page
    assert (
        draw_scatter([point("a", None, 0.1)], x_title="", y_title="", x_format=IN_PERCENT, y_format=IN_POINTS) is None
    )


@pytest.mark.parametrize("points", [[("a", 0.5, 0.0)], [("a", 0.5, 0.1), ("b", 0.5, 0.1), ("c", 0.5, 0.1)]])
def test_one_point_and_equal_points_have_a_place_inside(points: list[tuple[str, float, float]]) -> None:
    drawn = scatter([point(*one) for one in points])
    assert all(0 < one.x < 100 and TOP < one.y < BOTTOM for one in drawn.points)
    assert len({text for _, text in drawn.x_ticks}) == len(drawn.x_ticks) > 1
    assert page_of(drawn).count('class="whiskers') == len(points)


def test_reference_lines_stand_at_their_values_and_are_said() -> None:
    drawn = scatter([point("a", 0.7, 0.2)], x_references={"chance": 0.5}, y_references={"no gain": 0.0})
    assert drawn.x_references == (({text: x for x, text in drawn.x_ticks}["50%"], "chance"),)
    assert drawn.y_references == (({text: y for y, text in drawn.y_ticks}["0"], "no gain"),)
    assert re.search(rf'class="reference" x1="[\d.]+%" x2="[\d.]+%" y1="{TOP}" y2="{BOTTOM}"', page_of(drawn))
    assert "accuracy 50.0%: chance" in drawn.description and "gain 0.0: no gain" in drawn.description


def test_ranks_stand_on_both_sides_and_those_that_move_most_are_strong() -> None:
    drawn = slopes([("a", 0.9, 0.1), ("b", 0.8, 0.4), ("c", 0.7, 0.3), ("d", 0.6, 0.2), ("e", 0.5, 0.0)], emphasised=1)
    ranks = {line.name: (line.left_rank, line.right_rank) for line in drawn.lines}
    assert ranks == {"a": ("1", "4"), "b": ("2", "1"), "c": ("3", "2"), "d": ("4", "3"), "e": ("5", "5")}
    assert [line.name for line in drawn.lines if line.strong] == ["a"] == [drawn.lines[-1].name]
    for side in ("left", "right"):
        by_rank = sorted(drawn.lines, key=lambda line: int(getattr(line, f"{side}_rank")))
        heights = [getattr(line, f"{side}_y") for line in by_rank]
        assert heights == sorted(set(heights))
    assert "a (llama): accuracy rank 1 with 0.900, gain rank 4 with 0.100" in drawn.description


def test_equal_values_share_a_rank_and_move_nowhere() -> None:
    drawn = slopes([("a", 0.5, 1.0), ("b", 0.5, 1.0), ("c", 0.5, 1.0)])
    assert {(line.left_rank, line.right_rank) for line in drawn.lines} == {("1=", "1=")}
    assert not any(line.strong for line in drawn.lines)
    assert all(line.left_y == line.right_y for line in drawn.lines) and len({line.left_y for line in drawn.lines}) == 3


def test_a_model_that_leaves_a_tie_moves_from_its_middle() -> None:
    drawn = slopes([("a", 0.5, 0.9), ("b", 0.5, 0.8), ("c", 0.5, 0.7), ("d", 0.4, 0.6)], emphasised=3)
    assert {line.name for line in drawn.lines if line.strong} == {"a", "c"}


def test_slopes_name_models_without_a_value() -> None:
    drawn = slopes([("a", 0.5, 1.0), ("b", None, 1.0), ("c", 0.5, math.nan)])
    assert len(drawn.lines) == 1 and drawn.left_out == ("b", "c")
    assert draw_slopes([SlopeRow(label="b", group="", left=None, right=1.0)], left_title="", right_title="") is None


def test_a_matrix_has_shades_by_sign_and_size_pale_where_the_interval_holds_zero() -> None:
    drawn = matrix({
        ("accuracy", "best of 16"): MatrixCell(0.62, 0.31, 0.81, "36 models"),
        ("accuracy", "ppo"): MatrixCell(-0.95, -0.99, -0.9),
        ("length", "best of 16"): MatrixCell(0.1, -0.2, 0.4),
        ("length", "ppo"): MatrixCell(math.nan),
    })  # fmt: skip
    [(_, (clear, negative)), (_, (unclear, absent))] = drawn.rows
    assert (clear.text, clear.interval, clear.shade) == ("+0.62", "+0.31 to +0.81", "above step-4")
    assert clear.title == "accuracy, best of 16: +0.62 (+0.31 to +0.81); 36 models"
    assert (negative.text, negative.shade) == ("−0.95", "below step-5")
    assert unclear.shade == "above step-1 pale"
    assert (absent.text, absent.interval, absent.shade) == ("–", "", "absent")
    assert drawn.pale == "the 95% interval holds 0" and drawn.missing
    assert (drawn.scale[0], drawn.scale[5][1], drawn.scale[-1][1]) == (("below step-5", "−1.00"), "0.00", "+1.00")


def test_a_coefficient_without_an_interval_is_pale_and_a_missing_cell_is_a_dash() -> None:
    drawn = matrix({("accuracy", "best of 16"): MatrixCell(0.9)})
    [(_, (unknown, missing)), _] = drawn.rows
    assert unknown.shade == "above step-5 pale" and unknown.interval == ""
    assert missing.text == "–" and drawn.pale.endswith("or is not known")
    assert draw_matrix(["a"], ["b"], {}) is None
    assert draw_matrix(["a"], ["b"], {("other", "b"): MatrixCell(0.1)}) is None


class Elements(HTMLParser):
    """The names of all elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)


def test_hostile_names_stay_text() -> None:
    def page(name: str) -> str:
        drawn = draw_scatter(
            [point(name, 0.5, 0.1, group=name, error=0.1), point(name, None, 0.1)],
            x_title=name, y_title=name, x_format=IN_PERCENT, y_format=IN_POINTS, x_references={name: 0.5},
        )  # fmt: skip
        ranks = draw_slopes([SlopeRow(label=name, group=name, left=0.1, right=0.2)], left_title="a", right_title="b")
        cells = draw_matrix([name], [name], {(name, name): MatrixCell(0.5, 0.1, 0.9, name)}, corner=name)
        assert drawn is not None and ranks is not None and cells is not None
        return page_of(drawn, ranks, cells)

    hostile, harmless = Elements(), Elements()
    hostile.feed(page(HOSTILE))
    harmless.feed(page("harmless"))
    assert hostile.names == harmless.names
    assert "&lt;script&gt;alert(" in page(HOSTILE)


def test_terminal_and_markdown_leave_these_plots_out() -> None:
    blocks: list[Block] = [
        scatter(many(3)), slopes([("a", 0.5, 1.0)]), matrix({("accuracy", "ppo"): MatrixCell(0.5)}), Note("A note."),
    ]  # fmt: skip
    document = Document(
        name="Study", title="Tea", size="3", sections=[Section(title="Models", blocks=blocks, terminal=True)]
    )
    console = Console(width=80, file=io.StringIO(), record=True)
    print_document(document, console)
    for text in (console.export_text(), document_markdown(document)):
        assert "A note." in text and "0.50" not in text and "family" not in text


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium, for instance: apt install chromium")
def test_they_are_readable_in_light_and_dark_and_on_a_phone(tmp_path: Path) -> None:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright

    points = many()
    ranks = draw_slopes(
        [SlopeRow(label=one.label, group=one.group, left=one.x, right=one.y) for one in points],
        left_title="accuracy on the benchmark", right_title="gain of best of 16",
    )  # fmt: skip
    outcomes = [f"outcome {place}" for place in range(9)]
    cells = {("accuracy", name): MatrixCell(place / 4 - 1, place / 4 - 1.2, place / 4 - 0.8)
             for place, name in enumerate(outcomes)}  # fmt: skip
    shaded = draw_matrix(["accuracy"], outcomes, cells)
    assert ranks is not None and shaded is not None
    path = tmp_path / "report.html"
    path.write_text(page_of(scatter(points), ranks, shaded), encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--headless", "--no-sandbox"])
        for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)):
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            page.goto(path.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            for shown in (".point-label:visible", ".slope-name:visible", ".slope-rank:visible"):
                boxes = page.locator(shown).evaluate_all(
                    "all => all.map((one) => one.getBoundingClientRect().toJSON())"
                )
                assert len(boxes) >= (36 if shown != ".point-label:visible" else 25)
                assert min(box["height"] for box in boxes) >= 11
                assert min(box["left"] for box in boxes) >= 0 and max(box["right"] for box in boxes) <= width
            found = Axe().run(page).response["violations"]
            assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
            context.close()
        browser.close()
