"""A continuation depends on its prompt, seed, number and settings; our decoder gives transformers' logits."""

from itertools import chain
from typing import Any

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from palate.engine import _decoder, _sampler  # noqa: E402
from palate.engine._decoder import Decoder, Memory, longest_supported  # noqa: E402
from palate.engine._gumbel import GumbelSampler, _least_by_halving, _least_by_sorting, row_keys  # noqa: E402
from palate.engine._sampler import (  # noqa: E402
    Decoding,
    Sampled,
    Sampler,
)

SHAPE = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "initializer_range": 0.5,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10_000.0, "original_max_position_embeddings": 64}
FAMILY = {
    "llama": ("Llama", {}),
    "llama with biases": ("Llama", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    "llama with stretched rotation": ("Llama", {"rope_parameters": YARN}),
    "mistral": ("Mistral", {"sliding_window": 128}),
    "qwen2": ("Qwen2", {}),
    "qwen3": ("Qwen3", {}),
}
OTHERS = {
    "gemma": ("Gemma", {}),
    "gemma2": ("Gemma2", {"sliding_window": 8}),
    "mistral past its window": ("Mistral", {"sliding_window": 8}),
    "gpt2": ("GPT2", {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 256}),
}
EVERY = FAMILY | OTHERS
PROMPTS = [[5, 9, 2], list(range(20, 51)), [7], [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]]


def build(kind: str) -> Any:
    name, changes = EVERY[kind]
    torch.manual_seed(1)
    shape = {"vocab_size": 97, "bos_token_id": None, "eos_token_id": None} if name == "GPT2" else SHAPE
    config = getattr(transformers, f"{name}Config")(**shape, **changes)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():  # norms and biases are made as ones and zeros, which would hide that they are left out
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return {kind: build(kind) for kind in EVERY}


def sample(model: Any, prompts: list[list[int]] = PROMPTS, end: set[int] | None = None, **changes: Any) -> Any:
    settings = {"samples": 3, "most_tokens": 12, "temperature": 1.0, "top_p": 1.0, "seeds": range(len(prompts))}
    return Sampler(model, end or set(), 0).sample(prompts, **(settings | changes))


def test_which_models_run_on_our_own_decoder(models: dict[str, Any]) -> None:
    assert all(longest_supported(models[kind]) >= 128 for kind in FAMILY)
    assert [longest_supported(models[kind]) for kind in OTHERS] == [0, 0, 8, 0]


@pytest.mark.parametrize("kind", EVERY)
def test_greedy_is_what_transformers_generates(models: dict[str, Any], kind: str) -> None:
    model = models[kind]
    drawn = sample(model, temperature=0.0, most_tokens=20, samples=2)
    for prompt, texts in zip(PROMPTS, drawn, strict=True):
        ids = torch.tensor([prompt])
        expected = model.generate(ids, do_sample=False, max_new_tokens=20, attention_mask=torch.ones_like(ids))
        assert texts == [Sampled(expected[0, len(prompt) :].tolist(), False)] * 2


@pytest.mark.parametrize(("static", "packs", "fuse"), [(False, True, True), (True, False, True), (True, False, False)])
@pytest.mark.parametrize("kind", FAMILY)
@torch.inference_mode()
def test_logits_are_those_of_transformers(
    models: dict[str, Any], kind: str, static: bool, packs: bool, fuse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every layout, and in both ways to take a step: the one with unchanging shapes is what a GPU records."""
    monkeypatch.setattr(_sampler, "_ROOM", 4)  # so that room has to be made again and again
    monkeypatch.setattr(_sampler, "_EVEN", 4)
    if not packs:
        monkeypatch.setattr(_decoder, "_can_pack", lambda dtype: False)
    seen: list[Any] = []

    class Watched(GumbelSampler):
        def __call__(self, logits: Any, keys: Any, step: Any) -> Any:
            seen.append(logits.clone())
            return super().__call__(logits, keys, step)

    keys = [row_keys(prompt, 0, range(2)) for prompt in PROMPTS]
    none: frozenset[int] = frozenset()
    group = {"most_tokens": 10, "end_ids": none, "pad_id": 0, "record": False, "static": static}
    draw = Watched(97, 1.0, 1.0, torch.device("cpu"))
    rows = Decoding(Decoder(models[kind], fuse=fuse), draw, PROMPTS, keys, **group).run()
    for row, (prompt, text) in enumerate((p, t) for p, texts in zip(PROMPTS, rows, strict=True) for t in texts):
        expected = models[kind](torch.tensor([[*prompt, *text]])).logits[0, len(prompt) - 1 : -1]
        torch.testing.assert_close(torch.stack([logits[row] for logits in seen]), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("ends", [6, 60])
@torch.inference_mode()
def test_unchanging_shapes_give_the_same_texts(
    models: dict[str, Any], ends: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when rows leave and room is made; with many end tokens rows leave before there is any room."""
    monkeypatch.setattr(_sampler, "_ROOM", 8)
    monkeypatch.setattr(_sampler, "_EVEN", 8)
    rooms: list[int] = []
    keep = Memory.keep

    def watched(self: Memory, *which: Any) -> None:
        rooms.append(self.room)
        keep(self, *which)

    monkeypatch.setattr(Memory, "keep", watched)
    keys = [row_keys(prompt, 0, range(6)) for prompt in PROMPTS]
    group = {"most_tokens": 40, "end_ids": frozenset(range(ends)), "pad_id": 0, "record": False}
    draw, decoder = GumbelSampler(97, 1.0, 1.0, torch.device("cpu")), Decoder(models["qwen3"])
    sampler = Sampler(models["qwen3"], set(range(ends)), 0)
    plain, static = (
        [[sampler._text(row) for row in rows] for rows in Decoding(decoder, draw, PROMPTS, keys, **group, **way).run()]
        for way in ({"static": False}, {"static": True})
    )
    assert plain == static
    assert rooms
    assert ends == 6 or 0 in rooms


@pytest.mark.parametrize("kind", ["llama", "gemma"])
def test_a_text_does_not_depend_on_what_else_is_drawn(models: dict[str, Any], kind: str) -> None:
    model, end = models[kind], {11, 12, 13, 14, 15}
    together = sample(model, samples=7, end=end)
    assert together == sample(model, samples=7, end=end)
    assert [texts[:2] for texts in together] == sample(model, samples=2, end=end)
    backwards = sample(model, PROMPTS[::-1], samples=7, end=end, seeds=[3, 2, 1, 0])
    assert together == backwards[::-1]
    alone = [sample(model, [prompt], samples=7, end=end, seeds=[seed])[0] for seed, prompt in enumerate(PROMPTS)]
    assert together == alone


def test_samples_prompts_and_seeds_differ(models: dict[str, Any]) -> None:
    texts = [tuple(text.ids) for texts in sample(models["llama"], [[7], [7]], samples=20) for text in texts]
    assert len(set(texts)) == 40
    first = [tuple(text.ids)[:1] for text in sample(models["llama"], [[7], [8]], samples=40, seeds=[1, 1])[0]]
    assert len(set(first)) > 1


@torch.inference_mode()
def test_noise_is_uniform_and_independent() -> None:
    """Across tokens, rows and steps the hash leaves no pattern: uniform, and no neighbours alike."""
    zeros = torch.zeros(40, 500)

    class Shown(GumbelSampler):
        def noise(self, step: int) -> Any:
            """What is added to logits of zero."""
            logits = zeros.clone()
            self(logits, torch.tensor(row_keys([1], 0, range(40))), torch.tensor(step))
            return -logits

    draw = Shown(500, 1.0, 1.0, torch.device("cpu"))
    noise = torch.stack([draw.noise(step) for step in range(40)]).double()
    uniform = noise.exp().neg().expm1().neg()
    assert stats.kstest(uniform.flatten().numpy(), "uniform").pvalue > 1e-3
    for dimension in range(3):
        ahead = uniform.roll(1, dimension).flatten()
        assert abs(float(torch.corrcoef(torch.stack([uniform.flatten(), ahead]))[0, 1])) < 0.005


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 1.0), (1.0, 0.6), (2.0, 0.9)])
def test_the_distribution_is_right(temperature: float, top_p: float) -> None:
    logits = torch.tensor([1.0, 0.2, -0.5, 2.0, 0.0, -3.0, 1.4])
    probabilities = (logits / temperature).softmax(-1).double().numpy()
    order = np.argsort(-probabilities)
    kept = order[: int(np.searchsorted(np.cumsum(probabilities[order]), top_p)) + 1]
    expected = np.zeros(7)
    expected[kept] = probabilities[kept] / probabilities[kept].sum()
    draw = GumbelSampler(7, temperature, top_p, torch.device("cpu"))
    keys = torch.tensor(row_keys([1, 2], 7, range(50)))
    drawn = torch.cat([draw(logits.repeat(50, 1), keys, torch.tensor(step)) for step in range(400)])
    counts = np.bincount(drawn.numpy(), minlength=7)
    assert not counts[expected == 0].any()
    there = expected > 0
    assert stats.chisquare(counts[there], expected[there] * len(drawn)).pvalue > 1e-3


