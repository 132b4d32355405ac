"""What a run says, checked against numbers worked out by hand."""

import itertools
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from scipy import stats

from palate import Ask, Rating
from palate.evaluation import Gain, RatedItem, Ratings, Result, Summary, compare, evaluate, item_cards
from palate.evaluation._findings import findings_of
from palate.evaluation._paired import over_baseline
from palate.records import Benchmark, Card, Comparison, PalateError, Post, User
from palate.runs import ViewLine, open_run
from palate.stats import Resamples, false_discovery
from palate.views import resolve_views


class Told:
    """Rates as the test says: a function from the ask to what a Rating takes."""

    def __init__(self, name: str, answer: Callable[[Ask], dict[str, object]]) -> None:
        self.name = self.fingerprint = name
        self.answer = answer

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        return [Rating(**self.answer(ask)) for ask in asks]  # type: ignore[arg-type]


def benchmark(labels: dict[str, list[int]], **more: object) -> Benchmark:
    """Users with items; the preferred response of each is the text 'good', or the longer 'good enough'."""
    users, items = {}, []
    for name, preferred in labels.items():
        users[name] = User(id=name, posts=(Post(id=name, text=f"I am {name}"),), demographics={"team": name[0]})
        for number, index in enumerate(preferred):
            items.append(
                Comparison(
                    id=f"{name}-{number}",
                    user_id=name,
                    prompt="Which?",
                    responses=("good", "bad, and longer"),
                    preferred=index,
                    **more,  # type: ignore[arg-type]
                )
            )
    card = Card(name="hand made", title="hand made", version="1", licence="none", source="the test")
    return Benchmark(card=card, users=users, comparisons=tuple(items))


def likes_good(ask: Ask) -> dict[str, object]:
    return {"scores": [float(text == "good") for text in ask.responses]}


def run(held: Benchmark, *models: Told, out: Path, views: tuple[str, ...] = ("none",)) -> Summary:
    return evaluate(held, list(models), list(views), out=out)


def result(summary: Summary, rm: str, view: str = "none") -> Result:
    [found] = [found for found in summary.results if (found.rm, found.view) == (rm, view)]
    return found


def test_a_model_that_scores_nothing_without_a_profile_was_tried_without_one(tmp_path: Path) -> None:
    names = "abcdefghijklmnopqrst"
    held = benchmark({name: [0] * 4 for name in names})

    def answer(ask: Ask) -> dict[str, object]:
        if not ask.view.parts:
            return {"unscored": "nothing shown"}
        own = f"I am {ask.id[0]}" in str(ask.view.parts)
        scores = [float(text == "good") for text in ask.responses]
        return {"scores": scores if own else [1 - score for score in scores]}

    summary = run(held, Told("m", answer), out=tmp_path, views=("none", "posts:1", "swapped"))
    said = " ".join(finding.text for finding in findings_of(summary))
    assert "no score without a profile" in said and "not tried" not in said


def test_a_stranger_who_was_not_found_is_no_reason_why_items_are_unscored(tmp_path: Path) -> None:
    """Ann and Bob have one stranger each where three are drawn; of the four items one has no score."""
    held = benchmark({"ann": [0, 0], "bob": [1, 1]})
    model = Told("m", lambda ask: {"unscored": "refused"} if ask.id == "ann-1" else likes_good(ask))
    summary = run(held, model, out=tmp_path, views=("none", "posts:1", "swapped"))
    assert result(summary, "m", "swapped").unscored == 1
    assert "m, swapped: 1 of 4 items unscored, most often: refused." in summary.warnings
    assert "For 4 of 4 items there are fewer than 3." in summary.strangers[0]
    items = item_cards(open_run(Path(summary.run)))
    assert [len(item.ratings) for item in items] == [3] * 4
    assert {rating.note for item in items for rating in item.ratings} == {None, "refused"}


def test_why_items_are_unscored_is_said_once_for_all_models_that_it_holds_for(tmp_path: Path) -> None:
    held = benchmark({"ann": [0, 0], "bob": [1, 1]})
    silent = [Told(name, lambda ask: {"unscored": "down"}) for name in ("one", "two")]
    assert "every model, none: 4 of 4 items unscored, most often: down." in run(held, *silent, out=tmp_path).warnings
    summary = run(held, *silent, Told("three", likes_good), out=tmp_path)
    assert "one and two, none: 4 of 4 items unscored, most often: down." in summary.warnings
    assert sum("unscored" in warning for warning in summary.warnings) == 1


