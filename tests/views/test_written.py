"""Views that a language model writes: once for the same history, from the right person, and from nothing nothing."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from palate import evaluate  # noqa: E402
from palate.engine import Conversation, Failure, WriteRequest, Written, open_language_model  # noqa: E402
from palate.records import Benchmark, Card, Comparison, Judgement, PalateError, Part, Post, User, View  # noqa: E402
from palate.views import ViewBuilder, Writer, parse_view  # noqa: E402
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


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


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
    fresh._model.write = None  # type: ignore[attr-defined]  # what was written is not written again
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
    [[part]] = echo(Echo()).personas([[Part(kind="post", text="{history} {0} {prompt!r}")]])
    assert "{history} {0} {prompt!r}" in part.text


def test_history_beyond_the_context_gives_way(tiny_models: TinyModels, own_cache: Path) -> None:
    model = open_language_model(str(tiny_models.causal()))
    history = [Part(kind="post", text=f"Post {n}: " + "tea " * 40) for n in range(20)]
    [[part]] = Writer(model).personas([history])
    assert part.content
    seen = Echo()
    seen.context = CONTEXT
    echo(seen).personas([history, [Part(kind="post", text="word " * 2000), Part(kind="post", text="Short.")]])
    assert "Post 0" in seen.asked[0] and "Post 19" not in seen.asked[0]
    assert len(seen.asked[0].split()) + 160 <= CONTEXT
    assert "Short." in seen.asked[1] and "word word" not in seen.asked[1]
    assert echo(seen).personas([[Part(kind="post", text="word " * 2000)]]) == [[]]


def test_a_writer_that_fails_is_heard_of() -> None:
    """A persona that could not be written must not pass for a person of whom nothing is known."""
    with pytest.raises(PalateError, match="the writer echo could not write: content filter"):
        built(echo(Echo(fails="person")), "persona")
    with pytest.warns(UserWarning, match="1 of 2 views could not be written: content filter"):
        views = built(echo(Echo(fails="bicycle")), "persona", [ITEMS[0], ITEMS[2]])
    assert views["q1"].parts and not views["q3"].parts


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
