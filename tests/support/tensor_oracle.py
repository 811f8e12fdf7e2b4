"""What tensor cores compute, element by element: products exact, sums cut off as published.

The parameters stand here once more, so that the table of the runtime has something to differ from:
Khattak and Mikaitis (arXiv 2512.07004, 2025) and, for Turing, Xie et al. (arXiv 2511.10909, 2025).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Format:
    """A floating format: bits of fraction and exponent, and whether its top exponent is finite."""

    fraction: int
    exponent: int
    finite: bool = False

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def width(self) -> int:
        return 1 + self.exponent + self.fraction


FORMATS = {
    "f16": Format(10, 5),
    "bf16": Format(7, 8),
    "tf32": Format(10, 8),
    "e4m3": Format(3, 4, finite=True),
    "e5m2": Format(2, 5),
    "f32": Format(23, 8),
}


def split(kind: str, bits: Array) -> tuple[Array, Array, Array]:
    """Return significands as whole numbers, exponents, and values of encodings."""
    form = FORMATS[kind]
    bits = bits.astype(np.int64)
    if kind == "tf32":
        bits = bits >> 13
    field = bits >> form.fraction & (2**form.exponent - 1)
    fraction = bits & (2**form.fraction - 1)
    sign = 1 - 2 * (bits >> (form.width - 1) & 1)
    significand = sign * (fraction + np.where(field > 0, 2**form.fraction, 0))
    exponent = np.maximum(field, 1) - form.bias
    value = np.ldexp(significand.astype(float), exponent - form.fraction)
    top = field == 2**form.exponent - 1
    if form.finite:
        value = np.where(top & (fraction == 2**form.fraction - 1), np.nan, value)
    else:
        value = np.where(top, np.where(fraction == 0, sign * np.inf, np.nan), value)
    return significand, exponent, value


@dataclass(frozen=True)
class Rounding:
    """How a kind of tensor core adds: blocks of `products`, cut after `bits` below the largest."""

    products: int
    bits: int
    least: int
    least_half: int
    fraction: int = 23
    pairs: bool = False


def rounding(capability: int, kind: str, warpgroup: bool = False) -> Rounding:
    """Return the parameters of a compute capability, ten times the major number and the minor."""
    fp8 = kind in ("e4m3", "e5m2")
    if capability < 90:
        if fp8:
            return Rounding(16, 13, -132, -132, fraction=13)
        return Rounding(4 if kind == "tf32" else 8, 24, -132, -20)
    if fp8 and warpgroup:
        return Rounding(32, 13, -133, -133, fraction=13)
    if fp8 and capability >= 120:
        return Rounding(32, 25, -133, -133)
    return Rounding(8 if kind == "tf32" else 16, 25, -133, -21, pairs=fp8)


def _cut(value: Array, fraction: int) -> Array:
    """Return f32 values nearer to zero, with so many bits of fraction."""
    _, exponent = np.frexp(value)
    shift = np.maximum(exponent - 1, -126)
    kept = np.trunc(np.ldexp(value, fraction - shift))
    cut = np.ldexp(kept, shift - fraction)
    out = np.where(np.abs(value) >= 2.0**128, np.sign(value) * np.inf, cut)
    return (out + 0.0).astype(np.float32)


def dot(
    capability: int,
    kinds: tuple[str, str],
    a: Array,
    b: Array,
    c: Array,
    sums: tuple[str, str],
    step: int = 1 << 30,
    warpgroup: bool = False,
) -> Array:
    """Return encodings of `c + sum(a * b)` over the last axis, all operands as encodings.

    `sums` are the types of C and of the result; `step`: products of one hardware instruction.
    """
    rule = rounding(capability, kinds[0], warpgroup)
    depth = a.shape[-1]
    order = sorted(range(depth), key=lambda q: (rule.pairs and q >> 1 & 1, q))
    block = min(rule.products, step, depth // 2 if rule.pairs else depth)
    (sa, ea, va), (sb, eb, vb) = split(kinds[0], a), split(kinds[1], b)
    size, at = sa * sb, ea + eb
    lost = FORMATS[kinds[0]].fraction + FORMATS[kinds[1]].fraction
    least = rule.least_half if sums[1] == "f16" else rule.least
    held, kind = c, sums[0]
    for first in range(0, depth, block):
        chosen = order[first : first + block]
        sc, ec, vc = split(kind, held)
        nothing = np.full_like(ec, -9999)
        most = np.maximum(np.where(sc != 0, ec, nothing), least)
        for q in chosen:
            most = np.maximum(most, np.where(size[..., q] != 0, at[..., q], nothing))
        kept = rule.bits - most
        total = np.trunc(np.ldexp(sc.astype(float), kept + ec - FORMATS[kind].fraction))
        for q in chosen:
            total += np.trunc(np.ldexp(size[..., q].astype(float), kept + at[..., q] - lost))
        exact = np.ldexp(total, -kept)
        exact = np.where(np.isfinite(vc), exact, vc)
        held, kind = encode(exact, sums[1], rule.fraction), sums[1]
    with np.errstate(invalid="ignore"):
        terms = np.concatenate([va * vb, split(sums[0], c)[2][..., None]], axis=-1)
        special = ~np.isfinite(terms).all(axis=-1)
        return np.where(special, encode(terms.sum(axis=-1), sums[1], 23), held)


def encode(value: Array, kind: str, fraction: int) -> Array:
    """Return the encodings of sums."""
    with np.errstate(invalid="ignore", over="ignore"):
        if kind == "f16":
            bits = (value + 0.0).astype(np.float16).view(np.uint16).astype(np.int64)
            return np.where(np.isnan(value), 0x7FFF, bits)
        bits = _cut(np.nan_to_num(value, nan=0.0, posinf=np.inf, neginf=-np.inf), fraction)
        return np.where(np.isnan(value), 0x7FFFFFFF, bits.view(np.uint32).astype(np.int64))
