"""Rewards of language models, on real models of random weights: the contract, and what each promises."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from palate import evaluate  # noqa: E402
from palate.engine import (  # noqa: E402
    ChooseRequest,
    Chosen,
    Conversation,
    Failure,
    LikelihoodRequest,
    Turn,
    WriteRequest,
    Written,
)
from palate.evaluate import Run, summarise  # noqa: E402
from palate.evaluate._ratings import Ratings  # noqa: E402
from palate.records import Ask, PalateError, Part, Rating, View  # noqa: E402
from palate.rewards import _grader as grader_module  # noqa: E402
from palate.rewards import _judge as judge_module  # noqa: E402
from palate.rewards import check_reward_model, make_reward_model, rate, read_again  # noqa: E402
from palate.rewards._prompts import conversation, grader_conversation, judge_conversation  # noqa: E402
from tiny_models import CLASSIFIERS, TinyModels, build, save, tokenizer  # noqa: E402

TEA = View(name="posts:1", parts=(Part(kind="post", id="p", text="I gave up coffee."),), user_id="ann")
ASK = Ask(id="q", prompt="What should I drink?", responses=("Green tea.", "A double espresso on the run."), view=TEA)
WANTED = (Part(kind="aspect", text="Wants tea", content="tea"), Part(kind="aspect", text="Wants calm", content="calm"))
ASPECTS = View(name="oracle", parts=WANTED)
KINDS = {
    "judge": "judge:{model}",
    "judge by text": "judge:{model},verdict=text,tokens=4",
    "grader": "grader:{model}",
    "grader by text": "grader:{model},grade=text,tokens=4",
    "likelihood": "likelihood:{model}",
    "pmi": "pmi:{model}",
    "dpo": "dpo:{model},reference={other}",
    "aspects": "aspects:{model}",
}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _no_shared_answers(own_cache: Path) -> None:
    """Whatever is answered here was computed here."""


def posts(count: int, words: int = 12) -> View:
    parts = tuple(Part(kind="post", id=f"p{n}", text=f"Post {n}: " + "tea " * words) for n in range(count))
    return View(name=f"posts:{count}", parts=parts, user_id="ann")


def with_view(ask: Ask, view: View) -> Ask:
    return msgspec.structs.replace(ask, view=view)


def scores(rating: Rating) -> list[float]:
    assert rating.scores is not None, rating.unscored
    return list(rating.scores)


@pytest.mark.parametrize("family", CLASSIFIERS)
def test_classifiers_keep_the_contract(tiny_models: TinyModels, family: str) -> None:
    template = {"gemma2": "no system", "bert": "none"}.get(family, "chatml")
    checks = check_reward_model(make_reward_model(f"hf:{tiny_models.classifier(family, template)}"), [ASK])
    assert checks[-1].remark is not None
    assert checks[-1].remark.startswith("another favourite in the other order on 0 of")


@pytest.mark.parametrize("family", ["llama", "gemma3"])
@pytest.mark.parametrize("kind", KINDS)
def test_language_models_keep_the_contract(tiny_models: TinyModels, kind: str, family: str) -> None:
    template = "no system" if family == "gemma3" else "chatml"
    folders = {"model": tiny_models.causal(family, template), "other": tiny_models.causal(family, template, seed=1)}
    model = make_reward_model(KINDS[kind].format(**folders))
    assert not getattr(model, "order_sensitive", False)
    aspects = View(
        name="oracle", parts=tuple(Part(kind="aspect", text=f"Wants {x}", content=x) for x in ("tea", "calm"))
    )
    check_reward_model(model, [ASK, with_view(ASK, aspects)])


@pytest.mark.parametrize("kind", ["judge", "grader", "likelihood", "aspects"])
def test_a_model_without_a_template_will_do(tiny_models: TinyModels, kind: str) -> None:
    model = make_reward_model(f"{kind}:{tiny_models.causal('gpt2', 'none')}")
    assert len(set(scores(rate(model, [ASK])[0]))) == 2


@pytest.mark.parametrize("template", ["chatml", "no system", "deaf to system", "bos", "tight"])
@pytest.mark.parametrize("kind", ["classifier", "likelihood"])
def test_the_view_reaches_the_model_whatever_the_template(tiny_models: TinyModels, kind: str, template: str) -> None:
    make = tiny_models.classifier if kind == "classifier" else tiny_models.causal
    model = make_reward_model(f"{kind}:{make('llama', template)}")
    seen, unseen = rate(model, [ASK, with_view(ASK, View(name="none"))])
    assert max(abs(a - b) for a, b in zip(scores(seen), scores(unseen), strict=True)) > 1e-3


def test_the_place_of_the_view_can_be_said(tiny_models: TinyModels) -> None:
    folder = tiny_models.classifier()
    found = {place: make_reward_model(f"hf:{folder},view={place}") for place in ("auto", "system", "user")}
    assert scores(found["auto"].rate([ASK])[0]) == scores(found["system"].rate([ASK])[0])
    assert scores(found["auto"].rate([ASK])[0]) != scores(found["user"].rate([ASK])[0])
    assert found["system"].fingerprint != found["user"].fingerprint  # type: ignore[attr-defined]
    refusing = tiny_models.classifier(template="no system")
    with pytest.raises(PalateError, match="refuses system turns"):
        make_reward_model(f"hf:{refusing},view=system")
    assert scores(make_reward_model(f"hf:{refusing}").rate([ASK])[0])


def test_pmi_is_nothing_without_a_view(tiny_models: TinyModels) -> None:
    model = make_reward_model(f"pmi:{tiny_models.causal()}")
    bare, empty, seen = rate(model, [with_view(ASK, View(name="none")), with_view(ASK, View(name="posts:5")), ASK])
    assert scores(bare) == scores(empty) == [0.0, 0.0]
    plain = make_reward_model(f"likelihood:{tiny_models.causal()}")
    with_it, without = rate(plain, [ASK, with_view(ASK, View(name="none"))])
    expected = [a - b for a, b in zip(scores(with_it), scores(without), strict=True)]
    assert scores(seen) == pytest.approx(expected, abs=1e-6)


def test_dpo_prefers_what_the_model_was_tuned_to(tiny_models: TinyModels, tmp_path: Path) -> None:
    """A few steps of DPO's own loss on one pair: the implicit reward must come out on its side, by its margin."""
    model, reference = build("llama"), build("llama")
    words = tokenizer()
    turns = [{"role": turn.role, "content": turn.content} for turn in conversation(ASK)]
    asked = words.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    start = len(words(asked, add_special_tokens=False)["input_ids"])

    def log_probability(one: Any, text: str) -> Any:
        ids = torch.tensor(words(f"{asked}{text}<|im_end|>", add_special_tokens=False)["input_ids"])
        logs = one(input_ids=ids[None]).logits[0, :-1].log_softmax(-1)
        return logs.gather(1, ids[1:, None])[start - 1 :].sum()

    disliked, liked = ASK.responses
    with torch.no_grad():
        before = [log_probability(reference, text) for text in (liked, disliked)]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(12):
        after = [log_probability(model, text) for text in (liked, disliked)]
        margin = (after[0] - before[0]) - (after[1] - before[1])
        optimizer.zero_grad()
        (-torch.nn.functional.logsigmoid(0.1 * margin)).backward()
        optimizer.step()
    with torch.no_grad():
        after = [log_probability(model, text) for text in (liked, disliked)]
    tuned, plain = save(tmp_path / "tuned", model), save(tmp_path / "plain", reference)
    [found] = rate(make_reward_model(f"dpo:{tuned},reference={plain},beta=0.1"), [ASK])
    expected = [0.1 * float(after[1] - before[1]), 0.1 * float(after[0] - before[0])]
    assert scores(found) == pytest.approx(expected, rel=1e-3, abs=1e-3)
    assert scores(found)[1] > scores(found)[0] + 0.1
    [same] = rate(make_reward_model(f"dpo:{plain},reference={plain}"), [ASK])
    assert scores(same) == [0.0, 0.0]


