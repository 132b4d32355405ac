"""How fast is guided decoding? palate against the usual way, with the same weights and the same text.

    python benchmarks/guide.py                    # SmolLM2 on this CPU, some minutes
    python benchmarks/guide.py --every-step       # the usual way at every step, not at some of them
    python benchmarks/guide.py --device cuda --dtype bfloat16

The policy is SmolLM2; the reward model is a classifier on SmolLM2's body with a head of random weights, which sees a
profile. Of the policy's k likeliest next tokens the one with the best sum of log-probability and weighted reward is
taken. The usual way reads, at every step, the whole prompt and text again: once for the policy, and once for each
candidate for the reward model, all k in one padded batch. It is timed at some steps spread over the text, given
palate's text up to there, and its mean step is scaled to all of them; at each of those steps it has to take the
token that palate took.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse
import os
import tempfile
import time
from typing import Any

# Read when torch is loaded: its threads then sleep while they wait, and do not spin on a core that somebody shares.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
import transformers

from palate.downstream.guide._guiding import Guided, Guiding, Job, write_guided
from palate.engine import Conversation, LocalClassifier, LocalModel, Turn, weights_folder
from palate.records import Ask, Part, View
from palate.rewards import conversation, make_reward_model

POST = "I keep bees behind the house and write letters by hand. Long walks in the rain suit me better than any gym. "
PROMPT = (
    "Write a long story about a lighthouse keeper who finds a letter in a bottle. Take your time, in many paragraphs."
)


def classifier_folder(folder: Path) -> Path:
    """SmolLM2's body with one logit of random weights."""
    source = weights_folder("smollm2")
    torch.manual_seed(0)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(source, num_labels=1, dtype=torch.float32)
    with torch.no_grad():
        model.score.weight.normal_(std=0.05)
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    return folder


class UsualWay:
    """Everything again at every step."""

    def __init__(self, policy: LocalModel, reward: LocalClassifier, job: Job, top: int) -> None:
        self._policy, self._reward, self._job, self._top = policy, reward, job, top
        self._policy_model: Any = policy._model
        self._reward_model: Any = reward._model
        self._prompt = policy.chat.ids(policy.chat.prompt(job.turns))
        self._seen: Conversation = conversation(job.ask)

    @torch.inference_mode()
    def step(self, written: list[int]) -> int | None:
        """The next token; None where the text ends."""
        device = self._policy_model.device
        ids = torch.tensor([[*self._prompt, *written]], device=device)
        logits = self._policy_model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[0, -1].float()
        values, tokens = logits.log_softmax(-1).topk(self._top)
        texts = [self._policy.decoded([*written, token]) for token in tokens.tolist()]
        rows = [self._reward.chat.ids(self._reward.chat.answered(self._seen, text)) for text in texts]
        longest = max(map(len, rows))
        padded = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], device=device)
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=device)
        states = self._reward_model.model(input_ids=padded, attention_mask=mask, use_cache=False).last_hidden_state
        last = torch.tensor([len(row) - 1 for row in rows], device=device)
        rewards = self._reward_model.score.float()(states[torch.arange(len(rows)), last].float())[:, 0]
        taken = int(tokens[(values + self._job.weight * rewards).argmax()])
        return None if taken in self._policy.ends else taken


def settle(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--top-k", type=int, default=10)
    parser.add_argument("--weight", type=float, default=1.0)
    parser.add_argument("--posts", type=int, default=16, help="posts of some 25 tokens in the profile")
    parser.add_argument("--steps", type=int, default=5, help="steps at which the usual way is timed")
    parser.add_argument("--every-step", action="store_true")
    parser.add_argument("--texts", type=int, default=1, help="texts that palate guides side by side")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    guiding = Guiding(top_k=options.top_k, tokens=options.tokens)
    with tempfile.TemporaryDirectory() as folder:
        name = str(classifier_folder(Path(folder)))
        policy = LocalModel("smollm2", device=options.device, dtype=options.dtype)
        reward = make_reward_model(f"classifier:{name},device={options.device},dtype={options.dtype}")
        plain = LocalClassifier(name, device=options.device, dtype=options.dtype)
        parts = tuple(Part(kind="post", text=POST) for _ in range(options.posts))
        ask = Ask(id="one", prompt=PROMPT, responses=(), view=View(name="posts", parts=parts))
        job = Job(turns=(Turn("user", PROMPT),), ask=ask, weight=options.weight, seed=0)
        write_guided(policy, reward, [job], Guiding(top_k=options.top_k, tokens=2))  # what is done once, before
        settle(options.device)
        begun = time.perf_counter()
        found = write_guided(policy, reward, [job] * options.texts, guiding)
        settle(options.device)
        ours = time.perf_counter() - begun
        compare(options, policy, plain, job, found, ours)


def compare(
    options: argparse.Namespace,
    policy: LocalModel,
    reward: LocalClassifier,
    job: Job,
    found: list[Guided],
    ours: float,
) -> None:
    usual = UsualWay(policy, reward, job, options.top_k)
    written = list(found[0].ids)
    count = len(written)
    usual.step(written[:2])
    places = (
        range(count)
        if options.every_step
        else sorted({round(at * (count - 1) / (options.steps - 1)) for at in range(options.steps)})
    )
    took, same = [], 0
    for place in places:
        settle(options.device)
        begun = time.perf_counter()
        token = usual.step(written[:place])
        settle(options.device)
        took.append(time.perf_counter() - begun)
        same += token == written[place]
    whole = sum(took) / len(took) * count
    seen = len(reward.chat.ids(reward.chat.prompt(conversation(job.ask))))
    each = ours / len(found)
    print(f"{options.device} {options.dtype}, {torch.get_num_threads()} threads; k = {options.top_k}, {count} tokens")
    print(f"profile and prompt {seen} tokens; {len(found)} text(s) side by side; reads: {found[0].text[:60]!r}...")
    print(f"palate         {each:8.2f} s a text, {1000 * each / count:7.1f} ms a step")
    scaled = "" if options.every_step else f", from {len(took)} steps spread over the text, scaled"
    print(f"the usual way  {whole:8.2f} s a text, {1000 * whole / count:7.1f} ms a step{scaled}")
    print(f"same token at {same} of {len(took)} steps; ratio {whole / each:.1f}")
    if options.dtype == "float32" and same < len(took):
        raise SystemExit("the two ways do not write the same text")


if __name__ == "__main__":
    main()
