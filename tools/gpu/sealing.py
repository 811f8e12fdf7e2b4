"""Sealing inputs and tagging outputs where they lie: the referee's side of `native/seal.cu`."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from cuda_llm.tools.arrays import Array, Arrays
from cuda_llm.tools.gpu import philox
from cuda_llm.tools.gpu.protocol import ALIGNMENT, TAG_WORDS, SealCall

_THREADS = 256
_MOST_BLOCKS = 1024
_TAG_BLOCKS = TAG_WORDS // _THREADS // 4


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A buffer's bytes, and the numbers that its keystream starts from."""

    contents: Array
    """Bytes, one after the other."""
    slot: int
    index: int


class Sealing(Protocol):
    """Encrypts and tags bytes under a batch's key of 16 bytes."""

    def seal(self, piece: Piece, to: Array, key: bytes) -> None:
        """Encrypt a piece into the bytes `to`."""
        ...

    def tags(self, pieces: Sequence[Piece], key: bytes) -> list[int]:
        """The tag of each piece."""
        ...


class HostSealing:
    """In NumPy, for memory of the host."""

    def seal(self, piece: Piece, to: Array, key: bytes) -> None:
        """See `Sealing.seal`."""
        to[...] = philox.sealed(piece.contents, piece.slot, piece.index, sealing_key(key))

    def tags(self, pieces: Sequence[Piece], key: bytes) -> list[int]:
        """See `Sealing.tags`."""
        words = tagging_key(key)
        return [philox.tag(one.contents, one.slot, one.index, words) for one in pieces]


class GpuSealing:
    """By the runner's own kernels, on the present CUDA device."""

    def __init__(self, arrays: Arrays, cubin: Path) -> None:
        """`arrays` are CuPy's."""
        module = arrays.xp.RawModule(path=str(cubin))
        self._arrays = arrays
        self._open = module.get_function("open_inputs")
        self._tag = module.get_function("tag_outputs")

    def seal(self, piece: Piece, to: Array, key: bytes) -> None:
        """See `Sealing.seal`."""
        contents = _aligned(piece.contents)
        call = _call(sealing_key(key), piece.slot)
        region = call.regions[0]
        region.to, region.from_ = to.data.ptr, contents.data.ptr
        region.bytes, region.index = contents.nbytes, piece.index
        blocks = min(_MOST_BLOCKS, max(1, -(-contents.nbytes // 16 // _THREADS)))
        self._open((blocks, 1, 1), (_THREADS, 1, 1), (_by_value(call),))

    def tags(self, pieces: Sequence[Piece], key: bytes) -> list[int]:
        """See `Sealing.tags`."""
        sums = self._arrays.xp.zeros(len(pieces), dtype=np.uint64)
        for number, piece in enumerate(pieces):
            call = _call(tagging_key(key), piece.slot)
            region = call.regions[0]
            region.to, region.from_ = sums.data.ptr + 8 * number, piece.contents.data.ptr
            region.bytes, region.index = piece.contents.nbytes, piece.index
            words = -(-piece.contents.nbytes // 4)
            blocks = min(_TAG_BLOCKS, max(1, -(-words // _THREADS)))
            self._tag((blocks, 1, 1), (_THREADS, 1, 1), (_by_value(call),))
        return [int(one) for one in self._arrays.to_host(sums)]


def sealing_key(key: bytes) -> tuple[int, int]:
    """The first half of a batch's key."""
    return int.from_bytes(key[0:4], "little"), int.from_bytes(key[4:8], "little")


def tagging_key(key: bytes) -> tuple[int, int]:
    """The second half."""
    return int.from_bytes(key[8:12], "little"), int.from_bytes(key[12:16], "little")


def _call(key: tuple[int, int], slot: int) -> SealCall:
    call = SealCall(slot=slot, count=1)
    call.key[0], call.key[1] = key
    return call


def _by_value(call: SealCall) -> Any:
    """As CuPy passes a structure: an array of one element of its size."""
    return np.frombuffer(bytes(call), dtype=np.dtype((np.void, ctypes.sizeof(call))))


def _aligned(contents: Array) -> Array:
    """The kernels read 16 bytes at once."""
    return contents if contents.data.ptr % ALIGNMENT == 0 else contents.copy()
