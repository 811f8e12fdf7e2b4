"""Every spelling of mma.sync that is emulated, as a kernel of one instruction, with its operands.

Fragments are laid out as PTX documents them for mma. The results of an H200 for
these kernels are recorded (tests/fixtures/recorded).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tensor_oracle import FORMATS, dot

Array = npt.NDArray[Any]
BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64,
    "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "s32": 32,
}  # fmt: skip
ROWS = 24
"""Operand sets of a spelling: one block, one warp each."""


@dataclass(frozen=True)
class MmaCase:
    """One spelling: D = A x B + C."""

    m: int
    n: int
    k: int
    d: str
    a: str
    b: str
    c: str
    least: int
    """Lowest compute capability."""
    saturates: bool = False

    @property
    def spelling(self) -> str:
        finite = ".satfinite" if self.saturates else ""
        types = ".".join((self.d, self.a, self.b, self.c))
        return f"mma.sync.aligned.m{self.m}n{self.n}k{self.k}.row.col{finite}.{types}"

    def registers(self, which: str) -> int:
        """How many a lane has of A, B, C or D, of 32 bits or, for f64, of 64."""
        cells = {"a": self.m * self.k, "b": self.k * self.n}.get(which, self.m * self.n)
        return cells * min(BITS[getattr(self, which)], 32) // (32 * 32)

    def words(self, which: str) -> int:
        """The same in words of 32 bits."""
        return self.registers(which) * max(1, BITS[getattr(self, which)] // 32)

    @property
    def inputs(self) -> int:
        return sum(self.words(which) for which in "abc")


def mma_cases() -> tuple[MmaCase, ...]:
    """All spellings."""
    found = []
    for k, least in ((8, 75), (16, 80)):
        found += [MmaCase(16, 8, k, d, "f16", "f16", d, least) for d in ("f16", "f32")]
        found.append(MmaCase(16, 8, k, "f32", "bf16", "bf16", "f32", 80))
    found += [MmaCase(16, 8, k, "f32", "tf32", "tf32", "f32", 80) for k in (4, 8)]
    found.append(MmaCase(8, 8, 4, "f64", "f64", "f64", "f64", 80))
    found += [MmaCase(16, 8, k, "f64", "f64", "f64", "f64", 90) for k in (4, 8, 16)]
    for m, k, least in ((8, 16, 75), (16, 16, 80), (16, 32, 80)):
        for a, b in (("s8", "s8"), ("s8", "u8"), ("u8", "s8"), ("u8", "u8")):
            found += [MmaCase(m, 8, k, "s32", a, b, "s32", least, s) for s in (False, True)]
    for k in (16, 32):
        for a, b in (("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e4m3"), ("e5m2", "e5m2")):
            found += [MmaCase(16, 8, k, d, a, b, d, 89) for d in ("f16", "f32")]
    return tuple(found)


def cases_for(capability: int) -> tuple[MmaCase, ...]:
    """Those that a compute capability has."""
    return tuple(case for case in mma_cases() if case.least <= capability)


def source(cases: Sequence[MmaCase]) -> str:
    """CUDA: `solve(in, out, rows)`, spelling after spelling, row after row, word after word."""
    text = ["typedef unsigned int u32;", "typedef unsigned long long u64;"]
    for number, case in enumerate(cases):
        text += _kernel(number, case)
    text.append('extern "C" void solve(const u32* in, u32* out, int rows) {')
    taken = given = 0
    for number, case in enumerate(cases):
        text.append(f"  k{number}<<<rows, 32>>>(in + {taken}L * rows, out + {given}L * rows);")
        taken += 32 * case.inputs
        given += 32 * case.words("d")
    return "\n".join([*text, "}", ""])


def _kernel(number: int, case: MmaCase) -> Iterator[str]:
    wide = case.d == "f64"
    type_, letter = ("double", "d") if wide else ("u32", "r")
    sum_type, sum_letter = ("float", "f") if case.d == "f32" else (type_, letter)
    yield f"__global__ void k{number}(const u32* in, u32* out) {{"
    yield f"  in += blockIdx.x * {32 * case.inputs}; out += blockIdx.x * {32 * case.words('d')};"
    yield "  const int lane = threadIdx.x;"
    at = 0
    for which in "abc":
        kind = sum_type if which == "c" else type_
        count = case.registers(which)
        yield f"  {kind} {which}[{count}];"
        for i in range(count):
            size = 2 if wide else 1
            yield (f"  {which}[{i}] = ((const {kind}*)(in + {32 * at}))[lane];")
            at += size
    yield f"  {sum_type} d[{case.registers('d')}];"
    numbers = iter(range(100))
    groups = [
        "{" + ", ".join(f"%{next(numbers)}" for _ in range(case.registers(which))) + "}"
        for which in "dabc"
    ]
    outs = ", ".join(f'"={sum_letter}"(d[{i}])' for i in range(case.registers("d")))
    ins = ", ".join(
        f'"{sum_letter if which == "c" else letter}"({which}[{i}])'
        for which in "abc"
        for i in range(case.registers(which))
    )
    yield f'  asm volatile("{case.spelling} {", ".join(groups)};" : {outs} : {ins});'
    for i in range(case.registers("d")):
        yield f"  (({sum_type}*)(out + {32 * i * (2 if wide else 1)}))[lane] = d[{i}];"
    yield "}"


def cells(case: MmaCase, which: str) -> Array:
    """Row and column of each element: (elements a lane, 32 lanes, 2)."""
    lane = np.arange(32)
    group, member = lane >> 2, lane & 3
    packed = max(1, 32 // BITS[getattr(case, which)])
    found = []
    if which in "ab":
        for register in range(case.registers(which)):
            for e in range(packed):
                if which == "b" or case.m == 8:
                    along, other = register, group
                else:
                    along, other = register >> 1, group + 8 * (register & 1)
                k = member * packed + e + along * 4 * packed
                found.append((other, k) if which == "a" else (k, other))
    else:
        found += [
            (group + 8 * (i >> 1), member * 2 + (i & 1)) for i in range(case.m * case.n // 32)
        ]
    return np.array([np.stack(np.broadcast_arrays(*pair), axis=-1) for pair in found])


def pack(case: MmaCase, which: str, matrix: Array) -> Array:
    """Encodings of a matrix (rows of operands, m, n) to words (rows of operands, words, 32)."""
    bits = BITS[getattr(case, which)]
    at = cells(case, which)
    picked = matrix[:, at[..., 0], at[..., 1]].astype(np.uint64)
    if bits == 64:
        words = np.ascontiguousarray(picked).view(np.uint32)
        return words.reshape(len(matrix), -1, 32)
    packed = 32 // bits
    grouped = picked.reshape(len(matrix), -1, packed, 32)
    shifts = (np.arange(packed) * bits).astype(np.uint64)[:, None]
    return np.asarray(np.bitwise_or.reduce(grouped << shifts, axis=2), np.uint32)


def unpack(case: MmaCase, words: Array) -> Array:
    """Words of D back to encodings of a matrix."""
    bits = BITS[case.d]
    at = cells(case, "d")
    if bits == 64:
        flat = np.ascontiguousarray(words.reshape(len(words), len(at), 64)).view(np.uint64)
    else:
        packed = 32 // bits
        shifts = (np.arange(packed) * bits).astype(np.uint32)[:, None]
        flat = (words[:, :, None, :] >> shifts) & np.uint32((1 << bits) - 1)
        flat = flat.reshape(len(words), len(at), 32)
    matrix = np.zeros((len(words), case.m, case.n), flat.dtype)
    matrix[:, at[..., 0], at[..., 1]] = flat
    return matrix


def operands(case: MmaCase, rows: int = ROWS) -> dict[str, Array]:
    """Encodings of A, B and C: plain, of unlike sizes, cancelling, subnormal, and with NaN, Inf."""
    rng = np.random.default_rng([case.m, case.k, *map(ord, case.a + case.b + case.d)])
    shapes = {"a": (case.m, case.k), "b": (case.k, case.n), "c": (case.m, case.n)}
    return {
        which: _draw(rng, getattr(case, which), (rows, *shape)) for which, shape in shapes.items()
    }


def _draw(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Array:
    bits = BITS[kind]
    if kind[0] in "su":
        drawn = rng.integers(0, 2**bits, shape, dtype=np.uint64)
        if kind == "s32":
            near = drawn[: shape[0] // 2]
            near[...] = rng.integers(2**31 - 5000, 2**31 + 5000, near.shape)
        return drawn
    form = FORMATS.get(kind)
    if form is None:
        value = rng.standard_normal(shape) * np.exp2(rng.integers(-30, 30, shape))
        return value.view(np.uint64)
    sign = rng.integers(0, 2, shape) << (form.width - 1)
    fraction = rng.integers(0, 2**form.fraction, shape)
    width = np.array([2, 6, 40, 300])[np.arange(shape[0]) % 4]
    top = 2**form.exponent - 1
    width = np.minimum(width, top // 2 - 2).reshape(-1, *(1 for _ in shape[1:]))
    field = form.bias + (rng.random(shape) * (2 * width + 1)).astype(int) - width
    field = np.clip(field, 0, top - 1)
    encoded = sign | field << form.fraction | fraction
    low = slice(shape[0] // 2, shape[0] // 2 + 3)
    encoded[low] = (sign | rng.integers(0, 2, shape) << form.fraction | fraction)[low]
    equal = slice(shape[0] // 2 + 3, shape[0] // 2 + 6)
    encoded[equal] = (sign | form.bias << form.fraction | (fraction & 1))[equal]
    encoded[equal.start] &= ~1
    wild = slice(shape[0] - 4, shape[0])
    any_bits = rng.integers(0, 2**form.width, shape)
    chosen = rng.random(shape) < 0.05
    encoded[wild] = np.where(chosen, any_bits | (top << form.fraction), encoded)[wild]
    encoded[wild] = np.where(rng.random(shape) < 0.02, top << form.fraction, encoded)[wild]
    if kind == "tf32":
        encoded = encoded << 13 | rng.integers(0, 2**13, shape)
    return np.asarray(encoded, np.uint64)


def expected(
    case: MmaCase, capability: int, given: Mapping[str, Array], warpgroup: bool = False
) -> Array:
    """Encodings of D. `warpgroup`: by wgmma."""
    a, b, c = given["a"], given["b"].swapaxes(1, 2), given["c"]
    if case.d == "f64":
        return np.asarray(_fused(a.view(float), b.view(float), c.view(float))).view(np.uint64)
    left, right = a[:, :, None, :], b[:, None, :, :]
    if case.d == "s32":
        exact = (_integers(case.a, left) * _integers(case.b, right)).sum(-1)
        exact = exact + c.astype(np.uint32).view(np.int32).reshape(c.shape)
        if case.saturates:
            exact = np.clip(exact, -(2**31), 2**31 - 1)
        return np.asarray(exact.astype(np.uint64) & np.uint64(0xFFFFFFFF))
    left, right = np.broadcast_arrays(left, right)
    kinds, sums = (case.a, case.b), (case.c, case.d)
    return np.asarray(dot(capability, kinds, left, right, c, sums, warpgroup=warpgroup))


def _integers(kind: str, bits: Array) -> Array:
    narrow: Array = bits.astype(np.uint8)
    return np.asarray(narrow.view(np.int8) if kind == "s8" else narrow, np.int64)


def _fused(a: Array, b: Array, c: Array) -> Array:
    """A chain of fma in order of k, by long doubles of 64 bits and an exact rest."""
    from fractions import Fraction

    out = c.copy()
    for place in np.ndindex(*c.shape):
        row, i, j = place
        total = float(c[place])
        for q in range(a.shape[-1]):
            exact = Fraction(float(a[row, i, q])) * Fraction(float(b[row, j, q])) + Fraction(total)
            total = float(exact)
        out[place] = total
    return out
