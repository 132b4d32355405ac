"""Kernels of our own give what plain operations in higher precision give, and leave nothing unwritten."""

import copy
import importlib
from itertools import chain
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch.nn import functional  # noqa: E402

from palate.engine import _kernels  # noqa: E402
from palate.engine._decoder import (  # noqa: E402
    Decoder,
    KernelDecoder,
    decoder_for,
)
from palate.engine._gumbel import GumbelSampler, row_keys  # noqa: E402
from palate.engine._kernels import fused  # noqa: E402
from palate.engine._packing import Group, _packed_attention  # noqa: E402
from palate.engine._sampler import Decoding, Sampler  # noqa: E402
from palate.engine._scorer import Scorer, likelihood_finish  # noqa: E402
from tiny_models import build  # noqa: E402

HALF = [torch.bfloat16, torch.float16]
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that torch can use")


@pytest.fixture(scope="module")
def kernels() -> Any:
    pytest.importorskip("triton")
    found = _kernels.kernels_for(torch.device("cuda"))
    assert found is not None
    return found


def noise(*shape: int, dtype: Any = torch.bfloat16) -> Any:
    return torch.randn(*shape, device="cuda").to(dtype)


def error(found: Any, expected: Any) -> float:
    assert found.isfinite().all()
    return float((found.double() - expected.double()).norm() / expected.double().norm())


def test_there_are_none_without_a_gpu() -> None:
    assert _kernels.kernels_for(torch.device("cpu")) is None


def test_without_them_modules_stay_as_they_are() -> None:
    model = build("llama")
    with fused(model, _packed_attention):
        assert not any("forward" in vars(module) for module in model.modules())


@on_a_gpu
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("width", [16, 100, 576, 4096, 5000])
def test_norm_and_gate(kernels: Any, width: int, dtype: Any) -> None:
    x, weight = noise(3, 37, width, dtype=dtype) * 3, noise(width, dtype=dtype)
    expected = functional.rms_norm(x.double(), (width,), weight.double(), 1e-5)
    assert error(kernels.norm(x, weight, 1e-5), expected) < 5e-3
    gate, up = noise(3, 37, 2 * width, dtype=dtype).chunk(2, -1)
    assert error(kernels.gated(gate, up), functional.silu(gate.double()) * up.double()) < 5e-3
    assert kernels.norm(x[:0], weight, 1e-5).shape == (0, 37, width)
    assert kernels.gated(gate[:0], up[:0]).shape == (0, 37, width)


@on_a_gpu
@pytest.mark.parametrize(("tokens", "heads", "size"), [(1, 1, 64), (333, 9, 64), (77, 32, 128), (50, 5, 96)])
def test_join(kernels: Any, tokens: int, heads: int, size: int) -> None:
    whole, across = noise(tokens + 7, heads, size), noise(tokens, heads, size)
    weight, other = noise(heads, tokens + 7, dtype=torch.float32) * 3, noise(heads, tokens, dtype=torch.float32) * 3
    share = torch.sigmoid((other - weight[:, 7:]).double()).t()[..., None]
    expected = torch.lerp(whole[7:].double(), across.double(), share)
    before = whole[:7].clone()
    kernels.join(whole[7:], across, weight[:, 7:], other)
    assert error(whole[7:], expected) < 5e-3
    assert torch.equal(whole[:7], before)


