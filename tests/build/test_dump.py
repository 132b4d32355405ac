"""Stack Exchange dumps are read as a stream, and files that would fill memory or disk are refused."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import py7zr
import pytest
from dumps import posts_xml, write_dump

from palate.build import _dump
from palate.build._dump import StackExchangeDump
from palate.build._entries import Entry, plain_text
from palate.build._index import Index
from palate.build._rubric import is_quoted
from palate.build._tables import Table
from palate.records import PalateError


def read(path: Path, **options: object) -> tuple[list[Entry], Counter[str]]:
    entries: list[Entry] = []
    left_out: Counter[str] = Counter()
    StackExchangeDump(path, **options).read(entries.append, left_out, lambda done, total: None)  # type: ignore[arg-type]
    return entries, left_out


def refused(path: Path, **options: object) -> str:
    with pytest.raises(PalateError) as error:
        read(path, **options)
    return str(error.value)


def test_plain_gzip_and_7z_hold_the_same_posts(tmp_path: Path) -> None:
    plain = write_dump(tmp_path / "coffee")
    gz = tmp_path / "Posts.xml.gz"
    gz.write_bytes(gzip.compress(plain.read_bytes()))
    archive = tmp_path / "coffee.stackexchange.com.7z"
    with py7zr.SevenZipFile(archive, "w") as packed:
        packed.writestr("Badges are not read", "Badges.xml")
        packed.write(plain, "Posts.xml")
    assert read(plain)[0] == read(gz, site="coffee")[0]
    assert [entry.id for entry in read(archive)[0]] == [entry.id for entry in read(plain)[0]]
    assert StackExchangeDump(archive).site == "coffee.stackexchange.com"
    assert StackExchangeDump(tmp_path / "coffee").site == "coffee"


def test_posts_without_owner_date_or_id_and_other_kinds_are_counted(tmp_path: Path) -> None:
    odd = '<row PostTypeId="1" /><row Id="900" PostTypeId="4" /><row Id="901" PostTypeId="2" Body="x" />'
    entries, left_out = read(write_dump(tmp_path, users=2, questions=1, extra=odd))
    assert len(entries) == 8
    assert left_out == {
        "posts without an id": 1,
        "wiki pages, tag descriptions and other posts": 1,
        "answers without a question": 1,
    }


def test_a_truncated_file_names_the_line_and_what_stood_before_it(tmp_path: Path) -> None:
    file = write_dump(tmp_path)
    text = file.read_text()
    rows = text.split("\n")
    file.write_text("\n".join(rows[:40]) + "\n" + rows[40][:30])
    problem = refused(file)
    assert "line 41: unclosed token" in problem
    assert "38 posts stood before it" in problem
    entries, left_out = read(file, keep_damaged=True)
    assert len(entries) == 38
    assert [*left_out] == ["all from line 41 on, where the file is damaged (unclosed token)"]


def test_malformed_files_and_damaged_archives_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "Posts.xml"
    file.write_text("hello")
    assert "line 1: syntax error" in refused(file)
    whole = gzip.compress(posts_xml(users=50).encode())
    (tmp_path / "Posts.xml.gz").write_bytes(whole[: len(whole) // 2])
    assert "damaged or cut off" in refused(tmp_path / "Posts.xml.gz")
    (tmp_path / "x.7z").write_bytes(b"7z\xbc\xaf\x27\x1c no archive at all")
    assert "damaged or cut off" in refused(tmp_path / "x.7z")
    with py7zr.SevenZipFile(tmp_path / "empty.7z", "w") as packed:
        packed.writestr("x", "Comments.xml")
    assert "no Posts.xml in this archive" in refused(tmp_path / "empty.7z")
    assert "no such file" in refused(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    assert "no Posts.xml" in refused(tmp_path / "folder")


def test_an_entity_bomb_is_refused_before_it_grows(tmp_path: Path) -> None:
    file = tmp_path / "Posts.xml"
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    file.write_text(f'<!DOCTYPE posts [<!ENTITY e0 "ha">{levels}]><posts><row Id="1" Body="&e9;"/></posts>')
    assert "it declares the entity 'e0'" in refused(file)


def test_a_7z_bomb_is_refused_by_its_size_and_by_its_dictionary(tmp_path: Path) -> None:
    archive = tmp_path / "bomb.7z"
    with py7zr.SevenZipFile(archive, "w") as packed:
        packed.writestr("<posts>" + " " * 3_000_000 + "</posts>", "Posts.xml")
    assert archive.stat().st_size < 10_000
    assert "unpacks to more than 0.001 GB" in refused(archive, max_gigabytes=0.001)
    greedy = tmp_path / "greedy.7z"
    filters = [{"id": py7zr.FILTER_LZMA2, "preset": 0, "dict_size": 512 << 20}]
    with py7zr.SevenZipFile(greedy, "w", filters=filters) as packed:
        packed.writestr("<posts></posts>", "Posts.xml")
    assert "asks for 512 MiB of memory" in refused(greedy)
    gz = tmp_path / "Posts.xml.gz"
    gz.write_bytes(gzip.compress(b"<posts>" + b" " * 3_000_000))
    assert "unpacks to more than 0.001 GB" in refused(gz, max_gigabytes=0.001)


def test_a_row_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_dump, "LONGEST_ROW", 100_000)
    monkeypatch.setattr(_dump, "CHUNK", 10_000)
    file = tmp_path / "Posts.xml"
    file.write_text('<posts><row Id="1" Body="' + "a" * 1_000_000)
    assert "a row of more than" in refused(file)


def test_markup_becomes_text() -> None:
    assert plain_text("<p>Heat <em>slowly</em>&hellip;</p><pre>a  b\n c</pre>") == "Heat slowly…\n\na  b\n c"
    assert plain_text("no markup < at all") == "no markup < at all"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('<!DOCTYPE posts [<!ATTLIST row Body CDATA "xxxx">]><posts><row Id="1"/></posts>', "it declares what 'row'"),
        ("<posts>" + "<a>" * 100_000, "9 deep"),
    ],
)
def test_other_ways_to_fill_the_memory_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "Posts.xml"
    file.write_text(text)
    assert problem in refused(file)


def test_ids_are_numbers_and_votes_fit_the_index(tmp_path: Path) -> None:
    file = tmp_path / "Posts.xml"
    file.write_text(
        '<posts><row Id="1&#10;# Title" PostTypeId="1"/><row Id="2" PostTypeId="1" OwnerUserId="3) by [me](x)"/>'
        f'<row Id="4" ParentId="2" PostTypeId="2" Score="{"9" * 50}"/></posts>'
    )
    (question, answer), left_out = read(file)
    assert question.user is None and left_out == {"posts without an id": 1}
    index = Index(tmp_path / "index.sqlite")
    index.read(StackExchangeDump(file), lambda done, total: None)
    index.close()
    assert answer.score == 1 << 62


def test_a_page_of_tags_that_never_close_is_read_in_one_go() -> None:
    assert plain_text("<a" * 300_000) == "<a" * 300_000  # minutes, if each were sought to the end of the page
    assert plain_text("<!--" * 300_000 + "x") == "x"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"user": ' + "[" * 100_000, "not a JSON object"),
        ('{"user": "' + "x" * (1 << 24) + '"}', "a line of more than 16 Mi characters"),
    ],
)
def test_a_table_that_would_fill_the_memory_is_refused(tmp_path: Path, line: str, problem: str) -> None:
    file = tmp_path / "table.jsonl.gz"
    file.write_bytes(gzip.compress(f"{line}\n".encode()))
    with pytest.raises(PalateError, match=problem):
        Table(file, columns={}).read(lambda entry: None, Counter(), lambda done, total: None)


@pytest.mark.parametrize(
    ("name", "mark"), [("table.csv", ";"), ("table.csv", "\t"), ("table.tsv", "\t"), ("t.csv", ",")]
)
def test_a_table_is_read_as_the_country_writes_it(name: str, mark: str, tmp_path: Path) -> None:
    rows = [["user", "date", "question", "answer"], ["ann", "14.5.2023 20:11", "Why?", '"Größe, ja; nein"']]
    file = tmp_path / name
    file.write_text("\n".join(mark.join(row) for row in rows) + "\n", encoding="utf-8-sig")
    entries: list[Entry] = []
    Table(file, columns={}).read(entries.append, Counter(), lambda done, total: None)
    question, answer = entries
    assert (question.user, question.date, answer.body) == ("ann", "2023-05-14T20:11:00", "Größe, ja; nein")


@pytest.mark.parametrize(
    ("days", "last", "said"),
    [
        (None, "13/4/2023", ["2023-05-02", "2023-04-13"]),
        (None, "3/14/2023", ["2023-02-05", "2023-03-14"]),
        ("month-first", "3/4/2023", ["2023-02-05", "2023-03-04"]),
        (None, "3/4/2023", r"column 'when' holds '2/5/2023' \(.*table.csv, line 2\).* days = \"day-first\" or "),
    ],
)
def test_dates_with_slashes_of_a_table(days: str | None, last: str, said: str | list[str], tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text(f"user,when,question,answer\nann,2/5/2023,Why?,\nbob,{last},Why?,\n")
    entries: list[Entry] = []
    table = Table(file, columns={"date": "when"}, days=days)
    if isinstance(said, str):
        with pytest.raises(PalateError, match=said):
            table.read(entries.append, Counter(), lambda done, total: None)
    else:
        table.read(entries.append, Counter(), lambda done, total: None)
        assert [entry.date for entry in entries] == said


def test_votes_beyond_all_numbers_are_many_votes(tmp_path: Path) -> None:
    file = tmp_path / "table.jsonl"
    file.write_text('{"user": "ann", "question": "Why?", "answer": "So.", "score": "1e400"}\n')
    entries: list[Entry] = []
    Table(file, columns={}).read(entries.append, Counter(), lambda done, total: None)
    assert {entry.score for entry in entries if entry.parent} == {1 << 62}


@pytest.mark.parametrize("evidence", ["art is good", ". . .", "he\u0430rt is good", "“is goo”"])
def test_evidence_is_quoted_word_for_word(evidence: str) -> None:
    assert is_quoted("“My  heart\u00a0is good”", ["Well . . . My heart is good."])
    assert not is_quoted(evidence, ["Well . . . My heart is good."])
