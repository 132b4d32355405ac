"""Best-of-N from the first sample to the last sentence, where the truth is known."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from number_game import CARD, Noisy, Normal, Silent, Worth, numbers
from scipy import stats

from palate.downstream import BEST_OF_N, BestOfNSummary, Drawing, best_of_n
from palate.downstream._samples import SAMPLES
from palate.downstream.best_of_n import _results
from palate.downstream.best_of_n._results import Curve
from palate.records import Benchmark, Completion, PalateError, User
from palate.runs import open_run, write_report


def curve(summary: BestOfNSummary, chooser: str, policy_view: str = "none", kind: str = "model") -> Curve:
    [found] = [
        one for one in summary.curves if (one.chooser, one.policy_view, one.kind) == (chooser, policy_view, kind)
    ]
    return found


def expected_maximum(k: int) -> float:
    grid = np.linspace(-8, 8, 20_001)
    density = k * stats.norm.pdf(grid) * stats.norm.cdf(grid) ** (k - 1)
    return float(np.trapezoid(grid * density, grid))


def test_a_reward_that_knows_the_truth_gains_what_theory_says(tmp_path: Path) -> None:
    """Of k standard normal samples the largest is expected at 1.77 for k = 16; noise of one halves what is told."""
    models = [Noisy(name="truth"), Noisy(1.0, name="half")]
    summary = best_of_n(numbers(240), Normal(), models, Worth(), views=["none"], out=tmp_path)
    assert summary.complete
    assert [point.k for point in summary.curves[0].points] == [1, 2, 4, 8, 16]
    for name, share in (("truth", 1.0), ("half", np.sqrt(0.5))):
        for point in curve(summary, name).points:
            assert point.low is not None
            assert point.high is not None
            assert point.low <= share * expected_maximum(point.k) <= point.high
            if point.k > 1:
                assert point.oracle_share is not None
                assert point.oracle_share.value == pytest.approx(share, abs=0.06)
    random, oracle = (curve(summary, kind, kind=kind).points for kind in ("random", "oracle"))
    assert len({point.score for point in random}) == 1
    assert [point.score for point in oracle] == [point.score for point in curve(summary, "truth").points]
    over = [one for one in summary.differences if one.about == "over random"]
    assert [one.difference for one in over] == sorted((one.difference for one in over), reverse=True)
    assert all(one.q < 0.001 for one in over)
    [between] = [one for one in summary.differences if one.about == "between models"]
    assert between.low is not None
    assert between.low > 0
    assert between.q < 0.001
    assert curve(summary, "truth").points[-1].reward == pytest.approx(1.77, abs=0.1)


def test_everybody_starts_from_the_same_mean(tmp_path: Path) -> None:
    summary = best_of_n(numbers(20), Normal(), [Noisy(2.0)], Worth(), views=["none"], out=tmp_path)
    assert len({round(one.points[0].score or 0, 9) for one in summary.curves}) == 1
    assert all(abs(one.points[0].reward or 0) < 1e-9 for one in summary.curves)


def test_samples_are_drawn_once_and_rated_in_one_ask(tmp_path: Path) -> None:
    policy, critic, first, second = Normal(), Worth(), Noisy(name="first"), Noisy(0.5, name="second")
    best_of_n(numbers(6), policy, [first, second], critic, views=["none"], drawing=Drawing(samples=4), out=tmp_path)
    assert len(policy.asked) == 6
    assert len(critic.judged) == 24
    for model in (first, second):
        assert [len(ask.responses) for ask in model.asked] == [4] * 6
    other = Noisy(0.1, name="another")
    best_of_n(numbers(6), policy, [other], critic, views=["none"], drawing=Drawing(samples=4), out=tmp_path)
    assert len(policy.asked) == 6, "another run asks for the same samples, and they are there"
    assert [ask.responses for ask in other.asked] == [ask.responses for ask in first.asked]


def test_dropping_an_item_changes_no_other(tmp_path: Path) -> None:
    whole = best_of_n(numbers(8), Normal(), [Noisy()], Worth(), views=["none"], out=tmp_path / "all")
    some = best_of_n(numbers(8), Normal(), [Noisy()], Worth(), views=["none"], limit=3, out=tmp_path / "some")
    all_samples, some_samples = (open_run(Path(one.run)).lines(SAMPLES) for one in (whole, some))
    assert len(some_samples) == 3
    assert all(all_samples[key] == line for key, line in some_samples.items())
    assert len({line.texts for line in all_samples.values()}) == 8


def test_examples_shown_to_the_policy_are_a_sample_set_of_their_own(tmp_path: Path) -> None:
    policy = Normal(taught=2.5)
    summary = best_of_n(
        numbers(80),
        policy,
        [Noisy(name="truth")],
        Worth(),
        policy_views=["none", "judgements:1"],
        views=["none"],
        drawing=Drawing(samples=4),
        out=tmp_path,
    )
    assert len(policy.asked) == 160
    assert len(list((tmp_path / "samples").iterdir())) == 2
    shown = [request for request in policy.asked if len(request.turns) == 2]
    assert len(shown) == 80
    assert "They preferred: 4" in shown[0].turns[0].content
    plain, taught = (curve(summary, "truth", view).points for view in ("none", "judgements:1"))
    assert taught[0].score == pytest.approx(2.5, abs=0.2)
    assert taught[-1].score == pytest.approx(2.5 + expected_maximum(4), abs=0.3)
    [alone] = [one for one in summary.differences if one.about == "in context"]
    assert alone.difference == pytest.approx(2.5, abs=0.2)
    [rival] = [one for one in summary.differences if one.about == "in context or best-of-n"]
    assert rival.difference == pytest.approx((taught[0].score or 0) - (plain[-1].score or 0))
    assert any(
        finding.severity == "good" and finding.text.startswith("in-context learning alone")
        for finding in summary.findings
    )


def test_over_optimisation_is_said_in_words(tmp_path: Path) -> None:
    """The reward likes large numbers; the critic likes them up to a point."""
    bent = best_of_n(numbers(120), Normal(), [Noisy(name="greedy")], Worth(curve=0.45), views=["none"], out=tmp_path)
    points = curve(bent, "greedy").points
    assert [point.reward for point in points] == sorted(point.reward or 0 for point in points)
    assert (points[-1].score or 0) < max(point.score or 0 for point in points)
    said = [finding.text for finding in bent.findings if finding.text.startswith("over-optimised")]
    assert len(said) == 1
    assert "greedy" in said[0]
    straight = best_of_n(numbers(120), Normal(), [Noisy(name="greedy")], Worth(), views=["none"], out=tmp_path)
    assert not [finding for finding in straight.findings if "over-optimised" in finding.text]


def test_what_is_unscored_is_left_out_for_that_model_and_counted(tmp_path: Path) -> None:
    models = [Noisy(name="sure"), Noisy(name="unsure", unscored="item-3-0")]
    summary = best_of_n(numbers(10), Normal(), models, Worth(unscored="item-5-0"), views=["none"], out=tmp_path)
    assert (curve(summary, "sure").n, curve(summary, "sure").left_out) == (9, 1)
    assert (curve(summary, "unsure").n, curve(summary, "unsure").left_out) == (8, 2)
    assert curve(summary, "unsure").reasons == {"no idea": 1, "no opinion": 1}
    [between] = [one for one in summary.differences if one.about == "between models"]
    assert between.n == 8
    assert sum("left out" in finding.text for finding in summary.findings) == 3


def test_a_policy_that_stops_at_once_is_reported_and_kept(tmp_path: Path) -> None:
    summary = best_of_n(numbers(5), Silent(), [Noisy()], Worth(), views=["none"], out=tmp_path)
    [samples] = summary.policies
    assert (samples.samples, samples.empty, samples.sampled) == (80, 80, 5)
    assert summary.findings[0].severity == "warning"
    assert "stopped at once every time" in summary.findings[0].text
    assert curve(summary, "noisy").n == 5


def test_completions_have_prompts_too(tmp_path: Path) -> None:
    people = {name: User(id=name) for name in ("a", "b")}
    texts = tuple(Completion(id=name, user_id=name, prompt=f"Write, {name}.", text="1") for name in people)
    benchmark = Benchmark(card=CARD, users=people, completions=texts)
    summary = best_of_n(benchmark, Normal(), [Noisy()], Worth(), views=["none"], out=tmp_path)
    assert (summary.items, summary.users) == (2, 2)


def reported(summary: BestOfNSummary) -> tuple[str, str]:
    """The page and the Markdown of a run."""
    run = open_run(Path(summary.run))
    write_report(run, summary)
    return (run.folder / "report.html").read_text(), (run.folder / "report.md").read_text()


def test_every_figure_comes_from_the_folder(tmp_path: Path) -> None:
    summary = best_of_n(numbers(12), Normal(), [Noisy(1.0)], Worth(), views=["none", "judgements"], out=tmp_path)
    again = BEST_OF_N.summarise(open_run(Path(summary.run)))
    assert again == summary
    assert msgspec.json.decode(msgspec.json.encode(summary), type=BestOfNSummary) == summary
    page, text = reported(summary)
    assert page.count('<svg role="img" viewBox="0 0 480 300"') == 2
    assert "http" not in page.replace("http-equiv", "")
    assert "| noisy | judgements |" in text
    assert "k = 16" in text


def test_hostile_names_do_no_harm(tmp_path: Path) -> None:
    model = Noisy(name="<script>alert(1)</script> | **bold**")
    summary = best_of_n(numbers(4), Normal(), [model], Worth(), views=["none"], out=tmp_path)
    page, text = reported(summary)
    assert "<script>alert" not in page
    assert "<script>" not in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"drawing": Drawing(samples=0)}, "-n is the number of samples"),
        ({"drawing": Drawing(temperature=-0.1)}, "--temperature is 0 or more"),
        ({"drawing": Drawing(temperature=float("nan"))}, "--temperature is 0 or more"),
        ({"drawing": Drawing(top_p=0.0)}, "--top-p is more than 0"),
        ({"drawing": Drawing(top_p=1.5)}, "--top-p is more than 0"),
        ({"drawing": Drawing(tokens=0)}, "--tokens is the maximum number of tokens"),
        ({"drawing": Drawing(samples=4), "steps": [8]}, "--k 8 is more than the 4 samples"),
        ({"steps": [0]}, "--k is a number of samples"),
        ({"limit": 0}, "the limit is a number of items"),
        ({"policy_views": ["posts:5"]}, "shows posts, and no user of numbers has any"),
        ({"policy_views": ["twin:judgements"]}, "needs twins"),
        ({"policy_views": ["sunshine"]}, "unknown view"),
        ({"critic": "nobody"}, "unknown critic"),
    ],
)
def test_bad_input_is_refused_before_anything_is_drawn(changes: dict, message: str, tmp_path: Path) -> None:
    policy = Normal()
    options = {"critic": Worth(), "views": ["none"], "out": tmp_path} | changes
    with pytest.raises(PalateError, match=message):
        best_of_n(numbers(3), policy, [Noisy()], **options)
    assert not policy.asked
    assert not list(tmp_path.iterdir())


def test_an_empty_benchmark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PalateError, match="neither comparisons nor completions"):
        best_of_n(Benchmark(card=CARD, users={}), Normal(), [Noisy()], Worth(), out=tmp_path)


def test_a_critic_that_cannot_judge_these_items_says_so_first(tmp_path: Path) -> None:
    class Picky(Worth):
        def require(self, items: object) -> None:
            raise PalateError("these items have no rubric")

    policy = Normal()
    with pytest.raises(PalateError, match="no rubric"):
        best_of_n(numbers(3), policy, [Noisy()], Picky(), out=tmp_path)
    assert not policy.asked


def test_a_critic_that_breaks_is_named(tmp_path: Path) -> None:
    class Broken(Worth):
        def judge(self, drafts: object) -> list:
            raise RuntimeError("out of patience")

    with pytest.raises(PalateError, match="the critic 'worth' failed: RuntimeError: out of patience"):
        best_of_n(numbers(3), Normal(), [Noisy()], Broken(), views=["none"], out=tmp_path)


def test_every_key_of_the_json_stands_on_its_page() -> None:
    page = (Path(__file__).parents[2] / "docs/best-of-n.md").read_text(encoding="utf-8")
    structs = [one for one in vars(_results).values() if hasattr(one, "__struct_fields__")]
    keys = {key for struct in structs for key in struct.__struct_fields__} - {"value"}
    assert len(keys) > 40
    assert not {key for key in keys if f"`{key}`" not in page}
