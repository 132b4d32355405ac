"""What `palate serve` answers is what the reward model says, to whoever asked it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from palate.data import load_benchmark
from palate.evaluation import make_ask
from palate.records import Ask, Judgement, Part, Rating, View
from palate.rewards import check_reward_model, make_reward_model, rate
from palate.rewards._http import HttpReward
from palate.serve import Batcher, Profiles, trainer_ask
from palate.serve._batcher import rate_together
from palate.views import ViewBuilder, parse_view
from reward_server import RewardServer, http, reward_server
from tiny_models import TinyModels

VIEW = "posts:2+judgements:2"


@pytest.fixture(scope="module")
def asks() -> list[Ask]:
    benchmark = load_benchmark("mini")
    items = benchmark.comparisons[:30]
    views = ViewBuilder(benchmark).build(parse_view(VIEW), items)
    return [make_ask(item, view, 0) for item, view in zip(items, views, strict=True) if isinstance(view, View)]


@pytest.fixture(scope="module")
def server() -> Iterator[RewardServer]:
    with reward_server("--rm", "random", "--rm", "overlap", "--benchmark", "mini", "--view", VIEW) as running:
        yield running


def test_a_model_behind_the_server_rates_as_it_does_here(server: RewardServer, asks: list[Ask]) -> None:
    """`overlap` looks at the parts of the view, at what was chosen in past judgements: all of it has to arrive."""
    remote = make_reward_model(f"http:{server.address}/models/2,batch_size=7")
    assert remote.name == "overlap"
    assert rate(remote, asks) == rate(make_reward_model("overlap"), asks)


def test_it_keeps_the_contract(server: RewardServer) -> None:
    assert check_reward_model(HttpReward(server.address))


def test_of_hundreds_of_requests_at_a_time_none_gets_the_answer_of_another(server: RewardServer) -> None:
    numbers = range(400)
    coin = make_reward_model("random")

    async def one(client: httpx.AsyncClient, number: int) -> httpx.Response:
        ask = {"id": f"ask {number}", "prompt": f"p{number}", "responses": [f"r{number}"] * (1 + number % 3)}
        ask["view_name"] = "none"
        return await client.post(server.address, json={"asks": [ask]}, headers={"X-Request-Id": f"{number}"})

    async def all_at_a_time() -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=64)
        async with httpx.AsyncClient(timeout=300, limits=limits) as client:
            return await asyncio.gather(*(one(client, number) for number in numbers))

    for number, answer in zip(numbers, asyncio.run(all_at_a_time()), strict=True):
        [rating] = answer.json()["ratings"]
        asked = Ask(id=rating["id"], prompt=f"p{number}", responses=(f"r{number}",) * (1 + number % 3))
        assert rating["id"] == f"ask {number}"
        assert answer.headers["X-Request-Id"] == f"{number}"
        assert tuple(rating["scores"]) == coin.rate([asked])[0].scores


def test_asks_of_one_user_are_merged_and_split_again_without_changing_a_score(tiny_models: TinyModels) -> None:
    model = make_reward_model(f"classifier:{tiny_models.classifier()}")
    views = [
        View(
            name="posts", user_id=user, parts=(Part(kind="post", text=text), Part(kind="post", text="and rain. " * 10))
        )
        for user, text in (("ann", "I drink tea."), ("bob", "I drink coffee."))
    ]
    texts = ["Tea.", "A pot of green tea, slowly.", "Nothing at all."]
    asks = [
        Ask(
            id=f"{place}",
            prompt=prompt,
            responses=tuple(f"{text} {place}" for text in texts[: 1 + place % 3]),
            view=view,
        )
        for place, (prompt, view) in enumerate(
            (p, v) for p in ("Morning?", "Evening?") for v in views for _ in range(4)
        )
    ]
    # A response so long that parts of the view give way must not take them from those it is merged with.
    asks.append(Ask(id="long", prompt="Morning?", responses=("tea " * 150,), view=views[0]))
    calls: list[int] = []

    class Counted:
        name, pointwise = model.name, True

        def rate(self, asks: list[Ask]) -> list[Rating]:
            calls.append(len(asks))
            return list(model.rate(asks))

    together, alone = rate_together(Counted(), asks), [rate(model, [ask])[0] for ask in asks]
    assert calls == [4, 5]  # four pairs of user and prompt; then the long one and the four it was merged with
    assert alone[-1].note
    for one, other in zip(together, alone, strict=True):
        assert one.scores == pytest.approx(other.scores, abs=1e-4)
        assert one.note == other.note


def test_a_profile_that_was_read_before_gives_the_same_scores_to_the_bit(tiny_models: TinyModels) -> None:
    """The tokens of profiles and prompts are kept: nobody may get those of another, whoever asked before."""
    spec = f"classifier:{tiny_models.classifier()}"
    asks = [
        trainer_ask(f"{user} {prompt} {text}", prompt, [text], user_id=user, view=f"I am {user}. " * 5)
        for user in ("ann", "bob", "cem")
        for prompt in ("Morning?", "Evening?")
        for text in ("Tea.", "A pot of green tea.")
    ]
    fresh = [rate(make_reward_model(spec), [ask])[0] for ask in asks]
    assert len({rating.scores for rating in fresh}) == len(asks)
    used = make_reward_model(spec)
    for _ in range(2):
        assert [rate(used, [ask])[0] for ask in asks] == fresh
    batcher = Batcher(used)
    answers = [batcher.submit([ask]) for ask in asks * 3]
    batcher.close()
    for answer, expected in zip(answers, fresh * 3, strict=True):
        assert answer.result()[0].scores == pytest.approx(expected.scores, abs=1e-5)


def test_a_judge_of_pairs_is_never_shown_the_responses_of_another_request() -> None:
    class Rank:
        name = "rank"

        def rate(self, asks: list[Ask]) -> list[Rating]:
            return [Rating([sorted(ask.responses).index(text) for text in ask.responses]) for ask in asks]

    asks = [Ask(id=f"{n}", prompt="same", responses=(f"b{n}", f"a{n}")) for n in range(5)]
    batcher = Batcher(Rank())
    answers = [batcher.submit([ask]) for ask in asks]
    batcher.close()
    assert [answer.result() for answer in answers] == [[Rating([1, 0])]] * 5


def test_who_is_cancelled_is_left_out_and_nobody_else_suffers() -> None:
    batcher = Batcher(make_reward_model("longest"), wait=0.2)
    first, second = (batcher.submit([Ask(id="a", prompt="", responses=("four",))]) for _ in range(2))
    first.cancel()
    assert second.result(300) == [Rating([4])]
    batcher.close()


def test_the_server_knows_the_users_of_a_benchmark(server: RewardServer) -> None:
    user = sorted(load_benchmark("mini").users)[0]
    named = {
        "id": "1",
        "prompt": "What shall I read?",
        "responses": ["A poem about rain.", "A novel."],
        "user_id": user,
    }
    stranger = named | {"id": "2", "user_id": "nobody"}
    given = named | {"id": "3", "view": "A novel, please."}
    answer = http.post(f"{server.address}/models/2", json={"asks": [named, stranger, given]}).json()["ratings"]
    profiles = Profiles("mini", VIEW)
    asked = Ask(
        id="1",
        prompt=named["prompt"],
        responses=tuple(named["responses"]),
        view=View(name="user", user_id=user, by_name=True),
    )
    [filled] = profiles.fill([asked])
    assert isinstance(filled, Ask)
    [expected] = make_reward_model("overlap").rate([filled])
    assert answer[0] == {"id": "1", "scores": list(expected.scores or ())}
    assert "no user 'nobody'" in answer[1]["unscored"]
    assert answer[2]["scores"] == [0, 1]


def test_views_that_need_more_than_a_user_and_a_prompt_are_refused() -> None:
    for view in ("none", "oracle", "swapped:posts:2", "persona"):
        with pytest.raises(Exception, match="cannot be built for a request"):
            Profiles("mini", view)


def test_the_fingerprint_tells_models_and_views_apart(server: RewardServer, tmp_path: Path) -> None:
    ready = http.get(f"{server.address}/ready").json()
    first, second = ready["models"]
    assert [first["name"], second["name"]] == ["random", "overlap"]
    assert http.get(f"{server.address}/health").json() == first
    assert http.get(f"{server.address}/models/2/health").json() == second
    assert http.get(f"{server.address}/ready", params={"model": second["fingerprint"]}).status_code == 200
    assert http.get(f"{server.address}/ready", params={"model": "0" * 16}).status_code == 412
    refused = http.post(
        f"{server.address}/get_reward?model={second['fingerprint']}", json={"query": ["a"], "prompts": [""]}
    )
    assert (refused.status_code, "this is random" in refused.json()["detail"]) == (412, True)
    assert http.get(f"{server.address}/models/3/health").status_code == 404
    with reward_server("--rm", "random", "--benchmark", "mini", "--view", "posts:1") as other:
        assert http.get(f"{other.address}/health").json()["fingerprint"] != first["fingerprint"]


def test_a_model_that_knows_nobody_by_name_is_not_asked_about_a_name() -> None:
    """Else a trainer would be paid by a model that never saw the profile, and nobody would notice."""
    ask = trainer_ask("1", "What shall I drink?", ["Tea."], user_id="ann")
    batcher = Batcher(make_reward_model("overlap"))
    [rating] = batcher.submit([ask]).result(300)
    batcher.close()
    assert rating.unscored == (
        "overlap knows no user by name: send a view along, or name the benchmark that has the users"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            Part(kind="judgement", text="", judgement=Judgement(prompt="Tea?", responses=("Yes.", "No."), preferred=0)),
            Part(kind="judgement", text="", judgement=Judgement(prompt="Tea?", responses=("Yes.", "No."), preferred=1)),
        ),
        (
            Part(kind="demographics", text="", fields={"age": "30"}),
            Part(kind="demographics", text="", fields={"age": "80"}),
        ),
        (Part(kind="post", text="Tea."), Part(kind="post", text="Tea.", borrowed=True)),
    ],
    ids=["choices", "fields", "borrowed"],
)
def test_views_that_look_alike_and_differ_are_not_merged(one: Part, other: Part) -> None:
    """Two clients whose parts have the same text: neither may be answered for the view of the other."""
    seen: list[Part] = []

    class Reads:
        name, pointwise = "reads", True

        def rate(self, asks: Sequence[Ask]) -> list[Rating]:
            seen.extend(ask.view.parts[0] for ask in asks)
            return [Rating([0.0] * len(ask.responses)) for ask in asks]

    asks = [
        Ask(id=str(place), prompt="Tea?", responses=(str(place),), view=View(name="given", parts=(part,)))
        for place, part in enumerate((one, other))
    ]
    rate_together(Reads(), asks)
    assert seen == [one, other]
