"""A reward from likeness: how near is a response to what this user wrote, chose or asked for?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from palate.engine import Vectors, load_encoder
from palate.records import Ask, PartKind, Rating, View, unknown_name
from palate.rewards._rate import Candidates, Follower, FunctionFollower

Likeness = Callable[[Vectors], np.ndarray]
"""How near each of some responses is to what a view shows."""
Rater = Callable[[Vectors], Rating]
"""What an ask makes of the vectors of responses."""

REMEMBERED = 2**15
"""Pieces of texts whose vectors are held in memory: some 50 MB."""

PROFILE_WEIGHT = 1.0
"""What likeness to each kind of thing in a view counts, where likeness to the prompt counts 1.

Fixed beforehand on `mini` and on simulated users by `benchmarks/embedding_weights.py`, and on nothing else.
"""


class EmbeddingReward:
    """Likeness to the prompt, whatever the view, plus the weighted likeness to each kind of thing that it shows.

    `to` narrows what of the view is read: `posts` (the most similar post), `judgements` (past chosen minus past
    rejected responses), `reasons` (written reasons), `aspects` (the true rubric, in the oracle view), `traits`
    (demographics and values), or `all`. No score depends on the other responses of its ask.
    """

    batch_size = 64

    def __init__(self, to: str = "all", encoder: str = "minilm", backend: str = "torch") -> None:
        encoder += "" if backend == "torch" else f",backend={backend}"
        self._likenesses: dict[str, Callable[[View], Likeness | None]] = {
            "posts": lambda view: self._to_words(view, "post", over=np.max),
            "judgements": self._to_judgements,
            "reasons": self._to_reasons,
            "aspects": lambda view: self._to_words(view, "aspect"),
            "traits": lambda view: self._to_words(view, "demographics", "values"),
        }
        if to not in ("all", *self._likenesses):
            raise unknown_name("likeness for embedding", to, ["all", *self._likenesses])
        self.name = "embedding" + (f":{to}" if to != "all" else "")
        if encoder != "minilm":
            self.name += f",encoder={encoder}"
        self._to = tuple(self._likenesses) if to == "all" else (to,)
        self._encoder = load_encoder(encoder)
        self._passing: dict[str, Vectors] = {}

    @property
    def fingerprint(self) -> str:
        """The encoder's, with the weight: nothing else decides a score."""
        return f"{self._encoder.fingerprint}-{PROFILE_WEIGHT:g}"

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """Encode every text of all asks at once, then compare."""
        self._encoder.encode([text for ask in asks for text in _texts(ask)])
        return [self._rater(ask)(self._encoder.encode(ask.responses)) for ask in asks]

    def follow(self, asks: Sequence[Ask], room: int = 0) -> Follower:
        """The same of texts while they are written; pieces of texts leave no vectors on the disk."""
        bare = [msgspec.structs.replace(ask, responses=()) for ask in asks]
        self._encoder.encode([text for ask in bare for text in _texts(ask)])
        raters = [self._rater(ask) for ask in bare]

        def rate_candidates(candidates: Candidates) -> dict[int, Rating]:
            """All candidates of a step are encoded at once, each distinct text once."""
            vectors = self._passed([text for own in candidates.values() for text in own])
            return {
                place: raters[place](np.stack([vectors[text] for text in own])) for place, own in candidates.items()
            }

        return FunctionFollower(rate_candidates)

    def _passed(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """The vectors of pieces of texts. Those of late are remembered: every view and weight begins with the same, and
        what was chosen at one step is at the next what the answer would be if it ended there."""
        new = [text for text in dict.fromkeys(texts) if text not in self._passing]
        found = {text: self._passing[text] for text in texts if text in self._passing}
        if new:
            found.update(zip(new, self._encoder.encode(new, keep=False), strict=True))
        if len(self._passing) + len(new) > REMEMBERED:
            self._passing.clear()
        self._passing.update((text, found[text]) for text in new)
        return found

    def _rater(self, ask: Ask) -> Rater:
        """What the responses are compared with is encoded here, once."""
        [prompt] = self._encoder.encode([ask.prompt])
        shown = [likeness for kind in self._to if (likeness := self._likenesses[kind](ask.view)) is not None]
        note = None if shown or ask.view.name == "none" else f"impersonal: the view shows no {' or '.join(self._to)}"

        def rating(responses: Vectors) -> Rating:
            profile = sum(likeness(responses) for likeness in shown)
            return Rating((responses @ prompt + PROFILE_WEIGHT * profile).tolist(), note=note)

        return rating

    def _to_words(self, view: View, *kinds: PartKind, over: Callable[..., np.ndarray] = np.mean) -> Likeness | None:
        return self._likeness([part.words for kind in kinds for part in view.of_kind(kind)], over)

    def _to_judgements(self, view: View) -> Likeness | None:
        judged = [part.judgement for part in view.of_kind("judgement") if part.judgement]
        chosen = self._likeness([judgement.chosen for judgement in judged], np.mean)
        rejected = self._likeness([text for j in judged for text in j.rejected], np.mean)
        if chosen is None or rejected is None:
            return chosen
        return lambda responses: chosen(responses) - rejected(responses)

    def _to_reasons(self, view: View) -> Likeness | None:
        judged = (part.judgement for part in view.of_kind("judgement"))
        return self._likeness([judgement.reason for judgement in judged if judgement and judgement.reason], np.mean)

    def _likeness(self, texts: Sequence[str], over: Callable[..., np.ndarray]) -> Likeness | None:
        if not texts:
            return None
        vectors = self._encoder.encode(texts)
        return lambda responses: over(responses @ vectors.T, axis=1)


def _texts(ask: Ask) -> list[str]:
    texts = [ask.prompt, *ask.responses]
    for part in ask.view.parts:
        if part.judgement is None:
            texts.append(part.words)
        else:
            texts += [*part.judgement.responses, part.judgement.reason or part.judgement.chosen]
    return texts
