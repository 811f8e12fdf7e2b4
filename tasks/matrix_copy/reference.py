"""B = A."""

from typing import Any

BATCHED = True
PROMOTED = False


def reference(xp: Any, *, A: Any) -> dict[str, Any]:
    return {"B": A}
