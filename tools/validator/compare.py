"""Compares every element of an output with the float64 reference."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cuda_llm.tasks.element_types import ElementType, element_type
from cuda_llm.tasks.tolerances import FEWEST_FOR_RMS, ErrorLimits
from cuda_llm.tools.device.buffers import HOST, Array, Arrays
from cuda_llm.tools.validator.fused import COLUMNS, compare_on_device
from cuda_llm.tools.validator.whole_numbers import Shape

CHUNK = HOST.at_once


@dataclass(frozen=True)
class Expected:
    """Expected value of one output."""

    value: Array
    """Float64, or whole numbers for an integer output, or an input's type where values are moved;
    shape of the output."""
    scale: Array | None = None
    """Divisor of errors, as in |A||B|; None: the expected value's magnitude."""
    units: Array | None = None
    """Errors in rounding units where the task's own rule judged the output; NaN is wrong."""
    element: ElementType | None = None
    """Type of the output's elements; None where it is NumPy's of the output."""

    def numbers(self, got: Array, xp: Any) -> Array:
        """Return elements of the output as numbers; `xp` is NumPy or CuPy."""
        return got if self.element is None else self.element.decode(got, xp)

    @property
    def short(self) -> ElementType | None:
        """Return the output's type where its elements are shorter floats than fp32."""
        return self.element if self.element is not None and self.element.is_short else None


@dataclass(frozen=True, kw_only=True)
class OutputComparison:
    """Result of comparing one output."""

    elements: int
    wrong: int
    max_units: float
    """Largest normalised error; infinite where values are not finite or had to be equal."""
    rms_units: float
    limit: float
    """Largest allowed `max_units`."""
    first: tuple[int, ...] = ()
    """Index of the first wrong element; of the worst element where only the RMS is too large."""
    got: float | complex = 0.0
    expected: float | complex = 0.0

    @property
    def ok(self) -> bool:
        """Return whether no element is wrong."""
        return self.wrong == 0

    def each_is_right(self, calls: int, limits: ErrorLimits) -> bool:
        """Return whether each of `calls` calls that were compared together is surely right.

        The root mean square of one call is at most the largest error of all, and at most sqrt(n)
        times the root mean square over n calls. A call that fails here may still be right.
        """
        bound = min(self.max_units, math.sqrt(calls) * self.rms_units)
        return self.ok and bound <= limits.rms_units


def compare(
    got: Array, expected: Expected, limits: ErrorLimits, arrays: Arrays = HOST
) -> OutputComparison:
    """Compare all of `got`; NaN and infinity are right only where the reference has the same."""
    tally = Tally(limits, arrays)
    tally.add(got, expected)
    return tally.comparison()


@dataclass(frozen=True)
class _FactTable:
    """Rows of facts about one part of an output."""

    rows: Array
    begins: tuple[int, ...]
    """Position in the part from which each row counts; a single number serves all rows."""
    shape: Shape
    origin: tuple[int, ...]
    """Position of the part in the whole output."""

    def index(self, position: int) -> tuple[int, ...]:
        """Return the index in the whole output of an element of the part."""
        local = np.unravel_index(position, self.shape)
        return tuple(int(i) + o for i, o in zip(local, self.origin, strict=True))