@pytest.mark.parametrize(
    "spec",
    [
        "classifier:{classifier}",
        "likelihood:{model}",
        "pmi:{model}",
        "dpo:{model},reference={other}",
        "judge:{model}",
        "judge:{model},verdict=text,tokens=24",
        "grader:{model}",
        "grader:{model},grade=text,tokens=24",
        "aspects:{model}",
    ],
)
def test_a_view_that_is_too_long_gives_way(tiny_models: TinyModels, spec: str) -> None:
    """The most relevant parts stay, no response is cut, and the rating says what was left out."""
    folders = {
        "model": tiny_models.causal(),
        "other": tiny_models.causal(seed=1),
        "classifier": tiny_models.classifier(),
    }
    model = make_reward_model(spec.format(**folders))
    long = posts(40)
    [found] = model.rate([with_view(ASK, long)])
    assert found.note is not None or found.unscored in ("a verdict could not be read", "a grade could not be read")
    if found.note is None:
        return
    note = found.note.rpartition("; ")[2]
    dropped = int(note.split()[0])
    assert note == f"{dropped} of 40 parts of the view did not fit the model's context"
    assert 0 < dropped < 40
    [same] = model.rate([with_view(ASK, posts(40 - dropped))])
    assert same.scores == found.scores
    assert same.note is None or "did not fit" not in same.note
    shorter = msgspec.structs.replace(long, parts=long.parts[: 40 - dropped - 1])
    [other] = model.rate([with_view(ASK, shorter)])
    if "pmi" in spec or "likelihood" in spec or "classifier" in spec:
        assert other.scores != found.scores


