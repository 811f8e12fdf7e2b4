"""Fills, gathers and compares one buffer of many slots, in the widest words that fit."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cuda_llm.tools.device.buffers import Array, Arrays, KernelProgram, LaunchKernel
from cuda_llm.tools.validator.fused import (
    MOST_THREADS,
    as_words,
    bytes_of,
    first_difference,
    first_set,
    threads_for,
)

WIDTHS = (8, 4, 2, 1)
"""Bytes of the words there are kernels for."""

_SOURCE = r"""
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define THREAD ((u64)blockIdx.x * blockDim.x + threadIdx.x)

// A buffer in slot 0, the words from there to slot 1, and `count` of `slots`, in rows of `words`,
// by `each` threads a row.
#define COLUMN(T) T* column, u64 stride, u8 const* slots, u64 count, u64 words, u64 each

template <typename T>
__device__ void fill(COLUMN(T), u64 pattern) {
    u64 thread = THREAD;
    if (thread >= count * each) return;
    T* own = column + slots[thread / each] * stride;
    for (u64 i = thread % each; i < words; i += each) own[i] = (T)pattern;
}

template <typename T>
__device__ void gather(COLUMN(T const), T* rows) {
    u64 thread = THREAD;
    if (thread >= count * each) return;
    T const* own = column + slots[thread / each] * stride;
    T* row = rows + thread / each * words;
    for (u64 i = thread % each; i < words; i += each) row[i] = own[i];
}

template <typename T>
__device__ void differ(COLUMN(T const), T const* rows, bool* flags, u64 at) {
    u64 thread = THREAD;
    if (thread >= count * each) return;
    T const* own = column + slots[thread / each] * stride;
    T const* row = rows + thread / each * words;
    bool found = false;
    for (u64 i = thread % each; i < words; i += each) found |= own[i] != row[i];
    if (found) flags[at] = true;
}

#define KERNELS(WIDTH, T)                                                                      \
    extern "C" __global__ void fill_##WIDTH(COLUMN(T), u64 pattern) {                          \
        fill<T>(column, stride, slots, count, words, each, pattern);                           \
    }                                                                                          \
    extern "C" __global__ void gather_##WIDTH(COLUMN(T const), T* rows) {                      \
        gather<T>(column, stride, slots, count, words, each, rows);                            \
    }                                                                                          \
    extern "C" __global__ void differ_##WIDTH(                                                 \
        COLUMN(T const), T const* rows, bool* flags, u64 at                                    \
    ) {                                                                                        \
        differ<T>(column, stride, slots, count, words, each, rows, flags, at);                 \
    }

KERNELS(8, u64)
KERNELS(4, u32)
KERNELS(2, u16)
KERNELS(1, u8)
"""

PROGRAM = KernelProgram(
    _SOURCE,
    tuple(f"{name}_{width}" for name in ("fill", "gather", "differ") for width in WIDTHS),
)
"""Each kernel's name ends in the bytes of its words."""

_EVERY_BYTE = 0x0101010101010101


def fill(columns: Sequence[Array], slots: Sequence[int], byte: int, arrays: Arrays) -> None:
    """Set every byte of these slots' buffers."""
    if arrays.launch is None:
        for column in columns:
            for slot in slots:
                bytes_of(column[slot, ...])[...] = byte
        return
    numbers = _on_device(slots, arrays)
    for column in columns:
        _launch(arrays.launch, "fill", column, numbers, np.uint64(byte * _EVERY_BYTE))


def gather(column: Array, slots: Sequence[int], arrays: Arrays) -> Array:
    """Return these slots' buffers in this order: copies, or a view of a single slot."""
    if len(slots) == 1:
        return column[slots[0] : slots[0] + 1]
    rows = arrays.xp.empty((len(slots), *column.shape[1:]), column.dtype)
    if arrays.launch is None:
        for row, slot in enumerate(slots):
            rows[row, ...] = column[slot, ...]
    else:
        _launch(arrays.launch, "gather", column, _on_device(slots, arrays), rows)
    return rows


def first_changed(
    pairs: Sequence[tuple[Array, Array]], slots: Sequence[int], arrays: Arrays
) -> int | None:
    """Return the number of the first column of which a slot differs from its row, bit by bit.

    Each pair is a column and contiguous rows, one for each of `slots`.
    """
    if arrays.launch is None:
        each = [
            (as_words(column[slot, ...]), as_words(rows[row, ...]))
            for column, rows in pairs
            for row, slot in enumerate(slots)
        ]
        at = first_difference(each, arrays)
        return None if at is None else at // len(slots)
    numbers = _on_device(slots, arrays)
    flags = arrays.xp.zeros(len(pairs), np.bool_)
    for number, (column, rows) in enumerate(pairs):
        _launch(arrays.launch, "differ", column, numbers, rows, flags, np.uint64(number))
    return first_set(flags, arrays)


def _on_device(slots: Sequence[int], arrays: Arrays) -> Array:
    """Copy the numbers of slots to the device, a byte each: there are at most 256."""
    return arrays.xp.asarray(np.array(slots, np.uint8))


def _launch(launch: LaunchKernel, kernel: str, column: Array, numbers: Array, *more: Any) -> None:
    first = column[0, ...]
    stride = column.strides[0]
    width = next(one for one in WIDTHS if first.nbytes % one == stride % one == 0)
    count, size = numbers.size, first.nbytes // width
    each = threads_for(size, MOST_THREADS // count)
    facts = (stride // width, numbers, count, size, each)
    given = (one if one is numbers else np.uint64(one) for one in facts)
    launch(PROGRAM, f"{kernel}_{width}", count * each, (first, *given, *more))
