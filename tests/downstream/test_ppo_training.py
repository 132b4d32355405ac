"""What training does to a policy: tiny real models, real reward models, no mock."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from palate import Ask, Rating
from palate.downstream import StepLine, Training
from palate.records import Comparison, PalateError, RewardModel, View
from palate.runs import load_models
from tiny_models import CAUSAL, TinyModels, build, save, tokenizer

torch = pytest.importorskip("torch")

from palate.downstream.ppo import _policy_model  # noqa: E402
from palate.downstream.ppo._policy_model import PolicyModel, TokenBatch, open_policy_model  # noqa: E402
from palate.downstream.ppo._ppo import Trainer, log_probabilities  # noqa: E402
from palate.downstream.ppo._split import Prompt  # noqa: E402

SMALL = Training(prompts=2, samples=8, tokens=6, steps=3, epochs=2, minibatches=2, learning_rate=1e-3, kl=0.0)


class Pays:
    """A reward model that is a function of the text."""

    fingerprint = "1"

    def __init__(self, of: Callable[[str], float], name: str = "pays") -> None:
        self.of, self.name = of, name

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        return [Rating([self.of(text) for text in ask.responses]) for ask in asks]


def prompts(policy: PolicyModel, *words: str) -> list[Prompt]:
    found = []
    for place, text in enumerate(words):
        item = Comparison(id=f"item-{place}", user_id="ann", prompt=text, responses=("a", "b"), preferred=0)
        ids = policy.chat.ids(f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n")
        found.append(Prompt(item=item, ids=ids, view=View(name="none"), policy_view=View(name="none")))
    return found


def trainer(
    folder: Path, reward: str | RewardModel, training: Training = SMALL, words: Sequence[str] = ("tea?", "What now?")
) -> Trainer:
    policy = open_policy_model(f"{folder},device=cpu")
    [model] = load_models([reward])
    return Trainer(policy, prompts(policy, *words), model, training, seed=0)


def changed(training: Training = SMALL, **changes: object) -> Training:
    return replace(training, **changes)  # type: ignore[arg-type]


def weights(one: Trainer) -> list[torch.Tensor]:
    return [part.detach().clone() for part in one.policy._model.parameters()]


@pytest.mark.parametrize("algorithm", ["ppo", "rloo"])
def test_the_known_best_answer_is_found(algorithm: str, tiny_models: TinyModels) -> None:
    folder = tiny_models.causal()
    policy = open_policy_model(f"{folder},device=cpu")
    [one] = prompts(policy, "tea?")
    with torch.no_grad():
        expected, order = policy._model(torch.tensor([one.ids])).logits[0, -1].softmax(-1).sort(descending=True)
    words = [policy.chat.tokenizer.decode([token]) for token in order.tolist()]
    word = [text for text in words if text.isascii() and text.isalnum()][2]  # neither likely nor hopeless
    training = changed(algorithm=algorithm, tokens=1, prompts=1, samples=64, steps=16)
    made = trainer(folder, Pays(lambda text: float(text == word)), training, ["tea?"])
    curve = list(made.run())
    assert curve[0].reward < 0.2
    assert mean(curve[-3:], "reward") > 0.9
    assert curve[-1].kl == pytest.approx(-math.log(expected[words.index(word)]), abs=0.4)  # all mass on one answer
    assert curve[-1].entropy < 0.5 * curve[0].entropy


@pytest.mark.parametrize("reward", [0.0, 7.0])
@pytest.mark.parametrize("algorithm", ["ppo", "rloo"])
def test_a_reward_that_says_nothing_moves_nothing(algorithm: str, reward: float, tiny_models: TinyModels) -> None:
    made = trainer(tiny_models.causal(), Pays(lambda _: reward), changed(algorithm=algorithm, kl=0.05))
    before = weights(made)
    curve = list(made.run())
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(before, weights(made), strict=True))
    assert all(abs(line.kl) < 1e-4 for line in curve)


@pytest.mark.parametrize("algorithm", ["ppo", "rloo"])
def test_how_high_the_rewards_of_a_prompt_are_changes_nothing(algorithm: str, tiny_models: TinyModels) -> None:
    class Generous(Pays):
        def rate(self, asks: Sequence[Ask]) -> list[Rating]:
            return [Rating([self.of(text) + 64.0 * (ask.prompt == "tea?") for text in ask.responses]) for ask in asks]

    one, other = (
        trainer(tiny_models.causal(), kind(lambda text: float(text.count("e"))), changed(algorithm=algorithm))
        for kind in (Pays, Generous)
    )
    assert [line.kl for line in one.run()] == [line.kl for line in other.run()]
    assert all(torch.equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


def test_paid_for_brevity_texts_get_shorter(tmp_path: Path) -> None:
    model = build("llama")
    model.generation_config.eos_token_id = [tokenizer().eos_token_id, *range(60, 100)]  # else it hardly ever ends
    folder = save(tmp_path / "model", model)
    training = changed(tokens=16, samples=16, steps=20, kl=0.01)
    curve = list(trainer(folder, "shortest", training).run())
    assert mean(curve[-4:], "length") < 0.6 * mean(curve[:4], "length")
    assert mean(curve[-4:], "truncated") < mean(curve[:4], "truncated")


def mean(lines: Sequence[StepLine], name: str) -> float:
    return sum(getattr(line, name) for line in lines) / len(lines)


def test_paid_by_chance_texts_keep_their_length(tiny_models: TinyModels) -> None:
    """Noise leads the policy away from the reference; that must cost it divergence, and not its words."""
    chance = Pays(lambda text: int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) / 2**32)
    training = changed(samples=8, tokens=32, steps=40, kl=0.1, learning_rate=3e-3)
    curve = list(trainer(tiny_models.causal(), chance, training).run())
    assert mean(curve[-10:], "kl") > 5
    assert mean(curve[-10:], "length") > 0.8 * mean(curve[:5], "length")


def test_divergence_costs(tiny_models: TinyModels) -> None:
    far, near = (
        list(trainer(tiny_models.causal(), "shortest", changed(samples=32, steps=10, kl=kl)).run()) for kl in (0.0, 2.0)
    )
    assert mean(near[-4:], "kl") < 0.5 * mean(far[-4:], "kl")


def test_texts_that_are_cut_off_can_be_fined(tmp_path: Path) -> None:
    model = build("llama")
    model.generation_config.eos_token_id = [tokenizer().eos_token_id, *range(60, 80)]
    folder = save(tmp_path / "model", model)
    training = changed(tokens=8, samples=16, steps=20, truncation_penalty=3.0)
    curve = list(trainer(folder, Pays(lambda _: 1.0), training).run())
    assert mean(curve[-3:], "truncated") < mean(curve[:3], "truncated") - 0.2


@pytest.mark.parametrize("lora", [0, 4])
def test_what_writes_is_what_was_learned(lora: int, tiny_models: TinyModels) -> None:
    """The sampler's own decoder gives every token of a text the probability that the training weights give it."""
    if lora:
        pytest.importorskip("peft", reason="LoRA needs .[train]")
    made = trainer(tiny_models.causal(), "shortest", changed(lora=lora))
    before = weights(made)
    list(made.run())
    assert not all(torch.equal(one, other) for one, other in zip(before, weights(made), strict=True))
    [prompt, _] = made.prompts
    [texts] = made.policy.sample([prompt.ids], [3], changed(samples=4))
    for text in texts:
        response = [*text.ids, text.end] if text.finished else text.ids
        with torch.no_grad():
            read = made.policy.texts([(prompt.ids, response)])
            trained = made.policy.measure(made.policy.read(read), read, log_probabilities)[0]
        drawn = torch.tensor(
            [_drawn(made.policy, [*prompt.ids, *response[:at]], response[at]) for at in range(len(response))]
        )
        assert torch.allclose(trained.exp() / drawn.exp(), torch.ones(len(response)), atol=1e-4)


