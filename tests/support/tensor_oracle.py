"""What tensor cores compute, element by element: products exact, sums cut off.

The parameters stand here once more, so that the table of the runtime has something to differ from:
those of Hopper are what an H200 gives, the others are published (docs/emulator.md names where).
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
    widened: bool = False
    """ptxas makes two instructions on f16 of one on fp8, and adds C to what they give."""


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
    return Rounding(8 if kind == "tf32" else 16, 25, -133, -21, widened=fp8)


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
    # Where C and D are unlike, C is widened before and D narrowed after.
    kind = sums[1] if sums[0] == sums[1] else "f32"
    first = _nearest(split(sums[0], c)[2], kind)
    held = np.zeros_like(first) if rule.widened else first
    block = min(rule.products, step, depth // 2 if rule.widened else depth)
    # Of four neighbours the first two are widened for one instruction, the others for the next.
    order = sorted(range(depth), key=lambda q: (rule.widened and q >> 1 & 1, q))
    for at in range(0, depth, block):
        part = order[at : at + block]
        held = _add_block(rule, kinds, a[..., part], b[..., part], held, kind)
    if rule.widened:
        numbers = np.float16 if kind == "f16" else np.float32
        terms = np.stack([split(kind, bits)[2] for bits in (held, first)]).astype(numbers)
        with np.errstate(invalid="ignore", over="ignore"):
            held = _nearest(terms[0] + terms[1], kind)
    return held if kind == sums[1] else _nearest(split(kind, held)[2], sums[1])


def _add_block(
    rule: Rounding, kinds: tuple[str, str], a: Array, b: Array, held: Array, kind: str
) -> Array:
    """Add products to a sum."""
    (sa, ea, va), (sb, eb, vb), (sc, ec, vc) = (
        split(kinds[0], a),
        split(kinds[1], b),
        split(kind, held),
    )
    size, at = sa * sb, ea + eb
    lost = FORMATS[kinds[0]].fraction + FORMATS[kinds[1]].fraction
    most = np.where(size != 0, at, -9999).max(axis=-1)
    most = np.maximum(most, np.where(sc != 0, ec, -9999))
    kept = rule.bits - np.maximum(most, rule.least_half if kind == "f16" else rule.least)
    total = np.trunc(np.ldexp(sc.astype(float), kept + ec - FORMATS[kind].fraction))
    aligned = np.trunc(np.ldexp(size.astype(float), kept[..., None] + at - lost))
    total += aligned.sum(axis=-1)
    with np.errstate(invalid="ignore"):
        terms = np.concatenate([va * vb, vc[..., None]], axis=-1)
        exact = np.where(
            np.isfinite(terms).all(axis=-1), np.ldexp(total, -kept), terms.sum(axis=-1)
        )
    if kind == "f32":
        return _nearest(_cut(exact, rule.fraction), kind)
    half = _nearest(exact, kind)
    return np.where(half == 0x8000, 0, half)


def _cut(value: Array, fraction: int) -> Array:
    """Return values of f32 nearer to zero, with so many bits of fraction; no zero is negative."""
    finite = np.where(np.isfinite(value), value, 0.0)
    _, exponent = np.frexp(finite)
    shift = np.maximum(exponent - 1, -126)
    cut = np.ldexp(np.trunc(np.ldexp(finite, fraction - shift)), shift - fraction)
    out = np.where(np.abs(finite) >= 2.0**128, np.copysign(np.inf, finite), cut)
    return np.where(np.isfinite(value), out + 0.0, value)


def _nearest(value: Array, kind: str) -> Array:
    """Return encodings in f16 or f32."""
    with np.errstate(invalid="ignore", over="ignore"):
        if kind == "f16":
            bits = value.astype(np.float16).view(np.uint16).astype(np.int64)
            return np.where(np.isnan(value), 0x7FFF, bits)
        bits = value.astype(np.float32).view(np.uint32).astype(np.int64)
        return np.where(np.isnan(value), 0x7FFFFFFF, bits)
