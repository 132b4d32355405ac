"""Tiny real models behind HTTP, in the shapes of the servers that people run. The first word of the path is its kind.

`vllm` answers prompt_logprobs, /classify and /pooling; `sglang` answers /generate; `echo` echoes with logprobs;
`llamacpp` refuses to echo; `silent` ignores what it is asked and tells of its own token only; `cut` leaves out the
last token; `shifted` tells of other tokens; `gaps` leaves out a log-probability; `squashed` tells probabilities only.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TOO_MANY = 400
"""The server's context in tokens, which it never cuts a text to."""


class TokenServer:
    """Answers for one language model and one classifier; remembers which tokens it was sent, in order."""

    def __init__(self, causal: Path, classifier: Path) -> None:
        import transformers

        self.causal = transformers.AutoModelForCausalLM.from_pretrained(causal).eval()
        self.classifier = transformers.AutoModelForSequenceClassification.from_pretrained(classifier).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(causal)
        self.sent: list[list[int]] = []
        self.address = ""
        self._lock = threading.Lock()

    def answer(self, kind: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        with self._lock:
            ids = body.get("prompt") or body.get("input_ids") or body.get("input")
            assert isinstance(ids, list)
            self.sent.append(ids)
            if len(ids) > TOO_MANY:
                return 400, {"error": {"message": f"maximum context length is {TOO_MANY}, and {len(ids)} were sent"}}
            if path == "/v1/completions" and kind != "sglang":
                return self.completions(kind, body, ids)
            if path == "/v1/completions":
                return 200, {"choices": [{"index": 0, "text": "x", "logprobs": None}]}
            if path == "/generate" and kind == "sglang":
                start = body["logprob_start_len"]
                entries = [[number, token, None] for number, token in zip(self.logs(ids), ids, strict=True)][start:]
                return 200, {"text": "", "meta_info": {"input_token_logprobs": [[None, *entries[0][1:]], *entries[1:]]}}
            if path in ("/classify", "/pooling") and kind in ("vllm", "pooling", "squashed", "cut"):
                return self.classify(kind, path, body, ids)
            return 404, {"detail": "Not Found"}

    def completions(self, kind: str, body: dict[str, Any], ids: list[int]) -> tuple[int, Any]:
        choice: dict[str, Any] = {"index": 0, "text": "x", "logprobs": None}
        logs = self.logs(ids)
        if kind == "llamacpp" and body.get("echo"):
            return 400, {
                "error": {"code": 400, "message": "Only no echo is supported", "type": "invalid_request_error"}
            }
        if kind in ("llamacpp", "silent") and body.get("logprobs"):
            choice["logprobs"] = {"content": [{"id": 5, "token": "x", "logprob": -1.0}]}
        if kind == "silent" and body.get("echo"):
            choice["logprobs"] = {"tokens": ["x"], "token_logprobs": [-1.0]}
        if kind in ("vllm", "cut", "shifted", "gaps", "pooling", "squashed") and "prompt_logprobs" in body:
            own = [token + (kind == "shifted") for token in ids]
            places: list[Any] = [
                {str(token): {"logprob": number, "rank": 1}} for token, number in zip(own, logs, strict=True)
            ]
            choice["prompt_logprobs"] = [None, *places[1:]]
            if kind == "gaps":
                places[-1][str(own[-1])]["logprob"] = None
            if kind == "cut":
                choice["prompt_logprobs"].pop()
        if kind == "echo" and body.get("echo"):
            texts = [self.tokenizer.decode([token]) for token in ids]
            choice["logprobs"] = {"tokens": [*texts, "x"], "token_logprobs": [None, *logs[1:], -1.0]}
        return 200, {"choices": [choice], "usage": {"prompt_tokens": len(ids), "completion_tokens": 1}}

    def logs(self, ids: list[int]) -> list[float]:
        import torch

        with torch.inference_mode():
            logs = self.causal(input_ids=torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
        return [0.0, *logs.gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()]

    def classify(self, kind: str, path: str, body: dict[str, Any], ids: list[int]) -> tuple[int, Any]:
        import torch

        if kind == "pooling" and path == "/classify":
            return 404, {"detail": "Not Found"}
        with torch.inference_mode():
            logits = self.classifier(input_ids=torch.tensor([ids])).logits[0]
        if kind == "squashed" or body.get("use_activation", True):
            logits = logits.sigmoid() if len(logits) == 1 else logits.softmax(-1)
        values = logits.tolist()
        entry = {"index": 0, "probs": values, "num_classes": len(values)} if path == "/classify" else {"data": values}
        return 200, {"data": [entry], "usage": {"prompt_tokens": len(ids) - (kind == "cut")}}


@contextmanager
def token_server(causal: Path, classifier: Path) -> Iterator[TokenServer]:
    server = TokenServer(causal, classifier)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

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
