"""Pseudonyms: no id of the original survives, the key stays home, and scrubbed texts say how many."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import msgspec
import pytest

from palate.cli import main
from palate.data import Pseudonyms, load_benchmark, pseudonym_key, pseudonymise, scrub, write_benchmark
from palate.data._deidentify import Rewriter
from palate.records import Benchmark, PalateError

KEY = "a key that only this test knows"


def invented(benchmark: Benchmark) -> Benchmark:
    """mini with ids made from invented people's names; some texts name them."""
    people = {id: f"mx.{chr(97 + place % 26)}{place}_tallow" for place, id in enumerate(benchmark.users)}

    def item(id: str) -> str:
        return id if id not in owners else f"{people[owners[id]]}:{id}"

    owners = {one.id: one.user_id for one in benchmark.comparisons}
    owners |= {post.id: user.id for user in benchmark.users.values() for post in user.posts}
    ids = re.compile(r"\b[a-z]+-\d+-[a-z]-h\d+")

    def evidence(text: str) -> str:
        return ids.sub(lambda match: item(match.group()), text)

    renamed = Rewriter(lambda text: text, people.__getitem__, item, evidence).benchmark(benchmark)
    first, *_ = renamed.comparisons
    told = msgspec.structs.replace(first, prompt=f"{first.prompt} Or ask @{first.user_id}, says {first.user_id}.")
    return msgspec.structs.replace(renamed, comparisons=(told, *renamed.comparisons[1:]))


def all_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


def test_no_id_survives_anywhere(tmp_path: Path) -> None:
    original = invented(load_benchmark("mini"))
    assert all(item.user_id in item.id for item in original.comparisons)
    assert b"tallow" in msgspec.json.encode(original.comparisons[0].privileged)
    write_benchmark(pseudonymise(original, Pseudonyms(KEY.encode())), tmp_path / "out")
    written = all_bytes(tmp_path / "out")
    ids = {*original.users, *(item.id for item in original.comparisons)}
    ids |= {post.id for user in original.users.values() for post in user.posts}
    assert len(ids) > 400
    assert not [id for id in ids if id.encode() in written]
    assert KEY.encode() not in written


def test_the_data_stay_what_they_were(tmp_path: Path) -> None:
    original = load_benchmark("mini")
    names = Pseudonyms(KEY.encode())
    write_benchmark(pseudonymise(original, names), tmp_path / "out")
    new = load_benchmark(tmp_path / "out")
    assert new.users.keys() == {names.user(id) for id in original.users}
    by_id = {item.id: item for item in new.comparisons}
    for item in original.comparisons:
        other = by_id[names.item(item.id)]
        assert (other.prompt, other.responses, other.preferred) == (item.prompt, item.responses, item.preferred)
        assert other.twin is not None and item.twin is not None
        assert by_id[other.twin].user_id == names.user(
            next(x.user_id for x in original.comparisons if x.id == item.twin)
        )
    assert "HMAC-SHA256" in new.card.notes[-1]


def test_same_key_same_pseudonyms_and_another_key_others() -> None:
    assert Pseudonyms(b"one").user("ann") == Pseudonyms(b"one").user("ann") != Pseudonyms(b"two").user("ann")
    assert Pseudonyms(b"one").user("ann").removeprefix("u-") != Pseudonyms(b"one").item("ann").removeprefix("i-")


def test_the_key_is_made_once_and_for_the_owner_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PALATE_PSEUDONYM_KEY", raising=False)
    monkeypatch.setattr("palate.data._deidentify.key_file", lambda: tmp_path / "palate" / "pseudonym.key")
    key = pseudonym_key()
    assert pseudonym_key() == key and len(key) == 64
    assert [file.name for file in (tmp_path / "palate").iterdir()] == ["pseudonym.key"]
    if os.name == "posix":
        file = tmp_path / "palate" / "pseudonym.key"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        file.chmod(0o644)
        with pytest.raises(PalateError, match="others can read the key"):
            pseudonym_key()


def test_a_short_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALATE_PSEUDONYM_KEY", "secret")
    with pytest.raises(PalateError, match="6 characters"):
        pseudonym_key()


def test_scrubbing_counts_what_it_replaced() -> None:
    mini = load_benchmark("mini")
    first, *others = mini.comparisons
    told = msgspec.structs.replace(
        first,
        prompt="Write to bo@example.org, call (020) 7946 0958 or see https://example.org/users/bo and @bo_42. "
        "It cost 1,200,000 in 1999-2004.",
    )
    new = scrub(msgspec.structs.replace(mini, comparisons=(told, *others)))
    assert new.comparisons[0].prompt == (
        "Write to [email], call [telephone] or see [link] and [handle]. It cost 1,200,000 in 1999-2004."
    )
    assert new.card.notes[-1].endswith("1 email, 1 link, 1 handle, 1 telephone")
    assert new.comparisons[1:] == mini.comparisons[1:]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PALATE_PSEUDONYM_KEY", KEY)
    with pytest.raises(SystemExit) as done:
        main(["data", "convert", "mini", str(tmp_path / "out"), "--pseudonymise", "--scrub"])
    assert done.value.code == 0
    assert "60 users" in capsys.readouterr().out
    assert b"art-01-a" not in all_bytes(tmp_path / "out")


def test_no_voter_survives_in_convarg(data_dir: Path, tmp_path: Path) -> None:
    original = load_benchmark("convarg", data_dir=data_dir)
    write_benchmark(pseudonymise(original, Pseudonyms(KEY.encode())), tmp_path / "out")
    words = set(all_bytes(tmp_path / "out").replace(b'"', b" ").replace(b":", b" ").replace(b",", b" ").split())
    assert len(original.users) == 3801
    assert not [user for user in original.users if user.encode() in words]
    written = all_bytes(tmp_path / "out")
    assert not [user for user in list(original.users)[:30] if user.encode() in written]
