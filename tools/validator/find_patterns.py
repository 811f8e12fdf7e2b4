"""Recognises patterns of wrong elements in an output, and of wrong cases among all cases."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cuda_llm.outcomes import CaseKind, CasePattern, ElementKind, ElementPattern, Region, RegionKind
from cuda_llm.tools.validator.cases import Case
from cuda_llm.tools.validator.compare import Expected
from cuda_llm.tools.validator.fused import bytes_of

HostArray = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

LEAST_ROUNDED = 8
"""With fewer elements, rounding to a short format and a few lost terms look the same."""

LEAST_SCALED = 4
"""With fewer wrong whole numbers, a common ratio of got to expected is an accident."""

CLOSE = 1e-5
"""Relative difference within which an element counts as the element of another place."""

ROUNDED_AWAY = 1e-7
"""The same, relative to the largest magnitude of the array: what a sum that cancels, or a subnormal
number, is rounded by."""

STEPS = (2, 4, 8, 16, 32, 64, 128, 256)
"""Divisors of an extent that kernels assume."""


def find_element_pattern(
    got: HostArray, expected: Expected, wrong: Mask, inputs: Mapping[str, HostArray], poison: int
) -> ElementPattern | None:
    """Return the first pattern that fits, with ratios instead of counts: the size may be hidden.

    `got` and `inputs` are as memory holds them.
    """
    wanted, stored = expected.value, got
    got = expected.numbers(stored, np)
    return (
        _unwritten(stored, wrong, poison)
        or _not_finite(got, wrong)
        or _uniform(got, wanted)
        or _copied(stored, inputs)
        or _rearranged(got, expected)
        or _parts(got, wanted, wrong)
        or _scaled(got, wanted, wrong)
        or _counts(got, wanted, wrong, inputs)
        or _rounded(got, expected, wrong)
        or _located(wrong)
    )


def _unwritten(got: HostArray, wrong: Mask, poison: int) -> ElementPattern | None:
    item = bytes_of(got).reshape(got.size, -1)
    untouched = (item == poison).all(axis=1).reshape(got.shape)
    if not (wrong & untouched).any():
        return None
    return ElementPattern(
        kind=ElementKind.UNWRITTEN,
        region=_region(wrong) if np.array_equal(untouched, wrong) else None,
        share=_share(untouched),
    )


def _not_finite(got: HostArray, wrong: Mask) -> ElementPattern | None:
    if got.dtype.kind not in "fc":
        return None
    bad = got[wrong]
    if np.isnan(bad).all():
        share = None if wrong.all() else _share(wrong)
        return ElementPattern(kind=ElementKind.NAN, share=share)
    return ElementPattern(kind=ElementKind.INFINITE) if np.isinf(bad).all() else None


def _uniform(got: HostArray, wanted: HostArray) -> ElementPattern | None:
    if got.size < 2 or (got != got.flat[0]).any() or (wanted == wanted.flat[0]).all():
        return None
    is_zero = got.flat[0] == 0
    return ElementPattern(kind=ElementKind.ZEROS if is_zero else ElementKind.CONSTANT)


def _copied(got: HostArray, inputs: Mapping[str, HostArray]) -> ElementPattern | None:
    for name, given in inputs.items():
        same_kind = given.size == got.size and given.dtype == got.dtype
        if got.size > 1 and same_kind and np.array_equal(given.reshape(-1), got.reshape(-1)):
            return ElementPattern(kind=ElementKind.COPIED, buffer=name)
    return None


def _rearranged(got: HostArray, expected: Expected) -> ElementPattern | None:
    wanted = expected.value
    if got.size < 4 or (wanted == wanted.flat[0]).all():
        return None
    flat, target = got.reshape(-1), wanted.reshape(-1)
    if got.ndim == 2 and min(got.shape) > 1:
        is_square = got.shape[0] == got.shape[1]
        turned = _close(got.reshape(got.shape[::-1]).T, wanted)
        if turned or (is_square and _close(got.T, wanted)):
            return ElementPattern(kind=ElementKind.TRANSPOSED)
    if _close(flat[1:], target[:-1]) or _close(flat[:-1], target[1:]):
        return ElementPattern(kind=ElementKind.SHIFTED)
    return ElementPattern(kind=ElementKind.REVERSED) if _close(flat[::-1], target) else None


def _parts(got: HostArray, wanted: HostArray, wrong: Mask) -> ElementPattern | None:
    """Recognise what is done to the parts of complex numbers."""
    if got.dtype.kind != "c":
        return None
    given, should = got[wrong], wanted[wrong]
    if _close(given, should.conj()):
        return ElementPattern(kind=ElementKind.CONJUGATED)
    swapped = np.empty_like(should)
    swapped.real, swapped.imag = should.imag, should.real
    return ElementPattern(kind=ElementKind.PARTS_SWAPPED) if _close(given, swapped) else None


def _scaled(got: HostArray, wanted: HostArray, wrong: Mask) -> ElementPattern | None:
    if got.dtype.kind == "c":
        if not np.isfinite(got[wrong]).all() or not np.isfinite(wanted[wrong]).all():
            return None
        # Both parts have one ratio, or none.
        parts = np.complex128, np.float64
        got, wanted = (one.astype(parts[0]).view(parts[1]) for one in (got, wanted))
        wrong = np.repeat(wrong, 2, axis=-1)
    some = wrong & (wanted != 0)
    whole_numbers = got.dtype.kind in "iu" and got.size > 1
    if not some.any() or (whole_numbers and some.sum() < LEAST_SCALED):
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        ratio = got[some].astype(np.float64) / wanted[some]
    factor = float(np.median(ratio))
    if (
        not np.isfinite(factor)
        or factor in (0.0, 1.0)
        or not _close(ratio, np.full_like(ratio, factor))
    ):
        return None
    for whole in range(2, 65):
        if abs(factor - whole) < 1e-4 * whole:
            return ElementPattern(kind=ElementKind.MULTIPLE, factor=whole)
        if abs(factor * whole - 1) < 1e-4:
            return ElementPattern(kind=ElementKind.FRACTION, factor=whole)
    return ElementPattern(kind=ElementKind.NEGATED) if abs(factor + 1) < 1e-4 else None


def _counts(
    got: HostArray, wanted: HostArray, wrong: Mask, inputs: Mapping[str, HostArray]
) -> ElementPattern | None:
    if got.dtype.kind not in "iu" or wanted.size < 2 or not _are_counts(wanted, inputs):
        return None
    difference = got[wrong].astype(np.float64) - wanted[wrong]
    if (np.abs(difference) == 1).all():
        more = (difference > 0).all()
        return ElementPattern(kind=ElementKind.ONE_TOO_MANY if more else ElementKind.ONE_TOO_FEW)
    if (difference < 0).all():
        lost = -float(difference.sum()) / max(float(wanted.sum()), 1.0)
        return ElementPattern(kind=ElementKind.TOO_FEW, share=lost)
    return ElementPattern(kind=ElementKind.TOO_MANY) if (difference > 0).all() else None


def _are_counts(wanted: HostArray, inputs: Mapping[str, HostArray]) -> bool:
    """Return whether every element of an input, or every input element that is an index into the
    output, is counted once: indices as of argmax have no such total."""
    if (wanted < 0).any():
        return False
    total = int(wanted.sum(dtype=np.int64))
    return any(
        total in (one.size, np.count_nonzero((one >= 0) & (one < wanted.size)))
        for one in inputs.values()
    )


def _rounded(got: HostArray, expected: Expected, wrong: Mask) -> ElementPattern | None:
    """Recognise errors as large as those of short formats, in nearly every element."""
    if got.dtype.kind != "f" or wrong.mean() < 0.3:
        return None
    scale = np.abs(expected.value) if expected.scale is None else expected.scale
    some = scale > 0
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got.astype(np.float64) - expected.value)[some] / scale[some]
    if error.size < LEAST_ROUNDED or not np.isfinite(error).all():
        return None
    biggest = float(error.max())
    if 2.0**-18 < biggest <= 2.0**-10:
        return ElementPattern(kind=ElementKind.ROUNDED_TO_TF32)
    if 2.0**-10 < biggest <= 2.0**-6:
        return ElementPattern(kind=ElementKind.ROUNDED_TO_BF16)
    return None


def _located(wrong: Mask) -> ElementPattern | None:
    region = _region(wrong)
    return None if region is None else ElementPattern(kind=ElementKind.LOCATED, region=region)


def _region(wrong: Mask) -> Region | None:
    """Return the region that the wrong elements form, or None."""
    if wrong.all():
        return None
    flat = np.flatnonzero(wrong)
    if flat.size == 1 and wrong.size > 2:
        only = {0: RegionKind.FIRST_ELEMENT, wrong.size - 1: RegionKind.LAST_ELEMENT}
        kind = only.get(int(flat[0]))
        return None if kind is None else Region(kind=kind)
    if wrong.ndim == 2 and min(wrong.shape) > 1:
        rows, columns = np.asarray(wrong.any(axis=1)), np.asarray(wrong.any(axis=0))
        if _is_tail(rows) and not rows.all() and wrong[rows].all():
            return Region(kind=RegionKind.LAST_ROWS, share=_share(rows))
        if _is_tail(columns) and not columns.all() and wrong[:, columns].all():
            return Region(kind=RegionKind.LAST_COLUMNS, share=_share(columns))
        tails = _is_tail(rows) and _is_tail(columns)
        if tails and not rows.all() and not columns.all():
            return Region(kind=RegionKind.LAST_CORNER)
    if _is_tail(wrong.reshape(-1)):
        return Region(kind=RegionKind.LAST_ELEMENTS, share=_share(wrong))
    period = _period(flat)
    return Region(kind=RegionKind.EVERY_NTH, period=period) if period else None


def _is_tail(mask: Mask) -> bool:
    begin = int(mask.argmax())
    return bool(mask[begin:].all())


def _period(flat: HostArray) -> int:
    if flat.size < 4:
        return 0
    steps = np.diff(flat)
    return int(steps[0]) if steps[0] > 1 and (steps == steps[0]).all() else 0


def _close(one: HostArray, other: HostArray) -> bool:
    """Return whether the elements are equal but for rounding."""
    with np.errstate(invalid="ignore", over="ignore"):
        wide = np.complex128 if "c" in (one.dtype.kind, other.dtype.kind) else np.float64
        gap = np.abs(one.astype(wide) - other)
        size = np.abs(other.astype(wide))
        least = ROUNDED_AWAY * size.max(initial=0.0, where=np.isfinite(size))
        return bool((gap <= np.maximum(CLOSE * size, least)).all())


def _share(mask: Mask) -> float:
    return float(mask.mean())


@dataclass(frozen=True)
class JudgedCase:
    """A case, and whether the candidate passed it."""

    case: Case
    right: bool


PredictedCases = tuple[CasePattern, Sequence[bool]]
"""A pattern, and for each case whether it would be wrong by it."""


def find_case_pattern(judged: Sequence[JudgedCase]) -> CasePattern | None:
    """Return the first simple rule that separates right from wrong cases exactly."""
    cases = [one.case for one in judged]
    wrong = [not one.right for one in judged]
    if len(judged) < 3 or all(wrong) or not any(wrong):
        return None
    for pattern, predicted in _rules(cases, wrong):
        if list(predicted) == wrong:
            return pattern
    return None


def _rules(cases: Sequence[Case], wrong: Sequence[bool]) -> Iterator[PredictedCases]:
    yield CasePattern(kind=CaseKind.EXACTNESS_PROBE), [case.probe for case in cases]
    yield from _size_rules(cases)
    names = list(cases[0].dims)
    for name in names:
        yield from _threshold_rules(name, cases, wrong)
    labels = sorted({case.label for case, bad in zip(cases, wrong, strict=True) if bad})
    if len(labels) <= 2:
        yield (
            CasePattern(kind=CaseKind.DISTRIBUTION, distributions=tuple(labels)),
            [case.label in labels for case in cases],
        )


def _size_rules(cases: Sequence[Case]) -> Iterator[PredictedCases]:
    names = list(cases[0].dims)
    pairs = list(itertools.combinations(names, 2))
    for step in STEPS:
        for dims in [(name,) for name in names] + pairs:
            yield (
                CasePattern(kind=CaseKind.MULTIPLE_OF, dims=dims, step=step),
                [any(case.dims[name] % step for name in dims) for case in cases],
            )
    for one, other in pairs:
        yield (
            CasePattern(kind=CaseKind.EQUAL_DIMS, dims=(one, other)),
            [case.dims[one] != case.dims[other] for case in cases],
        )


def _threshold_rules(
    name: str, cases: Sequence[Case], wrong: Sequence[bool]
) -> Iterator[PredictedCases]:
    """Yield bounds on a dim, taken from sizes that may be shown; hidden ones have to agree."""
    shown = [
        (c.dims[name], bad) for c, bad in zip(cases, wrong, strict=True) if c.group != "hidden"
    ]
    bad_sizes = [size for size, bad in shown if bad]
    good_sizes = [size for size, bad in shown if not bad]
    if not bad_sizes or not good_sizes:
        return
    low, high = max(good_sizes), min(bad_sizes)
    yield (
        CasePattern(kind=CaseKind.ABOVE, dims=(name,), right_at=low, wrong_at=high),
        [case.dims[name] > low for case in cases],
    )
    high, low = max(bad_sizes), min(good_sizes)
    yield (
        CasePattern(kind=CaseKind.BELOW, dims=(name,), right_at=low, wrong_at=high),
        [case.dims[name] < low for case in cases],
    )
