"""Valid cross-correlation: a row of the filter at a time, as a product with a banded matrix."""

from typing import Any

BLOCK = 64
"""Columns of the output that one product makes."""


def reference(xp: Any, *, input: Any, filter: Any) -> dict[str, Any]:
    taps = filter.shape[1]
    rows, columns = input.shape[0] - filter.shape[0] + 1, input.shape[1] - taps + 1
    width = min(BLOCK, columns)
    blocks = -(-columns // width)
    # Blocks of the input overlap by the filter; zeros fill up the last one.
    padded = xp.zeros((input.shape[0], blocks * width + taps - 1))
    padded[:, : input.shape[1]] = input
    windows = xp.empty((blocks, input.shape[0], width + taps - 1))
    for block in range(blocks):
        windows[block] = padded[:, block * width : (block + 1) * width + taps - 1]
    shift = xp.arange(width + taps - 1)[:, None] - xp.arange(width)
    inside = (shift >= 0) & (shift < taps)
    bands = xp.where(inside, xp.take(filter, xp.where(inside, shift, 0), axis=1), 0.0)
    output = xp.zeros((blocks, rows, width))
    for r in range(filter.shape[0]):
        output += windows[:, r : r + rows] @ bands[r]
    side_by_side = xp.concatenate([output[block] for block in range(blocks)], axis=1)
    return {"output": xp.ascontiguousarray(side_by_side[:, :columns])}


def scale(xp: Any, *, input: Any, filter: Any) -> dict[str, Any]:
    return reference(xp, input=xp.abs(input), filter=xp.abs(filter))
