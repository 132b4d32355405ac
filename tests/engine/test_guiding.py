"""Texts followed while they grow get the scores that the whole texts get, read alone."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from palate.engine import LikelihoodRequest, LocalClassifier, LocalModel, Turn  # noqa: E402
from palate.engine._chat import Chat  # noqa: E402
from palate.engine._incremental import answered  # noqa: E402
from palate.engine._reader import Reader  # noqa: E402
from tiny_models import CAUSAL, TEMPLATES, TinyModels, build, tokenizer  # noqa: E402

TALKS = (
    (Turn("system", "What is known about the user: green tea, slowly."), Turn("user", "What should I drink?")),
    (Turn("user", "Which response would this particular user prefer, and why? " * 6),),
    (Turn("user", "Hi"),),
)
CLOSE = {"rel": 1e-4, "abs": 1e-4}
PIECES = [
    "The",
    " kettle",
    " sings",
    " and",
    " the",
    " gar",
    "den",
    " wai",
    "ts",
    ".",
    "\n\n",
    " é",
    "t",
    "é",
    " 茶",
    " !",
]


def growing(seed: int, steps: int = 8, most: int = 5) -> Iterator[dict[int, list[str]]]:
    """Candidates for each of the talks, step by step; talks end one after another, and pieces tokenize oddly."""
    chance = random.Random(seed)
    texts = ["" for _ in TALKS]
    for step in range(steps):
        candidates = {
            place: [text + piece for piece in chance.sample(PIECES, chance.randint(1, most))] + [text]
            for place, text in enumerate(texts)
            if step < steps - 2 * place
        }
        yield candidates
        for place, some in candidates.items():
            texts[place] = chance.choice(some)


@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma2", "mistral"])
def test_a_classifier_says_of_growing_texts_what_it_says_of_whole_ones(tiny_models: TinyModels, family: str) -> None:
    model = LocalClassifier(str(tiny_models.classifier(family)), device="cpu")
    follower = model.follow(TALKS)
    assert follower is not None
    for candidates in growing(1):
        found = follower.score(candidates)
        for place, texts in candidates.items():
            [plain] = model.score([LikelihoodRequest(turns=TALKS[place], continuations=tuple(texts))])
            assert found[place] == pytest.approx(plain, **CLOSE)


@pytest.mark.parametrize("template", ["bos", "tight", "greedy tokens", "none", "no system"])
def test_whatever_the_chat_template_does(tiny_models: TinyModels, template: str) -> None:
    model = LocalClassifier(str(tiny_models.classifier("llama", template)), device="cpu")
    follower = model.follow(TALKS)
    assert follower is not None
    for candidates in growing(2, steps=5):
        found = follower.score(candidates)
        for place, texts in candidates.items():
            [plain] = model.score([LikelihoodRequest(turns=TALKS[place], continuations=tuple(texts))])
            assert found[place] == pytest.approx(plain, **CLOSE)


@pytest.mark.parametrize("family", CAUSAL)
def test_likelihoods_of_growing_texts_are_those_of_whole_ones(tiny_models: TinyModels, family: str) -> None:
    model = LocalModel(str(tiny_models.causal(family)), device="cpu")
    follower = model.follow(TALKS)
    assert follower is not None
    for candidates in growing(3):
        found = follower.score(candidates)
        for place, texts in candidates.items():
            [plain] = model.likelihood([LikelihoodRequest(turns=TALKS[place], continuations=tuple(texts))])
            assert isinstance(plain, list)
            mine = found[place]
            assert isinstance(mine, list)
            assert [one.tokens for one in mine] == [one.tokens for one in plain]
            assert [one.total for one in mine] == pytest.approx([one.total for one in plain], **CLOSE)


THINKING = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if '</think>' in m['content'] %}{{ m['content'].split('</think>')[-1] | trim }}{% else %}{{ m['content'] }}"
    "{% endif %}<|im_end|>\n{% endfor %}"
)


def test_a_word_that_the_template_writes_itself_is_not_taken_for_the_answer() -> None:
    words = copy.deepcopy(tokenizer("chatml"))
    words.chat_template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }} END\n{% endfor %}"
    chat = Chat(words)
    candidates = ["END", "END\tx", "END END"]
    assert answered(chat, TALKS[0], candidates) == [chat.answered(TALKS[0], one) for one in candidates]


@pytest.mark.parametrize("template", [*TEMPLATES, "thinking"])
def test_candidates_are_put_into_a_conversation_as_the_template_would(template: str) -> None:
    words = copy.deepcopy(tokenizer("chatml" if template == "thinking" else template))
    if template == "thinking":
        words.chat_template = THINKING
    chat = Chat(words)
    for text in ("", "a", "m", "The kettle", "The <think>kettle</think", "user What should I drink? user"):
        candidates = [text + more for more in ("s", "", " and", "\n", ">", " <|im_end|>", "s", ".", " é", "a>", "m")]
        for talk in TALKS:
            assert answered(chat, talk, candidates) == [chat.answered(talk, one) for one in candidates]


def test_a_step_renders_two_candidates_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    chat, rendered = Chat(tokenizer("chatml")), list[str]()
    plain = chat.answered
    monkeypatch.setattr(chat, "answered", lambda turns, text: rendered.append(text) or plain(turns, text))
    answered(chat, TALKS[0], [f"The kettle{more}" for more in ("s", " and", ".", " é", " sings")])
    assert rendered == ["The kettles", "The kettle sings"]


def test_an_encoder_has_to_read_everything_again(tiny_models: TinyModels) -> None:
    assert LocalClassifier(str(tiny_models.classifier("bert")), device="cpu").follow(TALKS) is None


def test_what_does_not_fit_is_told(tiny_models: TinyModels) -> None:
    model = LocalClassifier(str(tiny_models.classifier()), device="cpu")
    follower = model.follow(TALKS)
    assert follower is not None
    found = follower.score({0: ["The kettle " * 300], 2: ["The kettle"]})
    assert "context has 512" in getattr(found[0], "reason", "")
    assert isinstance(found[2], list)


def test_a_step_reads_only_what_is_new() -> None:
    """After a long text, k candidates of one token cost k tokens, and the one that is taken is not read again."""
    model = build("llama")
    reader, read = Reader(model), []
    model.base_model.register_forward_pre_hook(
        lambda _, __, given: read.append(given["input_ids"].numel()), with_kwargs=True
    )
    text, ids = reader.begin(1), list(range(5, 205))
    reader.read(text, {0: [[*ids, 1, token] for token in (7, 8, 9, 10)]})
    assert read == [201, 4]
    for taken in (9, 8, 7):
        read.clear()
        ids = [*ids, 1, taken]
        reader.read(text, {0: [[*ids, 1, token] for token in (7, 8, 9, 10)]})
        assert read == [8], "of each candidate two tokens, the first of which all share"


def test_the_policy_gives_its_likeliest_tokens_after_what_was_taken(tiny_models: TinyModels) -> None:
    model = LocalModel(str(tiny_models.causal("qwen2")), device="cpu")
    steps = model.steps(TALKS)
    inner = model._model
    for turn in range(4):
        places = [place for place in range(len(TALKS)) if turn + place < 4]
        for place, found in zip(places, steps.next(places, 5), strict=True):
            ids = [*model.chat.ids(model.chat.prompt(TALKS[place])), *steps.written[place]]
            with torch.inference_mode():
                logits = inner(input_ids=torch.tensor([ids])).logits[0, -1].log_softmax(-1)
            values, tokens = logits.topk(5)
            assert found.tokens == tokens.tolist()
            assert found.log_probabilities == pytest.approx(values.tolist(), **CLOSE)
            steps.take(place, [found.tokens[(turn + place) % 5]])


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_chunks_come_with_their_log_probabilities(tiny_models: TinyModels, family: str) -> None:
    model = LocalModel(str(tiny_models.causal(family)), device="cpu")
    steps = model.steps(TALKS)
    for turn in range(3):
        drawn = steps.draw(range(len(TALKS)), samples=3, tokens=4, temperature=1.0, seeds=[turn, 5, 9])
        prompts = [
            [*model.chat.ids(model.chat.prompt(talk)), *written]
            for talk, written in zip(TALKS, steps.written, strict=True)
        ]
        plain = model._sampler.sample(prompts, samples=3, most_tokens=4, temperature=1.0, top_p=1.0, seeds=[turn, 5, 9])
        assert [[one.ids for one in own] for own in plain] == [[one.tokens for one in own] for own in drawn]
        for place, chunks in enumerate(drawn):
            before = [*model.chat.ids(model.chat.prompt(TALKS[place])), *steps.written[place]]
            for chunk in chunks:
                row = [*before, *chunk.tokens, *([model.chat.end] if chunk.finished else [])]
                with torch.inference_mode():
                    logits = model._model(input_ids=torch.tensor([row])).logits[0].log_softmax(-1)
                said = sum(logits[at - 1, row[at]].item() for at in range(len(before), len(row)))
                assert chunk.log_probability == pytest.approx(said, **CLOSE)
            steps.take(place, chunks[0].tokens)


def test_given_answers_are_as_likely_token_by_token_as_they_are_on_the_whole(tiny_models: TinyModels) -> None:
    model = LocalModel(str(tiny_models.causal("llama")), device="cpu")
    requests = [LikelihoodRequest(turns=talk, continuations=("A pot of green tea.", "", "Slowly")) for talk in TALKS]
    for followed, plain in zip(model.follow_answers(requests, top=4), model.likelihood(requests), strict=True):
        assert isinstance(followed, list)
        assert isinstance(plain, list)
        for one, likelihood in zip(followed, plain, strict=True):
            assert len(one.tokens) == likelihood.tokens
            assert sum(one.log_probabilities) == pytest.approx(likelihood.total, **CLOSE)
            assert all(len(some.tokens) == 4 for some in one.candidates)
            for token, value, some in zip(one.tokens, one.log_probabilities, one.candidates, strict=True):
                if token in some.tokens:
                    assert some.log_probabilities[some.tokens.index(token)] == pytest.approx(value, abs=1e-5)
