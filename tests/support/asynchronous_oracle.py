"""What the cases of tests/fixtures/recorded/asynchronous.cu should write, in NumPy."""

import re
from hashlib import shake_256
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]

SOURCE = (Path(__file__).parents[1] / "fixtures" / "recorded" / "asynchronous.cu").read_text()
WORDS = 1024
TABLE_WORDS = 1 << 14
REDUCTIONS = re.findall(r'REDUCE\(\d+, "([\w.]+)"\)', SOURCE)
TILES = [
    [int(number) for number in row.split(",")]
    for row in re.findall(r"^    \{([-\d, ]+)\},$", SOURCE, re.MULTILINE)
]
CASES = len(TILES) + len(REDUCTIONS) + 2
_WIDTHS = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2)
_TYPES = {"u32": "<u4", "s32": "<i4", "u64": "<u8", "s64": "<i8", "f32": "<f4", "f64": "<f8"}
STATES = (0, 1, 3, 2, 0, 1, 0, 1, 0, 1, 0, 1, 3, 2, 0, 1, 2, 1, 0, 1, 1, 0)
"""Predicates and pending counts that kernel `states` sees, in order."""


def table() -> Words:
    """Noise whose floats are ordinary numbers in every width."""
    noise = np.frombuffer(shake_256(b"asynchronous").digest(4 * TABLE_WORDS), dtype="<u4").copy()
    # Exponents of halves, bfloats, floats and doubles from the middle of their range.
    return (noise & np.uint32(0x83FF83FF)) | np.uint32(0x3C003C00)


def tile(numbers: list[int], source: Words) -> npt.NDArray[np.uint8]:
    """Shared memory after the load of one tile."""
    kind, swizzle, fill, rank = numbers[:4]
    extents, box, steps, at = (numbers[4 + 5 * i : 4 + 5 * i + rank] for i in range(4))
    steps[0] = 1  # whatever the map says
    width = _WIDTHS[kind]
    data = source.view(np.uint8)
    strides = [width]
    pitch = width
    for extent in extents[:-1]:
        pitch = -(-pitch * extent // 16) * 16
        strides.append(pitch)
    shape = [-(-b // s) for b, s in zip(box, steps, strict=True)]
    shared = np.full(4 * WORDS, 0xA5, np.uint8)
    outside = bytes([0xF7, 0x7F] * (width // 2)) if fill else bytes(width)
    for number, index in enumerate(product(*(range(n) for n in reversed(shape)))):
        places = [a + i * s for a, i, s in zip(at, reversed(index), steps, strict=True)]
        inside = all(0 <= p < e for p, e in zip(places, extents, strict=True))
        offset = sum(p * s for p, s in zip(places, strides, strict=True))
        element = bytes(data[offset : offset + width]) if inside else outside
        byte = number * width
        byte ^= ((byte >> 7) & ((1 << swizzle) - 1)) << 4
        shared[byte : byte + width] = np.frombuffer(element, np.uint8)
    return shared


def reduced(words: str, source: Words) -> Words:
    """Global memory after one bulk reduction."""
    operation, kind = words.split(".")[0], words.split(".")[-1]
    values, old = source[:WORDS], source[WORDS : 2 * WORDS]
    if kind == "bf16":
        wide = [half.view(np.uint16).astype(np.uint32) << 16 for half in (old, values)]
        total = wide[0].view(np.float32) + wide[1].view(np.float32)
        bits = total.view(np.uint32)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return rounded.astype(np.uint16).view(np.uint32)
    dtype = _TYPES.get(kind, "<f2" if kind == "f16" else f"<u{int(kind[1:]) // 8}")
    a, b = values.view(dtype), old.view(dtype)
    found: dict[str, npt.NDArray[np.generic]] = {
        "add": a + b,
        "min": np.minimum(a, b),
        "max": np.maximum(a, b),
    }
    if dtype[1] == "u":
        found |= {"and": a & b, "or": a | b, "xor": a ^ b}
        found["inc"] = np.where(b >= a, 0, b + 1).astype(dtype)
        found["dec"] = np.where((b == 0) | (b > a), a, b - 1).astype(dtype)
    return np.ascontiguousarray(found[operation]).view(np.uint32)


def places() -> Words:
    """What sixteen blocks in clusters of four say of where they are."""
    rows = []
    for y, x in product(range(4), range(4)):
        rank = x % 2 + 2 * (y % 2)
        cluster = (x // 2, y // 2, 2, 2)
        rows.append([x % 2, y % 2, 0, 2, 2, *cluster, rank, 4, 0, 1, 2, 3, x + 4 * y])
    found = np.zeros(WORDS, np.uint32)
    found[: 16 * 16] = np.array(rows, np.uint32).ravel()
    return found


def expected() -> Words:
    """`(cases, 1024)` words: tiles, reductions, states of an mbarrier, places in clusters."""
    source = table()
    states = np.zeros(WORDS, np.uint32)
    states[: len(STATES)] = STATES
    return np.stack(
        [
            *(tile(numbers, source).view(np.uint32) for numbers in TILES),
            *(reduced(words, source) for words in REDUCTIONS),
            states,
            places(),
        ]
    )
