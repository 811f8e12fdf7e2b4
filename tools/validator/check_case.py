"""One case: place, fill, call, look. Timed calls go through here too."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cuda_llm.outcomes import LateWrite, Nondeterministic, PolicyViolation, Verdict
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.task import Task
from cuda_llm.tools.arrays import HOST, Array, Arrays, Random
from cuda_llm.tools.device import CallReport, Level, Session
from cuda_llm.tools.validator.buffers import (
    Filled,
    fill,
    find_damage,
    find_late_write,
    take_outputs,
)
from cuda_llm.tools.validator.cases import POISONS, Case, inputs_of
from cuda_llm.tools.validator.compare import Comparison
from cuda_llm.tools.validator.distributions import draw
from cuda_llm.tools.validator.layout import buffer_specs, call_arguments, call_options
from cuda_llm.tools.validator.oracle import Expectation, Oracle
from cuda_llm.tools.validator.results import (
    case_limits,
    compare_outputs,
    compare_repeat,
    wrong_result,
)

NO_KERNEL = PolicyViolation(rule="no-launch", detail="the result is computed without a kernel")

PROBE_TERMS = 2048
"""So many thirteen-bit numbers sum to less than 2^24, whatever they are."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A case whose outputs are right."""

    case: Case
    report: CallReport
    comparisons: Mapping[str, Comparison]
    notes: tuple[str, ...] = ()

    @property
    def elements(self) -> int:
        """Output elements compared."""
        return sum(comparison.elements for comparison in self.comparisons.values())


async def check_case(
    task: Task,
    session: Session,
    case: Case,
    oracle: Oracle,
    rng: Random,
    arrays: Arrays = HOST,
) -> Checked | Verdict:
    """Call the candidate on fresh inputs and compare everything it was to leave alone or write."""
    inputs = draw_inputs(task, case, rng, arrays)
    expectation = await oracle(inputs, case.dims)
    if not isinstance(expectation, Expectation):
        return expectation
    first = await _call(task, session, case, inputs, rng, arrays)
    if not isinstance(first, _Call):
        return first
    own = case_limits(task, case, expectation.values, arrays)
    comparisons = compare_outputs(first.outputs, expectation, own, arrays)
    for name, comparison in comparisons.items():
        if not comparison.ok:
            # Nothing was written where nothing was launched: that is the finding then.
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
        if not isinstance(second, _Call):
            return second
        spread = compare_repeat(first.outputs, second.outputs, expectation, own, arrays)
        if isinstance(spread, Nondeterministic):
            return spread
        notes = spread
    return Checked(case=case, report=first.report, comparisons=comparisons, notes=notes)


def ran_a_kernel(report: CallReport) -> bool:
    """Whether one launch was a kernel's: copies and fills have no threads."""
    return any(all(launch.block) for launch in report.launches)


@dataclass(frozen=True)
class _Call:
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
) -> _Call | Verdict:
    placed = session.place(buffer_specs(task, case.dims))
    filled = fill(placed, inputs, case.poison, rng)
    options = call_options(task, case.dims, level=case.level, schedule_seed=case.schedule_seed)
    report = await session.call(call_arguments(task, case.dims), options)
    if not isinstance(report, CallReport):
        return report
    damage = find_damage(filled, arrays)
    if damage is not None:
        return damage
    return _Call(report, filled, take_outputs(filled))


def draw_inputs(task: Task, case: Case, rng: Random, arrays: Arrays = HOST) -> dict[str, Array]:
    """Fresh contents of every input. Probes are thinned where their sums would pass EXACT_SUM."""
    shapes = {spec.name: spec for spec in buffer_specs(task, case.dims)}
    terms = float(evaluate(task.tolerance.terms, case.dims))
    thin = PROBE_TERMS / 2 / terms if case.probe and terms > PROBE_TERMS else 1.0
    last = inputs_of(task)[-1].name if inputs_of(task) else ""
    return {
        name: draw(
            spelling,
            rng,
            shapes[name].shape,
            shapes[name].dtype,
            case.dims,
            keep=thin if name == last else 1.0,
            arrays=arrays,
        )
        for name, spelling in case.distributions.items()
    }
