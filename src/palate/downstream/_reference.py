"""The critic `reference`: how much is a text like the one that the user really wrote, or preferred?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np

from palate.engine import TextEncoder, load_encoder, require
from palate.records import Comparison, Completion, Draft, Grade, PalateError, unknown_name

MEASURES = ("rouge1", "rougeL", "chrf", "embedding")
"""F-measures of single words and of the longest common run of words; of letters; and the cosine of two vectors."""
WITHOUT = "none"


def reference_of(item: Comparison | Completion) -> str | None:
    """What the user really wrote, or the response that they preferred; None where neither is known."""
    return item.chosen if isinstance(item, Comparison) else item.text


class ReferenceCritic:
    """Likeness to the reference by several measures, one of which is the score; all lie between 0 and 1 or so.

    `encoder=none` leaves the embedding out, for machines without torch.
    """

    def __init__(self, measure: str = "rouge1", *, encoder: str = "minilm", backend: str = "torch") -> None:
        if measure not in MEASURES:
            raise unknown_name("measure", measure, MEASURES, hint="(in reference:MEASURE)")
        if measure == "embedding" and encoder == WITHOUT:
            raise PalateError("reference:embedding,encoder=none: the embedding needs an encoder, such as minilm")
        self.name = f"reference:{measure}"
        self._measure = measure
        self._encoder_name = encoder if backend == "torch" else f"{encoder},backend={backend}"
        self._words_of = require("rouge_score.tokenizers", "downstream").DefaultTokenizer(use_stemmer=False)
        scorer = require("rouge_score.rouge_scorer", "downstream").RougeScorer
        self._rouge = scorer(["rouge1", "rougeL"], tokenizer=self._words_of)
        self._chrf = require("sacrebleu.metrics", "downstream").CHRF()

    @cached_property
    def _encoder(self) -> TextEncoder | None:
        return None if self._encoder_name == WITHOUT else load_encoder(self._encoder_name)

    @property
    def fingerprint(self) -> str:
        """The measure, the versions of the libraries, and the encoder."""
        encoder = self._encoder.fingerprint if self._encoder else WITHOUT
        return f"{self.name}-{version('rouge-score')}-{version('sacrebleu')}-{encoder}"

    def require(self, items: Sequence[Comparison | Completion]) -> None:
        """Without a reference there is nothing to be like."""
        if not any(reference_of(item) for item in items):
            raise PalateError(
                f"the critic {self.name} compares with what the user really wrote, and none of the {len(items)} items "
                "says it; use a benchmark with comparisons or completed texts (squality, acl-titles) or another critic"
            )

    def judge(self, drafts: Sequence[Draft]) -> list[Grade]:
        """Every measure of every draft that has a reference."""
        references = [reference_of(draft.item) for draft in drafts]
        pairs = [(draft.text, one) for draft, one in zip(drafts, references, strict=True) if one]
        likeness = iter(self._likeness(pairs))
        return [
            self._mark(self._words(draft.text, one) | next(likeness))
            if one
            else Grade(unscored="the item has no reference: nothing that the user wrote or preferred")
            for draft, one in zip(drafts, references, strict=True)
        ]

    def _mark(self, parts: dict[str, float]) -> Grade:
        if self._measure in parts:
            return Grade(score=parts[self._measure], parts=parts)
        return Grade(unscored="the reference has no word in Latin letters or digits, which is all that ROUGE reads")

    def _words(self, text: str, reference: str) -> dict[str, float]:
        parts = {"chrf": float(self._chrf.sentence_score(text, [reference]).score) / 100}
        if self._words_of.tokenize(reference):
            found: dict[str, Any] = self._rouge.score(reference, text)
            parts |= {measure: float(found[measure].fmeasure) for measure in ("rouge1", "rougeL")}
        return {measure: parts[measure] for measure in MEASURES if measure in parts}

    def _likeness(self, pairs: Sequence[tuple[str, str]]) -> list[dict[str, float]]:
        """The cosine of the two vectors of each pair."""
        if self._encoder is None or not pairs:
            return [{} for _ in pairs]
        one, other = (self._encoder.encode([pair[side] for pair in pairs]).astype(np.float64) for side in (0, 1))
        lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        cosines = (one * other).sum(axis=1) / np.maximum(lengths, 1e-12)
        return [{"embedding": float(cosine)} for cosine in cosines]
