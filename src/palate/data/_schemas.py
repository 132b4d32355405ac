"""JSON Schemas of the files, generated from the types that read them."""

from __future__ import annotations

import msgspec

from palate.data._wire import WireComparison, WireCompletion, WireUser
from palate.records import Card

Schema = dict[str, object]

_PROMPT: Schema = {"anyOf": [{"required": ["question"]}, {"required": ["prompt"]}]}
_CHOICE: Schema = {"anyOf": [{"required": ["chosen", "rejected"]}, {"required": ["responses", "preferred"]}]}
_PREFERENCES: Schema = {"required": ["preferences"], "properties": {"preferences": {"minItems": 1}}}


def json_schemas() -> dict[str, Schema]:
    """The schema of one record of each kind: users, comparisons, completions, card and exchange.

    >>> sorted(json_schemas())
    ['card', 'comparisons', 'completions', 'exchange', 'users']
    """
    return {
        "users": _schema("users", WireUser),
        "comparisons": _schema("comparisons", WireComparison, _PROMPT, _CHOICE),
        "completions": _schema("completions", WireCompletion, _PROMPT),
        "card": _schema("card", Card),
        "exchange": _schema("exchange", WireUser, _PREFERENCES),
    }


def _schema(name: str, kind: type, *rules: Schema) -> Schema:
    schema: Schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"palate {name}",
        **msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(kind))),
    }
    return {**schema, "allOf": list(rules)} if rules else schema
