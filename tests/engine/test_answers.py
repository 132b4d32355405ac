"""The cache of answers: nothing is asked twice, and a killed process loses only what is in flight."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import msgspec
import pytest

from faulty_server import counts, digest, faulty_server
from palate.engine._answers import AnswerCache, CachedLanguageModel
from palate.engine._language import (
    ChooseRequest,
    Chosen,
    Conversation,
    Failure,
    LanguageModel,
    Likelihood,
    LikelihoodRequest,
    Sampling,
    Turn,
    WriteRequest,
    Written,
)
from palate.records import PalateError


class Parrot:
    """A model that says what it was asked, and notes it."""

    name = "parrot"
    context = 100

    def __init__(self, fingerprint: str = "parrot") -> None:
        self.fingerprint = fingerprint
        self.asked: list[list[str]] = []

    def count_tokens(self, turns: Conversation) -> int:
        return len(turns)

    def write(self, requests: Sequence[WriteRequest]) -> list[list[Written] | Failure]:
        words = self._note(requests)
        made = [[Written(text=word, tokens=1, finished=True)] for word in words]
        return [Failure("no") if word == "fail" else one for word, one in zip(words, made, strict=True)]

    def choose(self, requests: Sequence[ChooseRequest]) -> list[Chosen | Failure]:
        self._note(requests)
        return [Chosen(probabilities=(1 / 3, 2 / 3), mass=0.1) for _ in requests]

    def likelihood(self, requests: Sequence[LikelihoodRequest]) -> list[list[Likelihood] | Failure]:
        self._note(requests)
        return [[Likelihood(total=-math.inf, tokens=3), Likelihood(total=-0.1, tokens=1)] for _ in requests]

    def _note(self, requests: Sequence[WriteRequest | ChooseRequest | LikelihoodRequest]) -> list[str]:
        self.asked.append([request.turns[0].content for request in requests])
        return self.asked[-1]


def turns(word: str) -> Conversation:
    return (Turn("user", word),)


def writing(*words: str) -> list[WriteRequest]:
    return [WriteRequest(turns=turns(word)) for word in words]


def test_only_misses_are_asked_and_the_order_is_kept(tmp_path: Path) -> None:
    parrot = Parrot()
    model: LanguageModel = CachedLanguageModel(parrot, AnswerCache(tmp_path / "a.sqlite"))
    model.write(writing("b", "d"))
    answers = model.write(writing("a", "b", "a", "c", "d"))
    assert [answer[0].text for answer in answers if not isinstance(answer, Failure)] == ["a", "b", "a", "c", "d"]
    assert parrot.asked == [["b", "d"], ["a", "c"]]
    assert (model.name, model.context, model.fingerprint) == ("parrot", 100, "parrot")
    assert model.count_tokens(turns("a")) == 1


def test_every_kind_of_answer_comes_back_as_it_was(tmp_path: Path) -> None:
    parrot = Parrot()
    model = CachedLanguageModel(parrot, AnswerCache(tmp_path / "a.sqlite"))
    odd = "half \ud83d \x00 \U0001f680"
    asks = (
        lambda: model.write(writing(odd)),
        lambda: model.choose([ChooseRequest(turns=turns(odd), choices=("A", "B"))]),
        lambda: model.likelihood([LikelihoodRequest(turns=turns(odd), continuations=("x", "y"))]),
    )
    assert [ask() for ask in asks] == [ask() for ask in asks]
    assert len(parrot.asked) == 3


def test_a_failure_is_asked_again(tmp_path: Path) -> None:
    parrot = Parrot()
    model = CachedLanguageModel(parrot, AnswerCache(tmp_path / "a.sqlite"))
    for _ in range(2):
        assert model.write(writing("fail", "x"))[0] == Failure("no")
    assert parrot.asked == [["fail", "x"], ["fail"]]


def test_whatever_could_change_an_answer_changes_the_key(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "a.sqlite")
    base = WriteRequest(turns=turns("x"))
    changed = [
        base,
        msgspec.structs.replace(base, turns=(Turn("system", "x"),)),
        msgspec.structs.replace(base, turns=(*turns("x"), Turn("user", ""))),
        msgspec.structs.replace(base, samples=2),
        msgspec.structs.replace(base, opening=" "),
        *(
            msgspec.structs.replace(base, sampling=Sampling(**option))
            for option in ({"seed": 1}, {"temperature": 1}, {"top_p": 0.9}, {"most_tokens": 9})
        ),
    ]
    keys = {cache.key("model", "write", request) for request in changed}
    keys |= {cache.key("other", "write", base), cache.key("model", "choose", base)}
    assert len(keys) == len(changed) + 2


def test_a_row_that_cannot_be_read_is_asked_again(tmp_path: Path) -> None:
    parrot = Parrot()
    model = CachedLanguageModel(parrot, AnswerCache(tmp_path / "a.sqlite"))
    model.write(writing("x", "y"))
    with sqlite3.connect(tmp_path / "a.sqlite") as database:
        database.execute("UPDATE answers SET answer = '{' WHERE key = (SELECT min(key) FROM answers)")
    model.write(writing("x", "y"))
    assert len(parrot.asked[1]) == 1


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").write_bytes(b"not a database " * 1000)
    with pytest.raises(PalateError, match=r"a\.sqlite"):
        AnswerCache(tmp_path / "a.sqlite")


def test_many_writers_at_once(tmp_path: Path) -> None:
    """Each with a connection of its own, as processes have."""

    def fill(number: int) -> None:
        cache = AnswerCache(tmp_path / "a.sqlite")
        for row in range(50):
            cache.put([(f"{number}-{row}".encode(), "1"), (f"shared-{row}".encode(), "1")])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(fill, range(8)))
    keys = [f"{number}-{row}".encode() for number in (*range(8), "shared") for row in range(50)]
    assert len(AnswerCache(tmp_path / "a.sqlite").get(keys)) == 450


def test_a_second_cache_of_one_process_does_not_let_go_of_the_first(tmp_path: Path) -> None:
    """To open the file besides SQLite and close it drops the process's locks, and then others take the log away."""
    file = tmp_path / "a.sqlite"
    one = AnswerCache(file)
    one.put([(b"1", "one")])
    two = AnswerCache(file)
    code = "import sys; from pathlib import Path; from palate.engine._answers import AnswerCache\n"
    code += "cache = AnswerCache(Path(sys.argv[1])); cache.put([(b'2', 'two')]); cache.close()"
    subprocess.run([sys.executable, "-c", code, str(file)], check=True)
    assert file.with_name("a.sqlite-wal").exists()  # who closes last takes it away, and that was not the other process
    one.put([(b"3", "three")])
    two.put([(b"4", "four")])
    assert len(one) == len(two) == 4
    one.close()
    two.close()
    kept = sqlite3.connect(file)
    assert kept.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert kept.execute("SELECT count(*) FROM answers").fetchone() == (4,)


