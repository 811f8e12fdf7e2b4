"""Operands worth trying: the edges of every type, and random values that meet each other."""

import random
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from zlib import crc32

from lane_oracle.formats import FORMATS, Format, decode, encode, number

from cuda_llm.tools.emulator.ops.lane_op import LaneOp

SHIFTS = (0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 255, 256, 257, 1 << 31)
FRACTIONS = (
    *(Fraction(n, 2) for n in (1, 3, 5, 7, 255, 509, 511, 513, 65535, 65537)),
    *(Fraction(2) ** n for n in (-150, -149, -127, -126, -25, -24, -15, -14, -9, -6, -1)),
    *(Fraction(2) ** n for n in (7, 8, 15, 16, 24, 31, 32, 52, 63, 64, 126, 127)),
    *(Fraction(2) ** n - 1 for n in (7, 8, 15, 16, 31, 32, 53, 63, 64)),
    *(Fraction(n) for n in (65504, 65519, 65520, 448, 464, 465, 57344, 61440)),
)

MISTAKEN = (
    ("add.rz.f32", "add.rn.f32"),
    ("add.rm.f64", "add.rn.f64"),
    ("fma.rn.f32", "fma.rn.ftz.f32"),
    ("mul.rp.f32x2", "mul.rn.f32x2"),
    ("min.f32", "min.NaN.f32"),
    ("min.f32", "max.f32"),
    ("fma.rn.f16", "fma.rn.sat.f16"),
    ("fma.rn.bf16", "fma.rn.relu.bf16"),
    ("add.s32", "add.sat.s32"),
    ("mul.hi.s32", "mul.hi.u32"),
    ("bfe.s32", "bfe.u32"),
    ("shf.l.wrap.b32", "shf.l.clamp.b32"),
    ("setp.lt.f32", "setp.ltu.f32"),
    ("setp.lt.s64", "setp.lt.u64"),
    ("cvt.rni.s32.f32", "cvt.rzi.s32.f32"),
    ("cvt.rn.f16.f32", "cvt.rz.f16.f32"),
    ("cvt.rn.f32.s64", "cvt.rp.f32.s64"),
    ("ex2.approx.f32", "ex2.approx.ftz.f32"),
)
"""Spellings, and others for which their results are wrong."""


def integer_edges(width: int) -> list[int]:
    """Zero, one, the ends of both signs, shift amounts and masks of a width."""
    top = 1 << (width - 1)
    values = {0, 1, 2, 3, 5, 10, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, 0x96, 0xE8}
    values |= {s for s in SHIFTS if s < 2 * top}
    values |= {0x5555555555555555 & (2 * top - 1), 0xFEDCBA9876543210 & (2 * top - 1)}
    return sorted(values)


def float_edges(form: Format) -> list[int]:
    """Zeros, subnormals, ones, ties, powers of two, the largest, infinity, NaNs; both signs."""
    normal = 1 << form.mantissa
    one = form.bias << form.mantissa
    codes = {0, 1, 2, 3, normal - 1, normal, normal + 1, one - 1, one, one + 1, one | (normal - 1)}
    codes |= {
        form.largest,
        form.largest - 1,
        form.largest + 1,
        form.nan & (2 ** (form.width - 1) - 1),
    }
    codes |= {form.largest + 2, (1 << (form.width - 1)) - 1}
    for fraction in FRACTIONS:
        code = encode(form, number(fraction))
        codes |= {max(code - 1, 0), code, min(code + 1, form.largest)}
    top = 1 << (form.width - 1)
    codes = {c for c in codes if c < top}
    return sorted(codes | {c | top for c in codes})


@cache
def landmarks(t: str) -> list[int]:
    """The few values that meet in most special cases: zeros, subnormals, ones, infinity, NaN."""
    if t not in FORMATS:
        return edges(t)[:4]
    form = FORMATS[t]
    one = form.bias << form.mantissa
    codes = [0, 1, (1 << form.mantissa) - 1, one, one + 1, form.largest, form.largest + 1]
    return codes + [c | 1 << (form.width - 1) for c in codes]


@cache
def edges(t: str) -> list[int]:
    """Edge values of a PTX type, as raw bits."""
    if t == "pred":
        return [0, 1]
    if t.endswith("x2"):
        half = edges(t[:-2])
        step = len(half) // 2 | 1
        width = 32 if t == "f32x2" else 16
        return [low | half[i * step % len(half)] << width for i, low in enumerate(half)]
    if t in FORMATS:
        return float_edges(FORMATS[t])
    return integer_edges(int(t[1:]))


def bits_of(t: str) -> int:
    """Width in bits of a PTX type."""
    if t == "pred":
        return 1
    digits = int("".join(c for c in t.removesuffix("x2") if c.isdigit()))
    return 2 * digits if t.endswith("x2") else digits


def _moderate(t: str, draw: random.Random) -> int:
    """A small integer, or a float of common size, so that sums and comparisons interact."""
    if t == "pred":
        return draw.getrandbits(1)
    if t.endswith("x2"):
        half = t[:-2]
        return _moderate(half, draw) | _moderate(half, draw) << bits_of(half)
    if t in FORMATS:
        form = FORMATS[t]
        near = min(6, form.bias - 1)
        exponent = form.bias + draw.randint(-near, near)
        code = exponent << form.mantissa | draw.getrandbits(form.mantissa)
        return code | draw.getrandbits(1) << (form.width - 1)
    return draw.randint(-40, 40) & ((1 << bits_of(t)) - 1)


def rows_for(spelling: str, op: LaneOp, count: int) -> list[tuple[int, ...]]:
    """Rows of operands, the same in every run. Where they fit, all edges come first."""
    draw = random.Random(crc32(spelling.encode()))
    pools = [edges(t) for t in op.arguments]
    rows: list[tuple[int, ...]] = []
    if len(pools) == 1:
        rows = [(value,) for value in pools[0]]
    while len(rows) < count:
        kind = draw.random()
        row = []
        for t, pool in zip(op.arguments, pools, strict=True):
            choice = draw.random()
            if kind < 0.2:
                row.append(draw.choice(landmarks(t)))
            elif choice < (0.5 if kind < 0.7 else 0.15):
                row.append(draw.choice(pool))
            elif choice < 0.75:
                row.append(_moderate(t, draw))
            else:
                row.append(draw.getrandbits(bits_of(t)))
        if len(row) > 1 and op.arguments[0] == op.arguments[1] and kind > 0.9:
            row[1] = row[0] ^ draw.choice((0, 1, 1 << (bits_of(op.arguments[0]) - 1)))
        rows.append(tuple(row))
    return rows


def describe(t: str, bits: int) -> str:
    """Raw bits, and the number they stand for."""
    text = f"{bits:#x}"
    if t in FORMATS:
        real = decode(FORMATS[t], bits)
        value = "nan" if real is None else "inf" if real.size is None else f"{float(real.value):g}"
        return f"{text} ({value})"
    return text


def show(types: Sequence[str], row: Sequence[int]) -> str:
    """A row for a failure message."""
    return ", ".join(describe(t, bits) for t, bits in zip(types, row, strict=True))
