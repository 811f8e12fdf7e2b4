"""Every element of an output against the float64 reference."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cuda_llm.tools.validator.tolerances import FEWEST_FOR_RMS, Limits

Array = npt.NDArray[Any]

CHUNK = 1 << 16
"""Elements compared at once: the working set stays in the cache, memory stays bounded."""


@dataclass(frozen=True)
class Expected:
    """What one output should be."""

    value: Array
    """Float64, or whole numbers for an integer output; shape of the output."""
    scale: Array | None = None
    """What errors are measured against, e.g. |A||B|; None: the value's own magnitude."""
    units: Array | None = None
    """Errors in rounding units where the task's own rule judged the output; NaN is wrong."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How one output came out."""

    elements: int
    wrong: int
    max_units: float
    """Largest normalised error; infinite where a value is not finite or equality was asked."""
    rms_units: float
    limit: float
    """What `max_units` had to stay within."""
    first: tuple[int, ...] = ()
    """Index of the first wrong element; of the worst one where only the RMS is too large."""
    got: float = 0.0
    expected: float = 0.0

    @property
    def ok(self) -> bool:
        """Nothing is wrong."""
        return self.wrong == 0


def compare(got: Array, expected: Expected, limits: Limits) -> Comparison:
    """Compare all of `got`; a NaN or infinity passes only where the reference has the same."""
    size = got.size
    wrong = 0
    first = worst_at = -1
    worst = squares = 0.0
    for begin, units in _units(got, expected, limits):
        at = int(units.argmax())
        highest = float(units[at])
        if highest > worst:
            worst, worst_at = highest, begin + at
        if highest > limits.max_units:
            bad = np.flatnonzero(units > limits.max_units)
            first = begin + int(bad[0]) if first < 0 else first
            wrong += bad.size
        if math.isfinite(highest):
            squares += float(np.dot(units, units))
    rms = math.sqrt(squares / size) if size else 0.0
    limit = limits.max_units
    if not wrong and size >= FEWEST_FOR_RMS and rms > limits.rms_units:
        wrong, first, worst, limit = size, worst_at, rms, limits.rms_units
    return Comparison(
        elements=size,
        wrong=wrong,
        max_units=worst,
        rms_units=rms,
        limit=limit,
        first=tuple(int(i) for i in np.unravel_index(first, got.shape)) if wrong else (),
        got=float(got.reshape(-1)[first]) if wrong else 0.0,
        expected=float(expected.value.reshape(-1)[first]) if wrong else 0.0,
    )


def wrong_elements(got: Array, expected: Expected, limits: Limits) -> npt.NDArray[np.bool_]:
    """Which elements are wrong, in the shape of the output."""
    bad = np.zeros(got.size, np.bool_)
    for begin, units in _units(got, expected, limits):
        bad[begin : begin + units.size] = units > limits.max_units
    return bad.reshape(got.shape)


def _units(got: Array, expected: Expected, limits: Limits) -> Iterator[tuple[int, Array]]:
    """Position and normalised errors (never NaN), chunk by chunk; exact chunks may be left out."""
    if got.shape != expected.value.shape:
        raise ValueError(f"output {got.shape}, reference {expected.value.shape}")
    if expected.units is not None:
        own = np.asarray(expected.units, np.float64).reshape(-1)
        yield 0, np.where(np.isnan(own), np.inf, own)
        return
    actual, target = got.reshape(-1), expected.value.reshape(-1)
    scale = None if expected.scale is None else expected.scale.reshape(-1)
    for begin in range(0, actual.size, CHUNK):
        part = slice(begin, begin + CHUNK)
        if limits.exact:
            if not np.array_equal(actual[part], target[part]):
                yield begin, _exact_units(actual[part], target[part])
        else:
            own_scale = None if scale is None else scale[part]
            yield begin, _float_units(actual[part], target[part], own_scale, limits)


def _exact_units(actual: Array, target: Array) -> Array:
    both_nan = (actual != actual) & (target != target)
    return np.where((actual == target) | both_nan, 0.0, np.inf)


def _float_units(actual: Array, target: Array, scale: Array | None, limits: Limits) -> Array:
    wanted = np.asarray(target, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        units: Array = np.subtract(actual, wanted, dtype=np.float64)
        np.abs(units, out=units)
        units /= _one_unit(wanted, scale, limits)
        if not math.isfinite(float(units.sum())):
            _settle_non_finite(units, actual, wanted)
    return units


def _one_unit(wanted: Array, scale: Array | None, limits: Limits) -> Array:
    """The absolute error that counts as one unit, per element."""
    relative = np.abs(wanted) if scale is None else scale
    measure: Array = np.multiply(relative, limits.scale_weight, dtype=np.float64)
    if limits.value_weight:
        measure += limits.value_weight * np.abs(wanted)
    np.maximum(measure, limits.floor, out=measure)
    measure *= limits.unit
    return measure


def _settle_non_finite(units: Array, actual: Array, wanted: Array) -> None:
    """Non-finite values agree only with the same value of the reference in the output's type."""
    stored = wanted.astype(actual.dtype)
    agree = (actual == stored) | (np.isnan(actual) & np.isnan(stored))
    units[~np.isfinite(units)] = np.inf
    units[agree] = 0.0
