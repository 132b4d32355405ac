"""A language model by name, wherever it runs, with its answers remembered."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from palate.engine._answers import AnswerCache, CachedLanguageModel
from palate.engine._language import LanguageModel
from palate.records import PalateError, cache_folder, parse_spec, unknown_name

if TYPE_CHECKING:
    from palate.engine._chat import Chat
    from palate.engine._local import LocalModel


class KnownServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that can be named instead of its address: `openai/gpt-4o-mini`."""

    url: str
    key: str
    """The environment variable that holds the key; a server on this machine needs none."""
    logprobs: bool | None = None
    """Whether it tells token probabilities; None where the first answer tells."""
    prefill: bool = False
    """Whether it goes on with an answer that was begun for it."""
    together: bool = True
    """Whether several samples come in one reply."""


SERVERS = {
    "openai": KnownServer(url="https://api.openai.com/v1", key="OPENAI_API_KEY"),
    "anthropic": KnownServer(
        url="https://api.anthropic.com/v1", key="ANTHROPIC_API_KEY", logprobs=False, together=False
    ),
    "vllm": KnownServer(url="http://127.0.0.1:8000/v1", key="VLLM_API_KEY", prefill=True),
    "ollama": KnownServer(url="http://127.0.0.1:11434/v1", key="OLLAMA_API_KEY"),
}
ON_THE_HUB = ("openai/gpt-oss",)
"""Models that their makers serve on the hub only, though a server has the name of the organisation."""
_SERVED = {"openai": re.compile(r"(chat)?gpt-?[345]|o[1345](-|$)"), "anthropic": re.compile("claude")}
"""Names of models whose weights nobody has."""
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
    key: str | None = None,
    most_spent: str | None = None,
    prices: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    trust_remote_code: str = "false",
    tokenizer: str | None = None,
) -> LanguageModel:
    model: LanguageModel
    server = None if url else known_server(name)
    if url or server:
        from palate.engine._remote import RemoteModel

        model = RemoteModel(
            name.partition("/")[2] if server else name,
            base_url=url or (server.url if server else ""),
            key_variable=key or (server.key if server else "OPENAI_API_KEY"),
            most_spent=_number(most_spent, "most_spent"),
            prices=_prices(prices),
            logprobs=server.logprobs if server else None,
            prefill=server.prefill if server else None,
            together=server.together if server else True,
            chat=None if tokenizer is None else load_tokenizer(tokenizer, trust_remote_code),
        )
    else:
        if tokenizer is not None:
            raise PalateError("option tokenizer= goes with url=; a model that runs here has its own tokenizer")
        from palate.engine._local import LocalModel

        _require_weights(name)
        model = LocalModel(name, device=device, dtype=dtype, trust_remote_code=yes(trust_remote_code))
    return CachedLanguageModel(model, AnswerCache(cache_folder() / "answers.sqlite"))


def known_server(name: str) -> KnownServer | None:
    """The server that a name such as `ollama/llama3.2` begins with; a folder of that name is a folder."""
    maker, slash, model = name.partition("/")
    if not (slash and model) or Path(name).is_dir() or name.startswith(ON_THE_HUB):
        return None
    return SERVERS.get(maker)


def _require_weights(name: str) -> None:
    """Refuse a model that is only behind a server, before the hub is asked for it."""
    for maker, known in _SERVED.items():
        if known.match(name) and "/" not in name and not Path(name).is_dir():
            raise PalateError(
                f"{name} runs behind a server, so say which: write {maker}/{name}, or give its address: "
                f"{name},url={SERVERS[maker].url} (any server that speaks the OpenAI chat protocol). To run a model "
                "in this process, give its name on the hub, ORG/NAME, or a folder."
            )


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
