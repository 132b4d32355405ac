"""History that holds a text of the item is not shown for it, whoever it belongs to."""

import math
import unicodedata
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.data import SameTexts, _same_text, holds, text_key
from palate.records import Benchmark, Card, Comparison, Completion, Judgement, Post, Privileged, User, View
from palate.views import History, ViewBuilder, parse_view

CARD = Card(name="test", title="test", version="1", licence="none", source="the test")
LONG = (
    "Put the dough beside the kettle, boil the kettle now and then, cover the bowl with a towel that was warmed on "
    "the stove, and wait two hours more than the recipe says before you look at it again."
)
NEARLY = LONG.replace("two hours", "three hours")
EDITED = " ".join("indeed" if place % 10 == 4 else word for place, word in enumerate(LONG.split()))
OTHER = "Buy a machine that keeps its own warmth, and think of something else while it does the work for you."


def choice(*responses: str, prompt: str = "How do I bake bread?", **more: object) -> Judgement:
    return msgspec.convert({"prompt": prompt, "responses": responses, "preferred": 0} | more, Judgement)


def shown(*judgements: Judgement, item: Comparison | None = None, posts: tuple[str, ...] = ()) -> View:
    written = tuple(Post(id=str(number), text=text) for number, text in enumerate(posts))
    ann = User(id="ann", judgements=judgements, posts=written)
    asked = item or Comparison(id="q", user_id="ann", prompt="Bread?", responses=(LONG, OTHER), preferred=0)
    held = Benchmark(card=CARD, users={"ann": ann}, comparisons=(asked,))
    [view] = ViewBuilder(held).build(parse_view("judgements+posts"), [asked])
    assert isinstance(view, View)
    return view


@pytest.mark.parametrize(
    "judgement",
    [
        choice(LONG, "Something else that was said."),
        choice("Something else that was said.", LONG.upper()),
        choice(NEARLY, "Something else that was said."),
        choice(" ".join(LONG.split()[:12]), "Something else that was said."),
        choice(f"{LONG} I hope that this helps, and do write again!", "Something else that was said."),
        choice(EDITED, "Something else that was said."),
        choice("Go on.", "Stop here.", prompt=f"You said: {OTHER} What then?"),
        choice("Go on, please.", "Stop here, please.", reason=f"Because of this: {LONG}"),
    ],
    ids=["ranking", "case", "nearly", "cut", "added to", "one word in ten", "later turn", "reason"],
)
def test_a_judgement_with_a_text_of_the_item_is_withheld_and_counted(judgement: Judgement) -> None:
    view = shown(judgement, choice("Wholly different words here.", "And these are others."))
    assert [part.judgement.chosen for part in view.parts if part.judgement] == ["Wholly different words here."]
    assert view.withheld == 1


@pytest.mark.parametrize(
    "text",
    ["AI可以帮助你学习一种新的语言", "2023年夏天我们一起去了北京旅行", "GPTは新しい言語を学ぶのに役立ちます"],
)
def test_texts_without_spaces_are_compared_by_their_characters_also_after_a_latin_word(text: str) -> None:
    item = Comparison(id="q", user_id="ann", prompt="Bread?", responses=(text, OTHER), preferred=0)
    again = choice(text, "Something else that was said.")
    nearly = choice(text.replace(text[-3], "啊"), "Something else that was said.")
    assert shown(again, nearly, item=item).withheld == 2


@pytest.mark.parametrize("text", ["Le café d'été à la crème brûlée", "새로운 언어를 배우는 데 도움이 됩니다"])
def test_accents_are_the_same_whether_they_are_characters_of_their_own_or_not(text: str) -> None:
    item = Comparison(id="q", user_id="ann", prompt="Bread?", responses=(text, OTHER), preferred=0)
    apart = unicodedata.normalize("NFD", text)
    assert apart != text and shown(choice(apart, "Something else that was said."), item=item).withheld == 1


@pytest.mark.parametrize(
    "written",
    [
        "\u200b".join(LONG),
        LONG.replace("e", "e\u00ad"),
        "\ufeff" + LONG.replace(" ", " \u2060"),
        "".join(chr(ord(letter) + 0xFEE0) if letter.isalpha() else letter for letter in LONG),
    ],
)
def test_characters_that_nobody_sees_and_wide_letters_make_no_other_text(written: str) -> None:
    item = Comparison(id="q", user_id="ann", prompt="Bread?", responses=(LONG, OTHER), preferred=0)
    assert written != LONG and shown(choice(written, "Something else that was said."), item=item).withheld == 1


def test_unknown_words_of_a_text_from_elsewhere_count_as_different() -> None:
    known = SameTexts([LONG])
    strange = " ".join(f"new{place}" for place in range(90))
    assert known.like(f"{' '.join(LONG.split()[:9])} {strange}") == frozenset()
    assert known.like(f"{LONG} {strange[:40]}") == {0}


def test_short_answers_are_the_same_for_the_same_question_only() -> None:
    item = Comparison(id="q", user_id="ann", prompt="Tea?", responses=("Yes.", "No."), preferred=0)
    view = shown(choice("Yes.", "No.", prompt="Coffee?"), choice("yes", "Perhaps.", prompt="Tea?"), item=item)
    assert [part.judgement.prompt for part in view.parts if part.judgement] == ["Coffee?"]
    assert view.withheld == 1