def test_accuracy_over_items_and_over_users(tmp_path: Path) -> None:
    held = benchmark({"ann": [0, 0, 0, 1], "bob": [1]})
    found = result(run(held, Told("m", likes_good), out=tmp_path), "m")
    assert (found.n, found.users, found.accuracy, found.macro) == (5, 2, 0.6, 0.375)
    assert found.chance == 0.5


def test_ties_are_half_and_counted_and_unscored_counts_neither_way(tmp_path: Path) -> None:
    def answer(ask: Ask) -> dict[str, object]:
        return {
            "ann-0": {"scores": [1.0, 1.0]},
            "ann-1": {"unscored": "refused"},
            "ann-2": {"scores": [float("nan"), 0.0]},
        }.get(ask.id) or likes_good(ask)

    found = result(run(benchmark({"ann": [0, 0, 0, 0], "bob": [1]}), Told("m", answer), out=tmp_path), "m")
    assert (found.n, found.ties, found.unscored) == (3, 1, 2)
    assert found.accuracy == pytest.approx((0.5 + 1 + 0) / 3)


def test_a_model_that_scores_nothing_has_no_accuracy(tmp_path: Path) -> None:
    summary = run(benchmark({"ann": [0], "bob": [1]}), Told("m", lambda ask: {"unscored": "down"}), out=tmp_path)
    found = result(summary, "m")
    assert (found.accuracy, found.low, found.macro, found.unscored) == (None, None, None, 2)
    assert any("2 of 2 items unscored, most often: down" in warning for warning in summary.warnings)


def test_length_control_takes_the_length_out(tmp_path: Path) -> None:
    held = benchmark({"ann": [1, 1, 1, 0], "bob": [1, 1, 0, 1]})
    summary = evaluate(held, ["longest"], ["none"], out=tmp_path)
    found = result(summary, "longest")
    assert found.accuracy == 0.75
    assert found.length_controlled is not None and found.length_controlled.value == 0.5


def test_calibration_of_claimed_probabilities(tmp_path: Path) -> None:
    def sure(ask: Ask) -> dict[str, object]:
        p = [0.8 if text == "good" else 0.2 for text in ask.responses]
        return {"scores": p, "probabilities": p}

    held = benchmark({"ann": [0, 0, 0, 1], "bob": [1]})
    calibration = result(run(held, Told("m", sure), out=tmp_path), "m").calibration
    assert calibration is not None
    assert calibration.brier == pytest.approx((3 * 0.04 + 2 * 0.64) / 5)
    assert calibration.ece == pytest.approx(0.2)


def sees(name: str) -> Callable[[Ask], dict[str, object]]:
    """Right for a user exactly when their own post is in the view."""

    def answer(ask: Ask) -> dict[str, object]:
        own = ask.id.split("-")[0] in ask.view.text
        return {"scores": [float((text == "good") == own) for text in ask.responses]}

    return answer


PEOPLE = {name: [0, 0, 0] for name in ("ann", "bob", "cat", "dan", "eve", "fay", "gus", "hal")}


def test_gains_over_none_and_over_a_stranger(tmp_path: Path) -> None:
    summary = run(benchmark(PEOPLE), Told("m", sees("m")), out=tmp_path, views=("none", "posts:1", "swapped"))
    gains: dict[tuple[str, str], Gain] = {(gain.view, gain.over): gain for gain in summary.gains}
    assert {key: gain.difference for key, gain in gains.items()} == {
        ("posts:1", "none"): 1.0,
        ("posts:1", "swapped"): 1.0,
        ("swapped", "none"): 0.0,
    }
    assert gains["posts:1", "none"].p == 2 / 2**8
    assert gains["posts:1", "none"].q == 2 / 2**8
    assert result(summary, "m", "swapped").of == "posts:1"


def test_a_model_that_never_reads_the_profile_gains_exactly_nothing(tmp_path: Path) -> None:
    summary = run(benchmark(PEOPLE), Told("m", likes_good), out=tmp_path, views=("none", "posts:1", "swapped"))
    for gain in summary.gains:
        assert (gain.difference, gain.low, gain.high, gain.p) == (0, 0, 0, 1)


