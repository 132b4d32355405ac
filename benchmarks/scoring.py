"""How fast are candidates scored after a long profile? palate against the usual loop, and against the floor.

    python benchmarks/scoring.py                                    # this machine, SmolLM2
    python benchmarks/scoring.py --device cuda --shape smollm2      # random weights of that shape
    python benchmarks/scoring.py --device cuda --shape 8b --asks 8

Asks are ragged: profiles of 300 to 3,000 tokens with a mean near 1,500, responses of 40 to 200 with a mean
near 130, and 2, 16 or mixed numbers of candidates. The usual loop pads batches of 8 whole sequences in the
order they come, reads the profile again for every candidate and takes the scores off the device one by one.
The floor is the time that the distinct tokens would take at the speed of a large plain batch: full sequences
of 1,630 tokens, no padding, nothing but the forward pass. All in one run, in float32 on a CPU and bfloat16
on a GPU.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse
import copy
import functools
import importlib
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from palate.engine import _scorer as scorer
from palate.engine._packing import Group

SHAPES: dict[str, dict[str, Any]] = {
    "smollm2": {
        "vocab_size": 49_152,
        "hidden_size": 576,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "intermediate_size": 1_536,
    },
    "8b": {
        "vocab_size": 128_256,
        "hidden_size": 4_096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14_336,
    },
    "tiny": {  # to see that all runs
        "vocab_size": 1_000,
        "hidden_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 512,
    },
}


def ragged_asks(
    count: int, candidates: Sequence[int], vocabulary: int, seed: int
) -> list[tuple[list[int], list[list[int]]]]:
    random = np.random.default_rng(seed)

    def tokens(length: int) -> list[int]:
        drawn: list[int] = random.integers(5, vocabulary, size=length).tolist()
        return drawn

    asks = []
    for index in range(count):
        profile = int(np.clip(random.gamma(4.0, 375.0), 300, 3_000))
        lengths = np.clip(random.normal(130, 40, size=candidates[index % len(candidates)]), 40, 200).astype(int)
        asks.append((tokens(profile), [tokens(int(length)) for length in lengths]))
    return asks


def usual_loop(model: Any, asks: Sequence[tuple[list[int], list[list[int]]]]) -> list[list[float]]:
    """Whole sequences, eight at a time, padded on the right; one number at a time off the device."""
    rows = [prefix + response for prefix, responses in asks for response in responses]
    scores: list[float] = []
    for start in range(0, len(rows), 8):
        batch = rows[start : start + 8]
        longest = max(map(len, batch))
        ids = torch.zeros((len(batch), longest), dtype=torch.long)
        mask = torch.zeros((len(batch), longest), dtype=torch.long)
        for row, sequence in enumerate(batch):
            ids[row, : len(sequence)] = torch.tensor(sequence)
            mask[row, : len(sequence)] = 1
        with torch.inference_mode():
            found = model(input_ids=ids.to(model.device), attention_mask=mask.to(model.device)).logits
        scores += [found[row, 0].item() for row in range(len(batch))]
    numbers = iter(scores)
    return [[next(numbers) for _ in responses] for _, responses in asks]


def reference_scores(model: Any, asks: Sequence[tuple[list[int], list[list[int]]]]) -> list[float]:
    """The same weights in float32, one sequence at a time: what rounding alone takes scores away from."""
    precise = copy.deepcopy(model).float()
    precise.set_attn_implementation("sdpa")
    return [usual_loop(precise, [ask])[0][0] for ask in asks]


def timed(work: Callable[[], Any], device: str, repeats: int) -> tuple[float, Any]:
    times = []
    for _ in range(repeats):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        found = work()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times), found


def tokens_a_second(model: Any, device: str, repeats: int, rows: int) -> float:
    """The speed of a large plain batch without padding."""
    ids = torch.randint(5, model.config.vocab_size, (rows, 1_630), device=model.device)

    def forward() -> None:
        with torch.inference_mode():
            model.base_model(input_ids=ids, use_cache=False)

    forward()
    seconds, _ = timed(forward, device, repeats)
    return rows * 1_630 / seconds


def load(shape: str, device: str, kind: str = "LlamaForSequenceClassification", **changes: Any) -> Any:
    """Random weights, the same ones for the same shape and kind on the same device."""
    transformers: Any = importlib.import_module("transformers")
    transformers.utils.logging.set_verbosity_error()
    torch.manual_seed(0)
    own = {"max_position_embeddings": 8_192, "num_labels": 1, "pad_token_id": 0} | changes
    config = transformers.LlamaConfig(**SHAPES[shape] | own)
    config._attn_implementation = "sdpa"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    torch.set_default_dtype(dtype)
    with torch.device(device):
        model = getattr(transformers, kind)(config)
    torch.set_default_dtype(torch.float32)
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--shape", default="smollm2", choices=list(SHAPES))
    parser.add_argument("--asks", type=int, default=0, help="how many asks; by default 4 on a CPU, 32 on a GPU")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--budget", type=int, default=0)
    parser.add_argument("--floor-rows", type=int, default=0)
    chosen = parser.parse_args()
    asks = chosen.asks or (4 if chosen.device == "cpu" else 32)
    rows = chosen.floor_rows or (2 if chosen.device == "cpu" else 16)
    model = load(chosen.shape, chosen.device)
    speed = tokens_a_second(model, chosen.device, chosen.repeats, rows)
    dtype = next(model.parameters()).dtype
    print(f"{chosen.shape} on {chosen.device}, {dtype}, torch {torch.__version__}, {asks} asks")
    print(f"large plain batch: {speed:,.0f} tokens/s")
    titles = ("candidates", "distinct", "usual loop", "palate", "floor", "ratio", "of floor", "off float32")
    print(" ".join(f"{title:>10}" for title in titles))
    for label, counts in (("2", [2]), ("16", [16]), ("2 to 16", [2, 4, 16, 8, 2, 12])):
        given = ragged_asks(asks, counts, model.config.vocab_size, seed=1)
        groups = [Group(prefix, responses) for prefix, responses in given]
        distinct = sum(group.size for group in groups)
        model.set_attn_implementation("sdpa")
        usual_loop(model, [(given[0][0], given[0][1][:1])])
        usual, plain = timed(functools.partial(usual_loop, model, given), chosen.device, chosen.repeats)
        alone = [usual_loop(model, [(p, [r])])[0][0] for p, responses in given[:4] for r in responses[:2]]
        ours = scorer.Scorer(model, **({"budget": chosen.budget} if chosen.budget else {}))
        head = model.score.float()
        finish = scorer.classifier_finish(head, 0)
        ours.run(groups, finish)
        seconds, ours_found = timed(functools.partial(ours.run, groups, finish), chosen.device, chosen.repeats)
        model.score.to(next(model.base_model.parameters()).dtype)
        floor = distinct / speed
        truth = reference_scores(model, [(p, [r]) for p, responses in given[:4] for r in responses[:2]])
        batched, packed = ([score for row in found[:4] for score in row[:2]] for found in (plain, ours_found))
        moved = max(abs(a - b) for a, b in zip([*truth, *truth], [*alone, *batched], strict=True))
        gap = max(abs(a - b) for a, b in zip(truth, packed, strict=True))
        cells = [label, f"{distinct:,}", f"{usual:.3f} s", f"{seconds:.3f} s", f"{floor:.3f} s"]
        cells += [f"{usual / seconds:.2f}", f"{floor / seconds:.0%}", f"{gap:.1e}"]
        print(" ".join(f"{cell:>10}" for cell in cells), f" (plain batches: {moved:.1e})", flush=True)


if __name__ == "__main__":
    main()
