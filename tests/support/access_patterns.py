"""Shared-memory access patterns whose passes were counted by hardware."""

from hashlib import shake_256

import numpy as np
import numpy.typing as npt

ABSENT = 0xFFFFFFFF
WORDS = (1, 2, 4)
"""Access widths tried with each pattern, loads first, then stores."""


def patterns() -> npt.NDArray[np.uint32]:
    """`(patterns, 32)`: each lane's offset in units of the access, below 2048."""
    lane = np.arange(32)
    rows = [lane * stride % 2048 for stride in (0, 1, 2, 3, 4, 5, 8, 16, 32, 33)]
    rows += [lane // n for n in (2, 4, 8, 16)]
    rows += [lane % n for n in (2, 4, 8, 16)]
    rows += [lane % 8 * 4, lane // 8 * 8, lane // 16 * 33 + lane % 16, 31 - lane, lane ^ 5]
    rows += [lane // 4 * 32 + lane % 4, lane // 8 * 32 + lane % 8, lane % 4 * 32 + lane // 4]
    for active in (lane < 1, lane < 8, lane < 16, lane % 2 == 0, lane >= 24):
        rows += [np.where(active, lane, ABSENT), np.where(active, lane * 8, ABSENT)]
    for i, below in enumerate((16, 32, 64, 64, 128, 256, 512, 2048, 2048)):
        noise = np.frombuffer(shake_256(bytes([i])).digest(64), dtype="<u2")
        rows.append(noise.astype(np.int64) % below)
    return np.array(rows, dtype=np.uint32)
