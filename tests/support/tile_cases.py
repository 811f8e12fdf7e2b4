"""Tiles that are stored and reduced by tensor map, or loaded as a type that alters them, in NumPy.

The cases are those of tests/fixtures/recorded/tiles_out.cu, 512 words each.
"""

from dataclasses import dataclass
from hashlib import shake_256
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
WORDS = 512
SOURCE = Path(__file__).parents[1] / "fixtures" / "recorded" / "tiles_out.cu"
OPERATIONS = ("store", "add", "min", "max", "inc", "dec", "and", "or", "xor", "load")
TYPES = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32.ftz", "tf32",
    "tf32.ftz",
)  # fmt: skip
_DTYPES = (
    "<u1",
    "<u2",
    "<u4",
    "<i4",
    "<u8",
    "<i8",
    "<f2",
    "<f4",
    "<f8",
    "<u2",
    "<f4",
    "<f4",
    "<f4",
)


@dataclass(frozen=True)
class TileCase:
    """One instruction. Extents, box and steps begin with the innermost dimension."""

    operation: str
    kind: str
    extents: tuple[int, ...]
    box: tuple[int, ...]
    at: tuple[int, ...]
    swizzle: int = 0
    fill: int = 0
    steps: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.operation} {self.kind} {self.box} at {self.at} swizzle {self.swizzle}"

    @property
    def is_inside(self) -> bool:
        """Whether no element of the tile lies outside of the tensor."""
        axes = zip(self.at, self.box, self.extents, strict=True)
        return all(start >= 0 and start + size <= extent for start, size, extent in axes)

    @property
    def is_before(self) -> bool:
        """Whether it is written and begins before the tensor, which an H200 calls illegal."""
        return self.operation != "load" and min(self.at) < 0

    @property
    def where(self) -> str:
        """The end of the name of its part."""
        return " before" if self.is_before else "" if self.is_inside else " outside"

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return np.dtype(_DTYPES[TYPES.index(self.kind)]).itemsize

    @property
    def numbers(self) -> list[int]:
        """As the program has them."""
        rank = len(self.extents)
        head = [OPERATIONS.index(self.operation), TYPES.index(self.kind), self.swizzle, self.fill]
        lists = (self.extents, self.box, self.all_steps, self.at)
        padded = ([*given, *[int(n < 3)] * (5 - rank)] for n, given in enumerate(lists))
        return [*head, rank, *(number for one in padded for number in one)]

    @property
    def all_steps(self) -> tuple[int, ...]:
        return self.steps or (1,) * len(self.extents)


