"""SiLU of the group norm of x."""

import math
from typing import Any


def _parts(xp: Any, x: Any, gain: Any, shift: Any, eps: float) -> tuple[Any, Any, Any]:
    mean = xp.mean(x, axis=(-2, -1), keepdims=True)
    spread = x - mean
    root = xp.sqrt(xp.mean(spread * spread, axis=(-2, -1), keepdims=True) + eps)
    return mean, root, spread / root * gain[..., None] + shift[..., None]


def reference(xp: Any, *, x: Any, gain: Any, shift: Any, eps: float) -> dict[str, Any]:
    z = _parts(xp, x, gain, shift, eps)[2]
    return {"y": z / (1 + xp.exp(-z))}


def scale(
    xp: Any, *, x: Any, gain: Any, shift: Any, eps: float, width: int, pixels: int
) -> dict[str, Any]:
    """What rounding does to an element: the slope of SiLU is at most 1.1, and what the mean, the
    difference and the variance are off by goes through it; e^-z as far as z is rounded."""
    _, root, z = _parts(xp, x, gain, shift, eps)
    count = width * pixels
    chain = 1 + math.sqrt(count) / 16
    normal = xp.abs(z - shift[..., None])
    size = xp.mean(xp.abs(x), axis=(-2, -1), keepdims=True)
    moved = (xp.abs(x) + chain * size) / root * xp.abs(gain[..., None])
    square = size * size / (root * root)
    inner = moved + normal * chain * (1 + square / 64) + xp.abs(shift[..., None])
    y = z / (1 + xp.exp(-z))
    return {"y": 2 * inner + xp.abs(y) * (1 + xp.minimum(xp.abs(z), 90.0))}
