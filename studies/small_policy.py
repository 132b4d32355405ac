"""Make a small policy that writes to the prompts of `sim`, so that reinforcement learning takes seconds on a CPU.

    python studies/small_policy.py write TEXTS.jsonl             # SmolLM2 writes to other simulated users
    python studies/small_policy.py train TEXTS.jsonl FOLDER      # FOLDER is then a --policy
    python studies/small_policy.py train TEXTS.jsonl FOLDER --size larger

It is a Llama of a quarter of a million parameters, or of 1.6 million, trained from nothing on what SmolLM2 wrote and on
the texts that simulated users choose between. Each text stands after the tastes of a simulated user who likes it better
than others do, in the words of the view `oracle`, so that the policy follows what it is shown to some degree, as a
model tuned on instructions would.

It is not a language model that anybody would talk to: it writes phrases without sense. It serves where the critic
counts traits of a text, as that of `sim` does, and says nothing of larger policies.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from palate.engine import Failure, Sampling, WriteRequest, open_by_spec
from palate.records import Ask
from palate.rewards import conversation
from palate.runs import set_up
from palate.simulate import simulate, taste_of
from palate.simulate._pool import pool
from palate.simulate._taste import STANDARD, standardised
from palate.views import resolve_views

USERS, SEED = 400, 500
"""Simulated users whom no study may use."""
VOCABULARY, CONTEXT = 2048, 256
SHAPES = {
    "small": {"hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2, "num_attention_heads": 4},
    "larger": {"hidden_size": 160, "intermediate_size": 432, "num_hidden_layers": 4, "num_attention_heads": 5},
}
RATES = {"small": 8e-3, "larger": 4e-3}
BATCH, PASSES = 32, 9
LONGEST = 16
"""Tokens of a text that are learned from; the rest is cut off."""
LIKERS = 64
"""A text stands after the tastes of whichever of this many users likes it best."""
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+(?=- )")
"""What is between two sentences."""
END, PAD = "<|im_end|>", "<|endoftext|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
TEMPLATE = (
    "{% for m in messages if m['role'] != 'system' %}<|{{ m['role'] }}|>{{ m['content'] }}<|im_end|>{% endfor %}"
    "{% for m in messages if m['role'] == 'system' %}<|system|>{{ m['content'] }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""What is known of the user stands right before the answer, where a model as small as this learns to heed it."""


def people() -> list[Ask]:
    """Prompts of these users, each with what a policy is shown of them: what they love and hate, in words."""
    benchmark = simulate(seed=SEED, users=USERS, judgements=0, items=4)
    items = list(benchmark.comparisons)
    [oracle] = resolve_views(["oracle"], strangers=1)
    setup = set_up(benchmark, items, [oracle], retriever="bm25", writer="smollm2", budget=None, limit=None, seed=SEED)
    views = setup.builder.build(oracle, items)
    return [
        Ask(id=item.user_id, prompt=item.prompt, responses=(), view=view)
        for item, view in zip(items, views, strict=True)
    ]


def write(out: Path, prompts: int) -> None:
    """Have SmolLM2 write to these users; a line for each prompt."""
    model = open_by_spec("smollm2")
    asks = people()
    random.Random(SEED).shuffle(asks)
    with out.open("w", encoding="utf-8") as file:
        for start in range(0, prompts, 8):
            some = asks[start : start + 8]
            requests = [
                WriteRequest(
                    turns=conversation(ask),
                    sampling=Sampling(most_tokens=56, temperature=1.0, top_p=0.95, seed=start + place),
                    samples=12,
                )
                for place, ask in enumerate(some)
            ]
            for ask, texts in zip(some, model.write(requests), strict=True):
                if not isinstance(texts, Failure):
                    line = {"prompt": ask.prompt, "texts": [text.text for text in texts]}
                    print(json.dumps(line, ensure_ascii=False), file=file, flush=True)


def own(texts: Path) -> Iterator[tuple[str, str]]:
    """What SmolLM2 wrote, and what simulated users choose between, edited in several ways."""
    with texts.open(encoding="utf-8") as file:
        for line in map(json.loads, file):
            for text in line["texts"]:
                if text.strip():
                    yield line["prompt"], text.strip()
    for seed in range(SEED, SEED + 3):
        for offer in pool(seed):
            yield from ((offer.prompt, text) for text in offer.responses)


