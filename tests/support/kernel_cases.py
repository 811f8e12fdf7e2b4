"""Kernels under tests/fixtures/kernels with inputs and what NumPy says they compute."""

from collections.abc import Callable
from dataclasses import dataclass
from math import erf
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class KernelCase:
    """One kernel: `solve(which, a, b, out, n)` of `file` on `n` elements."""

    file: str
    which: int
    name: str
    a: Array
    b: Array
    out: Array
    """Contents before the call."""
    n: int
    expected: Array
    tolerance: float = 0.0
    """Relative to the largest expected magnitude; 0: exactly equal."""

    @property
    def label(self) -> str:
        return f"{self.file}.{self.name}"


def _rng() -> np.random.Generator:
    return np.random.default_rng(7)


def _floats(n: int, dtype: str = "float32") -> Array:
    return _rng().standard_normal(n).astype(dtype)


def _ints(n: int, low: int = 0, high: int = 100, dtype: str = "int32") -> Array:
    return _rng().integers(low, high, n).astype(dtype)


def arithmetic() -> list[KernelCase]:
    """Cases of arithmetic.cu."""
    n = 1003
    x, y = _floats(n), _floats(2 * n)[n:]
    xd, yd = _floats(n, "float64"), _floats(2 * n, "float64")[n:]
    big = _rng().integers(-(2**62), 2**62, n)
    h = _floats(2 * 500).astype("float16")
    bits = _floats(n).view("uint32") >> 16
    bf = bits.astype("uint16")
    bf_value = (bf.astype("uint32") << 16).view("float32")
    ints = _rng().integers(-(2**31), 2**31, n).astype("int32")
    small = _rng().integers(-5000, 5000, n).astype("int32")
    which = _ints(n)
    make = _maker("arithmetic")
    return [
        make(0, "axpy_f32", x, y, np.zeros(n, "float32"), n, _fma(1.5, x, y), 1e-6),
        make(1, "axpy_f64", xd, yd, np.zeros(n), n, -0.3 * xd + yd, 1e-15),
        make(2, "axpy_s64", big, big[::-1], np.zeros(n, "int64"), n,
             np.int64(77777777777) * big + big[::-1]),
        make(3, "half2", h[:500], h[500:], np.zeros(500, "float16"), 500, _half(h[:500], h[500:])),
        make(4, "bf16", bf, bf, np.zeros(n, "float32"), n, bf_value * 4),
        make(5, "transcendental_f64", xd, yd, np.zeros(n), n,
             np.sin(xd) + np.abs(yd) ** 1.7 + np.exp(-xd * xd) / np.sqrt(1 + yd * yd), 1e-14),
        make(6, "functions_f32", x, y, np.zeros(n, "float32"), n, _singles(x, y), 2e-6),
        make(7, "integers", ints, small, np.zeros(n, "int32"), n, _integers(ints, small)),
        make(8, "local_array", x, which, np.zeros(n, "float32"), n, _local_array(x, which), 1e-6),
        make(9, "collatz", ints, ints, np.zeros(n, "int32"), n, _collatz(ints)),
    ]  # fmt: skip


def _maker(file: str) -> Callable[..., KernelCase]:
    def make(
        which: int, name: str, a: Array, b: Array, out: Array, n: int, expected: Array,
        tolerance: float = 0.0,
    ) -> KernelCase:  # fmt: skip
        a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
        return KernelCase(file, which, name, a, b, out, n, expected, tolerance)

    return make


def _fma(a: float, x: Array, y: Array) -> Array:
    result: Array = (a * x.astype("float64") + y).astype("float32")
    return result


def _half(x: Array, y: Array) -> Array:
    wide_x, wide_y = x.astype("float64"), y.astype("float64")
    total = (x + y).astype("float16").astype("float64")
    result: Array = ((wide_x * wide_y + total).astype("float16") * np.float16(0.5)).astype(
        "float16"
    )
    return result


def _singles(x: Array, y: Array) -> Array:
    xd, yd = x.astype("float64"), y.astype("float64")
    errors = np.array([erf(v) for v in xd])
    rest = np.fmod(xd, np.float64(np.float32(0.7)))
    total: Array = np.sin(xd) + np.tanh(yd) + errors + np.abs(yd) ** np.float32(0.3) + rest
    return total


