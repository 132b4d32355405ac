"""Likelihoods and logits from servers: the same as in this process, or a sentence that says what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from one_ask import ASK, NOTHING_KNOWN, scores, with_view
from palate.records import Ask, PalateError, Part, View
from palate.rewards import make_reward_model, rate
from palate.rewards._prompts import conversation
from tiny_models import TinyModels
from token_server import TokenServer, token_server

TOLERANCE = 1e-4
"""Of a score, per token, where both run in float32 on the same machine."""


@pytest.fixture(autouse=True)
def _no_shared_answers(own_cache: Path) -> None:
    """Whatever is answered here was asked here."""


@pytest.fixture(scope="module")
def server(tiny_models: TinyModels) -> Iterator[TokenServer]:
    with token_server(tiny_models.causal(), tiny_models.classifier()) as running:
        yield running


def asks() -> list[Ask]:
    other = View(name="posts:1", parts=(Part(kind="post", id="p", text="Coffee, strong. 🙂"),), user_id="bob")
    return [ASK, with_view(ASK, NOTHING_KNOWN), with_view(ASK, other)]


@pytest.mark.parametrize("kind", ["vllm", "sglang", "echo"])
@pytest.mark.parametrize("reward", ["likelihood", "pmi"])
def test_a_server_and_this_process_agree(server: TokenServer, tiny_models: TinyModels, reward: str, kind: str) -> None:
    folder = tiny_models.causal()
    here = rate(make_reward_model(f"{reward}:{folder}"), asks())
    there = rate(make_reward_model(f"{reward}:{folder},url={server.address}/{kind}/v1"), asks())
    for one, other in zip(here, there, strict=True):
        assert scores(other) == pytest.approx(scores(one), abs=TOLERANCE)
    assert len({score for one in here for score in scores(one)}) > 2


def test_dpo_takes_its_reference_from_another_server(server: TokenServer, tiny_models: TinyModels) -> None:
    tuned, reference = tiny_models.causal(), tiny_models.causal(seed=1)
    [here] = rate(make_reward_model(f"dpo:{tuned},reference={reference}"), [ASK])
    with token_server(reference, tiny_models.classifier()) as second:
        spec = f"dpo:tuned,reference=plain,url={server.address}/vllm/v1,reference_url={second.address}/sglang/v1"
        [there] = rate(make_reward_model(f"{spec},tokenizer={tuned}"), [ASK])
    assert scores(there) == pytest.approx(scores(here), abs=50 * TOLERANCE)  # a sum over the tokens


@pytest.mark.parametrize("kind", ["vllm", "pooling", "regression", "sglang"])
def test_a_classifier_behind_a_server_gives_the_same_logits(
    server: TokenServer, tiny_models: TinyModels, kind: str
) -> None:
    folder = tiny_models.classifier()
    here = rate(make_reward_model(f"classifier:{folder}"), asks())
    there = rate(make_reward_model(f"classifier:{folder},url={server.address}/{kind}/v1"), asks())
    for one, other in zip(here, there, strict=True):
        assert scores(other) == pytest.approx(scores(one), abs=TOLERANCE)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("llamacpp", "HTTP 400: Only no echo is supported"),
        ("silent", "the server told of 1 tokens, and"),
        ("cut", "tokens, and"),
        ("trimmed", "tokens, and"),
        ("shifted", "other tokens than were sent; does tokenizer= belong"),
        ("gaps", "left out the log-probability of a token"),
    ],
)
def test_a_server_that_tells_no_likelihood_is_named_with_what_it_lacks(
    server: TokenServer, tiny_models: TinyModels, kind: str, reason: str
) -> None:
    model = make_reward_model(f"likelihood:{tiny_models.causal()},url={server.address}/{kind}/v1")
    with pytest.raises(PalateError, match="does not tell how likely a given text is") as told:
        rate(model, [ASK])
    assert reason in str(told.value)
    assert "llama.cpp does not" in str(told.value)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("llamacpp", "vLLM's /classify: HTTP 404"),
        ("squashed", "use_activation changes nothing"),
        ("cut", "tokens, and"),
    ],
)
def test_a_server_without_logits_is_named_with_what_it_lacks(
    server: TokenServer, tiny_models: TinyModels, kind: str, reason: str
) -> None:
    model = make_reward_model(f"classifier:{tiny_models.classifier()},url={server.address}/{kind}/v1")
    with pytest.raises(PalateError, match="tells no logits") as told:
        rate(model, [ASK])
    assert reason in str(told.value)


@pytest.mark.parametrize("kind", ["embedding", "sglang-embedding"])
def test_an_embedding_is_never_taken_for_logits(server: TokenServer, tiny_models: TinyModels, kind: str) -> None:
    spec = f"classifier:{tiny_models.classifier()},index=2,url={server.address}/{kind}/v1"
    with pytest.raises(PalateError, match="these are embeddings; is the model a sequence classifier"):
        rate(make_reward_model(spec), [ASK])


@pytest.mark.parametrize("template", ["no system", "bos", "tight", "greedy tokens", "none"])
def test_they_agree_whatever_the_template_does(tiny_models: TinyModels, template: str) -> None:
    folder = tiny_models.causal(template=template)
    here = rate(make_reward_model(f"likelihood:{folder}"), asks())
    with token_server(folder) as server:
        there = rate(make_reward_model(f"likelihood:{folder},url={server.address}/vllm/v1"), asks())
    for one, other in zip(here, there, strict=True):
        assert scores(other) == pytest.approx(scores(one), abs=TOLERANCE)


def test_a_token_that_spans_prompt_and_response_belongs_to_the_response(tiny_models: TinyModels) -> None:
    folder = tiny_models.causal(template="trailing space")
    merging = msgspec.structs.replace(ASK, responses=("What should I drink?", "Answer with tea."))
    [here] = rate(make_reward_model(f"likelihood:{folder}"), [merging])
    with token_server(folder) as server:
        model = make_reward_model(f"likelihood:{folder},url={server.address}/sglang/v1")
        [there] = rate(model, [merging])
        chat = model._model.model._chat  # type: ignore[attr-defined]
        for response, ids in zip(merging.responses, server.sent[-2:], strict=True):
            whole = chat.answered(conversation(merging), response)
            assert ids == chat.ids(whole)  # never the prompt's tokens and then the response's
            assert ids[: len(prompt := chat.ids(chat.prompt(conversation(merging))))] != prompt
    assert scores(there) == pytest.approx(scores(here), abs=TOLERANCE)


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
@pytest.mark.parametrize("reward", ["likelihood", "pmi", "classifier"])
def test_an_ask_too_long_for_the_server_is_unscored_alone(
    server: TokenServer, tiny_models: TinyModels, reward: str, kind: str
) -> None:
    folder = tiny_models.classifier() if reward == "classifier" else tiny_models.causal()
    long = msgspec.structs.replace(ASK, prompt="tea " * 500)
    bad, good, other = rate(
        make_reward_model(f"{reward}:{folder},url={server.address}/{kind}/v1"), [long, *asks()[::2]]
    )
    assert bad.scores is None
    assert "maximum context length" in str(bad.unscored)
    assert len(scores(good)) == len(scores(other)) == 2


def test_a_response_without_probability_is_unscored(server: TokenServer, tiny_models: TinyModels) -> None:
    folder = tiny_models.causal()
    model = make_reward_model(f"likelihood:{folder},url={server.address}/vllm/v1")
    rate(model, [ASK])  # the server has shown that it can
    sender = model._model.model._sender  # type: ignore[attr-defined]
    sender.address.url = f"{server.address}/impossible/v1"
    [rating] = rate(model, [msgspec.structs.replace(ASK, prompt="Another one?")])
    assert rating.scores is None
    assert "no probability at all" in str(rating.unscored)


USERS = ("tea", "milk", "water", "wine")


def mixed_asks() -> list[Ask]:
    """Three asks of each of four users, in turns."""
    views = {
        name: View(name="posts:1", parts=(Part(kind="post", id=name, text=f"I drink {name}. " * 12),), user_id=name)
        for name in USERS
    }
    return [
        msgspec.structs.replace(ASK, id=f"{turn}-{name}", prompt=f"{turn}?", view=view)
        for turn in range(3)
        for name, view in views.items()
    ]


@pytest.mark.parametrize("reward", ["likelihood", "classifier"])
def test_asks_of_one_user_follow_one_another(server: TokenServer, tiny_models: TinyModels, reward: str) -> None:
    folder = tiny_models.classifier() if reward == "classifier" else tiny_models.causal()
    model = make_reward_model(f"{reward}:{folder},url={server.address}/sglang/v1")
    rate(model, [ASK])
    server.events.clear()
    ratings = rate(model, mixed_asks())
    assert [len(scores(rating)) for rating in ratings] == [2] * 12
    about = [(what, _user(server, ids)) for what, ids in server.events]
    assert len(about) == 2 * 24
    for name in USERS:
        own = [what for what, user in about if user == name]
        assert own[:2] == ["came", "left"]  # the first is read, and kept, before the second comes


def test_with_one_request_at_a_time_each_user_has_one_turn(server: TokenServer, tiny_models: TinyModels) -> None:
    model = make_reward_model(f"likelihood:{tiny_models.causal()},url={server.address}/sglang/v1")
    model._model.model._sender.concurrency = 1  # type: ignore[attr-defined]
    rate(model, [ASK])
    server.events.clear()
    rate(model, mixed_asks())
    users = [_user(server, ids) for ids in server.sent]
    assert 1 + sum(one != other for one, other in pairwise(users)) == len(USERS)


def _user(server: TokenServer, ids: list[int]) -> str:
    text = server.tokenizer.decode(ids)
    [name] = [name for name in USERS if f"I drink {name}." in text]
    return name


def test_the_tokenizer_is_part_of_what_a_score_depends_on(server: TokenServer, tiny_models: TinyModels) -> None:
    made = [
        make_reward_model(
            f"likelihood:m,url={server.address}/vllm/v1,tokenizer={tiny_models.causal(template=template)}"
        )
        for template in ("chatml", "bos")
    ]
    assert made[0].fingerprint != made[1].fingerprint  # type: ignore[attr-defined]


def test_options_that_contradict_each_other_are_refused(server: TokenServer, tiny_models: TinyModels) -> None:
    url = f"url={server.address}/vllm/v1"
    for spec, message in (
        (f"likelihood:{tiny_models.causal()},tokenizer=x", "tokenizer= goes with url="),
        (f"classifier:{tiny_models.classifier()},tokenizer=x", "tokenizer= goes with url="),
        (f"classifier:{tiny_models.classifier()},{url},device=cpu", "the server's to choose"),
        (f"likelihood:m,{url},tokenizer=./nowhere", "there is no folder ./nowhere"),
        (f"classifier:{tiny_models.classifier('bert', 'none')},{url}", "no chat template"),
    ):
        with pytest.raises(PalateError, match=message):
            make_reward_model(spec)


def test_a_classifier_of_several_logits_wants_to_know_which(tiny_models: TinyModels) -> None:
    folder = tiny_models.classifier(labels=3)
    with token_server(tiny_models.causal(), folder) as three:
        spec = f"classifier:{folder},url={three.address}/vllm/v1"
        with pytest.raises(PalateError, match="gives 3 logits; say which one"):
            rate(make_reward_model(spec), [ASK])
        with pytest.raises(PalateError, match="index=7 is not among them"):
            rate(make_reward_model(f"{spec},index=7"), [ASK])
        [here] = rate(make_reward_model(f"classifier:{folder},index=2"), [ASK])
        [there] = rate(make_reward_model(f"{spec},index=2"), [ASK])
    assert scores(there) == pytest.approx(scores(here), abs=TOLERANCE)
