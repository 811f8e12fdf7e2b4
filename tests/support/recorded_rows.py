"""Operands on which real hardware was recorded. A recording holds results alone, so whoever changes
a value here has to record again (tests/fixtures/recorded/README.md)."""

from functools import cache
from hashlib import shake_256

import numpy as np
import numpy.typing as npt

ROWS = 256
TINY = 48
"""Rows, from 192 on, in which floats multiply to almost nothing."""
TABLES = (
    0xF0,
    0xCC,
    0xAA,
    0x80,
    0x01,
    0xE8,
    0x96,
    0xFE,
    0xC0,
    0x3C,
    0x78,
    0xD8,
    0x1B,
    0xE4,
    0,
    0xFF,
)
"""Tables tried with lop3, which takes nothing but a literal: row i uses number i modulo 16."""
FLOATS = {"f16": (10, 15, 16), "bf16": (7, 127, 16), "f32": (23, 127, 32), "f64": (52, 1023, 64)}
"""Bits of mantissa, bias, width."""

Column = npt.NDArray[np.uint64]


def bits_of(t: str) -> int:
    """Width of a PTX type."""
    if t == "pred":
        return 1
    digits = int("".join(c for c in t.removesuffix("x2") if c.isdigit()))
    return 2 * digits if t.endswith("x2") else digits


def _integer_edges(width: int) -> list[int]:
    """The first twelve meet each other; the others meet at random."""
    top = 1 << (width - 1)
    mask = 2 * top - 1
    values = [0, 1, mask, top, top - 1, 2, 8, 31, 32, 33, 0x96, 0xE8]
    values += [mask - 1, top + 1, 3, 4, 5, 7, 15, 16, 17, 24, 63, 64, 65, 127, 128, 129, 255]
    values += [256, 257, 0x7FFF, 0x8000, 0xFFFF, 0xFFFFFF, 0x1000000, 0x7FFFFFFF, 0x80000000]
    values += [0xFFFFFFFF, 0x01020408, 0x80808080, 0x7F807F80, 0x3210, 0x7654, 0xBA98, 0xFEDC]
    return list(dict.fromkeys(v & mask for v in values))


def _float_edges(mantissa: int, bias: int, width: int) -> list[int]:
    one = bias << mantissa
    infinity = (2 * bias + 1) << mantissa
    quiet = 1 << (mantissa - 1)
    sizes = [0, 1, (1 << mantissa) - 1, 1 << mantissa, one, one | 1, infinity - 1, infinity]
    sizes += [infinity | quiet, infinity | 1, infinity + (1 << mantissa) - 1]
    sizes += [infinity | quiet | 3, 2, 3, (1 << mantissa) + 1, one - 1, 1 << (mantissa - 1)]
    sizes += [one + quiet, one - (1 << mantissa), one - (1 << mantissa) + quiet]
    # Powers of two, and halfway between integers, near the ends of the integer types.
    for power in (-25, -24, -15, -14, -9, 1, 2, 7, 8, 15, 16, 23, 24, 31, 32, 52, 53, 63, 64):
        exponent = bias + power
        if 0 < exponent < 2 * bias + 1:
            code = exponent << mantissa
            half = 1 << (mantissa - power - 1) if -1 < power < mantissa else 0
            sizes += [code, code - 1, code + 1, code | half, (code | half) - 1]
    if width == 64:
        # Just below the smallest normal f32.
        sizes += [(bias - 126 << 52) - (1 << 53 - j) for j in (2, 20, *range(22, 29), 52)]
    sizes = list(dict.fromkeys(s for s in sizes if s < 1 << (width - 1)))
    return [s | sign << (width - 1) for s in sizes for sign in (0, 1)]


@cache
def edges(t: str) -> tuple[int, ...]:
    """Edge values of a type, the ones that should meet first."""
    if t == "pred":
        return (0, 1)
    if t in FLOATS:
        return tuple(_float_edges(*FLOATS[t]))
    return tuple(_integer_edges(bits_of(t)))


