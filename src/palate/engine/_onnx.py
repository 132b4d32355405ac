"""MiniLM in 8-bit numbers on ONNX Runtime: no torch, 23 MB, and four times the texts a second on a processor."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from palate.engine._encoder import average_windows, encodable
from palate.engine._torch import require, require_installed
from palate.engine._vectors import Pair, Vectors, VectorStore, remembered, vectors_folder
from palate.engine._weights import ONNX, folder_fingerprint, weights_folder
from palate.records import PalateError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

WINDOW = 256
"""Tokens, as MiniLM was trained."""
DIMENSIONS = 384
THREADS = os.cpu_count() or 1
"""Each reads a text of its own: several at one small text wait for each other, and spin meanwhile."""


class OnnxEncoder:
    """MiniLM's vectors to within a cosine of about .99, never kept beside those of 32 bits.

    The scale of the 8-bit numbers is taken from all that is read at once, so texts are read one by one: a vector
    depends on its text alone. `benchmarks/onnx_encoder.py` measures the likeness.
    """

    def __init__(self, name: str = ONNX) -> None:
        require_installed("onnxruntime", "onnx")
        self.name = name
        self.dimensions = DIMENSIONS
        self._folder = weights_folder(name)

    @cached_property
    def fingerprint(self) -> str:
        """Of the weights and the tokeniser; no encoder of 32 bits has it."""
        return f"{folder_fingerprint(self._folder)}-onnx"

    @cached_property
    def _store(self) -> VectorStore:
        return VectorStore(vectors_folder() / self.fingerprint)

    @cached_property
    def _session(self) -> InferenceSession:
        runtime = require("onnxruntime", "onnx")
        [file] = self._folder.rglob("*.onnx")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        providers = ["CPUExecutionProvider"]
        try:
            session: InferenceSession = runtime.InferenceSession(str(file), options, providers=providers)
        except Exception as error:
            raise PalateError(f"cannot load an encoder from {file}: {error}") from error
        return session

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer: Tokenizer = require("tokenizers", "onnx").Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        tokenizer.enable_truncation(WINDOW)
        tokenizer.no_padding()
        return tokenizer

    def encode(
        self, texts: Sequence[str], contexts: Sequence[str | None] | None = None, *, keep: bool = True
    ) -> Vectors:
        """One row for each text. Contexts make no difference: these vectors are of the text alone."""
        rows = remembered(self._store, texts, None, self._read, keep=keep)
        return np.stack(rows) if rows else np.zeros((0, DIMENSIONS), np.float32)

    def _read(self, pairs: Sequence[Pair]) -> Vectors:
        windows: list[list[int]] = []
        owners: list[int] = []
        for owner, (text, _) in enumerate(pairs):
            first = self._tokenizer.encode(encodable(text))
            own = [window.ids for window in (first, *first.overflowing)]
            windows += own
            owners += [owner] * len(own)
        session = self._session  # made before the threads are
        with ThreadPoolExecutor(THREADS) as threads:
            vectors = np.stack(list(threads.map(lambda ids: _vector(session, ids), windows)))
        averaged = average_windows(vectors, np.asarray(owners), np.asarray([len(ids) for ids in windows]))
        averaged /= np.maximum(np.linalg.norm(averaged, axis=1, keepdims=True), 1e-12)
        return averaged


def _vector(session: InferenceSession, ids: Sequence[int]) -> Vectors:
    """Of one window; special tokens count, as in MiniLM's own pooling."""
    tokens = np.asarray([ids], np.int64)
    fed = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
    states: Vectors = session.run(["last_hidden_state"], fed)[0][0]
    vector: Vectors = states.mean(axis=0)
    vector /= np.linalg.norm(vector)
    return vector
