"""Language models in this process: torch and transformers, on a CPU or a GPU."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from palate.engine._language import (
    ChooseRequest,
    Chosen,
    Conversation,
    Failure,
    Likelihood,
    LikelihoodRequest,
    WriteRequest,
    Written,
)
from palate.engine._loaded import Loaded, context_of, where_it_fits
from palate.records import PalateError

if TYPE_CHECKING:
    from palate.engine._incremental import Followed, IncrementalLikelihood, Steps
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

    def likelihood(self, requests: Sequence[LikelihoodRequest]) -> list[list[Likelihood] | Failure]:
        """The log-probability of each continuation as the whole answer, its end included."""
        return self._totals([self.answers(request.turns, request.continuations) for request in requests])

    def choose(self, requests: Sequence[ChooseRequest]) -> list[Chosen | Failure]:
        """How the probability of what comes next falls on the choices."""
        groups = []
        for request in requests:
            openings = (request.opening, *(request.opening + choice for choice in request.choices))
            groups += self.tokens([[self.chat.prompt(request.turns, text) for text in openings]], whole=False)
        return [found if isinstance(found, Failure) else _chosen(found) for found in self._totals(groups)]

    def write(self, requests: Sequence[WriteRequest]) -> list[list[Written] | Failure]:
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

    def _totals(self, groups: Sequence[Group]) -> list[list[Likelihood] | Failure]:
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