@pytest.mark.parametrize("kind", ["classifier", "likelihood", "pmi", "judge", "grader", "aspects"])
def test_a_response_that_does_not_fit_is_unscored_and_says_why(tiny_models: TinyModels, kind: str) -> None:
    make = tiny_models.classifier if kind == "classifier" else tiny_models.causal
    model = make_reward_model(f"{kind}:{make()}")
    long = msgspec.structs.replace(ASK, id="long", responses=("Tea.", "word " * 600))
    failed, fine = rate(model, [long, ASK])
    assert failed.unscored is not None
    assert failed.unscored.startswith("needs ")
    assert failed.unscored.endswith("the model's context has 512")
    assert failed.scores is None
    assert scores(fine)


def test_the_longest_response_is_the_one_with_most_tokens(tiny_models: TinyModels) -> None:
    """Sixty characters of the far planes are more tokens than hundreds of plain letters."""
    model = make_reward_model(f"likelihood:{tiny_models.causal()}")
    dense, wordy = "\U0001f9d1" * 60, "the " * 70
    ask = msgspec.structs.replace(ASK, responses=(dense, wordy), view=posts(8))
    [found] = rate(model, [ask])
    assert len(scores(found)) == 2


def test_likelihood_needs_a_model_of_ones_own() -> None:
    with pytest.raises(PalateError, match="a chat server does not tell"):
        make_reward_model("likelihood:m,url=http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("judge:{model},verdict=maybe", "probabilities, text or auto"),
        ("grader:{model},grade=good", "probabilities, text or auto"),
        ("grader:{model},tokens=0", "whole number from 1"),
        ("judge:{model},colour=red", "colour"),
        ("likelihood:{model},dtype=int3", "float32, bfloat16 or float16"),
        ("dpo:{model}", "reference"),
        ("dpo:{model},reference={model},beta=much", "beta=much"),
        ("hf:{model},index=one", "index=one"),
        ("hf:{model},view=above", "view=above"),
        ("hf:{model},trust_remote_code=perhaps", "true or false"),
        ("judge:m,url=http://127.0.0.1:9/v1,prices=cheap", "prices=cheap"),
        ("judge:m,url=http://127.0.0.1:9/v1,most_spent=little", "most_spent=little"),
    ],
)
def test_options_that_mean_nothing(tiny_models: TinyModels, spec: str, said: str) -> None:
    with pytest.raises(PalateError, match=said):
        make_reward_model(spec.format(model=tiny_models.causal()))


# Judges and graders that say what the test wants.


class Scripted:
    """A language model that answers by a function of the last turn."""

    name = fingerprint = "scripted"
    context = None

    def __init__(self, says: Callable[[str], str | Failure], shares: Callable[[str], Chosen | Failure] | None = None):
        self.says, self.shares = says, shares
        self.chosen = self.written = 0

    def status(self) -> str:
        return ""

    def count_tokens(self, turns: Conversation) -> int | None:
        return None

    def write(self, requests: Sequence[WriteRequest]) -> list[list[Written] | Failure]:
        self.written += len(requests)
        found = [self.says(request.turns[-1].content) for request in requests]
        return [one if isinstance(one, Failure) else [Written(text=one, tokens=1, finished=True)] for one in found]

    def choose(self, requests: Sequence[ChooseRequest]) -> list[Chosen | Failure]:
        self.chosen += len(requests)
        if self.shares is None:
            return [Failure("the server gives no token probabilities") for _ in requests]
        return [self.shares(request.turns[-1].content) for request in requests]

    def likelihood(self, requests: Sequence[LikelihoodRequest]) -> list[Any]:
        return [Failure("this model only writes and chooses") for _ in requests]


def scripted(monkeypatch: pytest.MonkeyPatch, spec: str, model: Scripted) -> Any:
    for module in (judge_module, grader_module):
        monkeypatch.setattr(module, "open_language_model", lambda name, **options: model)
    return make_reward_model(spec)


def first_is_tea(text: str) -> bool:
    return "Response A:\n\nGreen tea." in text


