"""A reward from likeness: how near is a response to what this user wrote, chose or asked for?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from palate.engine import Vectors, load_encoder
from palate.records import Ask, Rating, View, unknown_name

Likeness = Callable[[Vectors, View], "np.ndarray | None"]


class EmbeddingReward:
    """Sums the likenesses that the view allows; with nothing to go by, likeness to the prompt.

    `to` narrows it: `posts` (the most similar post), `judgements` (past chosen minus past rejected
    responses), `reasons` (written reasons), `aspects` (the true rubric, in the oracle view),
    `traits` (demographics and values), or `all`.
    """

    batch_size = 64

    def __init__(self, *, to: str = "all", encoder: str = "minilm") -> None:
        self._likenesses: dict[str, Likeness] = {
            "posts": self._to_posts,
            "judgements": self._to_judgements,
            "reasons": self._to_reasons,
            "aspects": self._to_aspects,
            "traits": self._to_traits,
        }
        if to not in ("all", *self._likenesses):
            raise unknown_name("likeness for embedding", to, ["all", *self._likenesses])
        self.name = "embedding" + (f":{to}" if to != "all" else "")
        if encoder != "minilm":
            self.name += f",encoder={encoder}"
        self._to = tuple(self._likenesses) if to == "all" else (to,)
        self._encoder = load_encoder(encoder)

    @property
    def fingerprint(self) -> str:
        """The encoder's, since nothing else is learned."""
        return self._encoder.fingerprint

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """Encode every text of all asks at once, then compare."""
        self._encoder.encode([text for ask in asks for text in _texts(ask)])
        return [self._rate(ask) for ask in asks]

    def _rate(self, ask: Ask) -> Rating:
        responses = self._encoder.encode(ask.responses)
        found = [self._likenesses[kind](responses, ask.view) for kind in self._to]
        likenesses = [likeness for likeness in found if likeness is not None]
        if likenesses:
            return Rating(np.sum(likenesses, axis=0).tolist())
        scores = (responses @ self._encoder.encode([ask.prompt])[0]).tolist()
        note = f"impersonal: the view shows no {' or '.join(self._to)}" if ask.view.parts else None
        return Rating(scores, note=note)

    def _to_posts(self, responses: Vectors, view: View) -> np.ndarray | None:
        return self._likeness(responses, [part.words for part in view.of_kind("post")], np.max)

    def _to_judgements(self, responses: Vectors, view: View) -> np.ndarray | None:
        judged = [part.judgement for part in view.of_kind("judgement") if part.judgement]
        chosen = self._likeness(responses, [judgement.chosen for judgement in judged], np.mean)
        rejected = self._likeness(responses, [text for j in judged for text in j.rejected], np.mean)
        return chosen if chosen is None or rejected is None else chosen - rejected

    def _to_reasons(self, responses: Vectors, view: View) -> np.ndarray | None:
        judged = (part.judgement for part in view.of_kind("judgement"))
        reasons = [judgement.reason for judgement in judged if judgement and judgement.reason]
        return self._likeness(responses, reasons, np.mean)

    def _to_aspects(self, responses: Vectors, view: View) -> np.ndarray | None:
        return self._likeness(responses, [part.words for part in view.of_kind("aspect")], np.mean)

    def _to_traits(self, responses: Vectors, view: View) -> np.ndarray | None:
        texts = [part.words for part in (*view.of_kind("demographics"), *view.of_kind("values"))]
        return self._likeness(responses, texts, np.mean)

    def _likeness(self, responses: Vectors, texts: Sequence[str], over: Callable[..., np.ndarray]) -> np.ndarray | None:
        return over(responses @ self._encoder.encode(texts).T, axis=1) if texts else None


def _texts(ask: Ask) -> list[str]:
    texts = [ask.prompt, *ask.responses]
    for part in ask.view.parts:
        if part.judgement is None:
            texts.append(part.words)
        else:
            texts += [*part.judgement.responses, part.judgement.reason or part.judgement.chosen]
    return texts
