"""Draws integers and bits, and large arrays in parts, so that intermediate arrays stay small.

Some distributions make five arrays of eight bytes an element on the way to one of four bytes; for
an input of 4 GB an 80 GB GPU has no such memory left beside the slots of two runners.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from cuda_llm.tasks.element_types import ElementType, element_type
from cuda_llm.tools.device.buffers import Array, Arrays, Random

Shape = tuple[int, ...]
DRAWN_AT_ONCE = 1 << 24
"""Elements of a large array that are drawn at once, where a distribution can be drawn in parts."""

MADE_BYTES = 48
"""An element of a part, on the way to it: at most six arrays of eight bytes."""


@dataclass(frozen=True)
class Source:
    """Random stream of arrays, and the memory in which they are made."""

    rng: Random
    arrays: Arrays
    at_once: int = DRAWN_AT_ONCE
    element: ElementType | None = None
    """Type that the numbers will be stored in; None: that in which they are drawn."""

    def element_of(self, dtype: npt.DTypeLike) -> ElementType:
        """Return the type of the elements that numbers drawn in `dtype` stand for."""
        return self.element or element_type(np.dtype(dtype).name)

    @property
    def xp(self) -> Any:
        """Return the module of the arrays."""
        return self.arrays.xp


Drawn = Callable[..., Array]


def in_parts(function: Drawn) -> Drawn:
    """Draw large arrays in parts; for elements that do not depend on their place."""
    return _in_parts(function, by_rows=False)


def in_parts_of_rows(function: Drawn) -> Drawn:
    """Draw in parts of whole rows, where rows do not depend on each other. A vector is one row."""
    return _in_parts(function, by_rows=True)


def _in_parts(function: Drawn, *, by_rows: bool) -> Drawn:
    @wraps(function)
    def drawn(source: Source, shape: Shape, dtype: npt.DTypeLike, *arguments: Any) -> Array:
        if prod(shape) <= source.at_once or (by_rows and len(shape) < 2):
            return function(source, shape, dtype, *arguments)
        values: Array = source.xp.empty(shape, dtype)
        rows = values.reshape(-1, shape[-1]) if by_rows else values.reshape(-1)
        step = max(1, source.at_once // (shape[-1] if by_rows else 1))
        for first in range(0, rows.shape[0], step):
            last = min(first + step, rows.shape[0])
            rows[first:last] = function(source, (last - first, *rows.shape[1:]), dtype, *arguments)
        return values

    drawn.in_parts = True  # type: ignore[attr-defined]
    return drawn


def is_in_parts(function: Drawn) -> bool:
    """Return whether large arrays of this distribution are drawn in parts."""
    return hasattr(function, "in_parts")


def is_integer(dtype: npt.DTypeLike) -> bool:
    return bool(np.issubdtype(np.dtype(dtype), np.integer))


def int_limits(dtype: npt.DTypeLike) -> "np.iinfo[Any]":
    """Return the limits of an integer dtype.

    Two steps in one place, because mypy takes ten seconds for each nested call on a possible dtype.
    """
    kind: np.dtype[Any] = np.dtype(dtype)
    return np.iinfo(kind)


def ints_full_range(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw from all values of an integer dtype, its two ends among them."""
    limits = int_limits(dtype)
    kind = limits.dtype.type
    values = source.rng.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)
    return _with_values(source, values, (limits.min, limits.max, -1 if limits.min else 0, 0))


def ints(source: Source, shape: Shape, dtype: npt.DTypeLike, low: int, high: int) -> Array:
    """Draw whole numbers in [low, high), both ends among them."""
    return _with_values(source, _whole(source, shape, dtype, low, high), (low, high - 1))


def sorted_ints(source: Source, shape: Shape, dtype: npt.DTypeLike, low: int, high: int) -> Array:
    """Draw whole numbers in [low, high), ascending in memory order."""
    values = ints(source, shape, dtype, low, high)
    return source.xp.sort(values, axis=None).reshape(shape)


def nearly_sorted_ints(
    source: Source, shape: Shape, dtype: npt.DTypeLike, low: int, high: int
) -> Array:
    """Draw whole numbers in [low, high), ascending, but up to three of them anywhere."""
    values = sorted_ints(source, shape, dtype, low, high)
    flat = values.reshape(-1)
    for place in few_places(source, flat.size):
        flat[place] = int(source.rng.integers(low, high))
    return values


