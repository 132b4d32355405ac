"""What a personal model reads of a response: frozen features, standardised on the texts it was trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.engine import TextEncoder, load_encoder
from palate.records import PalateError

Rows = NDArray[np.float32]

POSITION = "position"
"""Where the person saw the response: a habit, not a taste. For data that recorded it."""
EDGES = ("features.low", "features.high")
USUAL = 3
"""Deviations from the mean within which a feature is taken as it is, however few texts there were to train on."""


class Standard(NamedTuple):
    """Of each column over the texts of the training data: the mean, what gives it its weight, and its edges."""

    centre: Rows
    scale: Rows
    low: Rows
    high: Rows


class Features:
    """Encoders side by side, as in `minilm+traits`; `smollm2:12` is the twelfth layer of a language model and
    `minilm:all` the layers of an encoder side by side, which tell more of a text's style than the last one.

    Every column is standardised on the training texts, and every encoder's block then scaled so that its
    columns together weigh as much as one: a wide encoder does not drown a narrow one.

    Nothing was learned of values beyond all that the training texts had. In a response such a value is taken at the
    edge, the next whole deviation beyond them, so that no single feature of an odd text, which a policy that is paid
    by the model would find, outweighs all others. Whole deviations are no text's own value: a model that is handed
    on does not give one away.
    """

    def __init__(self, name: str = "minilm+traits") -> None:
        self.name = name
        self._blocks = [block.strip() for block in name.split("+")]
        if len(set(self._blocks)) < len(self._blocks):
            raise PalateError(f"the features {name!r} name an encoder twice")
        self._standard: Standard | None = None

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

    def _standard_of(self, raw: Rows) -> Standard:
        centre = raw.mean(axis=0)
        spread = raw.std(axis=0)
        scale = np.zeros_like(spread)
        np.divide(1.0, spread, out=scale, where=spread > 1e-6)
        for block in self.blocks.values():
            scale[block] /= np.sqrt(max(1, block.stop - block.start))
        below = _whole_deviations(centre - raw.min(axis=0), spread)
        above = _whole_deviations(raw.max(axis=0) - centre, spread)
        return Standard(centre, scale, centre - below * spread, centre + above * spread)

    def rows(self, prompts: Sequence[str], responses: Sequence[str], places: Sequence[int | None]) -> Rows:
        """Standardised features of responses; the first ever seen decide the standard."""
        return self._rows(prompts, responses, places, edges=True)

    def rows_of_posts(self, posts: Sequence[str]) -> Rows:
        """The same of what users wrote elsewhere, which is of another kind than responses: for it there is no edge."""
        return self._rows([""] * len(posts), posts, [None] * len(posts), edges=False)

    def _rows(self, prompts: Sequence[str], texts: Sequence[str], places: Sequence[int | None], *, edges: bool) -> Rows:
        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        raw = self.read(prompts, texts, places)
        standard = self._standard = self._standard or self._standard_of(raw)
        within = raw.clip(standard.low, standard.high) if edges else raw
        return ((within - standard.centre) * standard.scale).astype(np.float32)

    @property
    def is_damaged(self) -> bool:
        """Whether what was kept of the standard is not that of these encoders."""
        return self._standard is None or any(
            one.shape != (self.dimensions,) or bool(np.isnan(one).any()) for one in self._standard
        )

    def without_edges(self) -> None:
        """For a standard that comes from other texts than those of the training: their edges are not its edges."""
        self.restore({name: rows for name, rows in self.tensors().items() if name not in EDGES})

    def tensors(self) -> dict[str, Rows]:
        """What has to be kept with a model."""
        kept = {} if self._standard is None else self._standard._asdict()
        return {f"features.{name}": rows for name, rows in kept.items()}

    def restore(self, tensors: dict[str, Rows]) -> None:
        """Take up the standard that was kept; models of earlier versions have no edges."""
        self._standard = None
        if "features.centre" in tensors:
            centre, scale = tensors["features.centre"], tensors["features.scale"]
            nowhere = np.full_like(centre, np.inf)
            low, high = (tensors.get(name, other) for name, other in zip(EDGES, (-nowhere, nowhere), strict=True))
            self._standard = Standard(centre, scale, low, high)


def _whole_deviations(reach: Rows, spread: Rows) -> Rows:
    """The next number of deviations beyond a reach, the usual one at least."""
    found = np.zeros_like(spread)
    np.divide(reach, spread, out=found, where=spread > 1e-6)
    whole: Rows = np.maximum(np.floor(found) + 1, USUAL).astype(np.float32)
    return whole


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
