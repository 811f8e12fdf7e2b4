"""Softmax of scaled products, head by head, a few heads at a time."""

from collections.abc import Iterator
from typing import Any

BATCHED = True
PROMOTED = False

_SCORES = 1 << 25
"""Scores that are held at once, unless one head has more."""


def _by_heads(xp: Any, Q: Any, K: Any, V: Any, h: int) -> Iterator[tuple[slice, Any, Any, Any]]:
    """Yield columns, and Q, K and V of their heads as (..., heads, N, width) in float64."""
    *calls, rows, columns = Q.shape
    width = columns // h
    each = rows * rows
    for extent in calls:
        each *= extent
    step = max(1, _SCORES // each)
    for first in range(0, h, step):
        part = slice(first * width, min(first + step, h) * width)
        heads = (
            xp.swapaxes(a[..., part].astype(xp.float64).reshape(*calls, rows, -1, width), -2, -3)
            for a in (Q, K, V)
        )
        yield part, *heads


def _joined(xp: Any, heads: Any) -> Any:
    """Return (..., heads, N, width) as (..., N, heads * width)."""
    turned = xp.swapaxes(heads, -2, -3)
    return turned.reshape(*turned.shape[:-2], -1)


def _weights(xp: Any, q: Any, k: Any) -> tuple[Any, Any]:
    """Return the softmax, and how far each score lies below its row's largest."""
    scores = q @ xp.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    below = xp.max(scores, axis=-1, keepdims=True) - scores
    weights = xp.exp(-below)
    return weights / xp.sum(weights, axis=-1, keepdims=True), below


def reference(xp: Any, *, Q: Any, K: Any, V: Any, h: int) -> dict[str, Any]:
    output = xp.empty(V.shape, xp.float64)
    for part, q, k, v in _by_heads(xp, Q, K, V, h):
        weights, _ = _weights(xp, q, k)
        output[..., part] = _joined(xp, weights @ v)
    return {"output": output}


def scale(xp: Any, *, Q: Any, K: Any, V: Any, h: int) -> dict[str, Any]:
    """sum_j p_j b_j (|v_j| + |y|) with b_j = 1 + |q| |k_j| / sqrt(w) + (largest score - score_j).

    A score is off by a few u |q| |k_j| / sqrt(w), its difference from the largest by as many u of
    itself, exp by a few u: p_j has the relative error d_j of a few u b_j before it is normalised.
    To first order y is then off by sum_j p_j d_j (v_j - y), and its sums by u sum_j p_j |v_j|
    a step.
    """
    units = xp.empty(V.shape, xp.float64)
    for part, q, k, v in _by_heads(xp, Q, K, V, h):
        weights, below = _weights(xp, q, k)
        sizes = xp.abs(q) @ xp.swapaxes(xp.abs(k), -1, -2) / q.shape[-1] ** 0.5
        shares = weights * (1 + sizes + below)
        each = shares @ xp.abs(v)
        each += xp.sum(shares, axis=-1, keepdims=True) * xp.abs(weights @ v)
        units[..., part] = _joined(xp, each)
    return {"output": units}
