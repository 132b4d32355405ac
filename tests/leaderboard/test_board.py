from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from boards import HOSTILE, Knows, people, run_of

from command import palate
from palate.evaluation import evaluate
from palate.leaderboard import Site, TableSummary, leaderboard
from palate.records import PalateError


def table(site: Site, view: str, by: str = "everybody", value: str = "") -> TableSummary:
    return next(one for one in site.summary.tables if (one.view, one.by, one.value) == (view, by, value))


@pytest.fixture
def copied(runs: Path, tmp_path: Path) -> Path:
    shutil.copytree(runs, tmp_path / "runs")
    return tmp_path / "runs"


class TestTables:
    def test_equals_share_a_rank_and_controls_stand_among_them(self, site: Site) -> None:
        ranks = {row.model: row.rank for row in table(site, "posts:1").rows}
        assert ranks["sharp"] == ranks["sharper"] == 1
        assert ranks["northblind"] == ranks["middling"] == 3
        assert min(ranks["random"] or 0, ranks["longest"] or 0) >= 5
        assert [row.control for row in table(site, "posts:1").rows] == [False] * 5 + [True] * 2

    def test_a_control_of_several_runs_is_one_entry(self, site: Site) -> None:
        assert [row.model for row in table(site, "none").rows].count("random") == 1

    def test_numbers_are_those_of_the_runs(self, site: Site, runs: Path) -> None:
        summary = evaluate(people(), [Knows("northblind", 0.1, north=0.5), "random", "longest"],
                           ["none", "posts:1", "swapped"], out=runs, strangers=1)  # fmt: skip
        result = next(one for one in summary.results if (one.rm, one.view) == ("northblind", "posts:1"))
        row = next(one for one in table(site, "posts:1").rows if one.model == "northblind")
        assert row.accuracy is not None and result.accuracy is not None
        assert row.accuracy.value == pytest.approx(result.accuracy)
        assert (row.n, row.users) == (result.n, result.users)
        gain = next(one for one in summary.gains if (one.rm, one.over) == ("northblind", "none"))
        assert row.over_none is not None and row.over_none.difference == pytest.approx(gain.difference)

    def test_a_strangers_view_is_named_after_what_it_shows(self, site: Site) -> None:
        assert {one.view for one in site.summary.tables} == {"none", "posts:1", "swapped:posts:1"}

    def test_each_domain_and_group_of_ten_has_ranks_of_its_own(self, site: Site) -> None:
        north = {row.model: row.rank for row in table(site, "posts:1", "demographics.region", "north").rows}
        assert north["northblind"] is not None and north["northblind"] > 1
        south = {row.model: row.rank for row in table(site, "posts:1", "demographics.region", "south").rows}
        assert south["northblind"] == 1
        assert {one.value for one in site.summary.tables if one.by == "category"} == {"morning", "evening"}

    def test_whom_a_model_serves_worse_is_said(self, site: Site) -> None:
        worse = {(one.model, one.value) for one in site.summary.served_worse if one.view == "posts:1"}
        assert worse == {("northblind", "north")}

    def test_groups_of_fewer_than_ten_are_never_shown(self, tmp_path: Path) -> None:
        benchmark = people(users=26)  # nine of them live in the north
        run_of(benchmark, [Knows("sharp", 0.1)], tmp_path / "runs")
        site = leaderboard([tmp_path / "runs"], tmp_path / "site")
        assert not [one for one in site.summary.tables if one.by == "demographics.region"]
        assert "north" not in (tmp_path / "site" / "data" / "board.js").read_text()

    def test_who_tried_many_variants_is_shown_and_corrected_for(self, site: Site) -> None:
        row = next(one for one in table(site, "posts:1").rows if one.model == "sharp")
        assert (row.variants, row.parameters, row.licence) == (3, 7_000_000_000, "Apache-2.0")
        assert any("3 of 5 models nobody said" in finding.text for finding in site.summary.findings)

    def test_a_board_on_which_no_model_beats_a_control_says_so(self, tmp_path: Path) -> None:
        run_of(people(), [Knows("guesses", 0.5)], tmp_path / "runs")
        site = leaderboard([tmp_path / "runs"], tmp_path / "site")
        assert any("which understands nothing" in finding.text for finding in site.summary.findings)


