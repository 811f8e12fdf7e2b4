"""The schema of the events is what the code says, and fits every line."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from event_reference import event_schema
from recorded_run import OTHERS, beginning, ending

from cuda_llm.traces.event_line import now, to_line
from cuda_llm.traces.events import Event

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def written() -> dict[str, Any]:
    """The schema as it lies in the repository."""
    schema: dict[str, Any] = json.loads((DOCS / "schemas/events.schema.json").read_text())
    return schema


def test_the_schema_is_that_of_the_code(written: dict[str, Any]) -> None:
    """Fixed with: python scripts/event_reference.py schema"""
    assert written == event_schema()


@pytest.mark.parametrize("event", [*beginning(), *ending(), *OTHERS], ids=lambda e: str(e.kind))
def test_the_schema_fits_every_line(written: dict[str, Any], event: Event) -> None:
    refused = jsonschema.Draft202012Validator(written).iter_errors(
        json.loads(to_line(event, 1, now()))
    )
    assert [one.message for one in refused] == []


@pytest.mark.parametrize(
    "change", [{"kind": "unheard_of"}, {"seq": 0}, {"v": 1}, {"at": "noon"}, {"round": "x"}]
)
def test_the_schema_refuses_what_no_run_writes(
    written: dict[str, Any], change: dict[str, Any]
) -> None:
    line = json.loads(to_line(OTHERS[1], 1, now()))
    jsonschema.validate(line, written)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(line | change, written)
