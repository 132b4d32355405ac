"""Language models and classifiers in this process: torch and transformers, on a CPU or a GPU."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from palate.engine._fingerprint import folder_fingerprint
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
from palate.engine._optional import require
from palate.engine._weights import weights_folder
from palate.records import PalateError

if TYPE_CHECKING:
    from torch import Tensor

    from palate.engine._chat import Chat
    from palate.engine._followers import ClassifierFollower, LikelihoodFollower
    from palate.engine._packing import Group
    from palate.engine._steps import Followed, Steps


RENDERING = 1
"""Part of every fingerprint: raise it when conversations are put into tokens otherwise."""

FEWEST_TOKENS = 10
"""A tokenizer with fewer is none."""


class _Loaded:
    """What models of every kind need: a folder, a device, a precision, a tokenizer."""

    def __init__(
        self, name: str, *, device: str | None = None, dtype: str | None = None, trust_remote_code: bool = False
    ) -> None:
        self.name = name
        self._folder = weights_folder(name)
        self._trust = trust_remote_code
        torch = require("torch", "local")
        self._device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self._dtype = dtype or ("bfloat16" if self._device.startswith("cuda") else "float32")
        self.chat = self._chat()
        if getattr(torch, self._dtype, None) not in (torch.float32, torch.bfloat16, torch.float16):
            raise PalateError(f"unknown dtype {self._dtype!r}; use float32, bfloat16 or float16")

    @property
    def fingerprint(self) -> str:
        """The files, the precision, the kind of device, and how conversations are written."""
        return f"{folder_fingerprint(self._folder)}-{self._dtype}-{self._device.split(':')[0]}-{RENDERING}"

    @property
    def device(self) -> str:
        """Where it runs: `cpu` or `cuda`."""
        return self._device

    def _chat(self) -> Chat:
        """The tokenizer with its template; that there is none is an error now, not after an hour."""
        from palate.engine._chat import Chat

        transformers = require("transformers", "local")
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                self._folder, trust_remote_code=self._trust, local_files_only=True
            )
            if len(tokenizer) < FEWEST_TOKENS:  # early versions of transformers 5 make one up from nothing
                raise ValueError(f"it would have {len(tokenizer)} tokens")
        except Exception as error:
            raise PalateError(
                f"{self.name}: no tokenizer can be loaded from {self._folder} ({_brief(error)}). "
                "A model folder needs its tokenizer files beside its weights."
            ) from error
        return Chat(tokenizer)

    def _require_answers(self) -> None:
        if not self.chat.shows_answers():
            raise PalateError(
                f"{self.name}: its chat template leaves out the assistant's answer, so that every text would get the "
                "same score. Mend the chat_template in its tokenizer's files."
            )

    def _load(self, kind: str, *, new: Collection[str] = (), **options: Any) -> Any:
        """The model in one of its kinds. Its files may lack the `new` weights, which then begin at zero."""
        torch, transformers = require("torch", "local"), require("transformers", "local")
        logging = transformers.utils.logging
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        try:
            model, found = getattr(transformers, kind).from_pretrained(
                self._folder,
                dtype=getattr(torch, self._dtype),
                trust_remote_code=self._trust,
                local_files_only=True,
                output_loading_info=True,
                **options,
            )
        except Exception as error:
            asks_for_trust = "trust_remote_code" in str(error)
            hint = " Say trust_remote_code=true if you trust its code." if asks_for_trust else ""
            raise PalateError(f"{self.name}: cannot be loaded as {kind} ({_brief(error)}).{hint}") from error
        if missing := sorted(set(found["missing_keys"]) - set(new)):
            raise PalateError(
                f"{self.name}: its files lack {', '.join(missing[:3])}, so that as {kind} it would answer at random. "
                "Is it a model of another kind?"
            )
        for name in set(found["missing_keys"]):
            torch.nn.init.zeros_(model.get_parameter(name))
        return model.to(self._device).eval()


class LocalModel(_Loaded):
    """A causal language model. Its answers do not depend on what else is asked at the same time."""

    @cached_property
    def _model(self) -> Any:
        return self._load("AutoModelForCausalLM")

    @cached_property
    def _scorer(self) -> Any:
        from palate.engine._scorer import Scorer

        return Scorer(self._model)

    @cached_property
    def context(self) -> int | None:
        """How many tokens fit."""
        found = getattr(self._model.config.get_text_config(), "max_position_embeddings", None)
        return int(found) if found else None

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
        groups, problems = [], {}
        for index, request in enumerate(requests):
            group = self.answers(request.turns, request.continuations)
            if problem := self._too_long(group):
                problems[index] = problem
            groups.append(group)
        return self._totals(groups, problems)

    def choose(self, requests: Sequence[ChooseRequest]) -> list[Chosen | Failure]:
        """How the probability of what comes next falls on the choices."""
        groups, problems = [], {}
        for index, request in enumerate(requests):
            openings = (request.opening, *(request.opening + choice for choice in request.choices))
            [group] = self.tokens([[self.chat.prompt(request.turns, text) for text in openings]], whole=False)
            if problem := self._too_long(group):
                problems[index] = problem
            groups.append(group)
        answers: list[Chosen | Failure] = []
        for found in self._totals(groups, problems):
            if isinstance(found, Failure):
                answers.append(found)
                continue
            weights = [math.exp(likelihood.total) for likelihood in found]
            mass = sum(weights)
            if mass > 0:
                answers.append(Chosen(probabilities=tuple(weight / mass for weight in weights), mass=mass))
            else:
                answers.append(Failure("the model gives none of the choices any probability"))
        return answers

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

    @cached_property
    def _reader(self) -> Any:
        from palate.engine._reader import Reader

        return Reader(self._model)

    def steps(self, conversations: Sequence[Conversation]) -> Steps:
        """These conversations, to be answered while somebody else chooses among the next tokens."""
        from palate.engine._steps import Steps

        if not self._reader.able:
            raise PalateError(
                f"{self.name} cannot go on from what it has read (it keeps a running state, or its layers are not all "
                "of one kind), so that it cannot be guided; name another model"
            )
        return Steps(self, self._reader, self._sampler, conversations)

    def follow(self, conversations: Sequence[Conversation]) -> LikelihoodFollower | None:
        """Likelihoods of answers while they are written; None where the model cannot go on from what it read."""
        from palate.engine._followers import LikelihoodFollower

        self._require_answers()
        return LikelihoodFollower(self, self._reader, conversations) if self._reader.able else None

    def follow_answers(self, requests: Sequence[LikelihoodRequest], top: int) -> list[list[Followed] | Failure]:
        """At each place of given answers: the log-probability of their own token, and the likeliest tokens."""
        from palate.engine._steps import follow_answers

        problems = [self._too_long(self.answers(request.turns, request.continuations)) for request in requests]
        sound = [request for request, problem in zip(requests, problems, strict=True) if problem is None]
        found = iter(follow_answers(self, self._reader, sound, top))
        return [next(found) if problem is None else problem for problem in problems]

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

    def _too_long(self, group: Any) -> Failure | None:
        needed = _needed(group)
        if self.context is not None and needed > self.context:
            return Failure(f"needs {needed} tokens, and the model's context has {self.context}")
        return None

    def _totals(self, groups: Sequence[Any], problems: dict[int, Failure]) -> list[list[Likelihood] | Failure]:
        from palate.engine._scorer import likelihood_finish

        kept = [index for index in range(len(groups)) if index not in problems]
        totals = self._scorer.run([groups[index] for index in kept], likelihood_finish(self._model))
        answers: list[list[Likelihood] | Failure] = [problems.get(index, Failure("")) for index in range(len(groups))]
        for index, numbers in zip(kept, totals, strict=True):
            answers[index] = [
                Likelihood(total=total, tokens=len(tokens))
                for total, tokens in zip(numbers, groups[index].continuations, strict=True)
            ]
        return answers


def _alike(requests: Sequence[WriteRequest], answers: Sequence[object]) -> dict[Any, list[int]]:
    """What can be drawn together: all but the seed has to be the same, since every prompt has a seed of its own."""
    alike: dict[Any, list[int]] = {}
    for index, request in enumerate(requests):
        if answers[index] is None:
            sampling = msgspec.structs.replace(request.sampling, seed=0)
            alike.setdefault((sampling, request.samples), []).append(index)
    return alike


class LocalClassifier(_Loaded):
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
    def _config(self) -> Any:
        transformers = require("transformers", "local")
        try:
            return transformers.AutoConfig.from_pretrained(
                self._folder, trust_remote_code=self._trust, local_files_only=True
            )
        except Exception as error:
            raise PalateError(f"{self.name}: {self._folder} is not a model folder ({_brief(error)})") from error

    @cached_property
    def context(self) -> int | None:
        """How many tokens fit."""
        found = getattr(self._config.get_text_config(), "max_position_embeddings", None)
        if found and not self._shares_prefixes:  # some encoders begin to count their places at two
            found = min(found, self.chat.tokenizer.model_max_length)
        return int(found) if found else None

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

    @cached_property
    def _scorer(self) -> Any:
        from palate.engine._scorer import Scorer

        return Scorer(self._model)

    def count_tokens(self, request: LikelihoodRequest) -> int:
        """The length of the longest of the answered conversations as the model sees it."""
        return _needed(self.group(request))

    def follow(self, conversations: Sequence[Conversation]) -> ClassifierFollower | None:
        """Scores of answers while they are written; None for encoders, and where nothing that was read can be kept."""
        if not self._shares_prefixes:
            return None
        from palate.engine._followers import ClassifierFollower

        self._require_answers()
        return ClassifierFollower(self, self._reader, conversations) if self._reader.able else None

    @cached_property
    def _reader(self) -> Any:
        from palate.engine._reader import Reader

        return Reader(self._model)

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
        problems = [self.too_long(group) for group in groups]
        sound = [group for group, problem in zip(groups, problems, strict=True) if problem is None]
        found = iter(self._run(sound))
        return [next(found) if problem is None else problem for problem in problems]

    def too_long(self, group: Group) -> Failure | None:
        """Why the model cannot read a group, if it cannot."""
        needed = _needed(group)
        if self.context is not None and needed > self.context:
            return Failure(f"needs {needed} tokens, and the model's context has {self.context}")
        return None

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


def _needed(group: Any) -> int:
    """How many tokens the longest of a group's sequences has."""
    return len(group.prefix) + max(map(len, group.continuations), default=0)


def _brief(error: Exception) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
