"""Real models with random weights and a real tokenizer, small enough to be made anew in every session.

A model is saved as a folder that transformers, and so palate, loads like any other.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

CONTEXT = 512
ROUND = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
ASK = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
REFUSED = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
UNHEARD = "{% if messages[0]['role'] == 'system' %}{% set messages = messages[1:] %}{% endif %}"
TURNS = (
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}{% endfor %}"
)
TEMPLATES = {
    "chatml": ROUND + ASK,
    "no system": REFUSED + TURNS + ROUND + ASK,
    "deaf to system": UNHEARD + ROUND + ASK,
    "bos": "<s>" + ROUND + ASK,
    "tight": "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] | trim }}<|endoftext|>{% endfor %}",
    "trailing space": (
        "{% for m in messages %}[{{ m['role'] }}]: {{ m['content'] }}<|im_end|>{% endfor %}"
        "{% if add_generation_prompt %}[assistant]: {% endif %}"
    ),
    "greedy tokens": ROUND + ASK,
    "none": None,
}
"""Chat templates by what is odd about them; `greedy tokens` has special tokens that swallow the space before.

With `trailing space` the last token of a prompt and the first of an answer become one."""
TEXT = (
    "The kettle sings and the garden waits. What should I drink in the morning? A pot of green tea, slowly. "
    "Which response would this particular user prefer? Answer with [[A]] or [[B]] and nothing else. "
    "system user assistant What is known about the user: Response A: Response B: How well does it serve, from 1 to 9? "
)

SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": CONTEXT,
    "initializer_range": 0.4,
}
LAYERS = ["sliding_attention", "full_attention"]
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", SHAPE),
    "qwen2": ("Qwen2", SHAPE),
    "qwen3": ("Qwen3", SHAPE),
    "gemma2": ("Gemma2", SHAPE | {"sliding_window": 16, "layer_types": LAYERS, "query_pre_attn_scalar": 8}),
    "gemma3": ("Gemma3Text", SHAPE | {"sliding_window": 16, "layer_types": LAYERS, "query_pre_attn_scalar": 8}),
    "mistral": ("Mistral", SHAPE | {"sliding_window": 16}),
    "gpt2": ("GPT2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": CONTEXT, "initializer_range": 0.4}),
    "bert": (
        "Bert",
        {key: SHAPE[key] for key in SHAPE if key not in ("num_key_value_heads", "head_dim")},
    ),
}
CAUSAL = ("llama", "qwen2", "qwen3", "gemma2", "gemma3", "mistral", "gpt2")
CLASSIFIERS = ("llama", "qwen2", "gemma2", "mistral", "bert")


@lru_cache
def tokenizer(template: str = "chatml") -> Any:
    """A byte-level BPE of some 300 tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    inner.train_from_iterator([TEXT] * 4, trainer)
    greedy = template == "greedy tokens"
    names = ["<|endoftext|>", "<s>", "<|im_start|>", "<|im_end|>"]
    inner.add_special_tokens([AddedToken(name, special=True, lstrip=greedy) for name in names])
    if template in ("bos", "none"):
        inner.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", inner.token_to_id("<s>"))]
        )
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<s>",
        eos_token="<|im_end|>" if template != "tight" else "<|endoftext|>",
        pad_token="<|endoftext|>",
        model_max_length=CONTEXT,
        additional_special_tokens=["<|im_start|>"],
    )
    made.chat_template = TEMPLATES[template]
    return made


def build(family: str, *, labels: int | None = None, seed: int = 0, **changes: Any) -> Any:
    """A causal language model, or with `labels` a classifier."""
    import torch
    import transformers

    name, shape = FAMILIES[family]
    words = tokenizer()
    more: dict[str, Any] = {
        "vocab_size": len(words),
        "bos_token_id": words.bos_token_id,
        "eos_token_id": words.eos_token_id,
        "pad_token_id": words.pad_token_id,
    }
    if labels:
        more["num_labels"] = labels
    torch.manual_seed(seed)
    config = getattr(transformers, f"{name}Config")(**(shape | more | changes))
    kind = "AutoModelForSequenceClassification" if labels else "AutoModelForCausalLM"
    model = getattr(transformers, kind).from_config(config).eval()
    with torch.no_grad():  # norms and biases are made as ones and zeros, which would hide that they are left out
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def save(folder: Path, model: Any, template: str = "chatml") -> Path:
    model.save_pretrained(folder)
    tokenizer(template).save_pretrained(folder)
    return folder


class TinyModels:
    """Makes each model once and says in which folder it lies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[tuple[object, ...], Path] = {}

    def causal(self, family: str = "llama", template: str = "chatml", seed: int = 0) -> Path:
        return self._make(family, template, None, seed)

    def classifier(self, family: str = "llama", template: str = "chatml", labels: int = 1, seed: int = 0) -> Path:
        return self._make(family, template, labels, seed)

    def _make(self, family: str, template: str, labels: int | None, seed: int) -> Path:
        key = (family, template, labels, seed)
        if key not in self._made:
            name = f"{family}-{template}-{labels or 'causal'}-{seed}".replace(" ", "-")
            self._made[key] = save(self._folder / name, build(family, labels=labels, seed=seed), template)
        return self._made[key]
