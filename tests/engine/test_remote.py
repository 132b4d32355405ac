"""A remote model against a real server that fails on purpose."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import pickle
import socket
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faulty_server import counts, digest, faulty_server, running
from palate.engine._chat_api import read_chosen, read_written
from palate.engine._http_client import RefusedError, RetryError
from palate.engine._language import ChooseRequest, Chosen, Failure, LikelihoodRequest, Sampling, Turn, WriteRequest
from palate.engine._remote import RemoteModel
from palate.engine._throttle import Pace, RetryPolicy, Throttle, retry_after
from palate.records import PalateError

QUICK = RetryPolicy(first_wait=0.02, longest_wait=0.2)
KEY = "sk-0123456789-very-secret"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with faulty_server() as address:
        yield address


def remote(address: str, mood: str = "well", **options: object) -> RemoteModel:
    settings: dict = {"timeout": 300, "retry_policy": QUICK} | options
    return RemoteModel("m", base_url=f"{address}/{mood}/v1", **settings)


def asked(prompt: str, **options: object) -> WriteRequest:
    return WriteRequest(turns=(Turn("user", prompt),), **options)  # type: ignore[arg-type]


def choosing(prompt: str, **options: object) -> ChooseRequest:
    return ChooseRequest(turns=(Turn("user", prompt),), choices=("A", "B"), **options)  # type: ignore[arg-type]


def test_every_request_is_answered_once_by_a_server_that_fails_three_times_in_ten() -> None:
    requests = [asked(f"prompt {number}") for number in range(400)]
    for number in range(0, 400, 50):
        requests[number] = asked(f"forbidden {number}")
    with faulty_server(faults=0.3, delay=0.005) as address:
        model = remote(address, "faulty")
        heard: list[int] = []
        start = time.monotonic()
        answers = model.write(requests, on_answer=lambda index, answer: heard.append(index))
        took = time.monotonic() - start
        seen = counts(address)
    assert sorted(heard) == list(range(400))
    for number, (request, answer) in enumerate(zip(requests, answers, strict=True)):
        if number % 50 == 0:
            assert answer == Failure("HTTP 400: this prompt is not allowed here")
        else:
            assert not isinstance(answer, Failure), answer
            assert [one.text for one in answer] == [f"{digest(request.turns[0].content)} 0"]
    assert set(seen["answered"].values()) == {1}
    assert set(seen["drawn"]) == {"busy", "error", "silence", "cut", "nonsense", "empty"}
    assert model.usage.requests == sum(seen["tries"].values()) == 400 + model.usage.retries
    assert seen["most"] <= 32
    print(f"{model.usage.requests} requests, {model.usage.retries} retries, {took:.1f} s; faults {seen['drawn']}")


def test_who_hears_nothing_in_time_asks_again(server: str) -> None:
    model = remote(server, "sleepy", timeout=1)
    [[written]] = model.write([asked("Are you awake?")])
    assert written.text == f"{digest('Are you awake?')} 0"
    assert model.usage.retries >= 1


def test_samples_come_together_or_one_by_one_as_the_server_likes(server: str) -> None:
    request = asked("Hello?", samples=3, sampling=Sampling(temperature=1, seed=5))
    wanted = [f"{digest('Hello?')} {seed}" for seed in (5, 6, 7)]
    for mood, sent in (("well", 1), ("single", 3)):
        model = remote(server, mood)
        [written] = model.write([request])
        assert not isinstance(written, Failure)
        assert [one.text for one in written] == wanted
        assert all(one.finished and one.tokens == 10 for one in written)
        assert model.usage.requests == sent


def test_a_server_that_refuses_settings_is_asked_without_them(server: str) -> None:
    model = remote(server, "strict")
    request = asked("Hello?", samples=2, sampling=Sampling(temperature=1))
    [written] = model.write([request])
    assert not isinstance(written, Failure)
    assert len(written) == 2
    assert model.usage.requests == 5  # three refusals teach it, two samples follow
    model.write([request])
    assert model.usage.requests == 7


def test_the_probability_of_a_choice_counts_it_with_and_without_a_space(server: str) -> None:
    model = remote(server)
    [chosen] = model.choose([choosing("A or B?")])
    assert isinstance(chosen, Chosen)
    assert chosen.probabilities == pytest.approx((0.5 / 0.6, 0.1 / 0.6))
    assert chosen.mass == pytest.approx(0.6)
    [none] = model.choose([ChooseRequest(turns=(Turn("user", "Yes?"),), choices=("yes", "no"))])
    assert isinstance(none, Failure)
    assert "none of the choices" in none.reason


@pytest.mark.parametrize(("mood", "sent"), [("mute", 1), ("strict", 2)])
def test_a_server_without_probabilities_is_asked_for_them_once(server: str, mood: str, sent: int) -> None:
    model = remote(server, mood)
    answers = model.choose([choosing(f"{number}?") for number in range(20)]) + model.choose([choosing("Again?")])
    assert set(answers) == {Failure("the server gives no token probabilities")}
    assert model.usage.requests == sent
    assert remote(server, mood, logprobs=False).choose([choosing("A?")]) == [answers[0]]


def test_without_a_tokenizer_a_server_tells_no_likelihood(server: str) -> None:
    request = LikelihoodRequest(turns=(Turn("user", "Hi"),), continuations=("there",))
    [answer] = remote(server).likelihood([request])
    assert isinstance(answer, Failure)
    assert "say tokenizer=FOLDER" in answer.reason
    assert remote(server).count_tokens(request.turns) is remote(server).context is None


def test_an_opening_is_begun_for_servers_that_go_on_with_it(server: str) -> None:
    [written] = remote(server, "llamacpp").write([asked("Paris", opening="The city is")])
    assert not isinstance(written, Failure)
    assert written[0].text == " Paris"
    [written] = remote(server, "well").write([asked("Paris", opening="The city is")])
    assert not isinstance(written, Failure)
    assert written[0].text.startswith(digest("Paris\n\nBegin your answer with: The city is"))


def test_no_request_passes_the_cap(server: str) -> None:
    cap = 0.02
    model = remote(server, prices=(10.0, 100.0), most_spent=cap)  # each answer costs 0.002
    heard: list[int] = []
    requests = [asked(f"{number}", sampling=Sampling(most_tokens=20)) for number in range(40)]
    with pytest.raises(PalateError, match=r"spent 0\.0\d of 0\.02, .* what was answered is kept"):
        model.write(requests, on_answer=lambda index, answer: heard.append(index))
    assert 0 < model.usage.cost <= cap
    assert model.usage.cost == pytest.approx(0.002 * len(heard))
    assert model.status() == f"{100 * len(heard):,} tokens in, {10 * len(heard)} out, 0.02 spent"
    with pytest.raises(PalateError, match="prices"):
        remote(server, most_spent=1.0)


@pytest.mark.parametrize(
    ("mood", "message"),
    [
        ("page", "is a web page, not an API: did you forget /v1?"),
        ("nowhere", "The model `typo` does not exist.*Is the model name 'm' right"),
        ("locked", "Set the environment variable PALATE_TEST_KEY to your key"),
    ],
)
def test_what_can_never_succeed_stops_everything_at_once(server: str, mood: str, message: str) -> None:
    model = remote(server, mood, key_variable="PALATE_TEST_KEY")
    with pytest.raises(PalateError, match=message):
        model.write([asked(f"{number}") for number in range(50)])
    assert model.usage.requests == 1


def test_a_filtered_answer_is_a_failure(server: str) -> None:
    [answer] = remote(server, "filter").write([asked("Hello?")])
    assert answer == Failure("the server's content filter cut the answer")


def test_a_server_that_is_not_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(PalateError, match=r"no server answers at .* Is it running"):
        remote(address).write([asked("Hello?")])


def test_a_server_that_only_fails_is_given_up_before_the_last_request() -> None:
    with faulty_server(faults=1.0) as address:
        model = remote(address, "faulty", timeout=0.1, retry_policy=RetryPolicy(tries=2, first_wait=0.01))
        with pytest.raises(PalateError, match=r"no usable answer to 20 requests in a row .* is kept"):
            model.write([asked(f"{number}") for number in range(500)])
    assert model.usage.requests < 150


def test_a_request_that_was_given_up_says_why() -> None:
    with faulty_server(faults=1.0) as address:
        model = remote(address, "faulty", timeout=0.1, retry_policy=RetryPolicy(tries=3, first_wait=0.01))
        [answer] = model.write([asked("Hello?")])
    assert isinstance(answer, Failure)
    assert answer.reason.endswith("(given up after 3 tries)")


def test_the_key_shows_nowhere(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALATE_TEST_KEY", KEY)
    model = remote(server, "leak", key_variable="PALATE_TEST_KEY")
    [answer] = model.write([asked("Hello?")])
    assert isinstance(answer, Failure)
    assert "authorization" in answer.reason
    assert "[key]" in answer.reason
    with pytest.raises(PalateError) as locked:
        remote(server, "locked", key_variable="PALATE_TEST_KEY").write([asked("Hello?")])
    shown = (answer.reason, repr(model), model.fingerprint, str(locked.value), repr(vars(model)), model.status())
    assert not [text for text in shown if KEY in text]
    assert KEY.encode() not in pickle.dumps(model)


@pytest.mark.parametrize("key", ["sk-with\nline", "sk-ключ", "sk with space"])
def test_a_key_that_cannot_be_sent_is_named_but_not_shown(
    server: str, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("PALATE_TEST_KEY", key)
    with pytest.raises(PalateError, match="PALATE_TEST_KEY") as error:
        remote(server, key_variable="PALATE_TEST_KEY")
    assert key not in str(error.value)


def test_a_missing_key_and_a_wrong_address_are_found_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PALATE_TEST_KEY", raising=False)
    with pytest.raises(PalateError, match="set the environment variable PALATE_TEST_KEY"):
        RemoteModel("m", base_url="https://llm.example/v1", key_variable="PALATE_TEST_KEY")
    for address in ("llm.example/v1", "https://me:secret@llm.example/v1", "https://llm.example/v1?key=secret"):
        with pytest.raises(PalateError) as error:
            RemoteModel("m", base_url=address)
        assert "secret" not in str(error.value)


def test_the_fingerprint_tells_servers_and_models_apart() -> None:
    here, there = "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"
    made = [RemoteModel(name, base_url=url) for name in ("a", "b") for url in (here, there, f"{here}/")]
    assert len({model.fingerprint for model in made}) == 4


def test_works_inside_a_running_event_loop(server: str) -> None:
    async def notebook() -> list:
        return remote(server).write([asked(f"{number}") for number in range(5)])

    assert [written[0].text for written in asyncio.run(notebook())] == [f"{digest(str(n))} 0" for n in range(5)]


def test_odd_text_reaches_the_server(server: str) -> None:
    answers = remote(server).write([asked("half a character \ud83d"), asked("\x00 \u202e \U0001f680"), asked("")])
    assert not [answer for answer in answers if isinstance(answer, Failure)]
    assert remote(server).write([]) == remote(server).choose([]) == []


def test_a_wait_may_be_seconds_or_a_date() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert retry_after(later) == pytest.approx(30, abs=1.5)
    assert [retry_after(text) for text in ("2", "0.05", "-3")] == [2, 0.05, 0]
    assert [retry_after(text) for text in ("nan", "tomorrow", "", None)] == [None] * 4


def test_a_crowded_server_is_asked_half_as_much_once() -> None:
    async def crowd() -> list[float]:
        pace = Pace(16.0)
        throttle = Throttle(pace, 32)
        async with throttle.slot() as sent:
            pass
        limits = []
        for _ in range(3):  # three complaints about what was sent together
            throttle.crowded(sent, 0.0)
            limits.append(pace.limit)
        throttle.answered()
        return [*limits, pace.limit]

    assert asyncio.run(crowd()) == [8, 8, 8, 8.125]


def test_a_wait_longer_than_our_patience_is_not_waited_for(server: str) -> None:
    model = remote(server, "tomorrow")
    [answer] = model.write([asked("Hello?")])
    assert answer == Failure("HTTP 429: come back; wait 86400 s (given up after 1 try)")


KEYS = "choices message content finish_reason logprobs token logprob usage completion_tokens id text refusal".split()
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)
TOKEN = {"token": st.sampled_from("AB") | ANYTHING, "logprob": ANYTHING, "id": ANYTHING}


@given(ANYTHING, st.lists(st.fixed_dictionaries(TOKEN)), ANYTHING)
def test_no_reply_is_odd_enough_to_be_misread(message: object, likeliest: list, usage: object) -> None:
    logprobs = {"content": [{"top_logprobs": likeliest}]}
    choice = {"message": message, "logprobs": logprobs, "finish_reason": usage}
    bare = choice | {"message": {}}
    for reply in ({"choices": message}, {"choices": [choice], "usage": usage}, {"choices": [bare]}):
        with contextlib.suppress(RetryError, RefusedError):
            assert all(isinstance(one.text, str) for one in read_written(reply, opening="", most_tokens=5))
        with contextlib.suppress(RetryError, RefusedError):
            chosen = read_chosen(reply, ("A", "B"))
            assert chosen is None or sum(chosen.probabilities) == pytest.approx(1)


SERVE = """
import sys, time, xllamacpp
parameters = xllamacpp.CommonParams()
parameters.model.path, parameters.port, parameters.hostnames = sys.argv[1], int(sys.argv[2]), ["127.0.0.1"]
parameters.n_ctx, parameters.n_parallel, parameters.cpuparams.n_threads = 4096, 2, 1
parameters.cpuparams_batch.n_threads = 1  # one each: threads that spin starve each other on a small machine
server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
time.sleep(600)
"""


def llama_command() -> list[str]:
    """How to start a llama.cpp server here, or why that cannot be done."""
    python, weights = os.environ.get("PALATE_LLAMA_PYTHON", sys.executable), os.environ.get("PALATE_LLAMA_GGUF")
    if "PALATE_LLAMA_PYTHON" not in os.environ and find_spec("xllamacpp") is None:
        pytest.skip("needs a llama.cpp server: pip install xllamacpp, or set PALATE_LLAMA_PYTHON")
    if not weights:
        pytest.skip("set PALATE_LLAMA_GGUF to a small chat model in GGUF format")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return [python, "-c", SERVE, weights, str(free.getsockname()[1])]


def test_a_real_llama_cpp_server() -> None:
    with running(llama_command()) as address:
        model = RemoteModel("any", base_url=f"{address}/v1", concurrency=4)
        capital = "What is the capital of France?"
        short = asked(capital, sampling=Sampling(most_tokens=8))
        [begun, plain] = model.write([asked(capital, opening="The capital of France is"), short])
        assert not isinstance(begun, Failure)
        assert not isinstance(plain, Failure)
        assert begun[0].text.lstrip().startswith("Paris")
        assert (plain[0].tokens, plain[0].finished) == (8, False)
        drawn = asked("Name an animal.", samples=3, sampling=Sampling(temperature=1, seed=1, most_tokens=8))
        [samples] = model.write([drawn])
        assert not isinstance(samples, Failure)
        assert len({one.text for one in samples}) > 1
        assert [samples] == model.write([drawn])
        question = "Answer with one letter, A or B. Which one is a fruit? A: apple B: brick"
        for opening in ("", "Answer:"):
            [chosen] = model.choose([choosing(question, opening=opening)])
            assert isinstance(chosen, Chosen), chosen
            assert chosen.probabilities[0] > 0.5
            assert 0.3 < chosen.mass <= 1
        [long] = model.write([asked("word " * 5000)])
        assert isinstance(long, Failure)
        assert "context" in long.reason
        print(json.dumps([begun[0].text, plain[0].text, [s.text for s in samples], long.reason]), model.status())


def written(*tokens: tuple[str, dict[str, float]]) -> dict[str, object]:
    """A reply whose tokens have these alternatives."""
    content = [
        {
            "token": token,
            "top_logprobs": [{"token": text, "logprob": math.log(share)} for text, share in likely.items()],
        }
        for token, likely in tokens
    ]
    return {"choices": [{"message": {"content": ""}, "logprobs": {"content": content}}]}


@pytest.mark.parametrize(
    "tokens",
    [
        [("[[", {"[[": 0.9, "[": 0.1}), ("B", {"B": 0.6, "A": 0.2}), ("]]", {"]]": 1.0})],
        [("[", {"[": 1.0}), ("[", {"[": 1.0}), ("B", {" B": 0.6, "A": 0.2})],
        [("[[B", {"[[B": 0.6, "[[A": 0.2})],
        [("[[B]]", {"[[B]]": 0.6, "[[A]]": 0.2})],
        [("B", {"B": 0.6, "A": 0.2})],
    ],
)
def test_a_server_that_writes_the_opening_itself_is_read_after_it(tokens: list[tuple[str, dict[str, float]]]) -> None:
    chosen = read_chosen(written(*tokens), ("A", "B"), "[[")
    assert chosen is not None
    assert chosen.probabilities == pytest.approx((0.25, 0.75))


def test_without_prefill_there_is_one_instruction_and_room_to_follow_it() -> None:
    from palate.engine._chat_api import Dialect

    request = choosing("Which? Answer with [[A]] or [[B]] and nothing else.", opening="[[")
    body = Dialect("m", logprobs=True, prefill=False).choose_body(request)
    assert body["messages"] == [{"role": "user", "content": request.turns[0].content}]
    assert body["max_tokens"] == 4
    begun = Dialect("m", logprobs=True, prefill=True).choose_body(request)
    assert begun["messages"][-1] == {"role": "assistant", "content": "[["} and begun["max_tokens"] == 1  # type: ignore[index]
