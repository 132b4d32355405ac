"""Samples are drawn once, by real models, and shared by every run that asks for the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from number_game import numbers

from faulty_server import counts, faulty_server
from palate import load_benchmark
from palate.downstream import Drawing, best_of_n
from palate.downstream._items import ITEMS
from palate.downstream._policy import item_seed
from palate.downstream._samples import SAMPLES
from palate.records import Comparison, Completion, Draft, Grade, PalateError
from palate.runs import open_run, write_report
from tiny_models import CONTEXT, TinyModels

FEW = Drawing(samples=4, tokens=8, temperature=1.0, top_p=1.0)


class Vowels:
    """A critic that likes vowels."""

    name = "vowels"
    fingerprint = "1"

    def require(self, items: Sequence[Comparison | Completion]) -> None:
        return None

    def judge(self, drafts: Sequence[Draft]) -> list[Grade]:
        return [Grade(sum(letter in "aeiou" for letter in draft.text) / max(1, len(draft.text))) for draft in drafts]


@pytest.mark.usefixtures("own_cache")
def test_tiny_models_write_and_rate(tiny_models: TinyModels, tmp_path: Path) -> None:
    policy, classifier = tiny_models.causal(), tiny_models.classifier()
    summary = best_of_n(
        "mini",
        str(policy),
        [f"classifier:{classifier}", f"likelihood:{policy}", "shortest"],
        Vowels(),
        views=["none", "values"],
        policy_views=["none", "values"],
        drawing=FEW,
        limit=6,
        out=tmp_path,
    )
    assert summary.complete
    assert [one.samples for one in summary.policies] == [24, 24]
    assert summary.policies[1].unseen == 0
    models = [one for one in summary.curves if one.kind == "model"]
    assert len(models) == 12
    assert all(one.n == 6 for one in models)
    samples = open_run(Path(summary.run)).lines(SAMPLES)
    assert samples["none", samples_id(samples)].texts != samples["values", samples_id(samples)].texts


def samples_id(samples: dict) -> str:
    return next(iter(samples))[1]


@pytest.mark.usefixtures("own_cache")
def test_twins_choose_from_the_same_texts_where_the_policy_sees_nothing_of_them(
    tiny_models: TinyModels, tmp_path: Path
) -> None:
    summary = best_of_n(
        "mini", str(tiny_models.causal()), ["shortest"], Vowels(), views=["none"], drawing=FEW, limit=4, out=tmp_path
    )
    run = open_run(Path(summary.run))
    samples = run.lines(SAMPLES)
    for item in run.read(ITEMS):
        assert item.twin is not None
        assert samples["none", item.id].texts == samples["none", item.twin].texts


@pytest.mark.usefixtures("own_cache")
def test_a_sample_hangs_on_its_item_alone(tiny_models: TinyModels, tmp_path: Path) -> None:
    policy = str(tiny_models.causal())
    many, few = (
        best_of_n("mini", policy, ["shortest"], Vowels(), views=["none"], drawing=FEW, limit=limit, out=tmp_path / name)
        for limit, name in ((12, "many"), (4, "few"))
    )
    whole, part = (open_run(Path(one.run)).lines(SAMPLES) for one in (many, few))
    assert part
    assert all(whole[key] == line for key, line in part.items())


def test_seeds_are_small_and_told_apart() -> None:
    items = load_benchmark("mini").comparisons
    seeds = {item_seed(item, 0) for item in items}
    assert len(seeds) == len(items) / 2
    assert all(0 <= seed < 2**30 for seed in seeds)
    assert item_seed(items[0], 0) != item_seed(items[0], 1)


def test_a_server_is_asked_once_for_two_reward_models_and_two_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with faulty_server() as address:
        policy = f"m,url={address}/plain/v1"
        for turn, models in enumerate((["shortest", "overlap"], ["longest"])):
            monkeypatch.setenv("PALATE_CACHE", str(tmp_path / f"cache-{turn}"))  # answers cannot come from there
            summary = best_of_n(
                "mini", policy, models, Vowels(), views=["values"], drawing=FEW, limit=6, out=tmp_path / "runs"
            )
            assert summary.complete
            asked = sum(counts(address)["tries"].values())
            assert asked == 3, "three questions of three couples"
    assert len(list((tmp_path / "runs" / "samples").iterdir())) == 1


@pytest.mark.usefixtures("own_cache")
def test_what_a_server_refuses_is_left_out_and_tried_again_by_the_next_run(tmp_path: Path) -> None:
    benchmark = numbers(4)
    refused = msgspec.structs.replace(benchmark.comparisons[2], prompt="Something forbidden.")
    items = (*benchmark.comparisons[:2], refused, benchmark.comparisons[3])
    benchmark = msgspec.structs.replace(benchmark, comparisons=items)
    with faulty_server() as address:
        for models in (["shortest"], ["longest"]):
            policy = f"m,url={address}/plain/v1"
            summary = best_of_n(benchmark, policy, models, Vowels(), views=["none"], drawing=FEW, out=tmp_path)
            [samples] = summary.policies
            assert (samples.sampled, samples.failed) == (3, 1)
            assert "not allowed here" in next(iter(samples.reasons))
            assert summary.findings[0].text.startswith("Seeing none, the policy wrote nothing for 1 item")
            assert summary.complete
        tries = counts(address)["tries"]
    assert tries["Something forbidden."] == 2
    assert tries["Write a number, 0 and 0."] == 1


@pytest.mark.usefixtures("own_cache")
def test_a_view_that_does_not_fit_gives_way(tiny_models: TinyModels, tmp_path: Path) -> None:
    summary = best_of_n(
        "mini",
        str(tiny_models.causal()),
        ["shortest"],
        Vowels(),
        views=["none"],
        policy_views=["posts"],
        drawing=Drawing(samples=2, tokens=300),
        limit=2,
        out=tmp_path,
    )
    [samples] = summary.policies
    assert samples.sampled == 2
    assert samples.shortened == 2
    assert any("did not fit" in finding.text for finding in summary.findings)


def test_a_policy_without_a_chat_template_is_refused(tiny_models: TinyModels, tmp_path: Path) -> None:
    with pytest.raises(PalateError, match="has no chat template"):
        best_of_n("mini", str(tiny_models.causal(template="none")), ["shortest"], Vowels(), out=tmp_path)


def test_an_answer_needs_room_for_its_prompt(tiny_models: TinyModels, tmp_path: Path) -> None:
    with pytest.raises(PalateError, match=f"has a context of {CONTEXT} tokens"):
        best_of_n(
            "mini", str(tiny_models.causal()), ["shortest"], Vowels(), drawing=Drawing(tokens=CONTEXT), out=tmp_path
        )


@pytest.mark.usefixtures("own_cache")
def test_where_no_prompt_fits_the_run_says_so_and_shows_no_number(tiny_models: TinyModels, tmp_path: Path) -> None:
    drawing = Drawing(samples=2, tokens=CONTEXT - 2)
    policy = str(tiny_models.causal())
    summary = best_of_n("mini", policy, ["shortest"], Vowels(), views=["none"], drawing=drawing, limit=2, out=tmp_path)
    [samples] = summary.policies
    assert (samples.sampled, samples.failed) == (0, 2)
    assert "the model's context has 512" in summary.findings[0].text
    assert all(point.score is None for one in summary.curves for point in one.points)
    assert not summary.differences
    run = open_run(Path(summary.run))
    write_report(run, summary)
    assert (run.folder / "report.html").exists()
