"""Valid cross-correlation: a row of the filter at a time, as a product with a banded matrix."""

from typing import Any

BATCHED = True

BLOCK = 64
"""Columns of the output that one row of a product makes."""


def reference(xp: Any, *, input: Any, filter: Any) -> dict[str, Any]:
    *calls, height, _ = input.shape
    taps = filter.shape[-1]
    rows, columns = height - filter.shape[-2] + 1, input.shape[-1] - taps + 1
    width = min(BLOCK, columns)
    blocks, reach = -(-columns // width), width + taps - 1
    # Blocks of the input overlap by the filter; zeros fill up the last one.
    windows = xp.zeros((*calls, height, blocks, reach))
    for block in range(blocks):
        part = input[..., block * width : block * width + reach]
        windows[..., block, : part.shape[-1]] = part
    shift = xp.arange(reach)[:, None] - xp.arange(width)
    inside = (shift >= 0) & (shift < taps)
    bands = xp.where(inside, xp.take(filter, xp.where(inside, shift, 0), axis=-1), 0.0)
    output = xp.zeros((*calls, rows * blocks, width))
    for r in range(filter.shape[-2]):
        below = windows[..., r : r + rows, :, :].reshape(*calls, rows * blocks, reach)
        output += below @ bands[..., r, :, :]
    side_by_side = output.reshape(*calls, rows, blocks * width)
    return {"output": xp.ascontiguousarray(side_by_side[..., :columns])}


def scale(xp: Any, *, input: Any, filter: Any) -> dict[str, Any]:
    return reference(xp, input=xp.abs(input), filter=xp.abs(filter))
