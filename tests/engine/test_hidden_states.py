"""The hidden states of a language model as vectors: of the text's own tokens, whatever is read beside it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palate.engine import SentenceEncoder, Turn, forget_vectors, load_encoder, token_counter
from palate.engine._hidden_states import HiddenStateEncoder
from palate.records import PalateError
from tiny_models import CAUSAL, CONTEXT, TEXT, TinyModels, tokenizer

TEXTS = ["A pot of green tea.", "", "no", "The garden waits. " * 20, "  \n ", "żółć \ud800 🙂", "</s><|im_end|> odd"]
PROMPT = "What should I drink in the morning?"

pytestmark = pytest.mark.usefixtures("own_cache")


def by_hand(folder: Path, ids: list[int], own: int, layer: int) -> Any:
    """The mean over the last tokens, from the library's own list of hidden states."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.inference_mode():
        states = model(torch.tensor([ids]), output_hidden_states=True).hidden_states[layer][0]
    return states[-own:].mean(0).numpy()


@pytest.mark.parametrize("family", CAUSAL)
@pytest.mark.parametrize("layer", [1, 2])
def test_the_vector_is_the_mean_state_over_the_texts_own_tokens(
    tiny_models: TinyModels, family: str, layer: int
) -> None:
    folder = tiny_models.causal(family)
    encoder = HiddenStateEncoder(str(folder), layer)
    tokenizer = encoder.chat.tokenizer
    own = tokenizer(TEXTS[0], add_special_tokens=False)["input_ids"]
    prompt = encoder.chat.ids(encoder.chat.prompt((Turn("user", PROMPT),)))
    alone, after = encoder.encode([TEXTS[0]] * 2, [None, PROMPT])
    np.testing.assert_allclose(
        alone, by_hand(folder, [tokenizer.bos_token_id, *own], len(own), layer), atol=1e-4, rtol=1e-4
    )
    np.testing.assert_allclose(after, by_hand(folder, [*prompt, *own], len(own), layer), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", CAUSAL)
@pytest.mark.parametrize("template", ["chatml", "none"])
def test_vectors_do_not_depend_on_neighbours(tiny_models: TinyModels, family: str, template: str) -> None:
    encoder = HiddenStateEncoder(str(tiny_models.causal(family, template)))
    pairs = [(text, context) for text in TEXTS for context in (None, PROMPT, TEXT)]
    together = encoder._read(pairs)
    alone = np.concatenate([encoder._read([pair]) for pair in pairs])
    assert np.isfinite(together).all()
    np.testing.assert_allclose(together, alone, atol=1e-4, rtol=1e-4)


def test_a_context_changes_the_vector_and_no_context_is_none(tiny_models: TinyModels) -> None:
    encoder = load_encoder(str(tiny_models.causal()))
    alone, after, otherwise, empty = encoder.encode(["tea"] * 4, [None, PROMPT, PROMPT + " And why?", ""])
    assert np.abs(alone - after).max() > 1e-3
    assert np.abs(after - otherwise).max() > 1e-3
    np.testing.assert_array_equal(alone, empty)
    np.testing.assert_array_equal(alone, encoder.encode(["tea"])[0])


@pytest.mark.parametrize("template", ["chatml", "bos", "tight", "no system", "none"])
def test_a_beginning_of_text_stands_once(tiny_models: TinyModels, template: str) -> None:
    encoder = HiddenStateEncoder(str(tiny_models.causal(template=template)))
    start = encoder.chat.tokenizer.bos_token_id
    [alone, after] = encoder._windows([("tea", None), ("tea", PROMPT)])
    assert [*alone.head, *alone.own].count(start) == 1
    assert [*after.head, *after.own].count(start) == (1 if template in ("bos", "none") else 0)


def test_special_tokens_in_a_text_are_only_text(tiny_models: TinyModels) -> None:
    encoder = HiddenStateEncoder(str(tiny_models.causal()))
    [window] = encoder._windows([("</s> <|im_end|> <s> <|im_start|>system", None)])
    assert not set(window.own) & set(encoder.chat.tokenizer.all_special_ids)


@pytest.mark.parametrize("context", [None, PROMPT, "so much to say " * 1_000])
def test_the_end_of_a_long_text_counts(tiny_models: TinyModels, context: str | None) -> None:
    encoder = HiddenStateEncoder(str(tiny_models.causal()))
    texts = ["tea " * 1_000 + end for end in ("yes", "not at all, never")]
    windows = encoder._windows([(texts[0], context)])
    assert len(windows) > 1
    assert max(map(len, windows)) == CONTEXT
    one, other = encoder.encode(texts, [context] * 2)
    assert np.abs(one - other).max() > 1e-4


def test_windows_count_by_their_length(tiny_models: TinyModels) -> None:
    encoder = HiddenStateEncoder(str(tiny_models.causal()))
    text = TEXT * 6
    windows = encoder._windows([(text, None)])
    states = np.concatenate([encoder._pooled([window]) for window in windows])
    expected = np.average(states, axis=0, weights=[len(window.own) for window in windows])
    np.testing.assert_allclose(encoder.encode([text])[0], expected, atol=1e-5)


def test_of_a_context_too_long_both_ends_are_read(tiny_models: TinyModels) -> None:
    encoder = HiddenStateEncoder(str(tiny_models.causal()))
    whole = encoder.chat.ids(encoder.chat.prompt((Turn("user", "much " * 2_000),)))
    [window] = encoder._windows([("tea", "much " * 2_000)])
    assert len(window.head) == CONTEXT // 2
    assert list(window.head[:20]) == whole[:20]
    assert list(window.head[-20:]) == whole[-20:]


def test_layers_are_counted_from_either_end(tiny_models: TinyModels) -> None:
    folder = str(tiny_models.causal())
    first, last = (load_encoder(folder, layer).encode(["tea"]) for layer in (1, 2))
    np.testing.assert_array_equal(first, load_encoder(folder, -2).encode(["tea"]))
    np.testing.assert_array_equal(last, load_encoder(folder, -1).encode(["tea"]))
    assert np.abs(first - last).max() > 1e-3
    assert load_encoder(folder, 1).fingerprint != load_encoder(folder, 2).fingerprint
    assert load_encoder(folder).fingerprint == load_encoder(folder, 2).fingerprint  # two thirds of two layers


@pytest.mark.parametrize("layer", [0, 3, -3])
def test_a_layer_that_is_not_there_is_refused(tiny_models: TinyModels, layer: int) -> None:
    with pytest.raises(PalateError, match=rf"layer={layer}: .* has 2 layers; give 1 to 2, or -1 for the last"):
        load_encoder(str(tiny_models.causal()), layer)


def test_only_language_models_have_single_layers(tiny_models: TinyModels) -> None:
    for name, why in (("traits", "has no layers"), (str(tiny_models.classifier("bert")), "or take several")):
        with pytest.raises(PalateError, match=rf"layer=2: .* {why}.* of causal language models only"):
            load_encoder(name, 2)


def test_cached_vectors_are_not_read_again(tiny_models: TinyModels, own_cache: Path) -> None:
    folder = str(tiny_models.causal())
    before = HiddenStateEncoder(folder).encode(TEXTS, [PROMPT] * len(TEXTS))
    again = HiddenStateEncoder(folder)
    np.testing.assert_array_equal(before, again.encode(TEXTS, [PROMPT] * len(TEXTS)))
    assert "_model" not in vars(again), "the model was loaded"
    assert again.encode([]).shape == (0, again.dimensions)
    assert forget_vectors(TEXTS[:1]) == 1
    assert forget_vectors([PROMPT]) == len(TEXTS) - 1


def test_the_folder_says_which_kind_of_encoder_it_is(tiny_models: TinyModels) -> None:
    assert isinstance(load_encoder(str(tiny_models.causal("gpt2"))), HiddenStateEncoder)
    assert isinstance(load_encoder(str(tiny_models.classifier("llama"))), HiddenStateEncoder)
    assert isinstance(load_encoder(str(tiny_models.classifier("bert"))), SentenceEncoder)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (None, "it holds no model"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "type 't5'"),
        ({"model_type": "vit", "architectures": ["ViTModel"]}, r"type 'vit' \(ViTModel\)"),
    ],
)
def test_a_folder_of_neither_kind_is_refused(tmp_path: Path, config: dict[str, object] | None, said: str) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(PalateError, match=f"cannot load an encoder from .*{said}.*causal language model"):
        load_encoder(str(tmp_path))


def test_a_config_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(PalateError, match=r"cannot read .*config\.json"):
        load_encoder(str(tmp_path))


def test_tokens_are_counted_without_special_ones_and_without_the_weights(tmp_path: Path) -> None:
    tokens = tokenizer("bos")
    tokens.save_pretrained(tmp_path)
    count = token_counter(str(tmp_path))
    assert count("") == 0
    assert count("green tea") == len(tokens.tokenize("green tea"))
    assert count("green tea " * 1_000) == len(tokens.tokenize("green tea " * 1_000))


def test_a_real_model_finds_like_texts_alike(smollm2: Path) -> None:
    encoder = HiddenStateEncoder(str(smollm2))
    assert encoder._layer == 20
    texts = [
        "A kitten slept on the rug, warm and curled up.",
        "The cat was asleep on the carpet, all cosy.",
        "Interest rates rose by half a point, the bank said.",
        "The central bank raised its lending rate on Monday.",
    ]
    vectors = encoder.encode(texts, ["Tell me some news."] * 4)
    vectors = vectors - vectors.mean(0)
    likeness = vectors @ vectors.T
    assert likeness[0, 1] > 0 > likeness[0, 2]
    assert likeness[2, 3] > 0 > likeness[1, 3]
