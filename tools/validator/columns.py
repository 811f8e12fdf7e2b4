"""One buffer of many slots at a time: filled, gathered and compared, by one launch each.

A column has one axis more in front than the buffer, one index a slot. Slots lie far apart, so that
a column is not contiguous; each of its rows is, and is aligned as the widest words want it. Without
kernels of our own, slots are done one by one.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cuda_llm.tools.arrays import Array, Arrays, Launch
from cuda_llm.tools.validator.buffers import bytes_of, first_difference, first_set, words
from cuda_llm.tools.validator.column_kernels import PROGRAM, WIDTHS
from cuda_llm.tools.validator.fused import MOST_THREADS, threads_for

_EVERY_BYTE = 0x0101010101010101


def fill(columns: Sequence[Array], slots: Sequence[int], byte: int, arrays: Arrays) -> None:
    """Set every byte of these slots' buffers."""
    if arrays.launch is None:
        for column in columns:
            for slot in slots:
                bytes_of(column[slot, ...])[...] = byte
        return
    numbers = _there(slots, arrays)
    for column in columns:
        _launch(arrays.launch, "fill", column, numbers, np.uint64(byte * _EVERY_BYTE))


def gather(column: Array, slots: Sequence[int], arrays: Arrays) -> Array:
    """These slots' buffers in this order: copies, but of a single slot a view."""
    if len(slots) == 1:
        return column[slots[0] : slots[0] + 1]
    rows = arrays.xp.empty((len(slots), *column.shape[1:]), column.dtype)
    if arrays.launch is None:
        for row, slot in enumerate(slots):
            rows[row, ...] = column[slot, ...]
    else:
        _launch(arrays.launch, "gather", column, _there(slots, arrays), rows)
    return rows


def first_changed(
    pairs: Sequence[tuple[Array, Array]], slots: Sequence[int], arrays: Arrays
) -> int | None:
    """Number of the first column of which a slot does not hold what its row says, bit for bit.

    Each pair is a column and contiguous rows, one for each of `slots`.
    """
    if arrays.launch is None:
        each = [
            (words(column[slot, ...]), words(rows[row, ...]))
            for column, rows in pairs
            for row, slot in enumerate(slots)
        ]
        at = first_difference(each, arrays)
        return None if at is None else at // len(slots)
    numbers = _there(slots, arrays)
    flags = arrays.xp.zeros(len(pairs), np.bool_)
    for number, (column, rows) in enumerate(pairs):
        _launch(arrays.launch, "differ", column, numbers, rows, flags, np.uint64(number))
    return first_set(flags, arrays)


def _there(slots: Sequence[int], arrays: Arrays) -> Array:
    """Numbers of slots where kernels read them, a byte each: there are at most 256."""
    return arrays.xp.asarray(np.array(slots, np.uint8))


def _launch(launch: Launch, kernel: str, column: Array, numbers: Array, *more: Any) -> None:
    first = column[0, ...]
    stride = column.strides[0]
    width = next(one for one in WIDTHS if first.nbytes % one == stride % one == 0)
    count, size = numbers.size, first.nbytes // width
    each = threads_for(size, MOST_THREADS // count)
    facts = (stride // width, numbers, count, size, each)
    given = (one if one is numbers else np.uint64(one) for one in facts)
    launch(PROGRAM, f"{kernel}_{width}", count * each, (first, *given, *more))
