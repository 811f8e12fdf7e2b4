"""Floating-point arithmetic on exact fractions."""

import math
from collections.abc import Callable
from fractions import Fraction

from lane_oracle import formats
from lane_oracle.expected import AnyNan, Expected, Near, Oracle, Pair, Within
from lane_oracle.formats import F32, F64, FORMATS, Format, Number, Real, decode, encode, number

MODES = ("rn", "rz", "rm", "rp", "rna")
ONE = number(1)
ZERO = number(0)


def mode_of(words: list[str]) -> str:
    """The rounding among modifiers."""
    return next((w for w in words if w in MODES), "rn")


def finish(form: Format, real: Real, words: list[str], *, flushes: bool = True) -> Expected:
    """Rounds a result and applies .ftz, .sat, .relu and .satfinite."""
    bits = encode(form, real, mode_of(words), finite="satfinite" in words)
    if "ftz" in words and flushes and formats.is_tiny(form, real, mode_of(words)):
        bits &= 1 << (form.width - 1)
    rounded = decode(form, bits)
    if "sat" in words:
        if rounded is None or rounded.negative or rounded.size == 0:
            return 0
        return min(bits, encode(form, ONE))
    if "relu" in words and rounded is not None and rounded.negative:
        return 0
    if rounded is None and form is F64:
        return AnyNan(F64)
    return bits


def operand(form: Format, bits: int, words: list[str]) -> Real:
    """Value of an operand, flushed if the opcode says so."""
    return decode(form, formats.flushed(form, bits) if "ftz" in words else bits)


def _fused(a: Real, b: Real, c: Real, mode: str) -> Real:
    return formats.add(formats.multiply(a, b), c, mode)


def arithmetic(words: list[str]) -> Oracle:
    """add, sub, mul, fma, mad, div, rcp, sqrt of one format."""
    name, t = words[0], words[-1]
    form = FORMATS[t]
    mode = mode_of(words)
    exact: dict[str, Callable[..., Real]] = {
        "add": lambda a, b: formats.add(a, b, mode),
        "sub": lambda a, b: formats.add(a, formats.negate(b), mode),
        "mul": formats.multiply,
        "fma": lambda a, b, c: _fused(a, b, c, mode),
        "mad": lambda a, b, c: _fused(a, b, c, mode),
        "div": formats.divide,
        "rcp": lambda a: formats.divide(ONE, a),
        "sqrt": formats.square_root,
    }
    return lambda args: (
        finish(form, exact[name](*(operand(form, a, words) for a in args)), words),
    )


def mixed(words: list[str]) -> Oracle:
    """f32 arithmetic with f16 or bf16 sources."""
    form = FORMATS[words[-1]]
    mode = mode_of(words)

    def oracle(args: tuple[int, ...]) -> tuple[Expected]:
        *first, last = args
        sources = [decode(form, a) for a in first]
        addend = decode(F32, last)
        if words[0] == "fma":
            return (finish(F32, _fused(sources[0], sources[1], addend, mode), words),)
        addend = formats.negate(addend) if words[0] == "sub" else addend
        return (finish(F32, formats.add(sources[0], addend, mode), words),)

    return oracle


def sign(words: list[str]) -> Oracle:
    """neg, abs, copysign: the sign bit alone, unless neg or abs of a NaN."""
    form = FORMATS[words[-1]]
    top = 1 << (form.width - 1)

    def oracle(args: tuple[int, ...]) -> tuple[int]:
        bits = formats.flushed(form, args[0]) if "ftz" in words else args[0]
        if words[0] in ("neg", "abs") and form is not F64 and decode(form, bits) is None:
            return (form.nan,)
        if words[0] == "neg":
            return (bits ^ top,)
        if words[0] == "abs":
            return (bits & ~top,)
        return (args[0] & top | args[1] & ~top,)

    return oracle