@pytest.mark.parametrize("top_p", [0.01, 0.3, 0.9, 0.999, 1 - 1e-6])
def test_top_p_keeps_the_fewest_tokens_that_reach_it(top_p: float) -> None:
    torch.manual_seed(0)
    probabilities = (torch.randn(20, 300) * 3).softmax(-1)
    for row, halved in zip(probabilities, _least_by_halving(probabilities, top_p), strict=True):
        least = _least_by_sorting(row, top_p)
        assert least == halved or abs(row[row >= min(least, halved)].sum() - top_p) < 1e-5
        kept = row >= least
        assert row[kept].double().sum() >= top_p - 1e-6
        assert row[row > least].double().sum() < top_p


@pytest.mark.parametrize("kind", ["llama", "mistral past its window"])
def test_texts_stop_at_an_end_token(models: dict[str, Any], kind: str) -> None:
    unstopped = sample(models[kind], samples=9, most_tokens=30)
    end = set(range(8))
    stopped = sample(models[kind], samples=9, most_tokens=30, end=end)
    for free, cut in zip(chain(*unstopped), chain(*stopped), strict=True):
        length = next((place for place, token in enumerate(free.ids) if token in end), None)
        drawn = None if length is None else free.ids[length]
        assert cut == Sampled(free.ids[:length], length is not None, drawn)
    assert {text.finished for text in chain(*stopped)} == {True, False}


