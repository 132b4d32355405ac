"""The methods by their names; each is imported when it is used."""

from __future__ import annotations

import importlib

from palate.personal._method import Method
from palate.records import PalateError, unknown_name

METHODS = {
    "bradley-terry": "_bradley_terry:BradleyTerry",
    "gppl": "_gppl:Gppl",
    "per-user": "_per_user:PerUser",
    "demographic": "_demographic:Demographic",
    "history-attention": "_history_attention:HistoryAttention",
    "vpl": "_vpl:Vpl",
    "gpo": "_gpo:Gpo",
    "user-embedding": "_user_embedding:UserEmbedding",
    "lore": "_lore:LoRe",
    "pal": "_pal:Pal",
    "crowd-gppl": "_crowd_gppl:CrowdGppl",
    "ensemble": "_ensemble:Ensemble",
}
"""Impersonal first: it is the one to beat."""
TUNED = ("lora",)
"""Methods that tune a language model instead of standing on frozen features; see `LoraModel`."""


def check_method(name: str) -> None:
    """Refuse a name that no method has."""
    if name not in METHODS and name not in TUNED:
        raise unknown_name("method", name, [*METHODS, *TUNED])


def method_type(name: str) -> type[Method]:
    """The class of a method over frozen features by its name."""
    check_method(name)
    if name in TUNED:
        raise PalateError(f"{name} tunes a language model and has no use for features: make a LoraModel instead")
    file, _, kind = METHODS[name].partition(":")
    found: type[Method] = getattr(importlib.import_module(f"palate.personal.{file}"), kind)
    return found
