"""A language model by name, wherever it runs, with its answers remembered."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from palate.engine._answers import AnswerCache, CachedLanguageModel
from palate.engine._language import LanguageModel
from palate.records import PalateError, cache_folder, parse_spec, unknown_name

if TYPE_CHECKING:
    from palate.engine._chat import Chat
    from palate.engine._local import LocalModel


_kept: dict[tuple[str, ...], LanguageModel] | None = None
"""Models by name and options, where a process keeps them."""


def keep_language_models() -> None:
    """From now on this process opens every language model once."""
    global _kept
    _kept = {} if _kept is None else _kept


def open_language_model(name: str, **options: str | None) -> LanguageModel:
    """A model in this process, or, with `url`, behind an OpenAI-compatible server, by options written as text.

    `key` names the environment variable that holds the server's key. `prices` are what a million tokens
    cost, in and out, such as `0.5/1.5`; `most_spent` stops before more than that is spent. `tokenizer`, a folder or
    a name on the hub, is the served model's, which likelihoods take.
    """
    known = [option for option in inspect.signature(_open).parameters if option != "name"]
    for option in options:
        if option not in known:
            raise unknown_name("option for a language model", option, known)
    if _kept is None:
        return _open(name, **options)  # type: ignore[arg-type]
    key = (name, *(f"{option}={options[option]}" for option in sorted(options)))
    if key not in _kept:
        _kept[key] = _open(name, **options)  # type: ignore[arg-type]
    return _kept[key]


def in_process(model: LanguageModel) -> LocalModel | None:
    """The model itself where it runs in this process, for what no server tells."""
    from palate.engine._local import LocalModel

    inner = model.model if isinstance(model, CachedLanguageModel) else model
    return inner if isinstance(inner, LocalModel) else None


def open_by_spec(text: str) -> LanguageModel:
    """A language model as people write it: `name`, or `name,url=...,key=...`."""
    name, *options = text.split(",")
    return open_language_model(name.strip(), **parse_spec(",".join(["model", *options])).options)


def _open(
    name: str,
    *,
    url: str | None = None,
    key: str = "OPENAI_API_KEY",
    most_spent: str | None = None,
    prices: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    trust_remote_code: str = "false",
    tokenizer: str | None = None,
) -> LanguageModel:
    model: LanguageModel
    if url:
        from palate.engine._remote import RemoteModel

        model = RemoteModel(
            name,
            base_url=url,
            key_variable=key,
            most_spent=_number(most_spent, "most_spent"),
            prices=_prices(prices),
            chat=None if tokenizer is None else load_tokenizer(tokenizer, trust_remote_code),
        )
    else:
        if tokenizer is not None:
            raise PalateError("option tokenizer= goes with url=; a model that runs here has its own tokenizer")
        from palate.engine._local import LocalModel

        model = LocalModel(name, device=device, dtype=dtype, trust_remote_code=yes(trust_remote_code))
    return CachedLanguageModel(model, AnswerCache(cache_folder() / "answers.sqlite"))


def load_tokenizer(name: str, trust_remote_code: str = "false") -> Chat:
    """The tokenizer of a model that a server runs, with its chat template."""
    from palate.engine._chat import load_chat
    from palate.engine._weights import tokenizer_folder

    return load_chat(name, tokenizer_folder(name), trust_remote_code=yes(trust_remote_code))


def yes(text: str) -> bool:
    """Read an option that is true or false."""
    if text not in ("true", "false"):
        raise PalateError(f"expected true or false, and {text!r} was given")
    return text == "true"


def _number(text: str | None, option: str) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        raise PalateError(f"option {option}={text}: expected a number") from None


def _prices(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        into, out = (float(number) for number in text.split("/"))
    except ValueError:
        raise PalateError(f"option prices={text}: write what a million tokens cost, in and out: 0.5/1.5") from None
    return into, out
