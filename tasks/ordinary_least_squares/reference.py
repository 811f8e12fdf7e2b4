"""beta = (X^T X)^-1 X^T y in float64, and once more for what that leaves."""

from collections.abc import Iterator
from typing import Any

BATCHED = True
PROMOTED = False

_ELEMENTS = 1 << 23
"""Elements of X that are held in float64 at once."""
_ROUNDING = 2.0**-24
_LEAST = 2.0**-900
"""Keeps a sum of nothing but zeros from being a divisor."""


def _parts(X: Any) -> Iterator[slice]:
    rows = X.shape[-2]
    step = max(1, _ELEMENTS // max(1, X.size // rows))
    for first in range(0, rows, step):
        yield slice(first, first + step)


def _products(xp: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return A^T A, and the same of A's squares, where A is X with y as its last column."""
    *calls, _, columns = X.shape
    sums = xp.zeros((*calls, columns + 1, columns + 1))
    squares = xp.zeros_like(sums)
    for part in _parts(X):
        both = xp.concatenate((X[..., part, :], y[..., part, None]), axis=-1).astype(xp.float64)
        sums += xp.swapaxes(both, -1, -2) @ both
        both *= both
        squares += xp.swapaxes(both, -1, -2) @ both
    return sums, squares


def _solution(xp: Any, sums: Any) -> tuple[Any, Any]:
    inverse = xp.linalg.inv(sums[..., :-1, :-1])
    return inverse, inverse @ sums[..., :-1, -1:]


def reference(xp: Any, *, X: Any, y: Any) -> dict[str, Any]:
    inverse, beta = _solution(xp, _products(xp, X, y)[0])
    rest = xp.zeros_like(beta)
    for part in _parts(X):
        samples = X[..., part, :].astype(xp.float64)
        rest += xp.swapaxes(samples, -1, -2) @ (y[..., part, None] - samples @ beta)
    beta = beta + inverse @ rest
    return {"beta": beta[..., 0]}


def _drift(xp: Any, sums: Any, squares: Any, rows: int) -> Any:
    """Return the drift of a float32 chain of `rows` products, over 16 u.

    The mean rounding error of an addition is about u S_k times u S_k over the width of the
    products' distribution, at most about u S_k / 8. The width is the products' mean times the part
    of them that the sum rests on, sum^2 / (m sum a^2). Added up over the chain that is m u |sum|
    times the smaller of m u m sum a^2 / (6 sum^2) and 1/8. Measured drifts of chains of 2^18
    to 2^22 products are 0.3 to 0.7 times that.
    """
    drifts = rows * _ROUNDING
    spread = rows * squares / xp.maximum(sums * sums, _LEAST)
    return rows * xp.abs(sums) * xp.minimum(drifts * spread / 6, 1 / 8) / 16


def scale(xp: Any, *, X: Any, y: Any) -> dict[str, Any]:
    """|G^-1| (e_c + (e_G + 2 d d^T) |beta|), with G = X^T X, c = X^T y, d_i^2 = G_ii.

    G and c with errors E and f give beta + G^-1 (f - E beta) to first order. A chain of m additions
    of products a_k in one accumulator is off by about 0.4 u sqrt(sum S_k^2), S_k its partial sums;
    with rows in no order S_k is k/m of the sum, give or take sqrt(k mean(a^2)). Hence sqrt(m) |sum|
    / 2 + sqrt(m sum a^2) is at least twice that for every element of G and c: their e. A Cholesky
    or LDL^T decomposition solves with G off by a few u d d^T (Higham, Accuracy and Stability of
    Numerical Algorithms, section 10.1). So the condition of G is in the scale as |G^-1| d d^T.

    One accumulator of a million products drifts besides: where a product is no longer large beside
    the spacing of the sum, rounding errors stop cancelling. See `_drift`.
    """
    sums, squares = _products(xp, X, y)
    inverse, beta = _solution(xp, sums)
    rows = X.shape[-2]
    errors = rows**0.5 * (xp.abs(sums) / 2 + xp.sqrt(squares)) + _drift(xp, sums, squares, rows)
    lengths = xp.sqrt(xp.diagonal(sums, axis1=-2, axis2=-1))[..., :-1, None]
    sizes = xp.abs(beta)
    total = errors[..., :-1, -1:] + errors[..., :-1, :-1] @ sizes
    total += 2 * lengths * (xp.swapaxes(lengths, -1, -2) @ sizes)
    return {"beta": (xp.abs(inverse) @ total)[..., 0]}
