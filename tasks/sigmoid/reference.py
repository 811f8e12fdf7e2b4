"""y = 1 / (1 + exp(-x)), by the exponential that cannot overflow."""

from typing import Any

BATCHED = True
SPLIT = "n"

FLUSHED = 2.0**-103
"""Two rounding units of it are 2^-126: a subnormal result may become 0.

So it does where exp(-x) overflows.
"""


def reference(xp: Any, *, x: Any) -> dict[str, Any]:
    small = xp.exp(-xp.abs(x))
    return {"y": xp.where(x < 0, small, 1.0) / (1.0 + small)}


def scale(xp: Any, *, x: Any) -> dict[str, Any]:
    """Bounds any way of computing exp(x log2(e)) in float32, and nothing less exact.

    With q = 1 - y the condition number of y in x is |x| q. A kernel that rounds x log2(e), the
    constant included, to float32 is off by 1.3 |x| q u there; the exponential (2 ulp = 4 u) adds
    4 q u, the sum 1 u and the division (2 ulp at most) 4 u: (5 + 4 q + 1.3 |x| q) u. That is
    within 8 (1 + |x| q) u: where q > 0.75, x is below -1.09 and |x| q above 0.8.
    """
    small = xp.exp(-xp.abs(x))
    rest = xp.where(x < 0, 1.0, small) / (1.0 + small)
    value = xp.where(x < 0, small, 1.0) / (1.0 + small)
    return {"y": value * (1.0 + xp.abs(x) * rest) + FLUSHED}
