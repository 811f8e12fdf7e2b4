"""What is written before timed calls, so that L2 holds nothing of theirs.

It is one piece of memory for all runners of a GPU: how long writing it takes depends on where it
lies, by half a per cent and more, and would be taken for a difference between kernels.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cuda_llm.tools.arrays import Arrays
from cuda_llm.tools.gpu.memory import UNIT_BYTES, DeviceMemory, round_up

SHARE = 1.25
"""Times what L2 holds: on an H200 this cools as well as twice as much."""
_NO_HANDLE = bytes(64)


@dataclass(frozen=True, kw_only=True)
class Flush:
    """As runners are told of it."""

    size_bytes: int
    """0 where nothing is timed."""
    handle: bytes = _NO_HANDLE
    """Of device memory shared by CUDA IPC; where that is not to be had, runners take their own."""


def flush_bytes(l2_bytes: int) -> int:
    """How much has to be written."""
    return round_up(int(SHARE * l2_bytes), UNIT_BYTES)


@contextmanager
def shared_flush(arrays: Arrays, l2_bytes: int) -> Iterator[Flush]:
    """Memory for it, given back at the end. `arrays` are CuPy's. Raises what CuPy raises."""
    memory = DeviceMemory(arrays, flush_bytes(l2_bytes))
    try:
        yield Flush(size_bytes=memory.size_bytes, handle=memory.handle)
    finally:
        memory.close()
