"""Rewards from what a language model finds likely: likelihood, pmi and DPO's implicit reward."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from palate.engine import Failure, LanguageModel, Likelihood, LikelihoodRequest, Turn, in_process, open_language_model
from palate.records import Ask, PalateError, Rating, View
from palate.rewards._prompts import conversation, fit_view, left_out
from palate.rewards._rate import Candidates, Follower, score_follower

Likelihoods = list[Likelihood] | Failure


class LikelihoodReward:
    """Log-probability of the response given view and prompt, per token so that short answers are not favoured."""

    batch_size = 64
    pointwise = True
    _kind = "likelihood"
    _scale = 1.0
    _per_token = True

    def __init__(self, model: str, **options: str) -> None:
        self.name = f"{self._kind}:{model}"
        self._model = _open(model, **options)
        self._models = [self._model]

    @property
    def fingerprint(self) -> str:
        """The model's."""
        return self._model.fingerprint

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """What the model finds likely, less what the baseline does, where there is one."""
        fitted = [fitting(ask, *self._models) for ask in asks]
        columns = [
            model.likelihood([LikelihoodRequest(turns=conversation(ask), continuations=ask.responses) for ask in own])
            for model, own in self._minuend_and_baseline([ask for ask, _ in fitted])
        ]
        ratings = []
        for (_, note), *row in zip(fitted, *columns, strict=True):
            scores = self._scores(*row)
            ratings.append(Rating(unscored=scores.reason) if isinstance(scores, Failure) else Rating(scores, note=note))
        return ratings

    def follow(self, asks: Sequence[Ask], room: int = 0) -> Follower | None:
        """The same of texts while they are written."""
        followers = []
        for model, own in self._minuend_and_baseline([fitting(ask, *self._models, room=room)[0] for ask in asks]):
            inner = in_process(model)
            follower = inner.follow([conversation(ask) for ask in own]) if inner is not None else None
            if follower is None:
                return None
            followers.append(follower)

        def scores(candidates: Candidates) -> dict[int, list[float] | Failure]:
            columns = [follower.score(candidates) for follower in followers]
            return {place: self._scores(*(column[place] for column in columns)) for place in candidates}

        return score_follower(scores)

    def _minuend_and_baseline(self, asks: Sequence[Ask]) -> list[tuple[LanguageModel, Sequence[Ask]]]:
        """Which models read what: the first is the reward, and a second is taken from it."""
        return [(self._model, asks)]

    def _scores(self, found: Likelihoods, minus: Likelihoods | None = None) -> list[float] | Failure:
        if isinstance(found, Failure):
            return found
        if isinstance(minus, Failure):
            return minus
        scores = []
        for index, likelihood in enumerate(found):
            total = self._scale * (likelihood.total - (minus[index].total if minus else 0.0))
            scores.append(total / max(1, likelihood.tokens) if self._per_token else total)
        return scores


class PmiReward(LikelihoodReward):
    """The same, minus the log-probability without the view: pointwise mutual information.

    It asks what the view changes: a response that is likely for anybody gains nothing by it. Without a view both
    parts are the same and every response gets 0, a tie.
    """

    _kind = "pmi"

    def _minuend_and_baseline(self, asks: Sequence[Ask]) -> list[tuple[LanguageModel, Sequence[Ask]]]:
        bare = [msgspec.structs.replace(ask, view=View(name="none")) for ask in asks]
        return [(self._model, asks), (self._model, bare)]


class DpoReward(LikelihoodReward):
    """The reward that DPO training leaves in a model: log-probability under it minus under its reference.

    Summed over the whole response, as the derivation has it. With `url`, `reference_url` is the reference's server,
    where that is another one.
    """

    _kind = "dpo"
    _per_token = False

    def __init__(
        self, model: str, *, reference: str, beta: str = "1", reference_url: str | None = None, **options: str
    ) -> None:
        try:
            self._scale = float(beta)
        except ValueError:
            raise PalateError(f"option beta={beta}: expected a number") from None
        super().__init__(model, **options)
        if reference_url is not None:
            options["url"] = reference_url
        self._reference = _open(reference, **options)
        self._models = [self._model, self._reference]

    @property
    def fingerprint(self) -> str:
        """Both models' and the scale."""
        return f"{self._model.fingerprint}-{self._reference.fingerprint}-{self._scale}"

    def _minuend_and_baseline(self, asks: Sequence[Ask]) -> list[tuple[LanguageModel, Sequence[Ask]]]:
        return [(self._model, asks), (self._reference, asks)]


def _open(model: str, **options: str) -> LanguageModel:
    if "url" in options:
        options = {"tokenizer": model} | options
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
