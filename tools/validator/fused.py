"""Compares arrays in place: on a GPU in one launch each, without storing an error for each element.

Each thread compares a strided share of the elements and writes one row of a table; `merge` reduces
rows. `compare.Tally` describes a row.
"""

from collections.abc import Sequence

import numpy as np

from cuda_llm.tasks.tolerances import ErrorLimits
from cuda_llm.tools.device.buffers import Array, Arrays, KernelProgram

_SOURCE = r"""
typedef unsigned char u8;
typedef unsigned long long u64;
typedef long long i64;

#define THREAD ((u64)blockIdx.x * blockDim.x + threadIdx.x)
#define INFINITE (1e300 * 1e300)
#define BITS 2

struct Row {
    double highest, squares, wrong, at, first, got_at, got_first, wanted_at, wanted_first;
};

struct Limits { double unit, most, floor, scale_weight, value_weight; int exact; };

template <typename T, typename W, typename Both>
__device__ double error_units(T got, W wanted, double scale, bool scaled, Limits const& limits) {
    if (limits.exact == BITS && sizeof(T) == sizeof(W)) {
        u8 const* one = (u8 const*)&got;
        u8 const* other = (u8 const*)&wanted;
        for (int i = 0; i < (int)sizeof(T); i++)
            if (one[i] != other[i]) return INFINITE;
        return 0.0;
    }
    if (limits.exact) {
        bool both_nan = got != got && wanted != wanted;
        return (Both)got == (Both)wanted || both_nan ? 0.0 : INFINITE;
    }
    double target = (double)wanted, magnitude = fabs(target);
    double measure = (scaled ? scale : magnitude) * limits.scale_weight;
    measure += limits.value_weight * magnitude;
    measure = (measure < limits.floor ? limits.floor : measure) * limits.unit;
    double units = fabs((double)got - target) / measure;
    if (units <= 1.7976931348623157e308) return units;
    T stored = (T)target;
    return got == stored || (got != got && stored != stored) ? 0.0 : INFINITE;
}

template <typename T, typename W, typename Both>
__device__ void compare(
    Row* table, u64 threads, T const* got, W const* wanted, double const* scale, u64 count,
    Limits const& limits
) {
    u64 thread = THREAD;
    if (thread >= threads) return;
    Row row = {-1.0, 0, 0, 0, -1.0, 0, 0, 0, 0};
    for (u64 i = thread; i < count; i += threads) {
        double own = scale ? scale[i] : 0.0;
        double units = error_units<T, W, Both>(got[i], wanted[i], own, scale != 0, limits);
        if (units > row.highest) {
            row.highest = units;
            row.at = (double)i;
            row.got_at = (double)got[i];
            row.wanted_at = (double)wanted[i];
        }
        if (units > limits.most) {
            if (row.wrong == 0) {
                row.first = (double)i;
                row.got_first = (double)got[i];
                row.wanted_first = (double)wanted[i];
            }
            row.wrong += 1;
        }
        row.squares += units * units;
    }
    table[thread] = row;
}

#define COMPARE(NAME, T, W, BOTH)                                                              \
    extern "C" __global__ void NAME(                                                           \
        double* table, u64 threads, T const* got, W const* wanted, double const* scale,        \
        u64 count, double unit, double most, double floor, double scale_weight,                \
        double value_weight, int exact                                                         \
    ) {                                                                                        \
        Limits limits = {unit, most, floor, scale_weight, value_weight, exact};                \
        compare<T, W, BOTH>((Row*)table, threads, got, wanted, scale, count, limits);          \
    }

COMPARE(float32_float32, float, float, float)
COMPARE(float32_float64, float, double, double)
COMPARE(float64_float64, double, double, double)
COMPARE(float32_int64, float, i64, double)
COMPARE(int32_float64, int, double, double)
COMPARE(int32_int64, int, i64, i64)
COMPARE(int64_int64, i64, i64, i64)
COMPARE(uint8_int64, u8, i64, i64)

__device__ void take(Row& sum, Row const& row) {
    if (row.highest > sum.highest || (row.highest == sum.highest && row.at < sum.at)) {
        sum.highest = row.highest;
        sum.at = row.at;
        sum.got_at = row.got_at;
        sum.wanted_at = row.wanted_at;
    }
    if (row.wrong > 0 && (sum.wrong == 0 || row.first < sum.first)) {
        sum.first = row.first;
        sum.got_first = row.got_first;
        sum.wanted_first = row.wanted_first;
    }
    sum.wrong += row.wrong;
    sum.squares += row.squares;
}

extern "C" __global__ void merge(double* sums, u64 threads, double const* table, u64 rows) {
    u64 thread = THREAD;
    if (thread >= threads) return;
    Row sum = ((Row const*)table)[thread];
    for (u64 i = thread + threads; i < rows; i += threads) take(sum, ((Row const*)table)[i]);
    ((Row*)sums)[thread] = sum;
}

template <typename T>
__device__ void differ(bool* flags, u64 at, u64 threads, T const* one, T const* other, u64 count) {
    u64 thread = THREAD;
    if (thread >= threads) return;
    bool found = false;
    for (u64 i = thread; i < count; i += threads) found |= one[i] != other[i];
    if (found) flags[at] = true;
}

#define DIFFER(NAME, T)                                                                        \
    extern "C" __global__ void NAME(                                                           \
        bool* flags, u64 at, u64 threads, T const* one, T const* other, u64 count              \
    ) {                                                                                        \
        differ<T>(flags, at, threads, one, other, count);                                      \
    }

DIFFER(differ_uint8, u8)
DIFFER(differ_uint64, u64)
"""

