"""Others' lines that quote a person whole: they are others', so the receipt tells of them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from palate.data import Pseudonyms, load_benchmark, write_benchmark
from palate.privacy import check_receipt, forget

NAMES = Pseudonyms(b"a key that only this test knows")
USER, OTHER = "art-01-a", "art-02-a"


@pytest.mark.parametrize("asked", ["What did they mean by: {}?", "  {}\n", "WHAT IS: {}"])
def test_a_prompt_of_somebody_else_that_quotes_the_person_is_in_the_receipt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    mini = load_benchmark("mini")
    post = mini.users[USER].posts[0].text
    quoting = post.upper() if asked.isupper() else post
    items = [
        msgspec.structs.replace(item, prompt=asked.format(quoting)) if item.id == f"{OTHER[:-2]}-q1-a" else item
        for item in mini.comparisons
    ]
    assert sum(quoting in item.prompt for item in items) == 1
    write_benchmark(msgspec.structs.replace(mini, comparisons=tuple(items)), tmp_path / "data")
    receipt = forget(USER, NAMES, data=[tmp_path / "data"], keep_answers=True)
    [told] = [line for line in receipt.not_erased if "comparisons.jsonl" in line]
    assert "quote" in told and "words of the user 0 times" not in told
    assert not check_receipt(receipt, USER, NAMES).clean
