"""Sealing and tagging in NumPy, as the comment of `seal.cu` describes them."""

from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
TAG_WORDS = 65536
LOW = np.uint64(0xFFFFFFFF)


def philox(counter: tuple[Any, Any, Any, Any], key: tuple[int, int]) -> list[Words]:
    """Philox4x32 with 7 rounds; 32-bit words held in 64 bits."""
    c = [np.asarray(word, dtype=np.uint64) for word in counter]
    k0, k1 = key
    for _ in range(7):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        high_a, high_b = a >> np.uint64(32), b >> np.uint64(32)
        c = [high_b ^ c[1] ^ np.uint64(k0), b & LOW, high_a ^ c[3] ^ np.uint64(k1), a & LOW]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def sealed(content: Bytes, key: tuple[int, int], slot: int, index: int) -> Bytes:
    """Ciphertext of a buffer, or the buffer of a ciphertext."""
    blocks = np.arange(-(-content.size // 16), dtype=np.uint64)
    words = philox((blocks & LOW, blocks >> np.uint64(32), slot, index), key)
    full = [np.broadcast_to(word, blocks.shape).astype("<u4") for word in words]
    stream = np.stack(full, axis=1).reshape(-1).view(np.uint8)
    return content ^ stream[: content.size]


def tag(content: Bytes, key: tuple[int, int], slot: int, index: int) -> int:
    """The 64-bit tag of an output."""
    padded = np.zeros(-(-content.size // 4) * 4, dtype=np.uint8)
    padded[: content.size] = content
    words = padded.view("<u4").astype(np.uint64)
    k = np.arange(min(words.size, TAG_WORDS), dtype=np.uint64)
    r0, r1, r2, r3 = (np.broadcast_to(r, k.shape) for r in philox((k, 0, slot, index), key))
    place = k
    if words.size > TAG_WORDS:
        # The high half of (r0 + 2^32 r1) * w, for w below 2^32.
        w = np.uint64(words.size)
        place = (r1 * w + (r0 * w >> np.uint64(32))) >> np.uint64(32)
    terms = (r2 | r3 << np.uint64(32)) * words[place]
    return int(np.add.reduce(terms, dtype=np.uint64))
