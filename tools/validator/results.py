"""Outputs of a call against what was expected, and the verdict where they differ."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cuda_llm.outcomes import Nondeterministic, WrongResult
from cuda_llm.tasks.task import Task
from cuda_llm.tools.arrays import HOST, Array, Arrays
from cuda_llm.tools.validator.cases import Case, terms_of
from cuda_llm.tools.validator.compare import Comparison, Expected, compare, wrong_elements
from cuda_llm.tools.validator.looks_like import looks_like
from cuda_llm.tools.validator.oracle import Expectation
from cuda_llm.tools.validator.tolerances import EXACT, Limits, limits

EXACT_SUM = 2.0**24
"""Whole numbers below this are exact in float32, and so are their sums in any order."""

MOST_EXPLAINED = 1 << 22
"""Elements of the largest output that is brought to the host to say what it looks like."""


def case_limits(
    task: Task, case: Case, values: Mapping[str, Expected], arrays: Arrays = HOST
) -> Limits:
    """The limits of this case: equality where a probe makes every float32 sum exact."""
    own = limits(task.tolerance, terms_of(task, case))
    if not case.probe:
        return own
    largest = max(
        arrays.number(
            (arrays.xp.abs(expected.value) if expected.scale is None else expected.scale).max()
        )
        for expected in values.values()
    )
    return EXACT if largest < EXACT_SUM else own


def compare_outputs(
    outputs: Mapping[str, Array],
    expectation: Expectation,
    own: Limits,
    arrays: Arrays = HOST,
) -> dict[str, Comparison]:
    """Every output, by the task's own rule where it has one."""
    return {
        name: compare(outputs[name], expected, own, arrays)
        for name, expected in _with_own_units(outputs, expectation).items()
    }


def compare_repeat(
    first: Mapping[str, Array],
    second: Mapping[str, Array],
    expectation: Expectation,
    own: Limits,
    arrays: Arrays = HOST,
) -> tuple[str, ...] | Nondeterministic:
    """Two calls on the same inputs: equal bits, or float sums in another order, within a quarter
    of the tolerance. With a rule of the task's own each call has to keep it, and they may differ.
    """
    notes = []
    for name, expected in expectation.values.items():
        one, other = first[name], second[name]
        if arrays.number(arrays.xp.array_equal(one, other, equal_nan=one.dtype.kind == "f")):
            continue
        if not compare_outputs(second, expectation, own, arrays)[name].ok:
            return Nondeterministic(buffer=name, kind="order-of-execution")
        if expectation.own_rule is not None:
            continue
        reach = replace(
            own, max_units=own.max_units / 4, rms_units=max(own.rms_units, own.max_units)
        )
        wanted = replace(expected, value=one.astype(np.float64))
        gap = compare(other, wanted, reach, arrays)
        if not gap.ok:
            return Nondeterministic(
                buffer=name, kind="spread", units=gap.max_units, limit=gap.limit
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
    arrays: Arrays = HOST,
) -> WrongResult:
    """Say what is wrong with output `name`. Of a hidden size nothing is told that gives it away."""
    expected = _with_own_units(outputs, expectation)[name]
    told = tell(case, name, compare(outputs[name], expected, own, arrays))
    if outputs[name].size > MOST_EXPLAINED:
        return told
    to_host = arrays.to_host
    got = to_host(outputs[name])
    there = Expected(
        to_host(expected.value),
        None if expected.scale is None else to_host(expected.scale),
        None if expected.units is None else to_host(expected.units),
    )
    given = {key: to_host(one) for key, one in inputs.items() if one.size <= MOST_EXPLAINED}
    wrong = wrong_elements(got, there, own)
    return replace(told, looks_like=looks_like(got, there, wrong, given, case.poison))


def tell(case: Case, name: str, comparison: Comparison) -> WrongResult:
    """The figures of a comparison that went wrong, without what they look like."""
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
        wrong=None if hidden else comparison.wrong,
        elements=None if hidden else comparison.elements,
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