def _drawn(policy: PolicyModel, before: list[int], token: int) -> float:
    """The log-probability of a token under the copy of the weights that the sampler draws from."""
    with torch.inference_mode():
        decoder = policy._sampler._current_decoder()
        memory = decoder.memory(1, len(before))
        logits = decoder.read([before], memory, 0, decoder.angles(len(before) + 1))
    return float(logits[0].log_softmax(-1)[token])


@pytest.mark.parametrize("family", CAUSAL)
def test_every_family_learns_and_writes_what_it_learned(family: str, tiny_models: TinyModels) -> None:
    made = trainer(tiny_models.causal(family), "shortest", changed(steps=1, learning_rate=1e-2))
    list(made.run())
    ids = made.prompts[0].ids
    [[greedy]] = made.policy._sampler.sample([ids], samples=1, most_tokens=5, temperature=0.0, top_p=1.0, seeds=[0])
    with torch.no_grad():
        read = made.policy.texts([(ids, greedy.ids)])
        likeliest = made.policy.measure(made.policy.read(read), read, lambda logits, _: logits.argmax(-1))
    assert likeliest[0].tolist() == greedy.ids


@pytest.mark.parametrize("changes", [{}, {"gradient_checkpointing": True}, {"batch_tokens": 40}])
def test_how_texts_are_read_changes_nothing(changes: dict[str, object], tiny_models: TinyModels) -> None:
    plain, other = (trainer(tiny_models.causal(), "shortest", training) for training in (SMALL, changed(**changes)))
    curves = [list(one.run()) for one in (plain, other)]
    for one, two in zip(*curves, strict=True):
        assert one.reward == two.reward
        assert one.loss == pytest.approx(two.loss, abs=1e-4)
    for one, two in zip(weights(plain), weights(other), strict=True):
        assert torch.allclose(one, two, atol=2e-4)


