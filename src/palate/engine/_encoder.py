"""Text encoders: texts in, vectors out. Which kind a name means is decided by what lies in its folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

import numpy as np

from palate.engine._meter import count, loading
from palate.engine._torch import (
    check_device,
    quiet_transformers,
    require,
    require_installed,
    steady_attention,
    wanted_device,
)
from palate.engine._vectors import Pair, Vectors, VectorStore, remembered, vectors_folder
from palate.engine._weights import BACKEND, ONNX, folder_fingerprint, weights_folder
from palate.records import PalateError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

TOKENS_A_BATCH = {"cpu": 1_024}
"""On a processor, batches that fit into its cache: MiniLM reads a quarter more texts a second than with 8,192."""
TOKENS_ELSEWHERE = 8_192


Layer = int | Literal["all"] | None
"""One layer by its number, several side by side, or the encoder's own choice."""


class TextEncoder(Protocol):
    """Turns texts into vectors that depend on the text, its context and the encoder, and on nothing else."""

    @property
    def name(self) -> str:
        """As it was asked for."""

    @property
    def fingerprint(self) -> str:
        """Changes with whatever could change a vector."""

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""

    def encode(
        self, texts: Sequence[str], contexts: Sequence[str | None] | None = None, *, keep: bool = True
    ) -> Vectors:
        """One row for each text, read after its context by encoders that take one into account.

        Vectors are kept on disk where that saves reading a text again; `keep=False` for texts that never come again.
        """


class SentenceEncoder:
    """A sentence-transformers model whose vectors do not depend on what else is encoded.

    Texts longer than the model's window are read window by window and averaged, so no word is cut.
    Likeness is the dot product, which is the cosine for models that normalise (MiniLM does).
    """

    def __init__(self, name: str, *, layers: bool = False) -> None:
        self.name = name
        self._folder = weights_folder(name)
        self._layers = layers
        """Whether to give its layers side by side, each averaged over the tokens, instead of its own vector."""

    @cached_property
    def fingerprint(self) -> str:
        """Changes with anything in the folder that could change a vector."""
        return folder_fingerprint(self._folder) + ("-all" if self._layers else "")

    @cached_property
    def dimensions(self) -> int:
        """How many numbers a vector has; the model is asked only if no vector is kept yet."""
        if self._store.dimensions:
            return self._store.dimensions
        if self._layers:
            config = self._body.config
            return len(spread_layers(config.num_hidden_layers)) * int(config.hidden_size)
        return int(self._model.get_embedding_dimension() or 0)

    @cached_property
    def _store(self) -> VectorStore:
        return VectorStore(vectors_folder() / self.fingerprint)

    @cached_property
    def _model(self) -> SentenceTransformer:
        with loading():  # with the packages: to import them takes longer than to read the weights
            library = require("sentence_transformers", "local")
            quiet_transformers()
            device = wanted_device()  # None: the library's choice, a GPU where there is one
            if device:
                check_device(device)
            try:
                model: SentenceTransformer = library.SentenceTransformer(
                    str(self._folder), local_files_only=True, device=device
                )
            except Exception as error:
                raise PalateError(f"cannot load an encoder from {self._folder}: {error}") from error
        return model.eval()

    def encode(
        self, texts: Sequence[str], contexts: Sequence[str | None] | None = None, *, keep: bool = True
    ) -> Vectors:
        """One row for each text. Contexts make no difference: these vectors are of the text alone."""
        rows = remembered(self._store, texts, None, self._read, keep=keep)
        return np.stack(rows) if rows else np.zeros((0, self.dimensions), np.float32)

    def _read(self, pairs: Sequence[Pair]) -> Vectors:
        model = self._model
        torch = require("torch", "local")
        windows = model.tokenizer(
            [encodable(text) for text, _ in pairs],
            truncation=True,
            max_length=model.max_seq_length,
            return_overflowing_tokens=True,
            padding=False,
        )
        owners = np.asarray(windows["overflow_to_sample_mapping"])
        lengths = np.asarray([len(ids) for ids in windows["input_ids"]])
        count(prompt_tokens=int(lengths.sum()), remembered=True)
        rows: list[Vectors | None] = [None] * len(owners)
        most_tokens = TOKENS_A_BATCH.get(model.device.type, TOKENS_ELSEWHERE)
        for batch in batches_of_like_length(lengths, most_tokens):
            kept = {key: [windows[key][i] for i in batch] for key in ("input_ids", "attention_mask")}
            features = model.tokenizer.pad(kept, return_tensors="pt").to(model.device)
            with torch.inference_mode(), steady_attention():
                read = self._every_layer(features) if self._layers else model(dict(features))["sentence_embedding"]
            vectors = read.float().cpu().numpy()
            for position, vector in zip(batch, vectors, strict=True):
                rows[position] = vector
        found = np.stack([row for row in rows if row is not None])
        averaged = average_windows(found, owners, lengths)
        if not self._layers and np.allclose(
            np.linalg.norm(found, axis=1), 1, atol=1e-3
        ):  # the model normalises, and an average is shorter
            averaged /= np.maximum(np.linalg.norm(averaged, axis=1, keepdims=True), 1e-12)
        return averaged

    @property
    def _body(self) -> Any:
        """The transformer itself, below what makes a sentence of its tokens."""
        return self._model[0].auto_model

    def _every_layer(self, features: Any) -> Any:
        torch = require("torch", "local")
        states = self._body(**features, output_hidden_states=True).hidden_states
        joined = torch.cat([states[layer] for layer in spread_layers(len(states) - 1)], dim=-1)
        mask = features["attention_mask"][..., None].to(joined.dtype)
        return (joined * mask).sum(1) / mask.sum(1)


