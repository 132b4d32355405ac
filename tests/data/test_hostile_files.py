"""A benchmark from a stranger is refused with file and line, and what it says cannot do more than be read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from command import palate
from palate.data import load_benchmark
from palate.records import PalateError

HARMFUL = "\x1b[2J\x1b]0;title\x07\u202e</script><script>alert(1)</script>"


def comparison(number: int, **fields: object) -> dict[str, object]:
    user = ("ann", "ben", "cat")[number % 3]
    texts = [f"yes, {number}", f"no, {number}"]
    return {
        "id": f"c{number}", "user_id": user, "prompt": f"Tea {number}?", "responses": texts, "preferred": number % 2,
    } | fields  # fmt: skip


def write(folder: Path, *first: bytes, users: tuple[str, ...] = ("ann", "ben", "cat"), **fields: object) -> Path:
    folder.mkdir(exist_ok=True)
    lines = [*first] if first else [json.dumps(comparison(0, **fields)).encode()]
    lines += [json.dumps(comparison(number)).encode() for number in range(1, 9)]
    (folder / "comparisons.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    (folder / "users.jsonl").write_text("".join(json.dumps({"user_id": user}) + "\n" for user in users))
    return folder


@pytest.mark.parametrize(
    "line",
    [
        b'{"a":' * 200_000,
        b"[" * 200_000,
        b'{"id":"c","preferred":' + b"9" * 100_000 + b"}",
        json.dumps(comparison(0, preferred=10**30)).encode(),
        json.dumps(comparison(0, preferred=-1)).encode(),
        json.dumps(comparison(0, sequence=float("nan"))).encode(),
        json.dumps(comparison(0, id="\ud800")).encode(),
        json.dumps(comparison(0, date="9" * 5_000)).encode(),
        json.dumps(comparison(0), ensure_ascii=False).encode().replace(b"Tea", b"\xed\xa0\x80"),
    ],
    ids=lambda line: repr(line[:24]),
)
def test_a_line_that_cannot_be_read_is_refused_with_its_place(tmp_path: Path, line: bytes) -> None:
    with pytest.raises(PalateError, match=r"comparisons.jsonl:1: "):
        load_benchmark(write(tmp_path / "theirs", line))


@pytest.mark.parametrize("field", ["id", "prompt", "category", "group"])
@pytest.mark.parametrize("text", [HARMFUL, "../../../escaped", "a\x00b"], ids=["escapes", "path", "nul"])
def test_what_is_written_is_neither_obeyed_nor_a_path(tmp_path: Path, field: str, text: str) -> None:
    folder = write(tmp_path / "theirs", **{field: text})
    (folder / "card.json").write_text(
        json.dumps({"name": text, "title": text, "version": text, "licence": text, "source": text})
    )
    done = [
        palate("data", "check", folder),
        palate("data", "show", folder, "c1"),
        palate("eval", folder, "--rm", "longest", "--view", "none", "--out", tmp_path / "in" / "runs"),
    ]
    assert [one.returncode for one in done if "Traceback" in one.stderr] == []
    assert done[-1].returncode == 0, done[-1].stderr
    for one in done:
        assert not set("\x1b\x07\u202e\x00") & set(one.stdout + one.stderr)
    [run] = (tmp_path / "in" / "runs").iterdir()
    assert "<script>alert" not in (run / "report.html").read_text()
    assert {one.name for one in tmp_path.iterdir()} == {"theirs", "in"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", ["comparisons.jsonl", "users.jsonl"])
def test_pipes_and_devices_are_not_read(tmp_path: Path, name: str) -> None:
    for number, make in enumerate((os.mkfifo, lambda file: Path(file).symlink_to("/dev/zero"))):
        folder = write(tmp_path / f"theirs-{number}")
        (folder / name).unlink()
        make(folder / name)
        with pytest.raises(PalateError):
            load_benchmark(folder)
