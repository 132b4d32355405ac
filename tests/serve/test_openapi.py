"""The server does what its OpenAPI schema says, whatever is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from reward_server import http, reward_server

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


def without_limits(schema: Any) -> Any:
    """What is too long is made of so many bytes that it is refused with 413, before anything else is looked at."""
    if isinstance(schema, dict):
        return {key: without_limits(value) for key, value in schema.items() if key not in ("maxLength", "maxItems")}
    return [without_limits(one) for one in schema] if isinstance(schema, list) else schema


@pytest.fixture(scope="module")
def described() -> Iterator[BaseSchema]:
    with reward_server("--rm", "longest", "--rm", "overlap", "--max-wait-ms", "0") as server:
        raw = http.get(f"{server.address}/openapi.json").json()
        for path in raw["paths"].values():  # a fingerprint made up at random is refused before the body is looked at
            if "post" in path:
                kept = [one for one in path["post"]["parameters"] if one["name"] != "model"]
                path["post"]["parameters"] = kept
        schema = schemathesis.openapi.from_dict(without_limits(raw))
        schema.config.update(base_url=server.address, request_timeout=300)
        yield schema


OPERATIONS = [
    f"{method} {prefix}{path}"
    for prefix in ("", "/models/{number}")
    for method, path in (("GET", "/health"), ("POST", "" if prefix else "/"), ("POST", "/get_reward"))
] + ["GET /ready", "GET /metrics"]


def test_every_operation_is_tried(described: BaseSchema) -> None:
    assert {found.ok().label for found in described.get_all_operations()} == set(OPERATIONS)


@pytest.mark.parametrize("mode", GenerationMode, ids=lambda mode: mode.value)
@pytest.mark.parametrize("label", OPERATIONS)
def test_the_server_does_as_it_says(described: BaseSchema, label: str, mode: GenerationMode) -> None:
    [operation] = [one for found in described.get_all_operations() if (one := found.ok()).label == label]

    statuses: set[int] = set()

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def check(case: Case) -> None:
        statuses.add(case.call_and_validate(checks=CHECKS).status_code)

    if mode is GenerationMode.POSITIVE or label != "GET /metrics":  # which takes nothing that could be wrong
        check()
        assert mode is GenerationMode.NEGATIVE or "get_reward" in label or 200 in statuses
