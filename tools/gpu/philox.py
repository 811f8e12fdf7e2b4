"""Sealing and tagging as `native/seal.cu` does it, in NumPy: the rule is written down there."""

from typing import Any

import numpy as np
import numpy.typing as npt

from cuda_llm.tools.gpu.protocol import TAG_WORDS

_ROUNDS = 7
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)

Words = npt.NDArray[np.uint32]


def philox(
    first: npt.NDArray[np.uint64], slot: int, index: int, key: tuple[int, int]
) -> npt.NDArray[np.uint32]:
    """Four words for each 64-bit number in `first`, as rows."""
    x, y = first & _LOW, first >> _HALF
    z, w = np.full_like(first, slot), np.full_like(first, index)
    k0, k1 = key
    for _ in range(_ROUNDS):
        product0, product1 = x * np.uint64(_MULTIPLIERS[0]), z * np.uint64(_MULTIPLIERS[1])
        x, y, z, w = (
            (product1 >> _HALF) ^ y ^ np.uint64(k0),
            product1 & _LOW,
            (product0 >> _HALF) ^ w ^ np.uint64(k1),
            product0 & _LOW,
        )
        k0, k1 = (k0 + _KEY_STEPS[0]) & 0xFFFFFFFF, (k1 + _KEY_STEPS[1]) & 0xFFFFFFFF
    return np.stack([x, y, z, w], axis=1).astype(np.uint32)


def sealed_bytes(
    contents: npt.NDArray[Any], slot: int, index: int, key: tuple[int, int]
) -> npt.NDArray[np.uint8]:
    """The bytes of `contents` sealed, or of what is sealed opened."""
    plain = np.ascontiguousarray(contents).reshape(-1).view(np.uint8)
    blocks = np.arange(-(-plain.size // 16), dtype=np.uint64)
    stream = philox(blocks, slot, index, key).reshape(-1).view(np.uint8)
    return plain ^ stream[: plain.size]


def tag_of(contents: npt.NDArray[np.uint8], slot: int, index: int, key: tuple[int, int]) -> int:
    """The keyed sum over at most 65,536 of the words."""
    count = -(-contents.size // 4)
    padded = np.zeros(count * 4, np.uint8)
    padded[: contents.size] = contents
    words = padded.view("<u4")
    drawn = philox(np.arange(min(count, TAG_WORDS), dtype=np.uint64), slot, index, key)
    r0, r1, r2, r3 = (drawn[:, column].astype(np.uint64) for column in range(4))
    if count > TAG_WORDS:
        places = [
            (int(low) | int(high) << 32) * count >> 64 for low, high in zip(r0, r1, strict=True)
        ]
        words = words[np.array(places, dtype=np.int64)]
    return int((words * (r2 | r3 << _HALF)).sum(dtype=np.uint64))
