"""Text encoders: sentences in, vectors out, read once and remembered."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from palate.engine._fingerprint import folder_fingerprint
from palate.engine._optional import require
from palate.engine._vectors import VectorCache, Vectors
from palate.engine._weights import cache_folder, weights_folder
from palate.records import PalateError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

TOKENS_A_BATCH = 8_192


class Encoder:
    """A sentence-transformers model whose vectors do not depend on what else is encoded.

    Texts longer than the model's window are read window by window and averaged, so no word is cut.
    Likeness is the dot product, which is the cosine for models that normalise (MiniLM does).
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._folder = weights_folder(name)
        self._known: dict[str, Vectors] = {}

    @cached_property
    def fingerprint(self) -> str:
        """Changes with anything in the folder that could change a vector."""
        return folder_fingerprint(self._folder)

    @cached_property
    def _cache(self) -> VectorCache:
        return VectorCache(cache_folder() / "vectors.sqlite", self.fingerprint)

    @cached_property
    def _model(self) -> SentenceTransformer:
        library = require("sentence_transformers", "local")
        _quiet()
        try:
            model: SentenceTransformer = library.SentenceTransformer(str(self._folder), local_files_only=True)
        except Exception as error:
            raise PalateError(f"cannot load an encoder from {self._folder}: {error}") from error
        return model.eval()

    def encode(self, texts: Sequence[str]) -> Vectors:
        """One row for each text."""
        unknown = list(dict.fromkeys(text for text in texts if text not in self._known))
        keys = {text: self._cache.key(text) for text in unknown}
        cached = self._cache.get(list(keys.values()))
        self._known.update((text, cached[key]) for text, key in keys.items() if key in cached)
        new = [text for text in unknown if keys[text] not in cached]
        if new:
            vectors = self._read(new)
            self._known.update(zip(new, vectors, strict=True))
            self._cache.put((keys[text], vector) for text, vector in zip(new, vectors, strict=True))
        return np.stack([self._known[text] for text in texts]) if texts else np.zeros((0, 0), np.float32)

    def count_tokens(self, text: str) -> int:
        """How many tokens the text has for this model, special ones left out."""
        return len(self._model.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def _read(self, texts: Sequence[str]) -> list[Vectors]:
        torch = require("torch", "local")
        model = self._model
        windows = model.tokenizer(
            [_encodable(text) for text in texts],
            truncation=True,
            max_length=model.max_seq_length,
            return_overflowing_tokens=True,
            padding=False,
        )
        owners = np.asarray(windows["overflow_to_sample_mapping"])
        lengths = np.asarray([len(ids) for ids in windows["input_ids"]])
        rows: list[Vectors | None] = [None] * len(owners)
        for batch in _batches_of_like_length(lengths):
            kept = {key: [windows[key][i] for i in batch] for key in ("input_ids", "attention_mask")}
            features = model.tokenizer.pad(kept, return_tensors="pt").to(model.device)
            with torch.inference_mode():
                vectors = model(dict(features))["sentence_embedding"].float().cpu().numpy()
            for position, vector in zip(batch, vectors, strict=True):
                rows[position] = vector
        return _average_windows(np.stack([row for row in rows if row is not None]), owners, lengths)


def _average_windows(vectors: Vectors, owners: np.ndarray, lengths: np.ndarray) -> list[Vectors]:
    averaged = []
    for owner in range(int(owners.max()) + 1):
        own = np.flatnonzero(owners == owner) if len(owners) != owners.max() + 1 else np.array([owner])
        mean = np.average(vectors[own], axis=0, weights=lengths[own]).astype(np.float32)
        if len(own) > 1 and np.allclose(np.linalg.norm(vectors[own], axis=1), 1, atol=1e-3):
            mean /= np.linalg.norm(mean) or 1.0
        averaged.append(mean)
    return averaged


def _batches_of_like_length(lengths: np.ndarray) -> list[list[int]]:
    """Longest first, so that little is padding and the largest batch is met at once."""
    batches: list[list[int]] = []
    room = 0
    for index in np.argsort(-lengths, kind="stable").tolist():
        if room < 1:
            batches.append([])
            room = max(1, TOKENS_A_BATCH // int(lengths[index]))
        batches[-1].append(index)
        room -= 1
    return batches


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _quiet() -> None:
    """The libraries' own progress bars and advice would tear ours apart."""
    logging = require("transformers", "local").utils.logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()


@lru_cache(maxsize=4)
def load_encoder(name: str) -> Encoder:
    """An encoder by built-in name (`minilm`, `contriever`), hub name or local folder."""
    require("sentence_transformers", "local")
    return Encoder(name)
