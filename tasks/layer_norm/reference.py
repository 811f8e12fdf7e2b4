"""y = (x - mean) / sqrt(variance + eps), mean and biased variance over the second axis."""

from typing import Any

BATCHED = True
SPLIT = "N"


def reference(xp: Any, *, x: Any, eps: float) -> dict[str, Any]:
    centred = x - xp.mean(x, axis=-3, keepdims=True)
    return {"y": centred / _deviation(xp, centred, eps)}


def scale(xp: Any, *, x: Any, eps: float) -> dict[str, Any]:
    """What rounding does to an element.

    A mean in float32 is off by a few units of mean(|x|), which moves every element of its position
    by that over the deviation; differences from it are rounded once, and squares of them are of one
    sign, so the deviation is off by a few of its own units. Nothing is amplified further. The
    difference of two means of squares is: it is off by units of mean(x^2).
    """
    centred = x - xp.mean(x, axis=-3, keepdims=True)
    size = xp.mean(xp.abs(x), axis=-3, keepdims=True)
    return {"y": (xp.abs(centred) + size) / _deviation(xp, centred, eps)}


def _deviation(xp: Any, centred: Any, eps: float) -> Any:
    return xp.sqrt(xp.mean(centred * centred, axis=-3, keepdims=True) + eps)
