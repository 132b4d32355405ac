"""A person goes from every kind of run, a plug-in's too, by what the ledgers say of whose their lines are."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from people import LOVES, NAMES, people

from palate.cli import main
from palate.data import Pseudonyms, write_benchmark
from palate.privacy import export_user, forget
from palate.records import Benchmark
from palate.runs import EXPERIMENTS, Ledger, RunSummary, open_run, write_report

KEY = Pseudonyms(b"a key that only this test knows")
PAGE = Path(__file__).parents[2] / "docs/experiments.md"
KINDS = ("rated", "best", "guided", "table", "trained")
REPORTS = ("report.html", "report.md", "results.csv", "summary.json")


@pytest.fixture
def runs(every_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    shutil.copytree(every_run, tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture
def order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The experiment of the documentation, which has no word on erasing, exporting or hiding."""
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    [source] = re.findall(r'^```python title="order.py"\n(.*?)^```$', PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "order.py").write_text(source)
    spec = importlib.util.spec_from_file_location("order", tmp_path / "order.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(EXPERIMENTS, "_entries", dict(EXPERIMENTS._entries))
    EXPERIMENTS.register("order")(module.ORDER)
    yield module


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def is_held(user: str, content: bytes) -> bool:
    """Whether a file names the user or one of their items, or holds a text of theirs."""
    ids = [user, *(item.id for item in people().comparisons if item.user_id == user)]
    own = set(ids) - {item.id for item in people().comparisons if item.user_id != user} - (set(NAMES) - {user})
    names = [name.encode() for id in own for name in (f'"{id}"', f">{id}<")]
    return LOVES[NAMES.index(user)].encode() in content or any(name in content for name in names)


def ordered(order: ModuleType, folder: Path, benchmark: Benchmark) -> Path:
    summary = order.measure(benchmark, ["longest", "first"], out=folder)
    write_report(open_run(Path(summary.run)), summary)
    return Path(summary.run)


@pytest.mark.parametrize("user", ["bo", "cy-1"])
def test_a_person_is_gone_from_every_file_of_every_kind_of_run(runs: Path, tmp_path: Path, user: str) -> None:
    write_benchmark(people(), tmp_path / "data")
    shutil.rmtree(runs / "trained" / "policy")  # its words are no texts of anybody
    holding = {name for name, content in contents(runs).items() if is_held(user, content)}
    assert {f"{kind}/report.html" for kind in KINDS} <= holding
    receipt = forget(user, KEY, data=[tmp_path / "data"], runs=[runs / name for name in KINDS])
    assert not [name for name, content in contents(tmp_path).items() if is_held(user, content)]
    assert {Path(place.path).name for place in receipt.places} >= set(KINDS)
    for name in KINDS:
        assert (runs / name / "report.html").is_file()
        assert open_run(runs / name).experiment.kind in EXPERIMENTS


def test_what_somebody_else_s_profile_shows_of_a_person_goes_from_the_entries_too(runs: Path, tmp_path: Path) -> None:
    """A stranger was shown whose profile quotes the person: what was made with it goes, the line stays."""
    write_benchmark(people(), tmp_path / "data")
    folder = runs / "trained"
    views = [json.loads(line) for line in (folder / "views.jsonl").open()]
    view = next(view for view in views if view["view"].startswith("swapped") and not view["item"].startswith("bo"))
    post = people().users["bo"].posts[0].text
    with (folder / "parts.jsonl").open("a") as stream:
        stream.write(json.dumps({"key": "quote", "text": f"As bo said: {post}"}) + "\n")
    view["parts"], stranger = ["quote"], view["user_id"]
    assert stranger != "bo"
    (folder / "views.jsonl").write_text("".join(json.dumps(view) + "\n" for view in views))

    def shown_to_it() -> list[object]:
        [line] = [line for line in map(json.loads, (folder / "held_out.jsonl").open()) if line["item"] == view["item"]]
        entries = [*line.get("ratings", []), *line.get("written", [])]
        return [one for one in entries if (one["view"], one.get("draw", 0)) == (view["view"], view.get("draw", 0))]

    assert shown_to_it()
    forget("bo", KEY, data=[tmp_path / "data"], runs=[folder])
    assert not shown_to_it()
    assert b"quote" not in (folder / "parts.jsonl").read_bytes()


@pytest.mark.parametrize("name", KINDS)
def test_no_report_without_users_tells_of_anybody(runs: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["report", str(runs / name), "--without-users", "--json"])
    shown = {"--json": capsys.readouterr().out.encode()}
    shown |= {file: (runs / name / file).read_bytes() for file in REPORTS}
    with pytest.raises(SystemExit, match="0"):
        main(["report", str(runs / name), "--without-users"])
    shown["terminal"] = capsys.readouterr().out.encode()
    prompts = [item.prompt.encode() for item in people().comparisons]
    for where, content in shown.items():
        assert not [user for user in NAMES if is_held(user, content)], where
        assert not [prompt for prompt in prompts if prompt in content], where


def test_a_plug_in_is_erased_exported_and_hidden_without_code_of_its_own(order: ModuleType, tmp_path: Path) -> None:
    run = ordered(order, tmp_path / "runs", people())
    assert all(is_held(user, (run / "report.html").read_bytes()) for user in NAMES)

    [made] = export_user(people(), "bo", [run]).runs
    assert made.kind == "order" and {key: len(rows) for key, rows in made.lines.items()} == {"items": 3, "ratings": 12}
    assert not any(is_held(user, msgspec.json.encode(made.lines)) for user in NAMES if user != "bo")

    before = contents(run)
    receipt = forget("bo", KEY, runs=[run])
    [place] = [place for place in receipt.places if place.path == str(run)]
    assert place.erased == {"items": 3, "ratings": 12}
    after = contents(run)
    assert not [name for name, content in after.items() if is_held("bo", content)]
    for name, field in {"items.jsonl": "id", "ratings.jsonl": "item"}.items():
        own = {"bo-1", "bo-2", "bo-3"}
        kept = [line for line in before[name].splitlines() if json.loads(line)[field] not in own]
        assert after[name].splitlines() == kept
    assert json.loads(after["summary.json"])["users"] == len(NAMES) - 1

    with pytest.raises(SystemExit, match="0"):
        main(["report", str(run), "--without-users"])
    hidden = [(run / name).read_bytes() for name in REPORTS]
    assert not [user for user in NAMES if any(is_held(user, content) for content in hidden)]


def test_lists_about_users_are_hidden_wherever_they_stand_in_a_plug_in_s_summary(
    order: ModuleType, tmp_path: Path
) -> None:
    class Mine(msgspec.Struct, frozen=True):
        user_id: str
        accuracy: float

    class Group(msgspec.Struct, frozen=True):
        name: str
        members: tuple[Mine, ...]

    class Told(RunSummary, frozen=True, kw_only=True):
        groups: list[Group]
        worst: Mine | None
        by_name: dict[str, Mine]

    bo = Mine("bo", 0.5)
    common = msgspec.structs.asdict(order.measure(people(), ["first"], out=tmp_path / "runs"))
    common = {name: common[name] for name in RunSummary.__struct_fields__}
    told = Told(**common, groups=[Group("all", (bo,))], worst=bo, by_name={"bo": bo})
    hidden = order.ORDER.without_users(told)
    assert hidden.groups == [Group("all", ())] and hidden.worst is None and hidden.by_name == {}
    assert hidden.findings == told.findings and hidden.users == len(NAMES)


def test_a_ledger_that_cannot_tell_whose_its_lines_are_is_refused_unless_they_are_nobody_s() -> None:
    class Step(msgspec.Struct, frozen=True):
        step: int

    for about, field in {"item": "item", "items": "id", "views": "item", "parts": "key"}.items():
        with pytest.raises(TypeError, match=rf"Step has no field '{field}', so nobody can tell whose the lines"):
            Ledger("steps.jsonl", Step, lambda line: line.step, about=about)  # type: ignore[arg-type]
    assert Ledger("steps.jsonl", Step, lambda line: line.step, about="nobody").about == "nobody"
