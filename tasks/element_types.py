"""Describes the types of elements: their names in files and in C++, how memory holds them, how far
they round.

NumPy and CuPy have no bfloat16 and no floats of 8 bits. Arrays of such elements hold their bits in
unsigned integers; `decode` and `encode` convert between bits and numbers. Everything that moves,
seals or compares memory bit by bit works on the bits, and only what computes decodes them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

Array = Any
"""An array of NumPy or CuPy."""


@dataclass(frozen=True, kw_only=True)
class FloatFormat:
    """A binary floating-point format."""

    name: str
    """As `precision` of a tolerance spells it: `fp32`, `bf16` ..."""
    significand_bits: int
    """Bits of the significand, the leading one included: 24 for fp32."""
    least_exponent: int
    """Binary exponent of the smallest normal number: -126 for fp32."""
    largest: float
    """The largest finite number."""
    saturates: bool = False
    """Whether conversions of the hardware give the largest number where others give infinity: C++
    has a way to ask for infinity instead where the format has infinities."""
    has_infinity: bool = True
    in_memory: bool = True
    """Whether elements of arrays may have the format; tf32 is a rounding inside of tensor cores."""

    @property
    def rounding_unit(self) -> float:
        """Return half the distance between 1 and the next number."""
        return 2.0**-self.significand_bits

    @property
    def smallest_normal(self) -> float:
        """Return the smallest normal number."""
        return 2.0**self.least_exponent

    @property
    def smallest_subnormal(self) -> float:
        """Return the smallest number above 0."""
        return 2.0 ** (self.least_exponent - self.significand_bits + 1)

    @property
    def is_short(self) -> bool:
        """Return whether elements are shorter than the fp32 in which their sums are kept."""
        return self.in_memory and self.significand_bits < 24

    @property
    def least_infinite(self) -> float:
        """Return the least number that is rounded to infinity, unless the format saturates; inf
        where float64 has no such number."""
        return self.largest + self._half_step

    @property
    def nearly_infinite(self) -> float:
        """Return one step below the least number that is rounded to infinity."""
        return self.largest - self._half_step

    @property
    def _half_step(self) -> float:
        return math.ldexp(1.0, math.frexp(self.largest)[1] - self.significand_bits - 1)


FORMATS: Mapping[str, FloatFormat] = MappingProxyType(
    {
        one.name: one
        for one in (
            FloatFormat(
                name="fp32",
                significand_bits=24,
                least_exponent=-126,
                largest=(2 - 2.0**-23) * 2.0**127,
            ),
            FloatFormat(
                name="tf32",
                significand_bits=11,
                least_exponent=-126,
                largest=(2 - 2.0**-10) * 2.0**127,
                in_memory=False,
            ),
            FloatFormat(name="fp16", significand_bits=11, least_exponent=-14, largest=65504.0),
            FloatFormat(
                name="bf16",
                significand_bits=8,
                least_exponent=-126,
                largest=(2 - 2.0**-7) * 2.0**127,
            ),
            FloatFormat(
                name="e4m3",
                significand_bits=4,
                least_exponent=-6,
                largest=448.0,
                saturates=True,
                has_infinity=False,
            ),
            FloatFormat(
                name="e5m2",
                significand_bits=3,
                least_exponent=-14,
                largest=57344.0,
                saturates=True,
            ),
            FloatFormat(
                name="fp64",
                significand_bits=53,
                least_exponent=-1022,
                largest=(2 - 2.0**-52) * 2.0**1023,
            ),
        )
    }
)


@dataclass(frozen=True, kw_only=True)
class ElementType:
    """A type that elements of a buffer, or a scalar argument, may have."""

    name: str
    """As `dtype` of a task and PyTorch spell it."""
    ctypes: tuple[str, ...]
    """Spellings in C++; the first one is declared."""
    kind: Literal["float", "int", "bool"]
    item_bytes: int
    """Bytes of one element in memory."""
    array: str
    """NumPy's name of the type of decoded numbers, which holds every element exactly."""
    storage: str = ""
    """NumPy's name of the type that holds elements as memory does; empty: that of `array`."""
    format: FloatFormat | None = None
    """Precision and range of a float type, or of a part of a complex type; None for whole
    numbers."""
    header: str = ""
    """The header that declares the first C++ spelling; empty where nvcc needs none."""

    @property
    def stored_as(self) -> str:
        """Return NumPy's name of the type that holds elements as memory does."""
        return self.storage or self.array

    @property
    def floating(self) -> FloatFormat:
        """Return precision and range of a float type. Raises ValueError for whole numbers."""
        if self.format is None:
            raise ValueError(f"{self.name} is no float type")
        return self.format

    @property
    def is_short(self) -> bool:
        """Return whether elements are floats shorter than fp32."""
        return self.format is not None and self.format.is_short

    @property
    def is_native(self) -> bool:
        """Return whether NumPy computes with stored elements as they are."""
        return not self.storage

    @property
    def is_float(self) -> bool:
        """Return whether elements are floating-point numbers, real or complex."""
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        """Return whether elements are complex numbers: two floats, the real part first."""
        return self.array.startswith("complex")

    @property
    def part(self) -> str:
        """Return the name of the type of the parts of a complex number; else the type's own."""
        return {"complex64": "float32", "complex128": "float64"}.get(self.name, self.name)

    @property
    def wide(self) -> str:
        """Return NumPy's name of the type in which a reference computes with such elements."""
        if self.is_complex:
            return "complex128"
        return "float64" if self.is_float else "int64"

    def decode(self, stored: Array, xp: Any) -> Array:
        """Return stored elements as numbers, exactly, with the payloads of NaNs.

        `stored` has the type `stored_as`, the result has the type `array` and the same shape. A
        native type's array is returned as it is. `xp` is NumPy or CuPy. Raises TypeError where
        `stored` has another type, which would be bits taken for numbers or the reverse.
        """
        if self.is_native:
            return stored
        if stored.dtype.name != self.storage:
            raise TypeError(f"{self.name} in {stored.dtype}; expected its bits in {self.storage}")
        if self.item_bytes == 1:
            return xp.take(xp.asarray(_numbers_of_bytes(self.floating)), stored)
        # bfloat16 is the upper half of a float32.
        words = stored.astype("uint32")
        words <<= 16
        return words.view("float32")

    def encode(self, values: Array, xp: Any) -> Array:
        """Return numbers as memory holds them, rounded to the nearest, ties to even.

        Numbers beyond the range become infinite, or the largest where the format saturates;
        infinities stay where the format has them. Decoding the result gives numbers of the type
        back as they were, NaNs with their payloads. The result has the type `stored_as`. `xp` is
        NumPy or CuPy.
        """
        if self.is_native:
            return values.astype(self.array, copy=False)
        numbers = _as_float32(values, xp)
        return (
            _bytes(numbers, self.floating, xp)
            if self.item_bytes == 1
            else _upper_halves(numbers, xp)
        )

    def rounded(self, values: Array, xp: Any) -> Array:
        """Return numbers rounded to elements, as numbers of the type `array`."""
        return self.decode(self.encode(values, xp), xp)

    def within_range(self, values: Array, xp: Any) -> Array:
        """Return float64 numbers, those beyond the range of a type that saturates as its largest.

        NaNs stay, and so do all numbers of other types.
        """
        if self.format is None or not self.format.saturates:
            return values
        return xp.clip(values, -self.format.largest, self.format.largest)


