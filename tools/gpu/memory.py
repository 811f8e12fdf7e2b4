"""Memory that referee and runner see both: of the GPU, or of the host where that cannot be."""

import math
import os
from typing import Any, Protocol

import numpy as np

from cuda_llm.tools.arrays import HOST, Array, Arrays
from cuda_llm.tools.gpu.protocol import SharedBy
from cuda_llm.tools.runner.memory import SharedMemory

UNIT_BYTES = 2 << 20
"""Device memory is shared in whole pieces of this size: less would share its neighbours too."""
_TILE_BYTES = 1 << 20
_HANDLE_BYTES = 64


class ArenaFull(ValueError):
    """What a session lays out is larger than its memory."""


class Memory(Protocol):
    """One piece of memory, ours to give away and to take back."""

    @property
    def size_bytes(self) -> int:
        """All of it."""
        ...

    @property
    def arrays(self) -> Arrays:
        """What makes arrays of it."""
        ...

    @property
    def shared_by(self) -> SharedBy:
        """How a runner gets to see it."""
        ...

    @property
    def handle(self) -> bytes:
        """64 bytes by which a runner opens it; zeros where it was handed a descriptor instead."""
        ...

    def view(self, begin: int, end: int) -> Array:
        """Its bytes from `begin` up to `end`; writing is sharing."""
        ...

    def column(self, begin: int, dtype: str, shape: tuple[int, ...], stride: int) -> Array:
        """An array whose first index goes `stride` bytes further, each of the rest contiguous."""
        ...

    def scrub(self) -> None:
        """Overwrite all of it: what comes next must find nothing of what was."""
        ...

    def finish(self) -> None:
        """Wait until what was written by us can be seen by everyone."""
        ...

    def close(self) -> None:
        """Give it back. No view may be used any more, and no runner may hold it."""
        ...


class DeviceMemory:
    """A raw allocation on the present CUDA device, shared by CUDA IPC."""

    shared_by = SharedBy.IPC

    def __init__(self, arrays: Arrays, size_bytes: int) -> None:
        """`arrays` are CuPy's. Raises cupy's OutOfMemoryError or CUDARuntimeError."""
        self._cuda: Any = arrays.xp.cuda
        self.arrays = arrays
        self.size_bytes = round_up(size_bytes, UNIT_BYTES)
        self._address = self._cuda.runtime.malloc(self.size_bytes)
        self._memory = self._cuda.UnownedMemory(self._address, self.size_bytes, self)
        self.handle = bytes(self._cuda.runtime.ipcGetMemHandle(self._address))

    @property
    def address(self) -> int:
        """Where it begins, here."""
        return int(self._address)

    def view(self, begin: int, end: int) -> Array:
        """See `Memory.view`."""
        start = self._cuda.MemoryPointer(self._memory, begin)
        return self.arrays.xp.ndarray((end - begin,), dtype=np.uint8, memptr=start)

    def column(self, begin: int, dtype: str, shape: tuple[int, ...], stride: int) -> Array:
        """See `Memory.column`."""
        start = self._cuda.MemoryPointer(self._memory, begin)
        strides = column_strides(dtype, shape, stride)
        return self.arrays.xp.ndarray(shape, dtype=np.dtype(dtype), memptr=start, strides=strides)

    def scrub(self) -> None:
        """See `Memory.scrub`: random bytes, the same ones every MiB.

        What is there is doubled by plain copies: they need no kernel, which CuPy would compile.
        """
        done = _TILE_BYTES
        self.view(0, done).set(np.frombuffer(os.urandom(done), dtype=np.uint8))
        while done < self.size_bytes:
            more = min(done, self.size_bytes - done)
            self.view(done, done + more).data.copy_from_device_async(
                self.view(0, more).data, more, self._cuda.get_current_stream()
            )
            done += more

    def finish(self) -> None:
        """See `Memory.finish`."""
        self._cuda.runtime.deviceSynchronize()

    def close(self) -> None:
        """See `Memory.close`."""
        self._cuda.runtime.free(self._address)


class HostMemory:
    """A memory file, handed to one runner when it starts; the runner copies it in and out."""

    shared_by = SharedBy.HOST
    arrays = HOST
    handle = bytes(_HANDLE_BYTES)

    def __init__(self, size_bytes: int) -> None:
        """`size_bytes` are virtual: only pages that are written exist."""
        self._file = SharedMemory("cuda-llm-gpu-arena", size_bytes)
        self.size_bytes = size_bytes
        self.descriptor = self._file.descriptor

    def view(self, begin: int, end: int) -> Array:
        """See `Memory.view`."""
        return np.frombuffer(self._file.map, np.uint8, end - begin, begin)

    def column(self, begin: int, dtype: str, shape: tuple[int, ...], stride: int) -> Array:
        """See `Memory.column`."""
        strides = column_strides(dtype, shape, stride)
        return np.ndarray(shape, np.dtype(dtype), self._file.map, begin, strides)

    def scrub(self) -> None:
        """See `Memory.scrub`: it reads as zeros afterwards."""
        self._file.discard(0, self.size_bytes)

    def finish(self) -> None:
        """See `Memory.finish`: nothing is under way."""

    def close(self) -> None:
        """See `Memory.close`."""
        self._file.close()


def round_up(value: int, unit: int) -> int:
    """The least multiple of `unit` that is no less than `value`."""
    return -(-value // unit) * unit


def column_strides(dtype: str, shape: tuple[int, ...], stride: int) -> tuple[int, ...]:
    """Bytes from each index to the next: `stride` for the first, no gaps for the others."""
    itemsize = np.dtype(dtype).itemsize
    inner = [itemsize * math.prod(shape[axis + 1 :]) for axis in range(1, len(shape))]
    return (stride, *inner)