def test(words: list[str]) -> Oracle:
    """testp."""
    form = FORMATS[words[-1]]

    def oracle(args: tuple[int, ...]) -> tuple[int]:
        value = decode(form, args[0])
        finite = value is not None and value.size is not None
        tiny = finite and formats.flushed(form, args[0]) != args[0]
        answers = {
            "finite": finite,
            "infinite": value is not None and not finite,
            "number": value is not None,
            "notanumber": value is None,
            "normal": finite and not tiny,
            "subnormal": tiny,
        }
        return (int(answers[words[1]]),)

    return oracle


def extreme(words: list[str], arity: int = 2) -> Oracle:
    """min and max with .NaN, .abs, .xorsign.abs and two or three sources."""
    form = FORMATS[words[-1]]
    top = 1 << (form.width - 1)
    largest = words[0] == "max"

    def of_two(a: int, b: int) -> Expected:
        if "ftz" in words:
            a, b = formats.flushed(form, a), formats.flushed(form, b)
        signs = (a ^ b) & top if "xorsign" in words else 0
        if "abs" in words:
            a, b = a & ~top, b & ~top
        x, y = decode(form, a), decode(form, b)
        if (x is None and y is None) or ("NaN" in words and (x is None or y is None)):
            return AnyNan(form) if form is F64 else form.nan
        if x is None or y is None:
            return (b if x is None else a) | signs
        # Of equal values, zeros: -0 is below +0.
        below = x.negative if formats.equal(x, y) else formats.less(x, y)
        return (a if below != largest else b) | signs

    def oracle(args: tuple[int, ...]) -> tuple[Expected]:
        result = of_two(args[0], args[1])
        if arity == 3:
            assert isinstance(result, int)
            result = of_two(result, args[2])
        return (result,)

    return oracle


def pairs(each: Oracle, width: int) -> Oracle:
    """The same operation on the low and the high part of every operand."""

    def oracle(args: tuple[int, ...]) -> tuple[Expected]:
        mask = (1 << width) - 1
        low = each(tuple(a & mask for a in args))[0]
        high = each(tuple(a >> width for a in args))[0]
        return (Pair(low, high, width),)

    return oracle


def _power(x: float) -> float:
    return 2.0**x if x < 1000 else math.inf


FUNCTIONS: dict[str, Callable[[float], float]] = {
    "ex2": _power,
    "lg2": math.log2,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "rsqrt": lambda x: 1 / math.sqrt(x),
}
AT_INFINITY: dict[str, tuple[float | None, float | None]] = {
    "ex2": (0.0, math.inf),
    "lg2": (None, math.inf),
    "sin": (None, None),
    "cos": (None, None),
    "tanh": (-1.0, 1.0),
    "rsqrt": (None, 0.0),
}
"""Values at minus and plus infinity; None is NaN."""


MOST_APART = {"sin": 2.0**-21, "cos": 2.0**-21, "lg2": 2.0**-22}
"""Largest absolute errors of the hardware where they are more than a step."""
MOST_RELATIVELY = {"tanh": 2.0**-16}
"""And relative ones: 134 steps of float32 were recorded."""


def approximate(words: list[str]) -> Oracle:
    """The special functions, to within the errors that an H200 was recorded to make."""
    name, form = words[0], FORMATS[words[-1]]

    def oracle(args: tuple[int, ...]) -> tuple[Expected]:
        x = operand(form, args[0], words)
        result = _special(name, x)
        if isinstance(result, Number) or result is None:
            return (finish(form, result, words),)
        exact = number(Fraction(result))
        rounded = finish(form, exact, words)
        assert isinstance(rounded, int)
        if form is not F32:
            return (Near(rounded, 1),)
        # One step away may be the other side of the limit below which results are flushed.
        other = formats.flushed(form, encode(form, exact) + 1) if "ftz" in words else None
        most = max(MOST_APART.get(name, 0.0), MOST_RELATIVELY.get(name, 0.0) * abs(float(result)))
        return (Within(form, rounded, 1, float(result), most, other),)

    return oracle


