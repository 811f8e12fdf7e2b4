"""The arguments of `solve` in the frames of every runner."""

import ctypes
import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from cuda_llm.tasks.element_types import ELEMENT_TYPES
from cuda_llm.tools.device import Argument, Scalar
from cuda_llm.tools.device.protocol import MAX_FLOATS, MAX_INTEGERS

_IN_FLOAT_ROW = frozenset({"float", "double"})
_SHORT_FLOATS = MappingProxyType(
    {one.ctypes[0]: one for one in ELEMENT_TYPES.values() if one.is_short}
)
"""Types of numbers that C++ passes as classes, by C++ name."""


def put_arguments(
    frame: ctypes.Structure, arguments: Sequence[Argument], offsets: Mapping[str, int]
) -> None:
    """Write the arguments of `solve` into a frame; `offsets` places each buffer in the arena.

    Integers and floats go into separate rows: `native/call.cpp` says why that is a calling
    convention. Raises ValueError where there are too many or a value does not fit its type.
    """
    integers = floats = 0
    frame.pointers = 0
    for argument in arguments:
        if isinstance(argument, Scalar) and argument.ctype in _IN_FLOAT_ROW:
            if floats == MAX_FLOATS:
                raise ValueError(f"more than {MAX_FLOATS} floating-point arguments")
            frame.floats[floats] = _float_bits(argument)
            floats += 1
            continue
        if integers == MAX_INTEGERS:
            raise ValueError(f"more than {MAX_INTEGERS} integer and pointer arguments")
        if isinstance(argument, Scalar):
            frame.integers[integers] = integer_bits(argument)
        else:
            frame.integers[integers] = offsets[argument]
            frame.pointers |= 1 << integers
        integers += 1


def _float_bits(scalar: Scalar) -> int:
    if scalar.ctype == "float":
        return int.from_bytes(struct.pack("<f", scalar.value), "little")
    return int.from_bytes(struct.pack("<d", scalar.value), "little")


def integer_bits(scalar: Scalar) -> int:
    """Return what an integer register holds of a number, or of a float that C++ passes as a class.

    Raises ValueError for a number that is no 64-bit integer.
    """
    element = _SHORT_FLOATS.get(scalar.ctype)
    if element is not None:
        # A class of one short integer is passed as that.
        return int(element.encode(np.array([scalar.value]), np).view(f"u{element.item_bytes}")[0])
    value = int(scalar.value)
    if value != scalar.value or not -(1 << 63) <= value < 1 << 64:
        raise ValueError(f"{scalar.value!r} is not a 64-bit integer ({scalar.ctype})")
    return value & ((1 << 64) - 1)
