"""Derives how far a result may be from the float64 reference, as docs/referee.md explains."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from cuda_llm.tasks.element_types import FORMATS
from cuda_llm.tasks.task import SummationOrder, Tolerance, ToleranceClass

ROUNDING_UNIT: Mapping[str, float] = MappingProxyType(
    {name: one.rounding_unit for name, one in FORMATS.items()}
)
"""Half the distance between 1 and the next number, by precision."""

SMALLEST_NORMAL: Mapping[str, float] = MappingProxyType(
    # A rounding unit of it has to be a float64 above 0.
    {name: max(one.smallest_normal, 2.0**-1020) for name, one in FORMATS.items()}
)
"""Below it numbers are subnormal, and their rounding error stays constant; by precision."""

LOST_TO_OVERFLOW: Mapping[str, float] = MappingProxyType(
    {name: 2.0**-1014 if name == "fp64" else 2.0**-121 for name in FORMATS}
)
"""Absolute error of an elementwise result where an intermediate value overflows, by precision:
`x / (1 + expf(-x))` is 0 from where expf is beyond 2^128 (2^1024), at |x| below 2^7 (2^10)."""

FEWEST_FOR_RMS = 64
"""With fewer elements the root mean square adds nothing to the largest error."""


@dataclass(frozen=True, kw_only=True)
class ErrorLimits:
    """When one output of one case is right.

    An element's error |y - y*| is counted in units of
    `unit * max(floor, scale_weight * s + value_weight * |y*|)`.
    """

    unit: float
    max_units: float
    rms_units: float
    floor: float = 0.0
    """Smallest scale: below it numbers are subnormal and their rounding error stays constant."""
    scale_weight: float = 1.0
    value_weight: float = 0.0
    exact: bool = False
    """Equality; the units are infinite where it fails."""
    bits: bool = False
    """With `exact`: equal bits, where the reference's type is the output's."""


EXACT = ErrorLimits(unit=ROUNDING_UNIT["fp32"], max_units=0.0, rms_units=0.0, exact=True)
EXACT_BITS = replace(EXACT, bits=True)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What is summed into one output element."""

    count: float = 1.0
    symmetric: bool = False
    """Independent around zero: partial sums stay far below sum|x|."""
    repeated: bool = False
    """Whether all terms are equal: every addition may round the same way."""
    may_overflow: bool = False
    """Whether inputs are large enough for an intermediate value of a formula to overflow."""


def limits(tolerance: Tolerance, terms: Terms) -> ErrorLimits:
    """Return the limits for the outputs of one case."""
    if tolerance.kind is ToleranceClass.EXACT:
        return EXACT_BITS if tolerance.bits else EXACT
    sums = tolerance.kind is not ToleranceClass.ELEMENTWISE
    own = _sum_limits(tolerance, terms) if sums else _elementwise_limits(tolerance)
    max_units = tolerance.max_units or own.max_units
    floor = SMALLEST_NORMAL[tolerance.precision]
    rms_units = tolerance.rms_units or tolerance.max_units or own.rms_units
    if sums:
        floor = max(floor, _lost_in_sum(tolerance, terms) / (max_units * own.unit))
    elif terms.may_overflow:
        lost = LOST_TO_OVERFLOW[tolerance.precision]
        floor = max(floor, lost / (min(max_units, rms_units) * own.unit))
    return ErrorLimits(
        unit=own.unit,
        max_units=max_units,
        rms_units=rms_units,
        floor=floor,
        scale_weight=own.scale_weight,
        value_weight=own.value_weight,
    )


def _lost_in_sum(tolerance: Tolerance, terms: Terms) -> float:
    """Return the absolute error subnormal terms and partial sums may add in the accumulator."""
    accumulator = "fp64" if tolerance.precision == "fp64" else "fp32"
    smallest = SMALLEST_NORMAL[accumulator]
    # Float atomics in global memory flush subnormal operands and results; else they are rounded.
    each = smallest if tolerance.order is SummationOrder.ANY else smallest * ROUNDING_UNIT["fp32"]
    return 2.0 * max(terms.count, 1.0) * each


def _elementwise_limits(tolerance: Tolerance) -> ErrorLimits:
    """Allow four units in the last place (each at most two rounding units); one unit in short
    types."""
    biggest = 2.0 if FORMATS[tolerance.precision].is_short else 8.0
    return ErrorLimits(
        unit=ROUNDING_UNIT[tolerance.precision], max_units=biggest, rms_units=biggest / 2
    )


def _sum_limits(tolerance: Tolerance, terms: Terms) -> ErrorLimits:
    unit = ROUNDING_UNIT[tolerance.precision]
    biggest, rms = _accumulation_units(tolerance.order, terms)
    if tolerance.precision in ("fp32", "fp64"):
        return ErrorLimits(unit=unit, max_units=biggest, rms_units=rms)
    accumulated = biggest * ROUNDING_UNIT["fp32"] / unit
    if tolerance.precision == "tf32":
        # Both operands rounded: (1 + u)^2, then a float32 sum.
        return ErrorLimits(unit=unit, max_units=2.001 + accumulated, rms_units=2.001 + accumulated)
    # A float32 sum, whose terms may have been rounded before, then one rounding of the result.
    before = accumulated + tolerance.roundings - 1
    return ErrorLimits(
        unit=unit, max_units=1.01, rms_units=1.01, scale_weight=before, value_weight=1.0
    )


def _accumulation_units(order: SummationOrder, terms: Terms) -> tuple[float, float]:
    """Return the largest and RMS error of an honest float32 sum, in rounding units of sum|x|."""
    if terms.symmetric:
        return 32.0, 4.0
    if order is SummationOrder.TREE:
        return 32.0, 16.0
    if terms.repeated:
        return max(32.0, terms.count), max(32.0, terms.count)
    chain = math.sqrt(max(terms.count, 1.0))
    return max(32.0, 2.0 * chain), max(8.0, chain)
