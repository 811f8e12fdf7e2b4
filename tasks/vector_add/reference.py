"""C = A + B."""

from typing import Any

SPLIT = "n"


def reference(xp: Any, *, A: Any, B: Any) -> dict[str, Any]:
    return {"C": A + B}