def _integers(x: Array, y: Array) -> Array:
    results = []
    for a, b in zip(x.tolist(), (y | 1).tolist(), strict=True):
        ua, ub = a & 0xFFFFFFFF, b & 0xFFFFFFFF
        wide = a * b
        quotient = int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
        brev = int(f"{ua:032b}"[::-1], 2)
        clz = 32 - ua.bit_length()
        ffs = (ub & -ub).bit_length()
        bits = brev ^ ub.bit_count() ^ clz ^ ffs
        shifted = ((ub << 32 | ua) << 7 >> 32) & 0xFFFFFFFF
        pool = (ua | ub << 32).to_bytes(8, "little")
        permuted = int.from_bytes(bytes(pool[s] for s in (0, 4, 1, 5)), "little")
        total = quotient + (a - quotient * b) + (wide >> 32) + bits + (wide >> 32)
        total += (ua * ub >> 32) + (wide & 2**64 - 1) // 1000003 + shifted + permuted
        results.append(total & 0xFFFFFFFF)
    return np.array(results, "uint32").view("int32")


def _local_array(x: Array, which: Array) -> Array:
    x = x.astype("float64")
    table = x[:, None] * np.arange(1, 9) - np.arange(8)
    value = table[np.arange(len(x)), which & 7]
    third = sum(table[:, k] * (value * 0.01) ** k for k in range(4))
    seventh = sum(table[:, k] * 0.5**k for k in range(8))
    choices = [value + 1, value * 2, third, -value, seventh, value - table[:, 3]]
    return np.choose(which % 6, choices)


def _collatz(start: Array) -> Array:
    steps = []
    for value in ((start & 1023) + 1).tolist():
        count = 0
        while value != 1:
            value = 3 * value + 1 if value & 1 else value // 2
            count += 1
        steps.append(count)
    return np.array(steps, "int32")


def memory() -> list[KernelCase]:
    """Cases of memory.cu."""
    make = _maker("memory")
    n = 1003
    x, y = _floats(4 * n).reshape(n, 4), _floats(8 * n)[4 * n :].reshape(n, 4)
    swizzled = np.stack([x[:, 3] + y[:, 0], x[:, 2] - y[:, 1], x[:, 1] * y[:, 2], x[:, 0]], axis=1)
    u8, s8 = _ints(n, 0, 256, "uint8"), _ints(n, -128, 128, "int8")
    side = 75
    m = _floats(2 * side * side).reshape(2, side, side)
    taps = np.array([0.5, 1, 2, 3, 4, 3, 2, 1, 0.5])
    line = _floats(n)
    ints = _ints(n, -1000, 1000)
    before = np.array([10**6, -(10**6), -1, 0, 0, 0, 0, 0, 0, 5], "int32")
    weights = np.round(_floats(n) * 8)
    tiles = _floats(4 * 64 * 5).reshape(5, 64, 4)
    triples = _floats(999)
    return [
        make(0, "vectors", x, y, np.zeros((n, 4), "float32"), n, swizzled),
        make(1, "bytes", u8, s8, np.zeros(n, "int16"), n, u8.astype("int16") * s8),
        make(2, "matmul", m[0], m[1], np.zeros((side, side), "float32"), side,
             m[0].astype("float64") @ m[1], 1e-5),
        make(3, "transpose", m[0], m[1], np.zeros((side, side), "float32"), side, m[0].T),
        make(4, "convolve", line, line, np.zeros(n, "float32"), n,
             np.convolve(line, taps, "same"), 1e-6),
        make(5, "histogram", ints & 1023, ints, np.zeros(64, "int32"), n,
             np.bincount(ints & 63, minlength=64).astype("int32")),
        make(6, "atomics", ints, weights, before.copy(), n, _atomics(before, ints, weights)),
        make(7, "spin_lock", ints, ints, np.zeros(2, "int32"), n,
             np.array([ints.sum(), 0], "int32")),
        make(8, "pipelined_sum", tiles, tiles, np.zeros(64, "float32"), 320,
             tiles.sum((0, 2), dtype="float64")[::-1], 1e-6),
        make(9, "by_value", triples, triples, np.zeros(999, "float32"), 999,
             (triples.reshape(-1, 3)[:, [2, 0, 1]] * 2 - 1).ravel()),
    ]  # fmt: skip


