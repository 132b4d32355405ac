"""How long does a policy take to learn from a step's texts? Each prompt read once, against once for every sample.

    python benchmarks/ppo_reading.py                                   # SmolLM2 on this processor, some minutes
    python benchmarks/ppo_reading.py --device cuda --prompts 64        # on a GPU, in bfloat16

The usual way reads prompt and response of each sample as a row of its own. Both ways read the same texts, forward and
back, in turns, and have to find the same gradients. Texts are tokens drawn at
random: how long they are decides the time, not what they say.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse
import os
import statistics
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch

from palate.downstream.ppo._policy_model import PolicyModel, TokenBatch, open_policy_model
from palate.downstream.ppo._ppo import log_probabilities
from palate.downstream.ppo._training import Training


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="smollm2")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--prompts", type=int, default=2)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=96, help="of a response")
    parser.add_argument("--lengths", type=int, nargs="+", default=[150, 800], help="tokens of a prompt, one at a time")
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    policy = open_policy_model(f"{options.policy},device={options.device}")
    policy.begin(Training(samples=options.samples, tokens=options.tokens), seed=0)
    print(
        f"{policy.name} on {policy.device}: {options.prompts} prompts, {options.samples} responses of "
        f"{options.tokens} tokens to each; load before {os.getloadavg()[0]:.1f}"
    )
    for length in options.lengths:
        once, each = compare(policy, options, length)
        ratio = f"{each / once:.2f} times"
        print(
            f"prompts of {length:5} tokens: read once {once:7.3f} s, for every sample {each:7.3f} s, {ratio}",
            flush=True,
        )


def compare(policy: PolicyModel, options: argparse.Namespace, length: int) -> tuple[float, float]:
    """Median seconds of learning from all texts: each prompt read once, and once for every sample."""
    draw = torch.Generator().manual_seed(length)
    highest = policy.chat.tokenizer.vocab_size

    def words(count: int) -> list[int]:
        return torch.randint(3, highest, (count,), generator=draw).tolist()

    prompts = [words(length - place % 8) for place in range(options.prompts)]  # never all of one length
    texts = policy.texts([(prompt, words(options.tokens)) for prompt in prompts for _ in range(options.samples)])
    seconds: dict[bool, list[float]] = {False: [], True: []}
    found: dict[bool, torch.Tensor] = {}
    for _ in range(options.repeats + 1):
        for whole in (False, True):
            taken, found[whole] = learn(policy, texts, whole=whole)
            seconds[whole].append(taken)
    near = torch.nn.functional.cosine_similarity(found[False], found[True], dim=0)
    if near < (0.999 if policy.device == "cpu" else 0.98):
        raise SystemExit(f"the two ways find gradients with a cosine of {near:.4f}")
    once, each = (
        statistics.median(seconds[whole][1:]) for whole in (False, True)
    )  # the first is for what is done once
    return once, each


def learn(policy: PolicyModel, texts: TokenBatch, *, whole: bool) -> tuple[float, torch.Tensor]:
    """Seconds of one pass forward and back, and the gradients of one matrix in the middle."""
    policy._whole = whole
    policy._trained.zero_grad()
    wait(policy)
    started = time.perf_counter()
    policy.measure(policy.read(texts), texts, log_probabilities).sum().backward()  # type: ignore[no-untyped-call]
    wait(policy)
    taken = time.perf_counter() - started
    matrices = [part for part in policy.parameters if part.dim() == 2]
    middle = matrices[len(matrices) // 2].grad
    assert middle is not None
    return taken, middle.flatten().float().clone()


def wait(policy: PolicyModel) -> None:
    """Until the device has done what it was told."""
    if policy.device.startswith("cuda"):
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