class TestRefusals:
    def test_different_versions_of_a_benchmark(self, copied: Path, tmp_path: Path) -> None:
        run_of(people(version="2", prompt="What drink?"), [Knows("new", 0.2)], copied)
        with pytest.raises(PalateError, match="drinks is there in 2 versions"):
            leaderboard([copied], tmp_path / "site")

    def test_other_items_of_the_same_benchmark(self, copied: Path, tmp_path: Path) -> None:
        evaluate(people(), ["shortest"], ["none"], limit=100, out=copied)
        with pytest.raises(PalateError, match="--limit 100, seed 0"):
            leaderboard([copied], tmp_path / "site")

    def test_two_runs_of_one_model_that_disagree(self, copied: Path, tmp_path: Path) -> None:
        run = evaluate(people(), [Knows("sharp", 0.1)], ["posts:1"], seed=1, out=copied).run
        file = Path(run) / "ratings.jsonl"
        lines = file.read_text().splitlines(keepends=True)
        file.write_text(
            "".join([lines[0].replace("[1.0,0.0]", "[0.0,1.1]").replace("[0.0,1.0]", "[1.1,0.0]"), *lines[1:]])
        )
        with pytest.raises(PalateError, match="sharp seeing posts:1 is in two runs"):
            leaderboard([copied], tmp_path / "site")

    def test_a_run_that_is_not_complete(self, copied: Path, tmp_path: Path) -> None:
        file = next(copied.glob("*/ratings.jsonl"))
        file.write_text("".join(file.read_text().splitlines(keepends=True)[:-3]))
        with pytest.raises(PalateError, match="3 ratings are missing"):
            leaderboard([copied], tmp_path / "site")
        assert not (tmp_path / "site" / "index.html").exists()

    def test_a_folder_without_runs(self, tmp_path: Path) -> None:
        with pytest.raises(PalateError, match="holds no run"):
            leaderboard([tmp_path], tmp_path / "site")

    def test_all_faults_of_the_file_about_models_at_once(self, runs: Path, tmp_path: Path) -> None:
        file = tmp_path / "models.toml"
        file.write_text('[[models]]\nnmae = "x"\nvariants = 0\nlink = "javascript:alert(1)"\n')
        with pytest.raises(PalateError) as error:
            leaderboard([runs], tmp_path / "site", about=file)
        for words in ("Did you mean 'name'", "the name is missing", "counts from 1", "must begin with https"):
            assert words in str(error.value)
        file.write_text('[[models]]\nname = "midling"\n')
        with pytest.raises(PalateError, match="Did you mean 'middling'"):
            leaderboard([runs], tmp_path / "site", about=file)


class TestManifest:
    def test_the_same_runs_again_add_nothing(self, runs: Path, tmp_path: Path) -> None:
        first = leaderboard([runs], tmp_path)
        assert [event.action for event in first.events] == ["entry"] * 7
        assert leaderboard([runs], tmp_path).events == []
        assert len((tmp_path / "manifest.jsonl").read_text().splitlines()) == 7

    def test_a_removal_needs_a_reason(self, copied: Path, tmp_path: Path) -> None:
        leaderboard([copied], tmp_path / "site")
        shutil.rmtree(next(file.parent for file in copied.glob("*/settings.json") if "northblind" in file.read_text()))
        with pytest.raises(PalateError, match=r"northblind on drinks: its run .* is not among these runs"):
            leaderboard([copied], tmp_path / "site")
        site = leaderboard([copied], tmp_path / "site", reason="withdrawn by its makers")
        assert [(one.action, one.model, one.reason) for one in site.events] == [
            ("removal", "northblind", "withdrawn by its makers")
        ]

    def test_a_run_that_was_edited_by_hand_is_refused(self, copied: Path, tmp_path: Path) -> None:
        leaderboard([copied], tmp_path / "site")
        file = next(file for file in copied.glob("*/ratings.jsonl") if "northblind" in file.read_text())
        file.write_text(file.read_text().replace("[1.0,0.0]", "[2.0,0.0]", 1))
        with pytest.raises(PalateError, match=r"ratings.jsonl was edited: its first 360 lines|was edited"):
            leaderboard([copied], tmp_path / "site")
        site = leaderboard([copied], tmp_path / "site", reason="one person was erased")
        assert {event.action for event in site.events} == {"rescore"}

    def test_a_run_that_grew_is_told_from_one_that_was_edited(self, tmp_path: Path) -> None:
        from palate.leaderboard._chain import Link, changes, link_of

        file = tmp_path / "ratings.jsonl"
        file.write_text("one\ntwo\n")
        before = {"ratings.jsonl": link_of(file)}
        file.write_text("one\ntwo\nthree\ntorn")
        assert link_of(file) == Link(3, link_of(file, 3).hash)
        assert changes(tmp_path, before, {"ratings.jsonl": link_of(file)}) == ["ratings.jsonl has grown by 1 lines"]
        file.write_text("one\ntwo!\nthree\n")
        assert "was edited" in changes(tmp_path, before, {"ratings.jsonl": link_of(file)})[0]

    def test_a_line_that_was_changed_or_dropped_is_noticed(self, runs: Path, tmp_path: Path) -> None:
        leaderboard([runs], tmp_path)
        file = tmp_path / "manifest.jsonl"
        lines = file.read_text().splitlines(keepends=True)
        for spoilt in ([*lines[:2], *lines[3:]], [lines[0].replace("first entry", "best entry"), *lines[1:]]):
            file.write_text("".join(spoilt))
            with pytest.raises(PalateError, match="was changed or is missing"):
                leaderboard([runs], tmp_path)


