"""Views that a language model writes: once for the same history, from the right person, and from nothing nothing."""

from collections.abc import Sequence
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from faulty_server import faulty_server  # noqa: E402
from palate import evaluate  # noqa: E402
from palate.engine import Conversation, Failure, WriteRequest, Written, open_language_model  # noqa: E402
from palate.evaluation._ratings import Ratings  # noqa: E402
from palate.records import Benchmark, Card, Comparison, Judgement, PalateError, Part, Post, User, View  # noqa: E402
from palate.runs import open_run  # noqa: E402
from palate.views import Missing, ViewBuilder, Writer, parse_view  # noqa: E402
from tiny_models import CONTEXT, TinyModels  # noqa: E402

CARD = Card(name="test", title="test", version="1", licence="none", source="the test")
CHOSE = Judgement(prompt="Drink?", responses=("Green tea.", "Espresso."), preferred=0)
ANN = User(id="ann", posts=(Post(id="a1", text="I gave up coffee."),), judgements=(CHOSE,))
BOB = User(id="bob", posts=(Post(id="b1", text="Trains are late again."), Post(id="b2", text="I fixed my bicycle.")))
EVE = User(id="eve")


def item(name: str, owner: str, prompt: str) -> Comparison:
    return Comparison(id=name, user_id=owner, prompt=prompt, responses=("Tea.", "Coffee."), preferred=0)


ITEMS = (
    item("q1", "ann", "What should I drink?"),
    item("q2", "ann", "What should I cook?"),
    item("q3", "bob", "What should I drink?"),
    item("q4", "eve", "What should I drink?"),
)
BENCHMARK = Benchmark(card=CARD, users={"ann": ANN, "bob": BOB, "eve": EVE}, comparisons=ITEMS)


class Echo:
    """Writes back what it read of the history, so that a test can see it; keeps what it was asked."""

    name = fingerprint = "echo"
    context: int | None = None

    def __init__(self, answer: str = "", fails: str = "\x00") -> None:
        self.asked: list[str] = []
        self.answer, self.fails = answer, fails

    def count_tokens(self, turns: Conversation) -> int | None:
        return len(turns[-1].content.split())

    def write(self, requests: Sequence[WriteRequest]) -> list[list[Written] | Failure]:
        self.asked += [request.turns[-1].content for request in requests]
        return [
            Failure("content filter")
            if self.fails in request.turns[-1].content
            else [Written(text=self.answer or f"Reads: {request.turns[-1].content}", tokens=1, finished=True)]
            for request in requests
        ]

    choose = likelihood = None


def built(writer: Writer, view: str, items: Sequence[Comparison] = ITEMS) -> dict[str, View]:
    found = ViewBuilder(BENCHMARK, writer=writer).build(parse_view(view), items)
    views = {one.id: view for one, view in zip(items, found, strict=True) if isinstance(view, View)}
    assert len(views) == len(items)
    return views


def echo(model: Echo) -> Writer:
    return Writer(model)  # type: ignore[arg-type]


def persona(writer: Writer, history: Sequence[Part]) -> list[Part]:
    [found] = writer.personas([history])
    assert isinstance(found, list), found.reason
    return found


@pytest.mark.parametrize("kind", ["persona", "plan"])
def test_written_once_and_the_same_every_time(tiny_models: TinyModels, own_cache: Path, kind: str) -> None:
    folder = str(tiny_models.causal("qwen2"))
    model = open_language_model(folder)
    first = built(Writer(model), kind)
    assert first["q1"].parts[0].kind == kind
    assert [part.kind for part in first["q3"].parts] == [kind] * len(first["q3"].parts)
    assert built(Writer(model), kind) == first
    for one in ITEMS:  # alone as among others
        assert built(Writer(model), kind, [one])[one.id] == first[one.id]
    fresh = open_language_model(folder)
    fresh.model.write = None  # type: ignore[attr-defined]  # what was written is not written again
    assert built(Writer(fresh), kind) == first


def test_a_persona_is_of_the_person_and_a_plan_of_the_question() -> None:
    personas = built(echo(Echo()), "persona")
    assert personas["q1"].text == personas["q2"].text
    assert "I gave up coffee." in personas["q1"].text and "Green tea." in personas["q1"].text
    assert "bicycle" in personas["q3"].text and "coffee" not in personas["q3"].text
    assert "What should I drink?" not in personas["q3"].text
    model = Echo(answer="1. Cheap\n- Quick to do\n\n3) Warm\na\nb\nc")
    plans = built(echo(model), "plan")
    assert [part.content for part in plans["q1"].parts] == ["Cheap", "Quick to do", "Warm", "a", "b"]
    assert ["What should I drink?" in asked for asked in model.asked] == [True, False, True]
    assert ["What should I cook?" in asked for asked in model.asked] == [False, True, False]


@pytest.mark.parametrize("kind", ["persona", "plan"])
def test_who_has_no_history_gets_nothing(kind: str) -> None:
    model = Echo()
    views = built(echo(model), kind)
    assert views["q4"].parts == ()
    assert len(model.asked) == 3


