"""The page and the schema of the events are what the code says, and the schema fits every line."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from event_reference import event_schema, event_table
from recorded_run import OTHERS, beginning, ending

from cuda_llm.traces.event_line import now, to_line
from cuda_llm.traces.events import Event

DOCS = Path(__file__).parents[2] / "docs"
BEGIN = "<!-- events: python scripts/event_reference.py table -->\n"
END = "<!-- end of events -->"


@pytest.fixture(scope="module")
def written() -> dict[str, Any]:
    """The schema as it lies in the repository."""
    schema: dict[str, Any] = json.loads((DOCS / "schemas/events.schema.json").read_text())
    return schema


def test_the_schema_is_that_of_the_code(written: dict[str, Any]) -> None:
    """Fixed with: python scripts/event_reference.py schema"""
    assert written == event_schema()


def test_the_page_lists_every_event_and_its_fields() -> None:
    _, _, rest = (DOCS / "traces.md").read_text().partition(BEGIN)
    table, found, _ = rest.partition(END)
    assert found
    assert table.strip() == event_table().strip()


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
