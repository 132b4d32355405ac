"""Where does a GPU's time go while palate scores and samples, and how far is that from what the hardware allows?

    python benchmarks/gpu_time.py --device cuda                       # both shapes, scoring and sampling
    python benchmarks/gpu_time.py --device cuda --only "8b classifier, 2"
    python benchmarks/gpu_time.py --shapes tiny                       # on a CPU, to see that it runs

For each kind of work: the time by the clock, how much of it the GPU was busy, shares of matrix products, attention and
the rest, and the kernels that took longest, from torch's profiler. Idle is the clock, without the profiler, less what
the kernels took.

The floor is the bare matrix products: those of the same sizes on random numbers, one after another in a recorded
graph, so that nothing waits for Python. They are timed with the weights as they are, and with those that have the same
input joined into one. No engine that reads each token once in this precision is faster than its products. A large
square product says what the GPU can do at most.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse
import functools
import importlib
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile


def beside(name: str) -> Any:
    """A program in this folder, as a module. Each takes the folder off the path again."""
    sys.path.append(str(Path(__file__).parent))
    return importlib.import_module(name)


scoring, sampling, peer = beside("scoring"), beside("sampling"), beside("against_vllm")

Work = Callable[[], Any]
KINDS = {
    "attention": r"flash|fmha|sdpa|attention|look_back|^attend|^join",
    "matrix products": r"gemm|nvjet|cutlass|cublas|splitk|gemv|addmm|\bb?mm\b|mkldnn|linear",
    "norms, rotations, gates": r"^norm|^gated|^rotate|^turn|rms_norm|silu",
    "drawing tokens": r"^draw",
    "copies": r"memcpy|memset|copy|\bcat\b|catarray",
}
"""Which kernels do what, by their names; the first that matches. The rest is `other`."""


@dataclass(frozen=True)
class Launch:
    """One kernel that ran, in seconds."""

    name: str
    start: float
    end: float
    own: float
    """Without what it called, as operations on a CPU do and kernels do not."""

    @property
    def kind(self) -> str:
        """What it does."""
        return next((kind for kind, names in KINDS.items() if re.search(names, self.name, re.I)), "other")


def launches(work: Work, device: str) -> list[Launch]:
    """Every kernel of a GPU; on a CPU every operation."""
    on_gpu = device == "cuda"
    kind = torch.profiler.DeviceType.CUDA if on_gpu else torch.profiler.DeviceType.CPU
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA] if on_gpu else [ProfilerActivity.CPU]
    with profile(activities=activities, acc_events=True) as recorded:
        work()
        peer.settle()
    found = []
    for event in recorded.events() or ():
        if event.device_type == kind:
            start, end = event.time_range.start / 1e6, event.time_range.end / 1e6
            found.append(Launch(event.name, start, end, end - start if on_gpu else event.self_cpu_time_total / 1e6))
    return found


def busy(found: Sequence[Launch]) -> float:
    """Seconds in which at least one kernel ran."""
    total, end = 0.0, float("-inf")
    for launch in sorted(found, key=lambda launch: launch.start):
        total += max(0.0, launch.end - max(launch.start, end))
        end = max(end, launch.end)
    return total


def median_seconds(action: Work, device: str, repeats: int) -> float:
    times: list[float] = [sampling.timed(action, device) for _ in range(repeats)]
    return statistics.median(times)


def recorded_seconds(action: Work, device: str) -> float:
    """The median of one action, recorded as a graph where that is possible."""
    with torch.inference_mode():
        action()
        if device == "cuda":
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                action()
            action = graph.replay
            action()
        return median_seconds(action, device, 3)


def products(model: Any, passes: Sequence[int], *, joined: bool) -> tuple[Work, float]:
    """The matrix products of a decoder's layers over passes, given in tokens, and their floating-point operations."""
    weights: list[list[torch.Tensor]] = []
    for layer in model.base_model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        inputs = [[attention.q_proj, attention.k_proj, attention.v_proj], [mlp.gate_proj, mlp.up_proj]]
        several = [[part.weight for part in parts] for parts in inputs]
        own = [torch.cat(parts) for parts in several] if joined else [weight for parts in several for weight in parts]
        weights.append([*own, attention.o_proj.weight, mlp.down_proj.weight])
    widths = {weight.shape[1] for weight in weights[0]}
    like = weights[0][0]
    numbers = {(rows, width): like.new_empty(rows, width).normal_() for rows in set(passes) for width in widths}

    def multiply() -> None:
        for rows in passes:
            for layer in weights:
                for weight in layer:
                    functional.linear(numbers[rows, weight.shape[1]], weight)

    return multiply, 2.0 * sum(passes) * sum(weight.numel() for layer in weights for weight in layer)


