"""Rewards from what a language model finds likely: likelihood, pmi and DPO's implicit reward."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from palate.engine import Failure, LanguageModel, Likelihood, LikelihoodRequest, Turn, in_process, open_language_model
from palate.records import Ask, PalateError, Rating, View
from palate.rewards._prompts import conversation, fit_view, left_out
from palate.rewards._rate import Candidates, Follower, Following

Likelihoods = list[Likelihood] | Failure


class LikelihoodReward:
    """Log-probability of the response per token, given view and prompt."""

    batch_size = 64
    pointwise = True
    _pmi = False

    def __init__(self, model: str, **options: str) -> None:
        self.name = f"{'pmi' if self._pmi else 'likelihood'}:{model}"
        self._model = _open_local(model, **options)

    @property
    def fingerprint(self) -> str:
        """The model's."""
        return self._model.fingerprint

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """Per token, so that short answers are not favoured."""
        fitted = [fitting(ask, self._model) for ask in asks]
        seen = likelihoods(self._model, [ask for ask, _ in fitted])
        if not self._pmi:
            return [_rating(found, note=note) for found, (_, note) in zip(seen, fitted, strict=True)]
        bare = [msgspec.structs.replace(ask, view=View(name="none")) for ask in asks]
        return [
            _rating(found, minus=without, note=note)
            for found, without, (_, note) in zip(seen, likelihoods(self._model, bare), fitted, strict=True)
        ]

    def follow(self, asks: Sequence[Ask], room: int = 0) -> Follower | None:
        """The same of texts while they are written."""
        fitted = [fitting(ask, self._model, room=room)[0] for ask in asks]
        bare = [msgspec.structs.replace(ask, view=View(name="none")) for ask in asks] if self._pmi else None
        return _following((self._model, fitted), (self._model, bare) if bare else None)


class PmiReward(LikelihoodReward):
    """The same, minus the log-probability without the view: pointwise mutual information.

    It asks what the view changes: a response that is likely for anybody gains nothing by it. Without a view both
    parts are the same and every response gets 0, a tie.
    """

    _pmi = True


class DpoReward:
    """The reward that DPO training leaves in a model: log-probability under it minus under its reference."""

    batch_size = 64
    pointwise = True

    def __init__(self, model: str, *, reference: str, beta: str = "1", **options: str) -> None:
        self.name = f"dpo:{model}"
        try:
            self._beta = float(beta)
        except ValueError:
            raise PalateError(f"option beta={beta}: expected a number") from None
        self._model = _open_local(model, **options)
        self._reference = _open_local(reference, **options)

    @property
    def fingerprint(self) -> str:
        """Both models' and the scale."""
        return f"{self._model.fingerprint}-{self._reference.fingerprint}-{self._beta}"

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """Summed over the whole response, as the derivation has it."""
        fitted = [fitting(ask, self._model, self._reference) for ask in asks]
        tuned = likelihoods(self._model, [ask for ask, _ in fitted])
        before = likelihoods(self._reference, [ask for ask, _ in fitted])
        return [
            _rating(found, minus=other, scale=self._beta, note=note, per_token=False)
            for found, other, (_, note) in zip(tuned, before, fitted, strict=True)
        ]

    def follow(self, asks: Sequence[Ask], room: int = 0) -> Follower | None:
        """The same of texts while they are written."""
        fitted = [fitting(ask, self._model, self._reference, room=room)[0] for ask in asks]
        return _following((self._model, fitted), (self._reference, fitted), scale=self._beta, per_token=False)


def _open_local(model: str, **options: str) -> LanguageModel:
    if "url" in options:
        raise PalateError("a chat server does not tell how likely a given text is; run the model here, without url=")
    return open_language_model(model, **options)


def fitting(ask: Ask, *models: LanguageModel, room: int = 0) -> tuple[Ask, str | None]:
    """As much of the view as leaves room for the longest response, and more, in every model's context.

    A response is counted as a turn of its own, a few tokens more than it takes as an answer.
    """
    fitted = ask
    for model in models:
        longest = max((model.count_tokens((Turn("user", text),)) or 0 for text in ask.responses), default=0)

        def tokens(one: Ask, model: LanguageModel = model, longest: int = longest) -> int | None:
            counted = model.count_tokens(conversation(one))
            return None if counted is None else counted + longest + room

        fitted, _ = fit_view(fitted, tokens, model.context)
    return fitted, left_out(ask, fitted)


def likelihoods(model: LanguageModel, asks: Sequence[Ask]) -> list[Likelihoods]:
    """How likely each response is after view and prompt."""
    return model.likelihood([LikelihoodRequest(turns=conversation(ask), continuations=ask.responses) for ask in asks])


def _following(
    one: tuple[LanguageModel, Sequence[Ask]],
    other: tuple[LanguageModel, Sequence[Ask]] | None,
    *,
    scale: float = 1.0,
    per_token: bool = True,
) -> Follower | None:
    """What one model finds likely, less what another does, for texts while they are written."""
    followers = []
    for model, asks in filter(None, (one, other)):
        inner = in_process(model)
        found = inner.follow([conversation(ask) for ask in asks]) if inner is not None else None
        if found is None:
            return None
        followers.append(found)

    def scores(candidates: Candidates) -> dict[int, list[float] | Failure]:
        seen = followers[0].score(candidates)
        without = followers[1].score(candidates) if other else {}
        return {
            place: _scores(found, without.get(place), scale=scale, per_token=per_token) for place, found in seen.items()
        }

    return Following(scores)


def _rating(
    found: Likelihoods,
    *,
    minus: Likelihoods | None = None,
    scale: float = 1.0,
    note: str | None = None,
    per_token: bool = True,
) -> Rating:
    scores = _scores(found, minus, scale=scale, per_token=per_token)
    return Rating(unscored=scores.reason) if isinstance(scores, Failure) else Rating(scores, note=note)


def _scores(
    found: Likelihoods, minus: Likelihoods | None, *, scale: float = 1.0, per_token: bool = True
) -> list[float] | Failure:
    if isinstance(found, Failure):
        return found
    if isinstance(minus, Failure):
        return minus
    scores = []
    for index, likelihood in enumerate(found):
        total = likelihood.total - (minus[index].total if minus else 0.0)
        scores.append(scale * total / max(1, likelihood.tokens) if per_token else scale * total)
    return scores