def test_a_judge_that_agrees_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Scripted(lambda text: "[[A]]" if first_is_tea(text) else "I take B. [[B]]")
    [found] = rate(scripted(monkeypatch, "judge:m,verdict=text", model), [ASK])
    assert scores(found) == [1.0, 0.0]
    assert found.verdicts == ("A", "B")
    assert found.raw is not None and json.loads(found.raw)["judge"] == ["[[A]]", "I take B. [[B]]"]
    assert read_again(found) == found


def test_a_judge_that_always_takes_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    [found] = rate(scripted(monkeypatch, "judge:m,verdict=text", Scripted(lambda text: "[[A]]")), [ASK])
    assert scores(found) == [0.5, 0.5]
    assert found.verdicts == ("A", "A")


def test_a_judge_that_sees_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    [found] = rate(scripted(monkeypatch, "judge:m,verdict=text", Scripted(lambda text: "It is a tie.")), [ASK])
    assert scores(found) == [0.5, 0.5]
    assert found.verdicts == ("tie", "tie")


def test_a_judge_of_three_meets_every_pair_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Scripted(lambda text: "[[A]]" if first_is_tea(text) else "[[B]]" if "B:\n\nGreen" in text else "[[A]]")
    three = msgspec.structs.replace(ASK, responses=("Water.", "Green tea.", "Milk."))
    [found] = rate(scripted(monkeypatch, "judge:m,verdict=text", model), [three])
    assert model.written == 6
    assert scores(found) == [0.25, 1.0, 0.25]
    assert found.verdicts is not None and len(found.verdicts) == 6
    assert read_again(found) == found


def test_probabilities_are_the_mean_of_both_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    def shares(text: str) -> Chosen:
        share = 0.9 if first_is_tea(text) else 0.3
        return Chosen(probabilities=(share, 1 - share), mass=0.8)

    [found] = rate(scripted(monkeypatch, "judge:m", Scripted(lambda text: "", shares)), [ASK])
    assert scores(found) == pytest.approx([0.8, 0.2])
    assert found.probabilities == pytest.approx((0.8, 0.2))
    assert (found.verdicts, found.raw) == (("A", "B"), None)


@pytest.mark.parametrize("text", ["I cannot say.", "Verdict: A ... Verdict: B", ""])
def test_a_verdict_that_cannot_be_read_is_kept_and_not_guessed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    model = Scripted(lambda asked: "[[A]]" if first_is_tea(asked) else text)
    [found] = rate(scripted(monkeypatch, "judge:m,verdict=text", model), [ASK])
    assert found.unscored == "a verdict could not be read"
    assert found.raw is not None and json.loads(found.raw)["judge"] == ["[[A]]", text]
    assert read_again(found) == found


@pytest.mark.parametrize(("spec", "said"), [("judge:m,verdict=text", "[[A]]"), ("grader:m,grade=text", "7")])
def test_one_answer_that_never_came_leaves_the_ask_unscored(
    monkeypatch: pytest.MonkeyPatch, spec: str, said: str
) -> None:
    """Read again, what did come must not be taken for the whole."""

    def says(text: str) -> str | Failure:
        first = first_is_tea(text) or "Response:\n\nGreen" in text
        return Failure("content filter") if first else said

    [found] = rate(scripted(monkeypatch, spec, Scripted(says)), [ASK])
    assert found.unscored == "content filter"
    assert found.raw is not None and said in found.raw
    assert read_again(found) == found


def test_grades_are_read_from_text_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Scripted(lambda text: "8/9" if "Response:\n\nGreen" in text else "I would say 3.")
    [found] = rate(scripted(monkeypatch, "grader:m,grade=text", model), [ASK])
    assert scores(found) == [8.0, 3.0]
    assert read_again(found) == found
    [unreadable] = rate(scripted(monkeypatch, "grader:m,grade=text", Scripted(lambda text: "no")), [ASK])
    assert unreadable.unscored == "a grade could not be read"
    assert read_again(unreadable) == unreadable


def test_what_a_reader_should_know_survives_reading_again() -> None:
    raw = msgspec.json.encode({"judge": ["[[A]]", "[[B]]"], "responses": 2}).decode()
    kept = Rating([1.0, 0.0], raw=raw, note="2 of 3 parts did not fit", verdicts=("A", "B"))
    assert read_again(kept) == kept
    assert read_again(Rating([1.0, 0.0], raw="words of another model")).raw == "words of another model"
    short = Rating(unscored="content filter", raw=json.dumps({"judge": ["[[A]]"], "responses": 2}))
    assert read_again(short) == short  # as runs wrote it before a missing answer had a place


