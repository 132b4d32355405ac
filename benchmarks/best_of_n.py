"""How long does best-of-16 for 300 asks take, from the command to the table?

    python benchmarks/best_of_n.py --device cuda             # SmolLM2 writes, a classifier of its size chooses
    python benchmarks/best_of_n.py --asks 4 --samples 4      # a look on a processor

`palate bon` runs as a user would run it, in a process of its own with empty caches of answers and samples: loading,
sampling, rating, marking and the report are all in its time. Reward models see about 500 tokens of the user's past
choices, and texts have at most 100 tokens. The usual way is timed on some of the same prompts and scaled: `generate`
for the samples of one prompt after another, then padded batches of eight whole conversations through the
classifier, a score taken off the device for each.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse
import os
import subprocess
import tempfile
import time
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
import transformers

from palate.data import load_benchmark
from palate.engine import weights_folder
from palate.records import Ask, View
from palate.rewards import conversation
from palate.views import ViewBuilder, parse_budget, parse_view

BENCHMARK, VIEW, BUDGET = "sim,users=60", "judgements:16", "tokens:500"
PADDED = 8
"""Conversations in a batch of the usual way."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--asks", type=int, default=300)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--usual-asks", type=int, default=4, help="asks that the usual way is timed on")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    dtype = "bfloat16" if options.device.startswith("cuda") else "float32"
    with tempfile.TemporaryDirectory() as folder:
        classifier = classifier_folder(Path(folder) / "classifier")
        ours = palate(options, classifier, Path(folder) / "runs", dtype)
        each = usual(options, classifier, getattr(torch, dtype))
    usual_seconds = each * options.asks
    print(f"{options.device} {dtype}: best of {options.samples} for {options.asks} asks, {options.tokens} tokens")
    print(f"palate, from command to table  {ours:9.1f} s")
    print(f"the usual way                  {usual_seconds:9.1f} s, from {options.usual_asks} asks, scaled")
    print(f"ratio {usual_seconds / ours:.1f}")


def classifier_folder(folder: Path) -> Path:
    """SmolLM2's body with one logit of random weights."""
    source = weights_folder("smollm2")
    torch.manual_seed(0)
    model: Any = transformers.AutoModelForSequenceClassification.from_pretrained(source, num_labels=1)
    torch.nn.init.normal_(model.score.weight, std=0.05)
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    return folder


def palate(options: argparse.Namespace, classifier: Path, out: Path, dtype: str) -> float:
    where = f"device={options.device},dtype={dtype}"
    command = [
        *(sys.executable, "-m", "palate", "bon", BENCHMARK, "--critic", "sim", "--policy", f"smollm2,{where}"),
        *("--rm", f"classifier:{classifier},{where}", "--view", VIEW, "--budget", BUDGET, "--out", str(out)),
        *("-n", str(options.samples), "--tokens", str(options.tokens), "--limit", str(options.asks)),
    ]
    begun = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - begun


def usual(options: argparse.Namespace, folder: Path, dtype: torch.dtype) -> float:
    """Seconds for each ask, models loaded."""
    source, auto = weights_folder("smollm2"), transformers.AutoTokenizer
    tokenizer: Any = auto.from_pretrained(source, padding_side="right")
    writer: Any = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=dtype).to(options.device)
    judge: Any = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=dtype)
    judge = judge.to(options.device)
    judge.config.pad_token_id = tokenizer.pad_token_id
    benchmark = load_benchmark(BENCHMARK)
    items = benchmark.comparisons[: options.usual_asks + 1]
    views = ViewBuilder(benchmark, budget=parse_budget(BUDGET)).build(parse_view(VIEW), items)
    begun = 0.0
    for number, (item, view) in enumerate(zip(items, views, strict=True)):
        begun = time.perf_counter() if number == 1 else begun  # the first is for what is done once
        assert isinstance(view, View)
        prompt = tokenizer.apply_chat_template(
            [{"role": "user", "content": item.prompt}],
            add_generation_prompt=True,
            return_tensors="pt",
            return_dict=True,
        ).to(options.device)
        drawn = writer.generate(
            **prompt, do_sample=True, top_p=0.9, num_return_sequences=options.samples, max_new_tokens=options.tokens
        )
        texts = tokenizer.batch_decode(drawn[:, prompt["input_ids"].shape[1] :], skip_special_tokens=True)
        turns = conversation(Ask(id=item.id, prompt=item.prompt, responses=(), view=view))
        seen = [{"role": turn.role, "content": turn.content} for turn in turns]
        rows = [
            tokenizer.apply_chat_template([*seen, {"role": "assistant", "content": text}], tokenize=False)
            for text in texts
        ]
        for start in range(0, len(rows), PADDED):
            batch = tokenizer(
                rows[start : start + PADDED], padding=True, add_special_tokens=False, return_tensors="pt"
            ).to(options.device)
            with torch.inference_mode():
                _ = [score.item() for score in judge(**batch).logits[:, 0]]
    return (time.perf_counter() - begun) / int(options.usual_asks)


if __name__ == "__main__":
    main()