def _as_float32(values: Array, xp: Any) -> Array:
    """Convert numbers to float32 so that a second rounding gives what a single one would.

    What float32 cannot hold is rounded to the neighbour with an odd significand, which is never a
    tie of a shorter format (Boldo and Melquiond 2008, "Emulation of a FMA and correctly rounded
    sums"). Float32 and shorter numbers stay as they are.
    """
    if values.dtype.itemsize <= 4 and values.dtype.kind == "f":
        return values.astype("float32", copy=False)
    wide = xp.asarray(values, "float64")
    nearest = xp.minimum(xp.maximum(wide, -FORMATS["fp32"].largest), FORMATS["fp32"].largest)
    nearest = xp.where(xp.isinf(wide), wide, nearest).astype("float32")
    back = nearest.astype("float64")
    bits = nearest.view("int32")
    # Of two neighbours around a number, whose bits are whole numbers apart by 1, one is odd.
    inexact = (back != wide) & (wide == wide) & ((bits & 1) == 0)
    away = xp.where(xp.abs(wide) > xp.abs(back), 1, -1).astype("int32")
    signs = xp.where(wide < 0, -(2**31), 0).astype("int32")
    # From zero there is only one way: to the smallest number of the sign.
    stepped = xp.where(back == 0, signs + xp.asarray(1, "int32"), bits + away)
    kept = xp.abs(wide) <= FORMATS["fp32"].largest
    return xp.where(inexact & kept, stepped, bits).astype("int32").view("float32")


def _upper_halves(values: Array, xp: Any) -> Array:
    """Round float32 numbers to their upper 16 bits."""
    bits = xp.ascontiguousarray(values).reshape(values.shape).view("uint32")
    upper = bits >> 16
    # The carry may reach the exponent: that is the next power of two, or infinity.
    rounded = (bits + (upper & 1) + 0x7FFF) >> 16
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
    # A payload of lower bits alone would leave an infinity.
    quiet = xp.where((upper & 0x7F) == 0, upper | 0x40, upper)
    return xp.where(is_nan, quiet, rounded).astype("uint16")


@cache
def _numbers_of_bytes(format: FloatFormat) -> Array:
    """Return the number of each of the 256 patterns of a format of 8 bits, as float32.

    All NaNs are quiet, so that no arithmetic on the host is an exception; the fraction of a NaN's
    pattern lies behind the bit that says so.
    """
    import numpy as np

    fraction_bits = format.significand_bits - 1
    patterns = np.arange(256)
    exponents = np.maximum((patterns & 0x7F) >> fraction_bits, 1) + format.least_exponent - 1
    fractions = patterns & ((1 << fraction_bits) - 1)
    leading = np.where((patterns & 0x7F) >> fraction_bits, 1 << fraction_bits, 0)
    numbers = np.ldexp(leading + fractions, exponents - fraction_bits).astype(np.float32)
    bits = numbers.view(np.uint32)
    beyond = numbers > format.largest
    bits[beyond] = 0x7FC00000 | fractions[beyond] << (22 - fraction_bits)
    if format.has_infinity:
        bits[beyond & (fractions == 0)] = 0x7F800000
    bits[128:] |= np.uint32(1 << 31)
    numbers.flags.writeable = False
    return numbers


