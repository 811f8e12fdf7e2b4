"""Comparisons by kernels of our own, where arrays lie on a device that runs them."""

from collections.abc import Sequence

import numpy as np

from cuda_llm.tools.arrays import Array, Arrays
from cuda_llm.tools.validator.kernels import KERNELS
from cuda_llm.tools.validator.tolerances import Limits

COLUMNS = 9
MOST_THREADS = 1 << 18
"""Enough to fill a GPU."""
MOST_ROWS = 1 << 10
"""Of a table that goes to the host."""
ELEMENTS_A_THREAD = 8
"""At least: below that, more threads do not pay."""


def compare_there(
    got: Array, value: Array, scale: Array | None, limits: Limits, arrays: Arrays
) -> Array | None:
    """Facts of all elements, a row a thread; None where no kernel fits."""
    kernel = f"{got.dtype.name}_{value.dtype.name}"
    if arrays.launch is None or kernel not in KERNELS.kernels:
        return None
    if got.dtype.kind != "f" and not limits.exact:
        return None
    xp, threads = arrays.xp, threads_for(got.size)
    table = xp.empty((threads, COLUMNS))
    arguments = (
        table,
        np.uint64(threads),
        _flat(got, arrays),
        _flat(value, arrays),
        np.uint64(0) if scale is None else _flat(scale.astype(np.float64, copy=False), arrays),
        np.uint64(got.size),
        *map(np.float64, (limits.unit, limits.max_units, limits.floor)),
        *map(np.float64, (limits.scale_weight, limits.value_weight)),
        np.int32(limits.exact),
    )
    arrays.launch(KERNELS, kernel, threads, arguments)
    if threads <= MOST_ROWS:
        return table
    sums = xp.empty((MOST_ROWS, COLUMNS))
    merged = (sums, np.uint64(MOST_ROWS), table, np.uint64(threads))
    arrays.launch(KERNELS, "merge", MOST_ROWS, merged)
    return sums


def differ_there(pairs: Sequence[tuple[Array, Array]], arrays: Arrays) -> Array | None:
    """A flag for each pair of flat arrays of whole numbers; None where no kernel fits."""
    kernels = [f"differ_{one.dtype.name}" for one, _ in pairs]
    if arrays.launch is None or not set(kernels) <= set(KERNELS.kernels):
        return None
    flags = arrays.xp.zeros(len(pairs), np.bool_)
    for number, (kernel, (one, other)) in enumerate(zip(kernels, pairs, strict=True)):
        threads = threads_for(one.size)
        counts = (np.uint64(number), np.uint64(threads))
        arguments = (flags, *counts, one, other, np.uint64(one.size))
        arrays.launch(KERNELS, kernel, threads, arguments)
    return flags


def threads_for(count: int, most: int = MOST_THREADS) -> int:
    """How many threads share so many elements."""
    return max(1, min(most, -(-count // ELEMENTS_A_THREAD)))


def _flat(array: Array, arrays: Arrays) -> Array:
    return arrays.xp.ascontiguousarray(array.reshape(-1))
