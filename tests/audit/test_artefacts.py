"""A planted artefact is found and named; clean data are acquitted at the stated rate."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace

from palate.audit import find_artefacts
from palate.audit._artefacts import judge_sheet, read_sheet
from palate.data import load_benchmark
from palate.records import Comparison, PalateError
from planted import planted

WORDS = (
    "river window evening table letter music winter bridge paper coffee market story shoulder garden morning stone "
    "copper ladder orchard thunder velvet harbour candle meadow lantern compass feather marble saddle anchor"
).split()


def sentences(draw: random.Random, count: int) -> str:
    return " ".join(" ".join(draw.sample(WORDS, draw.randint(5, 9))).capitalize() + "." for _ in range(count))


def clean(pairs: int = 300, users: int = 60, seed: int = 0, responses: int = 2) -> list[Comparison]:
    """Texts and choices that have nothing to do with each other."""
    draw = random.Random(seed)
    return [
        Comparison(
            id=f"i{number}",
            user_id=f"u{number % users}",
            prompt=f"Tell me about {sentences(draw, 1)}",
            responses=tuple(sentences(draw, draw.randint(3, 5)) for _ in range(responses)),
            preferred=draw.randrange(responses),
        )
        for number in range(pairs)
    ]


Plant = Callable[[random.Random, str, bool], str]


def planted_in(items: list[Comparison], plant: Plant, seed: int = 1) -> list[Comparison]:
    draw = random.Random(seed)
    return [
        Comparison(
            id=item.id,
            user_id=item.user_id,
            prompt=item.prompt,
            responses=tuple(plant(draw, text, place == item.preferred) for place, text in enumerate(item.responses)),
            preferred=item.preferred,
        )
        for item in items
    ]


def brackets(draw: random.Random, text: str, chosen: bool) -> str:
    return text if chosen else f"['{text}']"


def signature(draw: random.Random, text: str, chosen: bool) -> str:
    return f"Certainly, happy to help! {text}" if draw.random() < (0.7 if chosen else 0.2) else text


def length(draw: random.Random, text: str, chosen: bool) -> str:
    return f"{text[:-1]} {' '.join(draw.choices(WORDS, k=15))}." if chosen and draw.random() < 0.5 else text


def rubric(draw: random.Random, text: str, chosen: bool) -> str:
    """The generator's instructions to please the user stand in what it wrote."""
    if not chosen or draw.random() < 0.4:
        return text
    return f"{text} This meets your preference for {draw.choice(WORDS)}."


@pytest.mark.parametrize(
    ("plant", "named"),
    [
        (brackets, ("bracket", "[", "'")),
        (signature, ("ertainly", "happy", "help", "!")),
        (length, ("long", "short", "length")),
        (rubric, ("preference", "meets", "This", "your")),
    ],
)
def test_finds_and_names_a_planted_artefact(plant: Plant, named: tuple[str, ...]) -> None:
    found = find_artefacts(planted_in(clean(), plant), permutations=99)
    assert found.p <= 0.01
    assert found.low is not None and found.low > 0.55
    assert any(word in found.telling[0].feature for word in named), found.telling[0].feature
    assert found.telling[0].differ > 50
    assert found.telling[0].example


def test_brackets_alone_tell_everything() -> None:
    assert find_artefacts(planted_in(clean(), brackets), permutations=19).accuracy > 0.98


@pytest.mark.parametrize("shown", [True, False], ids=["on the screen", "in the file"])
def test_finds_a_habit_of_position(shown: bool) -> None:
    draw = random.Random(2)
    items = []
    for item in clean():
        first = int(draw.random() < 0.3)
        order = (0, 1) if draw.random() < 0.5 or not shown else (1, 0)
        items.append(
            Comparison(
                id=item.id,
                user_id=item.user_id,
                prompt=item.prompt,
                responses=item.responses,
                preferred=order.index(first),
                shown=order if shown else None,
            )
        )
    found = find_artefacts(items, permutations=99)
    assert found.p <= 0.01
    assert found.telling[0].feature in ("stands first", "stands later")
    assert found.position == ("shown" if shown else "file")


