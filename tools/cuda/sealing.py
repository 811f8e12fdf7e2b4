"""Seals inputs and tags outputs in place: the Python side of `native/seal.cu`, and the same
arithmetic in NumPy."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cuda_llm.tools.cuda.protocol import TAG_WORDS, SealCall, SlotsCall
from cuda_llm.tools.device.buffers import Array, Arrays

_ROUNDS = 7
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)

Words = npt.NDArray[np.uint32]

THREADS = 256
_MOST_BLOCKS = 1024
"""Largest number of blocks of one launch, for all of its slots together."""
TAG_BLOCKS = TAG_WORDS // THREADS // 4
_TAG_BYTES = 8
_HALF_KEY = 8
"""Bytes of a key that seal; the remaining bytes tag."""


def philox(
    first: npt.NDArray[np.uint64], slot: int, index: int, key: tuple[int, int]
) -> npt.NDArray[np.uint32]:
    """Return four words for each 64-bit number in `first`, as rows."""
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
    """Return the bytes of `contents` sealed; of sealed bytes, the contents."""
    plain = np.ascontiguousarray(contents).reshape(-1).view(np.uint8)
    blocks = np.arange(-(-plain.size // 16), dtype=np.uint64)
    stream = philox(blocks, slot, index, key).reshape(-1).view(np.uint8)
    return plain ^ stream[: plain.size]


def tag_of(contents: npt.NDArray[np.uint8], slot: int, index: int, key: tuple[int, int]) -> int:
    """Return the keyed sum over at most 65,536 of the words."""
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


@dataclass(frozen=True, kw_only=True)
class SealedColumn:
    """The bytes of one buffer in every slot."""

    rows: Array
    """Bytes of the buffer, one row for each slot, at any distance between slots."""
    index: int
    """Index of the buffer: its keystream starts from this index and the slot's number."""


class Sealing(Protocol):
    """Encrypts and tags bytes under keys of 16 bytes, with a key for each slot."""

    def seal(
        self, column: SealedColumn, slots: Sequence[int], contents: Array, keys: Sequence[bytes]
    ) -> None:
        """Encrypt a row of contiguous bytes for each of `slots` into its place in the column."""
        ...

    def tags(
        self, columns: Sequence[SealedColumn], slots: Sequence[int], keys: Sequence[bytes]
    ) -> list[int]:
        """Return the tag of each buffer of each slot, slot by slot."""
        ...


class HostSealing:
    """Encrypts and tags bytes of host memory, in NumPy."""

    def seal(
        self, column: SealedColumn, slots: Sequence[int], contents: Array, keys: Sequence[bytes]
    ) -> None:
        """Encrypt a row of contiguous host bytes for each slot into its row of the column."""
        for slot, row, key in zip(slots, contents, keys, strict=True):
            column.rows[slot] = sealed_bytes(row, slot, column.index, sealing_key(key))

    def tags(
        self, columns: Sequence[SealedColumn], slots: Sequence[int], keys: Sequence[bytes]
    ) -> list[int]:
        """Return the tag of each buffer of each slot, slot by slot, from host memory."""
        return [
            tag_of(one.rows[slot], slot, one.index, tagging_key(key))
            for slot, key in zip(slots, keys, strict=True)
            for one in columns
        ]


class GpuSealing:
    """Encrypts and tags bytes on the current CUDA device, with one launch for each buffer."""

    def __init__(self, arrays: Arrays, cubin: Path) -> None:
        """Load the kernels of `cubin`. `arrays` are CuPy's."""
        module = arrays.xp.RawModule(path=str(cubin))
        self._arrays = arrays
        self._seal = module.get_function("seal_slots")
        self._tag = module.get_function("tag_slots")

    def seal(
        self, column: SealedColumn, slots: Sequence[int], contents: Array, keys: Sequence[bytes]
    ) -> None:
        """Encrypt a row of contiguous device bytes for each slot into its row of the column."""
        call = _call(column, slots, b"".join(key[:_HALF_KEY] for key in keys))
        call.rows, call.row_stride = contents.data.ptr, call.bytes
        most = -(-_MOST_BLOCKS // len(slots))
        launch(self._seal, call, min(most, blocks_for(call.bytes, 16)))

    def tags(
        self, columns: Sequence[SealedColumn], slots: Sequence[int], keys: Sequence[bytes]
    ) -> list[int]:
        """Return the tag of each buffer of each slot, slot by slot, from device memory."""
        halves = b"".join(key[_HALF_KEY:] for key in keys)
        sums = self._arrays.xp.zeros(len(slots) * len(columns), dtype=np.uint64)
        for number, column in enumerate(columns):
            call = _call(column, slots, halves)
            call.rows = sums.data.ptr + _TAG_BYTES * number
            call.row_stride = _TAG_BYTES * len(columns)
            launch(self._tag, call, min(TAG_BLOCKS, blocks_for(call.bytes, 4)))
        return [int(one) for one in self._arrays.to_host(sums)]


def sealing_key(key: bytes) -> tuple[int, int]:
    """Return the first half of a batch's key as two words."""
    return int.from_bytes(key[0:4], "little"), int.from_bytes(key[4:8], "little")


def tagging_key(key: bytes) -> tuple[int, int]:
    """Return the second half of a batch's key as two words."""
    return int.from_bytes(key[8:12], "little"), int.from_bytes(key[12:16], "little")


def _call(column: SealedColumn, slots: Sequence[int], keys: bytes) -> SlotsCall:
    """Return the call; `keys` are two little-endian words for each of `slots`."""
    rows = column.rows
    call = SlotsCall(
        column=rows.data.ptr,
        column_stride=rows.strides[0],
        bytes=rows.shape[1],
        index=column.index,
        count=len(slots),
    )
    if len(keys) != _HALF_KEY * len(slots):
        raise ValueError(f"{len(keys)} bytes of keys for {len(slots)} slots")
    ctypes.memmove(call.keys, keys, len(keys))
    call.slots[: len(slots)] = bytes(slots)
    return call


def blocks_for(size_bytes: int, each: int) -> int:
    """Return as many blocks as let a thread take `each` bytes."""
    return max(1, -(-size_bytes // each // THREADS))


def launch(kernel: Any, call: SlotsCall | SealCall, blocks: int) -> None:
    """Launch the kernel with `call` as its parameter: CuPy passes a structure as an array of length
    1."""
    by_value = np.frombuffer(bytes(call), dtype=np.dtype((np.void, ctypes.sizeof(call))))
    kernel((blocks, call.count, 1), (THREADS, 1, 1), (by_value,))