class Tally:
    """Adds up the parts of an output. Facts stay where the arrays are until `comparison`.

    A row describes a chunk, or the elements of one thread: largest error, sum of squares, number
    of wrong elements; positions of the largest error and of the first wrong element; the values
    there; the expected values there; of complex numbers the imaginary parts of these four.
    """

    def __init__(self, limits: ErrorLimits, arrays: Arrays = HOST) -> None:
        self._limits = limits
        self._arrays = arrays
        self._tables: list[_FactTable] = []
        self._elements = 0

    def add(self, got: Array, expected: Expected, origin: tuple[int, ...] = ()) -> None:
        """Compare a part whose first element is element `origin` of the whole output."""
        if got.shape != expected.value.shape:
            raise ValueError(f"output {got.shape}, reference {expected.value.shape}")
        if not got.size:
            return
        begins = [0]
        expected, rows = _typed(expected, got), None
        if expected.units is None and expected.short is None:
            scale = expected.scale
            rows = compare_on_device(got, expected.value, scale, self._limits, self._arrays)
        if rows is None:
            chunks = list(_chunks(got.size, self._arrays.at_once))
            begins = [chunk.start for chunk in chunks]
            rows = _facts(got, expected, self._limits, chunks, self._arrays.xp)
        place = origin or (0,) * got.ndim
        self._tables.append(_FactTable(rows, tuple(begins), got.shape, place))
        self._elements += got.size

    def comparison(self) -> OutputComparison:
        """Compare all parts added so far, with one transfer to the host."""
        if not self._tables:
            limit = self._limits.max_units
            return OutputComparison(
                elements=0,
                wrong=0,
                max_units=0.0,
                rms_units=0.0,
                limit=limit,
                first=(),
                got=0.0,
                expected=0.0,
            )
        facts = self._arrays.to_host(self._arrays.xp.concatenate([t.rows for t in self._tables]))
        highest, squares, wrong = facts[:, 0], facts[:, 1], facts[:, 2]
        total, worst = int(wrong.sum()), float(highest.max())
        finite = np.isfinite(highest)
        rms = math.sqrt(sum(squares[finite].tolist()) / self._elements)
        limit, column = self._limits.max_units, 1
        chosen = wrong > 0
        if not total and self._elements >= FEWEST_FOR_RMS and rms > self._limits.rms_units:
            column, chosen = 0, highest == worst
            total, worst, limit = self._elements, rms, self._limits.rms_units
        table, row, position = self._first(facts[:, 3 + column], chosen)
        return OutputComparison(
            elements=self._elements,
            wrong=total,
            max_units=worst,
            rms_units=rms,
            limit=limit,
            first=table.index(position) if total else (),
            got=_number(facts[row], 5 + column) if total else 0.0,
            expected=_number(facts[row], 7 + column) if total else 0.0,
        )

    def _first(
        self, positions: npt.NDArray[np.float64], chosen: npt.NDArray[np.bool_]
    ) -> tuple[_FactTable, int, int]:
        """Return the first part with a chosen row, the row of its first element, its position."""
        end = 0
        for table in self._tables:
            begin, end = end, end + len(table.rows)
            if chosen[begin:end].any():
                places = np.where(chosen[begin:end], positions[begin:end] + table.begins, np.inf)
                row = int(places.argmin())
                return table, begin + row, int(places[row])
        return self._tables[0], 0, 0


def _typed(expected: Expected, got: Array) -> Expected:
    """Return what is expected with the type of the output's elements."""
    return expected if expected.element else replace(expected, element=element_type(got.dtype.name))


def _facts(
    got: Array, expected: Expected, limits: ErrorLimits, chunks: list[slice], xp: Any
) -> Array:
    stored, target = got.reshape(-1), expected.value.reshape(-1)
    is_complex = expected.element is not None and expected.element.is_complex
    table = xp.empty((len(chunks), COLUMNS + (4 if is_complex else 0)))
    for number, part in enumerate(chunks):
        actual = expected.numbers(stored[part], xp)
        units = _units(actual, expected, limits, part, xp)
        _note(table[number], units, actual, target[part], limits.max_units, xp)
    return table


def _note(facts: Array, units: Array, actual: Array, target: Array, limit: float, xp: Any) -> None:
    bad = units > limit
    places = xp.stack((units.argmax(), bad.argmax()))
    facts[0] = units.max()
    with np.errstate(over="ignore"):
        # A dot product wakes the threads of BLAS, which take longer to come than it does alone.
        facts[1] = xp.square(units).sum()
    facts[2] = bad.sum()
    facts[3:5] = places
    got, wanted = xp.take(actual, places), xp.take(target, places)
    if facts.size > COLUMNS:
        facts[9:11], facts[11:13] = got.imag, wanted.imag
        got, wanted = got.real, wanted.real
    facts[5:7], facts[7:9] = got, wanted


def _number(facts: Array, column: int) -> float | complex:
    """Return a value of a row, with its imaginary part where the row has it."""
    real = float(facts[column])
    return real if facts.size <= COLUMNS else complex(real, float(facts[column + 4]))


def wrong_elements(
    got: Array, expected: Expected, limits: ErrorLimits, arrays: Arrays = HOST
) -> npt.NDArray[np.bool_]:
    """Return which elements are wrong, in the shape of the output, on the host."""
    expected, bad, stored = _typed(expected, got), np.zeros(got.size, np.bool_), got.reshape(-1)
    for part in _chunks(got.size, arrays.at_once):
        actual = expected.numbers(stored[part], arrays.xp)
        units = _units(actual, expected, limits, part, arrays.xp)
        bad[part] = arrays.to_host(units > limits.max_units)
    return bad.reshape(got.shape)


def _chunks(size: int, at_once: int) -> Iterator[slice]:
    for begin in range(0, size, at_once):
        yield slice(begin, min(begin + at_once, size))