@cache
def _ends_of_bytes(format: FloatFormat) -> Array:
    """Return for each pattern of a positive number, but for the largest, the greatest float32 that
    is rounded to the pattern's number or to a smaller one."""
    import numpy as np

    numbers = _numbers_of_bytes(format)[:128]
    finite = numbers[np.isfinite(numbers)]
    # Float32 holds a middle of two neighbours, which belongs to that of them with an even pattern.
    ends = (finite[:-1] + finite[1:]) / 2
    ends[1::2] = np.nextafter(ends[1::2], np.float32(0))
    ends.flags.writeable = False
    return ends


def _bytes(values: Array, format: FloatFormat, xp: Any) -> Array:
    """Round float32 numbers to a format of 8 bits."""
    bits = xp.ascontiguousarray(values).reshape(values.shape).view("uint32")
    patterns = xp.searchsorted(xp.asarray(_ends_of_bytes(format)), xp.abs(values))
    fraction_bits = format.significand_bits - 1
    mask = (1 << fraction_bits) - 1
    if format.has_infinity:
        patterns = xp.where(xp.isinf(values), 0x7F & ~mask, patterns)
    fractions = bits >> (22 - fraction_bits) & mask
    # Without a fraction the pattern would be an infinity: a NaN of no payload has all bits set.
    quiet = 0x7F & ~mask | xp.where(fractions == 0, mask, fractions)
    patterns = xp.where(xp.isnan(values), quiet, patterns)
    return (patterns | bits >> 24 & 0x80).astype("uint8")


def _whole(name: str, *ctypes: str) -> ElementType:
    """Return a type of whole numbers, whose NumPy name ends in its bits."""
    bits = int(name.lstrip("uint"))
    return ElementType(name=name, ctypes=ctypes, kind="int", item_bytes=bits // 8, array=name)


ELEMENT_TYPES: Mapping[str, ElementType] = MappingProxyType(
    {
        one.name: one
        for one in (
            ElementType(
                name="float16",
                ctypes=("half", "__half"),
                kind="float",
                item_bytes=2,
                array="float16",
                format=FORMATS["fp16"],
                header="cuda_fp16.h",
            ),
            ElementType(
                name="bfloat16",
                ctypes=("__nv_bfloat16", "nv_bfloat16"),
                kind="float",
                item_bytes=2,
                array="float32",
                storage="uint16",
                format=FORMATS["bf16"],
                header="cuda_bf16.h",
            ),
            *(
                ElementType(
                    name=name,
                    ctypes=(f"__nv_fp8_{format}",),
                    kind="float",
                    item_bytes=1,
                    array="float32",
                    storage="uint8",
                    format=FORMATS[format],
                    header="cuda_fp8.h",
                )
                for name, format in (("float8_e4m3fn", "e4m3"), ("float8_e5m2", "e5m2"))
            ),
            ElementType(
                name="float32",
                ctypes=("float",),
                kind="float",
                item_bytes=4,
                array="float32",
                format=FORMATS["fp32"],
            ),
            ElementType(
                name="float64",
                ctypes=("double",),
                kind="float",
                item_bytes=8,
                array="float64",
                format=FORMATS["fp64"],
            ),
            ElementType(
                name="complex64",
                ctypes=("cuFloatComplex", "cuComplex"),
                kind="float",
                item_bytes=8,
                array="complex64",
                format=FORMATS["fp32"],
                header="cuComplex.h",
            ),
            ElementType(
                name="complex128",
                ctypes=("cuDoubleComplex",),
                kind="float",
                item_bytes=16,
                array="complex128",
                format=FORMATS["fp64"],
                header="cuComplex.h",
            ),
            _whole("int8", "signed char", "char", "int8_t"),
            _whole("int16", "short", "int16_t"),
            _whole("int32", "int", "int32_t"),
            _whole("int64", "long long"),
            _whole("uint8", "unsigned char", "uint8_t"),
            _whole("uint16", "unsigned short", "uint16_t"),
            _whole("uint32", "unsigned int", "unsigned", "uint32_t"),
            _whole("uint64", "unsigned long long"),
            ElementType(name="bool", ctypes=("bool",), kind="bool", item_bytes=1, array="bool"),
        )
    }
)
"""Element types by name."""


@cache
def element_type(name: str) -> ElementType:
    """Return the element type of a name. Raises KeyError, with the known names, for another."""
    found = ELEMENT_TYPES.get(name)
    if found is None:
        raise KeyError(f"{name} is no element type; known: {', '.join(ELEMENT_TYPES)}")
    return found