def test_rows_that_ended_leave_the_batch(models: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    step = Decoder.step

    def watched(self: Decoder, tokens: Any, *rest: Any) -> Any:
        sizes.append(tokens.numel())
        return step(self, tokens, *rest)

    monkeypatch.setattr(Decoder, "step", watched)
    sample(models["llama"], samples=8, most_tokens=60, end=set(range(6)))
    assert sizes[0] == 32
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] <= 8


def test_a_group_too_large_for_the_memory_is_halved(models: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = sample(models["qwen2"], samples=8)
    sizes: list[int] = []
    run = Decoding.run

    def tight(self: Decoding) -> Any:
        sizes.append(self._keys.numel())
        if sizes[-1] > 3:
            raise RuntimeError("CUDA out of memory. Tried to allocate everything")
        return run(self)

    monkeypatch.setattr(Decoding, "run", tight)
    assert sample(models["qwen2"], samples=8) == expected
    assert sizes[:5] == [32, 16, 8, 4, 2]


def test_training_is_noticed() -> None:
    model = build("llama")
    sampler = Sampler(model, set(), 0)
    settings = {"samples": 2, "most_tokens": 20, "temperature": 0.0, "top_p": 1.0, "seeds": [0]}
    before = sampler.sample([[5]], **settings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-1.1)
    after = sampler.sample([[5]], **settings)
    assert before != after
    assert after == Sampler(model, set(), 0).sample([[5]], **settings)


@pytest.mark.parametrize("kind", ["qwen3", "gemma"])
def test_small_and_empty_requests(models: dict[str, Any], kind: str) -> None:
    assert sample(models[kind], []) == []
    assert sample(models[kind], [[1]], samples=0) == [[]]
    assert sample(models[kind], [[1]], most_tokens=0) == [[Sampled([], False)] * 3]
    one = sample(models[kind], most_tokens=1)
    assert [[text.ids for text in texts] for texts in one] == [
        [text.ids[:1] for text in texts] for texts in sample(models[kind], most_tokens=5)
    ]
    with pytest.raises(ValueError, match="at least one token"):
        sample(models[kind], [[1], []])
    with pytest.raises(ValueError, match="top_p"):
        sample(models[kind], top_p=0.0)