def _drawn(t: str, noise: bytes) -> int:
    """One value: an edge, a common one, or any bits."""
    kind, pick, rest = noise[0], int.from_bytes(noise[1:3]), int.from_bytes(noise[4:12])
    if kind < 112:
        return edges(t)[pick % len(edges(t))]
    if kind < 192 and t in FLOATS:
        mantissa, bias, width = FLOATS[t]
        near = bias - 6 + pick % 13
        return near << mantissa | rest & ((1 << mantissa) - 1) | noise[3] % 2 << (width - 1)
    if kind < 192:
        return (pick % 81 - 40) & ((1 << bits_of(t)) - 1)
    return rest & ((1 << bits_of(t)) - 1)


def _met(t: str, place: int, row: int) -> int:
    """Twelve landmarks of each type, met pairwise by the first two arguments."""
    turn = row // 12 if place == 0 else row % 12 if place == 1 else row * 7 % 24
    return edges(t)[turn % len(edges(t))]


def _tiny_factors(t: str, place: int) -> list[int]:
    """Factors whose product lies just below the smallest normal number, by less than two units."""
    mantissa, bias, width = FLOATS[t]
    one = 1 << mantissa
    noise = shake_256(f"tiny {t}".encode()).digest(4 * TINY)
    codes = []
    for i in range(TINY):
        first = one | int.from_bytes(noise[4 * i : 4 * i + 4]) % one
        second = ((one << mantissa + 1) - 1) // first
        # Significands in [1, 2) whose product is just below 2.
        significand = (first, second)[place]
        exponent = bias + (-4 if place == 0 else 4 - bias)
        sign = i >> place & 1
        codes.append(exponent << mantissa | significand & (one - 1) | sign << (width - 1))
    return codes


def _column(arguments: tuple[str, ...], place: int, t: str, salt: str = "") -> list[int]:
    noise = shake_256(f"{arguments} {place} {salt}".encode()).digest(16 * ROWS)
    column = [_drawn(t, noise[16 * row : 16 * row + 16]) for row in range(ROWS)]
    if len(arguments) == 1:
        return [*edges(t), *column][:ROWS]
    for row in range(144):
        column[row] = _met(t, place, row)
    if t in FLOATS and len(set(arguments[:2])) == 1 and place < 3:
        column[192 : 192 + TINY] = _tiny_factors(t, place) if place < 2 else [0] * TINY
    return column


@cache
def columns(arguments: tuple[str, ...]) -> tuple[Column, ...]:
    """A column of raw bits for each argument type, in every run the same."""
    made = []
    for place, t in enumerate(arguments):
        if arguments == ("b16",):
            # Every value of the low byte meets every value of the high one's complement: all fp8.
            column = [row | (255 - row) << 8 for row in range(ROWS)]
        elif t.endswith("x2"):
            low = _column(arguments, place, t[:-2], "low")
            high = _column(arguments, place, t[:-2], "high")[::-1]
            column = [a | b << bits_of(t) // 2 for a, b in zip(low, high, strict=True)]
        else:
            column = _column(arguments, place, t)
        made.append(np.array(column, dtype=np.uint64))
    if len(arguments) > 1 and arguments[0] == arguments[1]:
        # Neighbours and negatives, where sums cancel and comparisons turn.
        flip = np.array([0, 1, 3, 1 << (bits_of(arguments[0]) - 1)], dtype=np.uint64)
        made[1][144:176] = made[0][144:176] ^ np.resize(flip, 32)
        if arguments[0] == "pred":
            made[1] &= np.uint64(1)
    return tuple(made)


def operands(spelling: str, arguments: tuple[str, ...]) -> tuple[Column, ...]:
    """The columns an operation was recorded on."""
    made = columns(arguments)
    if spelling.startswith("lop3."):
        table = np.resize(np.array(TABLES, dtype=np.uint64), ROWS)
        made = (*made[:3], table, *made[4:])
    return made
