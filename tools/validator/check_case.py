"""Checks one case: fills buffers, calls the candidate, and compares everything it left.

Calls that a device times by its reports are checked here too, by `run_case`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from cuda_llm.failures import PolicyViolation
from cuda_llm.outcomes import LateWrite, Nondeterministic, Verdict, WrongResult
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import CallReport, Level, Session
from cuda_llm.tools.device.buffers import HOST, Array, Arrays, Random
from cuda_llm.tools.validator.buffers import (
    Filled,
    buffer_specs,
    call_arguments,
    call_options,
    copy_outputs,
    fill,
    find_damage,
    find_late_write,
)
from cuda_llm.tools.validator.cases import (
    POISONS,
    Case,
    fresh_nonce,
    generator,
    probe_densities,
    terms_of,
    timed_case,
)
from cuda_llm.tools.validator.compare import Expected, OutputComparison, compare, wrong_elements
from cuda_llm.tools.validator.distributions import draw
from cuda_llm.tools.validator.find_patterns import find_element_pattern
from cuda_llm.tools.validator.oracle import Expectation, Oracle, reference_oracle
from cuda_llm.tools.validator.tolerances import EXACT, ErrorLimits, limits

EXACT_SUM = 2.0**24
"""Whole numbers below this are exact in float32, and so are their sums in any order."""

MOST_EXPLAINED = 1 << 22
"""Elements of the largest output that is copied to the host to recognise its pattern."""


NO_KERNEL = PolicyViolation(rule="no-launch")


def case_limits(
    task: Task, case: Case, values: Mapping[str, Expected], arrays: Arrays = HOST
) -> ErrorLimits:
    """Return the limits of this case: equality where a probe makes every float32 sum exact."""
    own = limits(task.tolerance, terms_of(task, case))
    if not case.probe or own.exact:
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
    own: ErrorLimits,
    arrays: Arrays = HOST,
) -> dict[str, OutputComparison]:
    """Compare every output, by the task's own rule where it has one."""
    return {
        name: compare(outputs[name], expected, own, arrays)
        for name, expected in _with_own_units(outputs, expectation).items()
    }


def compare_repeat(
    first: Mapping[str, Array],
    second: Mapping[str, Array],
    expectation: Expectation,
    own: ErrorLimits,
    arrays: Arrays = HOST,
) -> tuple[str, ...] | Nondeterministic:
    """Compare two calls on the same inputs; return notes on sums that depend on the order.

    Outputs have equal bits, or differ by at most a quarter of the tolerance. With a rule of the
    task's own each call has to satisfy it, and they may differ.
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
    own: ErrorLimits,
    inputs: Mapping[str, Array],
    arrays: Arrays = HOST,
) -> WrongResult:
    """Describe what is wrong with output `name`, without what would reveal a hidden size."""
    expected = _with_own_units(outputs, expectation)[name]
    mismatch = describe_mismatch(case, name, compare(outputs[name], expected, own, arrays))
    if outputs[name].size > MOST_EXPLAINED:
        return mismatch
    to_host = arrays.to_host
    got = to_host(outputs[name])
    target = Expected(
        to_host(expected.value),
        None if expected.scale is None else to_host(expected.scale),
        None if expected.units is None else to_host(expected.units),
    )
    given = {key: to_host(one) for key, one in inputs.items() if one.size <= MOST_EXPLAINED}
    wrong = wrong_elements(got, target, own)
    pattern = find_element_pattern(got, target, wrong, given, case.poison)
    return replace(mismatch, looks_like=pattern)


def describe_mismatch(case: Case, name: str, comparison: OutputComparison) -> WrongResult:
    """Return the figures of a failed comparison, without a pattern of the wrong elements."""
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


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A case that the candidate passed."""

    case: Case
    report: CallReport
    comparisons: Mapping[str, OutputComparison]
    notes: tuple[str, ...] = ()

    @property
    def elements(self) -> int:
        """Return how many output elements were compared."""
        return sum(comparison.elements for comparison in self.comparisons.values())


