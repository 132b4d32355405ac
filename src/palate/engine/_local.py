"""Models in this process: a folder of weights, a device, a precision, a tokenizer, and what can be asked of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

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
from palate.engine._meter import count, loading, rehearsing
from palate.engine._torch import check_device, free_memory, quiet_transformers, require, wanted_device, wanted_dtype
from palate.engine._weights import brief, folder_fingerprint, weights_folder
from palate.records import PalateError

if TYPE_CHECKING:
    from torch import Tensor

    from palate.engine._chat import Chat
    from palate.engine._incremental import Followed, IncrementalClassifier, IncrementalLikelihood, Steps
    from palate.engine._packing import Group
    from palate.engine._reader import Reader
    from palate.engine._scorer import Scorer

Result = TypeVar("Result")

RENDERING = 1
"""Part of every fingerprint: raise it when conversations are put into tokens otherwise."""


class Loaded:
    """A model by its name; the weights themselves are loaded by those who need them."""

    def __init__(
        self, name: str, *, device: str | None = None, dtype: str | None = None, trust_remote_code: bool = False
    ) -> None:
        self.name = name
        self._folder = weights_folder(name)
        self._trust = trust_remote_code
        torch = require("torch", "local")
        self._device = device or wanted_device() or ("cuda" if torch.cuda.is_available() else "cpu")
        check_device(self._device)
        by_device = "bfloat16" if self._device.startswith("cuda") else "float32"
        self._dtype = dtype or wanted_dtype() or by_device
        self.chat = self._chat()
        if getattr(torch, self._dtype, None) not in (torch.float32, torch.bfloat16, torch.float16):
            raise PalateError(f"unknown dtype {self._dtype!r}; use float32, bfloat16 or float16")

    @cached_property
    def _files(self) -> str:
        return folder_fingerprint(self._folder)  # once: weights that are loaded stay as they are

    @property
    def fingerprint(self) -> str:
        """The files, the precision, the kind of device, and how conversations are written."""
        return f"{self._files}-{self._dtype}-{self._device.split(':')[0]}-{RENDERING}"

    @property
    def device(self) -> str:
        """Where it runs: `cpu` or `cuda`."""
        return self._device

    def _chat(self) -> Chat:
        """The tokenizer with its template; a missing template is an error now, not after an hour."""
        from palate.engine._chat import load_chat

        return load_chat(self.name, self._folder, trust_remote_code=self._trust)

    @cached_property
    def _config(self) -> Any:
        transformers = require("transformers", "local")
        try:
            return transformers.AutoConfig.from_pretrained(
                self._folder, trust_remote_code=self._trust, local_files_only=True
            )
        except Exception as error:
            raise PalateError(f"{self.name}: {self._folder} is not a model folder ({brief(error)})") from error

    def check_room(self, bytes_each: int | None = None) -> None:
        """Refuse, before anything is loaded, what cannot fit into the memory that is free.

        `bytes_each` is what a parameter takes; by default the weights alone.
        """
        torch, transformers = require("torch", "local"), require("transformers", "local")
        with torch.device("meta"):
            empty = transformers.AutoModelForCausalLM.from_config(self._config, trust_remote_code=self._trust)
        needed = empty.num_parameters() * (bytes_each or (4 if self._dtype == "float32" else 2))
        free = torch.cuda.mem_get_info()[0] if self._device.startswith("cuda") else free_memory()
        if free is not None and needed > free:
            raise PalateError(
                f"{self.name} needs {needed / 2**30:.1f} GiB of memory on {self._device}, and {free / 2**30:.1f} GiB "
                "are free: take a smaller model, another device, or for training --lora"
            )

    _model: Any
    """The weights. Each kind of model loads its own when they are first used."""

    @cached_property
    def _scorer(self) -> Scorer:
        from palate.engine._scorer import Scorer

        return Scorer(self._model)

    @cached_property
    def _reader(self) -> Reader:
        from palate.engine._reader import Reader

        return Reader(self._model)

    def _require_answers(self) -> None:
        if not self.chat.shows_answers():
            raise PalateError(
                f"{self.name}: its chat template leaves out the assistant's answer, so that every text would get the "
                "same score. Mend the chat_template in its tokenizer's files."
            )

    def _load(self, kind: str, *, new: Collection[str] = (), **options: Any) -> Any:
        """The model in one of its kinds. Its files may lack the `new` weights, which then begin at zero."""
        with loading():
            return self._loaded(kind, new, options)

    def _loaded(self, kind: str, new: Collection[str], options: dict[str, Any]) -> Any:
        torch, transformers = require("torch", "local"), quiet_transformers()
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
            raise PalateError(f"{self.name}: cannot be loaded as {kind} ({brief(error)}).{hint}") from error
        if missing := sorted(set(found["missing_keys"]) - set(new)):
            raise PalateError(
                f"{self.name}: its files lack {', '.join(missing[:3])}, so that as {kind} it would answer at random. "
                "Is it a model of another kind?"
            )
        for name in set(found["missing_keys"]):
            torch.nn.init.zeros_(model.get_parameter(name))
        return model.to(self._device).eval()


def context_of(config: Any) -> int | None:
    """How many tokens a model can read at once; None where its configuration does not say.

    With `longrope` it turns all tokens of a batch otherwise as soon as one text in it is longer than those of its
    training: a text's score would depend on its company. Such a model is asked for shorter texts only.
    """
    text = config.get_text_config()
    found = getattr(text, "max_position_embeddings", None)
    rope = getattr(text, "rope_parameters", None) or {}
    for own in (rope, *(one for one in rope.values() if isinstance(one, dict))):  # one for all layers, or by their type
        if own.get("rope_type") == "longrope" and found:
            found = min(found, own.get("original_max_position_embeddings") or found)
    return int(found) if found else None


def needed(group: Group) -> int:
    """How many tokens the longest of a group's sequences has."""
    return len(group.prefix) + max(map(len, group.continuations), default=0)


