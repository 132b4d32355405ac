"""What somebody meets who has never used palate: help with examples, files of options, runs and servers by name."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from cyclopts import App

from command import palate
from palate.cli._arguments import read_arguments
from palate.cli._examples import EXAMPLES
from palate.cli._main import app
from palate.engine import open_language_model
from palate.engine._open import known_server
from palate.evaluation import compare, evaluate
from palate.leaderboard._side_by_side import compare_runs
from palate.records import PalateError, command_line

EVAL = ("eval", "mini", "--rm", "overlap", "--view", "none", "--limit", "6")


def commands(parent: App = app, before: str = "") -> list[str]:
    found = []
    for name in parent:
        if not name.startswith("-"):
            found += [f"{before}{name}", *commands(parent[name], f"{before}{name} ")]
    return found


class TestHelp:
    def test_every_command_has_two_examples(self) -> None:
        assert set(EXAMPLES) == set(commands())

    @pytest.mark.parametrize("name", sorted(EXAMPLES))
    def test_examples_are_commands_with_options_that_exist(self, name: str) -> None:
        for line in EXAMPLES[name]:
            assert line.startswith(f"palate {name.split()[0]}")
            command, *_ = app.parse_args(shlex.split(line)[1:], exit_on_error=False, print_error=False)
            assert callable(command), line

    @pytest.mark.parametrize("name", ["eval", "audit", "data", "data check", "ppo"])
    def test_help_begins_with_them(self, name: str) -> None:
        done = palate(*name.split(), "--help", COLUMNS="160")
        assert [line.strip() for line in done.stdout.splitlines()[:2]] == list(EXAMPLES[name])

    def test_the_main_command_stands_first(self) -> None:
        said = palate("--help").stdout
        titles = re.findall(r"─ ([A-Z][a-z ]+) ─", said)
        assert titles == ["Measure", "Train", "Downstream", "Data and people", "Privacy", "Serve and share", "Help"]
        assert re.search(r"─ Measure ─+╮\n│ eval ", said)

    def test_common_options_come_before_those_that_few_need(self) -> None:
        said = palate("ppo", "--help").stdout
        places = [said.index(word) for word in ("--rm", "--steps", "--lora", "--retriever", "--epochs", "--gae-lambda")]
        assert places == sorted(places)

    @pytest.mark.parametrize(
        ("words", "advice"),
        [
            (("eval",), "palate eval --help"),
            (("data", "check", "mini", "--nope"), "palate data check --help"),
            (("ppo", "mini", "--steps", "many"), "palate ppo --help"),
        ],
    )
    def test_a_usage_error_points_to_the_help_of_its_command(self, words: tuple[str, ...], advice: str) -> None:
        done = palate(*words)
        assert done.returncode == 2 and f"Try: {advice}" in done.stderr


class TestConfig:
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)

    def test_options_of_a_file_and_the_command_line_wins(self) -> None:
        Path("eval.toml").write_text('benchmark = "mini"\nrm = ["overlap", "longest"]\nlimit = 4\njson = true\n')
        assert read_arguments(["eval", "--config", "eval.toml"]) == [
            *("eval", "mini", "--rm=overlap", "--rm=longest", "--limit=4", "--json")
        ]
        assert read_arguments(["eval", "prefs.csv", "--config=eval.toml", "--limit", "9", "--rm", "first"]) == [
            *("eval", "prefs.csv", "--json", "--limit", "9", "--rm", "first")
        ]

    def test_a_table_is_for_the_command_of_its_name(self) -> None:
        Path("all.toml").write_text('seed = 3\n[bon]\ncritic = "reference"\nsamples = 8\n[eval]\nrm = "overlap"\n')
        assert read_arguments(["bon", "mini", "--config", "all.toml", "-n", "2"]) == [
            *("bon", "mini", "--seed=3", "--critic=reference", "-n", "2")
        ]

    def test_it_measures(self) -> None:
        Path("eval.toml").write_text('benchmark = "mini"\nrm = "overlap"\nview = ["none", "posts:2"]\nlimit = 4\n')
        found = json.loads(palate("eval", "--config", "eval.toml", "--json").stdout)
        assert {(result["rm"], result["view"]) for result in found["results"]} == {
            ("overlap", "none"),
            ("overlap", "posts:2"),
        }

    @pytest.mark.parametrize(
        ("text", "words", "said"),
        [
            (None, ("eval", "--config", "eval.toml"), "cannot read eval.toml"),
            ("limit = ", ("eval", "--config", "eval.toml"), "eval.toml is not a TOML file"),
            ("limt = 3", ("eval", "mini", "--config", "eval.toml"), "eval.toml: Unknown option: --limt"),
            (
                'limit = "ten"',
                ("eval", "mini", "--config", "eval.toml"),
                'eval.toml: Invalid value for --limit: "ten" is',
            ),
            (
                "limit = 3",
                ("eval", "mini", "--config", "eval.toml", "--veiw", "none"),
                "palate: Unknown option: --veiw",
            ),
            ("limit = 1979-05-27", ("eval", "mini", "--config", "eval.toml"), "limit is a text, a number"),
            ("", ("--config", "eval.toml"), "name the command before"),
            ("", ("eval", "mini", "--config"), "needs a file"),
        ],
    )
    def test_a_bad_file_is_refused(self, text: str | None, words: tuple[str, ...], said: str) -> None:
        if text is not None:
            Path("eval.toml").write_text(text)
        done = palate(*words)
        assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


class TestWhatIsMissing:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("eval",), "palate eval: BENCHMARK is missing"),
            (("bon", "mini"), "palate bon: --critic is missing"),
            (("eval", "mini", "--rm"), "palate eval: --rm needs a value"),
            (("eval", "mini", "--limit", "abc"), '--limit: "abc" is not a whole number'),
            (("guide", "mini", "--weight", "abc"), '--weight: "abc" is not a number'),
        ],
    )
    def test_it_is_said_in_words(self, words: tuple[str, ...], said: str) -> None:
        done = palate(*words)
        assert done.returncode == 2 and said in done.stderr and f"palate {words[0]} --help" in done.stderr


class TestHowMuchIsSaid:
    def test_a_traceback_only_where_it_is_asked_for(self) -> None:
        assert "Traceback" not in palate("report", "nowhere").stderr
        done = palate("report", "nowhere", "--traceback")
        assert done.returncode == 2 and "Traceback" in done.stderr and "palate: no such folder" in done.stderr

    def test_quiet_and_verbose_contradict_each_other(self) -> None:
        done = palate("list", "--quiet", "--verbose")
        assert done.returncode == 2 and "contradict" in done.stderr

    def test_quiet_still_prints_the_result(self) -> None:
        done = palate("list", "rm", "--quiet")
        assert "embedding" in done.stdout and not done.stderr


class TestRuns:
    def test_latest_wherever_a_run_is_asked_for(self, tmp_path: Path) -> None:
        assert palate("report", "latest", cwd=tmp_path).returncode == 2
        assert palate(*EVAL, cwd=tmp_path).returncode == 0
        [run] = tmp_path.glob("runs/*")
        for words in (("report", "latest", "--json"), ("report", "runs/latest", "--json")):
            assert json.loads(palate(*words, cwd=tmp_path).stdout)["run"] == f"runs/{run.name}"
        assert palate("audit", "latest", cwd=tmp_path).returncode == 0
        assert "no such folder" in palate("submit", "check", "nowhere", cwd=tmp_path).stderr

    def test_a_run_says_how_to_make_it_again(self, tmp_path: Path) -> None:
        palate(*EVAL, cwd=tmp_path)
        [run] = tmp_path.glob("runs/*")
        line = (run / "command.txt").read_text()
        assert line == "palate eval mini --rm overlap --view none --limit 6\n"
        again = palate(*shlex.split(line)[1:], "--json", cwd=tmp_path)
        assert json.loads(again.stdout)["run"] == f"runs/{run.name}"

    @pytest.mark.usefixtures("own_cache")
    def test_forgetting_removes_a_line_that_names_the_user_and_no_other(self, tmp_path: Path) -> None:
        for folder in ("of-art-01-a", "of-nobody"):
            palate("data", "convert", "mini", folder, cwd=tmp_path)
            palate(
                "eval", f"./{folder}", *EVAL[2:-2], "--out", f"runs-{folder.replace('art-01-a', 'one')}", cwd=tmp_path
            )
        named, other = (next(tmp_path.glob(f"runs-of-{name}/*")) for name in ("one", "nobody"))
        words = ("--data", "of-art-01-a", "--data", "of-nobody", "--run", named, "--run", other)
        done = palate("forget", "art-01-a", *words, cwd=tmp_path)
        assert done.returncode == 0 and "command lines: 1" in done.stdout, done.stderr
        assert not (named / "command.txt").exists() and (other / "command.txt").exists()

    def test_a_key_that_was_typed_is_not_kept(self) -> None:
        assert "sk-1" not in command_line(["eval", "mini", "--rm", "judge:m,key=sk-1,url=http://h/v1"])
        assert "key=MY_KEY,url" in command_line(["eval", "mini", "--rm", "judge:m,key=MY_KEY,url=http://h/v1"])


class TestCompare:
    def test_a_stranger_is_matched_by_what_is_shown_and_by_who_it_is(self, tmp_path: Path) -> None:
        def run(rm: str, *views: str, seed: int = 0) -> str:
            return evaluate("mini", [rm], ["none", *views], seed=seed, out=tmp_path / rm).run

        one = run("overlap", "posts:3", "swapped")
        alike = compare(one, run("longest", "swapped:posts:3"), controls=True)
        assert {row.view for row in alike.differences} == {"none", "swapped:posts:3"}
        assert any("has the view posts:3" in line for line in alike.unmatched)
        apart = compare(one, run("first", "posts:2", "swapped"), controls=True)
        assert {row.view for row in apart.differences} == {"none"}
        strangers = compare(one, run("random", "posts:3", "swapped", seed=5), controls=True)
        assert "swapped:posts:3" not in {row.view for row in strangers.differences}
        assert any("different strangers" in line for line in strangers.unmatched)

    def test_an_unfinished_run_is_said_to_be_one(self, tmp_path: Path) -> None:
        one, other = (evaluate("mini", [rm], ["none"], limit=20, out=tmp_path).run for rm in ("overlap", "longest"))
        ledger = Path(one) / "ratings.jsonl"
        ledger.write_text("".join(ledger.read_text().splitlines(keepends=True)[:7]))
        found = compare(one, other, controls=True)
        assert found.unmatched == [f"13 of 20 ratings of {Path(one).name} are still to be made"]
        done = palate("compare", one, other, "--controls", cwd=tmp_path)
        assert "20 items" in done.stdout and "7 items" in done.stdout and "that both runs hold" in done.stdout

    def test_two_versions_of_the_data_are_said_to_be_two(self, tmp_path: Path) -> None:
        (tmp_path / "comparisons.jsonl").write_text(
            json.dumps({"id": "q", "user_id": "ann", "question": "?", "chosen": "a long one", "rejected": "b"})
        )
        runs = []
        for text in ("I row.", "I sail."):
            (tmp_path / "users.jsonl").write_text(json.dumps({"user_id": "ann", "posts": [{"id": "p", "text": text}]}))
            runs.append(evaluate(tmp_path, ["overlap"], ["posts:1"], out=tmp_path / text).run)
        found = compare(*runs, controls=True)
        assert any("two versions of the data" in line for line in found.unmatched)

    def test_controls_are_not_compared_with_each_other_unless_asked(self, tmp_path: Path) -> None:
        runs = [evaluate("mini", [rm], ["none"], limit=4, out=tmp_path).run for rm in ("first", "longest")]
        with pytest.raises(PalateError, match="--controls"):
            compare(*runs)
        assert compare_runs(runs, controls=True).paired
        again = [evaluate("mini", ["first"], ["none"], seed=seed, out=tmp_path).run for seed in (1, 2)]
        with pytest.raises(PalateError, match="nothing to compare"):  # the same name twice is told apart by its run
            compare(*again)


class TestServers:
    @pytest.mark.parametrize("name", ["gpt-4o-mini", "o3-mini", "claude-sonnet-4-5", "chatgpt-4o-latest"])
    def test_a_model_without_weights_says_how_to_name_its_server(self, name: str) -> None:
        with pytest.raises(PalateError, match=r"write (openai|anthropic)/.*url=https://.*ORG/NAME"):
            open_language_model(name)

    @pytest.mark.parametrize(
        ("name", "variable"), [("openai/gpt-4o-mini", "OPENAI_API_KEY"), ("anthropic/claude-x", "ANTHROPIC_API_KEY")]
    )
    def test_each_has_its_own_key(self, name: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(variable, raising=False)
        with pytest.raises(PalateError, match=variable):
            open_language_model(name)

    def test_servers_of_this_machine_need_none(self, own_cache: Path) -> None:
        assert open_language_model("ollama/llama3.2").name == "llama3.2"
        assert open_language_model("vllm/org/model").name == "org/model"

    def test_what_lies_on_the_hub_or_in_a_folder_is_no_server(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("vllm/mine").mkdir(parents=True)
        assert known_server("vllm/mine") is None and known_server("vllm/other") is not None
        assert known_server("openai/gpt-oss-20b") is None and known_server("org/model") is None
