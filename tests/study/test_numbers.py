"""What a benchmark says of a reward model, on ratings made by hand; and what chance and truth get in a study."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from plans import VIEW, best_of, model, predictor

from palate.evaluation import RatedItem
from palate.evaluation._ratings import Ratings
from palate.records import Rating
from palate.stats import Coefficient, PredictorTest, Scores, agreements, by_family, false_discovery
from palate.study import StudySummary, read_plan, study
from palate.study._numbers import GRID, Number, _by_category, _by_user, _margins, _quantile, _twins, _worst
from palate.study._plan import BestOfN, Plan, Predictor, Reach
from palate.study._summary import _about_families, _about_noise, _about_predictors, _agreements, _primary
from tiny_models import TinyModels

ZOO = "\n".join(
    f"""
class Random{seed}:
    name = "random-{seed}"

    def rate(self, asks):
        return [Rating(scores=[zlib.crc32(b"{seed}" + text.encode()) % 1009 for text in ask.responses]) for ask in asks]
"""
    for seed in range(8)
)


def item(user: int, place: int, **more: object) -> RatedItem:
    return RatedItem(
        id=f"{user}-{place}", user_id=f"u{user}", prompt="?", responses=("a", "b"), preferred=0, **more  # type: ignore[arg-type]
    )  # fmt: skip


def rated(items: list[RatedItem], right: list[float], margin: float = 1.0) -> Ratings:
    """Margins by which the preferred response is ahead, or behind where it is negative."""
    scores = {(one.id, 0): Rating(scores=[margin * ahead, 0.0]) for one, ahead in zip(items, right, strict=True)}
    return Ratings(items, {("m", "none"): scores})


def test_the_worst_category_is_the_least_accurate_of_those_with_enough_items() -> None:
    items = [item(n, 0, category="abc"[n % 3]) for n in range(36)] + [item(99, n, category="few") for n in range(9)]
    ahead = [1.0 if n % 3 == 0 or (n % 3 == 1 and n < 18) else -1.0 if n % 3 == 1 or n < 24 else 1.0 for n in range(36)]
    ratings = rated(items, [*ahead, *[-1.0] * 9])
    columns = _by_category(ratings, ratings.credits["m", "none"])
    assert columns is not None and columns.shape == (45, 6)
    accuracy = [np.mean([ahead[n] > 0 for n in range(36) if n % 3 == kind]) for kind in range(3)]
    assert _worst(columns.sum(axis=0)) == pytest.approx(min(accuracy))
    one = rated(items[:1] * 1, [1.0])
    assert _by_category(one, one.credits["m", "none"]) is None


def test_the_tenth_of_users_served_worst_is_near_numpy_s_quantile() -> None:
    random = np.random.default_rng(0)
    items = [item(user, place) for user in range(200) for place in range(20)]
    skill = {user: random.uniform(0.3, 1.0) for user in range(200)}
    ahead = [1.0 if random.random() < skill[int(one.user_id[1:])] else -1.0 for one in items]
    ratings = rated(items, ahead)
    own = [np.mean([a > 0 for a, one in zip(ahead, items, strict=True) if one.user_id == f"u{u}"]) for u in skill]
    found = float(_quantile(_by_user(ratings, ratings.credits["m", "none"]).sum(axis=0)))
    assert found == pytest.approx(np.quantile(own, 0.1), abs=2 * (GRID[1] - GRID[0]))
    everybody = rated(items, [1.0] * len(items))
    best = float(_quantile(_by_user(everybody, everybody.credits["m", "none"]).sum(axis=0)))
    assert best == pytest.approx(1.0, abs=GRID[1] - GRID[0])
    nobody = rated(items, [-1.0] * len(items))
    assert float(_quantile(_by_user(nobody, nobody.credits["m", "none"]).sum(axis=0))) == 0.0
    alone = rated([item(user, 0) for user in range(5)], [1.0] * 5)  # one item says nothing of a user
    with np.errstate(all="ignore"):
        assert np.isnan(_quantile(_by_user(alone, alone.credits["m", "none"]).sum(axis=0)))


def test_margins_weigh_what_a_model_is_sure_of() -> None:
    items = [item(0, n) for n in range(3)]
    for scale in (1.0, 50.0):
        ratings = rated(items, [3.0, -1.0, 0.0], scale)
        lines = [
            SimpleNamespace(view="none", item=item.id, rating=Rating([scale * margin, 0.0]))
            for item, margin in zip(items, [3.0, -1.0, 0.0], strict=True)
        ]
        run = SimpleNamespace(
            settings=SimpleNamespace(views=[SimpleNamespace(name="none")]), read=lambda ledger, lines=lines: lines
        )
        columns = _margins(run, ratings)["none"].sum(axis=0)  # type: ignore[arg-type]
        assert columns[0] / columns[1] == pytest.approx(3 / 4)


def test_twins_count_once_and_only_when_both_are_right() -> None:
    items = [item(n, 0, twin=f"{n ^ 1}-0") for n in range(6)] + [item(9, 0)]
    ratings = rated(items, [1, 1, 1, -1, -1, -1, 1])
    both = _twins(ratings, ratings.credits["m", "none"])
    assert both[~np.isnan(both)].tolist() == [1.0, 0.0, 0.0]


def number(measure: str, what: str, values: object, happens: bool = False) -> Number:
    scores = Scores.published(f"{measure}: {what}", values)  # type: ignore[arg-type]
    return Number(measure, what, predicts=not happens, happens=happens, share=False, scores=scores)


def test_q_is_held_over_what_is_shown_and_not_over_what_is_so_by_construction() -> None:
    random = np.random.default_rng(0)
    gain = random.normal(size=20)
    others = [number(f"bench {n}", "accuracy", 0.4 * gain + random.normal(size=20)) for n in range(3)]
    of_choice = [
        number("best of 2", "agreement", gain), number("hot", "agreement", gain),
        number("before", "followed", gain), number("before", "reach", gain),
    ]  # fmt: skip
    uses = [
        BestOfN(name="best of 2", benchmark="mini", critic="reference", samples=2, top_p=1.0),
        BestOfN(name="hot", benchmark="mini", critic="reference", samples=2, top_p=1.0, temperature=1.5),
        Reach(name="before", benchmark="mini", critic="reference", samples=4),
    ]
    plan = Plan(title="t", downstream=uses)
    found = _agreements(plan, [*others, *of_choice], [number("best of 2", "gain", gain, happens=True)])
    # With four samples, the first two are those that were chosen from; hot ones are others.
    assert [one.predictor for one in found] == [*(one.name for one in others), "hot: agreement", "before: reach"]
    told = [one.spearman for one in found if one.spearman]
    assert [one.q for one in told] == pytest.approx(false_discovery([one.p for one in told]))


def test_as_long_as_the_first_benchmark_is_missing_no_other_takes_its_place() -> None:
    first, second = (Predictor(name=name, benchmark="mini") for name in ("first", "second"))
    there = [number("second", "accuracy", [1, 2, 3]), number("best", "agreement", [1, 2, 3])]
    assert _primary(Plan(title="t", predictors=[first, second]), there) is None
    assert _primary(Plan(title="t", predictors=[second, first]), there) is there[0]
    assert _primary(Plan(title="t"), there[1:]) is there[1]


def test_how_far_seeds_agree_is_told_without_copies() -> None:
    plan = SimpleNamespace(entries=[SimpleNamespace(name=name) for name in "abcde"])
    first, second = np.array([1.0, 2, 3, 4, 3]), np.array([1.0, 2, 4, 3, np.nan])
    accuracy = number("bench", "accuracy", [1, 2, 3, 4, 3])
    gains = {"rloo": [number("rloo", "gain", first, True), number("rloo", "gain", second, True)]}
    [told] = _about_noise(gains, accuracy, plan, {"e": "c"})  # type: ignore[arg-type]
    assert "two seeds order the entries with a rank correlation of +0.80" in told.text
    assert "bench: accuracy has +1.00, +0.80 by seed" in told.text
    alone = {"rloo": [number("rloo", "gain", [1, np.nan, np.nan, np.nan, np.nan], True)] * 2}
    assert not [*_about_noise(alone, None, plan, {})]  # type: ignore[arg-type]


@pytest.mark.parametrize(("high", "told"), [(0.4, "apart more than"), (0.8, "is open"), (None, "is open")])
def test_what_few_entries_of_a_kind_leave_open_is_not_told_as_known(high: float | None, told: str) -> None:
    found = by_family(*(Scores.published(name, [1, 2, 3, 11, 12, 13]) for name in "xy"), ["a"] * 3 + ["b"] * 3)
    low = None if high is None else -0.7
    pooled, within = (
        msgspec.structs.replace(
            found.pooled, spearman=Coefficient(value=value, low=low, high=high, p=0.001, q=0.001, chance=0.0)
        )
        for value in (0.66, 0.04)
    )
    [finding] = _about_families([msgspec.structs.replace(found, pooled=pooled, centred=within)])
    assert finding.severity == "warning" and told in finding.text


def test_a_number_that_few_entries_have_is_not_told_as_the_best() -> None:
    values = {name: Scores.published(name, list(range(12))) for name in ("few", "many", "first")}
    found = agreements([values["few"], values["many"]], [Scores.published("gain", list(range(12)))])
    tests = [
        PredictorTest(
            first=name, second="first", outcome="gain", models=models, difference=by, low=-1, high=1, p=1, q=1
        )
        for name, models, by in (("few", 5, 0.4), ("many", 12, 0.1))
    ]
    [finding] = _about_predictors(tests, found, number("sim", "accuracy", [1, 2, 3]))
    assert "of 1 other numbers, many goes best" in finding.text and "q = 1.000" in finding.text


@pytest.mark.parametrize(("low", "better"), [(0.1, "; clearly"), (-0.1, "; not clearly"), (None, "; not clearly")])
def test_a_number_is_clearly_better_where_its_interval_says_so_too(low: float | None, better: str) -> None:
    numbers = [number("first", "accuracy", [1, 2, 3, 4, 6, 5]), number("other", "agreement", [1, 2, 3, 4, 5, 6])]
    happened = number("best", "gain", [1, 2, 3, 4, 5, 6], happens=True)
    found = _agreements(Plan(title="t"), numbers, [happened])
    test = PredictorTest(
        first=numbers[1].name, second=numbers[0].name, outcome=happened.name, models=6,
        difference=0.5, low=low, high=None if low is None else 1.1, p=0.002, q=0.02,
    )  # fmt: skip
    [finding] = _about_predictors([test], found, numbers[0])
    assert better in finding.text and (finding.severity == "good") == (better == "; clearly")


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory, tiny_models: TinyModels) -> StudySummary:
    """Eight models that know nothing, and one that knows everything."""
    folder = tmp_path_factory.mktemp("zoo")
    (folder / "zoo.py").write_text(f"import zlib\nfrom palate import Rating\n{ZOO}")
    text = "".join(model(f"./zoo.py:Random{n}", name=f"random {n}", family="chance") for n in range(8))
    text += model("sim", VIEW, family="truth")
    here = {"benchmark": "sim,users=40,items=2,seed=3"}
    text += predictor(**here) + best_of(f"{tiny_models.causal()},device=cpu", **here)
    (folder / "plan.toml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALATE_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        return study(read_plan(Path("plan.toml")))


def test_chance_gains_nothing_and_truth_gains_most(zoo: StudySummary) -> None:
    gains = {entry.entry: entry.numbers["best of 3: gain"] for entry in zoo.entries}
    [(truth, most), *_] = sorted(((figure.value, name) for name, figure in gains.items() if figure), reverse=True)
    assert most == f"sim, {VIEW}" and truth > 0
    sure = gains[most]
    assert sure is not None and sure.low is not None and sure.low > 0
    chance = [figure for name, figure in gains.items() if figure and name != most]
    # Couples want the opposite of each other, so what nobody chose for them brings them nothing.
    assert all(abs(figure.value) < truth / 10 for figure in chance)
    agreement = {entry.entry: entry.numbers["best of 3: agreement"] for entry in zoo.entries}
    assert all(abs(one.value - 0.5) < 0.1 for name, one in agreement.items() if one and name != most)
    best = agreement[most]
    assert best is not None and best.value == pytest.approx(1.0)


def test_one_model_that_differs_among_equals_is_no_clear_prediction(zoo: StudySummary) -> None:
    assert not [one for one in zoo.findings if one.severity == "good" and " predicts " in one.text]