async def check_case(
    task: Task,
    session: Session,
    case: Case,
    oracle: Oracle,
    rng: Random,
    arrays: Arrays = HOST,
) -> Checked | Verdict:
    """Call the candidate on fresh inputs; compare outputs, and that all else is unchanged."""
    inputs = draw_inputs(task, case, rng, arrays)
    expectation = await oracle(inputs, case.dims)
    if not isinstance(expectation, Expectation):
        return expectation
    first = await _call(task, session, case, inputs, rng, arrays)
    if not isinstance(first, _CompletedCall):
        return first
    own = case_limits(task, case, expectation.values, arrays)
    comparisons = compare_outputs(first.outputs, expectation, own, arrays)
    for name, comparison in comparisons.items():
        if not comparison.ok:
            # A refused launch explains outputs that were not written.
            return first.report.refused or wrong_result(
                case, name, first.outputs, expectation, own, inputs, arrays
            )
    if case.level is not Level.CHECK and not ran_a_kernel(first.report):
        return NO_KERNEL
    late = find_late_write(first.filled, first.outputs, arrays)
    if late is not None:
        return LateWrite(buffer=late)
    notes: tuple[str, ...] = ()
    if case.repeat_seed:
        again = replace(
            case,
            schedule_seed=case.repeat_seed,
            poison=POISONS[(POISONS.index(case.poison) + 1) % len(POISONS)],
        )
        second = await _call(task, session, again, inputs, rng, arrays)
        if not isinstance(second, _CompletedCall):
            return second
        spread = compare_repeat(first.outputs, second.outputs, expectation, own, arrays)
        if isinstance(spread, Nondeterministic):
            return spread
        notes = spread
    return Checked(case=case, report=first.report, comparisons=comparisons, notes=notes)


def ran_a_kernel(report: CallReport) -> bool:
    """Return whether one launch was a kernel's: copies and fills have no threads."""
    return any(all(launch.block) for launch in report.launches)


@dataclass(frozen=True)
class _CompletedCall:
    report: CallReport
    filled: Filled
    outputs: Mapping[str, Array]


async def _call(
    task: Task,
    session: Session,
    case: Case,
    inputs: Mapping[str, Array],
    rng: Random,
    arrays: Arrays,
) -> _CompletedCall | Verdict:
    placed = session.place(buffer_specs(task, case.dims))
    filled = fill(placed, inputs, case.poison, rng)
    options = call_options(task, case.dims, level=case.level, schedule_seed=case.schedule_seed)
    report = await session.call(call_arguments(task, case.dims), options)
    if not isinstance(report, CallReport):
        return report
    damage = find_damage(filled, arrays)
    if damage is not None:
        return damage
    return _CompletedCall(report, filled, copy_outputs(filled))


def draw_inputs(task: Task, case: Case, rng: Random, arrays: Arrays = HOST) -> dict[str, Array]:
    """Draw every input. Probes are made sparse where their sums would exceed EXACT_SUM."""
    shapes = {spec.name: spec for spec in buffer_specs(task, case.dims)}
    densities = probe_densities(task, case)
    return {
        name: draw(
            spelling,
            rng,
            shapes[name].shape,
            shapes[name].dtype,
            case.dims,
            density=densities[name],
            arrays=arrays,
        )
        for name, spelling in case.distributions.items()
    }


async def run_case(
    task: Task,
    session: Session,
    dims: Dims,
    *,
    level: Level = Level.CHECK,
    group: str = "emulated",
    oracle: Oracle | None = None,
    nonce: bytes | None = None,
    arrays: Arrays = HOST,
) -> CallReport | Verdict:
    """Call `solve` once at `dims` on fresh inputs of the first distributions.

    Returns a report only if every output element is right and nothing else was written.
    `oracle` replaces the task's reference and is required where it has none.
    """
    nonce = fresh_nonce() if nonce is None else nonce
    rng = generator(nonce, task.name, "timed", 0, arrays)
    oracle = reference_oracle(task, arrays) if oracle is None else oracle
    case = timed_case(task, dims, level, group)
    result = await check_case(task, session, case, oracle, rng, arrays)
    return result.report if isinstance(result, Checked) else result
