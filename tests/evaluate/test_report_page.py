from __future__ import annotations

import itertools
import json
import re
from html.parser import HTMLParser

import msgspec
import pytest
from report_sample import sample_document, sample_items, sample_summary
from test_report_text import NAMES, empty, renamed

from palate.evaluation import RatedItem, Summary, evaluation_document
from palate.evaluation._items import item_card
from palate.evaluation._plots import histograms
from palate.records import Rating
from palate.report import ItemCard, ItemRating, ItemText, document_page, shortened
from palate.report._plots import Axis


class Collector(HTMLParser):
    """Every tag with its attributes, as a browser would see them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def tags_of(page: str) -> list[tuple[str, dict[str, str | None]]]:
    collector = Collector()
    collector.feed(page)
    return collector.tags


def embedded(page: str) -> dict[str, list]:  # type: ignore[type-arg]
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, list] = json.loads(found[1])  # type: ignore[type-arg]
    return data


def render_page(summary: Summary, items: list[ItemCard], *, left_out: int = 0) -> str:
    return document_page(evaluation_document(summary, items, left_out=left_out))


def hostile_item(text: str) -> ItemCard:
    rating = ItemRating(by=text, view=text, outcome="tied", scores=[float("nan"), float("inf")], note=text, raw=text)
    return ItemCard(
        id=text, user=text, prompt=text, texts=[ItemText(label=text, text=text, tags=[text])] * 2, facts={text: text},
        profiles={text: text}, ratings=[rating],
    )  # fmt: skip


@pytest.mark.parametrize("name", [*NAMES, "\ud800 lone", "<!--<script>", "&lt;b&gt;", "x" * 1_000_000])
def test_hostile_text_is_inert(name: str) -> None:
    usual = [tag for tag, _ in tags_of(document_page(sample_document(1)))]
    page = render_page(renamed(name), [hostile_item(name)])
    tags = [tag for tag, _ in tags_of(page)]
    assert tags == usual
    assert not any(key.startswith("on") for _, attributes in tags_of(page) for key in attributes)
    assert embedded(page)["items"][0]["user"] == name.encode("utf-8", "replace").decode()
    page.encode("utf-8")


def test_nothing_is_fetched_and_only_known_scripts_run() -> None:
    page = render_page(sample_summary(), sample_items())
    for tag, attributes in tags_of(page):
        assert "src" not in attributes, tag
        assert "style" not in attributes, tag
        assert (attributes.get("href") or "#").startswith(("#", "data:")), attributes
    assert "default-src 'none'" in page.replace("&#39;", "'")
    assert "unsafe-inline" not in page


def test_page_says_what_was_left_out() -> None:
    assert "1,700 more" in render_page(sample_summary(), sample_items(), left_out=1700)
    assert "more are in" not in render_page(sample_summary(), sample_items())


def test_headings_never_skip_a_level() -> None:
    levels = [int(tag[1]) for tag, _ in tags_of(render_page(sample_summary(), [])) if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_ids_are_unique() -> None:
    ids = [attributes["id"] for _, attributes in tags_of(render_page(sample_summary(), [])) if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_a_run_without_scores_has_a_page() -> None:
    page = render_page(empty(), [])
    assert "no score" in page
    assert "Personalisation gain" not in page
    assert "Not every item is rated yet" in page


def test_a_run_without_results_has_a_page() -> None:
    bare = msgspec.structs.replace(empty(), results=[])
    assert "controls only" in render_page(bare, [])


def test_texts_are_embedded_once() -> None:
    items = sample_items()
    texts = embedded(render_page(sample_summary(), items))["texts"]
    assert len(texts) == len(set(texts))


def test_each_outcome_is_named_and_responses_stand_in_the_order_that_was_shown() -> None:
    item = RatedItem(id="i", user_id="u", prompt="?", responses=("tea", "coffee"), preferred=0)
    ratings = [Rating(scores=[1.0, 0.0]), Rating(scores=[0.0, 1.0]), Rating(scores=[1.0, 1.0]), Rating(unscored="no")]
    card = item_card(item, [1, 0], {}, [(f"rm-{place}", "none", rating) for place, rating in enumerate(ratings)])
    assert [text.text for text in card.texts] == ["coffee", "tea"]
    assert [text.highlighted for text in card.texts] == [False, True]
    packed = embedded(render_page(sample_summary(), [card]))["items"][0]["ratings"]
    assert [rating["outcome"] for rating in packed] == ["right", "wrong", "tied", "unscored"]
    assert [rating.get("scores") for rating in packed] == [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], None]
    assert packed[3]["note"] == "no"


def test_histograms_count_users_below_chance_and_what_luck_would_do() -> None:
    summary = sample_summary()
    shown = next(group for group in histograms(summary) if group.title == "embedding").shown[1]
    below = [
        user
        for user in summary.user_accuracies
        if (user.rm, user.view) == ("embedding", "posts:5") and user.accuracy < 0.5
    ]
    assert shown.below == len(below)
    assert shown.expected == pytest.approx(30.0)


def test_an_axis_is_round_and_holds_everything() -> None:
    axis = Axis.holding([0.71, 0.63, 0.78, 0.5, None, float("nan")], 0.0, 100.0)
    assert (axis.ticks[0], axis.ticks[-1]) == (pytest.approx(0.5), pytest.approx(0.8))
    assert axis.place(0.65) == pytest.approx(50.0)
    assert axis.place(None) is None


def test_long_names_keep_both_ends() -> None:
    assert len(shortened("hf:organisation/a-very-long-reward-model-name-8b", 40)) == 40
