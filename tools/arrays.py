"""Where a site's arrays lie and what makes them: NumPy's, or a module like it on a device."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = Any
"""A NumPy array, or a CuPy array with the same methods."""

Random: TypeAlias = Any
"""A numpy.random.Generator, or what does the same on a GPU."""


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