def _atomics(before: Array, ints: Array, weights: Array) -> Array:
    after = before.copy()
    after[0], after[1] = ints.min(), ints.max()
    after[2] = np.bitwise_and.reduce(ints | 0xFF00)
    after[3] = np.bitwise_or.reduce(ints & 0xF0F)
    after[4] = np.bitwise_xor.reduce(ints)
    after[5] = len(ints) % 100
    total = int(ints.astype("uint32").astype("uint64").sum())
    after[6:8] = np.array([total], "uint64").view("int32")
    after[8:9] = np.array([weights.sum()], "float32").view("int32")
    after[9] = 5 + int((ints & 7).sum())
    return after


def warps() -> list[KernelCase]:
    """Cases of warps.cu."""
    make = _maker("warps")
    n = 1003
    line = np.round(_floats(n) * 16)
    ints = _ints(n)
    zeros = np.zeros(n, "int32")
    padded = np.zeros(1024, "int32")
    padded[:n] = ints
    by_warp = padded.reshape(-1, 32)
    scan = np.cumsum(by_warp, axis=1).ravel()[:n].astype("int32")
    return [
        make(0, "reduce", line, line, np.zeros(1, "float32"), n, line.sum(keepdims=True)),
        make(1, "inclusive_scan", ints, ints, zeros, n, scan),
        make(2, "votes", ints, ints, zeros, n, _votes(by_warp)[:n]),
        make(3, "matches", ints, ints, zeros, n, _matches(padded, n)[:n]),
        make(4, "half_warps", ints, ints, zeros, n, _half_warps(by_warp)[:n]),
        make(5, "tiles", ints, ints, zeros, n, _tiles(padded)[:n]),
        make(6, "grid_phases", ints, ints, zeros, n, _grid_phases(ints)),
        make(7, "barriers", ints, ints, zeros, n, _barriers(padded)[:n]),
        make(8, "look_back", ints, ints, zeros, n, np.cumsum(ints).astype("int32")),
    ]


def _votes(by_warp: Array) -> Array:
    odd = by_warp & 1
    before = np.cumsum(odd, axis=1) - odd
    result = before + 100 * (by_warp > 90).any(1, keepdims=True) + 1000
    result = result + odd * 10000
    flat: Array = result.ravel().astype("int32")
    return flat


def _matches(padded: Array, n: int) -> Array:
    value = padded % 5
    value[n:] = 0
    result = []
    for warp in value.reshape(-1, 32):
        bits = int(np.bitwise_xor.reduce(1 << warp))
        shared = 100 + 1000 * int(warp.sum()) + 1000000 * int((warp - 2).max()) + bits * 10000000
        result += [int((warp == v).sum()) + shared for v in warp.tolist()]
    return (np.array(result, "int64") & 0xFFFFFFFF).astype("uint32").view("int32")


def _half_warps(by_warp: Array) -> Array:
    out = by_warp.copy()
    lanes = np.arange(16)
    out[:, :16] = by_warp[:, lanes ^ 3]
    upper = by_warp[:, 16 + (15 - lanes)]
    out[:, 16:] = upper + upper[:, lanes ^ 8]
    return out.ravel()


def _tiles(padded: Array) -> Array:
    groups = padded.reshape(-1, 8)
    total = np.repeat(groups.sum(1), 8)
    total = total + (padded & 1) * 1000
    neighbour = np.zeros_like(groups)
    neighbour[:, :6] = groups[:, 2:]
    result: Array = (total + neighbour.ravel()).astype("int32")
    return result


def _grid_phases(ints: Array) -> Array:
    value = ints.copy()
    index = (np.arange(len(ints)) * 7 + 1) % len(ints)
    for step in range(3):
        value = value[index] + step
    return value.astype("int32")


def _barriers(padded: Array) -> Array:
    result = []
    for block in padded.reshape(-1, 128):
        value = int((block & 1).sum()) + 1000 + 10000 * int((block == 7).any())
        result += [value] * 128
    return np.array(result, "int32")


