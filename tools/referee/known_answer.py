"""A small computation whose result is known: does the device still compute what it should?"""

import numpy as np

from cuda_llm.errors import InfrastructureError
from cuda_llm.tools.device import Site

COUNT = 1 << 14
_MULTIPLIER = 2654435761
"""Knuth's: neighbouring words differ in every byte."""


def known_answer(site: Site) -> None:
    """Multiply, mix and add up words on the device. Raises InfrastructureError where it errs.

    On a GPU a poisoned context raises what CuPy raises.
    """
    arrays = site.arrays
    words = mixed(arrays.xp.arange(COUNT, dtype=arrays.xp.uint32))
    right = mixed(np.arange(COUNT, dtype=np.uint32))
    wrong = int(np.count_nonzero(arrays.to_host(words) != right))
    total = int(arrays.to_host(words.sum(dtype=arrays.xp.uint64)))
    if wrong or total != int(right.sum(dtype=np.uint64)):
        raise InfrastructureError("device", f"{wrong:,} of {COUNT:,} known words are wrong")


def mixed(
    words: "np.ndarray[tuple[int], np.dtype[np.uint32]]",
) -> "np.ndarray[tuple[int], np.dtype[np.uint32]]":
    """The same words of the same input, by NumPy and by CuPy: unsigned arithmetic wraps."""
    product = words * words.dtype.type(_MULTIPLIER)
    return product ^ (product >> words.dtype.type(15))