def test_a_new_file_may_be_made_by_many_at_once(tmp_path: Path) -> None:
    """SQLite refuses one of two who turn the write-ahead log on together, whatever its timeout."""
    for trial in range(60):
        ready = Barrier(12)

        def make(number: int, file: Path = tmp_path / f"{trial}.sqlite", ready: Barrier = ready) -> None:
            ready.wait()
            cache = AnswerCache(file)
            cache.put([(str(number).encode(), "1")])
            cache.close()

        with ThreadPoolExecutor(12) as threads:
            list(threads.map(make, range(12)))
        assert len(AnswerCache(tmp_path / f"{trial}.sqlite")) == 12


ASKING = """
import json, sys
from pathlib import Path
from palate.engine._answers import AnswerCache, CachedLanguageModel
from palate.engine._language import Turn, WriteRequest
from palate.engine._remote import RemoteModel
from palate.engine._throttle import RetryPolicy

model = RemoteModel(
    "m", base_url=sys.argv[1], concurrency=8, timeout=300, retry_policy=RetryPolicy(first_wait=0.02, longest_wait=0.2)
)
cached = CachedLanguageModel(model, AnswerCache(Path(sys.argv[2])))
answers = cached.write([WriteRequest(turns=(Turn("user", f"prompt {n}"),)) for n in range(250)])
print(json.dumps([[one.text for one in answer] for answer in answers]))
"""


def test_a_killed_process_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file = tmp_path / "a.sqlite"
    with faulty_server(faults=0.3, delay=0.01) as address:
        command = [sys.executable, "-c", ASKING, f"{address}/faulty/v1", str(file)]
        process = subprocess.Popen(command)
        end = time.monotonic() + 300
        while len(counts(address)["answered"]) < 80 and time.monotonic() < end:
            time.sleep(0.02)
        process.kill()
        process.wait()
        time.sleep(0.2)  # what was in flight ends
        before = counts(address)
        with sqlite3.connect(file) as database:
            [[kept]] = database.execute("SELECT count(*) FROM answers")
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        after = counts(address)
    assert 80 <= len(before["answered"]) < 250
    assert len(before["answered"]) - 8 <= kept <= len(before["answered"])
    assert sum(after["answered"].values()) - sum(before["answered"].values()) == 250 - kept
    assert json.loads(done.stdout) == [[f"{digest(f'prompt {number}')} 0"] for number in range(250)]
    print(f"killed after {len(before['answered'])} answers, {kept} of them kept; then {250 - kept} were asked")


def test_erasing_fails_while_a_reader_keeps_the_text_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palate.engine._answers.PATIENCE", 0.1)
    file = tmp_path / "answers.sqlite"
    cache = AnswerCache(file)
    cache.put([(b"key", '"They wrote: quinces"')])
    reader = sqlite3.connect(file, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM answers").fetchall()
    with pytest.raises(PalateError, match="another process still reads"):
        cache.erase()
    reader.close()
    assert cache.erase() == 0
    cache.close()
    assert not [one for one in tmp_path.iterdir() if b"quinces" in one.read_bytes()]


@pytest.mark.skipif(os.name != "posix", reason="needs file modes")
def test_only_the_owner_may_read_answers(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "answers.sqlite"
    cache = AnswerCache(file)
    cache.put([(b"key", "{}")])
    assert {one.stat().st_mode & 0o077 for one in (*file.parent.iterdir(), file.parent)} == {0}
    cache.close()
    file.chmod(0o664)
    AnswerCache(file).close()
    assert file.stat().st_mode & 0o777 == 0o660  # a group that shares it on purpose still does