@pytest.mark.parametrize("family", CAUSAL)
def test_a_prompt_that_is_read_once_gives_what_reading_it_for_each_text_gives(
    family: str, tiny_models: TinyModels
) -> None:
    policy = open_policy_model(f"{tiny_models.causal(family)},device=cpu")
    policy.begin(SMALL, seed=0)
    long, short = (prompt.ids for prompt in prompts(policy, "What is there to drink?", "tea?"))
    texts = policy.texts([(long, [7, 8, 9]), (short, [5]), (long, [4, 6]), (short, [9, 9, 3, 2])])
    assert len(texts.prompts) == 2
    found = []
    for read in (policy._read_shared, policy._read_whole):
        states = read(policy._trained.base_model, texts)
        logs = policy.measure(states, texts, log_probabilities)
        policy._trained.zero_grad()
        logs.sum().backward()
        found.append((logs.detach(), [part.grad.clone() for part in policy.parameters if part.grad is not None]))
    (shared, gradients), (whole, others) = found
    assert torch.allclose(shared, whole, atol=1e-4)
    assert len(gradients) == len(others) > 0
    for one, other in zip(gradients, others, strict=True):
        assert torch.allclose(one, other, atol=1e-3 * float(other.abs().max()) + 1e-6)


def test_the_reference_is_read_to_the_same_bit_at_the_start(tiny_models: TinyModels) -> None:
    for dtype in ("float32", "bfloat16"):
        policy = open_policy_model(f"{tiny_models.causal()},device=cpu,dtype={dtype}")
        [model] = load_models(["random"])
        made = Trainer(policy, prompts(policy, "tea?", "What?"), model, SMALL, seed=0)
        assert next(made.run()).kl == 0.0


def test_in_bfloat16_the_weights_that_learn_are_float32(tiny_models: TinyModels) -> None:
    policy = open_policy_model(f"{tiny_models.causal()},device=cpu,dtype=bfloat16")
    [model] = load_models(["shortest"])
    made = Trainer(policy, prompts(policy, "tea?", "What?"), model, changed(learning_rate=1e-4), seed=0)
    list(made.run())
    assert {part.dtype for part in policy.learned().values()} == {torch.float32}
    assert {part.dtype for part in weights(made)} == {torch.bfloat16}
    learned = dict(policy._trained.named_parameters())
    for name, own in policy._model.named_parameters():
        assert torch.equal(own, learned[name].to(torch.bfloat16))


