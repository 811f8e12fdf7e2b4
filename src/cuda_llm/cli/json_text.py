"""The documents that `--json` prints."""

import json
import math
from collections.abc import Mapping
from typing import Any


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