def test_gains_are_measured_where_there_is_a_profile(tmp_path: Path) -> None:
    held = benchmark(PEOPLE)
    bare = {
        name: msgspec.structs.replace(user, posts=()) for name, user in held.users.items() if name in ("ann", "bob")
    }
    held = Benchmark(card=held.card, users=held.users | bare, comparisons=held.comparisons)
    summary = run(held, Told("m", sees("m")), out=tmp_path, views=("none", "posts:1", "swapped"))
    assert result(summary, "m", "posts:1").empty == 6
    assert result(summary, "m", "posts:1").accuracy == 0.75
    gains = {(gain.view, gain.over): (gain.n, gain.difference) for gain in summary.gains}
    assert gains["posts:1", "none"] == gains["posts:1", "swapped"] == (18, 1.0)
    assert any("6 of 24 items have nothing to show" in warning for warning in summary.warnings)


def test_a_difference_that_cannot_be_does_not_count_as_a_test(tmp_path: Path) -> None:
    models = [Told("m", sees("m")), *(Told(f"blind {n}", likes_good) for n in range(9))]
    summary = run(benchmark(PEOPLE), *models, out=tmp_path, views=("none", "posts:1"))
    assert summary.gains[0].q == summary.gains[0].p == 2 / 2**8
    assert all(gain.q == 1 for gain in summary.gains[1:])


def test_length_control_among_many_responses(tmp_path: Path) -> None:
    texts = ("a", "bb", "ccc")
    items = tuple(
        Comparison(id=f"{user}{index}", user_id=user, prompt="?", responses=texts, preferred=index)
        for user in ("ann", "bob")
        for index in range(3)
    )
    held = benchmark({"ann": [], "bob": []})
    held = Benchmark(card=held.card, users=held.users, comparisons=items)
    for found in evaluate(held, ["longest", "shortest"], ["none"], out=tmp_path).results:
        assert found.length_controlled is not None and found.length_controlled.value == 0.5


def test_models_are_compared_on_the_same_items(tmp_path: Path) -> None:
    def coy(ask: Ask) -> dict[str, object]:
        return {"unscored": "no"} if ask.id.endswith("0") else {"scores": [float(t != "good") for t in ask.responses]}

    summary = run(benchmark(PEOPLE), Told("one", likes_good), Told("two", coy), out=tmp_path)
    [difference] = summary.differences
    assert (difference.rm, difference.than, difference.n, difference.difference) == ("one", "two", 16, 1.0)


def test_small_groups_are_put_together(tmp_path: Path) -> None:
    held = benchmark(
        {f"{team}{number}": [0] for team, size in (("a", 6), ("b", 5), ("c", 2)) for number in range(size)}
    )
    summary = run(held, Told("m", likes_good), out=tmp_path)
    assert {found.value: found.users for found in summary.slices} == {"a": 6, "b and others": 7}


def test_every_user_has_an_accuracy(tmp_path: Path) -> None:
    summary = run(benchmark({"ann": [0, 1], "bob": [1]}), Told("m", likes_good), out=tmp_path)
    assert {found.user_id: found.accuracy for found in summary.user_accuracies} == {"ann": 0.5, "bob": 0.0}


def test_one_user_has_numbers_but_no_intervals(tmp_path: Path) -> None:
    found = result(run(benchmark({"ann": [0, 1]}), Told("m", likes_good), out=tmp_path), "m")
    assert (found.accuracy, found.low, found.high) == (0.5, None, None)


class TestOnMini:
    def test_every_content_blind_control_scores_exactly_one_half(self, tmp_path: Path) -> None:
        controls = ["random", "longest", "shortest", "first", "overlap"]
        for found in evaluate("mini", controls, ["none"], out=tmp_path).results:
            assert (found.accuracy, found.low, found.high) == (0.5, 0.5, 0.5), found.rm

    def test_embedding_gains_over_none_and_over_swapped(self, tmp_path: Path, minilm: object) -> None:
        summary = evaluate("mini", ["embedding"], ["none", "posts:5", "swapped", "oracle"], out=tmp_path)
        gains = {(gain.view, gain.over): gain for gain in summary.gains}
        for over in ("none", "swapped"):
            low = gains["posts:5", over].low
            assert low is not None and low > 0
        stranger = gains["swapped", "none"]
        assert stranger.low is not None and stranger.high is not None
        assert stranger.low < 0 < stranger.high
        closed = result(summary, "embedding", "posts:5").oracle_gap_closed
        assert closed is not None and 0.2 < closed.low < closed.value < closed.high

    def test_the_twins_profile_misleads_as_much_as_ones_own_helps(self, tmp_path: Path) -> None:
        summary = evaluate("mini", ["overlap"], ["posts:8", "twin"], out=tmp_path)
        own, twin = summary.results
        assert own.accuracy is not None and twin.accuracy is not None
        assert own.accuracy + twin.accuracy == pytest.approx(1)


