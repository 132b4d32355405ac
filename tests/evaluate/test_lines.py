"""Only the last line of a file may be torn; any other that cannot be read is an error with file and line number."""

from pathlib import Path

import msgspec
import pytest

from palate.cli import main
from palate.evaluation import evaluate, summarise
from palate.records import PalateError
from palate.runs import Ledger, Needs, open_run, repair_ledgers
from palate.runs._ledger import Appender


class Point(msgspec.Struct, frozen=True):
    x: int
    name: str = ""


POINTS = Ledger("points.jsonl", Point, lambda line: line.x, about="nobody")
LABELS = Ledger("labels.jsonl", Point, lambda line: line.name, Needs(POINTS, lambda line: [line.x]), about="nobody")
GOOD = [b'{"x":0}\n', b'{"x":1}\n', b'{"x":2}\n']
BAD = {
    b'{"x":\n': "cannot be read",
    b'{"x":"1"}\n': "Expected `int`, got `str`",
    b'{"y":1}\n': "missing required field `x`",
    b'{"x":7,"name":"\xff"}\n': "not UTF-8",
    b'\0\0\0\0{"x":7}\n': "NUL bytes",
    b"\n": "empty",
    b'{"x":1,"name":"other"}\n': "the key of line 2 and says something else",
}


def write(folder: Path, *lines: bytes, name: str = "points.jsonl") -> Path:
    (folder / name).write_bytes(b"".join(lines))
    return folder


@pytest.mark.parametrize(("bad", "fault"), BAD.items(), ids=BAD.values())
def test_a_bad_line_in_the_middle_is_an_error(tmp_path: Path, bad: bytes, fault: str) -> None:
    write(tmp_path, *GOOD[:2], bad, GOOD[2])
    with pytest.raises(PalateError) as raised:
        list(POINTS.read(tmp_path))
    said = str(raised.value)
    assert said.startswith(f"{tmp_path / 'points.jsonl'}, line 3: ") and fault in said and "--repair" in said
    [dropped] = repair_ledgers(tmp_path, [POINTS])
    assert (dropped.bad, dropped.orphans) == (1, 0)
    assert [line.x for line in POINTS.read(tmp_path)] == [0, 1, 2]
    assert (tmp_path / "points.jsonl").read_bytes() == b"".join(GOOD)
    assert (tmp_path / "points.jsonl.bad").read_bytes() == bad
    assert repair_ledgers(tmp_path, [POINTS]) == []


@pytest.mark.parametrize("torn", [b'{"x":3', b'{"x":3}', b'{"x":\n', b"\0\0\0\0", b"\0\0\0\n", b"\xff\n", b"\n"])
def test_a_torn_last_line_is_dropped_and_never_becomes_one_in_the_middle(tmp_path: Path, torn: bytes) -> None:
    write(tmp_path, *GOOD, torn)
    assert len(list(POINTS.read(tmp_path))) == 3
    appender = Appender(tmp_path / "points.jsonl")
    appender.append([Point(4)])
    appender.close()
    assert [line.x for line in POINTS.read(tmp_path)] == [0, 1, 2, 4]


def test_a_last_line_of_the_wrong_type_is_no_crash(tmp_path: Path) -> None:
    write(tmp_path, *GOOD, b'{"x":"3"}\n')
    Appender(tmp_path / "points.jsonl").close()
    with pytest.raises(PalateError, match="line 4"):
        list(POINTS.read(tmp_path))


def test_a_file_of_one_torn_line_is_as_good_as_none(tmp_path: Path) -> None:
    write(tmp_path, b'{"x":\n')
    Appender(tmp_path / "points.jsonl").close()
    assert (tmp_path / "points.jsonl").read_bytes() == b"" and list(POINTS.read(tmp_path)) == []


def test_a_line_that_stands_twice_counts_once(tmp_path: Path) -> None:
    write(tmp_path, *GOOD, GOOD[1])
    assert [line.x for line in POINTS.read(tmp_path)] == [0, 1, 2]


