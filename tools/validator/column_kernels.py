"""Filling, gathering and comparing one buffer of many slots, by the widest words that fill it."""

from cuda_llm.tools.arrays import Program

WIDTHS = (8, 4, 2, 1)
"""Bytes of the words there are kernels for."""

_SOURCE = r"""
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define THREAD ((u64)blockIdx.x * blockDim.x + threadIdx.x)

// A buffer in slot 0, the words from there to slot 1, and what is asked for: `count` of `slots`, in
// rows of `words`, by `each` threads a row.
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

PROGRAM = Program(
    _SOURCE,
    tuple(f"{name}_{width}" for name in ("fill", "gather", "differ") for width in WIDTHS),
)
"""Each kernel's name ends in the bytes of its words."""