def cub() -> list[KernelCase]:
    """Cases of cub.cu."""
    make = _maker("cub")
    n = 1003
    line = np.round(_floats(n) * 16)
    ints = _ints(n)
    padded = np.zeros(1024, "float32")
    padded[:n] = line
    whole = np.zeros(1024, "int32")
    whole[:n] = ints
    blocks = whole.reshape(-1, 128)
    exclusive = (np.cumsum(blocks, axis=1) - blocks).ravel()[:n].astype("int32")
    keys = _rng().integers(-(2**31), 2**31, 128).astype("int32")
    return [
        make(0, "block_reduce", line, line, np.zeros(8, "float32"), n,
             padded.reshape(8, 128).sum(1)),
        make(1, "block_scan", ints, ints, np.zeros(n, "int32"), n, exclusive),
        make(2, "warp_reduce", ints, ints, np.zeros(32, "int32"), n,
             whole.reshape(32, 32).max(1)),
        make(3, "radix_sort", keys, keys, np.zeros(128, "int32"), 128, np.sort(keys)),
    ]  # fmt: skip


def extras() -> list[KernelCase]:
    """Cases of extras.cu."""
    make = _maker("extras")
    n = 1003
    values, which = _ints(n, 1, 1000), _ints(n, 0, 1200)
    big = _rng().integers(0, 2**64, (2, n), "uint64")
    line, whole = _floats(256), _ints(256)
    doubles = np.round(_floats(256, "float64") * 100)
    before = np.array([0, 0, 1, 0, 0, 0, 0, 0], "int32")
    few = values[:200]
    return [
        make(0, "jump_table", values, which, np.zeros(n, "int32"), n, _jump(values, which)),
        make(1, "wide_integers", big[0], big[1], np.zeros(n, "uint64"), n, _wide(big)),
        make(2, "indexed_constant", which, which, np.zeros(n, "int32"), n, 9 - (which & 3)),
        make(3, "piped", line, line, np.zeros(256, "float32"), 256, line[::-1]),
        make(4, "group_copy", whole, whole, np.zeros(256, "int32"), 256, _group_copy(whole)),
        make(5, "scoped_atomics", few, few, before.copy(), 200, _scoped(before, few)),
        make(6, "chained_warps", doubles, doubles, np.zeros(256), 256, np.cumsum(doubles)),
    ]


def _jump(values: Array, which: Array) -> Array:
    v, w = values.astype("int64"), which.astype("int64")
    bits = np.array([int(x).bit_count() for x in v])
    leading = np.array([32 - int(x).bit_length() for x in v])
    squares = (v ^ 5) ** 2
    choices = [v * 3 + 1, v // 7, squares, v << 2 | 1, -v, bits, v**3, v % 13, v + w]
    choices += [v - w[::-1], leading, v]
    return np.choose(w % 12, choices).astype("int32")


def _wide(big: Array) -> Array:
    results = [a * b + a for a, b in zip(big[0].tolist(), big[1].tolist(), strict=True)]
    return np.array([(x >> 61 ^ x) & 2**64 - 1 for x in results], "uint64")


def _group_copy(whole: Array) -> Array:
    t = np.arange(256)
    label = t % 3
    warps = label.reshape(-1, 32)
    rank = np.array([[int((w[:i] == w[i]).sum()) for i in range(32)] for w in warps]).ravel()
    result: Array = (whole[::-1] + 2000 * (t % 32 + 1) + 100000 * rank).astype("int32")
    return result


def _scoped(before: Array, few: Array) -> Array:
    after = before.copy()
    after[0], after[1] = few.sum(), few.max()
    after[2] = np.array([3 ** len(few) & 0xFFFFFFFF], "uint32").view("int32")[0]
    after[4:6] = np.array([few.sum()], "float64").view("int32")
    after[6:7] = np.array([len(few), len(few) / 2], "float16").view("int32")
    return after


def kernel_cases() -> list[KernelCase]:
    """Every case."""
    return [*arithmetic(), *memory(), *warps(), *cub(), *extras()]