class TestCompare:
    def test_two_runs_on_the_items_both_rated(self, tmp_path: Path) -> None:
        held = benchmark(PEOPLE)
        one = evaluate(held, [Told("one", likes_good)], ["none"], out=tmp_path)
        other = evaluate(held, [Told("two", sees("two"))], ["none", "posts:1"], limit=10, out=tmp_path)
        found = compare(one.run, other.run)
        assert found.items == 10
        assert [(d.view, d.rm, d.than, d.difference) for d in found.differences] == [("none", "one", "two", 1.0)]

    def test_the_same_model_in_both_is_told_apart_by_its_run(self, tmp_path: Path) -> None:
        runs = [evaluate("mini", ["overlap"], ["posts:4"], retriever=r, out=tmp_path).run for r in ("bm25", "recent")]
        [difference] = compare(*runs, controls=True).differences
        assert difference.rm == f"overlap ({Path(runs[0]).name})"
        assert difference.than == f"overlap ({Path(runs[1]).name})"

    def test_a_training_run_is_compared_with_an_evaluation(self, tmp_path: Path) -> None:
        """A training run also keeps how many judgements of the user its models could learn from."""
        held = benchmark(PEOPLE)
        one = evaluate(held, [Told("one", likes_good)], ["none"], out=tmp_path)
        other = evaluate(held, [Told("two", sees("two"))], ["none"], out=tmp_path)
        file = Path(other.run) / "items.jsonl"
        lines = [msgspec.json.decode(line) | {"known": 3} for line in file.read_bytes().splitlines()]
        file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        assert [found.difference for found in compare(one.run, other.run).differences] == [1.0]

    def test_other_items_of_the_same_name_are_refused(self, tmp_path: Path) -> None:
        runs = [
            evaluate(benchmark({"ann": labels, "bob": [0]}), ["longest"], ["none"], out=tmp_path).run
            for labels in ([0], [1])
        ]
        with pytest.raises(PalateError, match="is not the same in both runs"):
            compare(*runs)
        with pytest.raises(PalateError, match="the same run"):
            compare(runs[0], runs[0])

    def test_items_that_are_named_after_their_row_are_to_be_given_ids(self, tmp_path: Path) -> None:
        table = tmp_path / "prefs.csv"
        rows = [
            "user,prompt,chosen,rejected",
            "ann,Tea?,Green.,Black.",
            "bob,Tea?,Black.,Green.",
            "bob,Cake?,One.,Two.",
        ]
        runs = []
        for kept in (rows, [rows[0], *rows[2:]]):
            table.write_text("\n".join(kept))
            runs.append(evaluate(str(table), ["longest"], ["none"], out=tmp_path / "runs").run)
        with pytest.raises(PalateError, match=r"named after its row.*Give the rows a column `id`"):
            compare(*runs)


def shared(users: int, items: int) -> Benchmark:
    """Everybody judges the same items, and prefers the first response of every other one."""
    card = Card(name="shared", title="shared", version="1", licence="none", source="the test")
    people = {f"u{user}": User(id=f"u{user}") for user in range(users)}
    texts = [(f"Question {item}?", (f"yes {item}", f"no, and never, {item}")) for item in range(items)]
    comparisons = tuple(
        Comparison(
            id=f"{user}-{item}",
            user_id=user,
            prompt=prompt,
            responses=responses if (number + item) % 2 else responses[::-1],  # the order is not what an item is
            preferred=(number + item + item % 2) % 2,
        )
        for number, user in enumerate(people)
        for item, (prompt, responses) in enumerate(texts)
    )
    return Benchmark(card=card, users=people, comparisons=comparisons)


def prefers_yes(ask: Ask) -> dict[str, object]:
    return {"scores": [float(text.startswith("yes")) for text in ask.responses]}