@pytest.mark.parametrize("kind", ["judge", "grader"])
def test_whether_text_is_asked_for_does_not_depend_on_the_batch(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Where probabilities are missing for one ask, that ask is answered in text, alone or among others."""
    digits = (1 / 9,) * 9

    def shares(text: str) -> Chosen | Failure:
        if "Odd?" in text:
            return Failure("no letter among the likeliest tokens")
        return Chosen(probabilities=(0.75, 0.25) if kind == "judge" else digits, mass=1.0)

    model = scripted(monkeypatch, f"{kind}:m", Scripted(lambda text: "[[A]]" if kind == "judge" else "5", shares))
    odd = msgspec.structs.replace(ASK, id="odd", prompt="Odd?")
    together = rate(model, [ASK, odd])
    assert together == [rate(model, [ask])[0] for ask in (ASK, odd)]
    assert together[0].raw is None and together[1].raw is not None
    assert together[1].scores is not None


def test_a_server_without_probabilities_is_asked_for_text(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Scripted(lambda text: "[[A]]" if first_is_tea(text) else "[[B]]")
    [found] = rate(scripted(monkeypatch, "judge:m", model), [ASK])
    assert scores(found) == [1.0, 0.0]
    [lost] = rate(scripted(monkeypatch, "judge:m,verdict=probabilities", Scripted(lambda text: "[[A]]")), [ASK])
    assert lost.unscored == "the server gives no token probabilities"


def test_aspects_are_those_of_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    def shares(text: str) -> Chosen:
        grade = 9 if "Look only at this: tea" in text else 1
        return Chosen(probabilities=tuple(float(digit == grade) for digit in range(1, 10)), mass=1.0)

    model = scripted(monkeypatch, "aspects:m", Scripted(lambda text: "", shares))
    named, whole = rate(model, [with_view(ASK, ASPECTS), ASK])
    assert scores(named) == [5.0, 5.0]
    assert scores(whole) == [1.0, 1.0]
    assert whole.note == "graded on the whole: the view shows no aspects"


def test_prompts_show_the_view_and_both_responses() -> None:
    for turns in (judge_conversation(ASK, 1, 0), grader_conversation(ASK, 0, "warmth"), conversation(ASK, "user")):
        assert isinstance(turns[-1], Turn)
        assert "I gave up coffee." in turns[-1].content and ASK.prompt in turns[-1].content
    text = judge_conversation(ASK, 1, 0)[0].content
    assert text.index(ASK.responses[1]) < text.index(ASK.responses[0])
    assert "What is known" not in judge_conversation(with_view(ASK, View(name="none")), 0, 1)[0].content


# Runs, and the cache of answers.


def test_two_models_never_share_an_answer(tiny_models: TinyModels) -> None:
    one, other = (make_reward_model(f"likelihood:{tiny_models.causal(seed=seed)}") for seed in (0, 1))
    first = rate(one, [ASK])
    assert rate(other, [ASK]) != first
    assert rate(one, [ASK]) == first
    again = make_reward_model(f"likelihood:{tiny_models.causal(seed=0)}")
    again._model._model.likelihood = None  # type: ignore[attr-defined]  # what was answered is not asked again
    assert rate(again, [ASK]) == first


def test_a_run_with_verdicts_in_text_is_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Reading again must not forget in which order the judge saw the responses."""

    def says(text: str) -> str:
        one, other = text.split("Response A:\n\n")[1].split("\n\nResponse B:\n\n")
        return "[[A]]" if len(one) > len(other.split("\n\nWhich response would")[0]) else "[[B]]"

    judge = scripted(monkeypatch, "judge:m,verdict=text", Scripted(says))
    summary = evaluate("mini", [judge], ["none"], limit=20, out=tmp_path)
    run = Run.open(Path(summary.run))
    judged, again = (Ratings.of(run, again=again).rated(judge.name, "none") for again in (False, True))
    for item in run.items():
        longer = max(range(2), key=lambda index: len(item.responses[index]))
        assert scores(judged[item.id])[longer] == 1.0
    assert summarise(run, again=True).results[0].orders == summary.results[0].orders
    assert again == judged


def test_the_built_in_model_knows_fluent_from_shuffled(smollm2: Path) -> None:
    sentences = (
        "Green tea is best when the water is not quite boiling.",
        "She closed the window because it had started to rain.",
        "The train to the coast leaves twice a day in winter.",
        "You can learn a language by speaking it from the first day.",
        "He read the letter slowly and put it back in the drawer.",
    )
    model = make_reward_model(f"likelihood:{smollm2}")
    asks = [
        Ask(id=text, prompt="Write one sentence.", responses=(text, " ".join(text.split()[::-1]))) for text in sentences
    ]
    for rating in rate(model, asks):
        fluent, shuffled = scores(rating)
        assert fluent > shuffled + 0.5
