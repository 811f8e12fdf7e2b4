"""Free memory of a GPU: which caches give memory back before an allocation is refused."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from cuda_llm.tools.cuda.memory import DeviceMemory, MemoryPool
from cuda_llm.tools.device.buffers import Arrays

_KEPT_FREE_BYTES = 512 << 20
"""Device memory that stays free for the computations of the GPU host process."""

Allocated = TypeVar("Allocated")


def allocate(arrays: Arrays, size_bytes: int) -> DeviceMemory | None:
    """Allocate device memory; None where too little would be left. `arrays` are CuPy's."""
    cupy: Any = arrays.xp
    runtime = cupy.cuda.runtime
    if runtime.memGetInfo()[0] < size_bytes + _KEPT_FREE_BYTES:
        free_caches(arrays)
        if runtime.memGetInfo()[0] < size_bytes + _KEPT_FREE_BYTES:
            return None
    try:
        return DeviceMemory(arrays, size_bytes)
    except runtime.CUDARuntimeError:
        return None


def free_caches(arrays: Arrays) -> None:
    """Give back what CuPy and PyTorch keep for later. `arrays` are CuPy's.

    PyTorch has been loaded if a library was timed in this process.
    """
    arrays.xp.get_default_memory_pool().free_all_blocks()
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def share_room(arrays: Arrays, memory_pool: MemoryPool) -> Callable[[], None]:
    """Have CuPy give memory kept for later sessions back to the device before an allocation fails.
    Calling the result undoes that."""
    cuda: Any = arrays.xp.cuda
    own = arrays.xp.get_default_memory_pool().malloc

    def make_room() -> None:
        memory_pool.close()
        free_caches(arrays)

    cuda.set_allocator(make_room_once(own, cuda.memory.OutOfMemoryError, make_room))
    return lambda: cuda.set_allocator(own)


def make_room_once(
    allocate: Callable[[int], Allocated], full: type[Exception], make_room: Callable[[], None]
) -> Callable[[int], Allocated]:
    """Return `allocate` that makes room and tries again where it raises `full`.

    Memory kept for later sessions must not be missing to the work in progress.
    """

    def allocate_or_make_room(size_bytes: int) -> Allocated:
        try:
            return allocate(size_bytes)
        except full:
            make_room()
        return allocate(size_bytes)

    return allocate_or_make_room