@pytest.mark.parametrize("kind", ["persona", "plan"])
def test_swapped_is_written_from_the_strangers_history(kind: str) -> None:
    model = Echo()
    views = built(echo(model), f"swapped:{kind}", ITEMS[:3])
    assert {name: view.user_id for name, view in views.items()} == {"q1": "bob", "q2": "bob", "q3": "ann"}
    assert "bicycle" in model.asked[0] and "coffee" not in model.asked[0].lower()
    assert "I gave up coffee." in model.asked[2]
    if kind == "plan":  # the stranger's history, the user's own question
        assert "What should I drink?" in model.asked[0]


def test_braces_in_a_post_are_only_braces() -> None:
    [part] = persona(echo(Echo()), [Part(kind="post", text="{history} {0} {prompt!r}")])
    assert "{history} {0} {prompt!r}" in part.text


def test_history_beyond_the_context_gives_way(tiny_models: TinyModels, own_cache: Path) -> None:
    model = open_language_model(str(tiny_models.causal()))
    history = [Part(kind="post", text=f"Post {n}: " + "tea " * 40) for n in range(20)]
    [part] = persona(Writer(model), history)
    assert part.content
    seen = Echo()
    seen.context = CONTEXT
    echo(seen).personas([history, [Part(kind="post", text="word " * 2000), Part(kind="post", text="Short.")]])
    assert "Post 0" in seen.asked[0] and "Post 19" not in seen.asked[0]
    assert len(seen.asked[0].split()) + 160 <= CONTEXT
    assert "Short." in seen.asked[1] and "word word" not in seen.asked[1]
    [lost] = echo(seen).personas([[Part(kind="post", text="word " * 2000)]])
    assert lost == Failure("the writer echo could not write: no part of the history fits its context")


@pytest.mark.parametrize("view", ["persona", "plan", "plan+persona", "persona+posts:2", "posts:2+plan"])
def test_a_user_for_whom_the_writer_fails_has_no_view_and_says_why(view: str) -> None:
    """A persona that could not be written must not pass for a person of whom nothing is known."""
    builder = ViewBuilder(BENCHMARK, writer=echo(Echo(fails="bicycle")))
    lost = Missing("the writer echo could not write: content filter")
    found = builder.build(parse_view(view), ITEMS)
    assert [one == lost for one in found] == [False, False, True, False]
    assert [isinstance(one, View) and bool(one.parts) for one in found] == [True, True, False, False]
    for one, among_others in zip(ITEMS, found, strict=True):
        assert builder.build(parse_view(view), [one]) == [among_others]


def test_a_stranger_for_whom_the_writer_fails_is_missed_by_who_would_have_seen_them() -> None:
    builder = ViewBuilder(BENCHMARK, writer=echo(Echo(fails="bicycle")))
    found = builder.build(parse_view("swapped:persona"), ITEMS[:3])
    assert [isinstance(one, Missing) for one in found] == [True, True, False]


def test_what_the_writer_refused_is_unscored_in_the_run(own_cache: Path, tmp_path: Path) -> None:
    cat = User(id="cat", posts=(Post(id="c1", text="The forbidden word."),))
    refused = item("q5", "cat", "What should I drink?")
    benchmark = Benchmark(card=CARD, users={"ann": ANN, "cat": cat}, comparisons=(*ITEMS[:2], refused))
    with faulty_server() as address:
        summary = evaluate(benchmark, ["overlap"], ["persona"], writer=f"m,url={address}/good/v1", out=tmp_path)
    rated = Ratings.of(open_run(Path(summary.run))).browsed["overlap", "persona"]
    reason = "the writer m could not write: HTTP 400: this prompt is not allowed here"
    assert {name: rating.unscored for name, rating in rated.items()} == {
        ("q1", 0): None,
        ("q2", 0): None,
        ("q5", 0): reason,
    }
    [result] = summary.results
    assert (result.unscored, result.empty) == (1, 0)
    assert any(reason in warning for warning in summary.warnings)


def test_a_view_that_nobody_writes_is_refused() -> None:
    with pytest.raises(PalateError, match="name one: --writer smollm2"):
        ViewBuilder(BENCHMARK).require(parse_view("persona"))
    silent = Benchmark(card=CARD, users={"eve": EVE}, comparisons=ITEMS[3:])
    with pytest.raises(PalateError, match="no user of test has any"):
        ViewBuilder(silent, writer=echo(Echo())).require(parse_view("plan"))


def test_a_run_says_who_wrote_its_views(tiny_models: TinyModels, own_cache: Path, tmp_path: Path) -> None:
    writers = [str(tiny_models.causal(seed=seed)) for seed in (0, 1)]
    named = (*writers, writers[0])
    runs = {evaluate(BENCHMARK, ["overlap"], ["persona"], writer=one, out=tmp_path).run for one in named}
    assert len(runs) == 2
    with pytest.raises(PalateError, match="unknown option for a language model"):
        evaluate(BENCHMARK, ["overlap"], ["persona"], writer=f"{writers[0]},colour=red", out=tmp_path)
