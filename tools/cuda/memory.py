"""Memory that GPU host process and runner share, on the GPU, or on the host where sharing device
memory is not possible: pooled, scrubbed, and written before timed calls to flush L2.

All runners of a GPU write the same memory to flush L2: the time of writing depends on where the
memory lies, by half a per cent and more, and would be taken for a difference between kernels.
"""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cuda_llm.errors import NoMemory
from cuda_llm.tools.cuda.protocol import SharedBy
from cuda_llm.tools.device.buffers import HOST, Array, Arrays
from cuda_llm.tools.device.channel import SharedMemory

UNIT_BYTES = 2 << 20
"""Device memory is shared in whole pieces of this size: less would share its neighbours too."""
_TILE_BYTES = 1 << 20
_HANDLE_BYTES = 64

SHARE = 1.25
"""Flushed bytes as a multiple of the L2 size: on an H200 twice as many bytes flush no better."""
_NO_HANDLE = bytes(64)
LEAST_BYTES = 256 << 20
"""The smallest piece that is acquired: memory is used again."""
_STEPS = 4
"""Number of sizes tried between the wanted and the least size."""


class MemoryFull(NoMemory):
    """A layout is larger than the memory for it."""


class Memory(Protocol):
    """A block of memory that the GPU host process can share with a runner."""

    @property
    def size_bytes(self) -> int:
        """Size of the block in bytes."""
        ...

    @property
    def arrays(self) -> Arrays:
        """Array library whose arrays view this memory: NumPy for host memory, CuPy for device
        memory."""
        ...

    @property
    def shared_by(self) -> SharedBy:
        """The way in which a runner opens the memory: CUDA IPC or a memory file."""
        ...

    @property
    def handle(self) -> bytes:
        """Handle of 64 bytes with which a runner opens the memory; zeros where the runner inherits
        a descriptor instead."""
        ...

    def view(self, begin: int, end: int) -> Array:
        """Return bytes `begin` to `end` (exclusive) of the memory as an array that shares them."""
        ...

    def column(self, begin: int, dtype: str, shape: tuple[int, ...], stride: int) -> Array:
        """Return an array whose first index strides by `stride` bytes, the others contiguous."""
        ...

    def scrub(self) -> None:
        """Overwrite all of the memory: its next user must not find data of the previous user."""
        ...

    def finish(self) -> None:
        """Wait until what this process wrote is visible to every process."""
        ...

    def close(self) -> None:
        """Free it. No view may be used any more, and no runner may hold it."""
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
        """Address of the memory in this process."""
        return int(self._address)

    def view(self, begin: int, end: int) -> Array:
        """Return bytes `begin` to `end` (exclusive) of device memory as a CuPy array."""
        start = self._cuda.MemoryPointer(self._memory, begin)
        return self.arrays.xp.ndarray((end - begin,), dtype=np.uint8, memptr=start)

    def column(self, begin: int, dtype: str, shape: tuple[int, ...], stride: int) -> Array:
        """Return a CuPy array whose first index strides by `stride` bytes, others contiguous."""
        start = self._cuda.MemoryPointer(self._memory, begin)
        strides = column_strides(dtype, shape, stride)
        return self.arrays.xp.ndarray(shape, dtype=np.dtype(dtype), memptr=start, strides=strides)

    def scrub(self) -> None:
        """Overwrite the memory with random bytes that repeat every MiB.

        The tile is doubled by device copies: copies need no kernel that CuPy would have to compile.
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
        """Wait until the device has finished all writes of this process."""
        self._cuda.runtime.deviceSynchronize()

    def close(self) -> None:
        """Free the device memory. A second call does nothing: a caller that could not grow the
        memory closes it again."""
        address, self._address = self._address, 0
        if address:
            self._cuda.runtime.free(address)


class HostMemory:
    """A memory file, handed to one runner when it starts; the runner copies buffers in and out."""

    shared_by = SharedBy.HOST
    arrays = HOST
    handle = bytes(_HANDLE_BYTES)

    def __init__(self, size_bytes: int) -> None:
        """`size_bytes` are virtual: only pages that are written exist."""
        self._file = SharedMemory("cuda-llm-gpu-arena", size_bytes)
        self.size_bytes = size_bytes
        self.descriptor = self._file.descriptor

    def view(self, begin: int, end: int) -> Array:
        """Return bytes `begin` to `end` (exclusive) of the memory file as a NumPy array."""
        return np.frombuffer(self._file.map, np.uint8, end - begin, begin)

    def column(self, begin: int, dtype: str, shape: tuple[int, ...], stride: int) -> Array:
        """Return a NumPy array whose first index strides by `stride` bytes, others contiguous."""
        strides = column_strides(dtype, shape, stride)
        return np.ndarray(shape, np.dtype(dtype), self._file.map, begin, strides)

    def scrub(self) -> None:
        """Discard the contents of the memory file, which then reads as zeros."""
        self._file.discard(0, self.size_bytes)

    def finish(self) -> None:
        """Return at once: writes to a memory file are visible immediately."""

    def close(self) -> None:
        """Close the memory file."""
        self._file.close()


def round_up(value: int, unit: int) -> int:
    """Return the least multiple of `unit` that is no less than `value`."""
    return -(-value // unit) * unit


def column_strides(dtype: str, shape: tuple[int, ...], stride: int) -> tuple[int, ...]:
    """Return bytes from each index to the next: `stride` for the first, no gaps for the others."""
    itemsize = np.dtype(dtype).itemsize
    inner = [itemsize * math.prod(shape[axis + 1 :]) for axis in range(1, len(shape))]
    return (stride, *inner)


@dataclass(frozen=True, kw_only=True)
class L2Flush:
    """The memory that runners write before a timed call."""

    size_bytes: int
    """Bytes that are written to flush L2; 0 where nothing is timed."""
    handle: bytes = _NO_HANDLE
    """CUDA IPC handle of the flushed device memory; zeros where runners allocate memory for the
    flush themselves."""


def flush_bytes(l2_bytes: int) -> int:
    """Return the bytes that have to be written to flush an L2 cache of `l2_bytes`."""
    return round_up(int(SHARE * l2_bytes), UNIT_BYTES)


@contextmanager
def shared_flush(arrays: Arrays, l2_bytes: int) -> Iterator[L2Flush]:
    """Hold device memory that runners write to flush L2. `arrays` are CuPy's. Raises what CuPy
    raises."""
    memory = DeviceMemory(arrays, flush_bytes(l2_bytes))
    try:
        yield L2Flush(size_bytes=memory.size_bytes, handle=memory.handle)
    finally:
        memory.close()


class MemoryPool:
    """Free memory, scrubbed of what its last user left there."""

    def __init__(
        self, allocate: Callable[[int], Memory | None], most_free_bytes: int = 1 << 63
    ) -> None:
        """`allocate` returns None where the device has too little memory.

        At most `most_free_bytes` are kept for later: runners load their code, and sanitizers run
        whole processes, in the rest of the GPU's memory.
        """
        self._allocate = allocate
        self._most_free_bytes = most_free_bytes
        self._free: list[Memory] = []

    def acquire(self, wanted_bytes: int, least_bytes: int) -> Memory:
        """Return memory of `wanted_bytes` or more; where too little is free, of `least_bytes`.

        Raises MemoryFull.
        """
        wanted = max(LEAST_BYTES, wanted_bytes)
        found = self._find(wanted) or self._make(_rounded(wanted)) or self._make(wanted)
        if found is None:
            # The largest free block may suffice; if not, all blocks are freed for a new block.
            largest = max(self._free, key=lambda memory: memory.size_bytes, default=None)
            if largest is not None and largest.size_bytes >= least_bytes:
                self._free.remove(largest)
                return largest
            self.close()
            found = self._make_most(wanted, least_bytes)
        if found is None:
            raise MemoryFull("device memory", f"{least_bytes:,} bytes cannot be allocated")
        return found

    def reserve(self, wanted_bytes: int) -> bool:
        """Have a free block of `wanted_bytes`, allocated if needed; return whether there is such a
        block.

        Other free blocks may be given back to the device to make room.
        """
        wanted = max(LEAST_BYTES, wanted_bytes)
        found = self._find(wanted) or self._make(_rounded(wanted)) or self._make(wanted)
        if found is None:
            self.close()
            found = self._make(wanted)
        if found is not None:
            self._free.append(found)
        return found is not None

    def release(self, memory: Memory) -> None:
        """Scrub memory that no runner holds any more, and keep it to be acquired again.

        Where free memory exceeds the pool's limit, the smallest blocks are given back to the
        device: a large block also serves a small request.
        """
        memory.scrub()
        self._free.append(memory)
        self._free.sort(key=lambda free: free.size_bytes)
        while sum(free.size_bytes for free in self._free) > self._most_free_bytes:
            self._free.pop(0).close()

    def close(self) -> None:
        """Give all free memory back to the device."""
        while self._free:
            self._free.pop().close()

    def _find(self, wanted: int) -> Memory | None:
        """Take the smallest free block that has `wanted` bytes; None without such a block."""
        enough = [memory for memory in self._free if memory.size_bytes >= wanted]
        found = min(enough, key=lambda memory: memory.size_bytes, default=None)
        if found is not None:
            self._free.remove(found)
        return found

    def _make_most(self, wanted: int, least: int) -> Memory | None:
        """Allocate the largest of several sizes from `wanted` to `least`; None where none fits."""
        steps = (least + (wanted - least) * step // _STEPS for step in range(_STEPS, -1, -1))
        return next((made for size in steps if (made := self._make(size)) is not None), None)

    def _make(self, size_bytes: int) -> Memory | None:
        made = self._allocate(size_bytes)
        if made is not None:
            made.scrub()
        return made


def _rounded(size_bytes: int) -> int:
    """Return the size rounded up to an eighth of the next power of two, so that the next session
    finds the block large enough.

    Large sizes grow by at most the size of the smallest block: more would take memory that is
    planned for other sessions.
    """
    return round_up(size_bytes, max(1, min(LEAST_BYTES, 1 << (size_bytes.bit_length() - 3))))