def store_cases() -> tuple[TileCase, ...]:
    """Types, swizzles, one to five dimensions, steps, and tiles that lie outside in part."""
    found = []
    for kind, swizzle in product(TYPES, range(4)):
        width = TileCase("store", kind, (), (), ()).width
        row = (32 << max(swizzle - 1, 0)) // width
        found.append(
            TileCase("store", kind, (144 // width, 12), (row, 8), (16 // width, 3), swizzle)
        )
    found.append(TileCase("store", "f32", (36, 12), (32, 8), (-4, 8), 3))
    found.append(TileCase("store", "f32", (36, 12), (32, 8), (20, -3), 3))
    found.append(TileCase("store", "u8", (140, 12), (64, 8), (-16, 9), 2))
    found.append(TileCase("store", "f16", (70, 12), (64, 8), (-8, -3), 3))
    found.append(TileCase("store", "bf16", (70, 12), (16, 8), (56, 2), 1))
    found.append(TileCase("store", "u32", (100,), (64,), (72,)))
    found.append(TileCase("store", "u32", (100,), (64,), (-8,)))
    found.append(TileCase("store", "f32", (8, 6, 5), (8, 3, 2), (4, -1, 4)))
    found.append(TileCase("store", "f16", (16, 4, 3), (16, 2, 2), (-8, 1, 1), 1))
    found.append(TileCase("store", "u32", (4, 4, 3, 3), (4, 2, 2, 2), (0, -1, 2, 1)))
    found.append(TileCase("store", "f32", (8, 3, 3, 2, 2), (8, 2, 2, 2, 2), (4, 2, 0, 1, -1)))
    found.append(TileCase("store", "f32", (36, 12), (16, 8), (4, 1), steps=(1, 3)))
    found.append(TileCase("store", "f16", (72, 12), (32, 9), (8, 1), 2, steps=(1, 2)))
    return tuple(found)


def reduction_cases() -> tuple[TileCase, ...]:
    """Each operation on the types it has."""
    whole = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
    pairs = [(one, "u32") for one in whole]
    pairs += [(one, kind) for kind in ("s32",) for one in ("add", "min", "max")]
    pairs += [(one, "u64") for one in ("add", "min", "max", "and", "or", "xor")]
    pairs += [(one, "s64") for one in ("min", "max")]
    pairs += [(one, kind) for kind in ("f16", "bf16") for one in ("add", "min", "max")]
    pairs += [("add", "f32"), ("add", "f64")]
    found = []
    for number, (operation, kind) in enumerate(pairs):
        width = TileCase(operation, kind, (), (), ()).width
        swizzle = number % 4
        row = (32 << max(swizzle - 1, 0)) // width
        unit, columns = 16 // width, 144 // width
        starts = ((unit, 3), (-unit, 3), (unit, 6), (columns - 2 * unit, -2))
        at = starts[(number + number // 4) % 4]
        found.append(TileCase(operation, kind, (columns, 12), (row, 8), at, swizzle))
    found.append(TileCase("add", "u32", (100,), (64,), (72,)))
    found.append(TileCase("add", "f32", (8, 6, 5), (8, 3, 2), (4, -1, 4)))
    # As those that an H200 refused, but inside.
    found.append(TileCase("add", "f32", (36, 12), (8, 8), (4, 3), 1))
    found.append(TileCase("add", "f32", (8, 6, 5), (8, 3, 2), (0, 1, 2)))
    found.append(TileCase("add", "f16", (72, 12), (64, 8), (8, 3), 3))
    return tuple(found)


def wild_cases() -> tuple[TileCase, ...]:
    """Sums of subnormal numbers, infinities and NaN, and what is flushed or shortened."""
    kinds = ("f32", "f32.ftz", "tf32", "tf32.ftz", "f16", "bf16")
    found = []
    for kind in kinds:
        row = 128 // TileCase("add", kind, (), (), ()).width
        found.append(TileCase("add", kind, (row, 12), (row, 12), (0, 0)))
    return tuple(found)


def load_cases() -> tuple[TileCase, ...]:
    """The types of 32 bits, on the same words."""
    kinds = ("f32", "f32.ftz", "tf32", "tf32.ftz")
    found = [TileCase("load", kind, (32, 14), (32, 14), (0, 0)) for kind in kinds]
    return (*found, *(TileCase("load", k, (30, 12), (32, 8), (4, 6), 3, 1) for k in kinds))


def _parts() -> dict[str, tuple[TileCase, ...]]:
    """Cases by the name of their record, apart from each other where a GPU may refuse some."""
    found: dict[str, tuple[TileCase, ...]] = {}
    found["unaligned"] = (TileCase("load", "f32", (32, 14), (32, 8), (2, 0)),)
    every = (
        ("stores", store_cases()),
        ("loads", load_cases()),
        ("reductions", reduction_cases()),
        ("wild", wild_cases()),
    )
    for (name, cases), kind, where in product(every, TYPES, ("", " outside", " before")):
        of_kind = (case for case in cases if case.kind == kind)
        if chosen := tuple(case for case in of_kind if case.where == where):
            found[f"{name} {kind}{where}"] = chosen
    return found


PARTS = _parts()


def is_wild(part: str) -> bool:
    """Whether a part is given any words, and not ordinary numbers only."""
    return part.split()[0] in ("unaligned", "loads", "wild")


def tile_source() -> str:
    """The program, with all cases."""
    cases = [case for part in PARTS.values() for case in part]
    rows = ",\n".join("{" + ", ".join(map(str, case.numbers)) + "}" for case in cases)
    ends = np.cumsum([0, *map(len, PARTS.values())]).tolist()
    parts = ", ".join(map(str, ends))
    head = f"const int kCases[][25] = {{\n{rows}\n}};\nconst int kParts[] = {{{parts}}};\n"
    return head + SOURCE.read_text()


def tile_table(wild: bool) -> Array:
    """What is in shared memory, then what is added to: ordinary numbers of every type, or any."""
    noise = np.frombuffer(shake_256(b"tiles").digest(8 * WORDS), dtype="<u4").copy()
    if not wild:
        return np.asarray((noise & np.uint32(0x83FF83FF)) | np.uint32(0x3C003C00))
    group = np.arange(2 * WORDS) % 8
    # Subnormal in f32, in f16 and bf16, halfway between two of tf32, or at the ends of exponents.
    noise[group == 1] &= np.uint32(0x807FFFFF)
    noise[group == 2] = noise[group == 2] & np.uint32(0x80FFFFFF) | np.uint32(0x00800000)
    noise[group == 3] |= np.uint32(0x7F800000)
    noise[group == 4] = noise[group == 4] & np.uint32(0xBF3FE000) | np.uint32(0x00001000)
    noise[group == 5] &= np.uint32(0x83FF83FF)
    noise[group == 6] &= np.uint32(0x807F007F)
    noise[(group == 7) & (noise % 3 == 0)] &= np.uint32(0xFF800000)
    return noise


def tile_expected(case: TileCase, table: Array) -> Array:
    """The words that a case leaves."""
    data = table.view(np.uint8)
    shared, tensor = data[: 4 * WORDS].copy(), np.full(4 * WORDS, 0xA5, np.uint8)
    if case.operation == "load":
        shared, tensor = tensor, data
    elif case.operation != "store":
        tensor = data[4 * WORDS :].copy()
    width, steps = case.width, (1, *case.all_steps[1:])
    strides, pitch = [width], width
    for extent in case.extents[:-1]:
        pitch = -(-pitch * extent // 16) * 16
        strides.append(pitch)
    shape = [-(-b // s) for b, s in zip(case.box, steps, strict=True)]
    outside = np.frombuffer(bytes([0xF7, 0x7F] * (width // 2)) if case.fill else bytes(width), "u1")
    ends = list(case.extents)
    if case.operation == "store" and len(ends) > 1:  # the last 16 bytes of a row are written whole
        ends[0] = -(-ends[0] * width // 16) * 16 // width
    for number, index in enumerate(product(*(range(n) for n in reversed(shape)))):
        places = [a + i * s for a, i, s in zip(case.at, reversed(index), steps, strict=True)]
        inside = all(0 <= p < e for p, e in zip(places, ends, strict=True))
        offset = sum(p * s for p, s in zip(places, strides, strict=True)) if inside else 0
        byte = number * width
        byte ^= ((byte >> 7) & ((1 << case.swizzle) - 1)) << 4
        here, there = slice(byte, byte + width), slice(offset, offset + width)
        if case.operation == "load":
            shared[here] = loaded(case, tensor[there]) if inside else outside
        elif inside:
            tensor[there] = combined(case, tensor[there], shared[here])
    return (shared if case.operation == "load" else tensor).view(np.uint32)


def loaded(case: TileCase, element: Array) -> Array:
    """The bytes of one element after a load: tf32 is rounded to nearest, ties to even."""
    if not case.kind.startswith("tf32"):
        return element
    bits = int(element.view("<u4")[0])
    is_nan = bits & 0x7FFFFFFF > 0x7F800000
    rounded = 0x7FFFE000 if is_nan else (bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFF
    return np.full(1, rounded, "<u4").view(np.uint8)


def combined(case: TileCase, old: Array, new: Array) -> Array:
    """The bytes of one element after a store or a reduction."""
    if case.operation == "store":
        return new
    if case.operation in ("and", "or", "xor"):
        bits = {"and": old & new, "or": old | new, "xor": old ^ new}
        return bits[case.operation]
    dtype = _DTYPES[TYPES.index(case.kind)]
    short = case.kind == "bf16"
    kept = _flushed if case.kind.endswith(".ftz") else np.asarray
    a, b = (_widened(one) if short else kept(one.view(dtype)) for one in (old, new))
    with np.errstate(all="ignore"):
        match case.operation:
            case "add":
                total = kept(a + b)
            case "min":
                total = np.minimum(a, b)
            case "max":
                total = np.maximum(a, b)
            case "inc":
                total = np.where(a >= b, 0, a + 1)
            case _:
                total = np.where((a == 0) | (a > b), b, a - 1)
    if total.dtype.kind == "f" and np.isnan(total).any():
        canonical = (1 << (8 * case.width - 1)) - 1
        return np.full(1, canonical, f"<u{case.width}").view(np.uint8)
    return _narrowed(total) if short else np.asarray(total.astype(dtype)).view(np.uint8)


def _widened(half: Array) -> Array:
    return np.asarray((half.view("<u2").astype("<u4") << 16).astype("<u4")).view("<f4")


def _flushed(numbers: Array) -> Array:
    """Zeros in place of subnormal numbers in f32."""
    small = np.abs(numbers) < np.finfo(np.float32).smallest_normal
    return np.where(small, np.copysign(np.float32(0), numbers), numbers)


def _narrowed(number: Array) -> Array:
    bits = number.view("<u4")
    return np.asarray((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").view(np.uint8)