def test_items_that_users_share_are_resampled_too(tmp_path: Path) -> None:
    held = shared(users=12, items=10)
    model = Told("m", prefers_yes)  # is right for everybody on half of the items, and for nobody on the others
    both = evaluate(held, [model], ["none"], out=tmp_path)
    users = evaluate(held, [model], ["none"], out=tmp_path, resample="users")
    wide, narrow = result(both, "m"), result(users, "m")
    assert (both.resampled, users.resampled) == ("users and items", "users")
    assert both.run == users.run, "what is resampled is no part of what was measured"
    assert narrow.low == narrow.high == wide.accuracy == 0.5, "users are all alike"
    assert wide.low is not None and wide.high is not None
    assert wide.low < 0.3 and wide.high > 0.7, "items are not"


def ranked(questions: int, ask: str = "Question {}?", group: str | None = None) -> Benchmark:
    """Twelve people rank the same four texts of each question, which makes six pairs, and half of them read it in
    capitals. They agree, and prefer the longer text of every other question."""
    card = Card(name="ranked", title="ranked", version="1", licence="none", source="the test")
    people = {f"u{user}": User(id=f"u{user}") for user in range(12)}
    comparisons = tuple(
        Comparison(
            id=f"{user}-{question}-{better}-{worse}",
            user_id=user,
            prompt=ask.format(question) if number % 2 else ask.format(question).upper(),
            responses=(f"{'yes ' * better}{question}", f"{'yes ' * worse}{question}"),
            preferred=question % 2,
            group=group and group.format(question // 2, question, better, worse),
        )
        for number, user in enumerate(people)
        for question in range(questions)
        for better, worse in itertools.combinations((4, 3, 2, 1), 2)
    )
    return Benchmark(card=card, users=people, comparisons=comparisons)


def test_the_pairs_of_a_question_are_right_or_wrong_together(tmp_path: Path) -> None:
    def width(held: Benchmark) -> float:
        found = result(evaluate(held, ["longest"], ["none"], out=tmp_path / str(next(folder))), "longest")
        assert found.accuracy == 0.5 and found.low is not None and found.high is not None
        return found.high - found.low

    folder = itertools.count()
    # Everybody is served alike, so the width is Student's quantile times the error between units.
    for held, units in (
        (ranked(12), 12),  # questions, whoever reads them in capitals
        (ranked(12, ask="Which is better?"), 12 * 6 * 2),  # one instruction: its pairs, as they are written
        (ranked(8), 8 * 6 * 2),  # too few questions
        (ranked(12, group="question {1}, {2} and {3}"), 12),  # a group is a pair, and so lies in one question
        (ranked(12, ask="Which is better?", group="question {1}, {2} and {3}"), 12 * 6),  # no questions: the groups
    ):
        assert width(held) == pytest.approx(2 * student(units), rel=0.02)
    assert width(ranked(24, group="topic {}")) < 0.01, "the groups hold a right and a wrong question each"


def student(units: int) -> float:
    """Student's limit for a share of one half over units that are either all right or all wrong."""
    return float(stats.t.ppf(0.975, units - 1)) * 0.5 / (units - 1) ** 0.5


def test_two_runs_are_compared_over_new_items_too(tmp_path: Path) -> None:
    held = shared(users=12, items=10)
    first, second = (evaluate(held, [rm], ["none"], out=tmp_path / rm).run for rm in ("longest", "random"))
    both = compare(first, second, controls=True)
    users = compare(first, second, resample="users", controls=True)
    assert (both.resampled, users.resampled) == ("users and items", "users")
    [wide], [narrow] = both.differences, users.differences
    assert wide.difference == narrow.difference
    assert wide.high is not None and narrow.high is not None and wide.high > narrow.high


def test_too_few_shared_items_are_warned_of(tmp_path: Path) -> None:
    summary = evaluate(shared(users=12, items=3), [Told("m", prefers_yes)], ["none"], out=tmp_path)
    assert summary.resampled == "users"
    assert any("All users judge the same 3 items" in warning for warning in summary.warnings)


def test_a_gain_that_few_users_carry_is_warned_of(tmp_path: Path) -> None:
    names = [f"{letter}{number}" for letter in "abcdefgh" for number in range(5)]

    def answer(ask: Ask) -> dict[str, object]:
        own = ask.id.split("-")[0]
        helped = own in ask.view.text and own[0] in "ab" and own[1] != "4"  # eight of forty
        return {"scores": [float((text == "good") == helped) for text in ask.responses]}

    summary = run(
        benchmark({name: [0, 0, 0] for name in names}), Told("m", answer), out=tmp_path, views=("none", "posts:1")
    )
    [gain] = summary.gains
    assert gain.difference == 0.2 and gain.q < 0.05
    assert gain.carried_by is not None and 1 < gain.carried_by < 8
    few = [warning for warning in summary.warnings if "few users carry this" in warning]
    assert bool(few) == (gain.carried_by <= 3)


def test_heavy_raters_are_warned_of(tmp_path: Path) -> None:
    labels = {f"{chr(97 + n)}": [0] * (60 if n < 2 else 1) for n in range(25)}
    summary = run(benchmark(labels), Told("m", likes_good), out=tmp_path)
    assert any("A few users hold most of the items: the 25 users count like 3" in one for one in summary.warnings)


def test_two_controls_are_not_compared_with_each_other(tmp_path: Path) -> None:
    """No report prints them, so that they would only cost the others power."""
    summary = evaluate(benchmark(PEOPLE), ["longest", "random", Told("m", likes_good)], ["none"], out=tmp_path)
    assert [(one.rm, one.than) for one in summary.differences] == [("longest", "m"), ("random", "m")]


def test_the_table_over_the_baseline_is_one_family() -> None:
    """Differences for users of whom little and of whom much is known are printed together, and corrected together."""
    random = np.random.default_rng(0)
    items = [
        RatedItem(id=f"{user}-{n}", user_id=f"u{user}", prompt=f"{user} {n}", responses=("a", "b"), preferred=0,
                  known=0 if user < 20 else 20)
        for user in range(40) for n in range(5)
    ]  # fmt: skip
    rated = {
        key: {(item.id, 0): Rating(scores=[float(random.random() < right), 0.5]) for item in items}
        for key, right in {("base", "none"): 0.5, ("m", "none"): 0.6, ("m", "user"): 0.65}.items()
    }
    rated["base", "user"] = rated["base", "none"]
    views = resolve_views(["none", "user"])
    found = over_baseline(Ratings(items, rated), ["base", "m"], views, "base", Resamples(40))
    assert {one.known for one in found} == {"any", "0", "11 to 50"}
    assert [one.q for one in found] == pytest.approx(false_discovery([one.p for one in found]))


def test_what_was_shown_can_be_asked_for_as_columns() -> None:
    items = [
        RatedItem(id=f"q{n}", user_id=f"u{n % 2}", prompt="?", responses=("a", "b"), preferred=0) for n in range(4)
    ]
    posts = ViewLine(view="v", item="q0", user_id="u0", parts=("k1", "k2"), kinds={"post": 2}, withheld=1)
    lines = [
        posts,
        ViewLine(view="v", item="q1", missing="nobody"),
        ViewLine(view="v", item="q1", draw=1, user_id="u0", kinds={"aspect": 2}, parts=("k3",), closeness="topic"),
        ViewLine(view="v", item="q2", user_id="u1", neighbours=("u0", "u9"), dropped=3, by_name=True),
        ViewLine(view="v", item="gone", user_id="u8", parts=("k4",), kinds={"post": 2}, withheld=1),
        ViewLine(view="v", item="q3", user_id="u1", draw=1, parts=("k5",), kinds={"post": 1}),
        ViewLine(view="v", item="q3", user_id="u0", draw=1, parts=("k5",), kinds={"post": 2}),
        ViewLine(view="w", item="q3", user_id="u1"),
    ]
    ratings = Ratings(items, {}, lines)
    for view in ("v", "w", "x"):
        own, shown = [line for line in lines if line.view == view], ratings.shown(view)
        assert len(shown) == len(own)
        for field in ("withheld", "dropped", "by_name"):
            assert shown.column(operator.attrgetter(field)).tolist() == [getattr(line, field) for line in own]
        assert shown.count(lambda line: line.closeness) == Counter(line.closeness for line in own)
        assert shown.items_without() == len({line.item for line in own if not line.kinds})
        assert shown.items_without("post") == len({line.item for line in own if not line.kinds.get("post")})
        assert shown.people == len({line.user_id for line in own})
        assert len(np.unique(shown.items)) == len({line.item for line in own})
    assert ratings.empty("v").tolist() == [False, False, True, False]
    assert ratings.empty("w").tolist() == [False, False, False, True]
