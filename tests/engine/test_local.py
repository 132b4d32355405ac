"""Models in this process answer what transformers answers, one request at a time or many."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from palate.engine import (  # noqa: E402
    ChooseRequest,
    Chosen,
    Failure,
    Likelihood,
    LikelihoodRequest,
    LocalClassifier,
    LocalModel,
    Sampling,
    Turn,
    WriteRequest,
    Written,
)
from palate.records import PalateError  # noqa: E402
from tiny_models import CAUSAL, CLASSIFIERS, CONTEXT, TinyModels, build, save, tokenizer  # noqa: E402

TURNS = (Turn("system", "They like tea."), Turn("user", "What should I drink?"))
ANSWERS = ("A pot of green tea, slowly.", "", "Coffee!", "tea " * 30)
CLOSE = {"rel": 1e-4, "abs": 1e-4}


def local(folder: Path) -> LocalModel:
    return LocalModel(str(folder), device="cpu")


def log_probability(model: Any, ids: list[int], start: int) -> float:
    with torch.inference_mode():
        logs = model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
    return sum(float(logs[place - 1, ids[place]]) for place in range(start, len(ids)))


@pytest.mark.parametrize("family", CAUSAL)
def test_likelihood_is_of_the_whole_answer_and_its_end(tiny_models: TinyModels, family: str) -> None:
    folder = tiny_models.causal(family)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    words = tokenizer()
    messages = [{"role": turn.role, "content": turn.content} for turn in TURNS]
    asked = words.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    start = len(words(asked, add_special_tokens=False)["input_ids"])
    [found] = local(folder).likelihood([LikelihoodRequest(turns=TURNS, continuations=ANSWERS)])
    assert isinstance(found, list)
    for text, likelihood in zip(ANSWERS, found, strict=True):
        ids = words(asked + text + "<|im_end|>", add_special_tokens=False)["input_ids"]
        assert likelihood.tokens == len(ids) - start
        assert likelihood.total == pytest.approx(log_probability(model, ids, start), **CLOSE)


def test_without_a_template_an_answer_ends_too(tiny_models: TinyModels) -> None:
    folder = tiny_models.causal(template="none")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    words = tokenizer("none")
    [found] = local(folder).likelihood([LikelihoodRequest(turns=TURNS[1:], continuations=("green tea",))])
    assert isinstance(found, list)
    asked = "User: What should I drink?\n\nAssistant:"
    ids = [*words(f"{asked} green tea")["input_ids"], words.eos_token_id]
    start = len(words(asked)["input_ids"])
    assert found == [
        Likelihood(total=pytest.approx(log_probability(model, ids, start), **CLOSE), tokens=len(ids) - start)
    ]


def test_an_answer_that_holds_the_end_token_is_not_cut_there(tiny_models: TinyModels) -> None:
    model = local(tiny_models.causal())
    texts = ("tea", "tea<|im_end|>", "tea<|im_end|> is bad")
    [found] = model.likelihood([LikelihoodRequest(turns=TURNS, continuations=texts)])
    assert isinstance(found, list)
    lengths = [one.tokens for one in found]
    assert lengths == sorted(set(lengths))


def test_requests_do_not_disturb_one_another(tiny_models: TinyModels) -> None:
    model = local(tiny_models.causal("gemma3"))
    requests = [
        LikelihoodRequest(turns=(Turn("user", "Hi " * count),), continuations=ANSWERS[: 1 + count % 4])
        for count in range(1, 9)
    ]
    together = model.likelihood(requests)
    for request, found in zip(requests, together, strict=True):
        [alone] = model.likelihood([request])
        assert isinstance(alone, list) and isinstance(found, list)
        assert [one.total for one in alone] == pytest.approx([one.total for one in found], **CLOSE)
    assert model.likelihood([]) == []


@pytest.mark.parametrize("template", ["chatml", "none"])
def test_choices_share_the_probability_of_what_comes_next(tiny_models: TinyModels, template: str) -> None:
    folder = tiny_models.causal(template=template)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    mine = local(folder)
    words = tokenizer(template)
    [found] = mine.choose([ChooseRequest(turns=TURNS, choices=("A", "B"), opening="[[")])
    assert isinstance(found, Chosen)
    prompt = mine.chat.prompt(TURNS, "[[")
    start = len(mine.chat.ids(prompt))
    weights = []
    for letter in "AB":
        ids = mine.chat.ids(prompt + letter)
        assert len(ids) == start + 1
        weights.append(math.exp(log_probability(model, ids, start)))
    assert found.mass == pytest.approx(sum(weights), rel=1e-4)
    assert found.probabilities == pytest.approx([weight / sum(weights) for weight in weights], rel=1e-4)
    [digits] = mine.choose([ChooseRequest(turns=TURNS, choices=tuple("123456789"))])
    assert isinstance(digits, Chosen)
    assert sum(digits.probabilities) == pytest.approx(1)
    if template == "none":  # "Assistant: 7", never "Assistant:7"
        with torch.inference_mode():
            ids = words("User: hm\n\nAssistant: 7")["input_ids"]
        [one] = mine.choose([ChooseRequest(turns=(Turn("user", "hm"),), choices=("7",))])
        assert isinstance(one, Chosen)
        start = len(words("User: hm\n\nAssistant:")["input_ids"])
        assert one.mass == pytest.approx(math.exp(log_probability(model, ids, start)), rel=1e-4)


def test_writing_is_what_the_model_finds_likeliest(tiny_models: TinyModels) -> None:
    folder = tiny_models.causal("qwen2")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    mine = local(folder)
    requests = [
        WriteRequest(turns=(Turn("user", text),), sampling=Sampling(most_tokens=12))
        for text in ("Hi", "Tea or coffee?")
    ]
    for request, found in zip(requests, mine.write(requests), strict=True):
        assert isinstance(found, list)
        ids = mine.chat.ids(mine.chat.prompt(request.turns))
        out = model.generate(
            torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), max_new_tokens=12, do_sample=False
        )
        assert found[0].text == mine.chat.tokenizer.decode(out[0, len(ids) :], skip_special_tokens=True)
        assert [found] == mine.write([request])


def test_writing_goes_on_from_its_opening_and_stops_at_the_end_of_the_turn(tiny_models: TinyModels) -> None:
    mine = local(tiny_models.causal())
    end = mine.chat.end
    with torch.no_grad():  # a model that ends every answer at once
        mine._model.lm_head.weight.zero_()
        hidden = mine._model.base_model(torch.tensor([mine.chat.ids(mine.chat.prompt(TURNS, "So"))]))
        mine._model.lm_head.weight[end] = hidden.last_hidden_state[0, -1]
    mine._model.generation_config.eos_token_id = None
    [found] = mine.write([WriteRequest(turns=TURNS, opening="So", sampling=Sampling(most_tokens=5))])
    assert found == [Written(text="", tokens=0, finished=True)]


def test_samples_differ_by_seed_and_not_by_company(tiny_models: TinyModels) -> None:
    mine = local(tiny_models.causal())
    sampling = Sampling(most_tokens=8, temperature=1.0, seed=3)
    request = WriteRequest(turns=TURNS, sampling=sampling, samples=3)
    [alone] = mine.write([request])
    other = WriteRequest(turns=(Turn("user", "Else?"),), sampling=sampling, samples=3)
    assert isinstance(alone, list)
    assert len({one.text for one in alone}) == 3
    assert mine.write([other, request])[1] == alone
    [changed] = mine.write([WriteRequest(turns=TURNS, sampling=Sampling(most_tokens=8, temperature=1.0, seed=4))])
    assert isinstance(changed, list) and changed[0] != alone[0]


def test_each_request_keeps_its_own_seed_when_many_are_drawn_together(tiny_models: TinyModels) -> None:
    mine = LocalModel(str(tiny_models.causal()))
    requests = [
        WriteRequest(turns=TURNS, sampling=Sampling(most_tokens=6, temperature=1.0, seed=seed), samples=2)
        for seed in (3, 4, 5)
    ]
    together = mine.write(requests)
    assert together == [mine.write([request])[0] for request in requests]
    assert together[0] != together[1] != together[2]


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_what_does_not_fit_is_a_failure_with_the_numbers(tiny_models: TinyModels, family: str) -> None:
    mine = local(tiny_models.causal(family))
    assert mine.context == CONTEXT
    long = (Turn("user", "word " * 400),)
    needed = mine.count_tokens(long)
    assert needed is not None and needed > CONTEXT
    short = LikelihoodRequest(turns=TURNS, continuations=("Hi",))
    too_long, fine = mine.likelihood([LikelihoodRequest(turns=TURNS, continuations=("Hi", "word " * 600)), short])
    assert isinstance(too_long, Failure) and isinstance(fine, list)
    assert "context has 512" in too_long.reason
    [chosen] = mine.choose([ChooseRequest(turns=long, choices=("A", "B"))])
    assert chosen == Failure(f"needs {needed + 1} tokens, and the model's context has 512")
    [written] = mine.write([WriteRequest(turns=TURNS, sampling=Sampling(most_tokens=500))])
    count = mine.count_tokens(TURNS)
    assert written == Failure(f"needs {count} tokens and 500 more to answer, and the model's context has 512")
    assert count is not None
    [fits] = mine.write([WriteRequest(turns=TURNS, sampling=Sampling(most_tokens=CONTEXT - count))])
    assert isinstance(fits, list)


@pytest.mark.parametrize("device", ["cuda:99", "toaster"])
def test_a_device_that_is_not_there_is_told(tiny_models: TinyModels, device: str) -> None:
    with pytest.raises(PalateError, match=f"device={device} is not to be had on this machine"):
        LocalModel(str(tiny_models.causal()), device=device)


def test_long_company_does_not_turn_the_tokens_of_a_short_text(tmp_path: Path) -> None:
    rope = {"rope_type": "longrope", "rope_theta": 10_000.0, "original_max_position_embeddings": 128}
    rope |= {"short_factor": [1.0] * 4, "long_factor": [4.0] * 4}
    mine = local(save(tmp_path / "model", build("llama", rope_parameters=rope)))
    assert mine.context == 128
    short = LikelihoodRequest(turns=TURNS, continuations=ANSWERS[:1])
    long = LikelihoodRequest(turns=TURNS, continuations=("tea " * 150,))
    [alone] = mine.likelihood([short])
    beside, failed = mine.likelihood([short, long])
    assert isinstance(alone, list) and isinstance(beside, list) and isinstance(failed, Failure)
    assert beside[0].total == pytest.approx(alone[0].total, **CLOSE)
    assert "context has 128" in failed.reason


@pytest.mark.parametrize("family", CLASSIFIERS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_classifier_scores_as_transformers_does(tiny_models: TinyModels, family: str, side: str) -> None:
    """Batched and padded by transformers, on either side; ours pads nothing that is read."""
    folder = tiny_models.classifier(family)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    mine = LocalClassifier(str(folder), device="cpu")
    texts = [mine.chat.answered(TURNS, answer) for answer in ANSWERS]
    words = tokenizer()
    given = words(texts, add_special_tokens=False, padding=True, padding_side=side, return_tensors="pt")
    inputs = {"input_ids": given["input_ids"], "attention_mask": given["attention_mask"]}
    if side == "left":  # the places of tokens count from the first that is none of padding
        inputs["position_ids"] = (given["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    with torch.inference_mode():
        expected = model(**inputs).logits[:, 0].tolist()
    if family == "bert" and side == "left":
        with torch.inference_mode():  # its first token is read, wherever it stands: only the right side is sound
            expected = [float(model(torch.tensor([mine.chat.ids(text)])).logits[0, 0]) for text in texts]
    [found] = mine.score([LikelihoodRequest(turns=TURNS, continuations=ANSWERS)])
    assert found == pytest.approx(expected, **CLOSE)
    [backwards] = mine.score([LikelihoodRequest(turns=TURNS, continuations=ANSWERS[::-1])])
    assert isinstance(backwards, list)
    assert backwards[::-1] == pytest.approx(expected, **CLOSE)
    assert len({round(number, 3) for number in expected}) == len(expected)


@pytest.mark.parametrize("family", ["llama", "bert"])
def test_which_token_pads_does_not_matter(tiny_models: TinyModels, tmp_path: Path, family: str) -> None:
    folder = tiny_models.classifier(family)
    request = LikelihoodRequest(turns=TURNS, continuations=ANSWERS)
    [expected] = LocalClassifier(str(folder), device="cpu").score([request])
    words = tokenizer()
    for pad in (words.eos_token_id, None):
        changed = tmp_path / str(pad)
        shutil.copytree(folder, changed)
        for file, value in (("config.json", pad), ("tokenizer_config.json", pad and words.eos_token)):
            held = json.loads((changed / file).read_text())
            held["pad_token_id" if file == "config.json" else "pad_token"] = value
            (changed / file).write_text(json.dumps(held))
        [found] = LocalClassifier(str(changed), device="cpu").score([request])
        assert found == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize("family", ["llama", "bert"])
def test_the_head_works_in_float32(tiny_models: TinyModels, family: str) -> None:
    mine = LocalClassifier(str(tiny_models.classifier(family)), device="cpu", dtype="bfloat16")
    [found] = mine.score([LikelihoodRequest(turns=TURNS, continuations=ANSWERS)])
    assert isinstance(found, list)
    head = mine._model.score if family == "llama" else mine._model.classifier
    assert head.weight.dtype == torch.float32
    assert next(mine._model.base_model.parameters()).dtype == torch.bfloat16
    assert any(number != float(torch.tensor(number).bfloat16()) for number in found)


def test_of_five_logits_one_must_be_named(tiny_models: TinyModels) -> None:
    folder = tiny_models.classifier(labels=5)
    with pytest.raises(PalateError, match=r"gives 5 logits \(0=LABEL_0.*index=0"):
        LocalClassifier(str(folder))
    with pytest.raises(PalateError, match="index=5 is not among them"):
        LocalClassifier(str(folder), label=5)
    request = LikelihoodRequest(turns=TURNS, continuations=("Tea.",))
    each = [LocalClassifier(str(folder), label=label, device="cpu") for label in range(5)]
    assert len({model.fingerprint for model in each}) == 5
    ids = each[0].chat.ids(each[0].chat.answered(TURNS, "Tea."))
    with torch.inference_mode():
        expected = each[0]._model(torch.tensor([ids])).logits[0].tolist()
    assert [model.score([request])[0] for model in each] == [[pytest.approx(number, **CLOSE)] for number in expected]


def test_an_encoder_without_a_template_reads_a_pair(tiny_models: TinyModels) -> None:
    mine = LocalClassifier(str(tiny_models.classifier("bert", "none")), device="cpu")
    ids = mine.chat.tokenizer("They like tea.\n\nWhat should I drink?", "Tea.")["input_ids"]
    with torch.inference_mode():
        expected = float(mine._model(torch.tensor([ids])).logits[0, 0])
    assert mine.score([LikelihoodRequest(turns=TURNS, continuations=("Tea.",))]) == [[pytest.approx(expected, **CLOSE)]]


def test_a_classifier_whose_head_is_missing_is_refused(tiny_models: TinyModels, tmp_path: Path) -> None:
    """transformers would make one up, at random, and say so in a warning that nobody reads."""
    model = LocalClassifier(str(tiny_models.causal()), label=0, device="cpu")
    with pytest.raises(PalateError, match=r"lack score.weight.*at random"):
        model.score([LikelihoodRequest(turns=TURNS, continuations=("Hi",))])
    folder = save(tmp_path / "tied", build("llama", tie_word_embeddings=True))
    assert LocalModel(str(folder), device="cpu").context == CONTEXT


def test_too_long_for_a_classifier(tiny_models: TinyModels) -> None:
    for family in ("llama", "bert"):
        mine = LocalClassifier(str(tiny_models.classifier(family)), device="cpu")
        long = LikelihoodRequest(turns=TURNS, continuations=("Hi", "word " * 600))
        short = LikelihoodRequest(turns=TURNS, continuations=("Hi",))
        failed, fine = mine.score([long, short])
        assert failed == Failure(f"needs {mine.count_tokens(long)} tokens, and the model's context has 512")
        assert [fine] == mine.score([short])


def test_fingerprints_tell_weights_precision_and_template_apart(tiny_models: TinyModels) -> None:
    folders = [tiny_models.causal(), tiny_models.causal(seed=1), tiny_models.causal(template="no system")]
    found = [local(folder).fingerprint for folder in folders]
    found.append(LocalModel(str(folders[0]), device="cpu", dtype="bfloat16").fingerprint)
    assert len(set(found)) == 4
    assert local(folders[0]).fingerprint == found[0]


def test_a_folder_without_a_tokenizer_is_refused_at_once(tmp_path: Path) -> None:
    build("llama").save_pretrained(tmp_path)
    for kind in (LocalModel, LocalClassifier):
        with pytest.raises(PalateError, match="no tokenizer can be loaded"):
            kind(str(tmp_path))


def test_an_encoder_that_counts_its_places_from_two(tmp_path: Path) -> None:
    """RoBERTa has 514 places, and text goes into 512 of them."""
    words = tokenizer("none")
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.RobertaConfig(
        vocab_size=len(words), max_position_embeddings=CONTEXT + 2, pad_token_id=1, num_labels=1, **shape
    )
    transformers.RobertaForSequenceClassification(config).save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    mine = LocalClassifier(str(tmp_path), device="cpu")
    requests = [LikelihoodRequest(turns=(Turn("user", ""),), continuations=("!" * n,)) for n in (510, 511)]
    assert [mine.count_tokens(request) for request in requests] == [CONTEXT, CONTEXT + 1]
    fits, fails = mine.score(requests)
    assert isinstance(fits, list) and isinstance(fails, Failure)


def test_a_model_that_is_trained_again_in_its_folder_is_another_model(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save(folder, build("llama", seed=1))
    before = local(folder)
    marked = before.fingerprint
    save(folder, build("llama", seed=2))
    assert local(folder).fingerprint != marked
    assert before.fingerprint == marked  # its weights are those that it loaded
