"""Where a referee's arrays live: in the memory of the host, or of a GPU."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

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


def _on_the_host(array: Array) -> npt.NDArray[Any]:
    return np.asarray(array)


def _pcg64(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


HOST = Arrays(xp=np, generator=_pcg64, to_host=_on_the_host)
"""NumPy."""
