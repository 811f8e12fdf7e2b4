"""Where a referee's arrays live: in the memory of the host, or of a GPU."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cuda_llm.errors import MissingError
from cuda_llm.tools.launch_on_gpu import Launch, launch_on_gpu

Array: TypeAlias = Any
"""A NumPy array, or a CuPy array with the same methods."""

Random: TypeAlias = Any
"""A numpy.random.Generator, or what does the same on a GPU."""


@dataclass(frozen=True, kw_only=True)
class Arrays:
    """The module that makes arrays, and what NumPy and CuPy do not spell alike."""

    xp: Any
    """`numpy` or `cupy`."""
    generator: Callable[[int], Random]
    """Random numbers from a 128-bit seed; the same seed gives the same numbers."""
    to_host: Callable[[Array], npt.NDArray[Any]]
    """A copy in the memory of the host; the array itself where it lies there."""
    at_once: int = 1 << 16
    """Elements compared at once: on a host the working set stays in the cache."""
    part_bytes: int = 1 << 28
    """Working memory that a float64 reference computed part by part may take at once."""
    launch: Launch | None = None
    """Runs kernels of our own where these arrays lie."""

    def number(self, value: Array) -> float:
        """One element, brought to the host."""
        return float(self.to_host(value))


def _on_the_host(array: Array) -> npt.NDArray[Any]:
    return np.asarray(array)


def _pcg64(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


HOST = Arrays(xp=np, generator=_pcg64, to_host=_on_the_host)
"""NumPy."""


def on_gpu() -> Arrays:
    """CuPy on the current device; all memory comes from its own pool. Raises MissingError."""
    try:
        import cupy
    except ImportError as error:
        raise MissingError("CuPy", "pip install 'cuda-llm[gpu]'") from error
    from cuda_llm.tools.random_on_gpu import random_on_gpu
    from cuda_llm.tools.subnormals import keep_subnormals

    keep_subnormals(cupy.cuda.compiler)
    # Reductions made of CUB's templates take up to nine seconds each to compile.
    cupy._core.set_reduction_accelerators([])
    return Arrays(
        xp=cupy,
        generator=random_on_gpu,
        to_host=cupy.asnumpy,
        at_once=1 << 24,
        part_bytes=1 << 31,
        launch=launch_on_gpu,
    )