def test_short_answers_are_the_same_where_prompts_differ_in_their_options_only() -> None:
    item = Comparison(
        id="q",
        user_id="ann",
        prompt="Which film? Alien or Taxi Driver",
        responses=("Alien", "Taxi Driver"),
        preferred=0,
    )
    view = shown(
        choice("Heat", "Alien", prompt="Which film? Heat or Alien"),
        choice("Heat", "Jaws", prompt="Which film? Heat or Jaws"),
        choice("Alien", "Solaris", prompt="Which book? Alien or Solaris"),
        item=item,
    )
    assert [part.judgement.responses[1] for part in view.parts if part.judgement] == ["Solaris", "Jaws"]
    polite = Comparison(
        id="q", user_id="ann", prompt="Do you like tea, yes or no?", responses=("Yes", "No"), preferred=0
    )
    assert shown(choice("Yes", "No", prompt="Do you like coffee, yes or no?"), item=polite).withheld == 0


def test_posts_with_a_response_or_the_private_narrative_are_withheld() -> None:
    narrative = "My kitchen is cold in winter and the landlord will not mend the window before spring, he says."
    item = Comparison(
        id="q", user_id="ann", prompt="Bread?", responses=(LONG, OTHER), preferred=0,
        privileged=Privileged(narrative=narrative),
    )  # fmt: skip
    view = shown(posts=(f"I tried this: {NEARLY}", f"Hello. {narrative} Thanks!", "I keep bees."), item=item)
    assert [part.words for part in view.parts] == ["I keep bees."]
    assert view.withheld == 2


def test_what_a_completion_really_says_is_not_shown_for_it() -> None:
    ann = User(id="ann", posts=(Post(id="1", text=LONG), Post(id="2", text="I keep bees.")))
    item = Completion(id="q", user_id="ann", prompt="Bread?", text=LONG)
    held = Benchmark(card=CARD, users={"ann": ann}, completions=(item,))
    assert [post.id for post in History(held).posts(ann, item).events] == ["2"]


@given(st.lists(st.text(max_size=60), max_size=8))
def test_every_text_is_the_same_as_itself_and_groups_do_not_depend_on_order(texts: list[str]) -> None:
    one, other = SameTexts(texts), SameTexts(texts[::-1])
    for text in texts:
        assert one.number(text) in one.like(text)
    same = [[a.number(x) in a.like(y) for x in texts for y in texts] for a in (one, other)]
    assert same[0] == same[1]


words = st.sampled_from("the a bread dough kettle oven light warm cold wait hour two bowl towel look said".split())


@given(st.lists(words, min_size=30, max_size=60), st.lists(st.tuples(st.integers(0, 59), words), max_size=12))
def test_like_texts_are_found_by_exact_counting(text: list[str], edits: list[tuple[int, str]]) -> None:
    changed = [*text]
    for place, word in edits:
        changed[place % len(text)] = word
    one, other = " ".join(text), " ".join(changed)

    def trigrams(words: list[str]) -> set[tuple[str, ...]]:
        return {tuple(words[start : start + 3]) for start in range(len(words) - 2)}

    first, second = trigrams(text), trigrams(changed)
    shorter = min(len(first), len(second))
    like = len(first & second) >= max(0.3 * shorter, min(6, shorter))
    texts = SameTexts([one, other])
    assert (texts.number(one) in texts.like(other)) == (texts.number(other) in texts.like(one)) == like
    assert bool(SameTexts([one]).like(other)) == like
    assert holds(text_key(f"Before. {one} After."), text_key(one))


WORD = st.sampled_from(["tea", "bread", "kettle", "rain", "two", "hours"])
SENTENCE = st.lists(WORD, min_size=1, max_size=20).map(" ".join)


def trigrams(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[start : start + 3]) for start in range(len(words) - 2)} if len(words) >= 8 else set()


@given(st.lists(SENTENCE, max_size=12), st.lists(SENTENCE, max_size=3), st.sampled_from([1, 3, 500]), st.booleans())
def test_the_same_texts_are_found_as_if_every_two_were_compared(
    texts: list[str], asked: list[str], common: int, small_parts: bool
) -> None:
    held = list(dict.fromkeys(texts))
    counts = Counter(run for text in held for run in trigrams(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_same_text, "_COMMON", common)
        for name, few in {"_AT_ONCE": 3, "_MET": 5, "_HELD": 0, "_NEAR": 0}.items() if small_parts else ():
            patch.setattr(_same_text, name, few)
        same = SameTexts(texts)
        for text in [*held, *asked]:
            expected = set()
            for number, other in enumerate(held):
                shared = trigrams(text) & trigrams(other)
                fewest = min(len(trigrams(text)), len(trigrams(other)))
                enough = max(math.ceil(0.3 * fewest), min(fewest, 6))
                if text == other or (len(shared) >= enough and any(counts[run] <= common for run in shared)):
                    expected.add(number)
            assert same.like(text) == expected
