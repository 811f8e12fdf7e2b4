"""The maximum along one axis after the other: the window is a cube, so the axes separate."""

from typing import Any

BATCHED = True
PROMOTED = False
SPLIT = "N"


def reference(
    xp: Any, *, input: Any, kernel: int, stride: int, padding: int, dilation: int
) -> dict[str, Any]:
    output = input
    for axis in (-1, -2, -3):
        extent = output.shape[axis]
        places = (extent + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        pooled = None
        for tap in range(kernel):
            at = xp.arange(places) * stride - padding + tap * dilation
            values = xp.take(output, xp.clip(at, 0, extent - 1), axis=axis)
            inside = ((at >= 0) & (at < extent)).reshape(-1, *(1,) * (-1 - axis))
            values = xp.where(inside, values, xp.asarray(-xp.inf, input.dtype))
            pooled = values if pooled is None else xp.maximum(pooled, values)
        output = pooled
    return {"output": xp.ascontiguousarray(output).astype(xp.float64)}
