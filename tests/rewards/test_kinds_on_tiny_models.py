"""The kinds of reward models that are language models, on real ones of random weights: what each promises."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from one_ask import ASK, ASPECTS, NOTHING_KNOWN, scores, with_view  # noqa: E402
from palate.records import Ask, PalateError, Part, View  # noqa: E402
from palate.rewards import check_reward_model, make_reward_model, rate  # noqa: E402
from palate.rewards._prompts import conversation  # noqa: E402
from tiny_models import CLASSIFIERS, TinyModels, build, save, tokenizer  # noqa: E402

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


@pytest.fixture(autouse=True)
def _no_shared_answers(own_cache: Path) -> None:
    """Whatever is answered here was computed here."""


def posts(count: int, words: int = 12) -> View:
    parts = tuple(Part(kind="post", id=f"p{n}", text=f"Post {n}: " + "tea " * words) for n in range(count))
    return View(name=f"posts:{count}", parts=parts, user_id="ann")


# The contract, whatever the family of models and its template.


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
    check_reward_model(model, [ASK, with_view(ASK, ASPECTS)])


@pytest.mark.parametrize("kind", ["judge", "grader", "likelihood", "aspects"])
def test_a_model_without_a_template_will_do(tiny_models: TinyModels, kind: str) -> None:
    model = make_reward_model(f"{kind}:{tiny_models.causal('gpt2', 'none')}")
    assert len(set(scores(rate(model, [ASK])[0]))) == 2


def test_two_models_never_share_an_answer(tiny_models: TinyModels) -> None:
    one, other = (make_reward_model(f"likelihood:{tiny_models.causal(seed=seed)}") for seed in (0, 1))
    first = rate(one, [ASK])
    assert rate(other, [ASK]) != first
    assert rate(one, [ASK]) == first
    again = make_reward_model(f"likelihood:{tiny_models.causal(seed=0)}")
    again._model.model.likelihood = None  # type: ignore[attr-defined]  # what was answered is not asked again
    assert rate(again, [ASK]) == first


# What a model is shown of the user.


@pytest.mark.parametrize("template", ["chatml", "no system", "deaf to system", "bos", "tight"])
@pytest.mark.parametrize("kind", ["classifier", "likelihood"])
def test_the_view_reaches_the_model_whatever_the_template(tiny_models: TinyModels, kind: str, template: str) -> None:
    make = tiny_models.classifier if kind == "classifier" else tiny_models.causal
    model = make_reward_model(f"{kind}:{make('llama', template)}")
    seen, unseen = rate(model, [ASK, with_view(ASK, NOTHING_KNOWN)])
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


# What the scores of a kind mean.


def test_pmi_is_nothing_without_a_view(tiny_models: TinyModels) -> None:
    model = make_reward_model(f"pmi:{tiny_models.causal()}")
    bare, empty, seen = rate(model, [with_view(ASK, NOTHING_KNOWN), with_view(ASK, View(name="posts:5")), ASK])
    assert scores(bare) == scores(empty) == [0.0, 0.0]
    plain = make_reward_model(f"likelihood:{tiny_models.causal()}")
    with_it, without = rate(plain, [ASK, with_view(ASK, NOTHING_KNOWN)])
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


# What does not fit the context.


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


# What is refused.


def test_likelihood_behind_a_server_needs_the_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(PalateError, match="there is no folder"):
        make_reward_model(f"likelihood:m,url=http://127.0.0.1:9/v1,tokenizer={tmp_path / 'none'}")


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
