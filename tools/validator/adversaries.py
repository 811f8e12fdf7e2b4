"""Arranges values that a task draws as kernels fear them: all low, nearly equal, few at borders.

A task allows the values of its distributions, and only together with what the same row draws for
the other inputs. An arrangement is made of such values, so a task drafted a minute ago has all of
them too. It is spelled as a distribution: `lowest of normal`.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from cuda_llm.tools.device.buffers import Array
from cuda_llm.tools.validator.float_values import limits_of
from cuda_llm.tools.validator.whole_numbers import Shape, Source, is_integer

OF = " of "
"""Between an arrangement and the distribution whose values it arranges."""

STEPS = (2, 4, 8, 16, 32, 64, 128, 256, 1024)
"""Extents of vectors, warps, blocks and tiles, after whose last multiple a ragged tail begins."""
FURTHER_PLACES = 6
NEARLY = 2.0**-10
"""Spread of nearly equal values, relative to them: means may be a thousand times the spread."""


def lowest(source: Source, values: Array) -> Array:
    """Return values that all lie below zero, as large as the given ones are in the mean square.

    Nothing a kernel starts its maximum from, or clamps to, may be above them. Whole numbers are all
    the smallest one.
    """
    if is_integer(values.dtype):
        return source.xp.zeros_like(values) + values.min()
    return _of_size(source, values, -1)


def highest(source: Source, values: Array) -> Array:
    """Return values that all lie above zero, as large as the given ones are in the mean square.

    Whole numbers are all the largest one.
    """
    if is_integer(values.dtype):
        return source.xp.zeros_like(values) + values.max()
    return _of_size(source, values, 1)


def nearly_equal(source: Source, values: Array) -> Array:
    """Return values that differ in the last of their digits alone along one axis.

    Along the others they are as far apart as the given ones: no single number that is taken away
    from all of them brings them near zero.
    """
    axis = _axis(source, values.shape)
    offsets = source.xp.take(values, source.xp.asarray([0]), axis=axis).astype(np.float64)
    size = _size(source, values)
    signs = source.xp.where(offsets < 0, -1.0, 1.0)
    offsets = signs * source.xp.maximum(source.xp.abs(offsets), size / 8)
    spread = source.rng.random(values.shape, dtype=np.float32)
    return _stored(source, offsets * (1 - NEARLY * spread.astype(np.float64)), values)


def few_heavy(source: Source, values: Array) -> Array:
    """Return zeros but for one number at every place along one axis where kernels lose or double a
    term: first, last, where a ragged tail or a block begins or ends, and a few others.

    The number is a power of two: along the other axes all terms are equal, and a chain of other
    equal terms may be rounded the same way at each addition.
    """
    fraction, exponent = source.xp.frexp(_size(source, values))
    heavy = source.xp.ldexp(source.xp.sign(fraction) / 2, exponent)
    return landmarks(source, values.shape, values.dtype, 0, heavy)


def landmarks(source: Source, shape: Shape, dtype: npt.DTypeLike, low: float, high: float) -> Array:
    """Return `low` everywhere but at some places along one axis, which hold `high`."""
    axis = _axis(source, shape)
    line = source.xp.full(shape[axis], low, dtype)
    line[source.xp.asarray(places(shape[axis], source))] = high
    along = line.reshape([-1 if place == axis else 1 for place in range(len(shape))])
    return source.xp.ascontiguousarray(source.xp.broadcast_to(along, shape))


ARRANGEMENTS: Mapping[str, Callable[[Source, Array], Array]] = MappingProxyType(
    {function.__name__: function for function in (lowest, highest, nearly_equal, few_heavy)}
)


def arranged(arrangement: str, spelling: str) -> str:
    """Return the spelling of what `spelling` draws in this arrangement."""
    return f"{arrangement}{OF}{spelling}"


def split_arrangement(spelling: str) -> tuple[str, str]:
    """Return the arrangement that a spelling begins with, or nothing, and the distribution."""
    name, of, rest = spelling.partition(OF)
    return (name, rest) if of and name in ARRANGEMENTS else ("", spelling)


def places(extent: int, source: Source) -> list[int]:
    """Return places along an extent: both ends, those of tails and of a block, and others."""
    found = {0, extent - 1}
    for step in STEPS:
        tail = extent // step * step
        block = step * int(source.rng.integers(0, extent // step + 1))
        found.update((tail - 1, tail, (tail + extent) // 2, block - 1, block))
    found.update(int(source.rng.integers(0, extent)) for _ in range(FURTHER_PLACES))
    return sorted(one for one in found if 0 <= one < extent)


def _axis(source: Source, shape: Shape) -> int:
    """Draw an axis with more than one place, where there is one."""
    long = [axis for axis, extent in enumerate(shape) if extent > 1]
    return long[int(source.rng.integers(0, len(long)))] if long else len(shape) - 1


def _size(source: Source, values: Array) -> Array:
    """Return the root mean square of the finite values, where the values are."""
    wide = values.astype(np.float64)
    finite = source.xp.isfinite(wide)
    squares = source.xp.square(source.xp.where(finite, wide, 0.0))
    return source.xp.sqrt(squares.mean())


def _of_size(source: Source, values: Array, sign: int) -> Array:
    factors = source.rng.random(values.shape, dtype=np.float32).astype(np.float64) / 2 + 0.75
    return _stored(source, sign * _size(source, values) * factors, values)


def _stored(source: Source, wide: Array, like: Array) -> Array:
    largest = limits_of(source, like.dtype).largest
    return source.xp.clip(wide, -largest, largest).astype(like.dtype)
