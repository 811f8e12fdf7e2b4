"""Checks one case: fills buffers, calls the candidate, and compares everything the call left.

Calls that a device times by its reports are checked by `run_case`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from cuda_llm.outcomes import (
    DataRace,
    ElementKind,
    LateWrite,
    Nondeterministic,
    PolicyViolation,
    Verdict,
    WrongResult,
)
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.task import Task
from cuda_llm.tasks.tolerances import EXACT, ErrorLimits, limits
from cuda_llm.tools.device import CallReport, Level, Session
from cuda_llm.tools.device.buffers import HOST, Array, Arrays, Random
from cuda_llm.tools.validator.buffers import buffer_specs, find_late_write, stated_contents
from cuda_llm.tools.validator.call_plans import ONCE, CallPlan, Repeat, change_one, permute_one
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
from cuda_llm.tools.validator.distributions import draw, draw_made
from cuda_llm.tools.validator.find_patterns import find_element_pattern
from cuda_llm.tools.validator.float_values import EXACT_SUM
from cuda_llm.tools.validator.one_call import (
    EXTRA,
    Caller,
    CompletedCall,
    compare_repeat,
    same_bits,
)
from cuda_llm.tools.validator.oracle import (
    Expectation,
    Oracle,
    compare_outputs,
    reference_oracle,
    with_own_units,
)

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
    expected = with_own_units(outputs, expectation)[name]
    mismatch = describe_mismatch(case, name, compare(outputs[name], expected, own, arrays))
    if outputs[name].size > MOST_EXPLAINED:
        return mismatch
    to_host = arrays.to_host
    got = to_host(outputs[name])
    target = replace(
        expected,
        value=to_host(expected.value),
        scale=None if expected.scale is None else to_host(expected.scale),
        units=None if expected.units is None else to_host(expected.units),
    )
    given = {key: to_host(one) for key, one in inputs.items() if one.size <= MOST_EXPLAINED}
    wrong = wrong_elements(got, target, own)
    pattern = find_element_pattern(got, target, wrong, given, case.poison)
    return replace(mismatch, looks_like=pattern)


def describe_mismatch(case: Case, name: str, comparison: OutputComparison) -> WrongResult:
    """Return the figures of a failed comparison, without a pattern of the wrong elements."""
    hidden = case.group == "hidden"
    both = comparison.got, comparison.expected
    is_complex = any(isinstance(one, complex) for one in both)
    imaginary = (both[0].imag, both[1].imag) if is_complex else None
    return WrongResult(
        size_class=case.group,
        dims={} if hidden else dict(case.dims),
        distribution=case.label,
        buffer=name,
        index=() if hidden else comparison.first,
        got=comparison.got.real,
        expected=comparison.expected.real,
        imaginary=imaginary,
        error=comparison.max_units,
        limit=comparison.limit,
        wrong=None if hidden else comparison.wrong,
        elements=None if hidden else comparison.elements,
    )


@dataclass(frozen=True, kw_only=True)
class CheckedCase:
    """A case that the candidate passed."""

    case: Case
    report: CallReport
    comparisons: Mapping[str, OutputComparison]
    notes: tuple[str, ...] = ()
    guarded_races: tuple[DataRace, ...] = ()
    """See `CallReport`; of the first call, and of the one in another order."""

    @property
    def elements(self) -> int:
        """Return how many output elements were compared."""
        return sum(comparison.elements for comparison in self.comparisons.values())


def ignore(_inputs: Mapping[str, Array]) -> None:
    """Do nothing with them."""


async def check_case(
    task: Task,
    session: Session,
    case: Case,
    oracle: Oracle,
    rng: Random,
    arrays: Arrays = HOST,
    calls: CallPlan = ONCE,
    on_inputs: Callable[[Mapping[str, Array]], None] = ignore,
) -> CheckedCase | Verdict:
    """Call the candidate on fresh inputs; compare outputs, and that all else is unchanged.

    `calls` says where the buffers lie, and how the case is called again; `on_inputs` is called with
    the inputs before each call on others.
    """
    choices = calls.generator()
    caller = Caller(task=task, session=session, rng=rng, arrays=arrays)
    place = caller.place(case, choices)
    inputs = draw_inputs(task, case, rng, arrays)
    expectation = await oracle(inputs, case.dims)
    if not isinstance(expectation, Expectation):
        return expectation
    on_inputs(inputs)
    first = await caller.call(case, inputs, place)
    if not isinstance(first, CompletedCall):
        return first
    checked = _judge(task, case, first, inputs, expectation, arrays)
    if not isinstance(checked, CheckedCase):
        return checked
    # Elsewhere the host never has an input, and a copy on the device may do for a single element.
    may_compute = task.capabilities.device_to_host and case.level is not Level.CHECK
    if may_compute and not ran_a_kernel(first.report):
        return NO_KERNEL
    late = find_late_write(first.filled, first.outputs, arrays)
    if late is not None:
        return LateWrite(buffer=late)
    for more in range(calls.extra_calls):
        again = await caller.call_in_place(case, first, last=more + 1 == calls.extra_calls)
        if not isinstance(again, CompletedCall):
            return again
        if not same_bits(first.outputs, again.outputs, arrays):
            judged = _judge(task, case, again, inputs, expectation, arrays)
            if not isinstance(judged, CheckedCase):
                return _of_repeat(judged, EXTRA)
    for number, repeat in enumerate(calls.repeats):
        changed = None
        if repeat is Repeat.ONE_CHANGED:
            changed = change_one(
                task, case, inputs, rng, choices, arrays, calls.changed_input + number
            )
        if repeat is Repeat.PERMUTED:
            changed = permute_one(case, inputs, choices, arrays, calls.changed_input + number)
        contents = changed or draw_inputs(task, case, rng, arrays)
        wanted = await oracle(contents, case.dims)
        if not isinstance(wanted, Expectation):
            return wanted
        on_inputs(contents)
        again = await caller.call(case, contents, place)
        if not isinstance(again, CompletedCall):
            return again
        judged = _judge(task, case, again, contents, wanted, arrays)
        if not isinstance(judged, CheckedCase):
            return _of_repeat(judged, str(repeat))
    if not (case.repeat_seed or calls.elsewhere):
        return checked
    on_inputs(inputs)
    other = replace(
        case,
        schedule_seed=case.repeat_seed or case.schedule_seed,
        poison=POISONS[(POISONS.index(case.poison) + 1) % len(POISONS)],
    )
    second = await caller.call(other, inputs, caller.place(case, choices))
    if not isinstance(second, CompletedCall):
        return second
    own = case_limits(task, case, expectation.values, arrays)
    spread = compare_repeat(first.outputs, second.outputs, expectation, own, arrays)
    if not isinstance(spread, Nondeterministic):
        races = (*checked.guarded_races, *second.report.guarded_races)
        return replace(checked, notes=spread, guarded_races=races)
    # The order is not to blame where the first one gives wrong results by now, too.
    as_first = await caller.call(case, inputs, place)
    if isinstance(as_first, CompletedCall):
        judged = _judge(task, case, as_first, inputs, expectation, arrays)
        if not isinstance(judged, CheckedCase):
            return _of_repeat(judged, EXTRA)
    return spread


def _judge(
    task: Task,
    case: Case,
    call: CompletedCall,
    inputs: Mapping[str, Array],
    expectation: Expectation,
    arrays: Arrays,
) -> CheckedCase | Verdict:
    own = case_limits(task, case, expectation.values, arrays)
    comparisons = compare_outputs(call.outputs, expectation, own, arrays)
    for name, comparison in comparisons.items():
        if not comparison.ok:
            return _explanation(call.report) or _with_call_facts(
                wrong_result(case, name, call.outputs, expectation, own, inputs, arrays),
                call.report,
            )
    return CheckedCase(
        case=case,
        report=call.report,
        comparisons=comparisons,
        guarded_races=call.report.guarded_races,
    )


def _with_call_facts(wrong: WrongResult, report: CallReport) -> WrongResult:
    """Return a wrong result with what else the call shows that may explain it."""
    pattern = wrong.looks_like
    missing = pattern is not None and pattern.kind is ElementKind.UNWRITTEN
    return replace(
        wrong,
        failed_calls=report.failed_calls,
        unlaunched=report.unlaunched if missing else (),
    )


def _of_repeat(verdict: Verdict, repeat: str) -> Verdict:
    return replace(verdict, repeat=repeat) if isinstance(verdict, WrongResult) else verdict


def _explanation(report: CallReport) -> Verdict | None:
    """Return what CUDA refused of a call whose outputs are wrong: it explains them."""
    return report.refused or report.out_of_memory


def ran_a_kernel(report: CallReport) -> bool:
    """Return whether a launch was a kernel's: copies and fills have no threads."""
    if report.kernels is not None:
        return report.kernels > 0
    return any(all(launch.block) for launch in report.launches)