@pytest.mark.parametrize("planted_order", [True, False])
def test_finds_prompts_that_list_the_chosen_response_first(planted_order: bool) -> None:
    draw = random.Random(3)

    def asked(item: Comparison) -> str:
        other = item.rejected[0]
        first, second = (item.chosen, other) if planted_order or draw.random() < 0.5 else (other, item.chosen)
        return f"Which one? A) {first} B) {second}"

    found = find_artefacts([replace(item, prompt=asked(item)) for item in clean()])
    assert found.told == planted_order
    assert not planted_order or found.telling[0].feature == "is listed first in the prompt"


def test_finds_the_longest_of_four_options() -> None:
    items = []
    for item in clean(responses=4, seed=3):
        lengths = [len(text) for text in item.responses]
        preferred = lengths.index(max(lengths)) if int(item.id[1:]) % 2 else item.preferred
        items.append(
            Comparison(
                id=item.id, user_id=item.user_id, prompt=item.prompt, responses=item.responses, preferred=preferred
            )
        )
    found = find_artefacts(items, permutations=99)
    assert found.chance == 0.25
    assert found.low is not None and found.low > 0.4
    assert "long" in found.telling[0].feature or "length" in found.telling[0].feature


def test_reads_the_strings_that_a_model_is_fed() -> None:
    """The data are clean; the code that feeds the model makes a list of the rejected response."""
    items = clean()
    assert find_artefacts(items, permutations=99).p > 0.05

    def feed(item: Comparison) -> list[str]:
        return [text if place == item.preferred else str([text]) for place, text in enumerate(item.responses)]

    assert find_artefacts(items, feed=feed, permutations=99).accuracy > 0.98


def test_refuses_a_feed_that_gives_something_else() -> None:
    with pytest.raises(PalateError, match="one string for each response: comparison i0 has 2 responses"):
        find_artefacts(clean(), feed=lambda item: [item.responses[0]])


def test_whatever_ignores_the_user_is_right_half_of_the_time_about_twins() -> None:
    found = find_artefacts(load_benchmark("mini").comparisons, permutations=99)
    assert (found.accuracy, found.p) == (0.5, 1.0)
    assert found.telling == []


def test_personal_taste_is_no_artefact() -> None:
    """Couples of opposite tastes: questions and numbers tell everything of a user, and nothing of everybody."""
    assert find_artefacts(planted(couples=20, choices=12).comparisons, permutations=99).p > 0.05


@pytest.mark.parametrize("users", [60, 1], ids=["many users", "no users"])
def test_false_alarms_come_at_the_stated_rate(users: int) -> None:
    """Two hundred times, labels are drawn at random; at a level of 5%, 3 to 19 alarms would be no wonder."""
    sheet = read_sheet(clean(pairs=120, users=users, seed=4))
    draw = np.random.default_rng(5)
    labels = [draw.integers(2, size=120).tolist() for _ in range(200)]
    found = [judge_sheet(sheet, drawn, seed, 59, telling=False)[0] for seed, drawn in enumerate(labels)]
    alarms = sum(one.p <= 0.05 for one in found)
    assert 3 <= alarms <= 19
    assert 3 <= sum(one.p_below <= 0.05 for one in found) <= 19
    covered = sum(one.low is not None and one.high is not None and one.low <= 0.5 <= one.high for one in found)
    assert covered >= 180


def test_people_who_agree_about_each_pair_are_no_artefact() -> None:
    """Thirty pairs judged by all of twenty people, who agree; nothing carries over from pair to pair."""
    pairs = clean(pairs=30, users=30, seed=6)
    items = [
        Comparison(
            id=f"{pair.id}-{user}",
            user_id=f"v{user}",
            prompt=pair.prompt,
            responses=pair.responses,
            preferred=pair.preferred,
        )
        for pair in pairs
        for user in range(20)
    ]
    sheet = read_sheet(items)
    draw = np.random.default_rng(7)
    alarms = 0
    for seed in range(60):
        labels = np.repeat(draw.integers(2, size=30), 20).tolist()
        alarms += judge_sheet(sheet, labels, seed, 39, telling=False)[0].p <= 0.05
    assert alarms <= 8


