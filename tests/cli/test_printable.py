"""Text of others reaches the terminal, files and errors as text: it moves no cursor, colours and reorders nothing."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from palate.cli import main
from palate.evaluation import evaluate
from palate.records import escaped_json, printable
from palate.report import make_console

EVIL = "x\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\u2066\r"
HARM = set("\x1b\x07\x9b\u202e\u2066\r\x00\x7f")


def harm(text: str) -> set[str]:
    return HARM & set(text)


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    users = [
        {"user_id": f"u{EVIL}{number}", "posts": [{"id": f"p{number}", "text": f"I like {EVIL} tea."}]}
        for number in range(3)
    ]
    lines = [
        {
            "id": f"=1+1{EVIL}{number}",
            "user_id": user["user_id"],
            "prompt": f"Tea? {EVIL}",
            "chosen": f"Yes, {EVIL} {number}.",
            "rejected": "No.",
        }
        for number, user in enumerate(users)
    ]
    (folder / "users.jsonl").write_text("".join(json.dumps(line) + "\n" for line in users))
    (folder / "comparisons.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def said(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit):
        main([*arguments])
    found = capfd.readouterr()
    return found.out + found.err


def test_data_show_check_and_errors(benchmark: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ("data", "show", str(benchmark)),
        ("data", "check", str(benchmark)),
        ("data", "check", str(benchmark), "--json"),
        ("data", "show", f"no{EVIL}such"),
        ("eval", f"no{EVIL}such"),
        ("eval", "mini", "--rm", f"no{EVIL}such"),
        ("eval", "mini", f"--no{EVIL}such"),
        ("report", str(tmp_path / f"no{EVIL}such")),
        ("forget", f"u{EVIL}", "--data", str(tmp_path / f"no{EVIL}")),
        ("data", "export-user", str(benchmark), f"u{EVIL}9", "--output", str(tmp_path / "u.json")),
    ):
        shown = said(capfd, *arguments)
        assert shown and not harm(shown), arguments


def test_a_faulty_file_is_quoted_without_harm(benchmark: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with (benchmark / "comparisons.jsonl").open("a") as stream:
        stream.write(json.dumps({"id": EVIL, "user_id": f"who{EVIL}", "prompt": "p", "chosen": "a"}) + "\n")
    shown = said(capfd, "eval", str(benchmark), "--rm", "longest")
    assert shown and not harm(shown)


def test_every_file_of_a_report_and_what_is_printed(
    benchmark: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shown = said(capfd, "eval", str(benchmark), "--rm", "longest", "--view", "none", "--out", str(tmp_path / "runs"))
    assert not harm(shown)
    run = next((tmp_path / "runs").iterdir())
    for name in ("report.md", "results.csv"):
        with (run / name).open(newline="") as stream:
            assert not harm(stream.read().replace("\r\n", "\n")), name
    assert not harm(said(capfd, "report", str(run), "--json"))
    for row in csv.reader(io.StringIO((run / "results.csv").read_text())):
        assert not any(cell.startswith(("=", "@")) for cell in row)


def test_hostile_names_in_a_csv_and_in_markdown(tmp_path: Path) -> None:
    from palate.report._markdown import _inert
    from palate.report._table import one_line, safe_markdown

    for text in (EVIL, f"={EVIL}", f"@SUM{EVIL}", f"\t{EVIL}"):
        assert not harm(safe_markdown(text)) and not harm(one_line(text)) and not harm(str(_inert(text)))
        assert text == EVIL or str(_inert(text)).startswith("'")


def test_the_console_shows_its_own_colours_and_nobody_elses(capsys: pytest.CaptureFixture[str]) -> None:
    console = make_console()
    console.print(f"[bold]{EVIL}[/]")
    assert not harm(capsys.readouterr().out)


def test_json_reads_back_as_it_was() -> None:
    text = json.dumps({"id": EVIL, "lines": "a\nb\tc"}, ensure_ascii=False)
    assert json.loads(escaped_json(text)) == {"id": EVIL, "lines": "a\nb\tc"}
    assert not harm(escaped_json(text)) and not harm(printable(EVIL))


def test_a_model_that_is_called_so(tmp_path: Path) -> None:
    class Evil:
        name = f"evil{EVIL}"

        def rate(self, asks):  # type: ignore[no-untyped-def]
            from palate import Rating

            return [Rating([float(len(text)) for text in ask.responses], note=EVIL) for ask in asks]

    from palate.runs import open_run, write_report

    summary = evaluate("mini", [Evil()], ["none"], limit=4, out=tmp_path)
    write_report(open_run(Path(summary.run)), summary)
    for name in ("report.md", "results.csv"):
        with (Path(summary.run) / name).open(newline="") as stream:
            assert not harm(stream.read().replace("\r\n", "\n")), name
