"""Plans of tiny studies, as text."""

from __future__ import annotations

import json
from collections.abc import Mapping

BENCHMARK = "sim,users=8,items=2,seed=3"
OTHERS = "sim,users=6,items=2,seed=90"
VIEW = "judgements:4"


def table(kind: str, keys: Mapping[str, object] | None = None, /, **more: object) -> str:
    """One table of a plan. JSON's strings, numbers, booleans and lists are TOML's too."""
    lines = [f"{json.dumps(key)} = {_value(value)}" for key, value in {**(keys or {}), **more}.items()]
    return "\n".join([f"[[{kind}]]", *lines, "", ""])


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_value(one)}" for key, one in value.items()) + "}"
    return json.dumps(value).replace("NaN", "nan")


def model(rm: str, *views: str, **more: object) -> str:
    return table("models", rm=rm, views=list(views or ("none",)), **more)


def trained(name: str, **more: object) -> str:
    given = {"name": name, "method": "per-user", "features": "traits", "data": OTHERS, "views": [VIEW]}
    return table("train", given | more)


def predictor(name: str = "bench", **more: object) -> str:
    return table("predictors", {"name": name, "benchmark": BENCHMARK} | more)


def best_of(policy: object, name: str = "best of 3", **more: object) -> str:
    given = {"kind": "best-of-n", "name": name, "benchmark": BENCHMARK, "critic": "sim", "policy": str(policy)}
    return table("downstream", given | {"samples": 3, "tokens": 12} | more)


def guided(policy: object, name: str = "guided", **more: object) -> str:
    given = {"kind": "guide", "name": name, "benchmark": BENCHMARK, "policy": str(policy)}
    return table("downstream", given | {"top_k": 2, "tokens": 4, "limit": 4} | more)


def ppo(policy: object, name: str = "ppo", **more: object) -> str:
    training = {
        "steps": 2,
        "prompts": 2,
        "samples": 2,
        "tokens": 12,
        "minibatches": 1,
        "test_samples": 2,
        "learning_rate": 0.03,
    }
    given = {"kind": "ppo", "name": name, "benchmark": BENCHMARK, "critic": "sim", "policy": str(policy)}
    return table("downstream", given | {"training": training | {"unscored": "leave-out"}} | more)


def reach(policy: object, name: str = "reach", **more: object) -> str:
    given = {"kind": "reach", "name": name, "benchmark": BENCHMARK, "critic": "sim", "policy": str(policy)}
    return table("downstream", given | {"samples": 4, "tokens": 12} | more)
