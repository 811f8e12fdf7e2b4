"""y[b,t,c] = bias[c] + sum_j filter[c,j] x[b,t-taps+1+j,c]."""

from typing import Any


def reference(xp: Any, *, x: Any, filter: Any, bias: Any, taps: int) -> dict[str, Any]:
    total = xp.zeros(x.shape) + bias
    for tap in range(taps):
        back = taps - 1 - tap
        if back < x.shape[1]:
            total[:, back:] += x[:, : x.shape[1] - back] * filter[:, tap]
    return {"y": total}


def scale(xp: Any, *, x: Any, filter: Any, bias: Any, taps: int) -> dict[str, Any]:
    return reference(xp, x=xp.abs(x), filter=xp.abs(filter), bias=xp.abs(bias), taps=taps)
