"""`palate steer`: every way of steering in one table, made of runs that stand on their own."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from palate.downstream import GUIDE, STEER
from palate.downstream._samples import SAMPLES
from palate.downstream.guide._run import GENERATIONS
from palate.evaluation import ITEMS
from palate.report import Chart, document_markdown, document_page, print_document
from palate.runs import open_run, write_report

pytest.importorskip("rouge_score", reason="the critic reference needs .[downstream]")

from palate.cli import main
from palate.data import Pseudonyms, pairs_from_completions, write_benchmark
from palate.downstream import (
    BEST_OF_N,
    Drawing,
    SteerSummary,
    best_of_n,
    steer,
)
from palate.privacy import check_receipt, forget
from palate.records import Benchmark, Card, Completion, PalateError, Post, User
from tiny_models import TinyModels

CARD = Card(name="letters", title="Letters", version="1", licence="none", source="made for the tests")
WORDS = ("tea", "kettle", "garden", "rain", "a slow morning", "the night train", "bread", "an open window")
CRITIC = "reference:rouge1,encoder=none"


def letters(users: int = 4) -> Benchmark:
    """Everybody answers the same three questions in words of their own."""
    people, items = {}, []
    for one in range(users):
        own = [f"I like {WORDS[one]} and {WORDS[(one + place) % 8]} most of all." for place in range(3)]
        posts = tuple(Post(id=f"{one}-{place}", text=text, sequence=place) for place, text in enumerate(own))
        people[f"writer-{one}"] = User(id=f"writer-{one}", posts=posts)
        for place, text in enumerate(own):
            others = tuple(f"You see {WORDS[other]} and {WORDS[place]} quite often." for other in range(4, 8))
            items.append(
                Completion(
                    id=f"{one}-{place}",
                    user_id=f"writer-{one}",
                    prompt=f"What do you like, {place}?",
                    text=text,
                    alternatives=others,
                    sequence=place,
                )
            )
    return Benchmark(card=CARD, users=people, completions=tuple(items))


def measured(policy: Path, out: Path, **changes: object) -> SteerSummary:
    given: dict[str, object] = {
        "views": ["none", "posts:2", "swapped"],
        "in_context": ["posts:1", "swapped:posts:1"],
        "critic": CRITIC,
        "drawing": Drawing(samples=2, tokens=3),
        "weight": 2.0,
        "top_k": 2,
        "limit": 6,
        "out": out,
    }
    return steer(letters(), str(policy), ["overlap", "longest"], **(given | changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, tiny_models: TinyModels) -> SteerSummary:
    folder = tmp_path_factory.mktemp("steer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALATE_CACHE", str(folder / "cache"))
        return measured(tiny_models.causal(), folder / "runs")


def test_there_is_a_row_for_every_method(table: SteerSummary) -> None:
    views = ("none", "posts:2", "swapped")
    assert [row.label for row in table.rows] == [
        "policy alone, sampled",
        "policy alone, greedy",
        "in context posts:1@bm25, sampled",
        "in context posts:1@bm25, greedy",
        "in context swapped:posts:1@bm25, sampled",
        "in context swapped:posts:1@bm25, greedy",
        *(f"best of 2 by {rm}, seeing {view}" for rm in ("overlap", "longest") for view in views),
        "best of 2 by the critic (oracle)",
        *(f"guided by {rm}, seeing {view}" for rm in ("overlap", "longest") for view in views),
    ]
    assert {row.view for row in table.rows if row.control} == {"none", "swapped", "swapped:posts:1"}
    for row in table.rows:
        assert row.n == table.items == 6 and row.rouge1 is not None and row.embedding is None
        assert (row.reward is not None) == (row.kind in ("best-of-n", "guided"))
        assert (row.policy is not None) == (row.kind in ("none", "in-context", "guided"))
    assert table.complete


def test_its_numbers_are_those_of_its_parts(table: SteerSummary) -> None:
    runs, rows = Path(table.run).parent, {row.label: row for row in table.rows}
    best = BEST_OF_N.summarise(open_run(runs / table.parts["best-of-n"]))
    curves = {(curve.chooser, curve.view): curve.points for curve in best.curves}
    for label, chooser, place in (
        ("policy alone, sampled", ("random", None), 0),
        ("policy alone, sampled", ("random", None), -1),
        ("best of 2 by overlap, seeing none", ("overlap", "none"), -1),
        ("best of 2 by overlap, seeing posts:2", ("overlap", "posts:2"), -1),
        ("best of 2 by overlap, seeing swapped", ("overlap", "swapped"), -1),
        ("best of 2 by the critic (oracle)", ("oracle", None), -1),
    ):
        found = rows[label].rouge1
        assert found is not None and found.value == pytest.approx(curves[chooser][place].score)
    guided = GUIDE.summarise(open_run(runs / table.parts["guided"]))
    accuracy = next(one for one in guided.accuracies if (one.rm, one.view) == ("overlap", "posts:2"))
    at = {one.weight: one.normalised.value for one in accuracy.policy_accuracy}
    alone, reward = rows["policy alone, greedy"].policy, accuracy.reward_accuracy
    steered = rows["guided by overlap, seeing posts:2"]
    assert alone is not None and alone.value == pytest.approx(at[0.0])  # the policy's own likelihood
    assert steered.policy is not None and steered.policy.value == pytest.approx(at[2.0])
    assert steered.reward is not None and reward is not None and steered.reward.value == pytest.approx(reward.value)
    texts = {(one.rm, one.view, one.weight): one.score for one in guided.texts}
    score = texts["overlap", "posts:2", 2.0]
    assert score is not None and steered.rouge1 is not None and steered.rouge1.value == pytest.approx(score.value)


def test_differences_are_to_the_policy_alone_with_the_same_decoding(table: SteerSummary) -> None:
    rows = {row.label: row for row in table.rows}
    assert table.differences
    for one in table.differences:
        assert rows[one.one].decoding == rows[one.other].decoding
        assert rows[one.other].kind == ("none" if one.about == "over none" else "in-context")
        first, second = getattr(rows[one.one], one.measure), getattr(rows[one.other], one.measure)
        assert one.difference == pytest.approx(first.value - second.value)
    asked = [(one.one, one.other) for one in table.differences if one.about == "steered or in context"]
    assert set(asked) == {
        *((f"best of 2 by {rm}, seeing posts:2", "in context posts:1@bm25, sampled") for rm in ("overlap", "longest")),
        *((f"guided by {rm}, seeing posts:2", "in context posts:1@bm25, greedy") for rm in ("overlap", "longest")),
    }


def test_personal_gains_are_on_items_with_something_to_show(table: SteerSummary) -> None:
    """A writer's first answer has no earlier post to show."""
    found = {(gain.who, gain.measure, gain.over): gain for gain in table.personal}
    for over in ("none", "swapped"):
        for who, measure in (
            ("overlap", "reward accuracy"),
            ("best of 2 by overlap", "ROUGE-1"),
            ("guided by longest", "policy accuracy"),
            ("guided by longest", "ROUGE-1"),
        ):
            gain = found[who, measure, over]
            assert gain.view == "posts:2" and gain.n + gain.left_out == 6 and gain.left_out > 0
    for decoding, measures in (("sampled", ("ROUGE-1", "policy accuracy")), ("greedy", ("ROUGE-1",))):
        for measure in measures:
            for over in ("none", "swapped:posts:1"):
                assert found[f"in context posts:1@bm25, {decoding}", measure, over].left_out > 0
    assert found["longest", "reward accuracy", "none"].difference == 0  # it never reads a profile
    [shown] = [one for one in table.shown if one.view == "posts:2"]
    assert shown.empty == found["overlap", "reward accuracy", "none"].left_out
    assert any("items have nothing to show" in finding.text for finding in table.findings)
    tests = [one for one in (*table.differences, *table.personal) if one.p < 1]
    assert all(one.q >= one.p for one in tests)


