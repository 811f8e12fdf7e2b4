"""The documents that `--json` prints: one a command, its answer or why there is none."""

import json
import math
from collections.abc import Mapping
from typing import Any

import typer

from cuda_llm.errors import ERROR_CODES

ERROR_SCHEMA = 1


class Printed:
    """Whether the command at work has printed its document: there is one at most."""

    document = False


def print_document(text: str) -> None:
    """Print the document of the command at work."""
    Printed.document = True
    typer.echo(text)


def error_text(message: str, exit_code: int) -> str:
    """Spell why a command ended without its answer (docs/schemas/error.schema.json)."""
    error = {"code": ERROR_CODES[exit_code], "message": message, "exit_code": exit_code}
    return json_text({"schema": ERROR_SCHEMA, "error": error})


def json_text(document: Mapping[str, Any]) -> str:
    """Spell a document as JSON. Numbers that are not finite become null."""
    return json.dumps(without_infinities(document), indent=2, allow_nan=False)


def without_infinities(value: Any) -> Any:
    """Return the value in JSON's own types."""
    if isinstance(value, Mapping):
        return {str(key): without_infinities(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_infinities(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
