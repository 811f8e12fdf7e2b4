"""Outputs of a call against what was expected, and the verdict where they differ."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cuda_llm.outcomes import Nondeterministic, WrongResult
from cuda_llm.tasks.task import Task
from cuda_llm.tools.validator.cases import Case, terms_of
from cuda_llm.tools.validator.compare import Comparison, Expected, compare, wrong_elements
from cuda_llm.tools.validator.looks_like import looks_like
from cuda_llm.tools.validator.oracle import Expectation
from cuda_llm.tools.validator.tolerances import EXACT, Limits, limits

Array = npt.NDArray[Any]

EXACT_SUM = 2.0**24
"""Whole numbers below this are exact in float32, and so are their sums in any order."""


def case_limits(task: Task, case: Case, values: Mapping[str, Expected]) -> Limits:
    """The limits of this case: equality where a probe makes every float32 sum exact."""
    own = limits(task.tolerance, terms_of(task, case))
    if not case.probe:
        return own
    largest = max(
        float(np.max(np.abs(expected.value) if expected.scale is None else expected.scale))
        for expected in values.values()
    )
    return EXACT if largest < EXACT_SUM else own


def compare_outputs(
    outputs: Mapping[str, Array], expectation: Expectation, own: Limits
) -> dict[str, Comparison]:
    """Every output, by the task's own rule where it has one."""
    return {
        name: compare(outputs[name], expected, own)
        for name, expected in _with_own_units(outputs, expectation).items()
    }


def compare_repeat(
    first: Mapping[str, Array], second: Mapping[str, Array], expectation: Expectation, own: Limits
) -> tuple[str, ...] | Nondeterministic:
    """Two calls on the same inputs: equal bits, or float sums in another order, within a quarter
    of the tolerance. With a rule of the task's own each call has to keep it, and they may differ.
    """
    notes = []
    for name, expected in expectation.values.items():
        one, other = first[name], second[name]
        if np.array_equal(one, other, equal_nan=one.dtype.kind == "f"):
            continue
        if not compare_outputs(second, expectation, own)[name].ok:
            return Nondeterministic(
                buffer=name,
                detail="right with one order of blocks and warps, wrong with another: "
                "threads depend on an order nothing enforces",
            )
        if expectation.own_rule is not None:
            continue
        reach = replace(
            own, max_units=own.max_units / 4, rms_units=max(own.rms_units, own.max_units)
        )
        gap = compare(other, replace(expected, value=one.astype(np.float64)), reach)
        if not gap.ok:
            return Nondeterministic(
                buffer=name,
                detail=f"two calls on the same inputs differ by {gap.max_units:.3g} rounding "
                f"units, more than a quarter of the tolerance ({gap.limit:.3g})",
            )
        notes.append(
            f"{name} depends on the order of execution, by at most {gap.max_units:.2g} "
            "rounding units"
        )
    return tuple(notes)


def wrong_result(
    case: Case,
    name: str,
    outputs: Mapping[str, Array],
    expectation: Expectation,
    own: Limits,
    inputs: Mapping[str, Array],
) -> WrongResult:
    """Say what is wrong with output `name`. Of a hidden size nothing is told that gives it away."""
    got = outputs[name]
    expected = _with_own_units(outputs, expectation)[name]
    comparison = compare(got, expected, own)
    wrong = wrong_elements(got, expected, own)
    hidden = case.group == "hidden"
    return WrongResult(
        size_class=case.group,
        dims={} if hidden else dict(case.dims),
        distribution=case.label,
        buffer=name,
        index=() if hidden else comparison.first,
        got=comparison.got,
        expected=comparison.expected,
        error=comparison.max_units,
        limit=comparison.limit,
        wrong=0 if hidden else comparison.wrong,
        elements=0 if hidden else comparison.elements,
        looks_like=looks_like(got, expected, wrong, inputs, case.poison),
    )


def _with_own_units(
    outputs: Mapping[str, Array], expectation: Expectation
) -> Mapping[str, Expected]:
    if expectation.own_rule is None:
        return expectation.values
    units = expectation.own_rule(outputs)
    return {
        name: replace(expected, units=units[name]) for name, expected in expectation.values.items()
    }
