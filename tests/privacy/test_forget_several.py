"""Several users are erased in one pass: byte for byte what erasing one after another leaves, in any order."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from people import NAMES, people

from palate.cli import main
from palate.data import Pseudonyms, load_benchmark, pseudonym_key, write_benchmark
from palate.downstream.ppo._run import policy_folder
from palate.engine import AnswerCache, load_encoder
from palate.personal import PersonalModel, describe_model
from palate.privacy import Receipt, _rewrite_lines, forget
from palate.privacy._person import SHORTEST, quotation_search
from palate.records import Comparison, Post, User, unfinished_erasures
from palate.runs import open_run

KINDS = ("rated", "best", "guided", "table", "trained")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "root" / "cache"))
    monkeypatch.setenv("PALATE_PSEUDONYM_KEY", "a key that only this test knows")
    return tmp_path / "root"


@pytest.fixture
def places(root: Path, every_run: Path, tiny_encoder: Callable[[int], Path]) -> dict[str, list[Path]]:
    """A run of every kind, what they share, the benchmark, a trained model, and both caches."""
    shutil.copytree(every_run, root / "runs")
    shutil.rmtree(policy_folder(open_run(root / "runs" / "trained")))  # whoever is in the weights would be refused
    benchmark = people()
    write_benchmark(benchmark, root / "data")
    encoder = str(tiny_encoder(0))
    PersonalModel("per-user", features=encoder).fit(benchmark.comparisons, benchmark.users).save(root / "model")
    load_encoder(encoder).encode([post.text for user in benchmark.users.values() for post in user.posts])
    cache = AnswerCache(root / "cache" / "answers.sqlite")
    cache.put([(b"hash of a request", '{"text": "They are fond of chess."}')])
    cache.close()
    runs = [root / "runs" / kind for kind in KINDS]
    return {"data": [root / "data"], "runs": runs, "models": [root / "model"]}


def contents(root: Path) -> dict[str, bytes]:
    """Every file but SQLite's, whose bytes count how often they were written."""
    files = (file for file in root.rglob("*") if file.is_file() and not file.name.startswith("answers.sqlite"))
    return {str(file.relative_to(root)): file.read_bytes() for file in files}


def erase(users: str | Sequence[str], places: dict[str, list[Path]]) -> Receipt:
    return forget(users, Pseudonyms(pseudonym_key()), **places)


@pytest.mark.parametrize("seed", [0, 1])
def test_one_pass_leaves_the_bytes_of_one_after_another(
    seed: int, root: Path, tmp_path: Path, places: dict[str, list[Path]]
) -> None:
    shutil.copytree(root, tmp_path / "before")
    draw = Random(seed)
    users = draw.sample(NAMES, k=draw.choice((2, 3)))
    receipt = erase(users, places)
    assert receipt.users == [Pseudonyms(pseudonym_key()).user(user) for user in users]
    at_once = contents(root)
    shutil.rmtree(root)
    shutil.copytree(tmp_path / "before", root)
    for user in draw.sample(users, k=len(users)):
        erase(user, places)
    one_by_one = contents(root)
    assert at_once.keys() == one_by_one.keys()
    assert [name for name, content in at_once.items() if content != one_by_one[name]] == []
    left = set(NAMES) - set(users)
    assert load_benchmark(root / "data").users.keys() == left == set(describe_model(root / "model").users)


def test_every_file_is_read_as_often_as_for_one(
    root: Path, tmp_path: Path, places: dict[str, list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not judged by the clock: the places of the erasure are planned from as many readings for five as for one."""
    read: list[Path] = []

    rows = _rewrite_lines._rows

    def counted(file: Path) -> Iterator[tuple[bytes, dict[str, object] | None]]:
        read.append(file)
        return rows(file)

    monkeypatch.setattr(_rewrite_lines, "_rows", counted)
    counts = []
    for users in (["bo"], ["bo", "cy", "cy-1", "an", "ann-10"]):
        read.clear()
        forget(users, Pseudonyms(pseudonym_key()), **places, dry_run=True)
        counts.append(sorted(read))
    assert counts[0] == counts[1] and len(counts[0]) > 20


TEXTS = st.text("ab ", min_size=SHORTEST, max_size=SHORTEST + 3)


@given(texts=st.lists(TEXTS, max_size=4), before=st.text("ab ", max_size=3), after=st.text("ab ", max_size=30))
def test_quotations_are_found_as_by_looking_for_each(texts: list[str], before: str, after: str) -> None:
    holds = quotation_search(texts)
    for text in (before + after, *(before + one + after for one in texts), *(one[:-1] for one in texts)):
        assert holds(text) == any(one in text for one in texts)


def told(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as done:
        main(arguments)
    out, err = capsys.readouterr()
    assert done.value.code == code, err
    return out if code == 0 else out + err


def test_ids_come_from_a_file(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark = people()
    spaced = User(id=" di ", posts=(Post(id="d", text="There is a space on both sides of me.", sequence=0),))
    asked = Comparison(id="di-1", user_id=" di ", prompt="Who?", responses=("I am.", "Nobody is."), preferred=0)
    users, items = {**benchmark.users, " di ": spaced}, (*benchmark.comparisons, asked)
    write_benchmark(type(benchmark)(card=benchmark.card, users=users, comparisons=items), root / "data")
    file, receipt = tmp_path / "gone.txt", tmp_path / "receipt.json"
    where = ["--data", str(root / "data"), "--users-file", str(file), "--receipt", str(receipt)]
    file.write_bytes("\ufeffan\r\n\r\n di \r\nann-10\r\n".encode())
    told(["forget", "ann-10", *where], 0, capsys)
    assert load_benchmark(root / "data").users.keys() == set(NAMES) - {"an", "ann-10"}
    names = Pseudonyms(pseudonym_key())
    assert json.loads(receipt.read_bytes())["users"] == [names.user(user) for user in ("ann-10", "an", " di ")]
    check = ["--users-file", str(file), "--check", str(receipt)]
    assert "nothing of the user was found" in " ".join(told(["forget", *check], 0, capsys).split())
    with (root / "data" / "users.jsonl").open("a") as stream:
        stream.write('{"user_id": "ann-10"}\n')
    assert "there again" in told(["forget", *check], 2, capsys)
    for content, message in (
        (b"\n \n", "holds no id; write one a line"),
        (b"\xff\xfe", "cannot be read: it is not UTF-8"),
        (b"bo\nnobody\n", "no user 'nobody' in any of these places; nothing was erased"),
    ):
        file.write_bytes(content)
        assert message in " ".join(told(["forget", *where], 2, capsys).split())
    assert "larger than 64 MiB" in told(["forget", "--users-file", "/dev/zero", *where[:2]], 2, capsys)
    (tmp_path / "notes.md").write_text("Mine.")
    assert "is not a receipt" in told(["forget", "bo", *where[:2], "--receipt", str(tmp_path / "notes.md")], 2, capsys)
    assert (tmp_path / "notes.md").read_text() == "Mine."
    file.unlink()
    assert "No such file" in told(["forget", *where], 2, capsys)
    assert "bo" in load_benchmark(root / "data").users and not unfinished_erasures()
