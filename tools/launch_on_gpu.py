"""Small kernels of our own, compiled at their first use and launched on CuPy's arrays."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

THREADS_PER_BLOCK = 256


@dataclass(frozen=True)
class Program:
    """CUDA source whose threads never wait for each other, and its kernels.

    A C++ compiler takes it too, given the words it has no use for: tests run it thread by thread.
    """

    source: str
    kernels: tuple[str, ...]


Launch: TypeAlias = Callable[[Program, str, int, tuple[Any, ...]], None]
"""`launch(program, kernel, threads, arguments)`: contiguous arrays are passed by address, NumPy
scalars by value. There may be more threads than asked for."""


def launch_on_gpu(program: Program, kernel: str, threads: int, arguments: tuple[Any, ...]) -> None:
    """On the current device and stream; does not wait."""
    blocks = -(-threads // THREADS_PER_BLOCK)
    _compiled(program)[kernel]((blocks,), (THREADS_PER_BLOCK,), arguments)


@lru_cache(maxsize=8)
def _compiled(program: Program) -> dict[str, Any]:
    import cupy

    module = cupy.RawModule(code=program.source)
    return {name: module.get_function(name) for name in program.kernels}
