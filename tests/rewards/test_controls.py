"""Controls understand nothing, and on twins they are right exactly half the time."""

from palate.records import Ask, Judgement, Part, View
from palate.rewards import make_reward_model, rate


def scores(name: str, *responses: str, view: View | None = None, shown: tuple[int, ...] | None = None) -> list[float]:
    ask = Ask(id="a", prompt="What now?", responses=responses, view=view or View(name="none"), shown=shown)
    [rating] = rate(make_reward_model(name), [ask])
    return list(rating.scores or ())


def test_longest_and_shortest_count_characters() -> None:
    assert scores("longest", "ab", "abc") == [2, 3]
    assert scores("shortest", "ab", "abc") == [-2, -3]


def test_first_takes_what_the_person_saw_first_where_that_is_known() -> None:
    assert scores("first", "a", "b", "c") == [0, -1, -2]
    assert scores("first", "a", "b", "c", shown=(2, 0, 1)) == [-2, 0, -1]


def test_random_is_the_same_for_the_same_text_wherever_it_stands() -> None:
    one, other = scores("random", "tea", "coffee")
    assert scores("random", "coffee", "tea") == [other, one]
    assert 0 <= one < 1
    assert scores("random:1", "tea", "coffee") != [one, other]


def test_overlap_counts_words_shared_with_the_view() -> None:
    view = View(name="posts:1", parts=(Part(kind="post", text="I love green tea."),))
    assert scores("overlap", "green tea", "black coffee", view=view) == [1.0, 0.0]
    assert scores("overlap", "green tea", "black coffee") == [0.0, 0.0]


def test_overlap_takes_the_chosen_side_of_a_judgement_only() -> None:
    judgement = Judgement(prompt="Drink?", responses=("tea", "coffee"), preferred=0, reason="gentle")
    view = View(name="judgements:1", parts=(Part(kind="judgement", text="tea over coffee", judgement=judgement),))
    assert scores("overlap", "coffee", "tea", "gentle", view=view) == [0.0, 1.0, 1.0]
