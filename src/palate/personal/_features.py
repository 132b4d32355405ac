"""What a personal model reads of a response: frozen features, standardised on the texts it was trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from palate.engine import TextEncoder, load_encoder
from palate.records import PalateError

Rows = NDArray[np.float32]

POSITION = "position"
"""Where the person saw the response: a habit, not a taste. For data that recorded it."""


class Features:
    """Encoders side by side, as in `minilm+traits`; `smollm2:12` is the twelfth layer of a language model and
    `minilm:all` the layers of an encoder side by side, which tell more of a text's style than the last one.

    Every column is standardised on the training texts, and every encoder's block then scaled so that its
    columns together weigh as much as one: a wide encoder does not drown a narrow one.
    """

    def __init__(self, name: str = "minilm+traits") -> None:
        self.name = name
        self._blocks = [block.strip() for block in name.split("+")]
        if len(set(self._blocks)) < len(self._blocks):
            raise PalateError(f"the features {name!r} name an encoder twice")
        self._centre: Rows | None = None
        self._scale: Rows | None = None

    @cached_property
    def _encoders(self) -> dict[str, TextEncoder | None]:
        return {block: None if block == POSITION else _encoder(block) for block in self._blocks}

    @cached_property
    def fingerprint(self) -> str:
        """Changes with anything that could change a feature, the standardisation left out."""
        known = [POSITION if encoder is None else encoder.fingerprint for encoder in self._encoders.values()]
        return hashlib.sha256("\x00".join(known).encode()).hexdigest()

    @cached_property
    def blocks(self) -> dict[str, slice]:
        """The columns of each encoder, by its name."""
        found: dict[str, slice] = {}
        start = 0
        for name, encoder in self._encoders.items():
            width = 2 if encoder is None else encoder.dimensions
            found[name] = slice(start, start + width)
            start += width
        return found

    @property
    def dimensions(self) -> int:
        """How many columns there are."""
        return int(max(block.stop for block in self.blocks.values()))

    def read(self, prompts: Sequence[str], responses: Sequence[str], places: Sequence[int | None]) -> Rows:
        """The raw features of each response, as its encoders give them."""
        blocks = []
        for name, encoder in self._encoders.items():
            if encoder is None:
                block = np.array([_position(place) for place in places], np.float32).reshape(-1, 2)
            else:
                block = encoder.encode(list(responses), contexts=list(prompts))
            blocks.append(_finite(block.reshape(len(responses), -1), name, responses))
        return np.concatenate(blocks, axis=1)

    def _standard(self, raw: Rows) -> tuple[Rows, Rows]:
        """The centre and scale of each column over the texts of the training data."""
        centre = raw.mean(axis=0)
        spread = raw.std(axis=0)
        scale = np.zeros_like(spread)
        np.divide(1.0, spread, out=scale, where=spread > 1e-6)
        for block in self.blocks.values():
            scale[block] /= np.sqrt(max(1, block.stop - block.start))
        return centre, scale

    def rows(self, prompts: Sequence[str], responses: Sequence[str], places: Sequence[int | None]) -> Rows:
        """Standardised features; the first texts ever seen decide the standard."""
        if not responses:
            return np.zeros((0, self.dimensions), np.float32)
        raw = self.read(prompts, responses, places)
        if self._centre is None or self._scale is None:
            self._centre, self._scale = self._standard(raw)
        return ((raw - self._centre) * self._scale).astype(np.float32)

    def tensors(self) -> dict[str, Rows]:
        """What has to be kept with a model."""
        if self._centre is None or self._scale is None:
            return {}
        return {"features.centre": self._centre, "features.scale": self._scale}

    def restore(self, tensors: dict[str, Rows]) -> None:
        """Take up the standard that was kept."""
        self._centre, self._scale = tensors.get("features.centre"), tensors.get("features.scale")


def _encoder(block: str) -> TextEncoder:
    name, colon, layer = block.rpartition(":")
    if layer == "all" and colon:
        return load_encoder(name, layer="all")
    if colon and layer.lstrip("-").isdigit():
        return load_encoder(name, layer=int(layer))
    return load_encoder(block)


def _position(place: int | None) -> tuple[float, float]:
    """Whether it was the first, and how far down it stood; nothing where it was not recorded."""
    return (0.0, 0.0) if place is None else (float(place == 0), float(place))


def _finite(block: Rows, encoder: str, texts: Sequence[str]) -> Rows:
    broken = np.flatnonzero(~np.isfinite(block).all(axis=1))
    if len(broken):
        raise PalateError(
            f"the encoder {encoder!r} gave features that are not finite numbers for {len(broken)} of {len(texts)} "
            f"texts, first for {texts[int(broken[0])][:60]!r}; use another encoder or layer"
        )
    return block
