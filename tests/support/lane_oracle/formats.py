"""Floating-point formats as exact fractions: decoding, and correct rounding in any mode."""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt


@dataclass(frozen=True)
class Format:
    """An encoding: sign, exponent, `mantissa` bits."""

    width: int
    mantissa: int
    bias: int
    infinity: int | None
    largest: int
    nan: int
    """What a NaN result looks like."""


F16 = Format(16, 10, 15, 0x7C00, 0x7BFF, 0x7FFF)
BF16 = Format(16, 7, 127, 0x7F80, 0x7F7F, 0x7FFF)
F32 = Format(32, 23, 127, 0x7F800000, 0x7F7FFFFF, 0x7FFFFFFF)
F64 = Format(64, 52, 1023, 0x7FF << 52, (0x7FF << 52) - 1, 0xFFF << 51)
E5M2 = Format(8, 2, 15, 0x7C, 0x7B, 0x7F)
E4M3 = Format(8, 3, 7, None, 0x7E, 0x7F)
TF32 = Format(19, 10, 127, 0x3FC00, 0x3FBFF, 0x3FFFF)
FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64, "e5m2": E5M2, "e4m3": E4M3}


@dataclass(frozen=True)
class Number:
    """A value: its sign, and its magnitude; `size` None is infinity."""

    negative: bool
    size: Fraction | None

    @property
    def value(self) -> Fraction:
        """Signed value of a finite number."""
        assert self.size is not None
        return -self.size if self.negative else self.size


NAN = None
"""Stands for every NaN."""
Real = Number | None


def number(value: Fraction | int, *, negative_zero: bool = False) -> Number:
    """A finite number; `negative_zero` decides the sign of zero."""
    exact = Fraction(value)
    return Number(negative_zero if exact == 0 else exact < 0, abs(exact))


def decode(form: Format, bits: int) -> Real:
    """Value of an encoding."""
    negative = bool(bits >> (form.width - 1))
    code = bits & ((1 << (form.width - 1)) - 1)
    if code == form.infinity:
        return Number(negative, None)
    if code > form.largest:
        return NAN
    exponent = code >> form.mantissa
    significand = code & ((1 << form.mantissa) - 1)
    if exponent:
        significand |= 1 << form.mantissa
    scale = max(exponent, 1) - form.bias - form.mantissa
    size = Fraction(significand << scale) if scale >= 0 else Fraction(significand, 1 << -scale)
    return Number(negative, size)


def round_integer(value: Fraction, mode: str) -> int:
    """Nearest integer (`rn` ties to even, `rna` ties away) or the one a direction asks for."""
    down, rest = divmod(value.numerator, value.denominator)
    if rest == 0 or mode == "rm":
        return down
    if mode == "rp":
        return down + 1
    if mode == "rz":
        return down + (value < 0)
    twice = 2 * rest
    if twice != value.denominator:
        return down + (twice > value.denominator)
    if mode == "rna":
        return down + (value > 0)
    return down + (down & 1)


def encode(form: Format, real: Real, mode: str = "rn", *, finite: bool = False) -> int:
    """Rounds into a format. `finite`: overflow and infinity become the largest finite value."""
    if real is None:
        return form.nan
    sign = int(real.negative) << (form.width - 1)
    overflow = form.largest if finite or form.infinity is None else form.infinity
    if real.size is None:
        return sign | overflow
    if real.size == 0:
        return sign
    power = real.size.numerator.bit_length() - real.size.denominator.bit_length()
    if real.size < Fraction(2) ** power:
        power -= 1
    power = max(power, 1 - form.bias)
    unit = Fraction(2) ** (power - form.mantissa)
    significand = abs(round_integer(real.value / unit, mode))
    code = significand + ((power - 1 + form.bias) << form.mantissa)
    if code <= form.largest:
        return sign | code
    stops = mode == "rz" or (mode == "rm" and not real.negative) or (mode == "rp" and real.negative)
    return sign | (form.largest if stops else overflow)


def add(a: Real, b: Real, mode: str = "rn") -> Real:
    """Exact sum; the mode decides the sign of a zero."""
    if a is None or b is None:
        return NAN
    if a.size is None:
        return NAN if b.size is None and a.negative != b.negative else a
    if b.size is None:
        return b
    either = a.negative or b.negative
    both = a.negative and b.negative
    return number(a.value + b.value, negative_zero=either if mode == "rm" else both)


def negate(a: Real) -> Real:
    """-a."""
    return None if a is None else Number(not a.negative, a.size)


def multiply(a: Real, b: Real) -> Real:
    """Exact product."""
    if a is None or b is None:
        return NAN
    negative = a.negative != b.negative
    if a.size is None or b.size is None:
        return NAN if a.size == 0 or b.size == 0 else Number(negative, None)
    return Number(negative, a.size * b.size)


def divide(a: Real, b: Real) -> Real:
    """Exact quotient."""
    if a is None or b is None:
        return NAN
    negative = a.negative != b.negative
    if a.size is None:
        return NAN if b.size is None else Number(negative, None)
    if b.size is None:
        return Number(negative, Fraction(0))
    if b.size == 0:
        return NAN if a.size == 0 else Number(negative, None)
    return Number(negative, a.size / b.size)


def square_root(a: Real) -> Real:
    """Square root, exact or with its inexactness in a bit far below any format."""
    if a is None or a.size == 0:
        return a
    if a.negative:
        return NAN
    if a.size is None:
        return a
    scale = 1200
    scaled = (a.size.numerator << (2 * scale)) // a.size.denominator
    root = isqrt(scaled)
    exact = root * root * a.size.denominator == a.size.numerator << (2 * scale)
    return number(Fraction(2 * root + (not exact), 2 << scale))


def less(a: Number, b: Number) -> bool:
    """a < b, infinities included."""
    return _order(a) < _order(b)


def equal(a: Number, b: Number) -> bool:
    """a = b; both zeros are equal."""
    return _order(a) == _order(b)


def _order(a: Number) -> tuple[int, Fraction]:
    if a.size is None:
        return (-1 if a.negative else 1, Fraction(0))
    return (0, a.value)


def is_tiny(form: Format, real: Real, mode: str) -> bool:
    """Is a result below the smallest normal number when rounded as if exponents had no end?"""
    if real is None or real.size is None or real.size == 0:
        return False
    lift = Fraction(2) ** (form.mantissa + 2)
    lifted = decode(form, encode(form, Number(real.negative, real.size * lift), mode))
    smallest = Fraction(2) ** (1 - form.bias)
    return lifted is not None and lifted.size is not None and lifted.size < smallest * lift


def flushed(form: Format, bits: int) -> int:
    """A subnormal as a zero of its sign."""
    exponent = bits & ((1 << (form.width - 1)) - 1)
    return bits if exponent >> form.mantissa else bits >> (form.width - 1) << (form.width - 1)