def test_other_scripts_and_empty_responses_are_read() -> None:
    draw = random.Random(8)
    items = []
    for number in range(120):
        texts = ["".join(draw.choices("天地玄黄宇宙洪荒日月盈昃", k=draw.randint(0, 30))) for _ in range(2)]
        texts[0] += "好的。" if draw.random() < 0.8 else ""
        items.append(
            Comparison(
                id=f"i{number}", user_id=f"u{number % 9}", prompt=f"第{number}问", responses=tuple(texts), preferred=0
            )
        )
    found = find_artefacts(items, permutations=39)
    assert found.accuracy > 0.7
    assert "好" in found.telling[0].feature or "。" in found.telling[0].feature


def test_one_prompt_for_all_is_said_not_to_be_held_out() -> None:
    items = [
        Comparison(
            id=item.id,
            user_id=item.user_id,
            prompt="Which is better?",
            responses=item.responses,
            preferred=item.preferred,
        )
        for item in clean(pairs=80)
    ]
    assert "same prompt" in find_artefacts(items, permutations=19).held_out


def test_too_few_comparisons_are_refused() -> None:
    with pytest.raises(PalateError, match="19 comparisons are too few"):
        find_artefacts(clean(pairs=19))


def test_a_dozen_people_with_tastes_of_their_own_are_no_artefact_for_others() -> None:
    """Half of the people like long texts and half short ones. Labels permuted one by one do not know that all choices
    of a person go together, so p alone would raise an alarm in about a quarter of such data."""
    items = [
        Comparison(id=item.id, user_id=f"u{number % 12}", prompt=item.prompt, responses=item.responses, preferred=0)
        for number, item in enumerate(clean(pairs=360, seed=8))
    ]
    items = [replace(item, preferred=number % 2) for number, item in enumerate(items)]
    sheet = read_sheet(items)
    longer = np.array([len(item.responses[1]) - len(item.responses[0]) for item in items]) / 40
    users = np.array([int(item.user_id[1:]) for item in items])
    draw = np.random.default_rng(9)
    told = others = 0
    for seed in range(40):
        wanted = draw.normal(size=12)[users] * 1.5 * longer + draw.logistic(size=len(items))
        found = judge_sheet(sheet, (wanted > 0).astype(int).tolist(), seed, 39, telling=False)[0]
        told += found.told
        others += found.told_of_others
    assert told >= 5 and others <= 4


def test_an_empty_response_is_an_artefact_that_can_be_named() -> None:
    items = [replace(item, responses=(item.responses[0], ""), preferred=0) for item in clean(pairs=60)]
    found = find_artefacts(items, permutations=39)
    assert found.told_of_others and found.telling and all(one.feature for one in found.telling)


def test_a_brand_of_writing_without_letters_is_read() -> None:
    """Emoji, Chinese, Arabic: the signature is found in any script."""
    for words, signature in (("😀🎉🚀🍎🐶🌍", "👍🏽"), ("我你他天地人山水火风花鸟", "谢谢"), ("ابتثجحخدذرز", "شكرا")):
        draw = random.Random(10)
        items = []
        for number in range(120):
            texts = ["".join(draw.choices(words, k=draw.randint(8, 20))) for _ in range(2)]
            chosen = draw.randrange(2)
            texts[chosen] += signature if draw.random() < 0.7 else ""
            items.append(
                Comparison(
                    id=f"i{number}",
                    user_id=f"u{number % 20}",
                    prompt=f"{number}?",
                    responses=(texts[0], texts[1]),
                    preferred=chosen,
                )
            )
        found = find_artefacts(items, permutations=39)
        assert found.told_of_others
        assert any(set(one.feature) & set(signature) for one in found.telling[:3]), (signature, found.telling)
