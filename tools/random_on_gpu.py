"""Random arrays drawn on a GPU from a 128-bit seed: what the validator uses of NumPy's Generator.

Philox4x32-10 by counter (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): word i
of draw d is a function of seed, d and i alone. cupy.random seeds from 32 bits, which a candidate
could try one by one. Single numbers, and choices without repetition, are drawn on the host.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cuda_llm.tools.arrays import Array, Launch, Program
from cuda_llm.tools.launch_on_gpu import launch_on_gpu
from cuda_llm.tools.random_kernels import SOURCE

Size: TypeAlias = int | tuple[int, ...]

PROGRAM = Program(SOURCE, ("bounded64", "bounded32", "unit32", "unit64", "normal32", "gamma32"))


class CountedRandom:
    """Every method names, counts and means what numpy.random.Generator's does; its numbers differ.

    `size` None gives a Python number without touching the device.
    """

    def __init__(self, xp: Any, launch: Launch, seed: int) -> None:
        self._xp = xp
        self._launch = launch
        self._words = tuple(np.uint32(seed >> shift & 0xFFFFFFFF) for shift in (0, 32, 64, 96))
        self._draws = 0
        self._host = np.random.Generator(np.random.PCG64(seed))

    def random(self, size: Size, dtype: npt.DTypeLike = np.float64) -> Array:
        """Even over [0, 1): 24 bits in float32, 53 in float64."""
        if np.dtype(dtype) == np.float32:
            return self._draw("unit32", size, np.float32, a_block=4)
        return self._draw("unit64", size, np.float64, a_block=2)

    def standard_normal(self, size: Size, dtype: npt.DTypeLike = np.float64) -> Array:
        """Mean 0, variance 1, within 6.7 (Box-Muller); float32 only."""
        _only_float32(dtype)
        return self._draw("normal32", size, np.float32, a_block=4)

    def standard_gamma(self, shape: float, size: Size, dtype: npt.DTypeLike = np.float64) -> Array:
        """Shape 1.5 and float32 only: half the sum of three squared normals."""
        _only_float32(dtype)
        if shape != 1.5:
            raise ValueError(f"shape {shape}; expected 1.5")
        return self._draw("gamma32", size, np.float32, a_block=1)

    def integers(
        self,
        low: int,
        high: int | None = None,
        size: Size | None = None,
        dtype: npt.DTypeLike = np.int64,
        endpoint: bool = False,
    ) -> Array:
        """Whole numbers in [low, high), or up to high; uneven by at most 2^-64 of the range."""
        first, last = (0, low) if high is None else (low, high)
        span = last - first + endpoint
        if size is None:
            return int(self._host.integers(first, last, endpoint=endpoint))
        if not 0 < span <= 1 << 64:
            raise ValueError(f"no whole numbers in [{first}, {last})")
        ends = (np.int64(first), np.uint64(span & (1 << 64) - 1))
        if np.dtype(dtype) == np.int32:
            return self._draw("bounded32", size, np.int32, 2, *ends)
        return self._draw("bounded64", size, np.int64, 2, *ends).astype(dtype, copy=False)

    def choice(
        self, options: int | Sequence[float], size: Size | None = None, replace: bool = True
    ) -> Array:
        """Elements of a short sequence; of the whole numbers below `options`, each at most once."""
        if isinstance(options, int):
            if replace:
                return self.integers(0, options, size)
            return self._xp.asarray(self._host.choice(options, size, replace=False))
        if not replace or size is None:
            raise ValueError("expected a size, and elements that may repeat")
        return self._xp.asarray(np.asarray(options))[self.integers(0, len(options), size)]

    def _draw(
        self, kernel: str, size: Size, dtype: npt.DTypeLike, a_block: int, *more: Any
    ) -> Array:
        """One launch: a thread takes one 128-bit block and makes `a_block` numbers of it."""
        shape = (size,) if isinstance(size, int) else tuple(size)
        values = self._xp.empty(shape, dtype)
        count = math.prod(shape)
        if count:
            arguments = (values, np.uint64(count), *self._words, np.uint32(self._draws), *more)
            self._launch(PROGRAM, kernel, -(-count // a_block), arguments)
        self._draws += 1
        return values


def _only_float32(dtype: npt.DTypeLike) -> None:
    if np.dtype(dtype) != np.float32:
        raise ValueError(f"{np.dtype(dtype)}; expected float32")


def random_on_gpu(seed: int) -> CountedRandom:
    """A generator whose arrays are CuPy's, on the current device and stream."""
    import cupy

    return CountedRandom(cupy, launch_on_gpu, seed)
