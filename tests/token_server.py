"""Tiny real models behind HTTP, in the shapes of the servers that people run. The first word of the path is its kind.

| kind | answers as |
|---|---|
| `vllm` | vLLM: prompt_logprobs of /v1/completions, /classify, /pooling; texts that are too long are refused |
| `pooling` | a vLLM without /classify |
| `regression` | a vLLM whose classifier was configured as a regression, which has no activation |
| `sglang` | SGLang: input_token_logprobs of /generate, and its own /classify |
| `echo` | OpenAI's old completions, which echo the prompt with logprobs |
| `llamacpp` | llama.cpp, which refuses to echo |
| `silent` | ignores what it is asked and tells of its own token only |
| `cut`, `trimmed` | leave out the last, and the first, token in silence |
| `shifted`, `gaps`, `impossible` | tell of other tokens; leave out a log-probability; give a token none |
| `squashed` | a classifier that tells probabilities only |
| `embedding`, `sglang-embedding` | a vLLM and an SGLang that serve a model of embeddings |
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CONTEXT = 400
"""The server's context in tokens, which it never cuts a text to."""
VLLM = ("vllm", "pooling", "regression", "cut", "trimmed", "shifted", "gaps", "impossible", "squashed")


class TokenServer:
    """Answers for one language model and one classifier; remembers which tokens it was sent, in order."""

    def __init__(self, causal: Path, classifier: Path | None, context: int = CONTEXT) -> None:
        import transformers

        self.causal = transformers.AutoModelForCausalLM.from_pretrained(causal).eval()
        self.classifier: Any = None
        if classifier is not None:
            self.classifier = transformers.AutoModelForSequenceClassification.from_pretrained(classifier).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(causal)
        self.context = context
        self.events: list[tuple[str, list[int]]] = []
        """What `came` and what `left`, in order."""
        self.busy = 0.0
        """Seconds in which the models ran."""
        self.address = ""
        self._lock = threading.Lock()

    @property
    def sent(self) -> list[list[int]]:
        return [ids for what, ids in self.events if what == "came"]

    def answer(self, kind: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        ids = body.get("prompt") or body.get("input_ids") or body.get("input")
        assert isinstance(ids, list)
        self.events.append(("came", ids))
        with self._lock:
            start = time.perf_counter()
            reply = self._reply(kind, path, body, ids)
            self.busy += time.perf_counter() - start
        self.events.append(("left", ids))
        return reply

    def _reply(self, kind: str, path: str, body: dict[str, Any], ids: list[int]) -> tuple[int, Any]:
        if len(ids) + body.get("max_tokens", 0) > self.context:
            return 400, {
                "error": {
                    "message": f"This model's maximum context length is {self.context} tokens. However, you requested "
                    f"{len(ids)} input tokens.",
                    "type": "BadRequestError",
                    "param": "input_tokens",
                    "code": 400,
                }
            }
        if path == "/v1/completions":
            return self._completions(kind, body, ids)
        if path == "/generate" and kind in ("sglang", "trimmed"):
            return self._generate(kind, body, ids)
        if path in ("/classify", "/pooling") and "embedding" in kind:
            return self._embed(kind, path, body, ids)
        if path in ("/classify", "/pooling") and kind in ("vllm", "pooling", "regression", "squashed", "cut", "sglang"):
            return self._classify(kind, path, body, ids)
        return 404, {"detail": "Not Found"}

    def _completions(self, kind: str, body: dict[str, Any], ids: list[int]) -> tuple[int, Any]:
        if kind == "llamacpp" and body.get("echo"):
            return 400, {
                "error": {"code": 400, "message": "Only no echo is supported", "type": "invalid_request_error"}
            }
        choice: dict[str, Any] = {
            "index": 0,
            "text": "x",
            "logprobs": None,
            "finish_reason": "length",
            "stop_reason": None,
            "prompt_logprobs": None,
        }
        if kind in ("llamacpp", "silent") and body.get("logprobs"):
            choice["logprobs"] = {"content": [{"id": 5, "token": "x", "logprob": -1.0}]}
        if kind == "silent" and body.get("echo"):
            choice["logprobs"] = {"tokens": ["x"], "token_logprobs": [-1.0]}
        if kind in VLLM and "prompt_logprobs" in body:
            choice["prompt_logprobs"] = self._prompt_logprobs(kind, ids)
        if kind == "echo" and body.get("echo"):
            texts = [self.tokenizer.decode([token]) for token in ids]
            choice["logprobs"] = {
                "text_offset": [],
                "tokens": [*texts, "x"],
                "token_logprobs": [None, *self.logs(ids)[1:], -1.0],
                "top_logprobs": None,
            }
        return 200, {
            "id": "cmpl-0",
            "object": "text_completion",
            "created": 0,
            "model": body["model"],
            "choices": [choice],
            "usage": {"prompt_tokens": len(ids), "total_tokens": len(ids) + 1, "completion_tokens": 1},
        }

    def _prompt_logprobs(self, kind: str, ids: list[int]) -> list[Any]:
        own = [token + (kind == "shifted") for token in ids]
        places: list[Any] = [
            {str(token): {"logprob": number, "rank": 1, "decoded_token": self.tokenizer.decode([token])}}
            for token, number in zip(own, self.logs(ids), strict=True)
        ]
        if kind in ("gaps", "impossible"):
            places[-1][str(own[-1])]["logprob"] = None if kind == "gaps" else -9999.0
        told = [None, *places[1:]]
        return told[: len(ids) - (kind == "cut")][(kind == "trimmed") :]

    def _generate(self, kind: str, body: dict[str, Any], ids: list[int]) -> tuple[int, Any]:
        start = body["logprob_start_len"]
        read = ids[kind == "trimmed" :]
        entries: list[Any] = [[number, token, None] for number, token in zip(self.logs(read), read, strict=True)][
            start - (kind == "trimmed") :
        ]
        entries[0][0] = None  # there is no saying how likely the first one was
        return 200, {
            "text": "",
            "output_ids": [],
            "meta_info": {
                "id": "0",
                "finish_reason": {"type": "length", "length": 0},
                "prompt_tokens": len(read),
                "completion_tokens": 0,
                "cached_tokens": 0,
                "input_token_logprobs": entries,
                "output_token_logprobs": [],
            },
        }

    def logs(self, ids: list[int]) -> list[float]:
        import torch

        with torch.inference_mode():
            logs = self.causal(input_ids=torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
        return [0.0, *logs.gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()]

    def _classify(self, kind: str, path: str, body: dict[str, Any], ids: list[int]) -> tuple[int, Any]:
        import torch

        if kind == "pooling" and path == "/classify":
            return 404, {"detail": "Not Found"}
        if kind == "sglang" and (path == "/pooling" or "input_ids" not in body):
            return 400, {"error": {"message": "Either text, input_ids or input_embeds should be provided."}}
        with torch.inference_mode():
            logits = self.classifier(input_ids=torch.tensor([ids])).logits[0]
        if kind == "sglang":
            return 200, {"embedding": logits.tolist(), "meta_info": {"id": "0", "prompt_tokens": len(ids)}}
        if "input" not in body:
            return 400, {"error": {"message": "Field required", "param": "input"}}
        if kind == "squashed" or (kind != "regression" and body.get("use_activation", True)):
            logits = logits.sigmoid() if len(logits) == 1 else logits.softmax(-1)
        values = logits.tolist()
        entry: dict[str, Any] = {"index": 0, "object": "pooling", "data": values}
        if path == "/classify":
            entry = {"index": 0, "label": "LABEL_0", "probs": values, "num_classes": len(values)}
        return 200, {
            "id": "classify-0",
            "object": "list",
            "created": 0,
            "model": body["model"],
            "data": [entry],
            "usage": {"prompt_tokens": len(ids) - (kind == "cut"), "total_tokens": len(ids), "completion_tokens": 0},
        }

    def _embed(self, kind: str, path: str, body: dict[str, Any], ids: list[int]) -> tuple[int, Any]:
        import torch

        with torch.inference_mode():
            vector = self.causal.model(input_ids=torch.tensor([ids])).last_hidden_state[0, -1]
        if kind == "sglang-embedding":
            if "input_ids" not in body:
                return 400, {"error": {"message": "Either text, input_ids or input_embeds should be provided."}}
            unit = (vector / vector.norm()).tolist()
            return 200, {"embedding": unit, "meta_info": {"id": "0", "prompt_tokens": len(ids)}}
        if path == "/classify":
            return 404, {"detail": "Not Found"}
        if body.get("use_activation", True):
            vector = vector / vector.norm()
        return 200, {"data": [{"index": 0, "data": vector.tolist()}], "usage": {"prompt_tokens": len(ids)}}


@contextmanager
def token_server(causal: Path, classifier: Path | None = None, context: int = CONTEXT) -> Iterator[TokenServer]:
    server = TokenServer(causal, classifier, context)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            kind, _, path = self.path.lstrip("/").partition("/")
            status, reply = server.answer(kind, f"/{path}", body)
            content = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server.address = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