def descending_ints(
    source: Source, shape: Shape, dtype: npt.DTypeLike, low: int, high: int
) -> Array:
    """Draw whole numbers in [low, high), descending in memory order."""
    ascending = sorted_ints(source, shape, dtype, low, high)
    return source.xp.ascontiguousarray(ascending.reshape(-1)[::-1]).reshape(shape)


def bins(source: Source, shape: Shape, dtype: npt.DTypeLike, count: int) -> Array:
    """Draw bin numbers, most in [0, count), some just and far outside, the borders among them."""
    margin = max(1, count // 10)
    values = _whole(source, shape, dtype, -margin, count + margin)
    ends = int_limits(dtype)
    return _with_values(source, values, (-1, 0, count - 1, count, int(ends.min), int(ends.max)))


def rare_bins(source: Source, shape: Shape, dtype: npt.DTypeLike, count: int) -> Array:
    """Draw bin numbers, all in [0, count) but up to three, which no sample of them meets."""
    values = ints(source, shape, dtype, 0, count)
    flat, ends = values.reshape(-1), int_limits(dtype)
    outside = [one for one in (-1, count, int(ends.min), int(ends.max)) if ends.min <= one]
    for place in few_places(source, flat.size):
        flat[place] = outside[int(source.rng.integers(0, len(outside)))]
    return values


@in_parts
def bit_patterns(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw every bit at random; one number in eight is a zero, an infinity, or a quiet NaN of any
    payload. Of a type of one byte every pattern is drawn.

    NaNs are quiet because arithmetic on a signalling NaN is an exception on the host.
    """
    element = source.element_of(dtype)
    if element.item_bytes == 1:
        return element.decode(_every_byte(source, shape), source.xp)
    word = np.dtype(f"int{8 * element.item_bytes}")
    significand = element.floating.significand_bits - 1
    rng, where = source.rng, source.xp.where
    infinite = int(element.encode(np.array([np.inf]), np).view(word)[0])
    bits = rng.integers(0, infinite, shape)
    payloads = rng.integers(0, 1 << significand - 1, shape)
    special = rng.integers(0, 24, shape)
    bits = where(special == 0, 0, bits)
    bits = where(special == 1, infinite, bits)
    bits = where(special == 2, payloads + (infinite + (1 << significand - 1)), bits)
    signs = rng.integers(0, 2, shape) * int(np.iinfo(word).min)
    return element.decode((bits + signs).astype(word).view(element.stored_as), source.xp)


def _every_byte(source: Source, shape: Shape) -> Array:
    """Draw bytes, where there is room for them each of the 256 at least once: at places that follow
    each other."""
    values = source.rng.integers(0, 256, shape).astype(np.uint8)
    flat = values.reshape(-1)
    if flat.size >= 256:
        first = int(source.rng.integers(0, flat.size - 255))
        mask = int(source.rng.integers(0, 256))
        flat[first : first + 256] = source.xp.arange(256, dtype=np.uint8) ^ np.uint8(mask)
    return values


def _whole(source: Source, shape: Shape, dtype: npt.DTypeLike, low: int, high: int) -> Array:
    """Draw whole numbers in [low, high), the same in 32 bits as in 64."""
    ends = np.iinfo(np.int32)
    short = np.dtype(dtype) == np.int32 and ends.min <= low and high - 1 <= ends.max
    values: Array = source.rng.integers(low, high, shape, dtype=np.int32 if short else np.int64)
    return values.astype(dtype, copy=False)


def _with_values(source: Source, values: Array, wanted: tuple[int, ...]) -> Array:
    """Put as many of `wanted` as fit in a quarter of the array at random places."""
    flat = values.reshape(-1)
    fits = wanted[: flat.size // 4]
    if fits:
        places = source.rng.choice(flat.size, len(fits), replace=False)
        flat[places] = source.xp.asarray(np.asarray(fits).astype(values.dtype))
    return values


def few_places(source: Source, size: int) -> list[int]:
    """Draw up to three different places of an array of `size`, never most of them."""
    count = min(3, -(-size // 4))
    return sorted({int(source.rng.integers(0, size)) for _ in range(count)}) if size else []