class TestFiles:
    def test_hostile_names_are_text_in_every_file(self, site: Site) -> None:
        folder = site.page.parent
        with (folder / "board.csv").open(newline="") as stream:
            names = {row["model"] for row in csv.DictReader(stream)}
        assert HOSTILE.replace("\x1b", "\ufffd") in names  # shown, not obeyed
        assert not [name for name in names if name.startswith("=")]
        for file in folder.rglob("*.js"):
            if file.parent.name == "data":
                assert "<" not in file.read_text(), file
        assert "<img" not in site.page.read_text()

    def test_a_name_that_begins_like_a_formula_is_inert_in_csv(self, tmp_path: Path) -> None:
        run_of(people(users=12), [Knows("=1+1", 0.1)], tmp_path / "runs")
        site = leaderboard([tmp_path / "runs"], tmp_path / "site")
        assert ",'=1+1," in (site.page.parent / "board.csv").read_text()

    def test_results_for_model_cards_are_yaml_of_quoted_texts(self, site: Site) -> None:
        import yaml

        files = sorted((site.page.parent / "model-index").iterdir())
        assert len(files) == 5  # controls have no card
        indices = [yaml.safe_load(file.read_text())["model-index"][0] for file in files]
        assert HOSTILE in {index["name"] for index in indices}
        metric = indices[0]["results"][0]["metrics"][0]
        assert metric["type"] == "accuracy" and 0 <= metric["value"] <= 1

    def test_without_users_there_is_nothing_of_anybody(self, runs: Path, tmp_path: Path) -> None:
        leaderboard([runs], tmp_path / "site", users=False)
        text = "".join(file.read_text() for file in (tmp_path / "site").rglob("*") if file.is_file())
        assert "I always want" not in text and "person-0" not in text and "Which drink" not in text
        assert not list((tmp_path / "site" / "data").glob("said-*"))

    def test_nothing_names_a_person_or_an_item_of_theirs(self, site: Site) -> None:
        assert not [file for file in site.page.parent.rglob("*") if file.is_file() and "person-0" in file.read_text()]

    def test_what_an_earlier_build_left_is_gone(self, runs: Path, tmp_path: Path) -> None:
        leaderboard([runs], tmp_path)
        (tmp_path / "data" / "said-old.js").write_text("palate.got()")
        leaderboard([runs], tmp_path)
        assert not (tmp_path / "data" / "said-old.js").exists()
        assert not list(tmp_path.glob(".data*"))


class TestCommand:
    def test_it_prints_the_table_and_where_the_board_is(self, runs: Path, tmp_path: Path) -> None:
        done = palate("leaderboard", runs, "--output", tmp_path / "site")
        assert done.returncode == 0, done.stderr
        assert "drinks, seeing posts:1" in done.stdout and "Manifest: 7 lines added" in done.stdout
        assert "\x1b" not in done.stdout
        assert (tmp_path / "site" / "index.html").is_file()

    def test_json(self, runs: Path, tmp_path: Path) -> None:
        done = palate("leaderboard", runs, "--output", tmp_path, "--json")
        assert json.loads(done.stdout)["tables"][0]["view"] == "posts:1"
        assert json.loads(done.stdout) == json.loads((tmp_path / "board.json").read_text())

    def test_a_fault_is_one_message(self, tmp_path: Path) -> None:
        done = palate("leaderboard", tmp_path / "nowhere", "--output", tmp_path)
        assert done.returncode == 2 and done.stderr.startswith("palate: ")