def draw_inputs(task: Task, case: Case, rng: Random, arrays: Arrays = HOST) -> dict[str, Array]:
    """Draw every input. Probes are made sparse where their sums would exceed EXACT_SUM."""
    specs = buffer_specs(task, case.dims)
    shapes = {spec.name: spec for spec in specs}
    densities = probe_densities(task, case)
    made = draw_made(task, case.distributions, case.dims, rng, arrays)
    drawn = {
        name: made[name]
        if name in made
        else draw(
            spelling,
            rng,
            shapes[name].shape,
            shapes[name].element,
            case.dims,
            density=densities[name],
            arrays=arrays,
        )
        for name, spelling in case.distributions.items()
    }
    return drawn | stated_contents(task, specs, case.dims, arrays)


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
    calls: CallPlan = ONCE,
) -> CallReport | Verdict:
    """Call `solve` once at `dims` on fresh inputs of the first distributions.

    Returns a report only if every output element is right and nothing else was written.
    `oracle` replaces the task's reference and is required where it has none.
    """
    nonce = fresh_nonce() if nonce is None else nonce
    rng = generator(nonce, task.name, "timed", 0, arrays)
    oracle = reference_oracle(task, arrays) if oracle is None else oracle
    case = timed_case(task, dims, level, group)
    result = await check_case(task, session, case, oracle, rng, arrays, calls)
    return result.report if isinstance(result, CheckedCase) else result
