"""Sealing inputs and tagging outputs where they lie: the referee's side of `native/seal.cu`."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from cuda_llm.tools.arrays import Array, Arrays
from cuda_llm.tools.gpu.philox import sealed_bytes, tag_of
from cuda_llm.tools.gpu.protocol import TAG_WORDS, SlotsCall

_THREADS = 256
_MOST_BLOCKS = 1024
"""Of one launch, for all of its slots together."""
_TAG_BLOCKS = TAG_WORDS // _THREADS // 4
_TAG_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class Column:
    """One buffer of every slot."""

    rows: Array
    """Its bytes, a row a slot, however far the slots lie apart."""
    index: int
    """Of the buffer: its keystream starts from that and from the slot's number."""


class Sealing(Protocol):
    """Encrypts and tags bytes under a batch's key of 16 bytes."""

    def seal(self, column: Column, slots: Sequence[int], contents: Array, key: bytes) -> None:
        """Encrypt a row of contiguous bytes for each of `slots` into its place in the column."""
        ...

    def tags(self, columns: Sequence[Column], slots: Sequence[int], key: bytes) -> list[int]:
        """Of each slot in turn, the tag of each of its buffers."""
        ...


class HostSealing:
    """In NumPy, for memory of the host."""

    def seal(self, column: Column, slots: Sequence[int], contents: Array, key: bytes) -> None:
        """See `Sealing.seal`."""
        words = sealing_key(key)
        for slot, row in zip(slots, contents, strict=True):
            column.rows[slot] = sealed_bytes(row, slot, column.index, words)

    def tags(self, columns: Sequence[Column], slots: Sequence[int], key: bytes) -> list[int]:
        """See `Sealing.tags`."""
        words = tagging_key(key)
        return [tag_of(one.rows[slot], slot, one.index, words) for slot in slots for one in columns]


class GpuSealing:
    """By kernels beside the runner's own, on the present CUDA device: one launch a buffer."""

    def __init__(self, arrays: Arrays, cubin: Path) -> None:
        """`arrays` are CuPy's."""
        module = arrays.xp.RawModule(path=str(cubin))
        self._arrays = arrays
        self._seal = module.get_function("seal_slots")
        self._tag = module.get_function("tag_slots")

    def seal(self, column: Column, slots: Sequence[int], contents: Array, key: bytes) -> None:
        """See `Sealing.seal`."""
        call = _call(column, slots, sealing_key(key))
        call.rows, call.row_stride = contents.data.ptr, call.bytes
        most = -(-_MOST_BLOCKS // len(slots))
        _launch(self._seal, call, min(most, _blocks(call.bytes, 16)))

    def tags(self, columns: Sequence[Column], slots: Sequence[int], key: bytes) -> list[int]:
        """See `Sealing.tags`."""
        sums = self._arrays.xp.zeros(len(slots) * len(columns), dtype=np.uint64)
        for number, column in enumerate(columns):
            call = _call(column, slots, tagging_key(key))
            call.rows = sums.data.ptr + _TAG_BYTES * number
            call.row_stride = _TAG_BYTES * len(columns)
            _launch(self._tag, call, min(_TAG_BLOCKS, _blocks(call.bytes, 4)))
        return [int(one) for one in self._arrays.to_host(sums)]


def sealing_key(key: bytes) -> tuple[int, int]:
    """The first half of a batch's key."""
    return int.from_bytes(key[0:4], "little"), int.from_bytes(key[4:8], "little")


def tagging_key(key: bytes) -> tuple[int, int]:
    """The second half."""
    return int.from_bytes(key[8:12], "little"), int.from_bytes(key[12:16], "little")


def _call(column: Column, slots: Sequence[int], key: tuple[int, int]) -> SlotsCall:
    rows = column.rows
    call = SlotsCall(
        column=rows.data.ptr,
        column_stride=rows.strides[0],
        bytes=rows.shape[1],
        index=column.index,
        count=len(slots),
    )
    call.key[0], call.key[1] = key
    call.slots[: len(slots)] = bytes(slots)
    return call


def _blocks(size_bytes: int, each: int) -> int:
    """Enough for a thread to take `each` bytes."""
    return max(1, -(-size_bytes // each // _THREADS))


def _launch(kernel: Any, call: SlotsCall, blocks: int) -> None:
    """CuPy passes a structure as an array of one element of its size."""
    by_value = np.frombuffer(bytes(call), dtype=np.dtype((np.void, ctypes.sizeof(call))))
    kernel((blocks, call.count, 1), (_THREADS, 1, 1), (by_value,))
