"""result[0] = the sum of a * b."""

from typing import Any

BATCHED = True


def reference(xp: Any, *, a: Any, b: Any) -> dict[str, Any]:
    return {"result": xp.sum(a * b, axis=-1, keepdims=True)}


def scale(xp: Any, *, a: Any, b: Any) -> dict[str, Any]:
    return {"result": xp.sum(xp.abs(a * b), axis=-1, keepdims=True)}
