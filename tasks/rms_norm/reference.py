"""y = x / sqrt(mean(x^2) + eps) * weight."""

import math
from typing import Any

BATCHED = True
SPLIT = "rows"


def reference(xp: Any, *, x: Any, weight: Any, eps: float) -> dict[str, Any]:
    mean = xp.mean(x * x, axis=-1, keepdims=True)
    return {"y": x / xp.sqrt(mean + eps) * weight[..., None, :]}


def scale(xp: Any, *, x: Any, weight: Any, eps: float, cols: int) -> dict[str, Any]:
    """What rounding does to an element.

    The quotient and the product round a few times, each by a unit of the element. The squares are
    of one sign: as a chain of additions their sum is off by about sqrt(cols) / 4 units, of which
    the root leaves half; limits are a few times this.
    """
    y = reference(xp, x=x, weight=weight, eps=eps)["y"]
    return {"y": (1 + math.sqrt(cols) / 16) * xp.abs(y)}
