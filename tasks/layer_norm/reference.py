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
    by that over the deviation. Differences from it are rounded once, and the deviation is off by a
    few of its own units. Both grow like the error of a chain of C additions, about sqrt(C) / 4
    units and several times that where terms of one sign are nearly equal, or small. Nothing is
    amplified further. A mean of squares less the square of the mean would be: it is off by units of
    mean(x^2).
    """
    centred = x - xp.mean(x, axis=-3, keepdims=True)
    size = xp.mean(xp.abs(x), axis=-3, keepdims=True)
    chain = 1 + math.sqrt(C) / 16
    return {"y": chain * (xp.abs(centred) + size) / _deviation(xp, centred, eps)}


def _deviation(xp: Any, centred: Any, eps: float) -> Any:
    return xp.sqrt(xp.mean(centred * centred, axis=-3, keepdims=True) + eps)
