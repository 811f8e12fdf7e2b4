"""Where buffers lie in the memory shared with a runner: the emulated device's device memory."""

from collections.abc import Mapping, Sequence

import numpy as np

from cuda_llm.tools.buffers import BufferSpec, PlacedBuffer
from cuda_llm.tools.runner.memory import SharedMemory

ARENA_BYTES = 16 << 30
"""Virtual; only pages that are written exist."""
GUARD_BYTES = 4096
_PAGE_BYTES = 4096
_ALIGNMENT = 256


class Layout:
    """Where the buffers of the present calls lie in an arena."""

    def __init__(self, arena: SharedMemory) -> None:
        self._arena = arena
        self._end = 0
        self.specs: tuple[BufferSpec, ...] = ()
        self.offsets: Mapping[str, int] = {}

    def place(self, buffers: Sequence[BufferSpec]) -> dict[str, PlacedBuffer]:
        """Lay the buffers out anew, each 256-byte aligned between two guards.

        Everything that lay there before is gone; new buffers and guards are zero. Raises ValueError
        where two buffers share a name, or where all together are larger than the arena.
        """
        self._arena.discard(0, self._end)
        offsets: dict[str, int] = {}
        placed: dict[str, PlacedBuffer] = {}
        cursor = _PAGE_BYTES
        for spec in buffers:
            if spec.name in placed:
                raise ValueError(f"two buffers are called {spec.name}")
            begin = _round_up(cursor + GUARD_BYTES, _ALIGNMENT)
            end = begin + spec.nbytes
            after = _round_up(end + GUARD_BYTES, _PAGE_BYTES)
            if after > self._arena.size:
                raise ValueError(f"{spec.name} does not fit into {self._arena.size} bytes")
            offsets[spec.name] = begin
            placed[spec.name] = PlacedBuffer(
                spec=spec,
                data=self._bytes(begin, end).view(spec.dtype).reshape(spec.shape),
                guard_before=self._bytes(cursor, begin),
                guard_after=self._bytes(end, after),
            )
            cursor = after
        self.specs, self.offsets, self._end = tuple(buffers), offsets, cursor
        return placed

    def _bytes(self, begin: int, end: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        return np.frombuffer(self._arena.map, np.uint8, end - begin, begin)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