def test_an_unscored_text_ends_the_run_or_stays_out(tiny_models: TinyModels) -> None:
    class Picky(Pays):
        def rate(self, asks: Sequence[Ask]) -> list[Rating]:
            rated = super().rate(asks)
            return [
                Rating(unscored="no idea") if ask.id == "item-1" else one for ask, one in zip(asks, rated, strict=True)
            ]

    picky = Picky(len)
    with pytest.raises(PalateError, match="'pays' gave no reward for the texts of item 'item-1': no idea"):
        list(trainer(tiny_models.causal(), picky).run())
    line = next(trainer(tiny_models.causal(), picky, changed(unscored="leave-out")).run())
    assert line.left_out == SMALL.samples
    with pytest.raises(PalateError, match="every text is unscored"):
        list(trainer(tiny_models.causal(), Picky(lambda _: math.nan), changed(unscored="leave-out")).run())


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_reward_that_is_no_number_names_model_and_item(bad: float, tiny_models: TinyModels) -> None:
    with pytest.raises(PalateError, match=r"step 1: the reward model 'pays' gave no reward .* 'item-\d': .*finite"):
        list(trainer(tiny_models.causal(), Pays(lambda _: bad)).run())


def test_gradients_that_are_no_numbers_end_the_run(tiny_models: TinyModels) -> None:
    with pytest.raises(PalateError, match="training diverged"):
        list(trainer(tiny_models.causal(), "shortest", changed(learning_rate=1e30)).run())


def test_logits_in_parts_have_the_same_gradients(tiny_models: TinyModels, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = open_policy_model(f"{tiny_models.causal()},device=cpu")
    policy.begin(changed(temperature=0.7), seed=0)
    [prompt] = (prompt.ids for prompt in prompts(policy, "What is there to drink?"))
    texts = policy.texts([(prompt, [7, 8, 9]), (prompt, [5]), (prompt, [4, 6])])
    found = []
    for at_once in (2**28, 2 * policy._model.config.vocab_size):
        monkeypatch.setattr(_policy_model, "LOGITS_AT_ONCE", at_once)
        logs = policy.measure(policy.read(texts), texts, log_probabilities)
        assert (logs[~texts.mask] == 0).all()
        policy._trained.zero_grad()
        (logs**2).sum().backward()
        found.append([logs.detach(), *(part.grad.clone() for part in policy.parameters if part.grad is not None)])
    whole, parts = found
    assert len(whole) == len(parts) > 2
    for one, other in zip(whole, parts, strict=True):
        assert torch.allclose(one, other, atol=1e-5 * float(one.abs().max()) + 1e-7)


def test_a_model_that_does_something_else_to_its_logits_is_refused(
    tiny_models: TinyModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = open_policy_model(f"{tiny_models.causal()},device=cpu")
    forward = policy._model.forward

    def louder(*given: object, **named: object) -> object:
        answer = forward(*given, **named)
        answer.logits = 3 * answer.logits
        return answer

    monkeypatch.setattr(policy._model, "forward", louder)
    with pytest.raises(PalateError, match="models of the kind LlamaForCausalLM cannot be trained here"):
        policy.begin(SMALL, seed=0)


def test_where_memory_ends_half_as_many_texts_are_read_at_once(
    tiny_models: TinyModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once at the first reading, and once in learning, when a part of the gradients is already there."""
    folder, reward = tiny_models.causal(), Pays(len)
    training = changed(steps=1, batch_tokens=100)
    plain = trainer(folder, reward, training)
    [expected] = list(plain.run())
    short = trainer(folder, reward, training)
    reads, sizes, begun = short.policy.read, [], [False]

    def sometimes(texts: TokenBatch) -> torch.Tensor:
        sizes.append(len(texts.responses))
        half_way = short.policy.parameters[0].grad is not None and not begun[0]
        if len(sizes) == 1 or half_way:
            begun[0] = half_way
            raise torch.OutOfMemoryError("CUDA out of memory")
        return reads(texts)

    monkeypatch.setattr(short.policy, "read", sometimes)
    [line] = list(short.run())
    assert begun[0]
    assert sizes[0] > max(sizes[1:])
    assert sizes[-1] == 1
    assert line.kl == pytest.approx(expected.kl, abs=1e-5)
    for name, learned in plain.policy.learned().items():
        assert torch.allclose(short.policy.learned()[name], learned, atol=1e-5), name


def test_one_text_that_is_too_much_for_the_memory_is_told(
    tiny_models: TinyModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = trainer(tiny_models.causal(), Pays(len))

    def never(texts: TokenBatch) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(short.policy, "read", never)
    with pytest.raises(PalateError, match=r"step 1: the GPU ran out of memory on one text of \d+ tokens"):
        next(short.run())
