"""What an oracle says a result must be."""

from collections.abc import Callable
from dataclasses import dataclass

from lane_oracle.formats import Format, decode


@dataclass(frozen=True)
class AnyNan:
    """Any NaN of the format: PTX leaves its payload open."""

    form: Format


@dataclass(frozen=True)
class Near:
    """An encoding at most `steps` away in one direction or the other, or an alternative."""

    bits: int
    steps: int
    alternative: int | None = None


@dataclass(frozen=True)
class Within:
    """An encoding at most `steps` away, or of a value at most `most` away from the exact one."""

    form: Format
    bits: int
    steps: int
    exact: float
    most: float
    alternative: int | None = None


@dataclass(frozen=True)
class Pair:
    """Two encodings in one word: of the low `width` bits, and of those above them."""

    low: "Expected"
    high: "Expected"
    width: int


Expected = int | AnyNan | Near | Within | Pair
Oracle = Callable[[tuple[int, ...]], tuple[Expected, ...]]


def agrees(expected: Expected, bits: int) -> bool:
    """Is `bits` the result that was expected?"""
    match expected:
        case AnyNan(form=form):
            return bits & ((1 << (form.width - 1)) - 1) > (form.infinity or form.largest)
        case Near(bits=near, steps=steps, alternative=alternative):
            return abs(bits - near) <= steps or bits == alternative
        case Within():
            near = abs(bits - expected.bits) <= expected.steps or bits == expected.alternative
            got = decode(expected.form, bits)
            if near or got is None or got.size is None:
                return near
            return abs(float(got.value) - expected.exact) <= expected.most
        case Pair(low=low, high=high, width=width):
            below = bits & ((1 << width) - 1)
            return agrees(low, below) and agrees(high, bits >> width)
        case _:
            return bits == expected
