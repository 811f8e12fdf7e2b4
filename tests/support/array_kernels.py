"""Honest ways to do the six tasks in the arithmetic kernels use, one function each."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from measured_site import Buffers, Candidate

from cuda_llm.tools.device import CallOptions

Array = npt.NDArray[Any]
Compute = Callable[[Buffers], Array]

OUTPUTS = {
    "vector_add": "C",
    "matrix_multiplication": "C",
    "matrix_transpose": "output",
    "reduction": "output",
    "histogram": "histogram",
    "conv2d": "output",
}


def writes(task: str, compute: Compute) -> Candidate:
    """A candidate that writes what `compute` returns."""

    def candidate(buffers: Buffers, options: CallOptions) -> None:
        buffers[OUTPUTS[task]][...] = compute(buffers)

    return candidate


def fused(total: Array, one: Array, other: Array | np.floating[Any]) -> Array:
    """total + one * other, rounded once: the product of two float32 is exact in float64."""
    rounded: Array = (total.astype(np.float64) + one.astype(np.float64) * other).astype(np.float32)
    return rounded


def add(b: Buffers) -> Array:
    return b["A"] + b["B"]


def add_fused(b: Buffers) -> Array:
    return fused(b["B"], b["A"], np.float32(1))


def multiply_in_order(b: Buffers, accumulator: npt.DTypeLike = np.float32) -> Array:
    total = np.zeros(b["C"].shape, accumulator)
    for k in range(b["A"].shape[1]):
        total += (b["A"][:, k : k + 1] * b["B"][k]).astype(accumulator)
    return total.astype(np.float32)


def multiply_fused(b: Buffers) -> Array:
    total = np.zeros(b["C"].shape, np.float32)
    for k in range(b["A"].shape[1]):
        total = fused(total, b["A"][:, k : k + 1], b["B"][k])
    return total


def multiply_tiled(b: Buffers) -> Array:
    total = np.zeros(b["C"].shape, np.float32)
    for k in range(0, b["A"].shape[1], 16):
        total += b["A"][:, k : k + 16] @ b["B"][k : k + 16]
    return total


def multiply_split(b: Buffers) -> Array:
    half = b["A"].shape[1] // 2
    second: Array = b["A"][:, half:] @ b["B"][half:]
    first: Array = b["A"][:, :half] @ b["B"][:half]
    return second + first


def multiply_library(b: Buffers) -> Array:
    product: Array = b["A"] @ b["B"]
    return product


def transpose(b: Buffers) -> Array:
    return b["input"].T


def sum_in_order(b: Buffers) -> Array:
    return np.cumsum(b["input"], dtype=np.float32)[-1:]


def sum_backwards(b: Buffers) -> Array:
    return np.cumsum(b["input"][::-1], dtype=np.float32)[-1:]


def sum_pairwise(b: Buffers) -> Array:
    values = b["input"].copy()
    while values.size > 1:
        if values.size % 2:
            values = np.append(values, np.float32(0))
        values = values[::2] + values[1::2]
    return values


def sum_blocked(b: Buffers) -> Array:
    """A tree a block, the blocks one after the other as by atomics."""
    values = _padded(b["input"], 256)
    while values.shape[1] > 1:
        values = values[:, ::2] + values[:, 1::2]
    return np.cumsum(values[:, 0], dtype=np.float32)[-1:]


def sum_strided(b: Buffers) -> Array:
    """A grid of 1,024 threads, each adding every 1,024th element."""
    return sum_blocked({"input": np.cumsum(_padded(b["input"], 1024), axis=0)[-1]})


def sum_compensated(b: Buffers) -> Array:
    """Kahan's sum in 256 lanes, then a tree."""
    rows = _padded(b["input"], 256)
    total, lost = np.zeros(256, np.float32), np.zeros(256, np.float32)
    for row in rows:
        term = row - lost
        following = total + term
        lost = (following - total) - term
        total = following
    return sum_pairwise({"input": total})


def count(b: Buffers) -> Array:
    bins = b["histogram"].size
    valid = b["input"][(b["input"] >= 0) & (b["input"] < bins)]
    return np.bincount(valid, minlength=bins)


def count_private(b: Buffers) -> Array:
    """Two private histograms, then their sum."""
    half = b["input"].size // 2
    first, second = b["input"][:half], b["input"][half:]
    empty = {"histogram": b["histogram"]}
    return count({**empty, "input": first}) + count({**empty, "input": second})


def convolve(b: Buffers, accumulator: npt.DTypeLike = np.float32) -> Array:
    output = b["output"]
    total = np.zeros(output.shape, accumulator)
    for r, s in np.ndindex(*b["filter"].shape):
        window = b["input"][r : r + output.shape[0], s : s + output.shape[1]]
        total += (window * b["filter"][r, s]).astype(accumulator)
    return total.astype(np.float32)


def convolve_fused(b: Buffers) -> Array:
    output = b["output"]
    total = np.zeros(output.shape, np.float32)
    for r, s in np.ndindex(*b["filter"].shape):
        window = b["input"][r : r + output.shape[0], s : s + output.shape[1]]
        total = fused(total, window, b["filter"][r, s])
    return total


def convolve_by_rows(b: Buffers) -> Array:
    """A partial sum for each row of the filter."""
    output = b["output"]
    total = np.zeros(output.shape, np.float32)
    for r in range(b["filter"].shape[0]):
        rows = b["input"][r : r + output.shape[0]]
        total += convolve({"input": rows, "filter": b["filter"][r : r + 1], "output": output})
    return total


def _padded(values: Array, width: int) -> Array:
    rows = -(-values.size // width)
    return np.concatenate((values, np.zeros(rows * width - values.size, np.float32))).reshape(
        rows, width
    )


HONEST: Mapping[str, tuple[Compute, ...]] = {
    "vector_add": (add, add_fused),
    "matrix_multiplication": (
        multiply_in_order,
        multiply_fused,
        multiply_tiled,
        multiply_split,
        multiply_library,
    ),
    "matrix_transpose": (transpose,),
    "reduction": (
        sum_in_order,
        sum_backwards,
        sum_pairwise,
        sum_blocked,
        sum_strided,
        sum_compensated,
    ),
    "histogram": (count, count_private),
    "conv2d": (convolve, convolve_fused, convolve_by_rows),
}
