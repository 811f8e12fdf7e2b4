"""O = softmax(Q K^T / sqrt(head_dim)) V, row by row, over the keys that a query sees."""

from collections.abc import Iterator
from typing import Any

BATCHED = True
SPLIT = "batch_heads"

AT_ONCE = 1 << 24
"""Scores held at once: with what is made of them about 1 GiB."""


def reference(xp: Any, *, Q: Any, K: Any, V: Any, causal: int) -> dict[str, Any]:
    out = xp.empty(Q.shape)
    for part, weights in _weights(xp, Q, K, causal):
        total = weights.sum(axis=-1, keepdims=True)
        _flat(out)[part] = weights @ _flat(V)[part[0]] / total
    return {"O": out}


def scale(xp: Any, *, Q: Any, K: Any, V: Any, causal: int) -> dict[str, Any]:
    """What the error of an honest kernel is bounded by, in units of u = 2^-11.

    With y = sum_j p_j v_j:

    - Storing y rounds it: |y|.
    - exp(s_j - m) may be rounded to half, relative to the largest one so far: at most
      max(p_j, 2^-14 p_max) |v_j| for each key, the second where halves are subnormal. The sum that
      is divided by may be of the rounded ones, which moves y by as much as |y| more; the limit of
      1.6 units covers that, because roundings are not all as large as they can be, one way.
    - A float32 score is off by d_j <= 16 2^-24 a_j: a_j = |q| |k_j| / sqrt(head_dim) bounds its
      terms' magnitudes by Euclidean norms, and a chain of 256 of them rounds with a standard
      deviation of 4 units at most. To first order that moves y by sum_j p_j d_j (v_j - y), so by
      Cauchy's inequality by at most the root of sum_j p_j d_j^2 times sum_j p_j (v_j - y)^2.
      Inputs keep a_j below about 1e5, where it is the first order that counts.
    """
    bound = xp.empty(Q.shape)
    norms = xp.square(K).sum(axis=-1, keepdims=True)
    unit = 16 * 2.0**-13 / Q.shape[-1] ** 0.5
    for part, weights in _weights(xp, Q, K, causal):
        head, rows = part
        total = weights.sum(axis=-1, keepdims=True)
        v = _flat(V)[head]
        moments = weights @ xp.concatenate((v, xp.square(v), _flat(norms)[head]), axis=-1) / total
        y, square, norm = xp.split(moments, (v.shape[-1], 2 * v.shape[-1]), axis=-1)
        q = xp.sqrt(xp.square(_flat(Q)[part]).sum(axis=-1, keepdims=True))
        spread = xp.sqrt(xp.maximum(square - xp.square(y), 0) * norm) * q
        seen = weights >= 0 if not causal else _seen(xp, rows, weights.shape[-1])
        rounded = xp.where(seen, xp.maximum(weights, 2.0**-14), 0) @ xp.abs(v) / total
        _flat(bound)[part] = xp.abs(y) + rounded + unit * spread
    return {"O": bound}


def _weights(xp: Any, Q: Any, K: Any, causal: int) -> Iterator[tuple[tuple[slice, slice], Any]]:
    """Yield parts of heads and rows with exp(s - max s), of which one is 1 in each row."""
    q, k = _flat(Q), _flat(K)
    heads, length, width = q.shape
    at_once = max(1, AT_ONCE // (length * length))
    step = max(1, min(length, AT_ONCE // length))
    for first in range(0, heads, at_once):
        head = slice(first, first + at_once)
        for top in range(0, length, step):
            rows = slice(top, min(top + step, length))
            scores = q[head, rows] @ xp.swapaxes(k[head], -1, -2) / width**0.5
            if causal:
                scores = xp.where(_seen(xp, rows, length), scores, -xp.inf)
            scores -= scores.max(axis=-1, keepdims=True)
            yield (head, rows), xp.exp(scores)


def _seen(xp: Any, rows: slice, length: int) -> Any:
    return xp.arange(length) <= xp.arange(rows.start, rows.stop)[:, None]


def _flat(array: Any) -> Any:
    """Return a view with calls and heads on one axis."""
    return array.reshape(-1, *array.shape[-2:])
