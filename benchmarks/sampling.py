"""How fast are many continuations of one prompt? palate against plain `generate` and llama.cpp, in one run.

    python benchmarks/sampling.py                                            # SmolLM2 on this CPU, some minutes
    python benchmarks/sampling.py --gguf SmolLM2-135M-Instruct.Q4_1.gguf     # llama.cpp too, needs xllamacpp
    python benchmarks/sampling.py --random --device cuda --dtype bfloat16 --prompts 32

Everybody draws the same number of tokens after the same prompts, at temperature 1 with nothing cut off, and nobody
stops at an end token. Engines take turns, so that a noisy neighbour disturbs all of them. `generate` gets the
prompt repeated, as it must. The floor is what the bare matrix products take, in the layout that palate uses: those
of one step times the tokens, and those of reading each prompt once; on a GPU recorded, so that nothing waits for
Python.
Runs without palate's dependencies: torch, transformers and numpy are enough.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse
import importlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

# Read when torch is loaded: its threads then sleep while they wait. Spinning, on a core that somebody shares, each
# of a step's hundreds of waits can cost a whole turn of the other's: ten times slower was seen, for all alike.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch

SOURCE = Path(__file__).parent.parent / "src" / "palate"


def load(name: str) -> Any:
    """A module of palate's, without palate's own dependencies where they are not installed."""
    try:
        importlib.import_module("palate.engine")
    except ImportError:
        for package, folder in (("palate", SOURCE), ("palate.engine", SOURCE / "engine")):
            stand_in = ModuleType(package)
            stand_in.__path__ = [str(folder)]
            sys.modules[package] = stand_in
    return importlib.import_module(name)


def load_model(options: argparse.Namespace) -> Any:
    transformers = importlib.import_module("transformers")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    dtype = getattr(torch, options.dtype)
    if options.random:
        torch.manual_seed(0)
        shape = {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "vocab_size": 49152}
        heads = {"num_attention_heads": 9, "num_key_value_heads": 3, "tie_word_embeddings": True}
        config = transformers.LlamaConfig(**shape, **heads, max_position_embeddings=8192)
        model = transformers.LlamaForCausalLM(config).to(dtype)
    else:
        folder = options.weights or load("palate.engine._weights").weights_folder("smollm2")
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model.to(options.device).eval()


def settle(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def timed(action: Callable[[], object], device: str) -> float:
    return stopped(action, device)[0]


def stopped(action: Callable[[], object], device: str) -> tuple[float, float]:
    """Seconds by the clock, and of processor time in all threads: on a shared machine the second is the steadier."""
    settle(device)
    start, busy = time.perf_counter(), time.process_time()
    action()
    settle(device)
    return time.perf_counter() - start, time.process_time() - busy


def generating(model: Any, prompts: list[list[int]], samples: int, **how: Any) -> Any:
    ids = torch.tensor(prompts, device=model.device).repeat_interleave(samples, 0)
    return model.generate(ids, attention_mask=torch.ones_like(ids), pad_token_id=0, top_k=0, **how)[:, ids.shape[1] :]


@torch.inference_mode()
def floor(model: Any, options: argparse.Namespace) -> float:
    """Seconds that the bare matrix products take."""
    decoder = load("palate.engine._decoder").Decoder(model)

    def products(rows: int, head: bool) -> Callable[[], None]:
        inputs: dict[int, torch.Tensor] = {}

        def multiply() -> None:
            for layer in decoder._layers:
                for product in layer.products:
                    width = product.inputs
                    if width not in inputs:
                        inputs[width] = torch.randn(rows, width, device=decoder.device, dtype=decoder.dtype)
                    product(inputs[width])
            if head:
                decoder._head(inputs[decoder._head.inputs])

        return multiply

    def best(action: Callable[[], None]) -> float:
        action()
        if options.device == "cuda":
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                action()
            action = graph.replay
        return statistics.median(timed(action, options.device) for _ in range(9))

    step = best(products(options.prompts * options.samples, head=True))
    reading = best(products(options.prompt_tokens, head=False)) * options.prompts
    if options.device == "cuda":  # all prompts at once, as a GPU reads them
        reading = best(products(options.prompt_tokens * options.prompts, head=False))
    block = torch.ones(1 << 28, dtype=torch.uint8, device=options.device)
    speed: float = block.numel() / min(timed(lambda: block.view(torch.int64).sum(), options.device) for _ in range(9))
    weights = sum(part.numel() * part.element_size() for part in model.parameters())
    print(
        f"bare products: {step * 1e3:.2f} ms a step, {reading:.3f} s to read the prompts; "
        f"weights {weights / 1e6:.0f} MB at {speed / 1e9:.0f} GB/s: {weights / speed * 1e3:.2f} ms a step"
    )
    seconds: float = step * options.tokens + reading
    return seconds


def as_q8_0(source: Path, folder: Path) -> Path:
    """The same GGUF in 8 bits, which is closer to the float32 weights in speed and in what it says than 4 bits."""
    gguf = importlib.import_module("gguf")
    reader = gguf.GGUFReader(str(source))
    target = folder / "q8_0.gguf"
    writer = gguf.GGUFWriter(str(target), reader.get_field("general.architecture").contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind, *inner = field.types
        if field.name == "general.file_type":
            writer.add_file_type(int(gguf.LlamaFileType.MOSTLY_Q8_0))
        else:
            writer.add_key_value(field.name, field.contents(), kind, inner[0] if inner else None)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if values.ndim > 1:
            packed = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor(tensor.name, packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        else:
            writer.add_tensor(tensor.name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def llama_cpp(options: argparse.Namespace, prompts: list[list[int]], folder: Path) -> Callable[[], object] | None:
    if options.device != "cpu" or options.gguf is None:
        print("llama.cpp: left out (it runs on the CPU and needs --gguf)")
        return None
    try:
        library = importlib.import_module("xllamacpp")
    except ImportError:
        print("llama.cpp: left out, xllamacpp is not installed")
        return None
    parameters = library.CommonParams()
    parameters.model.path = str(as_q8_0(options.gguf, folder))
    parameters.n_parallel = options.samples
    parameters.kv_unified = True  # a prompt's keys and values are shared by the samples that come from one request
    parameters.n_ctx = options.prompt_tokens + options.samples * (options.tokens + 8) + 256
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = torch.get_num_threads()
    parameters.verbosity = 0
    server = library.Server(parameters)
    request = {"max_tokens": options.tokens, "n": options.samples, "ignore_eos": True, "cache_prompt": False}
    request |= {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}

    def write() -> None:
        for prompt in prompts:
            answer = server.handle_completions({**request, "prompt": prompt})
            # `usage` counts the tokens of one sample only.
            if (len(answer["choices"]), answer["usage"]["completion_tokens"]) != (options.samples, options.tokens):
                raise RuntimeError(f"llama.cpp wrote something else than was asked: {str(answer)[:300]}")

    return write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    parser.add_argument("--prompts", type=int, default=1)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--prompt-tokens", type=int, default=650)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--weights", type=Path, help="a folder that transformers can load; else SmolLM2")
    parser.add_argument("--random", action="store_true", help="random weights in the shape of SmolLM2")
    parser.add_argument("--gguf", type=Path, help="the same model as GGUF, for llama.cpp")
    parser.add_argument("--no-record", action="store_true", help="without CUDA graphs")
    parser.add_argument("--no-generate", action="store_true", help="without plain generate")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = load_model(options)
    sampler = load("palate.engine._sampler").Sampler(model, set(), 0, record=not options.no_record)
    random = torch.Generator().manual_seed(0)
    prompts = torch.randint(100, 40_000, (options.prompts, options.prompt_tokens), generator=random).tolist()
    numbers = list(range(options.prompts))
    common = {"samples": options.samples, "top_p": options.top_p, "temperature": 1.0}

    print(f"torch {torch.__version__}, {options.device} {options.dtype}, {torch.get_num_threads()} threads, ", end="")
    print(f"{options.prompts} prompts of {options.prompt_tokens} tokens, {options.samples} x {options.tokens} tokens")
    if options.device == "cuda":
        print(torch.cuda.get_device_name())
    greedy = sampler.sample(prompts[:1], samples=1, most_tokens=32, temperature=0.0, top_p=1.0, seeds=[0])
    expected = generating(model, prompts[:1], 1, do_sample=False, max_new_tokens=32, min_new_tokens=32)[0].tolist()
    alike = [one == other for one, other in zip(greedy[0][0].ids, expected, strict=True)]
    same = alike.index(False) if False in alike else len(alike)
    print(f"greedy: the first {same} of 32 tokens are those of generate")
    bare = floor(model, options)

    with tempfile.TemporaryDirectory() as folder:
        engines: dict[str, Callable[[], object]] = {
            "palate": lambda: sampler.sample(prompts, most_tokens=options.tokens, seeds=numbers, **common)
        }
        if not options.no_generate:
            how = {"do_sample": True, "top_p": options.top_p, "min_new_tokens": options.tokens}
            engines["generate"] = lambda: generating(
                model, prompts, options.samples, max_new_tokens=options.tokens, **how
            )
        written = llama_cpp(options, prompts, Path(folder))
        if written:
            engines["llama.cpp Q8_0"] = written
        engines["palate"]()  # weights are laid out at the first call, which is not repeated
        seconds: dict[str, list[float]] = {name: [] for name in engines}
        busy: dict[str, list[float]] = {name: [] for name in engines}
        for turn in range(options.repeats):
            for name, engine in engines.items():
                clock, processor = stopped(engine, options.device)
                seconds[name].append(clock)
                busy[name].append(processor)
                load_now = os.getloadavg()[0]
                print(f"  turn {turn + 1}  {name:15} {clock:8.3f} s  (load {load_now:.1f})", flush=True)

    tokens = options.prompts * options.samples * options.tokens
    ours = statistics.median(seconds["palate"])
    print(f"\n{'':15} {'median':>9} {'from':>9} {'to':>9} {'processor':>10} {'tokens/s':>10} {'palate is':>13}")
    for name, times in seconds.items():
        middle = statistics.median(times)
        print(
            f"{name:15} {middle:8.3f}s {min(times):8.3f}s {max(times):8.3f}s {statistics.median(busy[name]):9.3f}s "
            f"{tokens / middle:10,.0f} {middle / ours:8.2f} times"
        )
    print(f"{'floor':15} {bare:8.3f}s {'':9} {'':9} {'':10} {tokens / bare:10,.0f} {bare / ours:8.0%} of it")


if __name__ == "__main__":
    main()