def _units(actual: Array, expected: Expected, limits: ErrorLimits, part: slice, xp: Any) -> Array:
    """Return normalised errors of a chunk of numbers, never NaN."""
    if expected.units is not None:
        own = xp.asarray(expected.units, np.float64).reshape(-1)[part]
        return xp.where(xp.isnan(own), np.inf, own)
    target, short = expected.value.reshape(-1)[part], expected.short
    if limits.exact and actual.dtype.kind == "c":
        each = [
            _exact_units(got, wanted, limits.bits, None, xp)
            for got, wanted in ((actual.real, target.real), (actual.imag, target.imag))
        ]
        return xp.maximum(*each)
    if limits.exact:
        return _exact_units(actual, target, limits.bits, short, xp)
    scale = None if expected.scale is None else expected.scale.reshape(-1)[part]
    if actual.dtype.kind == "c":
        return _units_of_parts(actual, target, scale, limits, xp)
    return _float_units(actual, target, scale, limits, short, xp)


def _units_of_parts(
    actual: Array, target: Array, scale: Array | None, limits: ErrorLimits, xp: Any
) -> Array:
    """Return the errors of complex numbers: max(|Re(y - y*)|, |Im(y - y*)|) / (u max(s, floor)).

    s is the scale, or else |y*|, for both parts. A part of a product is a difference of two
    products, which may cancel: rounding errors of (a + bi)(c + di) are as large as u |ac| and
    u |bd|, whatever ac - bd is, and |ac| + |bd| is at most the product of the magnitudes. Each part
    is rounded as a real sum is, so the limits are those of real results. Where |y*| is not finite,
    a part has its own magnitude as its scale.
    """
    if scale is None:
        with np.errstate(over="ignore", invalid="ignore"):
            scale = xp.abs(target)
    each = []
    for got, wanted in ((actual.real, target.real), (actual.imag, target.imag)):
        own = xp.where(xp.isfinite(scale), scale, xp.abs(wanted))
        each.append(_float_units(got, wanted, own, limits, None, xp))
    return xp.maximum(*each)


def _exact_units(
    actual: Array, target: Array, bits: bool, short: ElementType | None, xp: Any
) -> Array:
    if bits and actual.dtype == target.dtype:
        word = f"uint{8 * actual.dtype.itemsize}"
        return xp.where(actual.view(word) == target.view(word), 0.0, np.inf)
    if short is not None and target.dtype.kind == "f":
        # The exact value, rounded once: a short type may not hold it.
        with np.errstate(over="ignore"):
            target, exact = short.rounded(target, xp), target
        same = actual == target
        if short.floating.saturates:
            same |= actual == short.within_range(target, xp)
            beyond = xp.abs(exact) >= short.floating.least_infinite
            same |= beyond & (actual == xp.copysign(np.inf, exact))
    else:
        same = actual == target
    if actual.dtype.kind == "f":
        same |= (actual != actual) & (target != target)
    return xp.where(same, 0.0, np.inf)


def _float_units(
    actual: Array,
    target: Array,
    scale: Array | None,
    limits: ErrorLimits,
    short: ElementType | None,
    xp: Any,
) -> Array:
    wanted = target.astype(np.float64, copy=False)
    with np.errstate(invalid="ignore", over="ignore"):
        reached = wanted if short is None else short.within_range(wanted, xp)
        units = xp.subtract(actual, reached, dtype=np.float64)
        xp.abs(units, out=units)
        units /= _unit_of_error(reached, scale, limits, xp)
        return xp.where(xp.isfinite(units), units, _non_finite_units(actual, wanted, short, xp))


def _unit_of_error(wanted: Array, scale: Array | None, limits: ErrorLimits, xp: Any) -> Array:
    """Return the absolute error that counts as one rounding unit, for each element."""
    relative = xp.abs(wanted) if scale is None else scale
    measure = xp.multiply(relative, limits.scale_weight, dtype=np.float64)
    if limits.value_weight:
        measure += limits.value_weight * xp.abs(wanted)
    xp.maximum(measure, limits.floor, out=measure)
    measure *= limits.unit
    return measure


def _non_finite_units(actual: Array, wanted: Array, short: ElementType | None, xp: Any) -> Array:
    """Return 0 where a value equals the reference in the output's type, NaN too, else infinity.

    Beyond the range of a type that has infinities and saturates both are right: C++ leaves the
    choice to the kernel.

    A half is infinite from half a step above the largest one on, and a sum that is one step below
    that may honestly be rounded across it.
    """
    stored = wanted.astype(actual.dtype) if short is None else short.rounded(wanted, xp)
    agree = (actual == stored) | (xp.isnan(actual) & xp.isnan(stored))
    if short is not None:
        nearly = xp.abs(wanted) >= short.floating.nearly_infinite
        agree |= nearly & (actual == xp.copysign(np.inf, wanted))
    return xp.where(agree, 0.0, np.inf)