def test_greedy_means_the_same_in_context_and_guided(
    table: SteerSummary, tiny_models: TinyModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In-context texts are sampled at temperature 0, guided ones led token by token: without a guide both agree."""
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    drawing = Drawing(samples=1, temperature=0.0, tokens=3)
    pairs = pairs_from_completions(letters())
    made = best_of_n(
        pairs, str(tiny_models.causal()), ["random"], CRITIC, views=["none"], drawing=drawing, limit=6, out=tmp_path
    )
    sampled = {item: line.texts[0] for (_, item), line in open_run(Path(made.run)).lines(SAMPLES).items()}
    guided = open_run(Path(table.run).parent / table.parts["guided"]).lines(GENERATIONS)
    assert sampled == {key[4]: line.text for key, line in guided.items() if key[3] == 0.0}


def test_the_words_are_honest_where_nothing_is_established(table: SteerSummary) -> None:
    said = " ".join(finding.text for finding in table.findings)
    assert "only 4 independent users" in said or "only 3 independent users" in said
    assert "shown to beat in-context learning" in said or " beats in context" in said


def test_that_users_share_prompts_is_told_of_the_table_and_of_its_guided_part(table: SteerSummary) -> None:
    guided = GUIDE.summarise(open_run(Path(table.run).parent / table.parts["guided"]))
    for summary in (table, guided):
        assert sum("users share prompts" in finding.text for finding in summary.findings) == 1


def test_report_and_a_second_call_give_the_same(
    table: SteerSummary, tiny_models: TinyModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(table.run)
    monkeypatch.setenv("PALATE_CACHE", str(folder.parent.parent / "cache"))
    assert STEER.summarise(open_run(folder)) == table
    before = {file: file.stat().st_mtime_ns for file in folder.parent.rglob("*.jsonl")}
    assert measured(tiny_models.causal(), folder.parent) == table
    assert {file: file.stat().st_mtime_ns for file in folder.parent.rglob("*.jsonl")} == before


def test_stopped_in_any_part_it_goes_on_to_the_same_table(
    table: SteerSummary, tiny_models: TinyModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    for stop in ("3/10", "4/10", "7/10"):

        def report(what: str, done: int, total: int, stop: str = stop) -> None:
            if what.startswith(stop) and done:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            measured(tiny_models.causal(), tmp_path / "runs", progress=report)
    again = measured(tiny_models.causal(), tmp_path / "runs")
    assert msgspec.structs.replace(again, run="") == msgspec.structs.replace(table, run="")
    assert Path(again.run).name == Path(table.run).name


def test_what_a_person_sees(table: SteerSummary) -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    document = STEER.document(open_run(Path(table.run)), table)
    print_document(document, console)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 100
    for words in ("guided by overlap", "ROUGE-L", "policy alone,", "best of 2 by", "What the user's own view brings"):
        assert words in text
    narrow = Console(width=80, record=True, file=io.StringIO())
    print_document(document, narrow)
    lines = [line.rstrip() for line in narrow.export_text().splitlines()]
    gains = lines[next(place for place, line in enumerate(lines) if line.startswith("What the user's own view")) :]
    assert "best of 2 by overlap, seeing posts:2" in gains  # a name is not broken to fit beside its numbers
    assert any(line.split()[:3] == ["reward", "accuracy", "none"] for line in gains)
    page = document_page(document)
    charts = [block for section in document.sections for block in section.blocks if isinstance(block, Chart)]
    shapes = [spot.mark.shape for chart in charts for spot in chart.spots]
    assert sorted(shapes) == ["circle"] * 4 + ["square"] * 2  # two guides in two pictures, two choosers in one
    assert "Differences" in page and "http://" not in page.replace("http://www.w3.org", "")
    markdown = document_markdown(document)
    assert "| guided by overlap, seeing posts:2 |" in markdown and table.parts["guided"] in markdown


def test_forgetting_a_user_reaches_every_part(
    tiny_models: TinyModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    made = measured(tiny_models.causal(), tmp_path / "runs", in_context=["posts:1"])
    write_report(open_run(Path(made.run)), made)
    names = Pseudonyms(b"a key that only this test knows")
    [user, *_] = {item.user_id for item in list(open_run(Path(made.run).parent / made.parts["best-of-n"]).read(ITEMS))}
    receipt = forget(user, names, runs=[Path(made.run)])
    for file in (tmp_path / "runs").rglob("*"):
        assert not file.is_file() or user.encode() not in file.read_bytes(), file
    kinds = [place.kind for place in receipt.places]
    assert kinds.count("run") == 8 and kinds.count("samples") == 3  # seven parts and the table; three sets of samples
    assert check_receipt(receipt, user, names).clean
    summary = msgspec.json.decode((Path(made.run) / "summary.json").read_bytes(), type=SteerSummary)
    assert summary.users == made.users - 1 and summary.items < made.items


def test_the_command(
    tiny_models: TinyModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write_benchmark(letters(), tmp_path / "letters")

    def palate(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main([*words])
        said = capsys.readouterr()
        return int(left.value.code or 0), said.out, said.err

    words = ["steer", "letters", "--policy", str(tiny_models.causal()), "--rm", "overlap", "--critic", CRITIC]
    words += ["--in-context", "posts:1", "-n", "2", "--tokens", "3", "--top-k", "2", "--limit", "4"]
    code, out, err = palate(*words)
    assert code == 0, err
    assert "guided by" in out and "Report: file://" in out
    [folder] = Path("runs").glob("letters-pairs-steer-*")
    assert {file.name for file in folder.iterdir()} == {
        "settings.json",
        "command.txt",
        "report.html",
        "report.md",
        "results.csv",
        "summary.json",
    }
    code, out, _ = palate("report", str(folder), "--json")
    summary = msgspec.json.decode(out, type=SteerSummary)
    assert code == 0 and summary.complete
    assert msgspec.json.decode((folder / "summary.json").read_bytes(), type=SteerSummary) == summary
    (Path("runs") / summary.parts["guided"]).rename("away")
    code, _, err = palate("report", str(folder))
    assert code == 2 and "is not there" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sim,users=2", "--critic", "sim"], "likeness to what the user wrote"),
        (["mini", "--weight", "0"], "0 is the policy alone"),
        (["mini", "--in-context", "none"], "shows the policy nothing"),
        (["mini", "--in-context", "posts:2@recently"], "Did you mean 'recent'?"),
        (["mini", "--in-context", "posts:2", "--in-context", "posts:2"], "is given twice"),
        (["mini", "-n", "0"], "-n is the number of samples"),
    ],
)
def test_bad_input(words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    critic = [] if "--critic" in words else ["--critic", CRITIC]
    with pytest.raises(SystemExit) as left:
        main(["steer", *words, *critic, "--policy", str(tmp_path / "nothing"), "--out", str(tmp_path / "runs")])
    assert left.value.code == 2 and said in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_without_what_others_wrote_there_are_no_pairs(tiny_models: TinyModels, tmp_path: Path) -> None:
    bare = [msgspec.structs.replace(item, alternatives=()) for item in letters().completions]
    benchmark = msgspec.structs.replace(letters(), completions=tuple(bare))
    with pytest.raises(PalateError, match="--rejected-by"):
        steer(benchmark, str(tiny_models.causal()), ["overlap"], critic=CRITIC, out=tmp_path)
