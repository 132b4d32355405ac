"""Retrievers rank; ids and texts stay together because only indices are handed round."""

import os
import subprocess
import sys
from pathlib import Path

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palate.engine import SentenceEncoder
from palate.records import PalateError
from palate.views import Search, make_retriever

HISTORY = ["The cat sleeps on the mat.", "Sourdough bread needs time.", "My bicycle has a flat tyre."]


def ranked(name: str, query: str, texts: list[str], *, key: str = "k", seed: int = 0) -> list[int]:
    [order] = make_retriever(name, seed=seed).rank([Search(key, query, texts)])
    return order


def test_bm25_finds_the_words_of_the_question() -> None:
    assert ranked("bm25", "How do I bake bread?", HISTORY)[0] == 1


def test_minilm_finds_the_meaning_of_the_question(minilm: SentenceEncoder) -> None:
    assert ranked("minilm", "My kitten is tired", HISTORY)[0] == 0


def test_recent_takes_the_newest_first() -> None:
    assert ranked("recent", "anything", HISTORY) == [2, 1, 0]


def test_without_a_match_bm25_falls_back_to_the_newest() -> None:
    assert ranked("bm25", "quantum chromodynamics", HISTORY) == [2, 1, 0]


def test_random_depends_on_the_key_and_the_seed_and_nothing_else() -> None:
    texts = [f"text {n}" for n in range(50)]
    order = ranked("random", "one", texts)
    assert order == ranked("random", "another", texts)
    assert order != ranked("random", "one", texts, key="other")
    assert order != ranked("random", "one", texts, seed=1)


def test_an_unknown_retriever_suggests_the_nearest() -> None:
    with pytest.raises(PalateError, match="Did you mean 'bm25'"):
        make_retriever("bm52")


@settings(max_examples=60, deadline=None)
@given(st.text(), st.lists(st.text(), max_size=6), st.sampled_from(["bm25", "recent", "random"]))
def test_any_text_gives_every_index_once(query: str, texts: list[str], name: str) -> None:
    assert sorted(ranked(name, query, texts)) == list(range(len(texts)))


WORDS = st.sampled_from(
    ["tea", "Bread", "bread", "the", "a", "kettle", "x", "42", "naïve", "日本", "rain's", "\n", "-"]
)
TEXTS = st.one_of(st.text(), st.lists(WORDS, max_size=12).map(" ".join))


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=8))
def test_bm25_has_the_scores_of_a_whole_index(query: str, texts: list[str]) -> None:
    split = bm25s.tokenize([query, *texts], stopwords="en", return_ids=False, show_progress=False)
    asked, documents = [*split[0]], [[*words] for words in split[1:]]
    expected = np.zeros(len(documents))
    if any(documents):
        index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        index.index(documents, show_progress=False)
        known = [word for word in asked if word in index.vocab_dict]
        expected = index.get_scores(known) if known else expected
    newest_first = sorted(range(len(texts)), key=lambda place: (-expected[place], -place))
    retriever = make_retriever("bm25")
    assert retriever._scores(Search("k", query, texts)).tolist() == expected.tolist()  # type: ignore[attr-defined]
    assert ranked("bm25", query, texts) == newest_first


def test_bm25_does_not_wake_jax(tmp_path: Path) -> None:
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("raise SystemExit('JAX was loaded, and takes the GPU')")
    look = "from palate.views import Search, make_retriever; make_retriever('bm25').rank([Search('k', 'tea', ['tea'])])"
    paths = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", look], env=paths, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
