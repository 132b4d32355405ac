"""The published JSON Schemas are those of the code, and fit the files that palate ships."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from palate.data import json_schemas

ROOT = Path(__file__).parents[2]
MINI = ROOT / "src" / "palate" / "data" / "mini"


@pytest.mark.parametrize("name", sorted(json_schemas()))
def test_the_published_schema_is_up_to_date(name: str) -> None:
    published = json.loads((ROOT / "docs" / "schemas" / f"{name}.json").read_text())
    assert published == json_schemas()[name], "run: palate data schema --out docs/schemas"
    jsonschema.Draft202012Validator.check_schema(published)


@pytest.mark.parametrize("name", ["users", "comparisons"])
def test_mini_fits_its_schema(name: str) -> None:
    validator = jsonschema.Draft202012Validator(json_schemas()[name])
    lines = (MINI / f"{name}.jsonl").read_text().splitlines()
    assert lines and not [line for line in lines if not validator.is_valid(json.loads(line))]


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("comparisons", {"id": "1", "user_id": "a", "question": "?", "chosen": "x"}),
        ("comparisons", {"id": "1", "user_id": "a", "chosen": "x", "rejected": "y"}),
        ("completions", {"id": "1", "user_id": "a", "text": "x"}),
        ("exchange", {"user_id": "a"}),
        ("exchange", {"user_id": "a", "preferences": []}),
        ("users", {"user_id": {}}),
        ("card", {"name": "x"}),
    ],
)
def test_what_the_loader_refuses_the_schema_refuses(name: str, record: object) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(json_schemas()[name]).validate(record)
