"""output = input transposed."""

from typing import Any

BATCHED = True
PROMOTED = False
SPLIT = "cols"


def reference(xp: Any, *, input: Any) -> dict[str, Any]:
    return {"output": xp.ascontiguousarray(xp.swapaxes(input, -1, -2))}
