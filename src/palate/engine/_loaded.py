"""What models of every kind in this process have in common: a folder, a device, a precision, a tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from palate.engine._language import Failure
from palate.engine._torch import quiet_transformers, require
from palate.engine._weights import brief, folder_fingerprint, weights_folder
from palate.records import PalateError

if TYPE_CHECKING:
    from palate.engine._chat import Chat
    from palate.engine._packing import Group
    from palate.engine._reader import Reader
    from palate.engine._scorer import Scorer

Result = TypeVar("Result")

RENDERING = 1
"""Part of every fingerprint: raise it when conversations are put into tokens otherwise."""

FEWEST_TOKENS = 10
"""A tokenizer with fewer is none."""


class Loaded:
    """A model by its name; the weights themselves are loaded by those who need them."""

    def __init__(
        self, name: str, *, device: str | None = None, dtype: str | None = None, trust_remote_code: bool = False
    ) -> None:
        self.name = name
        self._folder = weights_folder(name)
        self._trust = trust_remote_code
        torch = require("torch", "local")
        self._device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        _check_device(torch, self._device)
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
                f"{self.name}: no tokenizer can be loaded from {self._folder} ({brief(error)}). "
                "A model folder needs its tokenizer files beside its weights."
            ) from error
        return Chat(tokenizer)

    @cached_property
    def _config(self) -> Any:
        transformers = require("transformers", "local")
        try:
            return transformers.AutoConfig.from_pretrained(
                self._folder, trust_remote_code=self._trust, local_files_only=True
            )
        except Exception as error:
            raise PalateError(f"{self.name}: {self._folder} is not a model folder ({brief(error)})") from error

    @cached_property
    def _model(self) -> Any:
        """The weights, loaded when they are first used."""
        raise NotImplementedError

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


def _check_device(torch: Any, name: str) -> None:
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise PalateError(f"device={name} is not to be had on this machine ({brief(error)}); cpu always is") from error


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
