"""y = (x - mean) / sqrt(variance + eps), mean and biased variance over the second axis."""

import math
from typing import Any

BATCHED = True
SPLIT = "N"


def reference(xp: Any, *, x: Any, eps: float) -> dict[str, Any]:
    centred = x - xp.mean(x, axis=-3, keepdims=True)
    return {"y": centred / _deviation(xp, centred, eps)}


def scale(xp: Any, *, x: Any, eps: float, C: int) -> dict[str, Any]:
    """What rounding does to an element.

    A mean in float32 is off by a few units of mean(|x|), which moves every element of its position
    by that over the deviation. Differences from it are rounded once. Squares of them are of one
    sign: as a chain of additions their sum is off by about sqrt(C) / 4 units, several times that
    where small ones go under, and the root leaves half. Nothing is amplified further. The difference
    of two means of squares is: it is off by units of mean(x^2).
    """
    centred = x - xp.mean(x, axis=-3, keepdims=True)
    size = xp.mean(xp.abs(x), axis=-3, keepdims=True)
    own = (1 + math.sqrt(C) / 16) * xp.abs(centred)
    return {"y": (own + size) / _deviation(xp, centred, eps)}


def _deviation(xp: Any, centred: Any, eps: float) -> Any:
    return xp.sqrt(xp.mean(centred * centred, axis=-3, keepdims=True) + eps)