def spread_layers(depth: int) -> list[int]:
    """Seven layers from the embeddings (0) to the last, evenly spread; all of them where there are fewer.

    >>> spread_layers(6), spread_layers(30)
    ([0, 1, 2, 3, 4, 5, 6], [0, 5, 10, 15, 20, 25, 30])
    """
    return [int(layer) for layer in np.unique(np.linspace(0, depth, 7).round())]


def average_windows(vectors: Vectors, owners: np.ndarray, lengths: np.ndarray) -> Vectors:
    """One vector for each text from those of its windows, weighted by how many tokens each has."""
    sums = np.zeros((int(owners.max()) + 1, vectors.shape[1]))
    np.add.at(sums, owners, vectors * lengths[:, None])
    return (sums / np.bincount(owners, lengths)[:, None]).astype(np.float32)


def batches_of_like_length(lengths: np.ndarray, most_tokens: int) -> list[list[int]]:
    """Longest first, so that little is padding and the largest batch is met at once."""
    batches: list[list[int]] = []
    room = 0
    for index in np.argsort(-lengths, kind="stable").tolist():
        if room < 1:
            batches.append([])
            room = max(1, most_tokens // int(lengths[index]))
        batches[-1].append(index)
        room -= 1
    return batches


def encodable(text: str) -> str:
    """The text with what no tokeniser takes replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")


def token_counter(name: str) -> Callable[[str], int]:
    """What counts the tokens of a text for an encoder, special ones left out; its weights are not loaded for that."""
    tokenizers = require("tokenizers", "local")
    tokenizer = tokenizers.Tokenizer.from_file(str(weights_folder(name) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(encodable(text), add_special_tokens=False))


@overload
def load_encoder(name: Literal["minilm", "contriever"]) -> SentenceEncoder: ...
@overload
def load_encoder(name: str, layer: Layer = None) -> TextEncoder: ...
def load_encoder(name: str, layer: Layer = None) -> TextEncoder:
    """An encoder by built-in name (`minilm`, `contriever`, `smollm2`, `traits`), hub name or local folder.

    A sentence encoder gives its own vectors, a causal language model the hidden states of one `layer`, counted
    from 1, or from the end with -1 (by default about two thirds deep). `layer="all"` gives several layers of either
    side by side: what a text is like is often better told by the middle ones. `traits` needs no weights, nor torch.
    `minilm,backend=onnx` reads MiniLM in 8-bit numbers without torch; its vectors are near those of `minilm`.
    """
    folder = Path(name)
    return _load(name.removesuffix(f"{BACKEND}torch"), layer, folder_fingerprint(folder) if folder.is_dir() else "")


@lru_cache(maxsize=4)
def _load(name: str, layer: Layer, files: str) -> TextEncoder:
    if name == "traits":
        from palate.engine._traits import TraitEncoder

        _refuse_layer(name, layer, "has no layers")
        return TraitEncoder()
    if BACKEND in name:
        if name != ONNX:
            raise PalateError(f"{name}: the backend is torch or onnx, and onnx is for minilm alone: {ONNX}")
        from palate.engine._onnx import OnnxEncoder

        _refuse_layer(name, layer, "gives its own vector only")
        return OnnxEncoder()
    require_installed("sentence_transformers", "local")
    if _looks_both_ways(name, weights_folder(name)):
        if layer == "all":
            return SentenceEncoder(name, layers=True)
        _refuse_layer(name, layer, "is a sentence encoder: leave layer out, or take several with layer=all")
        return SentenceEncoder(name)
    from palate.engine._hidden_states import HiddenStateEncoder

    return HiddenStateEncoder(name, layer)


def _refuse_layer(name: str, layer: Layer, why: str) -> None:
    if layer is not None:
        raise PalateError(f"layer={layer}: {name} {why}; a single one can be had of causal language models only")


def _looks_both_ways(name: str, folder: Path) -> bool:
    """Whether the folder holds a sentence encoder (or a plain one, to be mean-pooled) rather than a causal model."""
    if (folder / "modules.json").is_file():
        return True
    from transformers.models.auto import modeling_auto as known

    config = _config(folder)
    kind, heads = config.get("model_type"), config.get("architectures") or []
    if not config.get("is_encoder_decoder"):
        causal_head = any(head.endswith(("ForCausalLM", "LMHeadModel")) for head in heads)
        if kind in known.MODEL_FOR_MASKED_LM_MAPPING_NAMES and not causal_head:
            return True
        if kind in known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
            return False
    what = f"a model of the type {kind!r} ({', '.join(heads) or 'no architecture named'})" if kind else "no model"
    raise PalateError(
        f"cannot load an encoder from {folder}: it holds {what}. {name!r} should be a sentence-transformers model "
        "(with modules.json), a BERT-like encoder or a causal language model, each with its config.json."
    )


def _config(folder: Path) -> dict[str, Any]:
    file = folder / "config.json"
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PalateError(f"cannot read {file}: {error}") from error
    return found if isinstance(found, dict) else {}
