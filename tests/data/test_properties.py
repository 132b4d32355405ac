"""Whatever the files hold, there is a benchmark or a PalateError; what is written is what is read."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palate.data import check_benchmark, load_benchmark, write_benchmark
from palate.data._wire import normalise_date
from palate.records import (
    Aspect,
    Benchmark,
    Card,
    Comparison,
    Completion,
    Judgement,
    PalateError,
    Post,
    Privileged,
    User,
    _benchmark,
)

QUICK = settings(max_examples=100, deadline=None)

USER = {
    "user_id": "ann",
    "demographics": {"age": 3, "interests": ["a"]},
    "values": ["calm"],
    "posts": [{"id": "p", "text": "t", "date": "2023", "sequence": 1}],
    "preferences": [{"prompt": "p", "response_A": "a", "response_B": "b", "chosen_response": "A", "reason": "r"}],
}
COMPARISON = {
    "id": "q",
    "user_id": "ann",
    "question": "?",
    "chosen": "a",
    "rejected": ["b"],
    "date": "2024-01-01",
    "shown": [0, 1],
    "rubric_aspects": [{"aspect": "a"}],
}
TABLE_ROW = {"user_id": "ann", "prompt": "?", "chosen": [{"role": "user", "content": "a"}], "rejected": "b"}
LAMP_ROW = {"id": 1, "question": "?", "profile": '[{"id": 1, "text": "t"}]', "chosen": "a", "rejected": "b"}

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def mutated(draw: st.DrawFn, record: dict[str, object]) -> object:
    """The record with some values, at any depth, replaced or removed."""

    def change(value: object) -> object:
        if draw(st.integers(0, 7)) == 0:
            return draw(anything)
        if isinstance(value, dict):
            return {name: change(one) for name, one in value.items() if draw(st.integers(0, 9))}
        return [change(one) for one in value] if isinstance(value, list) else value

    return change(record)


@st.composite
def lines(draw: st.DrawFn, record: dict[str, object]) -> bytes:
    """A file of good, mutated and arbitrary records, cut somewhere, perhaps with a wrong byte."""
    records = draw(st.lists(st.just(record) | mutated(record) | anything, max_size=4))
    data = b"\n".join(json.dumps(one).encode() for one in records)
    if draw(st.booleans()):
        data = data[: draw(st.integers(0, len(data)))]
    return data + draw(st.sampled_from([b"", b"\n", b"\xff\n", b"\x00", b'"\\ud800"', b"[" * 3000]))


def assert_loaded_or_refused(spec: str | Path) -> None:
    for reading in (load_benchmark, check_benchmark):
        try:
            found = reading(spec)
        except PalateError as error:
            assert str(error)
        else:
            if isinstance(found, Benchmark):
                assert found.content_hash


@QUICK
@given(users=lines(USER), comparisons=lines(COMPARISON), card=st.none() | st.binary(max_size=20))
def test_no_folder_breaks_the_reader(users: bytes, comparisons: bytes, card: bytes | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "users.jsonl").write_bytes(users)
        (Path(folder) / "comparisons.jsonl").write_bytes(comparisons)
        if card is not None:
            (Path(folder) / "card.json").write_bytes(card)
        assert_loaded_or_refused(Path(folder))


@QUICK
@given(
    data=lines(USER) | lines(TABLE_ROW) | lines(LAMP_ROW) | st.binary(max_size=50),
    name=st.sampled_from(["a.jsonl", "a.json", "a.csv", "a.parquet", "a.jsonl.gz"]),
)
def test_no_file_breaks_the_reader(data: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(data)
        assert_loaded_or_refused(Path(folder) / name)


@QUICK
@given(data=st.lists(mutated(USER) | mutated(TABLE_ROW) | mutated(LAMP_ROW), max_size=3))
def test_no_json_list_breaks_the_reader(data: list[object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.json").write_text(json.dumps(data))
        assert_loaded_or_refused(Path(folder) / "a.json")


@QUICK
@given(spec=st.text(st.characters(exclude_characters="/."), max_size=20))
def test_no_spec_breaks_the_reader(spec: str) -> None:
    assert_loaded_or_refused(spec)


words = st.text(max_size=10)
ids = st.text(min_size=1, max_size=5)
maybe = st.none() | words
named = st.none() | words.filter(bool)
dates = st.none() | st.sampled_from(["2023", "2023-05", "2023-05-14", "2023-05-14T20:11:00", "2023-05-14T20:11:00.125"])
sequences = st.none() | st.integers(-(2**63), 2**63 - 1)
choices = st.lists(words, min_size=2, max_size=4).flatmap(
    lambda texts: st.tuples(st.just(tuple(texts)), st.integers(0, len(texts) - 1))
)
private = st.builds(
    Privileged,
    narrative=maybe,
    aspects=st.lists(st.builds(Aspect, aspect=words, reason=maybe, evidence=maybe), max_size=2).map(tuple),
)
posts = st.builds(Post, id=ids, text=words, date=dates, sequence=sequences, category=named)


@st.composite
def judgements(draw: st.DrawFn) -> Judgement:
    responses, preferred = draw(choices)
    return Judgement(
        prompt=draw(words),
        responses=responses,
        preferred=preferred,
        reason=draw(maybe),
        values=tuple(draw(st.lists(words, max_size=2))),
        id=draw(st.none() | ids),
        date=draw(dates),
        sequence=draw(sequences),
    )


@st.composite
def benchmarks(draw: st.DrawFn) -> Benchmark:
    names = draw(st.lists(ids, min_size=1, max_size=3, unique=True))
    demographics = st.dictionaries(words, words.filter(bool) | st.lists(words, max_size=2), max_size=2)
    users = {
        name: User(
            id=name,
            demographics=draw(demographics),
            values=tuple(draw(st.lists(words, max_size=2))),
            posts=tuple(draw(st.lists(posts, max_size=2))),
            judgements=tuple(draw(st.lists(judgements(), max_size=2))),
        )
        for name in names
    }
    comparisons = []
    for id in draw(st.lists(ids, min_size=1, max_size=4, unique=True)):
        responses, preferred = draw(choices)
        shown = draw(st.none() | st.permutations(range(len(responses))).map(tuple))
        comparisons.append(
            Comparison(
                id=id,
                user_id=draw(st.sampled_from(names)),
                prompt=draw(words),
                responses=responses,
                preferred=preferred,
                shown=shown,
                category=draw(named),
                difficulty=draw(maybe),
                twin=draw(maybe),
                group=draw(named),
                date=draw(dates),
                sequence=draw(sequences),
                privileged=draw(private),
            )
        )
    completion = st.builds(
        Completion,
        id=ids,
        user_id=st.sampled_from(names),
        prompt=words,
        text=maybe,
        alternatives=st.lists(words, max_size=2).map(tuple),
        category=named,
        group=named,
        date=dates,
        sequence=sequences,
        privileged=private,
    )
    completions = draw(st.lists(completion, max_size=2, unique_by=lambda item: item.id))
    card = Card(name="b", title="B", version="1", licence="none", source="here", notes=("one",))
    return Benchmark(card=card, users=users, comparisons=tuple(comparisons), completions=tuple(completions))


@QUICK
@given(benchmark=benchmarks())
def test_what_is_written_is_what_is_read(benchmark: Benchmark) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_benchmark(benchmark, Path(folder))
        again = load_benchmark(Path(folder))
    assert again.content_hash == benchmark.content_hash
    assert again == benchmark


@given(moment=st.datetimes(timezones=st.none() | st.timezones()))
def test_a_date_is_normalised_once(moment: object) -> None:
    try:
        once = normalise_date(str(moment))
    except (ValueError, OverflowError):
        return
    assert normalise_date(once) == once


@QUICK
@given(benchmark=benchmarks(), telling=st.sampled_from([3, 20, 96]))
def test_the_hash_is_of_all_records_in_the_order_of_their_texts(benchmark: Benchmark, telling: int) -> None:
    encoder = msgspec.json.Encoder(order="deterministic")
    digest = hashlib.sha256()
    for records in (benchmark.users.values(), benchmark.comparisons, benchmark.completions):
        texts = sorted(encoder.encode(record) for record in records)
        digest.update(b"".join(text + b"\n" for text in texts) + b"\x00")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_benchmark, "_TELLING", telling)
        assert benchmark.content_hash == digest.hexdigest()
