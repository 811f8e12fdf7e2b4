"""Random arrays that are drawn part by part, so that what is made on the way stays small.

Some distributions make five arrays of eight bytes an element on the way to one of four. Of an input
of 4 GB that was more than a GPU of 80 GB has left beside the slots of two runners.
"""

from collections.abc import Callable
from functools import wraps
from math import prod
from typing import Any

import numpy.typing as npt

from cuda_llm.tools.device.buffers import Array
from cuda_llm.tools.validator.whole_numbers import Shape, Source

MADE_BYTES = 48
"""An element of a part, on the way to it: at most six arrays of eight bytes."""

Drawn = Callable[..., Array]


def in_parts(function: Drawn) -> Drawn:
    """Draw large arrays in parts; for elements that do not depend on their place."""
    return _in_parts(function, by_rows=False)


def in_parts_of_rows(function: Drawn) -> Drawn:
    """Draw in parts of whole rows; for rows that do not depend on each other.

    A vector is one row.
    """
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


__all__ = ["MADE_BYTES", "in_parts", "in_parts_of_rows", "is_in_parts"]
