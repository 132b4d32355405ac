"""A language model that grades a text aspect by aspect."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from faulty_server import faulty_server
from palate.data import load_benchmark
from palate.downstream import RubricCritic, make_critic
from palate.downstream._rubric import WORDS, rubric_conversation
from palate.engine import (
    ChooseRequest,
    Chosen,
    Conversation,
    Failure,
    Likelihood,
    LikelihoodRequest,
    WriteRequest,
    Written,
)
from palate.records import Aspect, Completion, Critic, Draft, Grade, PalateError, Privileged
from tiny_models import TinyModels

CALM = Aspect(aspect="calm", reason="noise tires them", evidence="left a loud café")
TEA = Aspect(aspect="tea")
ITEM = Completion(
    id="i",
    user_id="ann",
    prompt="What to drink?",
    privileged=Privileged(narrative="I gave up coffee.", aspects=(CALM, TEA)),
)
DRAFT = Draft(item=ITEM, text="Green tea, slowly.")


class Scripted:
    """A language model that writes by a function of what it is asked."""

    name = fingerprint = "scripted"
    context = None

    def __init__(self, says: Callable[[str], str | Failure]) -> None:
        self.says = says
        self.asked: list[str] = []

    def status(self) -> str:
        return ""

    def count_tokens(self, turns: Conversation) -> int | None:
        return None

    def write(self, requests: Sequence[WriteRequest]) -> list[list[Written] | Failure]:
        self.asked += [request.turns[-1].content for request in requests]
        found = [self.says(request.turns[-1].content) for request in requests]
        return [one if isinstance(one, Failure) else [Written(text=one, tokens=1, finished=True)] for one in found]

    def choose(self, requests: Sequence[ChooseRequest]) -> list[Chosen | Failure]:
        return [Failure("this model only writes") for _ in requests]

    def likelihood(self, requests: Sequence[LikelihoodRequest]) -> list[list[Likelihood] | Failure]:
        return [Failure("this model only writes") for _ in requests]


def judged(says: Callable[[str], str | Failure]) -> Grade:
    [mark] = RubricCritic(Scripted(says)).judge([DRAFT])
    return mark


def about_tea(text: str) -> bool:
    return "Judge one thing only: tea" in text


def test_the_score_is_the_sum_over_twice_the_number_of_aspects() -> None:
    mark = judged(lambda text: "2" if about_tea(text) else "Score: 1")
    assert mark == Grade(score=3 / 4, parts={"calm": 1, "tea": 2})
    assert judged(lambda text: "0").score == 0 and judged(lambda text: "**2** because it is.").score == 1


def test_one_call_for_each_aspect_with_all_that_is_known_of_it() -> None:
    model = Scripted(lambda text: "1")
    RubricCritic(model).judge([DRAFT, Draft(item=ITEM, text="Rum.")])
    assert len(model.asked) == 4
    for known in ("What to drink?", "I gave up coffee.", "Green tea, slowly.", "calm", CALM.reason, CALM.evidence):
        assert str(known) in model.asked[0]
    assert "None" not in model.asked[1] and "Why this user cares" not in model.asked[1]
    bare = Draft(item=Completion(id="b", user_id="ann", prompt="p"), text="t")
    assert "had in mind" not in rubric_conversation(bare, TEA)[0].content


@pytest.mark.parametrize(
    "said", ["3", "1 or 2", "1.5", "7/10", "I cannot say.", "", "0 1 2", Failure("the server is down")]
)
def test_an_aspect_that_cannot_be_read_leaves_the_draft_unscored(said: str | Failure) -> None:
    mark = judged(lambda text: "2" if about_tea(text) else said)
    assert mark.score is None and mark.parts == {"tea": 2}
    reason = said.reason if isinstance(said, Failure) else "no 0, 1 or 2 could be read"
    assert (mark.unscored or "").startswith("1 of 2 aspects have a score; 'calm': ") and reason in (mark.unscored or "")


def test_two_aspects_of_one_name_both_count() -> None:
    item = Completion(id="i", user_id="ann", prompt="p", privileged=Privileged(aspects=(TEA, TEA)))
    answers = iter("12")
    [mark] = RubricCritic(Scripted(lambda text: next(answers))).judge([Draft(item=item, text="t")])
    assert mark == Grade(score=3 / 4, parts={"tea": 1, "tea (2)": 2})


def test_without_aspects_an_item_is_unscored_and_a_benchmark_refused() -> None:
    critic = RubricCritic(Scripted(lambda text: "1"))
    bare = Completion(id="b", user_id="ann", prompt="p")
    first, second = critic.judge([Draft(item=bare, text="t"), DRAFT])
    assert first.unscored == "the item has no rubric aspects" and second.score == 0.5
    critic.require([bare, ITEM])
    with pytest.raises(PalateError, match="judges by rubric aspects, and none of the 1 items has any; use a benchmark"):
        critic.require([bare])
    assert critic.judge([]) == []


def test_a_real_model_is_asked_by_name_and_remembered(tiny_models: TinyModels, own_cache: Path) -> None:
    folder = tiny_models.causal()
    critic = make_critic(f"rubric:{folder},tokens=4", load_benchmark("mini"))
    assert isinstance(critic, Critic) and critic.name == f"rubric:{folder}"
    [mark] = critic.judge([DRAFT])
    assert (mark.score is None) != (mark.unscored is None)
    assert critic.judge([DRAFT]) == [mark]
    assert (own_cache / "answers.sqlite").exists()
    assert critic.fingerprint != make_critic(f"rubric:{folder},tokens=5", load_benchmark("mini")).fingerprint


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with faulty_server() as address:
        yield address


def test_a_server_whose_answer_is_no_grade_leaves_the_draft_unscored(server: str, own_cache: Path) -> None:
    critic = make_critic(f"rubric:m,url={server}/plain/v1", load_benchmark("mini"))
    [mark] = critic.judge([DRAFT])
    assert "0 of 2 aspects have a score" in (mark.unscored or "")


@pytest.mark.parametrize(
    ("spec", "message"),
    [("rubric:m,tokens=no", "expected a whole number from 1"), ("rubric:m,urll=x", "Did you mean 'url'")],
)
def test_wrong_options_of_the_rubric_are_refused(spec: str, message: str) -> None:
    with pytest.raises(PalateError, match=message):
        make_critic(spec, load_benchmark("mini"))


def test_the_prompt_is_documented_word_for_word() -> None:
    page = (Path(__file__).parents[2] / "docs/critics.md").read_text(encoding="utf-8")
    assert f"```text\n{WORDS}\n```" in page
