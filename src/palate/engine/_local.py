"""Language models and classifiers in this process: torch and transformers, on a CPU or a GPU."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from palate.engine._language import (
    Answers,
    ChooseRequest,
    Chosen,
    Conversation,
    Failure,
    Likelihood,
    LikelihoodRequest,
    WriteRequest,
    Written,
)
from palate.engine._loaded import Loaded, context_of, needed, too_long, where_it_fits
from palate.engine._torch import require
from palate.records import PalateError

if TYPE_CHECKING:
    from torch import Tensor

    from palate.engine._incremental import Followed, IncrementalClassifier, IncrementalLikelihood, Steps
    from palate.engine._packing import Group


class LocalModel(Loaded):
    """A causal language model. Its answers do not depend on what else is asked at the same time."""

    @cached_property
    def _model(self) -> Any:
        return self._load("AutoModelForCausalLM")

    @cached_property
    def context(self) -> int | None:
        """How many tokens fit."""
        return context_of(self._model.config)

    @property
    def templated(self) -> bool:
        """Whether there is a chat template, and with it a way to end an answer."""
        return self.chat.templated

    def status(self) -> str:
        """Nothing is counted: nobody pays for tokens here."""
        return ""

    def count_tokens(self, turns: Conversation) -> int | None:
        """The length of a prompt as the model sees it."""
        return len(self.chat.ids(self.chat.prompt(turns)))

    def likelihood(self, requests: Sequence[LikelihoodRequest]) -> Answers[list[Likelihood]]:
        """The log-probability of each continuation as the whole answer, its end included."""
        return self._totals([self.answers(request.turns, request.continuations) for request in requests])

    def choose(self, requests: Sequence[ChooseRequest]) -> Answers[Chosen]:
        """How the probability of what comes next falls on the choices."""
        groups = []
        for request in requests:
            openings = (request.opening, *(request.opening + choice for choice in request.choices))
            groups += self.tokens([[self.chat.prompt(request.turns, text) for text in openings]], whole=False)
        return [found if isinstance(found, Failure) else _chosen(found) for found in self._totals(groups)]

    def write(self, requests: Sequence[WriteRequest]) -> Answers[list[Written]]:
        """Samples of each request; the prompt is read once for all of them."""
        answers: list[list[Written] | Failure | None] = [None] * len(requests)
        read = [self.chat.ids(self.chat.prompt(request.turns, request.opening)) for request in requests]
        for index, request in enumerate(requests):
            most = request.sampling.most_tokens
            if self.context is not None and len(read[index]) + most > self.context:
                answers[index] = Failure(
                    f"needs {len(read[index])} tokens and {most} more to answer, "
                    f"and the model's context has {self.context}"
                )
        for sampling_and_samples, indices in _alike(requests, answers).items():
            sampling, samples = sampling_and_samples
            prompts = [read[index] for index in indices]
            drawn = self._sampler.sample(
                prompts,
                samples=samples,
                most_tokens=sampling.most_tokens,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                seeds=[requests[index].sampling.seed for index in indices],
            )
            for index, texts in zip(indices, drawn, strict=True):
                answers[index] = [
                    Written(
                        text=self.decoded(text.ids),
                        tokens=len(text.ids),
                        finished=text.finished,
                    )
                    for text in texts
                ]
        return [answer if answer is not None else Failure("not answered") for answer in answers]

    @cached_property
    def ends(self) -> frozenset[int]:
        """The tokens after which an answer is over."""
        ends = self._model.generation_config.eos_token_id
        found = {self.chat.end, self.chat.tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])}
        return frozenset(token for token in found if token is not None)

    @cached_property
    def _sampler(self) -> Any:
        from palate.engine._sampler import Sampler

        return Sampler(self._model, set(self.ends), self.chat.tokenizer.pad_token_id or 0)

    def steps(self, conversations: Sequence[Conversation]) -> Steps:
        """These conversations, to be answered while somebody else chooses among the next tokens."""
        from palate.engine._incremental import Steps

        if not self._reader.able:
            raise PalateError(
                f"{self.name} cannot go on from what it has read (it keeps a running state, or its layers are not all "
                "of one kind), so that it cannot be guided; name another model"
            )
        return Steps(self, self._reader, self._sampler, conversations)

    def follow(self, conversations: Sequence[Conversation]) -> IncrementalLikelihood | None:
        """Likelihoods of answers while they are written; None where the model cannot go on from what it read."""
        from palate.engine._incremental import IncrementalLikelihood

        self._require_answers()
        return IncrementalLikelihood(self, self._reader, conversations) if self._reader.able else None

    def follow_answers(self, requests: Sequence[LikelihoodRequest], top: int) -> list[list[Followed] | Failure]:
        """At each place of given answers: the log-probability of their own token, and the likeliest tokens."""
        from palate.engine._incremental import follow_answers

        groups = [self.answers(request.turns, request.continuations) for request in requests]
        return where_it_fits(groups, self.context, lambda fitting: follow_answers(self._reader, fitting, top))

    def decoded(self, ids: Sequence[int]) -> str:
        """Tokens of an answer as text, without those that have a meaning of their own."""
        text: str = self.chat.tokenizer.decode(ids, skip_special_tokens=True)
        return text

    def answers(self, turns: Conversation, texts: Sequence[str]) -> Group:
        """The tokens of whole answers, their end included, after those of the conversation."""
        [group] = self.tokens([[self.chat.prompt(turns), *(self.chat.answered(turns, text) for text in texts)]])
        return group

    def tokens(self, many: Sequence[Sequence[str]], *, whole: bool = True) -> list[Group]:
        """The first of some texts is the prompt, which the others continue; whole answers stop at their end token."""
        from palate.engine._packing import Group

        groups = []
        for group in self.chat.groups(many, keep=0):
            if not group.prefix:
                raise PalateError(f"{self.name}: its chat template writes nothing before the answer")
            answers = [list(tokens) for tokens in group.continuations[1:]]
            groups.append(Group(group.prefix, [self._ended(tokens) for tokens in answers] if whole else answers))
        return groups

    def _ended(self, tokens: list[int]) -> list[int]:
        """With one end token, and nothing of what templates write after it; no end where the template has none."""
        end = self.chat.end
        if end in tokens:
            return tokens[: len(tokens) - tokens[::-1].index(end)]
        return tokens if end is None or self.chat.templated else [*tokens, end]

    def _totals(self, groups: Sequence[Group]) -> Answers[list[Likelihood]]:
        from palate.engine._scorer import likelihood_finish

        def likelihoods(fitting: Sequence[Group]) -> Iterator[list[Likelihood]]:
            totals = self._scorer.run(fitting, likelihood_finish(self._model))
            for group, numbers in zip(fitting, totals, strict=True):
                pairs = zip(numbers, group.continuations, strict=True)
                yield [Likelihood(total=total, tokens=len(tokens)) for total, tokens in pairs]

        return where_it_fits(groups, self.context, likelihoods)


def _chosen(likelihoods: Sequence[Likelihood]) -> Chosen | Failure:
    weights = [math.exp(likelihood.total) for likelihood in likelihoods]
    mass = sum(weights)
    if mass <= 0:
        return Failure("the model gives none of the choices any probability")
    return Chosen(probabilities=tuple(weight / mass for weight in weights), mass=mass)


def _alike(requests: Sequence[WriteRequest], answers: Sequence[object]) -> dict[Any, list[int]]:
    """What can be drawn together: all but the seed has to be the same, since every prompt has a seed of its own."""
    alike: dict[Any, list[int]] = {}
    for index, request in enumerate(requests):
        if answers[index] is None:
            sampling = msgspec.structs.replace(request.sampling, seed=0)
            alike.setdefault((sampling, request.samples), []).append(index)
    return alike


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
