"""One table of choices by person, where the history is the items: what is planted is found, and coins are not."""

import random
from collections import Counter
from pathlib import Path

import pytest

from palate.evaluation import ITEMS, Summary
from palate.personal import make_folds, train
from palate.records import Benchmark, Card, Comparison, Judgement, Post, Privileged, User, came_before
from palate.runs import VIEWS, open_run
from planted import WORDS

CARD = Card(name="one-table", title="One table", version="1", licence="CC0-1.0", source="a seed")
PEOPLE, CHOICES = 36, 8
PROTOCOLS = ("seen", "unseen", "leave-out:region")


def table(people: int = PEOPLE, choices: int = CHOICES, *, coins: bool = False, seed: int = 0) -> Benchmark:
    """Half of the people always take the longer text, half the shorter; with `coins`, everybody tosses one."""
    draw = random.Random(seed)
    comparisons, users = [], {}
    for number in range(people):
        name = f"person-{number:02}"
        own = []
        for place in range(choices):
            texts = [" ".join(draw.choices(WORDS, k=length)) for length in (draw.randint(6, 12), draw.randint(20, 40))]
            draw.shuffle(texts)
            longer = texts.index(max(texts, key=len))
            taken = draw.randint(0, 1) if coins else longer if number % 2 else 1 - longer
            own.append(
                Comparison(
                    id=f"{name}-{place}",
                    user_id=name,
                    prompt="Which of the two do you prefer?",
                    responses=tuple(texts),
                    preferred=taken,
                    sequence=place,
                )
            )
        comparisons += own
        judgements = tuple(
            Judgement(
                id=one.id, prompt=one.prompt, responses=one.responses, preferred=one.preferred, sequence=one.sequence
            )
            for one in own
        )
        region = ("north", "south", "east")[number // 2 % 3]
        users[name] = User(id=name, demographics={"region": region}, judgements=judgements)
    return Benchmark(card=CARD, users=users, comparisons=tuple(comparisons))


def gain(summary: Summary, over: str) -> tuple[float, float, float]:
    view = next(one.view for one in summary.results if one.view not in ("none", "swapped"))
    found = next(one for one in summary.gains if (one.rm, one.view, one.over) == ("per-user", view, over))
    assert found.low is not None and found.high is not None
    return found.difference, found.low, found.high


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_planted_is_found_whether_users_are_known_or_not(protocol: str, tmp_path: Path) -> None:
    summary = train(
        table(), ["per-user"], features="traits", protocol=protocol, folds=2, out=tmp_path, keep_models=False
    )
    for over in ("none", "swapped"):
        value, low, _ = gain(summary, over)
        assert low > 0.15
        assert value > 0.25
    lines = list(open_run(Path(summary.run)).read(VIEWS))
    if protocol != "seen":
        own = [line for line in lines if line.view.startswith("judgements")]
        empty = sum(line.kinds.get("judgement", 0) == 0 for line in own)
        assert empty == PEOPLE  # nobody has judgements before the first item, and everybody before the others
        known = Counter(item.known for item in list(open_run(Path(summary.run)).read(ITEMS)))
        assert known == dict.fromkeys(range(CHOICES), PEOPLE)


@pytest.mark.parametrize("protocol", ["seen", "unseen"])
def test_coins_stay_coins(protocol: str, tmp_path: Path) -> None:
    summary = train(
        table(coins=True), ["per-user"], features="traits", protocol=protocol, folds=2, out=tmp_path, keep_models=False
    )
    assert summary.split is not None and f"{PEOPLE * CHOICES} items of {PEOPLE} users" in summary.split
    for over in ("none", "swapped"):
        _, low, high = gain(summary, over)
        assert low < 0.02 and high > -0.02
    for result in summary.results:
        assert result.low is not None and result.high is not None
        assert result.low < 0.52 and result.high > 0.48


def test_a_cold_start_from_one_table(tmp_path: Path) -> None:
    summary = train(
        table(), ["per-user"], features="traits", cold_start=[0, 1, 4], folds=2, out=tmp_path, keep_models=False
    )
    steps = {result.view: result for result in summary.results if result.rm == "per-user"}
    assert {result.n for result in steps.values()} == {PEOPLE * (CHOICES - 4)}
    assert (steps["none"].accuracy or 1) < 0.6
    assert (steps["judgements:1"].accuracy or 0) > 0.6
    assert (steps["judgements:4"].accuracy or 0) > 0.9
    assert (steps["swapped:judgements:4"].accuracy or 1) < 0.65


def forum(askers: int = 30, questions: int = 5, seed: int = 0) -> Benchmark:
    """Shaped like Stack Exchange: every question is a post too, with its date, and its body is what was meant."""
    draw = random.Random(seed)
    comparisons, users = [], {}
    for number in range(askers):
        name, posts = f"asker-{number:02}", []
        for place in range(questions):
            day = f"2020-{1 + place:02}-{1 + number % 28:02}T10:00:00"
            body = " ".join(draw.choices(WORDS, k=30))
            posts.append(Post(id=f"{name}-{place}", text=f"About it\n{body}", date=day))
            comparisons.append(
                Comparison(
                    id=f"{name}-{place}",
                    user_id=name,
                    prompt=f"About it, {name} {place}",
                    responses=tuple(" ".join(draw.choices(WORDS, k=20)) for _ in range(3)),
                    preferred=draw.randint(0, 2),
                    date=day,
                    category=draw.choice(["one", "other"]),
                    privileged=Privileged(narrative=body),
                )
            )
        # The last question again, said to have been posted long before: a date can be wrong, and words cannot.
        posts.append(Post(id=f"{name}-again", text=posts[-1].text.upper(), date="2019-01-01"))
        users[name] = User(id=name, posts=tuple(posts), demographics={"region": "north" if number % 2 else "south"})
    return Benchmark(card=CARD, users=users, comparisons=tuple(comparisons))


@pytest.mark.parametrize("protocol", ["seen", "unseen", "leave-out:category", "leave-out:region"])
def test_no_narrative_and_no_later_post_is_learned_from(protocol: str) -> None:
    folds = make_folds(forum(), protocol, folds=3)
    assert sum(len(user.posts) for fold in folds for user in fold.trained_users.values()) > 0
    for fold in folds:
        posts = [(user.id, post) for user in fold.trained_users.values() for post in user.posts]
        for item in fold.test:
            narrative = item.privileged.narrative or ""
            assert not any(narrative in post.text.lower() for _, post in posts)
            assert all(came_before(post, item) for name, post in posts if name == item.user_id)
