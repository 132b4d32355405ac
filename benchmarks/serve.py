"""How many requests a second does `palate serve` answer? Against a server that rates one request at a time.

    python benchmarks/serve.py                              # a small classifier of random weights, this machine
    python benchmarks/serve.py --shape smollm2 --requests 128
    python benchmarks/serve.py --shape tiny --requests 4096 # a model that costs little: what the server itself takes
    python benchmarks/serve.py --device cuda --shape 8b --requests 2048
    python benchmarks/serve.py --soak 10                    # ten minutes at load: memory, lost and crossed answers
    python benchmarks/serve.py --replicas 1 2 4             # several servers behind nginx, a thread each

The load is that of a trainer: 64 requests in flight, each with one response, as rollout workers send them; 8 users
with profiles of `--profile` tokens (1,500), and `--rollouts` responses (16) to a prompt, of `--response` tokens (64,
from half to one and a half of it), one after another in the queue. Both servers run the same model in a process of
their own, one after the other, over HTTP on this machine, with a connection for each client. The other one is FastAPI
too; one thread of it calls the same `rate` for one request after another. The scores of both are compared, and every
answer has to carry the id of its request.

With `--replicas`, nginx with the configuration of docs/examples stands in front, and requests are sent twice: a user's
to the same replica, and each to any. The hit rate is the share of responses for which no profile had to be read.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse
import asyncio
import importlib
import json
import os
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import cycle, islice
from typing import Any

import httpx

from palate.data import load_benchmark

CLIENTS = 64
USERS = 8
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.5}
"""How far two ratings of one response may be apart. Scores of these classifiers spread by about 1.1, and rounding to
bfloat16 moves them by 0.04 in the mean, here one way and there another; answers that are crossed are 1.3 apart."""
SHAPES: dict[str, dict[str, int]] = {
    "tiny": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 16},
    "small": {"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 2_048},
    "smollm2": {"hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9, "intermediate_size": 1_536},
    "8b": {"hidden_size": 4_096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 14_336},
}
Request = dict[str, Any]
Route = Callable[[Request], str]
"""From a request to what a router sends it by."""
ROUTER = Path(__file__).parents[1] / "docs/examples/router.conf"


def make_classifier(folder: Path, shape: str) -> Any:
    """Random weights of a shape, with the tokenizer of SmolLM2; its tokenizer is returned."""
    import torch

    from palate.engine import weights_folder

    transformers = importlib.import_module("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(weights_folder("smollm2"))
    heads = SHAPES[shape]["num_attention_heads"]
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        num_key_value_heads=heads // 3 if heads == 9 else max(1, heads // 4),
        max_position_embeddings=8_192,
        num_labels=1,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.05,
        **SHAPES[shape],
    )
    torch.manual_seed(0)
    dtype = torch.bfloat16 if shape == "8b" else torch.float32
    transformers.LlamaForSequenceClassification(config).to(dtype).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return tokenizer


def make_requests(count: int, rollouts: int, tokenizer: Any, profile: int, response: int) -> list[Request]:
    """Requests in the order in which a trainer sends them: all rollouts of a prompt, then those of the next."""
    benchmark = load_benchmark("mini")
    draw = random.Random(0)
    texts = [text for item in benchmark.comparisons for text in item.responses]
    users = list(benchmark.users.values())[:USERS]
    views = []
    for number in range(USERS):  # posts of this user, then of others until the profile is long enough
        posts = [post.text for user in users[number:] + users[:number] for post in user.posts]
        ids = tokenizer("\n\n".join(posts * 20), add_special_tokens=False)["input_ids"][:profile]
        views.append(tokenizer.decode(ids))
    prompts = sorted({item.prompt for item in benchmark.comparisons})
    requests: list[Request] = []
    for number in range(0, count, rollouts):
        user = (number // rollouts) % USERS
        prompt = prompts[(number // rollouts) % len(prompts)]
        for rollout in range(min(rollouts, count - number)):
            start = draw.randrange(len(texts))
            length = draw.randint(response // 2, response * 3 // 2)
            cut = tokenizer.decode(list(islice(tokens_from(texts, start, tokenizer), length)))
            requests.append(
                {
                    "id": f"{number + rollout}",
                    "prompt": prompt,
                    "responses": [f"{cut} ({number + rollout})"],
                    "view": views[user],
                    "user_id": f"user-{user}",
                }
            )
    return requests


def tokens_from(texts: Sequence[str], start: int, tokenizer: Any) -> Iterator[int]:
    """The tokens of a text, then of those after it, without an end."""
    for text in islice(cycle(texts), start, None):
        yield from tokenizer(text, add_special_tokens=False)["input_ids"]


def one_at_a_time(spec: str, port: int) -> None:
    """The other server: the same model and protocol, one request at a time."""
    import msgspec
    import uvicorn
    from fastapi import FastAPI, Request, Response

    from palate.records import Ask
    from palate.rewards import make_reward_model, rate
    from palate.serve._wire import AskRequest, ratings_body

    model = make_reward_model(spec)
    rate(model, [Ask(id="warm-up", prompt="Hello?", responses=("Hello.",))])
    app, worker = FastAPI(), ThreadPoolExecutor(1)

    @app.get("/ready")
    async def ready() -> dict[str, str]:
        return {"model": model.name}

    async def rate_asks(request: Request) -> Response:
        asks = msgspec.json.decode(await request.body(), type=AskRequest).to_asks()
        ratings = await asyncio.wrap_future(worker.submit(rate, model, asks))
        return Response(ratings_body(asks, ratings), media_type="application/json")

    rate_asks.__annotations__ = {"request": Request, "return": Response}
    app.post("/")(rate_asks)
    uvicorn.run(app, port=port, log_level="warning", access_log=False)


@contextmanager
def running(command: Sequence[str], port: int) -> Iterator[int]:
    """A server in a process of its own, once it answers; gives its process id."""
    process = subprocess.Popen([sys.executable, *command])
    try:
        while True:
            if process.poll() is not None:
                raise SystemExit(f"the server ended with {process.returncode}")
            try:
                if httpx.get(f"http://127.0.0.1:{port}/ready", timeout=5).status_code == 200:
                    break
            except httpx.TransportError:
                pass
            time.sleep(0.2)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


async def load(
    port: int, requests: Iterator[Request], scores: dict[str, float], tolerance: float, route: Route | None = None
) -> tuple[int, int]:
    """Send all requests, 64 at a time; gives how many were answered, and how many with somebody else's id."""
    crossed = answered = 0

    async def client() -> None:
        nonlocal answered, crossed
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for request in requests:
            header = f"X-Palate-Route: {route(request)}\r\n" if route else ""
            [rating] = (await post(reader, writer, {"asks": [request]}, header))["ratings"]
            answered += 1
            crossed += rating["id"] != request["id"] or (
                request["id"] in scores and abs(scores[request["id"]] - rating["scores"][0]) > tolerance
            )
            scores.setdefault(request["id"], rating["scores"][0])
        writer.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return answered, crossed


