"""Reach against worlds where the truth is known: in numbers alone, and with a real policy of random weights."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from palate import Ask, Rating
from palate.data import Pseudonyms
from palate.downstream import REACH, Drawing, ReachSummary, reach
from palate.downstream._items import ITEMS, PromptItem
from palate.downstream._samples import SAMPLES
from palate.downstream.reach._arithmetic import (
    Direction,
    advantages,
    agreements,
    centred,
    covariances,
    deviation,
    gains,
    in_deviations,
)
from palate.downstream.reach._results import RewardReach
from palate.downstream.reach._run import SLOPES, halves
from palate.privacy import forget
from palate.records import Benchmark, Card, Comparison, Completion, Draft, Grade, PalateError, User
from palate.report import document_page
from palate.runs import VIEWS, open_run
from palate.stats import Floats, PairedTest, Resamples, paired_tests
from tiny_models import TinyModels

pytest.importorskip("torch")

from palate.downstream.ppo._policy_model import open_policy_model
from palate.downstream.reach import _gradient
from palate.downstream.reach._gradient import PolicyGradient, ReadText
from palate.downstream.reach._sketch import SketchedGradient

NAN = np.nan


# ---- In numbers. ---------------------------------------------------------------------------------------------------


def test_advantages_are_those_of_ppo() -> None:
    scores = np.array([[1.0, 2.0, 3.0], [10.0, 10.0, NAN], [NAN, 5.0, NAN]])
    apart = centred(scores)
    assert apart[0].tolist() == [-1, 0, 1]
    assert apart[1, :2].tolist() == [0, 0]
    assert np.isnan(apart[2]).all()  # alone, a text is neither better nor worse
    assert deviation(scores) == pytest.approx(np.sqrt(2 / 3))
    assert np.nanmean(advantages(scores)) == pytest.approx(0)
    assert np.array_equal(advantages(scores), advantages(2 * scores + 7), equal_nan=True)
    assert not np.nansum(np.abs(advantages(np.full((2, 3), 0.1))))


def test_covariances_are_within_prompts_and_over_what_both_have() -> None:
    one = np.array([[1.0, 2.0, 4.0], [100.0, 101.0, NAN], [1.0, NAN, 2.0]])
    other = np.array([[3.0, 1.0, 2.0], [5.0, 7.0, 9.0], [NAN, 1.0, 2.0]])
    found = covariances(one, other)
    assert found[0] == pytest.approx(np.cov(one[0], other[0])[0, 1])
    assert found[1] == pytest.approx(np.cov(one[1, :2], other[1, :2])[0, 1])
    assert np.isnan(found[2])


def test_agreement_counts_pairs_that_the_critic_tells_apart() -> None:
    grades = np.array([[1.0, 2.0, 2.0], [1.0, 1.0, 1.0]])
    scores = np.array([[0.0, 1.0, 0.0], [1.0, 2.0, 3.0]])
    found = agreements(scores, grades)
    assert found[0] == pytest.approx(0.75)
    assert np.isnan(found[1])


class World:
    """Texts with random gradients in a small space of weights, and people who like some of its directions."""

    def __init__(self, seed: int, users: int = 40, items: int = 2, texts: int = 6, size: int = 12) -> None:
        self.draw = np.random.default_rng(seed)
        self.texts = self.draw.normal(size=(users * items, texts, size))
        self.users = np.repeat(np.arange(users), items)
        self.half = self.users % 2
        self.items = [PromptItem(id=f"{place}", user_id=f"{user}", prompt="?") for place, user in enumerate(self.users)]

    def direction(self, scores: Floats) -> Direction:
        """With the slopes that the policy would show."""
        paid = advantages(scores)
        slopes = np.zeros(scores.shape)
        for side in (0, 1):
            gradient = np.einsum("itk,it->k", self.texts[self.half != side], paid[self.half != side])
            slopes[self.half == side] = self.texts[self.half == side] @ gradient / paid[self.half != side].size
        return Direction(scores, slopes)

    def test(self, values: Floats) -> tuple[float, float, float]:
        """The mean, and its interval."""
        clusters = self.users.astype(np.intp)
        names = np.array([item.user_id for item in self.items])
        [found] = paired_tests([(values, (-np.inf, np.inf))], clusters, names, Resamples(int(clusters.max()) + 1, 0))
        assert found is not None and found.low is not None and found.high is not None
        return found.difference, found.low, found.high


def test_a_reward_that_is_the_score_itself_is_followed_as_far_as_gradients_go() -> None:
    world = World(0, users=400)
    liked = np.zeros(12)
    liked[0] = 3.0
    noise = 4 * world.draw.normal(size=world.texts.shape[:2])
    critic = world.direction(world.texts @ liked + noise)
    value, low, high = world.test(gains(world.half, critic, critic))
    assert low < 3.0 < high  # along the direction that is liked, a unit of log pi is worth three points
    assert value == pytest.approx(3.0, abs=0.3)
    rise, _, _ = world.test(in_deviations(gains(world.half, critic, critic), critic.scores))
    assert rise == pytest.approx(3 / 5, abs=0.05)  # the noise cannot be followed


def test_gains_change_sign_with_the_reward_and_not_with_its_size() -> None:
    world = World(1)
    critic = world.direction(world.texts[..., 0] + world.draw.normal(size=world.texts.shape[:2]))
    scores = world.texts[..., 0] - world.texts[..., 1]
    plain, turned, large = (
        world.test(gains(world.half, world.direction(one), critic)) for one in (scores, -scores, 1000 * scores + 3)
    )
    assert plain[0] > 0.4
    assert turned == pytest.approx((-plain[0], -plain[2], -plain[1]))
    assert large == pytest.approx(plain)
    assert np.isnan(gains(world.half, world.direction(0 * scores), critic)).all()


def test_a_random_reward_has_no_gain_though_everybody_likes_the_same() -> None:
    """Its gradient is noise with a real effect on everybody; the interval has to know how noisy it is."""
    misses, blind = 0, 0
    for seed in range(120):
        world = World(seed, users=20)
        critic = world.direction(3 * world.texts[..., 0] + world.draw.normal(size=world.texts.shape[:2]))
        noise = world.direction(world.draw.normal(size=world.texts.shape[:2]))
        _, low, high = world.test(gains(world.half, noise, critic))
        misses += not low <= 0 <= high
        _, low, high = world.test(gains(world.half, noise, Direction(critic.scores, 0 * critic.slopes)))
        blind += not low <= 0 <= high
    assert misses <= 9  # of 120, six are expected
    assert blind > 40  # to whom the gradient came from


def test_intervals_hold_the_gain_of_the_true_gradient() -> None:
    """A reward that everybody shares in part: the gain along its expected gradient is known."""
    misses = 0
    for seed in range(100):
        world = World(1000 + seed, users=40, size=6)
        scores = world.texts[..., 0] + world.texts[..., 1] + 2 * world.draw.normal(size=world.texts.shape[:2])
        critic = world.direction(world.texts[..., 0] + world.draw.normal(size=world.texts.shape[:2]))
        _, low, high = world.test(gains(world.half, world.direction(scores), critic))
        misses += not low <= 1 / np.sqrt(2) <= high
    assert misses <= 12


def test_two_gradients_are_compared_at_the_same_length_of_step() -> None:
    world = World(2)
    critic = world.direction(world.texts[..., 0])
    own, stranger = (
        world.direction(world.texts[..., 0]),
        world.direction(world.draw.normal(size=(*world.half.shape, 6))),
    )
    both = world.direction(own.scores + stranger.scores)
    assert np.array_equal(gains(world.half, own, critic, own), gains(world.half, own, critic))
    alone = world.test(gains(world.half, stranger, critic))[0]
    beside = world.test(gains(world.half, stranger, critic, own))[0]
    length = np.sqrt(np.mean(stranger.slopes.var(1)) / np.mean(own.slopes.var(1)))
    assert beside == pytest.approx(alone * length, abs=0.02)
    assert length < 0.5  # a gradient of noise is short
    # What goes into a pay adds up in what comes of it.
    sums = [deviation(one.scores) * world.test(gains(world.half, one, critic, own))[0] for one in (own, stranger, both)]
    assert sums[0] + sums[1] == pytest.approx(sums[2])


def test_halves_are_drawn_by_the_seed_and_keep_twins_together() -> None:
    items = [
        PromptItem(id=f"{user}-{place}", user_id=f"{user}", prompt="?", twin=f"{user ^ 1}-{place}")
        for user in range(12)
        for place in range(2)
    ]
    found = halves(items, 0)
    sides = dict(zip((item.user_id for item in items), found.tolist(), strict=True))
    assert sum(sides.values()) == 6
    assert all(sides[f"{user}"] == sides[f"{user ^ 1}"] for user in range(12))
    assert any(halves(items, seed).tolist() != found.tolist() for seed in range(1, 5))
    with pytest.raises(PalateError, match="cannot be split into two halves"):
        halves(items[:4], 0)


# ---- With a policy. ------------------------------------------------------------------------------------------------


LETTERS = Drawing(samples=8, tokens=1, top_p=1.0)
LOVES, HATES = "green tea in the garden", "What nothing else? Answer with [[A]] or [[B]]. " * 6


def letters(users: int = 64) -> Benchmark:
    """Every second person loves texts that begin with some letters, and the others hate them."""
    people = {name: User(id=name, values=(LOVES if taste(name) > 0 else HATES,)) for name in map(str, range(users))}
    asked = tuple(
        Comparison(id=f"item-{name}", user_id=name, prompt="Tea?", responses=("e", "a"), preferred=0) for name in people
    )
    card = Card(name="letters", title="Letters", version="1", licence="none", source="made for the tests")
    return Benchmark(card=card, users=people, comparisons=asked)


def taste(user: str | None) -> float:
    return 1.0 if user is not None and int(user) % 2 else -1.0


def loved(text: str) -> float:
    return float(chance(text[:1]) > 0.5)


def chance(*words: object) -> float:
    return int.from_bytes(hashlib.sha256("\x00".join(map(str, words)).encode()).digest()[:4]) / 2**32


class Letter:
    """The critic, who has no word for the first text of one item."""

    name = fingerprint = "letter"

    def require(self, items: Sequence[Comparison | Completion]) -> None:
        return None

    def judge(self, drafts: Sequence[Draft]) -> list[Grade]:
        grades = [Grade(taste(draft.item.user_id) * loved(draft.text)) for draft in drafts]
        first = next((place for place, draft in enumerate(drafts) if draft.item.user_id == "7"), None)
        if first is not None:
            grades[first] = Grade(unscored="no word")
        return grades


class Pays:
    """A reward model that is a function of whom it sees and of the text."""

    def __init__(self, name: str, of: Callable[[str | None, str], float]) -> None:
        self.name = self.fingerprint = name
        self.of = of

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        return [
            Rating(unscored="no idea")
            if self.name == "true" and ask.id == "item-3"
            else Rating([self.of(ask.view.user_id, text) for text in ask.responses])
            for ask in asks
        ]


TRUE = Pays("true", lambda user, text: taste(user) * loved(text))
TURNED = Pays("turned", lambda user, text: -taste(user) * loved(text))
REWARDS = [
    TRUE,
    TURNED,
    Pays("double", lambda user, text: 5 - 2 * taste(user) * loved(text)),
    Pays("everybody", lambda user, text: loved(text)),
    Pays("random", lambda user, text: chance(user, text)),
    Pays("constant", lambda user, text: 1.0),
]


def told(policy: Path, rewards: Sequence[Pays], out: Path, **options: object) -> ReachSummary:
    return reach(
        letters(), f"{policy},device=cpu", rewards, Letter(), view="values", drawing=LETTERS, out=out, **options
    )  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def summary(tiny_models: TinyModels, tmp_path_factory: pytest.TempPathFactory) -> ReachSummary:
    return told(tiny_models.causal(), REWARDS, tmp_path_factory.mktemp("reach"))


def by_name(summary: ReachSummary) -> dict[str, RewardReach]:
    return {one.rm: one for one in summary.models}


def difference(test: PairedTest | None) -> float:
    assert test is not None
    return test.difference


def test_a_reward_that_knows_people_reaches_others_who_are_like_them(summary: ReachSummary) -> None:
    true = by_name(summary)["true"]
    assert true.reach is not None and true.reach.low is not None
    assert true.reach.low > 0
    assert true.reach.difference == pytest.approx(difference(true.pays) - difference(true.pays_stranger))
    assert difference(true.pays) > 0.1 > difference(true.pays_stranger)
    assert difference(true.rise_reach) > 0.2
    assert 0 < difference(true.rise) < 1
    assert difference(true.followed) > difference(true.pays)
    assert true.agreement is not None and true.agreement.value == 1
    assert difference(summary.critic_pays) == pytest.approx(difference(true.pays), rel=0.1)
    assert "would move towards what these people want" in next(
        finding.text for finding in summary.findings if finding.text.startswith("true: a")
    )


def test_a_turned_reward_has_the_opposite_reach_and_its_size_does_not_matter(summary: ReachSummary) -> None:
    models = by_name(summary)
    turned, double = models["turned"], models["double"]
    assert difference(turned.reach) == pytest.approx(-difference(models["true"].reach), rel=0.15)
    assert turned.reach is not None and turned.reach.high is not None
    assert turned.reach.high < 0
    for name in ("reach", "pays", "rise", "rise_stranger", "followed"):
        assert difference(getattr(double, name)) == pytest.approx(difference(getattr(turned, name)), rel=1e-3)
    assert turned.agreement is not None and turned.agreement.value == 0


def test_what_is_not_personal_has_no_reach(summary: ReachSummary) -> None:
    models = by_name(summary)
    everybody, random = models["everybody"], models["random"]
    assert difference(everybody.rise) > 0.2  # the policy can follow it
    assert everybody.rise is not None and everybody.rise.q < 0.05
    assert difference(everybody.reach) == 0
    assert difference(everybody.pays) == difference(everybody.pays_stranger)
    for test in (random.reach, random.pays, random.rise, random.rise_reach):
        assert test is not None and test.low is not None and test.high is not None
        assert test.low <= 0 <= test.high
    assert models["constant"].reach is None
    assert any(finding.text.startswith("constant: no gradient") for finding in summary.findings)


def test_what_has_no_score_is_left_out_and_counted(summary: ReachSummary) -> None:
    true = by_name(summary)["true"]
    assert (true.left_out, true.reasons) == (1, {"no idea": 1})
    assert true.rise is not None and true.rise.n == summary.counted - 1
    lines = list(open_run(Path(summary.run)).read(SAMPLES))
    silent = sum(not text and place in line.unfinished for line in lines for place, text in enumerate(line.texts))
    assert (summary.ungraded, summary.unread, summary.counted, summary.halves) == (1, silent, 64, (32, 32))
    assert summary.complete


def test_numbers_are_recomputed_from_the_folder(summary: ReachSummary) -> None:
    run = open_run(Path(summary.run))
    assert msgspec.json.encode(REACH.summarise(run)) == msgspec.json.encode(summary)
    page = document_page(REACH.document(run, summary))
    for word in ("(critic)", "Sample 1", "Rise", "swapped:values"):
        assert word in page
    assert "item-3" not in document_page(REACH.document(run, summary, users=False))


def test_stopped_after_a_reward_it_goes_on_and_ends_with_the_same_bytes(
    tiny_models: TinyModels, tmp_path: Path
) -> None:
    def stop(what: str, done: int, total: int) -> None:
        assert 0 <= done <= total
        if what.startswith("the gradient of turned, seeing swapped"):
            raise KeyboardInterrupt

    folders = []
    for out in (tmp_path / "calm", tmp_path / "stopped"):
        _gradient._remembered.clear()
        if out.name == "stopped":
            with pytest.raises(KeyboardInterrupt):
                told(tiny_models.causal(), [TRUE, TURNED], out, limit=12, progress=stop)
            [folder] = out.glob("letters-reach-*")
            assert not REACH.summarise(open_run(folder)).complete
            with (folder / SLOPES.name).open("ab") as stream:
                stream.write(b'{"policy_view": "val')
            _gradient._remembered.clear()
        folders.append(Path(told(tiny_models.causal(), [TRUE, TURNED], out, limit=12).run))
    calm, stopped = folders
    for ledger in open_run(calm).ledgers:
        assert (calm / ledger.name).read_bytes() == (stopped / ledger.name).read_bytes(), ledger.name


def test_a_person_can_be_forgotten(tiny_models: TinyModels, tmp_path: Path) -> None:
    folder = Path(told(tiny_models.causal(), [TRUE], tmp_path / "runs", limit=12).run)
    one = next(iter(open_run(folder).read(ITEMS)))
    receipt = forget(one.user_id, Pseudonyms(b"a key of this test"), runs=[folder])
    after = open_run(folder)
    assert one.id not in {line.item for line in after.read(SLOPES)}
    assert not any(line.user_id == one.user_id for line in after.read(VIEWS))
    assert REACH.summarise(after).counted == 11
    assert any("gradients that this user" in text for text in receipt.not_erased)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drawing": Drawing(samples=1)}, "-n must be at least 2"),
        ({"drawing": Drawing(temperature=0.0)}, "--temperature 0"),
        ({"view": "none"}, "--view none"),
        ({"limit": 3}, "cannot be split"),
        ({"policy": "m,url=http://127.0.0.1:9/v1"}, "cannot be trained from here"),
    ],
)
def test_what_has_no_gradient_is_refused(
    options: dict[str, object], message: str, tiny_models: TinyModels, tmp_path: Path
) -> None:
    given = {"policy": f"{tiny_models.causal()},device=cpu", "view": "values", "out": tmp_path} | options
    with pytest.raises(PalateError, match=message):
        reach(letters(), reward_models=[TRUE], critic=Letter(), **given)  # type: ignore[arg-type]


# ---- The gradient itself. ------------------------------------------------------------------------------------------


def written(items: int = 6, texts: int = 3) -> list[ReadText]:
    draw = np.random.default_rng(0)
    return [
        ReadText(item, [5, 6, 7 + item], draw.integers(10, 200, int(draw.integers(1, 5))).tolist())
        for item in range(items)
        for _ in range(texts)
    ]


def test_slopes_are_what_a_real_step_does_and_the_weights_come_back_bit_for_bit(tiny_models: TinyModels) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    policy = open_policy_model(f"{tiny_models.causal()},device=cpu")
    texts = written()
    source, target = range(9), range(9, 18)
    paid = np.random.default_rng(1).normal(size=9)
    gradient = PolicyGradient(policy, texts, temperature=1.0)
    before = [part.detach().clone() for part in policy.parameters]
    found = gradient.slopes(source, paid, target, lambda part: None)
    assert all(torch.equal(part, own) for part, own in zip(before, policy.parameters, strict=True))
    assert all(part.grad is None for part in policy.parameters)

    plain = transformers.AutoModelForCausalLM.from_pretrained(tiny_models.causal()).double()

    def log_pi(text: ReadText) -> torch.Tensor:
        ids = torch.tensor([[*text.prompt, *text.response]])
        logs = plain(ids).logits[0, len(text.prompt) - 1 : -1].log_softmax(-1)
        return logs.gather(1, torch.tensor(text.response)[:, None]).sum()

    loss = -sum(worth * log_pi(texts[place]) for worth, place in zip(paid.tolist(), source, strict=True)) / 9
    loss.backward()
    with torch.no_grad():
        old = [float(log_pi(texts[place])) for place in target]
        torch.optim.SGD(plain.parameters(), lr=1e-5).step()
        new = [float(log_pi(texts[place])) for place in target]
    real = (np.array(new) - np.array(old)) / 1e-5
    assert np.abs(found - real).max() < 0.02 * np.abs(real).max()
    assert np.corrcoef(found, real)[0, 1] > 0.999
    _gradient._remembered.clear()
    again = gradient.slopes(source, paid, target, lambda part: None)
    assert again.tolist() == found.tolist()
    assert not gradient.slopes(source, 0 * paid, target, lambda part: None).any()


def test_what_was_paid_the_same_before_is_not_read_again(
    tiny_models: TinyModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    _gradient._remembered.clear()
    policy = open_policy_model(f"{tiny_models.causal()},device=cpu")
    texts, paid, reads = written(), np.random.default_rng(1).normal(size=9), list[object]()
    read = policy.read
    monkeypatch.setattr(policy, "read", lambda batch: reads.append(batch) or read(batch))

    def slopes(texts: list[ReadText], paid: Floats, source: range) -> list[float]:
        gradient = PolicyGradient(policy, texts, temperature=1.0)
        found: list[float] = gradient.slopes(source, paid, range(9, 18), lambda part: None).tolist()
        return found

    first = slopes(texts, paid, range(9))
    count = len(reads)
    assert count and slopes(texts, paid, range(9)) == first and len(reads) == count
    others = [*texts[:-1], ReadText(texts[-1].item, texts[-1].prompt, [11])]
    for changed in ((texts, -paid, range(9)), (texts, paid[:8], range(8)), (others, paid, range(9))):
        assert slopes(*changed) != first
        assert len(reads) > count
        count = len(reads)


def test_where_memory_ends_half_as_many_texts_are_read(
    tiny_models: TinyModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    policy = open_policy_model(f"{tiny_models.causal()},device=cpu")
    texts, paid = written(), np.random.default_rng(1).normal(size=9)
    gradient = PolicyGradient(policy, texts, temperature=1.0)
    expected = gradient.slopes(range(9), paid, range(9, 18), lambda part: None)
    reads, failed = policy.read, []

    def once(batch: object) -> object:
        if not failed:
            failed.append(True)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return reads(batch)  # type: ignore[arg-type]

    monkeypatch.setattr(policy, "read", once)
    _gradient._remembered.clear()
    found = gradient.slopes(range(9), paid, range(9, 18), lambda part: None)
    assert failed
    assert np.abs(found - expected).max() < 1e-2 * np.abs(expected).max()


@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2"])  # tied weights, biases, matrices the other way round
def test_a_sketch_that_shortens_nothing_gives_the_same_slopes(tiny_models: TinyModels, family: str) -> None:
    policy = f"{tiny_models.causal(family)},device=cpu"
    texts, source, target = written(), range(9), range(9, 18)
    paid = np.random.default_rng(1).normal(size=9)
    exact = PolicyGradient(open_policy_model(policy), texts, temperature=0.7).slopes(
        source, paid, target, lambda part: None
    )
    sketched = SketchedGradient(open_policy_model(policy), texts, temperature=0.7, size=10_000)
    told: list[float] = []
    found = sketched.slopes(source, paid, target, told.append)
    assert np.abs(found - exact).max() < 0.01 * np.abs(exact).max()
    assert told[-1] == 1
    told.clear()
    assert not sketched.slopes(source, 0 * paid, target, told.append).any()
    again = SketchedGradient(open_policy_model(policy), texts, temperature=0.7, size=10_000)
    assert np.array_equal(again.slopes(source, paid, target, told.append), found)
    assert not told  # texts are read once, for all rewards


def test_the_error_of_a_sketch_falls_with_its_size(tiny_models: TinyModels) -> None:
    policy = open_policy_model(f"{tiny_models.causal()},device=cpu")
    texts = written(items=20)
    everything = range(len(texts))
    paid = np.random.default_rng(1).normal(size=len(texts))

    def slopes(size: int) -> Floats:
        sketched = SketchedGradient(policy, texts, temperature=1.0, size=size)
        return sketched.slopes(everything, paid, everything, lambda part: None)

    exact = slopes(10_000)
    small, large = (np.abs(slopes(size) - exact).mean() / np.abs(exact).mean() for size in (4, 24))
    assert large < 0.8 * small
    assert large < 0.3


def test_reach_by_sketches_is_about_the_same_and_says_so(
    tiny_models: TinyModels, summary: ReachSummary, tmp_path: Path
) -> None:
    sketched = told(tiny_models.causal(), REWARDS, tmp_path, sketch=32)
    assert sketched.sketch == 32 and summary.sketch is None
    for name, exact in by_name(summary).items():
        if exact.reach is not None:
            assert difference(by_name(sketched)[name].reach) == pytest.approx(exact.reach.difference, abs=0.1)
    with pytest.raises(PalateError, match="--sketch must be at least 4"):
        told(tiny_models.causal(), REWARDS, tmp_path, sketch=1)