def test_what_was_made_from_a_lost_line_goes_with_it(tmp_path: Path) -> None:
    write(tmp_path, GOOD[0], b"{\n", GOOD[2])
    write(tmp_path, *(b'{"x":%d,"name":"n%d"}\n' % (x, x) for x in range(3)), name="labels.jsonl")
    found = repair_ledgers(tmp_path, [POINTS, LABELS])
    assert [(Path(lost.file).name, lost.bad, lost.orphans) for lost in found] == [
        ("points.jsonl", 1, 0),
        ("labels.jsonl", 0, 1),
    ]
    assert [line.name for line in LABELS.read(tmp_path)] == ["n0", "n2"]


def test_nothing_is_repaired_while_another_process_writes(tmp_path: Path) -> None:
    write(tmp_path, GOOD[0], b"{\n", GOOD[2])
    writer = Appender(tmp_path / "points.jsonl")
    with pytest.raises(PalateError, match="another process is writing"):
        repair_ledgers(tmp_path, [LABELS, POINTS])
    writer.close()
    assert (tmp_path / "points.jsonl").read_bytes().count(b"\n") == 3 and not (tmp_path / "points.jsonl.bad").exists()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(evaluate("mini", ["longest", "overlap"], ["none", "posts:2"], limit=20, out=tmp_path).run)


def edit(file: Path, place: int, new: bytes = b"") -> bytes:
    lines = file.read_bytes().splitlines(keepends=True)
    old, lines[place] = lines[place], new
    file.write_bytes(b"".join(lines))
    return old


def test_a_lost_item_is_said_until_the_same_command_puts_it_back(run: Path, tmp_path: Path) -> None:
    before = (run / "items.jsonl").read_bytes()
    edit(run / "items.jsonl", 3)
    summary = summarise(open_run(run))
    assert not summary.complete and summary.items == 19
    assert "Items whose lines in items.jsonl are lost: 1. Run the same command again to put them back." in (
        summary.warnings
    )
    again = evaluate("mini", ["longest", "overlap"], ["none", "posts:2"], limit=20, out=tmp_path)
    assert again.complete and (run / "items.jsonl").read_bytes() == before


def test_an_item_that_was_never_rated_is_missed_too(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "ratings.jsonl").write_bytes(b"")
    edit(run / "items.jsonl", 3, b"{\n")
    with pytest.raises(SystemExit) as done:
        main(["report", str(run), "--repair"])
    assert done.value.code == 0
    assert "are lost: 1." in " ".join(capsys.readouterr().out.split())


def test_damaged_items_are_written_again_by_the_same_command(run: Path, tmp_path: Path) -> None:
    before = (run / "items.jsonl").read_bytes()
    edit(run / "items.jsonl", 3, b"{\n")
    with pytest.raises(PalateError, match=r"items\.jsonl, line 4"):
        open_run(run)
    evaluate("mini", ["longest", "overlap"], ["none", "posts:2"], limit=20, out=tmp_path)
    assert (run / "items.jsonl").read_bytes() == before


def test_a_rating_whose_view_is_lost_is_not_used(run: Path) -> None:
    edit(run / "views.jsonl", 3)
    with pytest.raises(PalateError, match=r"views\.jsonl lacks 1 of the lines"):
        open_run(run)


@pytest.mark.parametrize("command", [["report"], ["compare"], ["audit"]], ids=" ".join)
def test_every_command_that_reads_a_run_says_where_it_is_damaged(
    run: Path, tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    other = Path(evaluate("mini", ["shortest"], ["none"], limit=20, out=tmp_path).run)
    edit(run / "ratings.jsonl", 41, b'{"rm":"lon\n')
    with pytest.raises(SystemExit) as done:
        main([*command, str(run), *([str(other)] if command == ["compare"] else [])])
    assert done.value.code == 2
    assert "ratings.jsonl, line 42: it cannot be read" in " ".join(capsys.readouterr().err.split())