def angles(positions: int, size: int, dtype: Any) -> Any:
    turns = torch.rand(positions, size // 2, device="cuda") * 6
    return torch.cat([turns.cos()] * 2, -1).to(dtype), torch.cat([-turns.sin(), turns.sin()], -1).to(dtype)


def turned(parts: Any, tables: Any, positions: Any) -> Any:
    """Heads (..., heads, size) by their positions (...), in double precision, rounded as the kernels do."""
    cosine, sine = (table[positions][..., None, :].double() for table in tables)
    whole = parts.double()
    return (whole * cosine + whole.roll(parts.shape[-1] // 2, -1) * sine).to(parts.dtype)


SHAPES = [  # prompts, key heads, group, samples, size, shared, room, place
    (32, 3, 3, 16, 64, 704, 128, 99),
    (32, 3, 3, 16, 64, 704, 128, 0),
    (3, 2, 4, 7, 128, 128, 192, 130),
    (1, 8, 1, 1, 128, 64, 64, 9),
    (2, 1, 20, 5, 32, 320, 64, 3),
    (2, 1, 80, 2, 32, 64, 64, 3),
    (5, 2, 7, 13, 16, 1024, 64, 63),
    (2, 2, 2, 100, 64, 64, 64, 31),
]


@on_a_gpu
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("shape", SHAPES)
def test_attention(kernels: Any, shape: tuple[int, ...], dtype: Any) -> None:
    prompts, key_heads, group, samples, size, shared, room, place = shape
    heads = group * key_heads
    parts = noise(prompts * samples, heads + 2 * key_heads, size, dtype=dtype)
    lengths = torch.randint(1, shared + 1, (prompts,), device="cuda")
    beyond = torch.arange(shared, device="cuda") >= lengths[:, None]
    # What lies beyond a prompt's end, or was not written yet, must not matter whatever it is.
    prefix = noise(2, prompts, key_heads, shared, size, dtype=dtype).masked_fill_(beyond[:, None, :, None], torch.nan)
    own = noise(2, prompts, key_heads, samples, room, size, dtype=dtype)
    own[..., place:, :] = torch.nan
    tables = angles(shared + room, size, dtype)

    split = parts.view(prompts, samples, -1, size)
    whole = turned(split, tables, (lengths + place)[:, None].expand(-1, samples))
    expected_own = own.clone()
    expected_own[0, ..., place, :] = whole[:, :, heads : heads + key_heads].transpose(1, 2)
    expected_own[1, ..., place, :] = split[:, :, heads + key_heads :].transpose(1, 2)
    queries = whole[:, :, :heads].reshape(prompts, samples, key_heads, group, size).double()
    keys, values = prefix.nan_to_num(0).double()
    own_keys, own_values = expected_own[..., : place + 1, :].double()
    scores = torch.cat(
        [
            torch.einsum("pskgd,pktd->pskgt", queries, keys).masked_fill(beyond[:, None, None, None], -torch.inf),
            torch.einsum("pskgd,pkstd->pskgt", queries, own_keys),
        ],
        -1,
    )
    shares = (scores * size**-0.5).softmax(-1)
    expected = torch.einsum("pskgt,pktd->pskgd", shares[..., :shared], values)
    expected += torch.einsum("pskgt,pkstd->pskgd", shares[..., shared:], own_values)

    found = kernels.attend(parts, prefix, own, tables, lengths, torch.tensor([place], device="cuda"))
    assert error(found, expected.reshape(found.shape)) < 5e-3
    torch.testing.assert_close(own, expected_own, equal_nan=True)


@on_a_gpu
@pytest.mark.parametrize("dtype", HALF)
def test_turning_of_whole_prompts(kernels: Any, dtype: Any) -> None:
    prompts, longest, heads, key_heads, size, shared = 3, 37, 6, 2, 64, 64
    parts = noise(prompts * longest, heads + 2 * key_heads, size, dtype=dtype)
    held = torch.full((2, 5, key_heads, shared, size), torch.nan, device="cuda", dtype=dtype)
    tables = angles(longest, size, dtype)
    queries = kernels.turn(parts, held[:, 1:4], tables, longest)
    split = parts.view(prompts, longest, -1, size)
    whole = turned(split, tables, torch.arange(longest, device="cuda").expand(prompts, -1))
    expected = torch.full_like(held, torch.nan)
    expected[0, 1:4, :, :longest] = whole[:, :, heads : heads + key_heads].transpose(1, 2)
    expected[1, 1:4, :, :longest] = split[:, :, heads + key_heads :].transpose(1, 2)
    torch.testing.assert_close(queries, whole[:, :, :heads].reshape(queries.shape))
    torch.testing.assert_close(held, expected, equal_nan=True)


@on_a_gpu
@pytest.mark.parametrize(("tokens", "heads", "size"), [(1, 1, 16), (301, 9, 64), (77, 8, 96)])
def test_rotation(kernels: Any, tokens: int, heads: int, size: int) -> None:
    x, (cosine, sine) = noise(1, tokens, heads, size), angles(tokens, size, torch.bfloat16)
    whole = turned(x, (cosine, sine), torch.arange(tokens, device="cuda")[None])
    assert error(kernels.rotated(x, cosine, sine[:, size // 2 :].repeat(1, 2)), whole) < 5e-3


@on_a_gpu
@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 1.0), (1.3, 0.9)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_drawing(kernels: Any, temperature: float, top_p: float, dtype: Any) -> None:
    """The same tokens as on a processor, but for near ties."""
    logits, step = noise(2_000, 5_003, dtype=dtype) * 3, torch.tensor([17], device="cuda")
    keys = torch.tensor(row_keys([1, 2], 3, range(2_000)))
    plain = GumbelSampler(5_003, temperature, top_p, torch.device("cpu"))(logits.float().cpu(), keys, step.cpu())
    found = GumbelSampler(5_003, temperature, top_p, torch.device("cuda"))(logits, keys.cuda(), step)
    assert (found.cpu() != plain).sum() <= 2


def tiny(kind: str, dtype: Any) -> Any:
    torch.manual_seed(1)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=1_009, hidden_size=96, intermediate_size=160, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=512, initializer_range=0.1,
        bos_token_id=None, eos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    return transformers.AutoModelForCausalLM.from_config(config).to("cuda", dtype).eval()


@on_a_gpu
@pytest.mark.parametrize("record", [False, True])
@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "Qwen3"])
@torch.inference_mode()
def test_logits_of_a_decoder_with_kernels(kernels: Any, kind: str, record: bool) -> None:
    """No further from those in float32 than those of the decoder without."""
    model = tiny(kind, torch.bfloat16)
    precise = copy.deepcopy(model).float()
    prompts = [list(range(5, 75)), [9, 8, 7], list(range(300, 330))]
    keys = [row_keys(prompt, 0, range(4)) for prompt in prompts]
    group = {"most_tokens": 70, "end_ids": frozenset[int](), "pad_id": 0}
    quick = decoder_for(model, fuse=True)
    assert isinstance(quick, KernelDecoder)

    def mean_logit_off(decoder: Decoder, **way: bool) -> float:
        rows = Decoding(
            decoder, GumbelSampler(1_009, 0.0, 1.0, torch.device("cuda")), prompts, keys, **group, **way
        ).run()
        off = []
        for prompt, texts in zip(prompts, rows, strict=True):
            for text in texts:
                logits = precise(torch.tensor([[*prompt, *text]], device="cuda")).logits[0, len(prompt) - 1 : -1]
                chosen = logits.gather(1, torch.tensor(text, device="cuda")[:, None])[:, 0]
                off.append(float((logits.amax(-1) - chosen).mean()))
        return sum(off) / len(off)

    way = {"record": record, "static": True}
    assert mean_logit_off(quick, **way) <= mean_logit_off(Decoder(model), record=False, static=True) * 1.5 + 1e-3


@on_a_gpu
def test_texts_do_not_depend_on_what_else_is_drawn(kernels: Any) -> None:
    """In float16, whose logits are fine enough that ties are few; rows leave and room is made on the way."""
    model = tiny("Llama", torch.float16)
    prompts = [list(range(5, 75)), [9, 8, 7], list(range(300, 330))]
    settings = {"samples": 12, "most_tokens": 150, "temperature": 1.0, "top_p": 1.0}
    sampler = Sampler(model, set(range(40)), 0)
    together = sampler.sample(prompts, seeds=[0, 1, 2], **settings)
    alone = [sampler.sample([prompt], seeds=[seed], **settings)[0] for seed, prompt in enumerate(prompts)]
    pairs = list(zip(chain(*together), chain(*alone), strict=True))
    assert sum(one == other for one, other in pairs) >= len(pairs) - 4


@on_a_gpu
@pytest.mark.parametrize("kind", ["Llama", "Mistral", "Qwen2", "Qwen3"])
@torch.inference_mode()
def test_modules_compute_the_same_with_kernels(kernels: Any, kind: str) -> None:
    model = tiny(kind, torch.bfloat16)
    ids = torch.randint(0, 1_009, (1, 50), device="cuda")
    plain = model(ids).logits

    def attention(module: Any, query: Any, key: Any, value: Any, mask: None, scaling: float) -> Any:
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return mixed.transpose(1, 2), None

    with fused(model, attention):
        assert sum("forward" in vars(module) for module in model.modules()) >= 13
        found = model(ids).logits
    assert not any("forward" in vars(module) for module in model.modules())
    assert error(found, plain) < 1e-2


@on_a_gpu
@pytest.mark.parametrize("kind", ["Llama", "Qwen3"])
@torch.inference_mode()
def test_packed_scores(kernels: Any, kind: str) -> None:
    """No further from the scores in float32 than those of each sequence alone."""
    model = tiny(kind, torch.bfloat16)
    precise = copy.deepcopy(model).float()
    groups = [Group([*range(length)], [[5] * 30, [7, 8, 9], [], [3] * 70]) for length in (1, 40, 300)]

    def alone(judge: Any) -> Any:
        found = []
        for group in groups:
            for tokens in group.continuations:
                ids = torch.tensor([[*group.prefix, *tokens]], device="cuda")
                logs = judge(ids).logits[0].float().log_softmax(-1)[len(group.prefix) - 1 : -1]
                found.append(logs.gather(1, ids[0, len(group.prefix) :, None]).sum())
        return torch.stack(found)

    packed = torch.tensor(Scorer(model, packs=True).run(groups, likelihood_finish(model)), device="cuda").flatten()
    truth = alone(precise)
    assert (packed - truth).norm() <= 2 * (alone(model) - truth).norm() + 1e-2


def test_triton_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong while kernels are built, there are none, and no error."""

    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))
    monkeypatch.setattr(torch, "device", lambda *_: "cpu")
    assert _kernels._built.__wrapped__(0) is None
