"""Recognise what a wrong output looks like, in words that help to mend the kernel."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cuda_llm.tools.validator.buffers import bytes_of
from cuda_llm.tools.validator.compare import Expected

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

LEAST_ROUNDED = 8
"""Fewer elements than this do not tell a short format from a few terms that were lost."""


def looks_like(
    got: Array, expected: Expected, wrong: Mask, inputs: Mapping[str, Array], poison: int
) -> str:
    """One phrase, or nothing. Ratios instead of counts: the size may be hidden."""
    wanted = expected.value
    for phrase in (
        _unwritten(got, wrong, poison),
        _not_finite(got, wrong),
        _uniform(got, wanted),
        _copied(got, wanted, inputs),
        _rearranged(got, expected),
        _scaled(got, wanted, wrong),
        _counts(got, wanted, wrong),
        _rounded(got, expected, wrong),
        _place(wrong),
    ):
        if phrase:
            return phrase
    return ""


def _unwritten(got: Array, wrong: Mask, poison: int) -> str:
    item = bytes_of(got).reshape(got.size, -1)
    untouched = (item == poison).all(axis=1).reshape(got.shape)
    if not (wrong & untouched).any():
        return ""
    if untouched.all():
        return "the output is never written"
    if np.array_equal(untouched, wrong):
        place = _place(wrong)
        return "never written: " + (place or f"{_share(wrong)} of the elements")
    return f"{_share(untouched)} of the elements are never written"


def _not_finite(got: Array, wrong: Mask) -> str:
    if got.dtype.kind != "f":
        return ""
    bad = got[wrong]
    nan = np.isnan(bad)
    if nan.all():
        return "NaN" if wrong.all() else f"NaN in {_share(wrong)} of the elements"
    if np.isinf(bad).all():
        return "infinity: an overflow or a division by zero"
    return ""


def _uniform(got: Array, wanted: Array) -> str:
    if got.size < 2 or (got != got.flat[0]).any() or (wanted == wanted.flat[0]).all():
        return ""
    return "all zeros" if got.flat[0] == 0 else "one constant everywhere"


def _copied(got: Array, wanted: Array, inputs: Mapping[str, Array]) -> str:
    for name, given in inputs.items():
        same_kind = given.size == got.size and given.dtype == got.dtype
        if got.size > 1 and same_kind and np.array_equal(given.reshape(-1), got.reshape(-1)):
            return f"a copy of {name}"
    return ""


def _rearranged(got: Array, expected: Expected) -> str:
    wanted = expected.value
    if got.size < 4 or (wanted == wanted.flat[0]).all():
        return ""
    flat, target = got.reshape(-1), wanted.reshape(-1)
    if got.ndim == 2 and min(got.shape) > 1:
        if _close(got.reshape(got.shape[::-1]).T, wanted):
            return "the transpose of what it should be"
        if got.shape[0] == got.shape[1] and _close(got.T, wanted):
            return "the transpose of what it should be"
    if _close(flat[1:], target[:-1]) or _close(flat[:-1], target[1:]):
        return "every element is one place off"
    if _close(flat[::-1], target):
        return "in reverse order"
    return ""


def _scaled(got: Array, wanted: Array, wrong: Mask) -> str:
    some = wrong & (wanted != 0)
    if not some.any():
        return ""
    with np.errstate(invalid="ignore", over="ignore"):
        ratio = got[some].astype(np.float64) / wanted[some]
    factor = float(np.median(ratio))
    if (
        not np.isfinite(factor)
        or factor in (0.0, 1.0)
        or not _close(ratio, np.full_like(ratio, factor))
    ):
        return ""
    for whole in range(2, 65):
        if abs(factor - whole) < 1e-4 * whole:
            return f"{whole} times what it should be: terms are counted {whole} times"
        if abs(factor * whole - 1) < 1e-4:
            return f"one {whole}th of what it should be: most terms are lost"
    return "the negative of what it should be" if abs(factor + 1) < 1e-4 else ""


def _counts(got: Array, wanted: Array, wrong: Mask) -> str:
    if got.dtype.kind not in "iu" or wanted.size < 2:
        return ""
    difference = got[wrong].astype(np.float64) - wanted[wrong]
    if (np.abs(difference) == 1).all():
        return "off by one: " + ("too many" if (difference > 0).all() else "too few")
    if (difference < 0).all():
        return f"too few: {-difference.sum() / max(float(wanted.sum()), 1.0):.2g} of all are lost"
    if (difference > 0).all():
        return "too many: counters are not reset, or values are counted twice"
    return ""


def _rounded(got: Array, expected: Expected, wrong: Mask) -> str:
    """Errors as large as short formats leave, in nearly every element."""
    if got.dtype.kind != "f" or wrong.mean() < 0.3:
        return ""
    scale = np.abs(expected.value) if expected.scale is None else expected.scale
    some = scale > 0
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got.astype(np.float64) - expected.value)[some] / scale[some]
    if error.size < LEAST_ROUNDED or not np.isfinite(error).all():
        return ""
    biggest = float(error.max())
    if 2.0**-18 < biggest <= 2.0**-10:
        return "rounding to TF32 or half precision: the task asks for strict float32"
    if 2.0**-10 < biggest <= 2.0**-6:
        return "rounding to bfloat16, or sums kept in half precision"
    return ""


def _place(wrong: Mask) -> str:
    """Where the wrong elements are, if that is one region."""
    if wrong.all():
        return ""
    flat = np.flatnonzero(wrong)
    if flat.size == 1 and wrong.size > 2:
        return {0: "the first element only", wrong.size - 1: "the last element only"}.get(
            int(flat[0]), ""
        )
    if wrong.ndim == 2 and min(wrong.shape) > 1:
        rows, columns = np.asarray(wrong.any(axis=1)), np.asarray(wrong.any(axis=0))
        if _is_tail(rows) and not rows.all() and wrong[rows].all():
            return _tail("rows", rows)
        if _is_tail(columns) and not columns.all() and wrong[:, columns].all():
            return _tail("columns", columns)
        tails = _is_tail(rows) and _is_tail(columns)
        if tails and not rows.all() and not columns.all():
            return "the last corner: the last rows and columns"
    if _is_tail(wrong.reshape(-1)):
        return _tail("elements", wrong.reshape(-1))
    period = _period(flat)
    return f"every {period}th element" if period else ""


def _is_tail(mask: Mask) -> bool:
    begin = int(mask.argmax())
    return bool(mask[begin:].all())


def _tail(what: str, mask: Mask) -> str:
    return f"the last {what} are wrong ({_share(mask)} of them): a tail or last tile"


def _period(flat: Array) -> int:
    if flat.size < 4:
        return 0
    steps = np.diff(flat)
    return int(steps[0]) if steps[0] > 1 and (steps == steps[0]).all() else 0


def _close(one: Array, other: Array) -> bool:
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(one.astype(np.float64) - other)
        return bool((gap <= 1e-5 * np.maximum(np.abs(other), 1e-30)).all())


def _share(mask: Mask) -> str:
    return f"{100 * float(mask.mean()):.2g} %"