KERNELS = KernelProgram(
    _SOURCE,
    (
        *("float32_float32", "float32_float64", "float64_float64", "float32_int64"),
        *("int32_float64", "int32_int64", "int64_int64", "uint8_int64"),
        *("merge", "differ_uint8", "differ_uint64"),
    ),
)
"""Comparisons are named after the types of the output and of the expected values."""

COLUMNS = 9
MOST_THREADS = 1 << 18
"""Enough to fill a GPU."""
MOST_ROWS = 1 << 10
"""Rows of a table that is copied to the host."""
ELEMENTS_A_THREAD = 8
"""At least: below that, more threads do not pay."""


def compare_on_device(
    got: Array, value: Array, scale: Array | None, limits: ErrorLimits, arrays: Arrays
) -> Array | None:
    """Compare all elements, a row a thread; None where no kernel fits the types."""
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
        np.int32(limits.exact + limits.bits),
    )
    arrays.launch(KERNELS, kernel, threads, arguments)
    if threads <= MOST_ROWS:
        return table
    sums = xp.empty((MOST_ROWS, COLUMNS))
    merged = (sums, np.uint64(MOST_ROWS), table, np.uint64(threads))
    arrays.launch(KERNELS, "merge", MOST_ROWS, merged)
    return sums


def differ_on_device(pairs: Sequence[tuple[Array, Array]], arrays: Arrays) -> Array | None:
    """Return a flag for each pair of flat integer arrays; None where no kernel fits."""
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


def first_difference(pairs: Sequence[tuple[Array, Array]], arrays: Arrays) -> int | None:
    """Return the number of the first pair of flat integer arrays that differ.

    CuPy's reduction is not used where kernels of our own exist: without CUB it has one block for a
    whole array.
    """
    flags = differ_on_device(pairs, arrays)
    if flags is None:
        flags = arrays.xp.empty(len(pairs), np.bool_)
        for number, (one, other) in enumerate(pairs):
            flags[number] = (one != other).any()
    return first_set(flags, arrays)


def first_set(flags: Array, arrays: Arrays) -> int | None:
    """Return the number of the first flag that is set, with one transfer from the device."""
    found = np.flatnonzero(arrays.to_host(flags))
    return int(found[0]) if found.size else None


def as_words(array: Array) -> Array:
    """View an aligned buffer as the widest words that fill it; guards are not aligned."""
    flat = array.reshape(-1)
    return flat.view(np.uint64 if flat.nbytes % 8 == 0 else np.uint8)


def bytes_of(array: Array) -> Array:
    """View a contiguous array as flat bytes."""
    return array.reshape(-1).view(np.uint8)


def threads_for(count: int, most: int = MOST_THREADS) -> int:
    """Return how many threads share `count` elements."""
    return max(1, min(most, -(-count // ELEMENTS_A_THREAD)))


def _flat(array: Array, arrays: Arrays) -> Array:
    return arrays.xp.ascontiguousarray(array.reshape(-1))
