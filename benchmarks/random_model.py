"""Write a model with random weights and a real tokenizer to a folder, to measure servers with.

    python benchmarks/random_model.py models/language --tokenizer smollm2
    python benchmarks/random_model.py models/classifier --tokenizer smollm2 --classifier
    vllm serve models/language --port 8000
    python benchmarks/remote.py --url http://127.0.0.1:8000/v1 --model models/language --rewards likelihood judge

A server tells the probabilities of the twenty likeliest tokens only. So the letters A and B and the digits are made
likely after every text, how likely each of them is still depends on the text, and a judge or grader with these weights
has an answer, though not a meaningful one.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse
import importlib
from collections.abc import Sequence
from typing import Any

import torch

from palate.engine._weights import tokenizer_folder

sys.path.append(str(Path(__file__).parent))
SHAPES = importlib.import_module("scoring").SHAPES
WRITTEN = ("A", "B", *"123456789")


@torch.no_grad()
def make_likely(model: Any, tokens: Sequence[int]) -> None:
    """Every state holds a constant in its first place, which no layer changes, and the head adds it to these tokens."""
    model.model.embed_tokens.weight[:, 0] = 1.0
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight[0] = 0
        layer.mlp.down_proj.weight[0] = 0
    model.lm_head.weight[:, 0] = 0
    states = model.model(input_ids=torch.arange(1_000)[None], use_cache=False).last_hidden_state[0, 500:]
    spread = (states @ model.lm_head.weight[:1_000].t()).std()
    model.lm_head.weight[list(tokens), 0] = 7 * spread / states[:, 0].mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokenizer", required=True, help="a folder, or a name that palate knows")
    parser.add_argument("--shape", default="smollm2", choices=list(SHAPES))
    parser.add_argument("--classifier", action="store_true", help="a sequence classifier with one logit")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    chosen = parser.parse_args()
    transformers: Any = importlib.import_module("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer_folder(chosen.tokenizer))
    shape = SHAPES[chosen.shape]
    special = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    size = {"vocab_size": max(shape["vocab_size"], len(tokenizer)), "max_position_embeddings": 8_192}
    more = {"num_labels": 1, "initializer_range": 1.5 * shape["hidden_size"] ** -0.5}
    """Larger than usual, so that attention looks at some tokens more than at others."""
    config = transformers.LlamaConfig(**shape | size | special | more)
    torch.manual_seed(0)
    if chosen.classifier:
        model = transformers.LlamaForSequenceClassification(config)
    else:
        model = transformers.LlamaForCausalLM(config)
        make_likely(model, [tokenizer.convert_tokens_to_ids(text) for text in WRITTEN])
    model.to(getattr(torch, chosen.dtype)).save_pretrained(chosen.folder)
    tokenizer.save_pretrained(chosen.folder)
    print(f"{chosen.folder}: {model.num_parameters():,} parameters, {len(tokenizer):,} tokens")


if __name__ == "__main__":
    main()
