"""A quick look at the bytes of a line never misses a name that reading the line would find."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.data import Pseudonyms
from palate.privacy._rewrite_lines import mentions
from palate.privacy._traces import TraceSearch

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(name=NAMES, before=NAMES, ascii_only=st.booleans())
def test_a_name_is_found_however_the_line_is_written(name: str, before: str, ascii_only: bool) -> None:
    line = json.dumps({"text": before + name, "n": 1}, ensure_ascii=ascii_only).encode()
    assert mentions([name])(line)
    assert mentions(["somebody else", name])(line.replace(b"/", b"\\/"))


def test_a_line_without_the_name_is_passed_over() -> None:
    assert not mentions(["u1"])(b'{"user_id": "u2", "text": "a\\nb"}')


@pytest.mark.parametrize("line", ['{"user_id": "u-é/1"}', '{"user_id": "u-\\u00e9/1"}', '{"item": "u-é\\/1"}'])
def test_a_search_finds_escaped_ids(tmp_path: Path, line: str) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text('{"user_id": "other"}\n' + line + "\n", encoding="utf-8")
    assert TraceSearch(["u-é/1"], [], Pseudonyms(b"key")).file(file).ids == 1


def test_a_search_finds_an_id_that_is_a_number(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text('{"user_id": 17}\n{"user_id": 18}\n')
    assert TraceSearch(["17"], [], Pseudonyms(b"key")).file(file).ids == 1