def square_product(device: str) -> float:
    """Operations a second of one large product of random numbers."""
    size = 8_192 if device == "cuda" else 512
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    one, other = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    for _ in range(3):
        one @ other
    return 2.0 * size**3 / median_seconds(lambda: one @ other, device, 10)


def show(title: str, work: Work, floor: Callable[[], float], device: str) -> None:
    """Time the work, profile it once and print both beside the floor."""
    work()
    clock = median_seconds(work, device, 3)
    found = launches(work, device)
    taken = busy(found)
    print(f"\n{title}: {clock:.4f} s by the clock, busy {taken:.4f} s, idle {clock - taken:.4f} s", flush=True)
    seconds, counts, names = defaultdict[str, float](float), defaultdict[str, int](int), defaultdict[str, float](float)
    for launch in found:
        seconds[launch.kind] += launch.own
        counts[launch.kind] += 1
        names[launch.name] += launch.own
    for kind in sorted(seconds, key=lambda kind: -seconds[kind]):
        print(f"  {kind:24} {seconds[kind]:.4f} s {seconds[kind] / clock:6.1%} in {counts[kind]:,}")
    print("  longest:")
    for name, total in sorted(names.items(), key=lambda item: -item[1])[:12]:
        print(f"    {total:.4f} s {total / clock:6.1%}  {name[:110]}")
    bare = floor()
    both = bare + seconds["attention"]
    print(f"  bare products take {bare / clock:.0%} of the clock, and with the attention above {both / clock:.0%}:")
    print(f"  with nothing else at all palate would be {clock / both:.2f} times as fast", flush=True)


def scoring_floor(model: Any, asks: Sequence[Any], device: str) -> float:
    """The quicker of the bare products with weights apart and joined."""
    scorer = importlib.import_module("palate.engine._scorer").Scorer(model)
    groups = peer.groups(asks)
    passes = [sum(groups[index].size for index in batch) for batch in scorer._batches(groups, True)]
    best = float("inf")
    for joined in (False, True):
        multiply, operations = products(model, passes, joined=joined)
        seconds = recorded_seconds(multiply, device)
        rate = operations / seconds / 1e12
        how = "joined" if joined else "apart"
        print(f"  bare products, weights {how}: {seconds:.4f} s, {rate:.3g} TFLOP/s; tokens a pass: {passes}")
        best = min(best, seconds)
        del multiply
    return best


def all_work(shape: str, device: str, wanted: str) -> Iterator[tuple[str, Work, Callable[[], float]]]:
    """Title, work and floor of everything whose title begins as wanted. Models are made when they are needed."""
    vocabulary = scoring.SHAPES[shape]["vocab_size"]
    titles = {f"{shape} classifier, {label}": counts for label, counts in peer.CANDIDATES.items()}
    chosen = {title: counts for title, counts in titles.items() if title.startswith(wanted)}
    if chosen:
        model = peer.load(f"{shape}-classifier", device)
        scores = peer.scores(model, "classifier")
        for title, counts in chosen.items():
            asks = scoring.ragged_asks(peer.ASKS[shape], counts, vocabulary, seed=1)
            yield title, scores(asks), functools.partial(scoring_floor, model, asks, device)
        del model, scores
    if (title := f"{shape} sampling").startswith(wanted):
        model = peer.load(f"{shape}-language", device)
        count, length, each, tokens = peer.PROMPTS[shape]
        prompts = peer.random_prompts(count, length, vocabulary)
        sizes = {"prompts": count, "prompt_tokens": length, "samples": each, "tokens": tokens, "device": device}
        yield (
            f"{title}, {count} x {each} x {tokens}",
            peer.samples(model)(prompts, each, tokens),
            lambda: sampling.floor(model, argparse.Namespace(**sizes)),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--shapes", nargs="+", default=["smollm2", "8b"], choices=list(peer.ASKS))
    parser.add_argument("--only", default="", help="the beginning of a title, such as `8b classifier`")
    options = parser.parse_args()
    name = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    rate = square_product(options.device) / 1e12
    print(f"{name}, torch {torch.__version__}; a large square product: {rate:.3g} TFLOP/s", flush=True)
    for shape in options.shapes:
        for title, work, floor in all_work(shape, options.device, options.only):
            show(title, work, floor, options.device)


if __name__ == "__main__":
    main()