def tokenizer(sentences: list[str], texts: list[str]) -> PreTrainedTokenizerFast:
    """Byte-level BPE; each taste that a view may tell is one token."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=VOCABULARY, show_progress=False, initial_alphabet=alphabet)
    )
    inner.add_special_tokens([AddedToken(name, special=True) for name in (*ROLES, END, PAD)])
    inner.add_tokens([AddedToken(text, normalized=False, lstrip=True, rstrip=True) for text in sentences])
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token=END, pad_token=PAD, bos_token=PAD, model_max_length=CONTEXT
    )
    made.chat_template = TEMPLATE
    return made


Example = tuple[list[int], int]
"""Tokens, and where the answer begins."""


def examples(words: PreTrainedTokenizerFast, asks: list[Ask], pairs: list[tuple[str, str]]) -> Iterator[Example]:
    """From some sentence on, each text after the tastes of somebody who likes it; one in ten after none."""
    chance = random.Random(f"likers {SEED}")
    tastes = np.array([[taste_of(ask.id).get(name, 0.0) for name in STANDARD] for ask in asks])
    for prompt, text in pairs:
        begin = chance.choice([0, *(found.end() for found in SENTENCE.finditer(text))])
        answer = words(text[begin:], add_special_tokens=False).input_ids
        answer = answer[:LONGEST] if len(answer) > LONGEST else [*answer, words.eos_token_id]
        learned = words.decode(answer, skip_special_tokens=True)
        some = chance.sample(range(len(asks)), LIKERS)
        traits = np.array([standardised(learned, name) for name in STANDARD])
        liker = asks[some[int(np.argmax(tastes[some] @ traits))]]
        turns = conversation(Ask(id="", prompt=prompt, responses=(), view=liker.view))
        shown = turns[0 if chance.random() < 0.9 else 1 :]
        asked = words.apply_chat_template(
            [{"role": turn.role, "content": turn.content} for turn in shown], tokenize=False, add_generation_prompt=True
        )
        before = words(asked, add_special_tokens=False).input_ids
        if len(before) <= 64 and len(answer) > 4:
            yield [*before, *answer], len(before)


def train(texts: Path, folder: Path, size: str) -> None:
    """From nothing, several times over all texts, each time with other people's tastes before them."""
    torch.manual_seed(SEED)
    asks, pairs, chance = people(), list(own(texts)), random.Random(SEED)
    tastes = sorted({part for ask in asks for part in conversation(ask)[0].content.split("\n\n")})
    words = tokenizer(tastes, [f"{prompt}\n{text}" for prompt, text in pairs])
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(words), max_position_embeddings=CONTEXT, tie_word_embeddings=True, rope_theta=10_000.0,
            bos_token_id=words.bos_token_id, eos_token_id=words.eos_token_id, pad_token_id=words.pad_token_id,
            **SHAPES[size],
        )
    )  # fmt: skip
    lines = list(examples(words, asks, [pair for _ in range(PASSES) for pair in chance.sample(pairs, len(pairs))]))
    learn(model, lines, words.pad_token_id, RATES[size])
    model.save_pretrained(folder)
    words.save_pretrained(folder)


def learn(model: LlamaForCausalLM, lines: list[Example], pad: int, rate: float) -> None:
    """One pass over these examples; only the answers are learned."""
    steps = len(lines) // BATCH
    weights = sum(part.numel() for part in model.parameters())
    print(f"{weights / 1e6:.2f} million parameters, {len(lines)} texts, {steps} steps", flush=True)
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.05)
    # One cycle: up over a twentieth, then down in a straight line.
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / (0.05 * steps), max(0.02, 1 - step / steps))
    )
    started = time.process_time()
    for step in range(steps):
        some = lines[step * BATCH : (step + 1) * BATCH]
        longest = max(len(ids) for ids, _ in some)
        inputs, labels = torch.full((BATCH, longest), pad), torch.full((BATCH, longest), -100)
        for row, (ids, begin) in enumerate(some):
            inputs[row, : len(ids)] = torch.tensor(ids)
            labels[row, begin : len(ids)] = torch.tensor(ids[begin:])
        states = model.model(inputs).last_hidden_state[:, :-1]
        there = labels[:, 1:] != -100
        loss = torch.nn.functional.cross_entropy(model.lm_head(states[there]), labels[:, 1:][there])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % 50 == 0 or step == steps - 1:
            print(f"step {step} loss {loss.item():.3f} seconds {time.process_time() - started:.0f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("write", help="have SmolLM2 write")
    verb.add_argument("texts", type=Path)
    verb.add_argument("--prompts", type=int, default=48, help="each gets twelve texts")
    verb = verbs.add_parser("train", help="train the small policy on it")
    verb.add_argument("texts", type=Path)
    verb.add_argument("folder", type=Path)
    verb.add_argument("--size", choices=SHAPES, default="small")
    given = parser.parse_args()
    if given.verb == "write":
        write(given.texts, given.prompts)
    else:
        train(given.texts, given.folder, given.size)