def _special(name: str, x: Real) -> float | Real:
    """A float to be rounded, or the exact result."""
    if x is None:
        return None
    if x.size is None:
        at = AT_INFINITY[name][0 if x.negative else 1]
        if at is None:
            return None
        return Number(False, None) if math.isinf(at) else number(Fraction(at))
    if x.size == 0:
        if name in ("sin", "tanh"):
            return x
        if name in ("ex2", "cos"):
            return ONE
        return Number(name == "lg2" or x.negative, None)
    if x.negative and name in ("lg2", "rsqrt"):
        return None
    if name in ("sin", "cos"):
        part = _part_of_turn(x)
        if name == "sin" and part == 0:
            return number(0, negative_zero=x.negative)
        return FUNCTIONS[name](2 * math.pi * part)
    result = FUNCTIONS[name](float(x.value))
    return Number(False, None) if math.isinf(result) else result


def _part_of_turn(x: Number) -> float:
    """Angle in turns, at most a half: the hardware multiplies by 1 / (2 pi) in f32 and cuts."""
    factor = decode(F32, 0x3E22F983)
    bits = formats.flushed(F32, encode(F32, formats.multiply(x, factor), "rz"))
    turns = decode(F32, bits)
    assert turns is not None
    return float(turns.value - formats.round_integer(turns.value, "rn"))


def divide_approximately(words: list[str]) -> Oracle:
    """div.approx: the quotient, but nothing is left of it for divisors above 2^126."""

    def oracle(args: tuple[int, ...]) -> tuple[Expected]:
        a, b = (operand(F32, bits, words) for bits in args)
        if b is not None and (b.size is None or b.size > 2**126):
            b = Number(b.negative, None)
        return (_steps_of(formats.divide(a, b), words, 2),)

    return oracle


def nearly(words: list[str], steps: int) -> Oracle:
    """rcp.approx, sqrt.approx and div.full: the exact result, or `steps` float32 away from it."""
    by_name: dict[str, Callable[..., Real]] = {
        "div": formats.divide,
        "rcp": lambda a: formats.divide(ONE, a),
        "sqrt": formats.square_root,
    }
    exact = by_name[words[0]]
    return lambda args: (_steps_of(exact(*(operand(F32, a, words) for a in args)), words, steps),)


def _steps_of(real: Real, words: list[str], steps: int) -> Expected:
    """What lies at most `steps` float32 from a result; a zero, a NaN and an infinity are exact.

    A result beside the smallest normal float32 may be flushed, and a flushed result may not be.
    """
    bits = finish(F32, real, words)
    assert isinstance(bits, int)
    if real is None or real.size is None or real.size == 0:
        return bits
    size, sign = bits & 0x7FFFFFFF, bits & 0x80000000
    least = 0x00800000
    if "ftz" in words and size < least + steps:
        return Near(bits, steps, sign if size else sign | least)
    return Near(bits, steps)


def gross(words: list[str]) -> Oracle:
    """rcp and rsqrt of f64 that read and write the high word alone."""

    def oracle(args: tuple[int, ...]) -> tuple[Expected]:
        a = decode(F64, formats.flushed(F64, args[0] >> 32 << 32))
        root = formats.square_root(a) if words[0] == "rsqrt" else a
        real = formats.divide(ONE, root)
        if real is None:
            return (AnyNan(F64),)
        bits = encode(F64, real)
        if real.size is None or real.size == 0:
            return (bits,)
        high = formats.flushed(F64, bits + (1 << 31) >> 32 << 32)
        return (Near(high, 0, formats.flushed(F64, high - (1 << 32))),)

    return oracle


def reciprocal_root(_: list[str]) -> Oracle:
    """rsqrt.approx.f64, within two steps."""

    def oracle(args: tuple[int, ...]) -> tuple[Expected]:
        real = formats.divide(ONE, formats.square_root(decode(F64, args[0])))
        if real is None:
            return (AnyNan(F64),)
        return (Near(encode(F64, real), 2),)

    return oracle
