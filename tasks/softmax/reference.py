"""y = exp(x - m) / sum(exp(x - m)), m the largest number of the row."""

import math
from typing import Any

BATCHED = True
SPLIT = "rows"


def reference(xp: Any, *, x: Any) -> dict[str, Any]:
    return {"y": _softmax(xp, _below_largest(xp, x))}


def scale(xp: Any, *, x: Any, cols: int) -> dict[str, Any]:
    """What rounding does to an element.

    With d = x - m rounded once, and log2(e) d in front of the exponential of base 2, exp(d) is off
    by a few |d| rounding units: the numerator by those of its own d, the sum by their mean, which
    is at most log(cols). The sum's terms are of one sign: a chain of additions is off by about
    sqrt(cols) / 4 units where roundings are random, by several times that where small terms go
    under.
    """
    x = _below_largest(xp, x)
    y = _softmax(xp, x)
    distance = xp.abs(x)
    mean = xp.sum(y * distance, axis=-1, keepdims=True)
    return {"y": y * (1 + distance + mean + math.sqrt(cols) / 4)}


def _below_largest(xp: Any, x: Any) -> Any:
    return x - xp.max(x, axis=-1, keepdims=True)


def _softmax(xp: Any, below: Any) -> Any:
    y = xp.exp(below)
    return y / xp.sum(y, axis=-1, keepdims=True)
