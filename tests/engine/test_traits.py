"""Each trait moves as its name says, and every text has finite ones."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palate.engine import TRAITS, load_encoder

MORE_THAN = {
    "length": ("One two three four five.", "One two three."),
    "sentences": ("It rains. We stay in. Tea?", "It rains, so we stay in and drink tea."),
    "sentence_length": ("It rains, so we stay in and drink tea.", "It rains. We stay in. Tea?"),
    "word_length": ("Considerable precipitation continues.", "It rains a lot on us."),
    "variety": ("The quick brown fox jumps over a lazy dog.", "The dog saw the dog and the dog saw the dog."),
    "reading_ease": ("The cat sat on the mat.", "Institutional heterogeneity complicates comparative evaluation."),
    "formality": (
        "The evaluation of the proposal remains within the responsibility of the department.",
        "Yeah, we're gonna look at it, and I'll tell you, ok?",
    ),
    "first_person": ("I took my coat and we left.", "She took her coat and they left."),
    "second_person": ("You take your coat.", "He takes his coat."),
    "questions": ("Tea? Or coffee?", "Tea, or coffee."),
    "exclamations": ("Tea at last!", "Tea at last."),
    "numbers": ("In 1987 there were 12.", "In that year there were some."),
    "hedging": ("Perhaps it might rain, I think.", "It will rain, and soon."),
    "connectives": (
        "We stayed because it rained; however, for example, tea helped.",
        "We stayed. It rained. Tea helped.",
    ),
    "directives": ("You must go, and you have to hurry.", "You go, and you hurry."),
    "politeness": ("Please sit down, and thank you.", "Sit down, all of you."),
    "list_form": ("Buy:\n- tea\n- milk\n3. bread", "Buy tea, milk and bread."),
    "line_breaks": ("Tea.\n\nMilk.\nBread.", "Tea. Milk. Bread."),
    "markup": ("# Tea\n\nIt is **hot** and `green`.", "Tea. It is hot and green."),
    "links": ("See https://example.org/tea now.", "See the page now."),
    "capitals": ("I TOLD YOU SO", "I told you so"),
    "emoji": ("Tea 🍵 again 🙂", "Tea again"),
    "sentiment": ("A wonderful and happy day.", "A terrible and sad day."),
    "carelessness": ("i dont kno tbh, its sooo gd lol", "I don't know, to be honest; it is so good."),
    "quotations": ('She said "no" and "never".', "She said no and never."),
    "punctuation_variety": ("Tea; coffee: milk, (bread)!", "Tea, coffee, milk, bread,"),
}


def test_every_trait_has_an_example() -> None:
    assert list(TRAITS) == list(MORE_THAN)


@pytest.mark.parametrize("name", TRAITS)
def test_a_trait_orders_texts_as_its_name_says(name: str) -> None:
    more, less = MORE_THAN[name]
    assert TRAITS[name](more) > TRAITS[name](less)


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("length", "tea milk bread", "tea, milk, bread https://example.org/a-long-path"),
        ("sentences", "It costs 3.50 at most.", "It costs much at most."),
        ("sentences", "Wait... what?! No!!!", "Wait. What? No!"),
        ("sentences", 'He said "no." Then left.', "He said no. Then left."),
        ("questions", "What???", "What?"),
        ("variety", "one two three four five " * 10, "one two three four five " * 1_000),
        ("first_person", "I’m here", "I'm here"),
        ("word_length", "cafe\u0301", "café"),
        ("carelessness", "The BBC and the 3rd PhD", "The one and the third doctor"),
        ("list_form", "-5 degrees today", "minus five degrees"),
    ],
)
def test_what_makes_no_difference(name: str, one: str, other: str) -> None:
    assert TRAITS[name](one) == pytest.approx(TRAITS[name](other), abs=1e-9)


@pytest.mark.parametrize("text", ["This is not good.", "It isn't a good day.", "I never was happy."])
def test_a_negation_turns_a_sentiment(text: str) -> None:
    assert TRAITS["sentiment"](text) < 0


def test_a_negation_far_away_turns_nothing() -> None:
    assert TRAITS["sentiment"]("Not today, since we went out for a good meal.") > 0


def test_nothing_has_traits_of_nothing() -> None:
    assert not load_encoder("traits").encode(["", " \n\t "]).any()


ALL_KINDS = st.one_of(
    st.text(),
    st.text(alphabet="aI.!?\n -*\"'’1#`http://w🙂é\ud800\u0301中。"),
    st.lists(st.sampled_from([word for pair in MORE_THAN.values() for text in pair for word in text.split(" ")])).map(
        " ".join
    ),
)


@given(ALL_KINDS)
@settings(max_examples=300, deadline=None)
def test_any_text_has_finite_traits(text: str) -> None:
    values = {name: trait(text) for name, trait in TRAITS.items()}
    assert all(np.isfinite(list(values.values())))
    counted = ("length", "sentences", "sentence_length", "word_length", "reading_ease", "punctuation_variety")
    assert all(-1 <= value <= 1 for name, value in values.items() if name not in counted), values
    assert -100 <= values["reading_ease"] <= 121


@given(st.lists(ALL_KINDS, max_size=4))
@settings(max_examples=50, deadline=None)
def test_a_row_is_the_text_alone(texts: list[str]) -> None:
    encoder = load_encoder("traits")
    together = encoder.encode(texts, ["any context"] * len(texts))
    assert together.shape == (len(texts), encoder.dimensions)
    assert together.dtype == np.float32
    for row, text in zip(together, texts, strict=True):
        np.testing.assert_array_equal(row, encoder.encode([text])[0])


@pytest.mark.parametrize(
    "piece",
    ["word ", "w", "!", ".", "\n", " ", "- ", '."', ".'x", "www.", "-", "a-", "'", "#", "`", "ö", "中", "1.", "\t"],
)
def test_long_texts_are_read_in_linear_time(piece: str) -> None:
    """So many pieces: anything quadratic would not come to an end."""
    for text in (piece * 200_000, piece * 200_000 + "x"):
        assert np.isfinite(load_encoder("traits").encode([text])).all()


def test_the_fingerprint_tells_the_version_and_the_names() -> None:
    assert load_encoder("traits").fingerprint.startswith("traits-1-")
    assert load_encoder("traits").dimensions == len(TRAITS)


def test_traits_need_neither_torch_nor_a_cache(tmp_path: object) -> None:
    program = (
        "import sys\nfrom palate.engine import load_encoder\n"
        "load_encoder('traits').encode(['Hello.'])\nprint('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=900)
    assert done.stdout.split() == ["False", "False"], done.stderr
