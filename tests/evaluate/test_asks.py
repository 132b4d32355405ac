"""The order in which responses are presented, and which items a sample takes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.data import load_benchmark
from palate.evaluation import in_benchmark_order, make_ask
from palate.evaluation._run import presented_order
from palate.records import Comparison, PalateError, Rating, View
from palate.runs import sample_items as sample

MINI = load_benchmark("mini").comparisons


def test_twins_see_the_same_order() -> None:
    by_id = {item.id: item for item in MINI}
    for item in MINI:
        assert item.twin
        twin = by_id[item.twin]
        view = View(name="none")
        assert make_ask(item, view, 0).responses == make_ask(twin, view, 0).responses


def test_the_preferred_response_stands_first_half_of_the_time() -> None:
    first = sum(presented_order(item, 0)[0] == item.preferred for item in MINI)
    assert first == len(MINI) / 2


def test_the_seed_changes_the_order_of_some_and_an_item_alone_decides_its_own() -> None:
    orders = [[presented_order(item, seed) for item in MINI] for seed in (0, 1)]
    changed = sum(one != other for one, other in zip(*orders, strict=True))
    assert 0.3 < changed / len(MINI) < 0.7


def test_the_order_in_the_file_tells_nothing() -> None:
    item = MINI[0]
    turned = msgspec.structs.replace(item, responses=item.responses[::-1], preferred=1 - item.preferred)
    assert make_ask(item, View(name="none"), 0).responses == make_ask(turned, View(name="none"), 0).responses


@given(st.lists(st.text(min_size=1), min_size=2, max_size=6, unique=True), st.integers(0, 9))
def test_scores_come_back_to_their_own_responses(responses: list[str], seed: int) -> None:
    item = Comparison(id="i", user_id="u", prompt="p", responses=tuple(responses), preferred=0)
    ask = make_ask(item, View(name="none"), seed)
    marks = {text: float(index) for index, text in enumerate(responses)}
    rating = in_benchmark_order(Rating(scores=[marks[text] for text in ask.responses]), item, seed)
    assert rating.scores == tuple(range(len(responses)))


def test_the_position_shown_goes_with_its_response() -> None:
    item = Comparison(id="i", user_id="u", prompt="p", responses=("a", "b", "c"), preferred=1, shown=(0, 1, 2))
    ask = make_ask(item, View(name="none"), 3)
    assert ask.shown is not None
    assert dict(zip(ask.responses, ask.shown, strict=True)) == {"a": 0, "b": 1, "c": 2}


def test_a_sample_keeps_twins_together_and_grows_by_adding() -> None:
    small, large = sample(MINI, 20, 0), sample(MINI, 40, 0)
    assert len(small) == 20
    assert {item.id for item in small} <= {item.id for item in large}
    assert {item.twin for item in small} == {item.id for item in small}
    assert sample(MINI, None, 0) == list(MINI)
    assert len(sample(MINI, 11, 0)) == 10
    with pytest.raises(PalateError, match="twins are rated together"):
        sample(MINI, 1, 0)