def tokens_of(group: Group) -> int:
    """How many tokens there are to read, what the sequences share once."""
    return len(group.prefix) + sum(map(len, group.continuations))


def too_long(group: Group, context: int | None) -> Failure | None:
    """Why a model with such a context cannot read a group, if it cannot."""
    tokens = needed(group)
    if context is None or tokens <= context:
        return None
    return Failure(f"needs {tokens} tokens, and the model's context has {context}")


def where_it_fits(
    groups: Sequence[Group], context: int | None, work: Callable[[Sequence[Group]], Iterable[Result]]
) -> list[Result | Failure]:
    """The result of each group that fits the context, all in one call of the work, and a failure for the others."""
    problems = [too_long(group, context) for group in groups]
    results = iter(work([group for group, problem in zip(groups, problems, strict=True) if problem is None]))
    return [next(results) if problem is None else problem for problem in problems]


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
            count(
                prompt_tokens=sum(map(len, prompts)),
                completion_tokens=sampling.most_tokens * samples * len(prompts)
                if rehearsing()
                else sum(len(text.ids) for texts in drawn for text in texts),
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
        return self.chat.whole_answers(turns, texts)

    def tokens(self, many: Sequence[Sequence[str]], *, whole: bool = True) -> list[Group]:
        """The first of some texts is the prompt, which the others continue; whole answers stop at their end token."""
        return self.chat.continuations(many, whole=whole)

    def _totals(self, groups: Sequence[Group]) -> Answers[list[Likelihood]]:
        from palate.engine._scorer import likelihood_finish

        def likelihoods(fitting: Sequence[Group]) -> Iterator[list[Likelihood]]:
            count(prompt_tokens=sum(map(tokens_of, fitting)))
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

        count(prompt_tokens=sum(map(tokens_of, groups)))
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
