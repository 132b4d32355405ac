"""The methods by their names; each is imported when it is used."""

from __future__ import annotations

from palate.personal._method import Method
from palate.records import PalateError, Registry

METHODS: Registry[type] = Registry(
    "method",
    "palate.methods",
    {
        "bradley-terry": ("Impersonal: one taste for everybody.", "palate.personal._bradley_terry:BradleyTerry"),
        "gppl": ("Impersonal: one smooth taste for everybody, by a Gaussian process.", "palate.personal._gppl:Gppl"),
        "per-user": ("Everybody's taste, moved by each user's own judgements.", "palate.personal._per_user:PerUser"),
        "demographic": (
            "Everybody's taste, moved by the groups a user belongs to.",
            "palate.personal._demographic:Demographic",
        ),
        "history-attention": (
            "Attention over what the user wrote and chose.",
            "palate.personal._history_attention:HistoryAttention",
        ),
        "vpl": ("A taste inferred from the user's choices, and how sure it is.", "palate.personal._vpl:Vpl"),
        "gpo": ("A small transformer that reads the user's choices.", "palate.personal._gpo:Gpo"),
        "user-embedding": ("A short vector for each user.", "palate.personal._user_embedding:UserEmbedding"),
        "lore": ("A few reward functions shared by everybody, mixed for each user.", "palate.personal._lore:LoRe"),
        "pal": ("An ideal point among a few prototypes.", "palate.personal._pal:Pal"),
        "crowd-gppl": (
            "A consensus, and a few smooth tastes mixed for each user.",
            "palate.personal._crowd_gppl:CrowdGppl",
        ),
        "ensemble": ("The average of several methods' rewards.", "palate.personal._ensemble:Ensemble"),
        "lora": ("A language model tuned to read the profile, by LoRA.", "palate.personal:LoraModel"),
    },
)
"""Impersonal first: it is the one to beat."""
TUNED = ("lora",)
"""Methods that tune a language model instead of standing on frozen features; see `LoraModel`."""


def check_method(name: str) -> None:
    """Refuse what names no method; a built-in one is not imported for that."""
    if name not in METHODS:
        method_type(name)


def method_type(name: str) -> type[Method]:
    """The class of a method over frozen features: by name, or `./file.py:Name`."""
    if name in TUNED:
        raise PalateError(f"{name} tunes a language model and has no use for features: make a LoraModel instead")
    found = METHODS.find(name)
    if found.spec.argument is not None:
        raise PalateError(f"{name!r}: a method takes no argument")
    if not (isinstance(found.target, type) and issubclass(found.target, Method)):
        raise PalateError(f"{name} is no method: it has to be a class that extends palate.personal.Method")
    return found.target


def plug_in_source(name: str) -> str:
    """The version or hash of a method that is not built in; palate's own version tells that of the others."""
    return "" if METHODS.is_built_in(name) else METHODS.find(name).source
