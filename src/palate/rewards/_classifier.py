"""Scalar reward models: any sequence classifier of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from palate.engine import Failure, LikelihoodRequest, LocalClassifier, RemoteClassifier, load_tokenizer, yes
from palate.records import Ask, PalateError, Rating
from palate.rewards._prompts import conversation, fit_view
from palate.rewards._rate import Follower, score_follower

if TYPE_CHECKING:
    from palate.engine._packing import Group


class ClassifierReward:
    """One logit for each response. `index` names it where there are several; `view` is its place.

    The view stands in a system turn where the chat template takes one, else at the head of the user's
    turn; `view=system` or `view=user` settles it. With `url` the model runs behind vLLM or SGLang, and `tokenizer` is
    the served model's, a folder or a name on the hub; `key` names the environment variable that holds the server's key.
    """

    batch_size = 256
    pointwise = True

    def __init__(
        self,
        model: str,
        *,
        index: str | None = None,
        view: str = "auto",
        device: str | None = None,
        dtype: str | None = None,
        trust_remote_code: str = "false",
        url: str | None = None,
        key: str = "OPENAI_API_KEY",
        tokenizer: str | None = None,
    ) -> None:
        if view not in ("auto", "system", "user"):
            raise PalateError(f"option view={view}: the view goes into a system or a user turn")
        if index is not None and not index.isdigit():
            raise PalateError(f"option index={index}: expected a whole number from 0")
        self.name = f"classifier:{model}" + (f",index={index}" if index else "")
        label = None if index is None else int(index)
        self._model: LocalClassifier | RemoteClassifier
        if url is not None:
            if device or dtype:
                raise PalateError("device= and dtype= are the server's to choose; leave them out with url=")
            chat = load_tokenizer(tokenizer or model, trust_remote_code)
            self._model = RemoteClassifier(model, base_url=url, key_variable=key, chat=chat, label=label)
        else:
            if tokenizer is not None:
                raise PalateError("option tokenizer= goes with url=; a model that runs here has its own tokenizer")
            self._model = LocalClassifier(
                model, label=label, device=device, dtype=dtype, trust_remote_code=yes(trust_remote_code)
            )
        takes_system = self._model.chat.takes_system_turns
        if view == "system" and not takes_system:
            raise PalateError(f"{model}: its chat template refuses system turns; say view=user")
        self._place = "system" if view != "user" and takes_system else "user"

    @property
    def fingerprint(self) -> str:
        """The weights, the logit, and where the view stands."""
        return f"{self._model.fingerprint}-{self._place}"

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """The logit of each response."""
        fitted = [self._fitted(ask) for ask in asks]
        found = self._model.score_groups([group for group, _ in fitted])
        return [
            Rating(unscored=one.reason) if isinstance(one, Failure) else Rating(one, note=note)
            for one, (_, note) in zip(found, fitted, strict=True)
        ]

    def _fitted(self, ask: Ask) -> tuple[Group, str | None]:
        """The tokens of an ask, and what of its view was left out; made once where all of it fits."""
        model = self._model
        group = model.group(self._request(ask))
        if not model.too_long(group):
            return group, None
        fitted, note = fit_view(ask, lambda one: model.count_tokens(self._request(one)), model.context)
        return model.group(self._request(fitted)), note

    def follow(self, asks: Sequence[Ask], room: int = 0) -> Follower | None:
        """Logits of texts while they are written; None where the model reads both ways."""
        model = self._model
        fitted = [
            fit_view(ask, lambda one: model.count_tokens(self._request(one)) + room, model.context)[0] for ask in asks
        ]
        follower = model.follow([conversation(ask, self._place) for ask in fitted])
        return None if follower is None else score_follower(follower.score)

    def _request(self, ask: Ask) -> LikelihoodRequest:
        return LikelihoodRequest(turns=conversation(ask, self._place), continuations=ask.responses)
