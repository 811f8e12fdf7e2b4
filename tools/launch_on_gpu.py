"""Small kernels of our own, compiled at their first use and launched on CuPy's arrays."""

from functools import lru_cache
from typing import Any

from cuda_llm.tools.arrays import Program

THREADS_PER_BLOCK = 256


def launch_on_gpu(program: Program, kernel: str, threads: int, arguments: tuple[Any, ...]) -> None:
    """On the current device and stream; does not wait."""
    blocks = -(-threads // THREADS_PER_BLOCK)
    _compiled(program)[kernel]((blocks,), (THREADS_PER_BLOCK,), arguments)


@lru_cache(maxsize=8)
def _compiled(program: Program) -> dict[str, Any]:
    import cupy

    module = cupy.RawModule(code=program.source)
    return {name: module.get_function(name) for name in program.kernels}
