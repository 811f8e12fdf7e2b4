"""Calls of tests/fixtures/recorded/*.cu, as they were made on real hardware. Whoever changes a
value here has to record again (tests/fixtures/recorded/README.md)."""

from hashlib import shake_256

import numpy as np
import numpy.typing as npt
from recorded_rows import columns

COLLECTIVE_ROWS = 96
COLLECTIVE_RESULTS = 32
ATOMIC_TYPES = ("u32", "u64", "f32", "f64", "f16", "bf16", "f16x2", "bf16x2")
ATOMICS = (
    "add.u32",
    "add.s32",
    "add.u64",
    "min.u32",
    "max.u32",
    "min.s32",
    "max.s32",
    "min.u64",
    "max.u64",
    "min.s64",
    "max.s64",
    "inc.u32",
    "dec.u32",
    "and.b32",
    "or.b32",
    "xor.b32",
    "and.b64",
    "or.b64",
    "xor.b64",
    "add.f32",
    "add.f64",
    "add.f16",
    "add.bf16",
    "add.f16x2",
    "add.bf16x2",
    "exch.b32",
    "exch.b64",
    "cas.b16",
    "cas.b32",
    "cas.b64",
)
ATOMIC_RESULTS = 6
MASKS = (0xFFFFFFFF, 0x0000FFFF, 0x000000FF, 0x55555555, 0x0F0F0F0F, 0x80000001, 0x00000010, 0x7)
"""Lanes of a mask form one group, the others the second one."""
CLAMPS = (
    0x1F,
    0x00,
    0x101F,
    0x181F,
    0x1C1F,
    0x1E1F,
    0x1F1F,
    0x1000,
    0x1800,
    0x1E00,
    0x0F07,
    0x1503,
)


def collective_table() -> npt.NDArray[np.uint32]:
    """`(rows, 5, 32)`: value, value of match, lane operand, clamp, members."""
    size = COLLECTIVE_ROWS * 4 * 32
    noise = np.frombuffer(shake_256(b"collectives").digest(4 * size), dtype="<u4")
    table = np.empty((COLLECTIVE_ROWS, 5, 32), dtype=np.uint32)
    table[:, :4] = noise.reshape(COLLECTIVE_ROWS, 4, 32)
    table[:, 1] &= 15
    lanes = np.arange(32)
    for row in range(COLLECTIVE_ROWS):
        if row % 3 == 0:
            table[row, 1] = row
        if row < 48:
            # What compilers write: one clamp, one distance.
            table[row, 2] = (0, 1, 2, 4, 8, 16, 31, 17, 32, 33, 64, 0xFFFFFFFF)[row // 4]
            table[row, 3] = CLAMPS[row % len(CLAMPS)]
        elif row < 72:
            table[row, 3] = CLAMPS[row % len(CLAMPS)]
        mask = MASKS[row % len(MASKS)]
        table[row, 4] = np.where(mask >> lanes & 1, mask, ~mask & 0xFFFFFFFF)
    return table


def atomic_table() -> npt.NDArray[np.uint64]:
    """`(types, 3, rows)`: cell, first and second operand."""
    return np.array([columns((t, t, t)) for t in ATOMIC_TYPES])