async def post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: Request, header: str) -> Any:
    """One request over an open connection. A client for all purposes takes longer over it than the servers do."""
    body = json.dumps(asked).encode()
    writer.write(f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n".encode())
    writer.write(f"Content-Type: application/json\r\n{header}\r\n".encode() + body)
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    answer = await reader.readexactly(int(head.partition("content-length:")[2].split()[0]))
    if " 200 " not in head.splitlines()[0]:
        raise SystemExit(f"{head.splitlines()[0]}: {answer.decode()}")
    return json.loads(answer)


def measure(
    command: Sequence[str], port: int, requests: Sequence[Request], scores: dict[str, float], tolerance: float
) -> tuple[float, float, float]:
    """Requests a second, the seconds of processor that the server took for one, and how many it rated together."""
    with running(command, port) as process:
        asyncio.run(load(port, iter(requests[:CLIENTS]), scores, tolerance))  # warm
        started, used, before = time.perf_counter(), processor(process), batches(port)
        answered, crossed = asyncio.run(load(port, iter(requests), scores, tolerance))
        seconds, used = time.perf_counter() - started, processor(process) - used
        rated = batches(port) - before
    if answered != len(requests) or crossed:
        raise SystemExit(f"{len(requests) - answered} answers lost, {crossed} crossed or different")
    return answered / seconds, used / answered, answered / rated if rated else 1.0


def batches(port: int) -> float:
    """How many batches a server says it has rated; the other one says nothing."""
    return counted(port, "palate_batch_requests_count")


def counted(port: int, name: str) -> float:
    """One of a server's counters."""
    told = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text.splitlines()
    return sum(float(line.split()[-1]) for line in told if line.startswith(name))


@contextmanager
def behind_a_router(command: Sequence[str], port: int, count: int, folder: Path) -> Iterator[Mapping[int, int]]:
    """So many servers, each with a thread, on the ports after that of nginx; gives their process ids by port."""
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if nginx is None:
        raise SystemExit("nginx is not installed: apt-get install nginx-light")
    head, _, rest = ROUTER.read_text().partition("        server 127.0.0.1:8301")
    ports = range(port + 1, port + 1 + count)
    servers = "".join(f"        server 127.0.0.1:{one} max_fails=0;\n" for one in ports)
    text = f"{head}{servers}{rest.partition('8302 max_fails=0;')[2]}".replace("127.0.0.1:8300", f"127.0.0.1:{port}")
    (folder / "router.conf").write_text(text)
    with ExitStack() as stack:
        found = {one: stack.enter_context(running([*command, "--port", str(one)], one)) for one in ports}
        router = subprocess.Popen([nginx, "-p", folder, "-c", folder / "router.conf"])
        stack.callback(router.wait)
        stack.callback(router.terminate)
        while httpx.get(f"http://127.0.0.1:{port + 1}/ready").status_code != 200 or not listens(port):
            time.sleep(0.1)
        yield found


def listens(port: int) -> bool:
    """Whether anything does."""
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def replicas(command: Sequence[str], port: int, counts: Sequence[int], requests: Sequence[Request]) -> None:
    """Throughput, processor time and hit rate, for each number of replicas, by user and at random."""
    os.environ["OMP_NUM_THREADS"] = "1"
    draw, scores = random.Random(1), dict[str, float]()
    ways: dict[str, Route] = {
        "by user": lambda request: str(request["user_id"]),
        "at random": lambda request: str(draw.random()),
    }
    first = 0.0
    print("replicas  routed     requests/s  ratio  processor s each  requests together  profile hit rate")
    for count in counts:
        for way, route in ways.items() if count > 1 else [("by user", ways["by user"])]:
            with tempfile.TemporaryDirectory() as folder, behind_a_router(command, port, count, Path(folder)) as ids:
                asyncio.run(load(port, iter(requests[:CLIENTS]), scores, TOLERANCE["float32"], route))  # warm
                names = ("palate_profiles_read_total", "palate_batch_responses_sum", "palate_batch_requests_count")
                before = [sum(counted(one, name) for one in ids) for name in names]
                started, used = time.perf_counter(), sum(map(processor, ids.values()))
                answered, crossed = asyncio.run(load(port, iter(requests), scores, TOLERANCE["float32"], route))
                seconds, used = time.perf_counter() - started, sum(map(processor, ids.values())) - used
                after = [sum(counted(one, name) for one in ids) for name in names]
            if answered != len(requests) or crossed:
                raise SystemExit(f"{len(requests) - answered} answers lost, {crossed} crossed or different")
            read, rated, batched = (now - then for now, then in zip(after, before, strict=True))
            first = first or answered / seconds
            print(
                f"{count:8d}  {way:9s}  {answered / seconds:10.2f}  {answered / seconds / first:5.2f}  "
                f"{used / answered:16.4f}  {rated / batched:17.1f}  {1 - read / rated:16.0%}",
                flush=True,
            )


def soak(command: Sequence[str], port: int, requests: Sequence[Request], minutes: float, tolerance: float) -> None:
    """The same requests over and over: every answer is compared with the first one that it got."""
    until = time.monotonic() + 60 * minutes
    sent = 0

    def endless() -> Iterator[Request]:
        nonlocal sent
        while time.monotonic() < until:
            sent += 1
            yield requests[(sent - 1) % len(requests)]

    with running(command, port) as process:
        scores: dict[str, float] = {}
        asyncio.run(load(port, iter(requests), scores, tolerance))
        memory = [resident(process)]
        stop = threading.Event()

        def watch() -> None:
            while not stop.wait(min(60.0, 6 * minutes)):
                memory.append(resident(process))

        watcher = threading.Thread(target=watch)
        watcher.start()
        answered, crossed = asyncio.run(load(port, endless(), scores, tolerance))
        stop.set()
        watcher.join()
        memory.append(resident(process))
    print(f"soak of {minutes:g} minutes: {sent} requests sent, {sent - answered} lost, {crossed} crossed")
    print(f"resident memory after warming {memory[0]:.0f} MB, at the end {memory[-1]:.0f} MB")
    print("between:", ", ".join(f"{one:.0f}" for one in memory[1:-1]))


def resident(process: int) -> float:
    """Megabytes of a process, from the system."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def processor(process: int) -> float:
    """Seconds of processor that a process has used; other load on the machine does not count into it."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--rollouts", type=int, default=16, help="responses to one prompt")
    parser.add_argument("--profile", type=int, default=1500, help="tokens of a profile")
    parser.add_argument("--response", type=int, default=64, help="tokens of a response, about")
    parser.add_argument("--soak", type=float, metavar="MINUTES")
    parser.add_argument("--replicas", type=int, nargs="+", metavar="N", help="several servers behind nginx, on a CPU")
    parser.add_argument("--port", type=int, default=8399)
    parser.add_argument("--one-at-a-time", metavar="SPEC", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one_at_a_time:
        one_at_a_time(given.one_at_a_time, given.port)
        return
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = make_classifier(Path(folder), given.shape)
        requests = make_requests(given.requests, given.rollouts, tokenizer, given.profile, given.response)
        lengths = [len(tokenizer(request["responses"][0])["input_ids"]) for request in requests]
        spec = f"classifier:{folder},device={given.device}"
        batched = ["-m", "palate", "serve", "--rm", spec, "--port", str(given.port)]
        single = [__file__, "--one-at-a-time", spec, "--port", str(given.port)]
        print(
            f"{given.shape} on {given.device}: {CLIENTS} clients, {len(requests)} requests of one response of "
            f"{sum(lengths) / len(lengths):.0f} tokens, {given.rollouts} to a prompt, {USERS} users, "
            f"profiles of {given.profile} tokens; {os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}"
        )
        sys.stdout.flush()
        tolerance = TOLERANCE["float32" if given.device == "cpu" else "bfloat16"]
        if given.soak:
            soak(batched, given.port, requests, given.soak, tolerance)
            return
        if given.replicas:
            replicas(["-m", "palate", "serve", "--rm", spec], given.port, given.replicas, requests)
            return
        scores: dict[str, float] = {}
        slow, slow_used, _ = measure(single, given.port, requests, scores, tolerance)
        print(f"one at a time   {slow:8.2f} requests/s    {slow_used:8.4f} s of processor each", flush=True)
        quick, quick_used, together = measure(batched, given.port, requests, scores, tolerance)
        print(f"palate serve    {quick:8.2f} requests/s    {quick_used:8.4f} s of processor each")
        print(f"                {quick / slow:8.1f} times         {slow_used / quick_used:8.1f} times; the same scores")
        print(f"palate serve rated {together:.1f} requests together in the mean")


if __name__ == "__main__":
    main()
