"""Classifiers in this process: torch and transformers, on a CPU or a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from palate.engine._language import Conversation, Failure, LikelihoodRequest
from palate.engine._loaded import Loaded, context_of, needed, too_long, where_it_fits
from palate.engine._torch import require
from palate.records import PalateError

if TYPE_CHECKING:
    from torch import Tensor

    from palate.engine._incremental import IncrementalClassifier
    from palate.engine._packing import Group


class LocalClassifier(Loaded):
    """A scalar reward model: one logit of a sequence classifier, with its head in float32."""

    def __init__(self, name: str, *, label: int | None = None, **options: Any) -> None:
        super().__init__(name, **options)
        labels = self._config.num_labels
        if label is None and labels != 1:
            named = ", ".join(f"{index}={name}" for index, name in self._config.id2label.items())
            raise PalateError(f"{name} gives {labels} logits ({named}); say which one is the reward: index=0")
        if label is not None and not 0 <= label < labels:
            raise PalateError(f"{name} gives {labels} logits; index={label} is not among them")
        self._label = label or 0

    @property
    def fingerprint(self) -> str:
        """With the logit that is read."""
        return f"{super().fingerprint}-{self._label}"

    @cached_property
    def context(self) -> int | None:
        """How many tokens fit."""
        found = context_of(self._config)
        if found and not self._shares_prefixes:  # some encoders begin to count their places at two
            found = min(found, self.chat.tokenizer.model_max_length)
        return found

    @cached_property
    def _model(self) -> Any:
        model = self._load("AutoModelForSequenceClassification")
        head = getattr(model, "classifier", None)
        if head is not None and self._dtype != "float32":
            head.float().register_forward_pre_hook(lambda _, given: tuple(part.float() for part in given))
        return model

    @cached_property
    def _shares_prefixes(self) -> bool:
        """Decoders read left to right and have a head named score; encoders look both ways."""
        return hasattr(self._model, "score") and not getattr(self._model.base_model, "encoder", None)

    def count_tokens(self, request: LikelihoodRequest) -> int:
        """The length of the longest of the answered conversations as the model sees it."""
        return needed(self.group(request))

    def follow(self, conversations: Sequence[Conversation]) -> IncrementalClassifier | None:
        """Scores of answers while they are written; None for encoders, and where nothing that was read can be kept."""
        if not self._shares_prefixes:
            return None
        from palate.engine._incremental import IncrementalClassifier

        self._require_answers()
        return IncrementalClassifier(self, self._reader, conversations) if self._reader.able else None

    def logits(self, states: Tensor) -> list[float]:
        """What the head makes of last states."""
        torch = require("torch", "local")
        with torch.inference_mode():
            numbers: list[float] = self._model.score.float()(states.float())[:, self._label].tolist()
        return numbers

    def score(self, requests: Sequence[LikelihoodRequest]) -> list[list[float] | Failure]:
        """One number for each continuation of each request."""
        return self.score_groups([self.group(request) for request in requests])

    def score_groups(self, groups: Sequence[Group]) -> list[list[float] | Failure]:
        """What `score` gives for the requests that these groups were made of."""
        return where_it_fits(groups, self.context, self._run)

    def too_long(self, group: Group) -> Failure | None:
        """Why the model cannot read a group, if it cannot."""
        return too_long(group, self.context)

    def _run(self, groups: Sequence[Any]) -> list[list[float]]:
        from palate.engine._scorer import classifier_finish, read_both_ways

        if self._shares_prefixes:
            head = self._model.score.float()
            return list(self._scorer.run(groups, classifier_finish(head, self._label)))
        return read_both_ways(self._model, groups, self._label, self.chat.tokenizer.pad_token_id or 0)

    def group(self, request: LikelihoodRequest) -> Group:
        """The tokens of the answered conversations, split where they part."""
        from palate.engine._packing import Group

        if self._shares_prefixes:
            return self.chat.answers(request.turns, request.continuations)
        return Group([], [self._encoded(request.turns, text) for text in request.continuations])

    def _encoded(self, turns: Conversation, answer: str) -> list[int]:
        """Encoders without a chat template take the conversation and the answer as a pair of texts."""
        if self._shares_prefixes or self.chat.templated:
            return self.chat.ids(self.chat.answered(turns, answer))
        context = "\n\n".join(turn.content for turn in turns)
        return self.chat.pair_ids(context, answer)
